"""Only the browser that was given the address has access, only from the studio's own page, under its own host name."""

import re

import pytest
from starlette.testclient import TestClient

from regard.studio.auth import MOST_TICKETS, TICKET_SECONDS, Access, Guard
from regard.studio.server import web_file

from .cases import HOST, KEY, OWN, client, studio

ADDRESSES = [
    ("GET", "/start"), ("GET", "/models"), ("POST", "/web/sources/frames.js"), ("POST", "/read"), ("GET", "/session"),
    ("POST", "/generate"), ("POST", "/open"), ("POST", "/ask/x/describe"), ("GET", "/jobs/x"), ("DELETE", "/jobs/x"),
    ("DELETE", "/readings/x"), ("GET", "/nothing"), ("OPTIONS", "/read"), ("TRACE", "/"), ("PUT", "/read"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), ADDRESSES)
def test_nothing_is_answered_without_the_key(method, path):
    access = Access(KEY)
    ticket = access.ticket()
    wrong = ("wrong", KEY[:-1], ticket, "é", "")
    for given in ("", KEY, f"Ticket {KEY}", "Bearer", *(f"Bearer {one}" for one in wrong)):
        stranger = client(signed_in=False, access=access, headers={"Origin": OWN, "Authorization": given.encode()})
        reply = stranger.request(method, path)
        assert reply.status_code == 401 and "error" in reply.json()
        stranger.headers["Cookie"] = f"regard={KEY}"
        assert stranger.request(method, path).status_code == 401


@pytest.mark.parametrize("path", ["/", "/web/sources/frames.js"])
def test_the_page_and_its_modules_hold_no_secret(path):
    access = Access(KEY)
    ticket = access.ticket()
    reply = client(signed_in=False, access=access).get(path)
    assert reply.status_code == 200 and KEY not in reply.text and ticket not in reply.text
    assert client(signed_in=False).post(path).status_code == 401


def test_a_ticket_gives_the_key_once_and_no_cookie():
    access = Access(KEY)
    ticket, other = access.ticket(), access.ticket()
    browser = client(signed_in=False, access=access)
    reply = browser.post("/session", headers={"Authorization": f"Ticket {ticket}"})
    assert reply.json() == {"key": KEY} and "set-cookie" not in reply.headers
    again = browser.post("/session", headers={"Authorization": f"Ticket {ticket}"})
    assert again.status_code == 401 and KEY not in again.text and "works once" in again.json()["error"]
    assert browser.post("/session", headers={"Authorization": f"Ticket {other}"}).json() == {"key": KEY}
    assert browser.get("/models", headers={"Authorization": f"Bearer {KEY}"}).status_code == 200


def test_requests_as_an_address_is_previewed_leave_the_ticket_valid():
    access = Access(KEY)
    ticket = access.ticket()
    browser = client(signed_in=False, access=access)
    for method in ("GET", "HEAD", "OPTIONS"):
        browser.request(method, f"/?ticket={ticket}")
        browser.request(method, "/session", headers={"Authorization": f"Ticket {ticket}"})
    assert access.redeem(ticket)


@pytest.mark.parametrize("ticket", ["", "wrong", "thé", KEY])
def test_a_wrong_ticket_is_refused(ticket):
    access = Access(KEY)
    access.ticket()
    given = {"Authorization": f"Ticket {ticket}".encode()}
    reply = client(signed_in=False, access=access).post("/session", headers=given)
    assert reply.status_code == 401 and KEY not in reply.text


def test_a_ticket_expires():
    now = 0.0
    access = Access(KEY, clock=lambda: now)
    first, second = access.ticket(), access.ticket()
    now = TICKET_SECONDS - 1
    assert access.redeem(first)
    now = TICKET_SECONDS
    reply = client(signed_in=False, access=access).post("/session", headers={"Authorization": f"Ticket {second}"})
    assert reply.status_code == 401 and "for 10 minutes" in reply.json()["error"]


def test_of_many_tickets_only_the_latest_are_valid():
    access = Access()
    tickets = [access.ticket() for _ in range(MOST_TICKETS + 1)]
    assert [access.redeem(ticket) for ticket in tickets] == [False] + [True] * MOST_TICKETS


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8000",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "",
        "0.0.0.0",
        "10.0.0.1",
        f"{HOST}, evil.example",
        f"{HOST} evil.example",
        f"{HOST}; evil.example",
        "127.0.0.1:8000@evil.example",
        "127.0.0.1:80:80",
        "127.0.0.1:",
        "[::1]evil.example",
    ],
)
def test_other_host_names_are_refused(host):
    for path in ("/", "/models"):
        reply = client(headers={"Host": host, "Origin": f"http://{host}"}).get(path)
        assert reply.status_code == 421


@pytest.mark.parametrize("host", [HOST, "localhost:9999", "LOCALHOST", "[::1]:8000", "127.0.0.1"])
def test_its_own_names_are_known_at_any_port(host):
    assert client(headers={"Host": host}).get("/models").status_code == 200


def test_ip_addresses_are_accepted_when_listening_on_all_of_them():
    browser = TestClient(Guard(studio().application(), Access(), any_address=True), base_url=OWN)
    answers = [browser.get("/", headers={"Host": host}) for host in ("192.168.1.4:8000", "evil.example")]
    assert [answer.status_code for answer in answers] == [200, 421]


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:8000", "http://127.0.0.1:8001", ""]
)
@pytest.mark.parametrize(("method", "path"), [("POST", "/read"), ("GET", "/models"), ("DELETE", "/jobs/x")])
def test_other_origins_are_refused(origin, method, path):
    assert client(headers={"Origin": origin}).request(method, path, json={}).status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_cross_site_requests_are_refused(site):
    assert client(headers={"Sec-Fetch-Site": site}).get("/models").status_code == 403
    assert client(headers={"Sec-Fetch-Site": site, "Origin": OWN}).post("/read", json={"text": "a"}).status_code == 403


def test_the_page_itself_may_be_opened_from_a_link():
    assert client(headers={"Sec-Fetch-Site": "cross-site"}).get("/").status_code == 200


def test_a_change_needs_to_say_where_it_comes_from():
    assert client(headers={}).post("/read", json={"text": "a"}).status_code == 403
    assert client(headers={"Sec-Fetch-Site": "same-origin"}).post("/read", json={"text": "a"}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/models", "/web/page/theme.css", "/nothing", "/jobs/x"])
def test_every_answer_carries_the_strict_headers(path):
    reply = client().get(path)
    policy = reply.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self' 'wasm-unsafe-eval';" in policy
    assert policy.count("unsafe") == 1 and "worker-src blob:;" in policy and "frame-ancestors 'none'" in policy
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in reply.headers


def test_the_page_has_no_script_or_style_of_its_own():
    page = client().get("/").text
    assert "<style" not in page and " style=" not in page and " onload" not in page
    assert page.count("<script") == 1 and '<script type="module" src="/web/studio_bundle.js"></script>' in page


@pytest.mark.parametrize(
    "path",
    ["../server.py", "..%2fserver.py", "%2e%2e/server.py", "hosts/../../server.py", "/etc/passwd", "gone.js",
     "C:\\windows", "__init__.py", "hosts", "", "sources/frames.js%00.css", "sources/frames.js/", "..\\server.py",
     "x" * 5000, "a/" * 5000 + "x.js"],
)  # fmt: skip
def test_no_other_file_is_served(path):
    reply = client().get(f"/web/{path}")
    assert reply.status_code in (404, 307, 421, 403) and "import" not in reply.text
    with pytest.raises(Exception, match="no such file"):
        web_file(path)


def test_the_page_needs_two_files():
    page = client().get("/").text
    for path in re.findall(r'(?:src|href)="(/[^"]+)"', page):
        reply = client().get(path)
        assert reply.status_code == 200 and "\nimport " not in reply.text
    assert client().get("/web/studio_bundle.js").headers["content-type"] == "text/javascript; charset=utf-8"
    assert ".regard-sentence-word" in client().get("/web/studio_bundle.css").text
    kernels = client().get("/web/engine/regard.wasm")
    assert kernels.headers["content-type"] == "application/wasm" and kernels.content.startswith(b"\0asm")


def test_the_modules_are_served_unchanged():
    reply = client().get("/web/sources/frames.js")
    assert reply.headers["content-type"] == "text/javascript; charset=utf-8"
    assert "export function unpack" in reply.text

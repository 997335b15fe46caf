"""Only the browser that was given the address has access, only from the studio's own page, under its own host name."""

import pytest

from regard.studio.auth import Guard
from regard.studio.server import web_file

from .cases import HOST, OWN, SECRETS, client, studio

ADDRESSES = [
    ("GET", "/"), ("GET", "/start"), ("GET", "/models"), ("GET", "/web/frames.js"), ("POST", "/read"),
    ("POST", "/generate"), ("POST", "/open"), ("POST", "/ask/x/describe"), ("GET", "/jobs/x"), ("DELETE", "/jobs/x"),
    ("DELETE", "/readings/x"), ("GET", "/nothing"), ("OPTIONS", "/read"), ("TRACE", "/"), ("PUT", "/read"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), ADDRESSES)
def test_nothing_is_answered_without_the_cookie(method, path):
    for cookie in ("", "wrong", SECRETS.session[:-1], SECRETS.token):
        stranger = client(signed_in=False)
        if cookie:
            stranger.cookies.set("regard", cookie)
        reply = stranger.request(method, path)
        assert reply.status_code == 403 and "error" in reply.json()


def test_the_first_address_gives_a_strict_cookie():
    browser = client(signed_in=False)
    reply = browser.get("/", params={"token": SECRETS.token})
    cookie = reply.headers["set-cookie"]
    assert reply.status_code == 200
    assert all(part in cookie for part in (SECRETS.session, "HttpOnly", "SameSite=Strict", "Path=/"))
    assert SECRETS.token not in reply.text and SECRETS.session not in reply.text
    assert browser.get("/models").status_code == 200


@pytest.mark.parametrize("token", ["", "wrong", "the-toke", "the-token-", "thé-token", SECRETS.session])
def test_a_wrong_token_is_refused(token):
    reply = client(signed_in=False).get("/", params={"token": token})
    assert reply.status_code == 403 and "set-cookie" not in reply.headers


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
    ],
)
def test_other_host_names_are_refused(host):
    for path in ("/", "/models", f"/?token={SECRETS.token}"):
        reply = client(headers={"Host": host, "Origin": f"http://{host}"}).get(path)
        assert reply.status_code == 421 and "set-cookie" not in reply.headers


@pytest.mark.parametrize("host", [HOST, "localhost:9999", "LOCALHOST", "[::1]:8000", "127.0.0.1"])
def test_its_own_names_are_known_at_any_port(host):
    assert client(headers={"Host": host}).get("/models").status_code == 200


def test_ip_addresses_are_accepted_when_listening_on_all_of_them():
    guard = Guard(studio().application(), SECRETS, any_address=True)
    assert guard._check_host({"host": "192.168.1.4:8000"}) is None
    with pytest.raises(Exception, match="name"):
        guard._check_host({"host": "evil.example"})


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


@pytest.mark.parametrize("path", ["/", "/models", "/web/theme.css", "/nothing", "/jobs/x"])
def test_every_answer_carries_the_strict_headers(path):
    reply = client().get(path)
    policy = reply.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy
    assert "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in reply.headers


def test_the_page_has_no_script_or_style_of_its_own():
    page = client().get("/").text
    assert "<style" not in page and " style=" not in page and " onload" not in page
    assert page.count("<script") == 1 and '<script type="module" src="/web/hosts/studio.js"></script>' in page


@pytest.mark.parametrize(
    "path",
    ["../server.py", "..%2fserver.py", "%2e%2e/server.py", "hosts/../../server.py", "/etc/passwd", "gone.js",
     "__init__.py", "hosts", "", "frames.js%00.css", "frames.js/", "C:\\windows", "..\\server.py", "x" * 5000,
     "a/" * 5000 + "x.js"],
)  # fmt: skip
def test_no_other_file_is_served(path):
    reply = client().get(f"/web/{path}")
    assert reply.status_code in (404, 307, 421, 403) and "import" not in reply.text
    with pytest.raises(Exception, match="no such file"):
        web_file(path)


def test_the_modules_are_served_unchanged():
    reply = client().get("/web/frames.js")
    assert reply.headers["content-type"] == "text/javascript; charset=utf-8"
    assert "export function unpack" in reply.text

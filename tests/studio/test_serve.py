"""A real server on this machine: its address, its answers, and no process left after it is killed."""

import fcntl
import logging
import os
import re
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
from contextlib import ExitStack, contextmanager
from copy import copy
from pathlib import Path

import httpx
import pytest

from regard.errors import OptionError
from regard.studio.serve import _socket
from regard.viewer import frames

from ..patterns import search

SOURCE = Path(__file__).parents[2] / "src"
COUNT = 5000  # tokens, so that a matrix counts as long


COMMAND = [sys.executable, "-m", "regard", "studio", "--synthetic", str(COUNT)]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SOURCE)}


@pytest.fixture
def server():
    running = subprocess.Popen(
        [*COMMAND, "--no-browser"], stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, start_new_session=True
    )
    try:
        yield running
    finally:
        ended(running)


def ended(running):
    if running.poll() is None:
        running.kill()
    running.wait(30)
    if running.stderr:
        running.stderr.close()


@contextmanager
def opened(server):
    """A browser that opened the address the server printed."""
    with signed_in(search(r"http://\S+", server.stderr.readline())[0]) as browser:
        yield browser


@contextmanager
def signed_in(address):
    own, _, ticket = address.partition("/#ticket=")
    with httpx.Client(base_url=own, headers={"Origin": own}, timeout=60, trust_env=False) as browser:
        reply = browser.post("/session", headers={"Authorization": f"Ticket {ticket}"})
        assert reply.status_code == 200, reply.text
        browser.headers["Authorization"] = f"Bearer {reply.json()['key']}"
        yield browser


def leave_in_the_middle(browser, reading):
    """Request a pass over all weights, and disconnect without waiting for it."""
    body = b'{"layer": 0, "head": 0, "shape": [64, 64]}'
    request = browser.build_request(
        "POST", f"/ask/{reading}/tile", content=body, headers={"Content-Type": "application/json"}
    )
    head = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
    with socket.create_connection((request.url.host, request.url.port)) as connection:
        connection.sendall(f"POST {request.url.path} HTTP/1.1\r\n{head}\r\n".encode() + body)


def is_empty(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_real_server_answers_its_browser_alone(server):
    with opened(server) as browser:
        assert httpx.get(f"{browser.base_url}/start", trust_env=False).status_code == 401
        begun = browser.get("/start").json()
        whole = {"layer": 0, "head": 0, "rows": [0, COUNT], "columns": [0, COUNT], "shape": [64, 64]}
        reply = browser.post(f"/ask/{begun['reading']}/tile", json={**whole, "quality": "exact"})
        header, arrays = frames.unpack(reply.content)
        assert header["exact"] and arrays["weight"].shape == (64, 64)
        assert float(arrays["weight"].mean()) == pytest.approx(1 / COUNT, rel=1e-2)  # cells have 78 or 79 rows
        assert "server" not in reply.headers


def test_the_address_holds_what_the_page_opens_with():
    options = ["--no-browser", "--layer", "0", "--head", "3", "--query", "où & là"]
    running = subprocess.Popen([*COMMAND, *options], stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    try:
        assert running.stderr is not None
        address = running.stderr.readline().strip()
        assert re.search(r"#ticket=[\w-]+&layer=0&head=3&query=o%C3%B9%20%26%20l%C3%A0$", address)
    finally:
        ended(running)


@pytest.mark.skipif(os.name == "nt", reason="process groups are POSIX's")
@pytest.mark.parametrize("by", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_killing_it_leaves_no_process(server, by):
    with opened(server) as browser:
        leave_in_the_middle(browser, browser.get("/start").json()["reading"])
        server.send_signal(getattr(signal, by))
        server.wait(30)
    assert is_empty(server.pid)


def test_a_port_in_use_gives_a_one_line_error():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OptionError, match=f"port {port}"):
            _socket("127.0.0.1", port)


@pytest.mark.parametrize("host", ["no such host", "300.1.1.1", "x" * 300])
def test_an_invalid_host_gives_a_one_line_error(host):
    with pytest.raises(OptionError, match="cannot listen"):
        _socket(host, 0)


@pytest.mark.skipif(os.name == "nt", reason="the browser is a shell script")
def test_the_browser_gets_the_address_through_a_file_of_the_user_alone(tmp_path):
    script, got = tmp_path / "browser", tmp_path / "got"
    script.write_text(
        f"""#!{sys.executable}
import os, shutil, sys, urllib.parse
path = urllib.parse.urlsplit(sys.argv[1]).path
modes = [oct(os.stat(one).st_mode & 0o777) for one in (path, os.path.dirname(path))]
open({str(got)!r} + ".part", "w").write("\\n".join([sys.argv[1], *modes, open(path).read()]))
os.replace({str(got)!r} + ".part", {str(got)!r})
""",
        encoding="utf-8",
    )
    script.chmod(0o755)
    environment = {**ENVIRONMENT, "BROWSER": f"{script} %s", "TMPDIR": str(tmp_path)}
    running = subprocess.Popen(COMMAND, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True)
    try:
        assert running.stderr is not None
        said = running.stderr.readline()
        wait_until(got.exists)
        opened, of_file, of_folder, page = got.read_text(encoding="utf-8").split("\n", 3)
        address = search(r"url=(http://[^\"]+)", page)[1]
        assert opened.startswith("file:") and (of_file, of_folder) == ("0o600", "0o700")
        assert "ticket" not in said + opened and said.split()[4] == address.partition("#")[0]
        with signed_in(address) as browser:
            assert browser.get("/start").status_code == 200
        wait_until(lambda: not list(tmp_path.glob("regard-*/*")))  # the file is deleted once it was used
        running.send_signal(signal.SIGINT)
        running.wait(30)
        assert list(tmp_path.glob("regard-*")) == []
    finally:
        ended(running)


@pytest.mark.skipif(os.name == "nt", reason="pseudo-terminals are POSIX's")
def test_enter_prints_an_address_for_another_browser():
    import pty

    ours, theirs = pty.openpty()

    def take_the_terminal() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    running = subprocess.Popen(
        [*COMMAND, "--no-browser"], stdin=theirs, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
        preexec_fn=take_the_terminal,
    )  # fmt: skip
    try:
        assert running.stderr is not None
        lines = iter(running.stderr.readline, "")
        first = search(r"http://\S+", next(lines))[0]
        assert any("Enter prints an address" in line for line in lines)
        os.write(ours, b"\n")
        second = search(r"http://\S+", next(lines))[0]
        assert first != second
        for address in (first, second):
            with signed_in(address) as browser:
                assert browser.get("/start").status_code == 200
    finally:
        os.close(ours)
        os.close(theirs)
        ended(running)


@pytest.mark.parametrize(
    "path", ["/" + "x" * 300, "/" + "x" * 30_000, "/" + "x" * 60_000, "/web/" + "x" * 30_000, "/web/" + "a/" * 9_000,
             "/ask/" + "x" * 20_000 + "/row", "/jobs/" + "9" * 9_000, "/web/%00.js", "/web/" + "x" * 250 + ".js",
             "/?" + "x" * 20_000, "/web/" + "é" * 150 + ".js", "/open?name=" + "x" * 20_000]
)  # fmt: skip
def test_an_over_long_path_is_a_client_error(path, real):
    address, key = real
    for method in ("GET", "POST", "DELETE"):
        headers = {"Authorization": f"Bearer {key}", "Origin": address, "Content-Type": "application/json"}
        reply = httpx.request(method, address + path, headers=headers, content=b"{}", trust_env=False)
        assert reply.status_code < 500, path[:20]


@pytest.fixture
def real(monkeypatch):
    """The address of a real server in this process, with short time limits, and its key."""
    import uvicorn

    from regard.studio import connections, server
    from regard.studio.auth import Access, Guard

    from .cases import studio

    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.1)
    monkeypatch.setattr(server, "BODY_SECONDS", 0.1)
    listening, access = _socket("127.0.0.1", 0), Access()
    guard = Guard(studio().application(), access)
    settings = uvicorn.Config(
        guard, http=connections.LimitedConnection, log_level="critical", ws="none",
        h11_max_incomplete_event_size=1 << 15,
    )  # fmt: skip
    running = uvicorn.Server(settings)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}", access.key
    running.should_exit = True
    thread.join(30)
    listening.close()


STRANGE = {
    "a second host name": "GET /models HTTP/1.1\r\nHost: {host}, evil.example\r\n{known}\r\n",
    "two hosts": "GET /models HTTP/1.1\r\nHost: {host}\r\nHost: evil.example\r\n{known}\r\n",
    "the host continued on the next line": "GET /models HTTP/1.1\r\nHost: {host}\r\n evil.example\r\n{known}\r\n",
    "no host": "GET /models HTTP/1.1\r\n{known}\r\n",
    "no host, HTTP/1.0": "GET /models HTTP/1.0\r\n{known}\r\n",
    "another host in the request line": "GET http://evil.example/models HTTP/1.1\r\nHost: evil.example\r\n{known}\r\n",
    "two keys": "GET /models HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer x\r\n{known}\r\n",
    "two origins": "GET /models HTTP/1.1\r\nHost: {host}\r\nOrigin: http://evil.example\r\n{known}\r\n",
    "two lengths": "POST /read HTTP/1.1\r\nHost: {host}\r\nContent-Length: 2\r\nContent-Length: 5\r\n{known}\r\n{{}}",
    "a length that is not a number": "POST /read HTTP/1.1\r\nHost: {host}\r\nContent-Length: +2\r\n{known}\r\n{{}}",
    "a chunk that is not one": "POST /read HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n{known}\r\nzz\r\n",
}


@pytest.mark.parametrize("name", STRANGE)
def test_strange_requests_are_client_errors_even_with_the_key(name, real):
    address, key = real
    host = address.removeprefix("http://")
    known = f"Authorization: Bearer {key}\r\nOrigin: {address}\r\nContent-Type: application/json\r\n"
    with socket.create_connection(tuple(host.split(":"))) as connection:
        connection.settimeout(60)
        connection.sendall(STRANGE[name].format(host=host, known=known).encode())
        answer = connection.recv(1 << 16)
    assert re.match(rb"HTTP/1.1 4\d\d ", answer), answer[:200]


HALVES = {
    "nothing": "",
    "half a line": "GET / HT",
    "half the headers": "GET / HTTP/1.1\r\nHost: {host}\r\n",
    "no body": "POST /read HTTP/1.1\r\nHost: {host}\r\nContent-Length: 50\r\n{known}\r\n",
    "half a body": "POST /read HTTP/1.1\r\nHost: {host}\r\nContent-Length: 50\r\n{known}\r\n{{",
    "half a body of a stranger": "POST /read HTTP/1.1\r\nHost: {host}\r\nContent-Length: 50\r\n\r\n{{",
    "half a second request": "GET / HTTP/1.1\r\nHost: {host}\r\n\r\nGET / HT",
}


def test_half_open_connections_end(real):
    address, key = real
    host = address.removeprefix("http://")
    known = f"Authorization: Bearer {key}\r\nOrigin: {address}\r\nContent-Type: application/json\r\n"
    with ExitStack() as open_now:
        connections = {}
        for name, half in HALVES.items():
            connections[name] = open_now.enter_context(socket.create_connection(tuple(host.split(":"))))
            connections[name].sendall(half.format(host=host, known=known).encode())
        for name, connection in connections.items():
            connection.settimeout(60)
            try:
                while connection.recv(1 << 16):
                    pass  # until the server closes it
            except TimeoutError:
                pytest.fail(f"{name}: the connection stays open")


def test_a_client_that_stops_reading_is_disconnected_and_nothing_is_logged(real, monkeypatch, caplog):
    from regard.studio import connections

    monkeypatch.setattr(connections, "STALLED_SECONDS", 0.1)
    lost: list[object] = []
    close = connections.LimitedConnection.connection_lost

    def recorded(self, exc):
        lost.append(self)
        close(self, exc)

    monkeypatch.setattr(connections.LimitedConnection, "connection_lost", recorded)
    address, _ = real
    host = address.removeprefix("http://")
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        name, port = host.split(":")
        client.connect((name, int(port)))
        client.settimeout(60)
        client.sendall(f"GET /web/studio_bundle.js HTTP/1.1\r\nHost: {host}\r\n\r\n".encode() * 50)
        wait_until(lambda: lost)
    assert [record.getMessage() for record in caplog.records if record.name != "httpx"] == []


@pytest.mark.skipif(os.name == "nt", reason="files without a name are POSIX's")
@pytest.mark.parametrize("by", ["the server", "the browser"])
def test_an_upload_killed_half_way_leaves_nothing(tmp_path, by):
    environment = {**ENVIRONMENT, "TMPDIR": str(tmp_path)}
    running = subprocess.Popen(
        [*COMMAND, "--no-browser"], stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    try:
        with opened(running) as browser:
            host, port = browser.base_url.host, browser.base_url.port
            head = "".join(f"{name}: {value}\r\n" for name, value in browser.headers.items())
            with socket.create_connection((host, port)) as connection:
                connection.sendall(
                    f"POST /open HTTP/1.1\r\nHost: {host}:{port}\r\n{head}Content-Length: 9000000\r\n\r\n".encode()
                )
                connection.sendall(b"x" * 4_000_000)
                browser.get("/models")  # in between, the server has stored some of it
                if by == "the server":
                    running.kill()
                    running.wait(30)
            if by == "the browser":
                assert browser.get("/models").status_code == 200
        assert list(tmp_path.iterdir()) == []
    finally:
        ended(running)


def wait_until(holds):
    for _ in range(600):
        if holds():
            return
        threading.Event().wait(0.05)
    pytest.fail("It did not come to pass within 30 s.")


def test_a_flood_of_connections_costs_no_descriptors_and_is_said_once(real, monkeypatch, caplog):
    from regard.studio import connections

    monkeypatch.setattr(connections, "HEADER_SECONDS", 60)
    monkeypatch.setattr(connections, "MOST", 8)
    monkeypatch.setattr(connections.LimitedConnection, "has_reported", False)
    address, key = real
    host, port = address.removeprefix("http://").split(":")
    with ExitStack() as flood:
        strangers = [flood.enter_context(socket.create_connection((host, port))) for _ in range(50)]
        reply = httpx.get(f"{address}/models", headers={"Authorization": f"Bearer {key}"}, trust_env=False)
        assert reply.status_code == 200
        for stranger in strangers:
            stranger.settimeout(0)
        open_still = [one for one in strangers if select.select([one], [], [], 0)[0] == []]
        assert len(open_still) <= 8
    said = [record for record in caplog.records if record.name == "regard.studio"]
    assert [record.getMessage() for record in said] == [
        "More than 8 connections at once: the oldest are closed. This is reported once."
    ]


def test_a_flood_of_malformed_requests_is_said_once():
    running = subprocess.Popen([*COMMAND, "--no-browser"], stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    upgrade = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
    try:
        with opened(running) as browser:
            where = browser.base_url.host, browser.base_url.port
            for request in [b"\x16\x03\x01 not HTTP\r\n\r\n", upgrade] * 10:
                with socket.create_connection(where, timeout=60) as stranger:
                    stranger.sendall(request)
                    assert stranger.recv(64).startswith(b"HTTP/1.1 ")
        running.terminate()
        assert running.stderr is not None
        said = running.stderr.read().splitlines()[1:]  # after the address
        assert said == ["WARNING:  Some requests are not HTTP, or ask for what is not served. This is reported once."]
    finally:
        ended(running)


def test_descriptors_that_run_out_are_said_once():
    from regard.studio.connections import REPORTED_ONCE

    once = copy(REPORTED_ONCE["asyncio"])

    def record(message):
        return logging.LogRecord("asyncio", logging.ERROR, "", 0, message, (), (OSError, OSError(), None))

    records = [record("socket.accept() out of system resource") for _ in range(3)]
    assert [once.filter(one) for one in records] == [True, False, False]
    assert records[0].getMessage()[:29] == "No connection can be accepted" and records[0].exc_info is None
    assert once.filter(record("anything else"))


@pytest.mark.skipif(os.name == "nt", reason="sessions are POSIX's")
def test_it_runs_without_a_controlling_terminal():
    leader, follower = os.openpty()
    running = subprocess.Popen(  # a terminal as standard input, in a session that it does not control
        [*COMMAND, "--no-browser"], stdin=follower, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
        start_new_session=True,
    )  # fmt: skip
    try:
        with opened(running) as browser:
            assert browser.get("/models").status_code == 200
    finally:
        ended(running)
        os.close(leader)
        os.close(follower)


@pytest.mark.parametrize(("host", "warns"), [("0.0.0.0", True), ("192.0.2.7", True), ("127.0.0.2", False)])
def test_listening_beyond_this_machine_warns_of_plain_http(host, warns, monkeypatch):
    import uvicorn

    from regard.studio import serve

    from .cases import studio

    monkeypatch.setattr(serve, "_socket", lambda _host, port: _socket("127.0.0.1", port))
    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: None)
    lines: list[str] = []
    serve.serve(studio, host=host, browser=False, tell=lines.append)
    assert any("plain HTTP, which can be overheard" in line for line in lines) == warns

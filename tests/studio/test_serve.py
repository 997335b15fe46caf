"""A real server on this machine: its address, its answers, and no process left after it is killed."""

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from regard.errors import OptionError
from regard.studio.serve import _socket
from regard.viewer import frames

SOURCE = Path(__file__).parents[2] / "src"
COUNT = 5000  # tokens, so that a matrix counts as long


@pytest.fixture
def server():
    command = [sys.executable, "-m", "regard", "studio", "--no-browser", "--synthetic", str(COUNT)]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True)
    try:
        yield running
    finally:
        if running.poll() is None:
            running.kill()
        running.wait(30)
        running.stderr.close()


@contextmanager
def opened(server):
    """A browser that opened the address the server printed."""
    address = re.search(r"http://\S+", server.stderr.readline())[0]
    own = address.partition("/?")[0]
    with httpx.Client(base_url=own, headers={"Origin": own}, timeout=60, trust_env=False) as browser:
        assert browser.get(address).status_code == 200
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
        assert httpx.get(f"{browser.base_url}/start", trust_env=False).status_code == 403
        begun = browser.get("/start").json()
        whole = {"layer": 0, "head": 0, "rows": [0, COUNT], "columns": [0, COUNT], "shape": [64, 64]}
        reply = browser.post(f"/ask/{begun['reading']}/tile", json={**whole, "quality": "exact"})
        header, arrays = frames.unpack(reply.content)
        assert header["exact"] and arrays["weight"].shape == (64, 64)
        assert float(arrays["weight"].mean()) == pytest.approx(1 / COUNT, rel=1e-3)
        assert "server" not in reply.headers


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

"""Access control: only the browser that was given the address, and only from the studio's own page."""

from __future__ import annotations

import ipaddress
import json
import secrets
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

Scope = Any
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
SAFE_METHODS = ("GET", "HEAD")
MOST_HEADERS = 1 << 14  # bytes
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
)
# A SameSite=Strict cookie is not sent on a redirect that follows a link from another site, but is from our own page.
# The script forwards at once and keeps the URL fragment; without JavaScript, the meta refresh does it after a second.
WELCOME = (
    b'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="1;url=/">'
    b'<script src="/web/hosts/welcome.js"></script><link rel="icon" href="data:,">'
    b"<title>Regard</title></head><body></body></html>"
)


@dataclass(frozen=True)
class Secrets:
    """The token of the printed address, and the session cookie it is exchanged for."""

    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    session: str = field(default_factory=lambda: secrets.token_urlsafe(32))


class Refused(Exception):
    """A refused request: HTTP status and reason."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class Guard:
    """Wraps the application; checks every request first."""

    application: Application
    secrets: Secrets
    hosts: frozenset[str] = LOCAL  # accepted host names
    any_address: bool = False  # accept any IP address: when listening on all of them
    cookie: str = "regard"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.application(scope, receive, send)
            return
        headers = _headers(scope)
        try:
            self._check_host(headers)
            self._check_site(scope, headers)
            if scope["path"] == "/" and scope["method"] == "GET" and scope["query_string"]:
                await self._welcome(scope, send)
                return
            self._check_cookie(headers)
        except Refused as problem:
            await refuse(send, problem.status, str(problem))
            return
        await self.application(scope, receive, _with_headers(send))

    def _check_host(self, headers: dict[str, str]) -> None:
        """Against DNS rebinding."""
        name = _host_name(headers.get("host", ""))
        if name not in self.hosts and not (self.any_address and _is_address(name)):
            raise Refused(421, "Unknown host name.")

    def _check_site(self, scope: Scope, headers: dict[str, str]) -> None:
        """Against cross-site requests: only the start page may be opened from elsewhere."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        own = f"http://{headers['host']}"
        if origin is not None and origin != own:
            raise Refused(403, "Cross-site requests are refused.")
        opens = scope["path"] == "/" and scope["method"] == "GET"
        if site is not None and site not in ("same-origin", "none") and not opens:
            raise Refused(403, "Cross-site requests are refused.")
        if scope["method"] not in SAFE_METHODS and origin is None and site != "same-origin":
            raise Refused(403, "The Origin header is missing.")

    def _check_cookie(self, headers: dict[str, str]) -> None:
        for part in headers.get("cookie", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == self.cookie and _same(value, self.secrets.session):
                return
        raise Refused(403, "Not signed in: open the address that `regard studio` printed, which contains the token.")

    async def _welcome(self, scope: Scope, send: Send) -> None:
        """The printed address: exchange its token for a session cookie."""
        given = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=8).get("token", [""])
        if not _same(given[0], self.secrets.token):
            raise Refused(403, "The token is wrong: open the address that `regard studio` printed.")
        cookie = f"{self.cookie}={self.secrets.session}; HttpOnly; SameSite=Strict; Path=/"
        await _reply(send, 200, WELCOME, b"text/html; charset=utf-8", [(b"set-cookie", cookie.encode())])


async def refuse(send: Send, status: int, sentence: str) -> None:
    """Answer with an error as JSON."""
    await _reply(send, status, json.dumps({"error": sentence}).encode(), b"application/json", [])


async def _reply(send: Send, status: int, body: bytes, kind: bytes, more: Iterable[tuple[bytes, bytes]]) -> None:
    length = (b"content-length", str(len(body)).encode())
    headers = [(b"content-type", kind), length, *HEADERS, *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _with_headers(send: Send) -> Send:
    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            known = {name.lower() for name, _ in message["headers"]}
            message["headers"] = [*message["headers"], *(pair for pair in HEADERS if pair[0] not in known)]
        await send(message)

    return sending


def _headers(scope: Scope) -> dict[str, str]:
    """Headers by name; repeated ones are joined, so that a duplicate Host or Origin matches nothing."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        found[key] = f"{found[key]}; {text}" if key in found else text
    return found


def _host_name(host: str) -> str:
    """The host name without its port.

    >>> _host_name("LOCALHOST:8000"), _host_name("[::1]:8000"), _host_name("127.0.0.1")
    ('localhost', '::1', '127.0.0.1')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _same(one: str, other: str) -> bool:
    return secrets.compare_digest(one.encode(), other.encode())

"""Access control: only the browser that was given the address, and only from the studio's own page.

The address holds a ticket in its fragment, which no request line, log or referrer contains. The page exchanges it for
the key (POST /session), once and within ten minutes, keeps the key in its origin's storage, and sends it with every
request. A cookie would go to every port of the machine. The page and the viewer's modules are public: they contain
nothing of the user's.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

Scope = Any
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_TICKETS = 8
TICKET_SECONDS = 600.0  # that an address stays valid
MINUTES = f"{TICKET_SECONDS / 60:g}"
LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
SAFE_METHODS = ("GET", "HEAD")
SESSION = "/session"
_HOST = re.compile(r"(?P<name>[a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?", re.IGNORECASE | re.ASCII)
POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; worker-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
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


class Access:
    """One-time tickets, and the key they are exchanged for."""

    def __init__(self, key: str | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.key = key or secrets.token_urlsafe(32)
        self.redeemed = threading.Event()  # set once a ticket was exchanged
        self._tickets: dict[str, float] = {}  # and when each was made
        self._clock = clock
        self._lock = threading.Lock()

    def ticket(self) -> str:
        """A new ticket, valid once and for `TICKET_SECONDS`; the oldest of more than a few expires."""
        made = secrets.token_urlsafe(32)
        with self._lock:
            self._tickets = dict([*list(self._tickets.items())[1 - MOST_TICKETS :], (made, self._clock())])
        return made

    def redeem(self, ticket: str) -> bool:
        """Whether the ticket is valid; from now on it is not."""
        with self._lock:
            latest = self._clock() - TICKET_SECONDS
            valid = {other: made for other, made in self._tickets.items() if made > latest}
            self._tickets = {other: made for other, made in valid.items() if not _same(other, ticket)}
            is_valid = len(self._tickets) < len(valid)
        if is_valid:
            self.redeemed.set()
        return is_valid


NEW_ADDRESS = "Press Enter in the terminal where `regard studio` runs: it prints a new address."
NOT_SIGNED_IN = f"This browser is not signed in. {NEW_ADDRESS}"


class Refused(Exception):
    """A refused request: HTTP status, reason, and what the page needs to offer a way out."""

    def __init__(self, status: int, sentence: str, **details: Any) -> None:
        super().__init__(sentence)
        self.status = status
        self.details = details


@dataclass(frozen=True)
class Guard:
    """Wraps the application; checks every request first."""

    application: Application
    access: Access
    hosts: frozenset[str] = LOCAL  # accepted host names
    any_address: bool = False  # accept any IP address: when listening on all of them

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.application(scope, receive, send)
            return
        headers, application = _headers(scope), self.application
        # The page itself and the viewer's modules are public: a browser requests them without the key.
        is_page = scope["method"] in SAFE_METHODS and (scope["path"] == "/" or scope["path"].startswith("/web/"))
        host = _host_name(headers.get("host", ""))
        try:
            if host not in self.hosts and not (self.any_address and address_of(host)):  # against DNS rebinding
                raise Refused(421, "Unknown host name.")
            self._check_site(scope, headers)
            if scope["path"] == SESSION and scope["method"] == "POST":
                application = self._sign_in(headers)
            elif not is_page and not _same(_credential(headers, "Bearer"), self.access.key):
                raise Refused(401, NOT_SIGNED_IN)
        except Refused as problem:
            application = _reply({"error": str(problem)}, problem.status)

        async def sending(message: Any) -> None:
            """With the strict headers."""
            if message["type"] == "http.response.start":
                names = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(pair for pair in HEADERS if pair[0] not in names)]
            await send(message)

        await application(scope, receive, sending)

    def _check_site(self, scope: Scope, headers: dict[str, str]) -> None:
        """Against cross-site requests: only the start page may be opened from elsewhere."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        own_origin = f"http://{headers['host']}"
        if origin is not None and origin != own_origin:
            raise Refused(403, "Cross-site requests are refused.")
        opens = scope["path"] == "/" and scope["method"] == "GET"
        if site is not None and site not in ("same-origin", "none") and not opens:
            raise Refused(403, "Cross-site requests are refused.")
        if scope["method"] not in SAFE_METHODS and origin is None and site != "same-origin":
            raise Refused(403, "The Origin header is missing.")

    def _sign_in(self, headers: dict[str, str]) -> Application:
        """Exchange the ticket of an address for the key."""
        if not self.access.redeem(_credential(headers, "Ticket")):
            why = f"This address has been used, is too old or is wrong; each works once, for {MINUTES} minutes."
            raise Refused(401, f"{why} {NEW_ADDRESS}")
        return _reply({"key": self.access.key})


def _reply(content: Any, status: int = 200) -> Application:
    from starlette.responses import JSONResponse  # imported here: an error that says it is missing needs this module

    answer: Application = JSONResponse(content, status)
    return answer


def _credential(headers: dict[str, str], scheme: str) -> str:
    sent_scheme, _, value = headers.get("authorization", "").partition(" ")
    return value if sent_scheme == scheme else ""


def _headers(scope: Scope) -> dict[str, str]:
    """Headers by name; repeated ones are joined, so that a duplicate Host or Origin matches nothing."""
    values: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        values[key] = f"{values[key]}; {text}" if key in values else text
    return values


def _host_name(host: str) -> str:
    """The host name without its port; empty if the header is anything but one name.

    >>> _host_name("LOCALHOST:8000"), _host_name("[::1]:8000"), _host_name("127.0.0.1:80, evil.example")
    ('localhost', '::1', '')
    """
    match = _HOST.fullmatch(host)
    return match["name"].strip("[]").lower() if match else ""


def address_of(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address that a host is named by, if it is."""
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _same(first: str, second: str) -> bool:
    return secrets.compare_digest(first.encode(), second.encode())

"""Starts the server, and hands its first address to the browser."""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote, urlencode

from regard.errors import OptionError, require
from regard.studio.auth import LOCAL, MINUTES, Access, Guard, address_of

ALL_ADDRESSES = ("0.0.0.0", "::")
WAITING = 16  # connections that asyncio accepts at once, before any of them is counted
SLOW_BROWSER = 15.0  # seconds after which the address is printed as well
# Opened from disk, it forwards to the studio: the address is never on a command line, which every user could read.
FORWARD = (
    '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
    '<meta http-equiv="refresh" content="0;url={address}"><title>Regard</title></head><body></body></html>\n'
)


def serve(
    studio: Callable[[], Any], *, host: str = "127.0.0.1", port: int = 0, browser: bool = True,
    chosen: Mapping[str, Any] | None = None, tell: Callable[[str], None],
) -> None:  # fmt: skip
    """Serve until interrupted; `studio` creates the `Studio`, `tell` prints the address.

    chosen   what the page opens with: layer, head, query; None is chosen by the page
    """
    require("The studio", "starlette", "uvicorn")
    import uvicorn

    from regard.studio.connections import REPORTED_ONCE, LimitedConnection

    listening = _socket(host, port)
    bound, access = listening.getsockname()[1], Access()
    made = studio()
    guard = Guard(
        made.application(), access, LOCAL | {host.lower(), socket.gethostname().lower()} - set(ALL_ADDRESSES),
        any_address=host in ALL_ADDRESSES,
    )  # fmt: skip
    name = "127.0.0.1" if host in ALL_ADDRESSES else f"[{host}]" if ":" in host else host
    own_address = f"http://{name}:{bound}/"
    options = {name: value for name, value in (chosen or {}).items() if value is not None}
    selected = f"&{urlencode(options, quote_via=quote)}" if options else ""
    settings = uvicorn.Config(
        guard, http=LimitedConnection, log_level="warning", access_log=False, server_header=False, date_header=False,
        lifespan="on", timeout_graceful_shutdown=1, timeout_keep_alive=30, h11_max_incomplete_event_size=1 << 15,
        ws="none", backlog=WAITING,
    )  # fmt: skip
    for name, once in REPORTED_ONCE.items():
        logging.getLogger(name).addFilter(once)

    def address() -> str:
        return f"{own_address}#ticket={access.ticket()}{selected}"

    with ExitStack() as opened:
        if browser and _has_display():  # the request waits in the socket's queue until the server runs
            tell(f"The studio is at {own_address} and opens in the browser.")
            opened.enter_context(_in_browser(address, access, tell))
        else:
            tell(f"The studio is at {address()}\nThis address works once, in one browser, for {MINUTES} minutes.")
            if "SSH_CONNECTION" in os.environ:
                tell(f"From your own machine, connect by: ssh -L {bound}:{name}:{bound} …, and open the address there.")
        by_number = address_of(host)
        if not (host.lower() in LOCAL if by_number is None else by_number.is_loopback):
            tell(
                f"It listens on {host}: anyone who can reach this machine and has an unused address can use it.\n"
                "It speaks plain HTTP, which can be overheard on the way, the studio's key included. In a network\n"
                f"that you do not trust, leave --host out and connect by ssh -L {bound}:127.0.0.1:{bound} …"
            )
        if _may_read_terminal():
            tell("Enter prints an address for another browser, Ctrl+C ends the studio.")
            threading.Thread(target=_print_addresses, args=(address, tell), daemon=True).start()
        try:
            uvicorn.Server(settings).run(sockets=[listening])
        except KeyboardInterrupt:
            pass
        finally:
            made.close()
            listening.close()


@contextmanager
def _in_browser(address: Callable[[], str], access: Access, tell: Callable[[str], None]) -> Iterator[None]:
    """Open the browser with a page that forwards to the address; the page is deleted once it has been used."""
    with TemporaryDirectory(prefix="regard-", ignore_cleanup_errors=True) as folder:  # a folder of mode 0700
        path = Path(folder, "studio.html")
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(FORWARD.format(address=escape(address())))

        def open_it() -> None:
            opened = webbrowser.open(path.as_uri())
            if not (opened and access.redeemed.wait(SLOW_BROWSER)) and not over.is_set():
                tell(f"No browser has opened the studio yet. This works once, for {MINUTES} minutes: {address()}")
            access.redeemed.wait()
            path.unlink(missing_ok=True)

        over = threading.Event()
        threading.Thread(target=open_it, daemon=True).start()
        try:
            yield
        finally:
            over.set()


def _print_addresses(address: Callable[[], str], tell: Callable[[str], None]) -> None:
    """Print a new address for every line typed."""
    try:
        while sys.stdin.readline():
            tell(f"This address works once, for {MINUTES} minutes: {address()}")
    except (OSError, ValueError):  # in the background, or closed
        pass


def _may_read_terminal() -> bool:
    """Whether a line can be read from the terminal; in the background it fails instead of stopping."""
    if sys.stdin is None or sys.stdin.closed or not sys.stdin.isatty():
        return False
    if hasattr(os, "tcgetpgrp"):
        import signal

        signal.signal(signal.SIGTTIN, signal.SIG_IGN)
        try:
            return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
        except OSError:  # a terminal, but not the one that controls this process: setsid
            return False
    return True


def _has_display() -> bool:
    """Whether a browser can open a window; without a display, Python would start a text browser in the terminal."""
    if sys.platform in ("win32", "darwin"):
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


def _socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With an explicit IPPROTO_TCP, asyncio sets TCP_NODELAY; otherwise small answers wait 40 ms for an acknowledgement.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(128)
    except (OSError, OverflowError, UnicodeError) as problem:
        listening.close()
        raise OptionError(
            f"The studio cannot listen on {host}, port {port}: {problem}.\nChoose another --port."
        ) from None
    listening.set_inheritable(False)
    return listening

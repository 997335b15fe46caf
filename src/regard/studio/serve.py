"""Starts the server."""

from __future__ import annotations

import socket
import threading
import webbrowser
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from regard.errors import OptionError, missing_package
from regard.studio.auth import LOCAL, Guard, Secrets

ALL_ADDRESSES = ("0.0.0.0", "::")


def serve(
    studio: Callable[[], Any], *, host: str = "127.0.0.1", port: int = 0, browser: bool = True,
    tell: Callable[[str], None],
) -> None:  # fmt: skip
    """Serve until interrupted; `studio` creates the `Studio`, `tell` prints the address."""
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise missing_package("The studio", *missing)
    import uvicorn

    listening = _socket(host, port)
    bound, secrets = listening.getsockname()[1], Secrets()
    made = studio()
    guard = Guard(
        made.application(), secrets, LOCAL | {host.lower(), socket.gethostname().lower()} - set(ALL_ADDRESSES),
        any_address=host in ALL_ADDRESSES, cookie=f"regard_{bound}",
    )  # fmt: skip
    name = "127.0.0.1" if host in ALL_ADDRESSES else f"[{host}]" if ":" in host else host
    address = f"http://{name}:{bound}/?token={secrets.token}"
    settings = uvicorn.Config(
        guard, log_level="warning", access_log=False, server_header=False, date_header=False, lifespan="on",
        timeout_graceful_shutdown=1, timeout_keep_alive=30, h11_max_incomplete_event_size=1 << 15, ws="none",
    )  # fmt: skip
    tell(f"The studio is at {address}")
    if host not in LOCAL:
        tell(f"It listens on {host}: anyone who can reach this machine and has the address can use it.")
    if browser:  # the request waits in the socket's queue until the server runs
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    try:
        uvicorn.Server(settings).run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        made.close()
        listening.close()


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

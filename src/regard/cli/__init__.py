"""The command line: commands on one subject in one file."""

import os
import signal
from typing import Any


def end_at_once(*_: Any) -> None:
    """What Ctrl-C does until a command begins: nothing is open yet, and the process ends without a traceback."""
    os._exit(130)


def main() -> None:
    """Run the command line with the arguments of this process."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end_at_once)
    from regard.cli.app import run  # imported here, so that a module of this package can be loaded without all others

    run()

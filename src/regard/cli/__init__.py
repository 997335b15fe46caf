"""The command line, one file per command."""


def main() -> None:
    """Run the command line with the arguments of this process."""
    import os
    import signal

    # Importing takes a few tenths of a second, and nothing is open yet: Ctrl-C ends it at once, without a traceback.
    is_usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_usual:
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from regard.cli.app import run  # imported here, so that a module of this package can be loaded without all others

    if is_usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()

"""The command line, one file per command."""


def main() -> None:
    """Run the command line with the arguments of this process."""
    from regard.cli.app import run  # imported here, so that a module of this package can be loaded without all others

    run()

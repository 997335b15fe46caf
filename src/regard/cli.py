"""The command line: parse, call, print."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer
from rich.console import Console

import regard
from regard.show import text
from regard.show.worked import EXAMPLES, Example

app = typer.Typer(
    help="Compute attention, and see it.", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)


def _print_version(wanted: bool) -> None:
    if wanted:
        try:
            Console().print(f"regard {version('regard')}", highlight=False)
        except PackageNotFoundError:
            Console().print("regard (sources that were not installed)")
        raise typer.Exit


@app.callback()
def regard_(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    pass


@app.command()
def steps(
    example: Annotated[Example, typer.Option(help="A worked example, by name.")],
) -> None:
    """Show every step of attention as a table: score, score/√d_k, softmax, softmax × v, sum."""
    worked = EXAMPLES[example]()
    attention = regard.Attention(worked.queries, worked.keys)
    Console().print(text.steps(worked.words, attention, worked.values))


@app.command()
def engine() -> None:
    """Say which engine computes, and why."""
    Console().print(str(regard.engine()), highlight=False, markup=False, soft_wrap=True)


def main() -> None:
    """Run the command line; a terminal that can't show √ or × gets ? instead of an error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    app()


if __name__ == "__main__":
    main()

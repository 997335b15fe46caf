"""The command line as a whole: its commands, its errors, its exit codes."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from regard.cli import check, engine, examples, lookup, models, printing, scaling, see, steps, studio
from regard.errors import RegardError

BAD_INPUT = 2  # the exit code; 1 is what a check says that found something wrong


class _Plain(TyperGroup):
    """Commands whose complaints are sentences on standard error, not tracebacks."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except RegardError as problem:
            printing.complain(str(problem))
            raise typer.Exit(BAD_INPUT) from None


app = typer.Typer(
    cls=_Plain,
    help="Compute attention, and see it. `regard COMMAND --help` shows examples.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # keeps the lines of the examples as they are
)


def _print_version(wanted: bool) -> None:
    if wanted:
        try:
            printing.show([f"regard {version('regard')}"])
        except PackageNotFoundError:
            printing.show(["regard (sources that were not installed)"])
        raise typer.Exit


@app.callback()
def regard_(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    pass


app.command(epilog=see.EXAMPLES)(see.see)
app.command(epilog=studio.EXAMPLES)(studio.studio)
app.command(epilog=steps.EXAMPLES)(steps.steps)
app.command(epilog=lookup.EXAMPLES)(lookup.lookup)
app.command(epilog=scaling.EXAMPLES)(scaling.scaling)
app.command(epilog=check.EXAMPLES)(check.check)
app.command(epilog=examples.EXAMPLES)(examples.examples)
app.add_typer(models.app, name="models")
app.command()(engine.engine)


def run() -> None:
    """Run the command line; a terminal that can't show √ or × gets ? instead of an error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    app()

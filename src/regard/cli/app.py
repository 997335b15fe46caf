"""The command line: its commands, error handling and exit codes."""

from __future__ import annotations

from typing import Annotated

import typer

from regard import examples as stored
from regard.cli import (
    attribute,
    compare,
    documents,
    exercises,
    explain,
    heads,
    lessons,
    lookup,
    models,
    recipe,
    see,
    steps,
    studio,
    terminal,
    training,
)
from regard.cli.commands import group
from regard.cli.exit_codes import EXIT_CODES, Commands
from regard.engines import select
from regard.tables import Column, Table
from regard.version import VERSION


def examples(name: Annotated[str | None, typer.Argument()] = None) -> None:
    """List the examples, or print one of them.

    name  The example to print.

    Examples:
      regard examples
      regard examples kids
      regard examples cat-sat > vectors.json
      regard examples jane | regard lookup - "birth date"
    """
    if name is None:
        rows = tuple((example.name, example.kind, example.about) for example in stored.EXAMPLES.values())
        columns = (Column("Name", "word"), Column("Kind", "text"), Column("Description", "text"))
        terminal.show([Table("Examples", columns, rows, ("`regard examples NAME` prints one of them.",))])
        return
    chosen = stored.named(name)
    if terminal.is_terminal():  # a file or a pipe gets only the content
        tries = [f"  {command}" for command in chosen.commands]
        terminal.show([f"{chosen.about}.", str(chosen), *(["\n".join(["Try:", *tries])] if tries else [])])
    else:
        terminal.raw(str(chosen))


def engine() -> None:
    """Print which engine computes attention, and why it was chosen."""
    terminal.show([str(select.engine())])


app = group(
    "Compute attention, and see it. `regard COMMAND --help` shows examples.",
    commands=(
        see.see, see.generate, explain.explain, studio.studio, steps.steps, lookup.lookup, documents.slides,
        lessons.scaling, lessons.positions, lessons.block, training.train, compare.compare, exercises.check,
        exercises.exercise, documents.site, examples, engine,
    ),
    cls=Commands,
    epilog=EXIT_CODES,
    pretty_exceptions_enable=False,
)  # fmt: skip
for _name, _group in (
    ("heads", heads.app), ("attribute", attribute.app), ("recipe", recipe.app), ("models", models.app),
):  # fmt: skip
    app.add_typer(_group, name=_name)


def _print_version(is_given: bool) -> None:
    if is_given:
        terminal.show([f"regard {VERSION}"])
        raise typer.Exit


@app.callback()
def regard_(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def run() -> None:
    """Run the command line with the arguments of this process."""
    terminal.prepare()
    app(prog_name="regard")

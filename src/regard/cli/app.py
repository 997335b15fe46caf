"""The command line: its commands, error handling and exit codes."""

from __future__ import annotations

from typing import Annotated

import typer

from regard import examples as stored
from regard.cli import (
    attribute,
    check,
    compare,
    exercise,
    explain,
    heads,
    lessons,
    lookup,
    models,
    recipe,
    see,
    site,
    slides,
    steps,
    studio,
    terminal,
    train,
)
from regard.cli.exit_codes import EXIT_CODES, Commands
from regard.engines import select
from regard.tables import Column, Table
from regard.version import VERSION

HELP = "Compute attention, and see it. `regard COMMAND --help` shows examples."

app = terminal.group(HELP, EXIT_CODES, Commands, no_args_is_help=True, pretty_exceptions_enable=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        terminal.show([f"regard {VERSION}"])
        raise typer.Exit


@app.callback()
def regard_(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


LISTING_EXAMPLES = """Examples:

\b
  regard examples
  regard examples kids
  regard examples cat-sat > vectors.json
  regard examples jane | regard lookup - "birth date"
"""


def examples(
    name: Annotated[str | None, typer.Argument(help="The example to print.")] = None,
) -> None:
    """List the examples, or print one of them."""
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


for _command, _epilog in (
    (see.see, see.EXAMPLES),
    (see.generate, see.GENERATE_EXAMPLES),
    (explain.explain, explain.EXAMPLES),
    (studio.studio, studio.EXAMPLES),
    (steps.steps, steps.EXAMPLES),
    (lookup.lookup, lookup.EXAMPLES),
    (slides.slides, slides.EXAMPLES),
    (lessons.scaling, lessons.SCALING_EXAMPLES),
    (lessons.positions, lessons.POSITIONS_EXAMPLES),
    (lessons.block, lessons.BLOCK_EXAMPLES),
    (train.train, train.EXAMPLES),
    (compare.compare, compare.EXAMPLES),
    (check.check, check.EXAMPLES),
    (exercise.exercise, exercise.EXAMPLES),
    (site.site, site.EXAMPLES),
    (examples, LISTING_EXAMPLES),
    (engine, None),
):
    app.command(cls=terminal.Command, epilog=_epilog)(_command)
app.add_typer(heads.app, name="heads")
app.add_typer(attribute.app, name="attribute")
app.add_typer(recipe.app, name="recipe")
app.add_typer(models.app, name="models")


def run() -> None:
    """Run the command line with the arguments of this process."""
    terminal.prepare()
    app(prog_name="regard")

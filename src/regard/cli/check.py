"""`regard check`: a calculation done by hand, number by number."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from regard.cli import printing
from regard.hand_check import Check, check_notes
from regard.tables import Table

SOMETHING_WRONG = 1  # the exit code

EXAMPLES = """Examples:

\b
  regard examples cat-sat-notes > notes.json
  regard check notes.json

\b
Exit codes: 0 if every number is right or rounded, 1 if one is not, 2 if the
notes cannot be read.
"""


def check(
    file: Annotated[str, typer.Argument(help="Notes as .json, .csv or .md: vectors, and numbers worked out by hand.")],
    full: Annotated[bool, typer.Option("--full", help="Show what is right as well.")] = False,
) -> None:
    """Check a hand calculation: what is right, rounded, cut, carried on from shortened numbers, or wrong."""
    found = check_notes(file)
    printing.show([_table(found, full)] if full or found.slips else [found.summary()])
    if not found.ok:
        raise typer.Exit(SOMETHING_WRONG)


def _table(found: Check, full: bool) -> Table:
    """The verdicts, with their reasons below them: these are too long for a column."""
    table = found.table(slips_only=not full)
    how = [f"{verdict.what}: {verdict.because}." for verdict in found.slips]
    rows = tuple(row[:-1] for row in table.rows)
    return replace(table, columns=table.columns[:-1], rows=rows, notes=(*how, *table.notes))

"""`regard check`: verdicts on the numbers of a hand calculation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated

import typer

from regard.cli import terminal
from regard.tables import Table
from regard.teaching.hand_check import Check, Verdict, check_notes

SOMETHING_WRONG = 1  # exit code

EXAMPLES = """Examples:

\b
  regard examples cat-sat-notes > notes.json
  regard check notes.json
  regard steps "The cat sat" --out steps.md
  regard check steps.md

\b
Exit codes: 0 if every number is right or rounded, 1 if one is not, 2 if the
notes cannot be read.
"""


def check(
    file: Annotated[str, typer.Argument(help="Notes as .json, .csv or .md: vectors and hand-calculated numbers.")],
    full: Annotated[bool, typer.Option("--full", help="Show right numbers and all reasons as well.")] = False,
) -> None:
    """Check a hand calculation: right, rounded, cut, carried on from shortened numbers, following, or wrong."""
    found = check_notes(file)
    terminal.show([_table(found, full)] if full or found.slips else [found.summary()])
    if not found.ok:
        raise typer.Exit(SOMETHING_WRONG)


def _table(found: Check, full: bool) -> Table:
    """The verdicts, with their reasons below: these are too long for a column."""
    table = found.table(slips_only=not full)
    rows = tuple(row[:-1] for row in table.rows)
    return replace(table, columns=table.columns[:-1], rows=rows, notes=(*_reasons(found.slips, full), *table.notes))


def _reasons(slips: Sequence[Verdict], full: bool) -> Iterator[str]:
    """A line per slip; of numbers that follow from a wrong one, only the first of each step."""
    steps = Counter(verdict.step for verdict in slips if verdict.kind == "follows")
    said: set[str] = set()
    for verdict in slips:
        others = steps[verdict.step] - 1 if verdict.kind == "follows" and not full else 0
        if others and verdict.step in said:
            continue
        also = f" So do {others} more; --full shows them." if others > 1 else " So does one more." if others else ""
        said |= {verdict.step} if others else set()
        yield f"{verdict.what}: {verdict.because}.{also}"

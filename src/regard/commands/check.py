"""`regard check`: a calculation done by hand, number by number."""

from __future__ import annotations

from typing import Annotated

import typer

EXAMPLES = """Examples:

\b
  regard examples cat-sat-notes > notes.json
  regard check notes.json

\b
A check that finds nothing wrong ends with exit code 0, one that does with 1.
"""


def check(
    file: Annotated[str, typer.Argument(help="Notes as .json, .csv or .md: vectors, and numbers worked out by hand.")],
) -> None:
    """Check a hand calculation: what is right, rounded, cut, carried on from shortened numbers, or wrong."""
    from regard.hand_check import check_notes

    check_notes(file)

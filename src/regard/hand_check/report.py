"""The answer: every verdict, as objects, as a table and as one line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from regard.hand_check.documents import read
from regard.hand_check.judgement import judged
from regard.hand_check.notes import notes_of
from regard.hand_check.verdicts import KINDS, Kind, Verdict
from regard.tables import Column, Table

SAID: dict[Kind, str] = {
    "follows": "following from a wrong number",
    "shape": "of a shape that doesn't fit",
    "unchecked": "not checked",
}


@dataclass(frozen=True)
class Check:
    """What came out of checking notes.

    >>> check = check_notes(worked_example())
    >>> check.ok
    False
    >>> [verdict.given for verdict in check.of_kind("cut")]
    ['0.15', '0.15']
    """

    verdicts: tuple[Verdict, ...]
    source: str = "The notes"

    @property
    def ok(self) -> bool:
        """Whether every number that could be checked is right, or right when rounded; False where none could be."""
        is_checked = any(verdict.kind != "unchecked" for verdict in self.verdicts)
        return is_checked and not self.slips

    @property
    def slips(self) -> tuple[Verdict, ...]:
        """All that is neither right nor rounded: cut, carried on, following, wrong, of another shape."""
        return tuple(verdict for verdict in self.verdicts if verdict.is_slip)

    def of_kind(self, kind: Kind) -> tuple[Verdict, ...]:
        """The verdicts of one kind."""
        return tuple(verdict for verdict in self.verdicts if verdict.kind == kind)

    def summary(self) -> str:
        """One line: how many there are of each kind."""
        counts = Counter(verdict.kind for verdict in self.verdicts)
        numbers = sum(counts.values()) - counts["shape"]
        parts = [f"{counts[kind]} {SAID.get(kind, kind)}" for kind in KINDS if counts[kind]]
        return f"{self.source}: {numbers} number{'' if numbers == 1 else 's'}: {', '.join(parts)}."

    def table(self, *, slips_only: bool = False) -> Table:
        """A row for every number, or only for those to look at."""
        columns = (
            Column("Number", "word"),
            Column("Given"),
            Column("Exact"),
            Column("Verdict"),
            Column("How"),
        )
        shown = [verdict for verdict in self.verdicts if verdict.is_slip or not slips_only]
        rows = tuple((one.what, one.given, one.shown, one.kind, one.because) for one in shown)
        return Table(f"Check of {self.source}", columns, rows, (self.summary(),))

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def check_notes(notes: str | Path | Mapping[str, Any]) -> Check:
    """Check a hand calculation: a .json, .csv or .md file, or a dictionary of the same form as the JSON.

    Given are embeddings, with W_q, W_k and W_v unless they are the identity, or q, k and v; and whichever scores,
    scaled scores, weights, weighted values and outputs somebody worked out: whole matrices, rows, or single numbers.

    >>> notes = {
    ...     "embeddings": {"The": [1, 0, 1, 0], "cat": [0, 1, 0, 1], "sat": [1, 1, 1, 1]},
    ...     "scores": {"cat": [0, 2, 3]},
    ...     "weights": {"The": {"The": 0.42, "cat": 0.15}},
    ... }
    >>> check = check_notes(notes)
    >>> print(check.summary())
    The notes: 5 numbers: 2 right, 1 rounded, 1 cut, 1 wrong.
    >>> for verdict in check.slips:
    ...     print(verdict.what, verdict.given, verdict.kind, "|", verdict.because)
    score cat → sat 3 wrong | 0·1 + 1·1 + 0·1 + 1·1 = 2
    weight The → cat 0.15 cut | 0.1554 cut off; rounded it is 0.16
    """
    document = read(notes)
    return Check(tuple(judged(notes_of(document))), document.source)


def worked_example() -> dict[str, Any]:
    """The cat sat, as lecture notes print it, slips included; the same as the file `the_cat_sat.json` beside this."""
    text = files("regard.hand_check").joinpath("the_cat_sat.json").read_text(encoding="utf-8")
    notes: dict[str, Any] = json.loads(text)
    return notes

"""The result of a check: every verdict, as objects, as a table and as one line."""

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
    "shape": "of a shape that does not fit",
    "unchecked": "not checked",
}


@dataclass(frozen=True)
class Check:
    """The verdicts on notes.

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
        """Whether every number that could be checked is right or correctly rounded; False if none could be checked."""
        is_checked = any(verdict.kind != "unchecked" for verdict in self.verdicts)
        return is_checked and not self.slips

    @property
    def slips(self) -> tuple[Verdict, ...]:
        """All verdicts other than right, rounded and unchecked."""
        return tuple(verdict for verdict in self.verdicts if verdict.is_slip)

    def of_kind(self, kind: Kind) -> tuple[Verdict, ...]:
        """The verdicts of one kind."""
        return tuple(verdict for verdict in self.verdicts if verdict.kind == kind)

    def summary(self) -> str:
        """One line with the count of each kind, and the names of the slips."""
        counts = Counter(verdict.kind for verdict in self.verdicts)
        numbers = sum(counts.values()) - counts["shape"]
        parts = [f"{counts[kind]} {SAID.get(kind, kind)}" for kind in KINDS if counts[kind]]
        slips = Counter(verdict.slip for verdict in self.verdicts if verdict.slip)
        if slips:
            named = ", ".join(name if times == 1 else f"{name} ×{times}" for name, times in slips.items())
            parts = [f"{part} ({named})" if part.endswith(" wrong") else part for part in parts]
        return f"{self.source}: {numbers} number{'' if numbers == 1 else 's'}: {', '.join(parts)}."

    def table(self, *, slips_only: bool = False) -> Table:
        """A row per number, or only for the numbers that need attention."""
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
    """Check a hand calculation: a .json, .csv or .md file, or a dictionary of the form of the JSON.

    The calculation starts from embeddings, with W_q, W_k and W_v unless these are the identity, or from q, k and v.
    Checked are all scores, scaled and masked scores, weights, weighted values and outputs that the notes hold: whole
    matrices, rows, or single numbers; with several heads, also their concatenation and its product with W_O.

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
    weight The → cat 0.15 cut | 0.1554 truncated; rounded it is 0.16
    """
    document = read(notes)
    return Check(tuple(judged(notes_of(document))), document.source)


def worked_example() -> dict[str, Any]:
    """*The cat sat* as printed in lecture notes, including their slips; the content of `the_cat_sat.json`."""
    text = files("regard.hand_check").joinpath("the_cat_sat.json").read_text(encoding="utf-8")
    notes: dict[str, Any] = json.loads(text)
    return notes

"""The check: each number is compared with every way to compute it, exactly or from numbers earlier in the notes."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from regard import validate
from regard.errors import count
from regard.tables import Column, Table, printed_number
from regard.teaching.hand_check import slips
from regard.teaching.hand_check.chain import WAYS, Way, computed, set_divisor, spreads, start, ways_to, written_out
from regard.teaching.hand_check.documents import read
from regard.teaching.hand_check.inputs import Numbers
from regard.teaching.hand_check.notation import (
    AFTER_HEADS,
    AXES,
    MOST_DIGITS,
    PER_KEY,
    SPELLING_OF,
    STEPS,
    are_same,
    exactly,
    nearness,
)
from regard.teaching.hand_check.notes import Blank, Claim, Notes, notes_of
from regard.teaching.hand_check.slips import Slip

Kind = Literal[
    "right", "rounded", "cut", "too few decimals", "carried on", "follows", "wrong", "shape", "missing", "unchecked"
]
KINDS: tuple[Kind, ...] = get_args(Kind)
SLIPS: tuple[Kind, ...] = ("cut", "too few decimals", "carried on", "follows", "wrong", "shape", "missing")
DECIMALS = 2  # that a rounded number has at least
SAID: dict[Kind, str] = {
    "too few decimals": "with too few decimals",
    "follows": "following from a wrong number",
    "shape": "of a shape that does not fit",
    "unchecked": "not checked",
}

EXACT, SOUND, OWN = range(3)  # computed exactly; from the notes' rounded numbers; from wrong numbers of the notes too
MOST_VARIANTS = 8  # arrays kept per step
CALLED = {"x": "embeddings", "visible": "mask", "divisor": "d_k"}
MANY = 1_000_000  # numbers in an array of which only the first and the last variants are kept


@dataclass(frozen=True)
class Verdict:
    """The verdict on one number, or on one shape.

    right       equal
    rounded     equal after rounding to the digits given
    cut         digits truncated where rounding gives another last digit
    too few decimals  a bare 0 for 0.42
    carried on  follows from numbers of the notes that were rounded or truncated
    follows     follows from a wrong number of the notes: the mistake is earlier
    wrong       none of these; `slip` names the mistake if it is a typical one
    shape       does not fit
    missing     left blank, or null
    unchecked   what it is computed from is not in the notes
    """

    kind: Kind
    what: str  # the step and the place in it: "weight The → cat"
    given: str  # as written
    exact: float | None
    shown: str  # the exact number, with two more decimals than were written
    because: str
    step: str
    place: tuple[int, ...] = ()  # without the head
    head: int = 0
    slip: str = ""  # "√d_k forgotten"

    @property
    def is_slip(self) -> bool:
        """Whether the number needs attention."""
        return self.kind in SLIPS


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
        """Whether no answer is missing and every number that could be checked is right or correctly rounded.

        False if none could be checked.
        """
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
        numbers = sum(counts.values()) - counts["shape"] - counts["missing"]
        parts = [f"{counts[kind]} {SAID.get(kind, kind)}" for kind in KINDS if counts[kind]]
        slips = Counter(verdict.slip for verdict in self.verdicts if verdict.slip)
        if slips:
            named = ", ".join(name if times == 1 else f"{name} ×{times}" for name, times in slips.items())
            parts = [f"{part} ({named})" if part.endswith(" wrong") else part for part in parts]
        return f"{self.source}: {numbers} number{'' if numbers == 1 else 's'}: {', '.join(parts)}."

    def table(self, *, slips_only: bool = False) -> Table:
        """A row per number, or only for the numbers that need attention."""
        columns = (
            Column("Number"),
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


def check_notes(notes: str | Path | Mapping[str, Any], *, decimals: int = DECIMALS) -> Check:
    """Check a hand calculation: a .json, .csv or .md file, or a dictionary of the form of the JSON.

    decimals  that a rounded number has at least: 0.4 and 0 are not 0.42 rounded

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
    decimals = validate.integer("decimals", decimals, 0, MOST_DIGITS)
    document = read(notes)
    return Check(tuple(Judge(notes_of(document, decimals)).verdicts()), document.source)


def worked_example() -> dict[str, Any]:
    """*The cat sat* as printed in lecture notes, including their slips; the content of `the_cat_sat.json`."""
    text = files("regard.teaching.hand_check").joinpath("the_cat_sat.json").read_text(encoding="utf-8")
    notes: dict[str, Any] = json.loads(text)
    return notes


# The comparison


@dataclass(frozen=True, eq=False)
class Variant:
    """One array for a step, and where its numbers come from."""

    array: Numbers
    level: int


@dataclass(frozen=True, eq=False)
class Result:
    """A step computed from one choice of variants."""

    array: Numbers
    level: int
    way: Way
    inputs: tuple[Numbers, ...]


class Judge:
    """Goes through the steps in order and keeps the variants of each."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.exact = start(notes.inputs)
        set_divisor(self.exact, notes.inputs.divisor)
        self.variants = {name: [Variant(array, EXACT)] for name, array in self.exact.items()}
        self.spread: dict[str, Numbers] = {}

    def verdicts(self) -> list[Verdict]:
        """A verdict for every shape that does not fit and for every number, in the order of the steps."""
        found = [
            Verdict("shape", misfit.step, misfit.given, None, "", misfit.because, misfit.step.partition(" ")[0])
            for misfit in self.notes.misfits
        ]
        by_step: dict[str, list[Claim]] = {step: [] for step in STEPS}
        for claim in self.notes.claims:
            by_step[claim.step].append(claim)
        self._compute_spreads()
        for step, claims in by_step.items():
            if step in self.notes.inputs.parts:
                found += [self._against_start(claim) for claim in claims]
            elif claims or (step != "weighted_value" and ways_to(step, self.exact)):  # weighted: n² · d numbers
                found += self._judge(step, claims)
            if step == "key" and "divisor" not in self.exact:
                set_divisor(self.exact, self.notes.inputs.divisor)
                if "divisor" in self.exact:
                    self.variants["divisor"] = [Variant(self.exact["divisor"], EXACT)]
        return found + [self._missing(blank) for blank in self.notes.missing()]

    def _missing(self, blank: Blank) -> Verdict:
        has_head = blank.step not in AFTER_HEADS
        what, head = self.notes.said(blank.step, blank.place), blank.place[0] if has_head else 0
        return Verdict("missing", what, "", None, "", "left blank", blank.step, blank.place[has_head:], head)

    def _compute_spreads(self) -> None:
        """Bounds for the rounding of q, k and v, if these were printed rounded and nothing exact is given."""
        if not self.notes.inputs.spread:
            return
        known = dict(self.exact)
        for step in ("score", "scaled", "masked", "weight"):
            for way in ways_to(step, known)[:1]:
                known[step] = computed(way, [known[name] for name in way.needs])
        self.spread = spreads(self.notes.inputs, known)

    # One step

    def _results(self, step: str) -> list[Result]:
        """The step by every way and from every choice of variants, exact ones first."""
        found: list[Result] = []
        for way in ways_to(step, self.exact):
            for chosen in product(*(self.variants[name] for name in way.needs)):
                level = max(variant.level for variant in chosen)
                inputs = tuple(variant.array for variant in chosen)
                array = computed(way, inputs)
                if not any(level >= other.level and _equal(array, other.array) for other in found):
                    found.append(Result(array, level, way, inputs))
        return sorted(found, key=lambda result: result.level)

    def _judge(self, step: str, claims: Sequence[Claim]) -> list[Verdict]:
        results = self._results(step)
        if results:
            exact = results[0].array.copy()
        else:
            exact = np.full(self._shape(step, claims), np.nan)
        verdicts = [self._verdict(claim, exact, results) for claim in claims]
        found = self._slips(step, claims, verdicts, exact)
        verdicts = [self._named(claim, one, found.get(claim)) for claim, one in zip(claims, verdicts, strict=True)]
        for claim, verdict in zip(claims, verdicts, strict=True):
            if verdict.kind == "unchecked":
                exact[claim.place] = claim.written.value
        self.exact[step] = exact
        # As printed, with and without the wrong numbers; and with all digits, but for the wrong numbers.
        sound, own, slipped = _last(results, SOUND, exact), _last(results, OWN, exact), exact.copy()
        for claim, verdict in zip(claims, verdicts, strict=True):
            if step in ("score", "scaled") and math.isinf(claim.written.value):
                continue  # −∞ written one step early
            own[claim.place] = claim.written.value
            if verdict.kind == "wrong":
                slipped[claim.place] = found[claim].value if claim in found else claim.written.value
            elif verdict.kind != "follows":
                sound[claim.place] = claim.written.value
        carried = [Variant(result.array, result.level) for result in results if result.level]
        kept = [Variant(exact, EXACT)]
        for variant in (Variant(slipped, OWN), *carried, Variant(sound, SOUND), Variant(own, OWN)):
            if not any(_equal(variant.array, other.array) for other in kept):
                kept.append(variant)
        most = 4 if exact.size > MANY else MOST_VARIANTS
        kept = kept if len(kept) <= most else [*kept[: most - 2], *kept[-2:]]
        self.variants[step] = kept
        return verdicts

    def _shape(self, step: str, claims: Sequence[Claim]) -> tuple[int, ...]:
        """The shape of a step that nothing before it determines."""
        words = {"query": len(self.notes.inputs.words), "key": len(self.notes.inputs.key_words)}
        axes = AXES[step] if step in AFTER_HEADS else ("head", *AXES[step])
        largest = [max(claim.place[axis] for claim in claims) + 1 for axis in range(len(axes))]
        known = {"head": self.notes.inputs.heads, **words}
        return tuple(known.get(axis, size) for axis, size in zip(axes, largest, strict=True))

    # One number

    def _verdict(self, claim: Claim, exact: Numbers, results: Sequence[Result]) -> Verdict:
        value = float(exact[claim.place])
        if math.isnan(value):
            ways = ways_to(claim.step, self.exact)
            needs = (ways or WAYS[claim.step])[-1].needs
            because = (
                f"needs {' and '.join(SPELLING_OF.get(name, CALLED.get(name, name)) for name in needs)}; taken as given"
            )
            return self._said("unchecked", claim, None, because)
        near = nearness(claim.written, value)
        if near == "right" or (math.isinf(claim.written.value) and self._is_hidden(claim)):
            return self._said("right", claim, value, "")
        shown = exactly(value, claim.written)
        if near == "rounded":
            return self._said("rounded", claim, value, f"{shown} rounded")
        spread = self.spread.get(claim.step)
        if spread is not None:
            half = 0.5 * claim.written.last_digit
            if abs(claim.written.value - value) <= float(spread[claim.place]) + half:
                because = f"{shown} from q, k and v as printed, which are rounded themselves"
                return self._said("rounded", claim, value, because)
        # Rounded results of the notes' own numbers come before truncated exact ones: 0.57 = 0.42 + 0.15.
        for accepted, level in (("rounded", SOUND), ("rounded", OWN), ("cut", EXACT), ("cut", SOUND), ("cut", OWN)):
            if level == EXACT:
                if near == "cut":
                    rounded = printed_number(value, max(claim.written.digits, claim.written.least))
                    return self._said("cut", claim, value, f"{shown} truncated; rounded it is {rounded}")
                continue
            line = self._from_notes(claim, value, results, level, accepted)
            if line and level == SOUND:
                return self._said("carried on", claim, value, f"{line}, from the notes' own shortened numbers")
            if line:
                right = self._right(claim, value)
                return self._said("follows", claim, value, f"{line} from a wrong number before it; {right}")
        if claim.written.digits < claim.written.least:
            as_written = replace(claim, written=replace(claim.written, least=claim.written.digits))
            if self._verdict(as_written, exact, results).kind != "wrong":
                return self._said("too few decimals", claim, value, _with_decimals(value, claim))
        return self._said("wrong", claim, value, self._right(claim, value).removeprefix("right is "))

    def _is_hidden(self, claim: Claim) -> bool:
        visible = self.exact.get("visible")
        return claim.step in PER_KEY and visible is not None and not visible[claim.place[1:]] > 0

    def _from_notes(self, claim: Claim, exact: float, results: Sequence[Result], level: int, accepted: str) -> str:
        """The calculation that gives this number from numbers of the notes, if there is one."""
        for result in results:
            value = float(result.array[claim.place])
            if result.level != level or are_same(value, exact):
                continue
            near = nearness(claim.written, value)
            if near == accepted or (near == "right" and accepted == "rounded"):
                return written_out(result.way, result.inputs, claim.place, value)
        return ""

    def _right(self, claim: Claim, value: float) -> str:
        """The right calculation."""
        way = ways_to(claim.step, self.exact)[-1]
        return f"right is {written_out(way, [self.exact[name] for name in way.needs], claim.place, value)}"

    def _slips(
        self, step: str, claims: Sequence[Claim], verdicts: Sequence[Verdict], exact: Numbers
    ) -> dict[Claim, Slip]:
        """The typical mistakes that explain wrong numbers."""
        kinds = {claim: verdict.kind for claim, verdict in zip(claims, verdicts, strict=True)}
        failing = [claim for claim in claims if kinds[claim] in ("wrong", "too few decimals")]
        coarse = {claim for claim in failing if kinds[claim] == "too few decimals"}
        if not failing:
            return {}
        others = {name: kept for name, kept in self.variants.items() if name != step}
        variants = [{name: kept[at].array for name, kept in others.items()} for at in (0, -1)]
        return slips.explained(step, claims, failing, variants, exact, self.notes.inputs, coarse)

    def _named(self, claim: Claim, verdict: Verdict, slip: Slip | None) -> Verdict:
        if slip is None or verdict.exact is None:
            return verdict
        because = f"{slip}; {self._right(claim, verdict.exact)}"
        return replace(verdict, kind="wrong", because=because, slip=slip.name.partition(" (")[0])

    def _against_start(self, claim: Claim) -> Verdict:
        """A q, k or v that is repeated and differs from the one the calculation starts from."""
        value = float(self.exact[claim.step][claim.place])
        near = nearness(claim.written, value)
        if math.isnan(value):
            return self._said("unchecked", claim, None, "taken as given")
        if near in ("right", "rounded"):
            return self._said(near, claim, value, f"{exactly(value, claim.written)} rounded")
        if near == "cut":
            return self._said("cut", claim, value, f"{exactly(value, claim.written)} truncated")
        return self._said("wrong", claim, value, f"given as {exactly(value, claim.written)} elsewhere in the notes")

    def _said(self, kind: Kind, claim: Claim, value: float | None, because: str, slip: str = "") -> Verdict:
        has_head = claim.step not in AFTER_HEADS
        return Verdict(
            kind,
            self.notes.said(claim.step, claim.place),
            claim.written.text,
            value,
            "" if value is None else exactly(value, claim.written),
            because,
            claim.step,
            claim.place[has_head:],
            claim.place[0] if has_head else 0,
            slip,
        )


def _with_decimals(value: float, claim: Claim) -> str:
    least = claim.written.least
    return f"with {count(least, 'decimal')} it is {printed_number(value, least)}"


def _equal(left: Numbers, right: Numbers) -> bool:
    return left.shape == right.shape and bool(np.allclose(left, right, rtol=1e-14, atol=1e-15, equal_nan=True))


def _last(results: Sequence[Result], level: int, exact: Numbers) -> Numbers:
    """The result that used the most of the notes' numbers, to write the claims of this step into."""
    found = [result for result in results if result.level <= level]
    return (found[-1].array if found and found[-1].level == level else exact).copy()

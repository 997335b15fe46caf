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
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from regard import validate
from regard.errors import OptionError, count
from regard.tables import Column, Table, printed_number
from regard.teaching.hand_check.calculation import WAYS, Way, divisor_of, spread_of, start, ways_to
from regard.teaching.hand_check.claims import Claim, Claims, claims_of, infer_mask, keep_claimed_queries
from regard.teaching.hand_check.formats import read
from regard.teaching.hand_check.inputs import Indices, Numbers, inputs_of
from regard.teaching.hand_check.notation import (
    HEADLESS,
    MOST_DIGITS,
    PER_KEY,
    SPELLING_OF,
    STEPS,
    WITH_HEAD,
    are_same,
    exactly,
    nearness,
)
from regard.teaching.hand_check.slips import Slip, explain_slips

Kind = Literal[
    "right", "rounded", "cut", "too few decimals", "carried on", "follows", "wrong", "shape", "missing", "unchecked"
]
KINDS: tuple[Kind, ...] = get_args(Kind)
DECIMALS = 2  # that a rounded number has at least
IN_WORDS: dict[Kind, str] = {
    "too few decimals": "with too few decimals",
    "follows": "following from a wrong number",
    "shape": "of a shape that does not fit",
    "unchecked": "not checked",
}
MOST_VARIANTS = 8  # arrays kept per step
MANY = 1_000_000  # numbers in an array of which only the first and the last variants are kept
INPUT_NAMES = {"x": "embeddings", "visible": "mask", "divisor": "d_k"}


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
        return self.kind not in ("right", "rounded", "unchecked")


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
        return any(verdict.kind != "unchecked" for verdict in self.verdicts) and not self.slips

    @property
    def slips(self) -> tuple[Verdict, ...]:
        """All verdicts other than right, rounded and unchecked."""
        return tuple(verdict for verdict in self.verdicts if verdict.is_slip)

    def of_kind(self, kind: Kind) -> tuple[Verdict, ...]:
        return tuple(verdict for verdict in self.verdicts if verdict.kind == kind)

    def summary(self) -> str:
        """One line with the count of each kind, and the names of the slips."""
        counts = Counter(verdict.kind for verdict in self.verdicts)
        parts = [f"{counts[kind]} {IN_WORDS.get(kind, kind)}" for kind in KINDS if counts[kind]]
        slips = Counter(verdict.slip for verdict in self.verdicts if verdict.slip)
        if slips:
            names = ", ".join(name if times == 1 else f"{name} ×{times}" for name, times in slips.items())
            parts = [f"{part} ({names})" if part.endswith(" wrong") else part for part in parts]
        numbers = sum(counts.values()) - counts["shape"] - counts["missing"]
        return f"{self.source}: {count(numbers, 'number')}: {', '.join(parts)}."

    def table(self, *, slips_only: bool = False) -> Table:
        """A row per number, or only for the numbers that need attention."""
        columns = tuple(map(Column, ("Number", "Given", "Exact", "Verdict", "How")))
        rows = tuple(
            (verdict.what, verdict.given, verdict.shown, verdict.kind, verdict.because)
            for verdict in self.verdicts
            if verdict.is_slip or not slips_only
        )
        return Table(f"Check of {self.source}", columns, rows, (self.summary(),))

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def check_notes(
    notes: str | Path | Mapping[str, Any], *, decimals: int = DECIMALS, product: str | None = None
) -> Check:
    """Check a hand calculation: a .json, .csv, .md, .txt or .xlsx file, or a dictionary of the form of the JSON.

    decimals  that a rounded number has at least: 0.4 and 0 are not 0.42 rounded
    product   "x W" or "x W^T": how W is written, where the notes do not say it

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
    if product is not None:
        document.settings.setdefault("product", product)
    claims = claims_of(document, inputs_of(document), decimals)
    if not (claims.numbers or claims.misfits or claims.blanks):
        raise OptionError(
            f"{document.source} holds no number that was calculated by hand.\n"
            "Give any of: scores, scaled, masked, weights, weighted values, outputs, concatenated, projected."
        )
    infer_mask(claims)
    return Check(tuple(Judge(keep_claimed_queries(claims)).verdicts()), document.source)


def worked_example() -> dict[str, Any]:
    """*The cat sat* as printed in lecture notes, including their slips; the content of `the_cat_sat.json`."""
    text = files("regard.teaching.hand_check").joinpath("the_cat_sat.json").read_text(encoding="utf-8")
    notes: dict[str, Any] = json.loads(text)
    return notes


# The comparison

EXACT, SOUND, WRONG = range(3)  # computed exactly; from rounded numbers of the notes; from wrong numbers of them too
# Rounded results of the notes' own numbers come before truncated exact ones: 0.57 = 0.42 + 0.15.
ORDER = (("rounded", SOUND), ("rounded", WRONG), ("cut", EXACT), ("cut", SOUND), ("cut", WRONG))


class Variant(NamedTuple):
    """One array for a step, where its numbers come from, and how it was computed, if it was."""

    array: Numbers
    level: int
    way: Way | None = None
    inputs: tuple[Numbers, ...] = ()


class Judge:
    """Goes through the steps in order and keeps the variants of each."""

    def __init__(self, claims: Claims) -> None:
        self.claims = claims
        self.inputs = claims.inputs
        self.exact = start(self.inputs)
        self.variants = {name: [Variant(array, EXACT)] for name, array in self.exact.items()}
        self.spread: dict[str, Any] = {**self.inputs.spread}
        # Each step if the wrong numbers before it were a half of their last digit smaller, and larger.
        self.edges: tuple[dict[str, Numbers], dict[str, Numbers]] = {}, {}

    def verdicts(self) -> list[Verdict]:
        """A verdict for every shape that does not fit and for every number, in the order of the steps."""
        verdicts = [
            Verdict("shape", misfit.step, misfit.came, None, "", misfit.because, misfit.step.partition(" ")[0])
            for misfit in self.claims.misfits
        ]
        by_step: dict[str, list[Claim]] = {step: [] for step in STEPS}
        for claim in self.claims.numbers:
            by_step[claim.step].append(claim)
        for step, claims in by_step.items():
            if "divisor" not in self.exact and (divisor := divisor_of(self.inputs, self.exact)) is not None:
                self.exact["divisor"], self.variants["divisor"] = divisor, [Variant(divisor, EXACT)]
            if step in self.inputs.parts:
                verdicts += [self._compare_copy(claim) for claim in claims]
            elif claims or (step != "weighted_value" and ways_to(step, self.exact)):  # weighted: n² · d numbers
                verdicts += self._judge(step, claims)
        for (step, cell), (text, why) in self.claims.unreadable.items():
            verdicts.append(self._verdict("wrong", step, cell, text, why))
        return verdicts + [self._verdict("missing", *blank, "", "left blank") for blank in self.claims.missing()]

    # One step

    def _results(self, step: str) -> list[Variant]:
        """The step by every way and from every choice of variants, exact ones first."""
        results: list[Variant] = []
        for way in ways_to(step, self.exact):
            for chosen in product(*(self.variants[name] for name in way.needs)):
                level = max(variant.level for variant in chosen)
                inputs = tuple(variant.array for variant in chosen)
                array = way(inputs)
                if not any(level >= other.level and _are_equal(array, other.array) for other in results):
                    results.append(Variant(array, level, way, inputs))
        return sorted(results, key=lambda result: result.level)

    def _judge(self, step: str, claims: Sequence[Claim]) -> list[Verdict]:
        results = self._results(step)
        way = results[0].way if results else None
        exact = results[0].array.copy() if results else np.full(self._shape(step, claims), np.nan)
        if self.spread and (spread := spread_of(step, self.exact | {step: exact}, self.spread)) is not None:
            self.spread[step] = spread
        for edge in self.edges:
            if way is not None and not edge.keys().isdisjoint(way.needs):
                edge[step] = way([edge.get(name, self.exact[name]) for name in way.needs])
        verdicts = [self._verdict_on(claim, exact, results) for claim in claims]
        slips = self._slips(step, claims, verdicts, exact)
        verdicts = [
            self._name(claim, verdict, slips.get(claim)) for claim, verdict in zip(claims, verdicts, strict=True)
        ]
        self.exact[step] = exact
        # As printed, with and without the wrong numbers; and with all digits, but for the wrong numbers.
        sound, printed = (_last(results, level, exact) for level in (SOUND, WRONG))
        slipped = exact.copy()
        for claim, verdict in zip(claims, verdicts, strict=True):
            value = claim.written.value
            if verdict.kind == "unchecked":
                for array in (exact, slipped, sound):
                    array[claim.index] = value
            if step in ("score", "scaled") and math.isinf(value):
                continue  # −∞ written one step early
            printed[claim.index] = value
            if verdict.kind == "wrong":
                slipped[claim.index] = slips[claim].value if claim in slips else value
                for sign, edge in zip((-0.5, 0.5), self.edges if claim not in slips else (), strict=False):
                    edge.setdefault(step, exact.copy())[claim.index] = value + sign * claim.written.last_digit
            elif verdict.kind != "follows":
                sound[claim.index] = value
        carried = [result for result in results if result.level]
        kept = [Variant(exact, EXACT)]
        for variant in (Variant(slipped, WRONG), *carried, Variant(sound, SOUND), Variant(printed, WRONG)):
            if not any(_are_equal(variant.array, other.array) for other in kept):
                kept.append(variant)
        most = 4 if exact.size > MANY else MOST_VARIANTS
        self.variants[step] = kept if len(kept) <= most else [*kept[: most - 2], *kept[-2:]]
        return verdicts

    def _shape(self, step: str, claims: Sequence[Claim]) -> tuple[int, ...]:
        """The shape of a step that nothing before it determines."""
        sizes = {"head": self.inputs.heads, "query": len(self.inputs.words), "key": len(self.inputs.key_words)}
        longest = [max(numbers) + 1 for numbers in zip(*(claim.index for claim in claims), strict=True)]
        return tuple(sizes.get(axis, size) for axis, size in zip(WITH_HEAD[step], longest, strict=True))

    def _slips(
        self, step: str, claims: Sequence[Claim], verdicts: Sequence[Verdict], exact: Numbers
    ) -> dict[Claim, Slip]:
        """The typical mistakes that explain wrong numbers."""
        kinds = {claim: verdict.kind for claim, verdict in zip(claims, verdicts, strict=True)}
        failing = [claim for claim in claims if kinds[claim] in ("wrong", "too few decimals")]
        if not failing:
            return {}
        coarse = {claim for claim in failing if kinds[claim] == "too few decimals"}
        before = {name: kept for name, kept in self.variants.items() if name != step}
        variants = [{name: kept[at].array for name, kept in before.items()} for at in (0, -1)]
        return explain_slips(step, claims, failing, variants, exact, self.inputs.key_words, coarse)

    # One number

    def _verdict_on(self, claim: Claim, exact: Numbers, results: Sequence[Variant]) -> Verdict:
        value, number = float(exact[claim.index]), claim.written
        if math.isnan(value):
            needs = (ways_to(claim.step, self.exact) or WAYS[claim.step])[-1].needs
            names = " and ".join(SPELLING_OF.get(name, INPUT_NAMES.get(name, name)) for name in needs)
            return self._on("unchecked", claim, None, f"needs {names}; taken as given")
        near = nearness(number, value)
        visible = self.exact.get("visible")
        is_hidden = claim.step in PER_KEY and visible is not None and not visible[claim.index[1:]] > 0
        if near == "right" or (math.isinf(number.value) and is_hidden):
            return self._on("right", claim, value, "")
        shown, right = exactly(value, number), self._right(claim, value)
        if near == "rounded":
            return self._on("rounded", claim, value, f"{shown} rounded")
        spread = self.spread.get(claim.step)
        if spread is not None and abs(number.value - value) <= float(spread[claim.index]) + 0.5 * number.last_digit:
            because = f"{shown} from q, k and v as printed, which are rounded themselves"
            return self._on("rounded", claim, value, because)
        for accepted, level in ORDER:
            if level == EXACT and near == "cut":
                rounded = printed_number(value, max(number.digits, number.least))
                return self._on("cut", claim, value, f"{shown} truncated; rounded it is {rounded}")
            line = self._from_notes(claim, value, results, level, accepted) if level != EXACT else ""
            if line and level == SOUND:
                return self._on("carried on", claim, value, f"{line}, from the notes' own shortened numbers")
            if line:
                return self._on("follows", claim, value, f"{line} from a wrong number before it; right is {right}")
        low, high = (edge[claim.step][claim.index] if claim.step in edge else value for edge in self.edges)
        margin = 0.5 * number.last_digit
        if not are_same(low, high) and min(low, high) - margin <= number.value <= max(low, high) + margin:
            return self._on("follows", claim, value, f"follows from a wrong number before it; right is {right}")
        if number.digits < number.least:
            as_written = replace(claim, written=replace(number, least=number.digits))
            verdict = self._verdict_on(as_written, exact, results)
            decimals = count(number.least, "decimal")
            if verdict.kind in ("follows", "carried on"):  # not rounded from `value`, but from what the notes give
                return self._on("too few decimals", claim, value, f"fewer than {decimals}; {verdict.because}")
            if verdict.kind != "wrong":
                because = f"with {decimals} it is {printed_number(value, number.least)}"
                return self._on("too few decimals", claim, value, because)
        return self._on("wrong", claim, value, right)

    def _from_notes(self, claim: Claim, exact: float, results: Sequence[Variant], level: int, accepted: str) -> str:
        """The calculation that gives this number from numbers of the notes, if there is one."""
        for result in results:
            value = float(result.array[claim.index])
            if result.level != level or are_same(value, exact):
                continue
            near = nearness(claim.written, value)
            if result.way and (near == accepted or (near == "right" and accepted == "rounded")):
                return result.way.write(claim.index, result.inputs, value)
        return ""

    def _right(self, claim: Claim, value: float) -> str:
        way = ways_to(claim.step, self.exact)[-1]
        return way.write(claim.index, [self.exact[name] for name in way.needs], value)

    def _name(self, claim: Claim, verdict: Verdict, slip: Slip | None) -> Verdict:
        if slip is None or verdict.exact is None:
            return verdict
        because = f"{slip}; right is {self._right(claim, verdict.exact)}"
        return replace(verdict, kind="wrong", because=because, slip=slip.name.partition(" (")[0])

    def _compare_copy(self, claim: Claim) -> Verdict:
        """A q, k or v that is repeated and differs from the one the calculation starts from."""
        value = float(self.exact[claim.step][claim.index])
        if math.isnan(value):
            return self._on("unchecked", claim, None, "taken as given")
        shown, near = exactly(value, claim.written), nearness(claim.written, value)
        if near is None:
            return self._on("wrong", claim, value, f"given as {shown} elsewhere in the notes")
        return self._on(near, claim, value, f"{shown} {'truncated' if near == 'cut' else 'rounded'}")

    def _on(self, kind: Kind, claim: Claim, value: float | None, because: str) -> Verdict:
        shown = "" if value is None else exactly(value, claim.written)
        return self._verdict(kind, claim.step, claim.index, claim.written.text, because, value, shown)

    def _verdict(
        self, kind: Kind, step: str, index: Indices, text: str, because: str, value: float | None = None,
        shown: str = "",
    ) -> Verdict:  # fmt: skip
        has_head = step not in HEADLESS
        what, head = self.inputs.name(step, index), index[0] if has_head else 0
        return Verdict(kind, what, text, value, shown, because, step, index[has_head:], head)


def _are_equal(left: Numbers, right: Numbers) -> bool:
    return left.shape == right.shape and bool(np.allclose(left, right, rtol=1e-14, atol=1e-15, equal_nan=True))


def _last(results: Sequence[Variant], level: int, exact: Numbers) -> Numbers:
    """The result that used the most of the notes' numbers, to write the claims of this step into."""
    usable = [result for result in results if result.level <= level]
    return (usable[-1].array if usable and usable[-1].level == level else exact).copy()

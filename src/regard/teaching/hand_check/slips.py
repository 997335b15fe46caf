"""Typical mistakes: each is a hypothesis that predicts numbers, accepted if the numbers in the notes are those."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from regard.teaching.hand_check.calculation import WAYS, Arrays, concatenate, mask, softmax, split_columns
from regard.teaching.hand_check.claims import Claim
from regard.teaching.hand_check.inputs import Numbers
from regard.teaching.hand_check.notation import PROJECTIONS, are_same, nearness
from regard.trace.arithmetic import factor, precise

MOST_TERMS = 12  # of a sum in which a single wrong number may have lost one; of more, two numbers must agree
MOST_WORDS = 64  # words among which a mixed-up value is looked for
ROOT, SIZE, MASK = "√d_k forgotten", "divided by d_k instead of √d_k", "mask ignored"
MISSING, SIGN, WORD = "a term missing from the sum", "a term with the wrong sign", "value of the wrong word"


@dataclass(frozen=True)
class Slip:
    """A mistake that explains a number."""

    name: str
    detail: str = ""
    value: float = np.nan  # what it gives, with all digits

    def __str__(self) -> str:
        return f"{self.name} ({self.detail})" if self.detail else self.name


@dataclass(frozen=True)
class Rule:
    """A wrong way to compute a whole step: its name, the steps it may happen in, what it uses, and what it gives.

    `stage` is what the softmax takes, `seen` the mask or 1; a result of another shape than the step's is left out.
    """

    name: str
    steps: str  # separated by blanks
    needs: str
    compute: Callable[..., Any]


def _turn(array: Numbers) -> Numbers:
    return array.swapaxes(-1, -2)


def _shares(scores: Numbers) -> Numbers:
    numbers = np.where(np.isneginf(scores), 0.0, scores)
    return np.asarray(numbers / numbers.sum(axis=-1, keepdims=True))


def _projection_rules(step: str, matrix: str) -> Iterator[Rule]:
    for rows in ("x" if step == "query" else "context", "positioned"):
        needs = f"{rows} {matrix}"
        yield Rule(
            f"{matrix} transposed", step, needs, lambda x, W: x @ split_columns(np.concatenate(W, axis=1).T, len(W))
        )
        yield Rule(f"{matrix} of each head transposed", step, needs, lambda x, W: x @ _turn(W))
        yield Rule(f"{matrix} forgotten", step, needs, lambda x, W: split_columns(x, len(W)))
        for other in PROJECTIONS.values():
            if other != matrix:
                yield Rule(f"{other} instead of {matrix}", step, f"{rows} {other}", np.matmul)
    other, name = ("context", "context instead of x") if step == "query" else ("x", "x instead of the context")
    yield Rule(name, step, f"{other} {matrix}", np.matmul)
    yield Rule("position forgotten", step, f"x {matrix} position", lambda x, W, position: x @ W)


def _scaling_rules(steps: str, numbers: str, then: Callable[..., Any]) -> Iterator[Rule]:
    needs = f"{numbers} divisor seen"
    yield Rule(ROOT, steps, needs, lambda scores, divisor, seen: then(scores, seen))
    yield Rule(SIZE, steps, needs, lambda scores, divisor, seen: then(scores / divisor**2, seen))
    yield Rule("multiplied by √d_k", steps, needs, lambda scores, divisor, seen: then(scores * divisor, seen))


def _softmax_rules(step: str, stage: str) -> Iterator[Rule]:
    yield Rule("softmax over columns instead of rows", step, stage, lambda s: _turn(softmax(_turn(s))))
    yield Rule("normalised without the exponential", step, stage, _shares)
    yield Rule("not divided by the sum of the exponentials", step, stage, np.exp)
    name = "softmax over the whole matrix"
    yield Rule(name, step, stage, lambda s: np.exp(s) / np.exp(s).sum(axis=(-1, -2), keepdims=True))


def _average_rules(step: str, average: Callable[[Numbers, Numbers], Numbers]) -> Iterator[Rule]:
    needs = "weight value"
    yield Rule("keys instead of values", step, "weight key", average)
    yield Rule("weights of columns instead of rows", step, needs, lambda w, v: average(_turn(w), v))
    yield Rule(f"{WORD} (of the next word)", step, needs, lambda w, v: average(w, np.roll(v, -1, axis=1)))
    yield Rule(f"{WORD} (of the previous word)", step, needs, lambda w, v: average(w, np.roll(v, 1, axis=1)))
    yield Rule(f"{WORD} (in reverse order)", step, needs, lambda w, v: average(w, v[:, ::-1]))
    yield Rule("weights forgotten", step, needs, lambda w, v: average(np.ones_like(w), v))
    yield Rule("scores instead of weights", step, "score value", average)
    yield Rule("scaled scores instead of weights", step, "scaled value", average)


RULES = (
    Rule("position forgotten", "positioned", "x", lambda x: x),
    Rule("position instead of the sum", "positioned", "position", lambda position: position),
    Rule("position of the next word", "positioned", "x position", lambda x, at: x + np.roll(at, -1, axis=0)),
    Rule("position of the previous word", "positioned", "x position", lambda x, at: x + np.roll(at, 1, axis=0)),
    Rule("position subtracted", "positioned", "x position", np.subtract),
    Rule("multiplied by the position", "positioned", "x position", np.multiply),
    *(rule for step, matrix_name in PROJECTIONS.items() for rule in _projection_rules(step, matrix_name)),
    Rule("query and key swapped", "score", "query key", lambda q, k: k @ _turn(q)),
    Rule("q · v instead of q · k", "score", "query value", lambda q, v: q @ _turn(v)),
    *_scaling_rules("scaled", "score", lambda scaled, seen: scaled),
    Rule("divided by the root of the number of words", "scaled", "score", lambda s: s / s.shape[-1] ** 0.5),
    *_scaling_rules("masked", "score", mask),
    Rule(MASK, "masked", "scaled", lambda scaled: scaled),
    Rule("masked with 0 instead of −∞", "masked", "scaled visible", np.multiply),
    Rule("mask transposed", "masked", "scaled visible", lambda scaled, seen: mask(scaled, seen.T)),
    *_softmax_rules("unscaled_weight", "score"),
    Rule("√d_k applied", "unscaled_weight", "scaled", softmax),
    Rule("√d_k applied", "unscaled_weight", "score divisor", lambda scores, divisor: softmax(scores / divisor)),
    *_scaling_rules("weight", "score", lambda scaled, seen: softmax(mask(scaled, seen))),
    *_softmax_rules("weight", "stage"),
    Rule(MASK, "weight", "scaled visible", lambda scaled, seen: softmax(scaled)),
    Rule("masked after the softmax", "weight", "scaled visible", lambda scaled, seen: softmax(scaled) * seen),
    Rule("masked with 0 instead of −∞", "weight", "scaled visible", lambda scaled, seen: softmax(scaled * seen)),
    Rule("mask transposed", "weight", "scaled visible", lambda scaled, seen: softmax(mask(scaled, seen.T))),
    *_average_rules("weighted_value", lambda weights, values: weights[..., None] * values[:, None]),
    *_average_rules("output", np.matmul),
    Rule("keys instead of values", "weight_gradient", "output_gradient key", lambda g, k: g @ _turn(k)),
    Rule("mean without the weights", "mean_gradient", "weight_gradient", lambda g: g.mean(axis=-1)),
    Rule("sum without the weights", "mean_gradient", "weight_gradient", lambda g: g.sum(axis=-1)),
    Rule("mean not subtracted", "scaled_gradient", "weight weight_gradient", np.multiply),
    Rule(
        "weight forgotten", "scaled_gradient", "weight_gradient mean_gradient", lambda g, mean: g - mean[..., None]
    ),
    Rule("only the Jacobian's diagonal", "scaled_gradient", "weight weight_gradient", lambda w, g: w * g * (1 - w)),
    Rule(
        "mean added instead of subtracted", "scaled_gradient", "weight weight_gradient mean_gradient",
        lambda w, g, mean: w * (g + mean[..., None]),
    ),
    *_scaling_rules("score_gradient", "scaled_gradient", lambda scaled, seen: scaled),
    Rule("heads in reverse order", "concatenated", "output", lambda outputs: concatenate(outputs[::-1])),
    Rule("W_O forgotten", "projected", "concatenated W_O", lambda rows, W: rows),
    Rule("W_O transposed", "projected", "concatenated W_O", lambda rows, W: rows @ W.T),
    Rule("heads in reverse order", "projected", "output W_O", lambda outputs, W: concatenate(outputs[::-1]) @ W),
)  # fmt: skip


def predict(step: str, arrays: Arrays, shape: tuple[int, ...]) -> Iterator[tuple[str, Numbers]]:
    """What each rule gives for a step, by name."""
    known_arrays = {**arrays}
    known_arrays["seen"] = arrays.get("visible", np.array(1.0))
    known_arrays["stage"] = arrays.get("masked", arrays.get("scaled", np.array(np.nan)))
    for rule in RULES:
        if step in rule.steps.split() and all(name in known_arrays for name in rule.needs.split()):
            try:
                numbers = np.asarray(rule.compute(*(known_arrays[name] for name in rule.needs.split())))
            except ValueError:  # shapes that do not fit
                continue
            if numbers.shape == shape:
                yield rule.name, numbers


def explain_slips(
    step: str, claims: Sequence[Claim], failing: Sequence[Claim], variants: Sequence[Arrays], exact: Numbers,
    words: Sequence[str], coarse: Set[Claim] = frozenset(),
) -> dict[Claim, Slip]:  # fmt: skip
    """The slip behind each wrong number, for those that have one.

    claims    all numbers of the step: a slip that contradicts one in the same row is less likely
    variants  the steps before: exact, and as the notes have them
    words     of the keys
    coarse    numbers with too few decimals: a bare 0 fits too much to be explained without the rest of its row
    """
    with np.errstate(all="ignore"):
        predictions = [prediction for arrays in variants for prediction in predict(step, arrays, exact.shape)]
        hits = [{claim for claim in failing if _fits(claim, array[claim.index], exact)} for _, array in predictions]
        order = sorted(range(len(hits)), key=lambda at: -len(hits[at]))
        slips: dict[Claim, Slip] = {}
        rows: dict[tuple[int, ...], list[Claim]] = {}
        for claim in claims:
            rows.setdefault(claim.index[:-1], []).append(claim)
        wrong = {*failing}
        for row, of_row in rows.items():
            group = [claim for claim in of_row if claim in wrong]
            if coarse >= {*group}:
                continue
            whole = [at for at in order if hits[at].issuperset(group)]
            agreeing = [at for at in whole if all(nearness(c.written, predictions[at][1][c.index]) for c in of_row)]
            if agreeing or (whole and len(group) > 1):
                name, array = predictions[(agreeing or whole)[0]]
                explained: tuple[Slip, Numbers] | None = (Slip(name), array[row])
            else:
                explained = next(_explain_vector(step, row, group, variants, exact, words), None)
            if explained is not None:
                slips |= {claim: replace(explained[0], value=float(explained[1][claim.index[-1]])) for claim in group}
                continue
            for claim in (claim for claim in group if claim not in coarse):  # each number on its own
                alone = (predictions[at] for at in order if claim in hits[at])
                named = (Slip(name, value=float(array[claim.index])) for name, array in alone)
                slip = next(named, None) or _explain_sum(claim, variants, exact)
                slips |= {} if slip is None else {claim: slip}
        return slips


def _fits(claim: Claim, predicted: Any, exact: Numbers) -> bool:
    """Whether a prediction gives the number in the notes, and is not what is right anyway."""
    predicted = float(predicted)
    if np.isnan(predicted) or are_same(predicted, float(exact[claim.index])):
        return False
    return nearness(claim.written, predicted) is not None


def _explain_vector(
    step: str, row: tuple[int, ...], group: Sequence[Claim], variants: Iterable[Arrays], exact: Numbers,
    words: Sequence[str],
) -> Iterator[tuple[Slip, Numbers]]:  # fmt: skip
    """Slips in all components of a vector: the same term missing, of the wrong sign, or with another word's value."""
    for arrays in variants:
        if not {"weight", "value"} <= arrays.keys() or step not in ("output", "weighted_value"):
            continue
        weights, values = arrays["weight"][row[:2]], arrays["value"][row[0]]  # (key,), (key, value_dim)
        terms = weights[:, None] * values
        slips: list[tuple[Slip, Numbers]] = []
        if step == "weighted_value":
            used = [(f"the value of {words[key]} is used", key) for key in range(len(words)) if key != row[2]]
            slips = [(Slip(WORD, detail), weights[row[2]] * values[key]) for detail, key in used]
        elif len(group) > 1 or len(words) <= MOST_TERMS:
            for (key, word), (name, times) in product(enumerate(words), ((MISSING, 1), (SIGN, 2))):
                slips.append((Slip(name, f"that of {word}"), terms.sum(axis=0) - times * terms[key]))
        if step == "output" and (len(group) > 1 or len(words) <= 4) and len(words) <= MOST_WORDS:
            for (key, word), (other, another) in product(enumerate(words), repeat=2):
                mixed = terms.sum(axis=0) + weights[key] * (values[other] - values[key])
                slips.append((Slip(WORD, f"the value of {another} is used for {word}"), mixed))
        yield from (slip for slip in slips if all(_fits(c, slip[1][c.index[-1]], exact) for c in group))


def _explain_sum(claim: Claim, variants: Iterable[Arrays], exact: Numbers) -> Slip | None:
    """A single sum with a term missing or of the wrong sign."""
    for arrays, way in product(variants, WAYS[claim.step]):
        terms = way.terms(claim.index, [arrays[name] for name in way.needs]) if arrays.keys() >= {*way.needs} else None
        if terms is None or not 1 < len(terms) <= MOST_TERMS:
            continue
        for (name, times), term in product(((MISSING, 1), (SIGN, 2)), terms):
            predicted = float(terms.sum() - times * term)
            if _fits(claim, predicted, exact):
                return Slip(name, factor(term, precise), predicted)
    return None

"""Typical mistakes: each is a hypothesis that predicts numbers, accepted if the numbers in the notes are those."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from regard.teaching.hand_check.chain import WAYS, Known, concatenated, softmax
from regard.teaching.hand_check.inputs import Inputs, Numbers
from regard.teaching.hand_check.notation import are_same, nearness
from regard.teaching.hand_check.notes import Claim
from regard.trace.arithmetic import factor, precise

MOST_TERMS = 12  # of a sum in which a single wrong number may have lost one; of more, two numbers must agree
MOST_WORDS = 64  # words among which a mixed-up value is looked for
ROOT, SIZE, MASK = "√d_k forgotten", "divided by d_k instead of √d_k", "mask ignored"
COLUMNS, PLAIN = "softmax over columns instead of rows", "normalised without the exponential"
MISSING, SIGN, WORD = "a term missing from the sum", "a term with the wrong sign", "value of the wrong word"


@dataclass(frozen=True)
class Slip:
    """A mistake that explains a number."""

    name: str
    detail: str = ""
    value: float = np.nan  # what it gives, with all digits

    def __str__(self) -> str:
        return f"{self.name} ({self.detail})" if self.detail else self.name


def explained(
    step: str,
    claims: Sequence[Claim],
    failing: Sequence[Claim],
    variants: Sequence[Known],
    exact: Numbers,
    inputs: Inputs,
    coarse: Set[Claim] = frozenset(),
) -> dict[Claim, Slip]:
    """The slip behind each wrong number, for those that have one.

    claims    all numbers of the step: a slip that contradicts one in the same row is less likely
    variants  the steps before: exact, and as the notes have them
    coarse    numbers with too few decimals: a bare 0 fits too much to be explained without the rest of its row
    """
    with np.errstate(all="ignore"):
        predictions = [
            (name, array)
            for known in variants
            for name, array in _predictions(step, known, inputs)
            if array.shape == exact.shape
        ]
        hits = [
            {claim for claim in failing if _fits(claim, float(array[claim.place]), exact)} for _, array in predictions
        ]
        order = sorted(range(len(hits)), key=lambda at: -len(hits[at]))
        groups: dict[tuple[int, ...], list[Claim]] = {}
        for claim in failing:
            groups.setdefault(claim.place[:-1], []).append(claim)
        others: dict[tuple[int, ...], list[Claim]] = {place: [] for place in groups}
        for claim in claims:
            if claim.place[:-1] in others:
                others[claim.place[:-1]].append(claim)
        found: dict[Claim, Slip] = {}
        for place, group in groups.items():
            if coarse >= {*group}:
                continue
            whole = [at for at in order if hits[at].issuperset(group)]
            agreeing = [at for at in whole if _agrees(predictions[at][1], others[place])]
            chosen = next(iter([*agreeing, *whole]), None)
            if chosen is not None and (agreeing or len(group) > 1):
                name, array = predictions[chosen]
                found |= {claim: Slip(name, value=float(array[claim.place])) for claim in group}
                continue
            vector = next(_sums(step, place, group, variants, exact, inputs), None)
            if vector is not None:
                slip, numbers = vector
                found |= {claim: replace(slip, value=float(numbers[claim.place[-1]])) for claim in group}
                continue
            for claim in group:  # no slip explains the row: each number on its own
                if claim in coarse:
                    continue
                alone = [at for at in order if claim in hits[at]]
                if alone:
                    name, array = predictions[alone[0]]
                    found[claim] = Slip(name, value=float(array[claim.place]))
                elif (term := _one_term(claim, variants, exact)) is not None:
                    found[claim] = term
        return found


def _fits(claim: Claim, predicted: float, exact: Numbers) -> bool:
    """Whether a prediction gives the number in the notes, and is not what is right anyway."""
    if np.isnan(predicted) or are_same(predicted, float(exact[claim.place])):
        return False
    return nearness(claim.written, predicted) is not None


def _agrees(predicted: Numbers, claims: Sequence[Claim]) -> bool:
    """Whether a prediction gives every number of a row, the right ones included."""
    return all(nearness(claim.written, float(predicted[claim.place])) is not None for claim in claims)


# Hypotheses about a whole step


def _predictions(step: str, known: Known, inputs: Inputs) -> Iterator[tuple[str, Numbers]]:
    def have(*names: str) -> bool:
        return all(name in known for name in names)

    if step in ("query", "key", "value"):
        yield from _projections(step, known)
    if step == "score" and have("query", "key"):
        queries, keys = known["query"], known["key"]
        if queries.shape == keys.shape:
            yield "query and key swapped", keys @ queries.swapaxes(-1, -2)
        if have("value") and known["value"].shape[-1] == queries.shape[-1]:
            yield "q · v instead of q · k", queries @ known["value"].swapaxes(-1, -2)
    if step in ("scaled", "masked") and have("score", "divisor"):
        for name, scaled in _scalings(known["score"], float(known["divisor"])):
            hidden = step == "masked" and have("visible")
            yield name, np.where(known["visible"] > 0, scaled, -np.inf) if hidden else scaled
    if step == "masked" and have("scaled"):
        yield MASK, known["scaled"]
        yield "masked with 0 instead of −∞", known["scaled"] * known["visible"]
    if step == "weight":
        yield from _softmaxes(known)
    if step in ("weighted_value", "output") and have("weight", "value"):
        yield from _averages(step, known)
    if step == "concatenated" and have("output"):
        yield "heads in reverse order", concatenated(known["output"][::-1])
    if step == "projected" and have("concatenated", "W_O"):
        rows, matrix = known["concatenated"], known["W_O"]
        yield "W_O forgotten", rows
        if matrix.shape[0] == matrix.shape[1]:
            yield "W_O transposed", rows @ matrix.T


def _projections(step: str, known: Known) -> Iterator[tuple[str, Numbers]]:
    own, rows = f"W_{step[0]}", known.get("x" if step == "query" else "context")
    if rows is None or own not in known:
        return
    matrices = known[own]  # (head, in, out)
    heads, inner, outer = matrices.shape
    whole = np.concatenate(list(matrices), axis=1)  # (in, head · out)
    if whole.shape[0] == whole.shape[1]:
        transposed = np.stack(np.split(whole.T, heads, axis=1))
        yield f"{own} transposed", rows @ transposed
    if inner == outer:
        yield f"{own} of each head transposed", rows @ matrices.swapaxes(-1, -2)
    if rows.shape[1] == heads * outer:
        yield f"{own} forgotten", np.stack(np.split(rows, heads, axis=1))
    for other in ("W_q", "W_k", "W_v"):
        if other != own and other in known and known[other].shape == matrices.shape:
            yield f"{other} instead of {own}", rows @ known[other]
    wrong = known["context" if step == "query" else "x"]
    if wrong is not rows and wrong.shape == rows.shape:
        name = "context instead of x" if step == "query" else "x instead of the context"
        yield name, wrong @ matrices


def _scalings(scores: Numbers, divisor: float) -> Iterator[tuple[str, Numbers]]:
    yield ROOT, scores
    yield SIZE, scores / divisor**2
    yield "multiplied by √d_k", scores * divisor


def _softmaxes(known: Known) -> Iterator[tuple[str, Numbers]]:
    visible = known.get("visible")

    def masked(scores: Numbers) -> Numbers:
        return scores if visible is None else np.where(visible > 0, scores, -np.inf)

    stage = known.get("masked", known.get("scaled"))
    if stage is None:
        return
    if "score" in known and "divisor" in known:
        for name, scaled in _scalings(known["score"], float(known["divisor"])):
            yield name, softmax(masked(scaled))
    yield COLUMNS, softmax(stage.swapaxes(-1, -2)).swapaxes(-1, -2)
    shares = np.where(np.isneginf(stage), 0.0, stage)
    yield PLAIN, shares / shares.sum(axis=-1, keepdims=True)
    exponentials = np.exp(stage)
    yield "not divided by the sum of the exponentials", exponentials
    yield "softmax over the whole matrix", exponentials / exponentials.sum(axis=(-1, -2), keepdims=True)
    if visible is not None and "scaled" in known:
        unmasked = softmax(known["scaled"])
        yield MASK, unmasked
        yield "masked after the softmax", unmasked * visible
        yield "masked with 0 instead of −∞", softmax(known["scaled"] * visible)


def _averages(step: str, known: Known) -> Iterator[tuple[str, Numbers]]:
    weights, values = known["weight"], known["value"]

    def averaged(weights: Numbers, values: Numbers) -> Numbers:
        return weights @ values if step == "output" else weights[..., None] * values[:, None]

    if "key" in known and known["key"].shape == values.shape:
        yield "keys instead of values", averaged(weights, known["key"])
    if weights.shape[-1] == weights.shape[-2]:
        yield "weights of columns instead of rows", averaged(weights.swapaxes(-1, -2), values)
    if values.shape[1] > 1:
        for name, order in (("next", -1), ("previous", 1)):
            yield f"{WORD} (of the {name} word)", averaged(weights, np.roll(values, order, axis=1))
        yield f"{WORD} (in reverse order)", averaged(weights, values[:, ::-1])
    yield "weights forgotten", averaged(np.ones_like(weights), values)


# Hypotheses about one sum


def _sums(
    step: str, place: tuple[int, ...], group: Sequence[Claim], variants: Sequence[Known], exact: Numbers, inputs: Inputs
) -> Iterator[tuple[Slip, Numbers]]:
    """Slips in all components of a vector: the same term missing, of the wrong sign, or with another word's value."""
    for known in variants:
        if not {"weight", "value"} <= set(known) or step not in ("output", "weighted_value"):
            continue
        head, query = place[:2]
        weights, values = known["weight"][head, query], known["value"][head]  # (key,), (key, value_dim)
        components = [claim.place[-1] for claim in group]
        words = inputs.key_words
        enough = len(group) > 1 or len(words) <= 4

        def fit(vector: Numbers, components: Sequence[int] = components, group: Sequence[Claim] = group) -> bool:
            return all(_fits(claim, float(vector[at]), exact) for claim, at in zip(group, components, strict=True))

        if step == "weighted_value":
            for key, word in enumerate(words):
                if key != place[2] and fit(weights[place[2]] * values[key]):
                    yield Slip(WORD, f"the value of {word} is used"), weights[place[2]] * values[key]
            continue
        terms = weights[:, None] * values
        whole = terms.sum(axis=0)
        if len(group) > 1 or len(words) <= MOST_TERMS:
            for key, word in enumerate(words):
                if fit(whole - terms[key]):
                    yield Slip(MISSING, f"that of {word}"), whole - terms[key]
                if fit(whole - 2 * terms[key]):
                    yield Slip(SIGN, f"that of {word}"), whole - 2 * terms[key]
        if enough and len(words) <= MOST_WORDS:
            for key, other in product(range(len(words)), repeat=2):
                mixed = whole + weights[key] * (values[other] - values[key])
                if key != other and fit(mixed):
                    yield Slip(WORD, f"the value of {words[other]} is used for {words[key]}"), mixed


def _one_term(claim: Claim, variants: Sequence[Known], exact: Numbers) -> Slip | None:
    """A single sum with a term missing or of the wrong sign."""
    for known, way in product(variants, WAYS[claim.step]):
        if way.terms is None or not all(name in known for name in way.needs):
            continue
        needed: list[Any] = [known[name] for name in way.needs]
        terms = way.terms(claim.place, *needed)
        if not 1 < len(terms) <= MOST_TERMS:
            continue
        for name, times in ((MISSING, 1), (SIGN, 2)):
            for term in terms:
                predicted = float(terms.sum() - times * term)
                if _fits(claim, predicted, exact):
                    return Slip(name, factor(term, precise), predicted)
    return None

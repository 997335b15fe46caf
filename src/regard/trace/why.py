"""How a number of a trace came about, as the line somebody would write next to it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from regard import validate
from regard.arrays import numpy_of
from regard.trace.blending import last_stage, weighted_values_of
from regard.trace.formatting import dot, factor, number, softmax_line, vector
from regard.trace.words import key_of, row_of

if TYPE_CHECKING:
    from regard.trace.steps import Trace

FEW_KEYS = 6  # weighted vectors in a sum that are written out


@dataclass(frozen=True, eq=False)
class Why:
    """A calculation: its lines, what comes out, and what was added up to it."""

    text: str
    value: Any  # a float, or a NumPy array
    terms: tuple[Any, ...] = ()  # numbers, or vectors

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Why({self.text})"


@dataclass(frozen=True, eq=False)
class Place:
    """The number that somebody asks about."""

    trace: Trace
    name: str
    query: Any
    key: Any
    head: int
    component: int | None
    full: bool

    @property
    def row(self) -> int:
        """The place of the query."""
        return row_of(self.trace, self.query, self.name)

    @property
    def column(self) -> int:
        """The position of the key."""
        return key_of(self.trace, self.key, self.name)

    @property
    def token(self) -> int:
        """The position of a word among the keys, whichever way it was named."""
        if self.key is None and self.query is not None:
            return key_of(self.trace, self.query, self.name)
        return self.column

    def step(self, name: str, *index: int) -> Any:
        """Part of a step, as NumPy has it."""
        return numpy_of(self.trace[name][index])

    def part(self, name: str) -> Any:
        """What a layer was made of, None where there is no such thing."""
        return self.trace.origin.parts.get(name)

    def vector(self, values: Any) -> str:
        """A vector, as short as was asked for."""
        return vector(values, self.full)


def why(trace: Trace, name: str, *, query: Any, key: Any, head: int, component: int | None, full: bool) -> Why:
    """The calculation of one number, or of one vector."""
    from regard.trace.why_layers import LAYER_CALCULATIONS

    trace.step(name)
    return {**CALCULATIONS, **LAYER_CALCULATIONS}[name](Place(trace, name, query, key, head, component, full))


def picked(place: Place, values: Any) -> int | None:
    """The component that was asked for, counted from the front."""
    component = place.component
    if component is None:
        return None
    size = len(values)
    return validate.index("component", component, size)


def _score(place: Place) -> Why:
    query, key = place.step("query", place.head, place.row), place.step("key", place.head, place.column)
    score = float(place.step("score", place.head, place.row, place.column))
    products = tuple(float(a) * float(b) for a, b in zip(query, key, strict=True))
    line = f"{place.vector(query)}·{place.vector(key)}"
    if place.trace.origin.is_cosine:
        lengths = [float(np.linalg.norm(values)) for values in (query, key)]
        over = f"({number(lengths[0])}·{number(lengths[1])})"
        line += f" / {over} = {number(sum(products))} / {number(lengths[0] * lengths[1])}"
        return Why(f"{line} = {number(score)}", score, products)
    if len(products) > 1:
        line += f" = {dot(query, key, place.full)}"
    return Why(f"{line} = {number(score)}", score, products)


def _scaled(place: Place) -> Why:
    score, scaled = (float(place.step(name, place.head, place.row, place.column)) for name in ("score", "scaled"))
    by = f"/ √{place.trace.size}" if place.trace.origin.is_root else f"· {factor(place.trace.origin.scale)}"
    return Why(f"{number(score)} {by} = {number(scaled)}", scaled, (score, place.trace.origin.scale))


def _capped(place: Place) -> Why:
    scaled, capped = (float(place.step(name, place.head, place.row, place.column)) for name in ("scaled", "capped"))
    cap = number(place.trace.origin.softcap)
    return Why(f"{cap} · tanh({number(scaled)} / {cap}) = {number(capped)}", capped, (scaled,))


def _before(place: Place) -> float:
    """The number of the step before."""
    names = place.trace.names
    return float(place.step(names[names.index(place.name) - 1], place.head, place.row, place.column))


def _biased(place: Place) -> Why:
    before, biased = _before(place), float(place.step("biased", place.head, place.row, place.column))
    bias = biased - before
    return Why(f"{number(before)} + {factor(bias)} = {number(biased)}", biased, (before, bias))


def _masked(place: Place) -> Why:
    before, masked = _before(place), float(place.step("masked", place.head, place.row, place.column))
    query, key = place.trace.query_words[place.row], place.trace.words[place.column]
    if math.isinf(masked) and masked < 0:
        return Why(f"{query} may not see {key}: {number(before)} becomes −∞", masked, (before,))
    return Why(f"{query} may see {key}: {number(before)} stays {number(masked)}", masked, (before,))


def _weight(place: Place) -> Why:
    scores = place.step(last_stage(place.trace), place.head, place.row).astype(np.float64)
    weight = float(place.step("weight", place.head, place.row, place.column))
    query, key = place.trace.query_words[place.row], place.trace.words[place.column]
    sinks = place.trace.origin.sinks
    sink = None if sinks is None else float(numpy_of(sinks)[place.head])
    if np.isneginf(scores[place.column]):
        return Why(f"{query} may not see {key}: e^(−∞) = 0, and the weight is {number(weight)}", weight)
    line, less = softmax_line(scores, place.column, sink, place.full)
    logits = scores[~np.isneginf(scores)] if sink is None else np.append(scores[~np.isneginf(scores)], sink)
    with np.errstate(all="ignore"):
        powers = np.exp(logits - less)
    line += f" = {number(weight)}"
    if less:
        line += f", with the largest score, {number(less)}, subtracted from each: the weights stay the same"
    return Why(line, weight, tuple(powers.tolist()))


def _weighted_value(place: Place) -> Why:
    weight = float(place.step("weight", place.head, place.row, place.column))
    value = place.step("value", place.head, place.column)
    weighted = numpy_of(weighted_values_of(place.trace, place.row, place.head))[place.column]
    component = picked(place, value)
    if component is None:
        return Why(f"{factor(weight)}·{place.vector(value)} = {place.vector(weighted)}", weighted, (weight, value))
    one = float(weighted[component])
    line = f"{factor(weight)}·{factor(value[component])} = {number(one)}"
    return Why(line, one, (weight, float(value[component])))


def _output(place: Place) -> Why:
    weights, values = place.step("weight", place.head, place.row), place.step("value", place.head)
    output = place.step("output", place.head, place.row)
    weighted = numpy_of(weighted_values_of(place.trace, place.row, place.head))
    component = picked(place, output)
    if component is not None:
        one = float(output[component])
        line = dot(weights, values[:, component], place.full)
        return Why(f"{line} = {number(one)}", one, tuple(weighted[:, component].tolist()))
    shown = range(len(weights)) if place.full or len(weights) <= FEW_KEYS else (0, 1, 2, len(weights) - 1)
    terms = [f"{factor(weights[key])}·{place.vector(values[key])}" for key in shown]
    if len(terms) < len(weights):
        terms.insert(-1, "…")
    return Why(f"{' + '.join(terms)} = {place.vector(output)}", output, tuple(weighted))


CALCULATIONS: dict[str, Callable[[Place], Why]] = {
    "score": _score,
    "scaled": _scaled,
    "capped": _capped,
    "biased": _biased,
    "masked": _masked,
    "weight": _weight,
    "weighted_value": _weighted_value,
    "output": _output,
}

"""How a number of a trace is calculated, written out on one line."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard import validate
from regard.arrays import numpy_of
from regard.layers.norms import LayerNorm, RMSNorm
from regard.trace.arithmetic import dot, factor, number, softmax_line, vector
from regard.trace.steps import Fed, Projection, Steps, Sum, Taken, key_of, last_stage, row_of, weighted_values_of

FEW_KEYS = 6  # weighted vectors in a sum that are written out
Line = tuple[str, tuple[Any, ...]]  # and the terms of its sum


@dataclass(frozen=True, eq=False)
class Why:
    """A calculation: the line, its result, and the terms of its sum."""

    text: str
    value: Any  # a float, or a NumPy array
    terms: tuple[Any, ...] = ()  # numbers, or vectors

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Why({self.text})"


@dataclass(frozen=True, eq=False)
class ExplainedNumber:
    """The number or vector that a calculation is for."""

    trace: Steps
    name: str
    query: Any
    key: Any
    head: int
    component: int | None
    full: bool

    @property
    def row(self) -> int:
        """The row of the query."""
        return row_of(self.trace, self.query, self.name)

    @property
    def column(self) -> int:
        """The position of the key."""
        return key_of(self.trace, self.key, self.name)

    def step(self, name: str, *index: int) -> Any:
        """Part of a step as a NumPy array."""
        return numpy_of(self.trace[name][index])

    def pair(self, name: str) -> float:
        """The number of a step that has one per query and key."""
        return float(self.step(name, self.head, self.row, self.column))

    def vector(self, values: Any) -> str:
        """A vector, shortened unless `full`."""
        return vector(values, self.full)


def why(trace: Steps, name: str, *, query: Any, key: Any, head: int, component: int | None, full: bool) -> Why:
    """The calculation of one number, or of one vector."""
    trace.step(name)
    place = ExplainedNumber(trace, name, query, key, head, component, full)
    if name in OF_PAIRS:
        text, terms = OF_PAIRS[name](place)
        return Why(text, place.pair(name), terms)
    values, at = _where(place)
    if component is not None:
        component = validate.index("component", component, len(values))
    shown = place.vector(values) if component is None else number(values[component])
    made = OF_VECTORS.get(name) or MADE.get(type(trace.origin.parts.get(name)), _taken)
    text, terms = made(place, at, component, shown)
    return Why(text, values if component is None else float(values[component]), terms)


# One number per query and key


def _score(place: ExplainedNumber) -> Line:
    query, key = place.step("query", place.head, place.row), place.step("key", place.head, place.column)
    products = tuple(float(a) * float(b) for a, b in zip(query, key, strict=True))
    line = f"{place.vector(query)}·{place.vector(key)}"
    if place.trace.origin.is_cosine:
        lengths = [float(np.linalg.norm(values)) for values in (query, key)]
        over = f"({number(lengths[0])}·{number(lengths[1])})"
        line += f" / {over} = {number(sum(products))} / {number(lengths[0] * lengths[1])}"
    elif len(products) > 1:
        line += f" = {dot(query, key, place.full)}"
    return f"{line} = {number(place.pair('score'))}", products


def _from_before(place: ExplainedNumber) -> Line:
    """A score after one more stage."""
    origin, names = place.trace.origin, place.trace.names
    before, after = place.pair(names[names.index(place.name) - 1]), place.pair(place.name)
    if place.name == "scaled":
        by = f"/ √{place.trace.head_dim}" if origin.is_root else f"· {factor(origin.scale)}"
        return f"{number(before)} {by} = {number(after)}", (before, origin.scale)
    if place.name == "capped":
        cap = number(origin.softcap)
        return f"{cap} · tanh({number(before)} / {cap}) = {number(after)}", (before,)
    if place.name == "biased":
        return f"{number(before)} + {factor(after - before)} = {number(after)}", (before, after - before)
    query, key = place.trace.query_words[place.row], place.trace.words[place.column]
    if math.isinf(after) and after < 0:
        return f"{query} may not see {key}: {number(before)} becomes −∞", (before,)
    return f"{query} may see {key}: {number(before)} stays {number(after)}", (before,)


def _weight(place: ExplainedNumber) -> Line:
    scores = place.step(last_stage(place.trace), place.head, place.row).astype(np.float64)
    weight, sinks = number(place.pair("weight")), place.trace.origin.sinks
    if np.isneginf(scores[place.column]):
        query, key = place.trace.query_words[place.row], place.trace.words[place.column]
        return f"{query} may not see {key}: e^(−∞) = 0, and the weight is {weight}", ()
    sink = None if sinks is None else float(numpy_of(sinks)[place.head])
    line, less = softmax_line(scores, place.column, sink, place.full)
    logits = scores[~np.isneginf(scores)] if sink is None else np.append(scores[~np.isneginf(scores)], sink)
    with np.errstate(all="ignore"):
        powers = np.exp(logits - less)
    line += f" = {weight}"
    if less:
        line += f", with the largest score, {number(less)}, subtracted from each: the weights stay the same"
    return line, tuple(powers.tolist())


# Vectors: where they are, and what they come from


def _where(place: ExplainedNumber) -> tuple[Any, int]:
    """The vector, and its row in the arrays it was computed from."""
    trace, axes = place.trace, place.trace.step(place.name).axes
    if place.name == "weighted_value":
        return numpy_of(weighted_values_of(trace, place.row, place.head))[place.column], place.column
    if axes[0] == "query" or axes[1] == "query":
        return place.step(place.name, *([place.head] if axes[0] == "head" else []), place.row), place.row
    if axes[0] == "head":  # of a word that is given as key or as query
        by_query = place.key is None and place.query is not None
        at = key_of(trace, place.query if by_query else place.key, place.name)
        return place.step(place.name, place.head, at), at
    named = place.query if place.query is not None else place.key
    if trace.own_key is None:  # an input token: of the query in cross-attention, else of the key
        at = trace.first_query + row_of(trace, named, place.name)
    else:
        at = key_of(trace, named, place.name) if named is not None else trace.own_key + place.row
    return place.step(place.name, at), at


def _weighted_value(place: ExplainedNumber, at: int, component: int | None, shown: str) -> Line:
    weight, value = place.pair("weight"), place.step("value", place.head, at)
    if component is None:
        return f"{factor(weight)}·{place.vector(value)} = {shown}", (weight, value)
    return f"{factor(weight)}·{factor(value[component])} = {shown}", (weight, float(value[component]))


def _output(place: ExplainedNumber, at: int, component: int | None, shown: str) -> Line:
    weights, values = place.step("weight", place.head, at), place.step("value", place.head)
    weighted = numpy_of(weighted_values_of(place.trace, at, place.head))
    if component is not None:
        return f"{dot(weights, values[:, component], place.full)} = {shown}", tuple(weighted[:, component].tolist())
    keys = range(len(weights)) if place.full or len(weights) <= FEW_KEYS else (0, 1, 2, len(weights) - 1)
    terms = [f"{factor(weights[key])}·{place.vector(values[key])}" for key in keys]
    if len(terms) < len(weights):
        terms.insert(-1, "…")
    return f"{' + '.join(terms)} = {shown}", tuple(weighted)


def _concatenated(place: ExplainedNumber, at: int, component: int | None, shown: str) -> Line:
    outputs = tuple(place.step("output", head, at) for head in range(place.trace.heads))
    if component is None:
        return f"{' | '.join(map(place.vector, outputs))} = {shown}", outputs
    head, component = divmod(component, len(outputs[0]))
    return f"number {component} of head {head}: {shown}", (float(outputs[head][component]),)


# Steps of layers: vectors as given, projections, sums, norms, feed-forward


def _taken(place: ExplainedNumber, at: int, component: int | None, shown: str) -> Line:
    made = place.trace.origin.parts.get(place.name)
    return f"{shown}, {made.how if isinstance(made, Taken) else 'as given'}", ()


def _projection(place: ExplainedNumber, at: int, component: int | None, shown: str) -> Line:
    made: Projection = place.trace.origin.parts[place.name]
    row = _double(made.rows[at])
    head = place.head // made.shared_by if made.heads > 1 else 0
    matrix = _double(made.matrices[head])  # (in, out)
    shift = None if made.linear.bias is None else np.split(_double(made.linear.bias), made.heads)[head]
    before = row @ matrix + (0 if shift is None else shift)
    if component is None:
        letters = f"W_{made.letter}" + (f" of head {head}" if made.heads > 1 else "")
        with_shift = "" if shift is None else f" + b_{made.letter}"
        result = f" = {place.vector(before)}, {made.then}: {shown}" if made.then else f" = {shown}"
        return f"{place.vector(row)} · {letters}{with_shift}{result}", tuple(matrix.T * row)
    column = matrix[:, component]
    added = "" if shift is None else f" + {factor(shift[component])}"
    line = f"{place.vector(row)}·{place.vector(column)}{added} = {dot(row, column, place.full)}{added}"
    line += f" = {number(before[component])}" + (f"; {made.then}: {shown}" if made.then else "")
    return line, (*(row * column).tolist(), *([] if shift is None else [float(shift[component])]))


def _sum(place: ExplainedNumber, at: int, component: int | None, shown: str) -> Line:
    made: Sum = place.trace.origin.parts[place.name]
    left, right = _double(made.left[at]), _double(made.right[at])
    if component is None:
        line = f"{place.vector(left)} + {place.vector(right)}"
        if made.norm is not None:
            line = f"norm({line}) = norm({place.vector(left + right)})"
        return f"{line} = {shown}", (left, right)
    terms = (float(left[component]), float(right[component]))
    line = f"{number(terms[0])} + {factor(terms[1])} = {number(sum(terms))}"
    if made.norm is not None:
        line += f"; {_normed(made.norm, left + right, component)} = {shown}"
    return line, terms


def _normed(norm: LayerNorm | RMSNorm, row: Any, component: int) -> str:
    """One component of a normalised row, without its result."""
    end = f" · {factor(float(_double(norm.weight)[component]))}"
    if isinstance(norm, LayerNorm):
        end += "" if norm.bias is None else f" + {factor(_double(norm.bias)[component])}"
        top, square = f"({number(row[component])} − {factor(row.mean())})", row.var()
    else:
        top, square = number(row[component]), np.mean(row * row)
    return f"{top} / √({number(square)} + {norm.epsilon:g})".replace("e-", "e−") + end


def _fed(place: ExplainedNumber, at: int, component: int | None, shown: str) -> Line:
    made: Fed = place.trace.origin.parts[place.name]
    layer, row = made.layer, place.vector(_double(made.rows[at]))
    hidden, down = _double(layer.hidden(made.rows[at : at + 1])[0]), layer.down
    if component is None:
        inner = f"{row} · W_1" + ("" if layer.up.bias is None else " + b_1")
        gated = f"{layer.activation}({row} · W_g) · ({inner})"
        inner = f"{layer.activation}({inner})" if layer.gate is None else gated
        shift = "" if down.bias is None else " + b_2"
        return f"{inner} = {place.vector(hidden)}; {place.vector(hidden)} · W_2{shift} = {shown}", (hidden,)
    column = _double(down.matrix[:, component])
    shift = "" if down.bias is None else f" + {factor(_double(down.bias)[component])}"
    line = f"{place.vector(hidden)}·{place.vector(column)}{shift} = {dot(hidden, column, place.full)}{shift}"
    return f"{line} = {shown}", tuple((hidden * column).tolist())


def _double(array: Any) -> Any:
    """As float64."""
    return numpy_of(array).astype(np.float64)


OF_PAIRS: dict[str, Callable[[ExplainedNumber], Line]] = {
    "score": _score, "weight": _weight, **dict.fromkeys(("scaled", "capped", "biased", "masked"), _from_before)
}  # fmt: skip
Maker = Callable[[ExplainedNumber, int, int | None, str], Line]
OF_VECTORS: dict[str, Maker] = {"weighted_value": _weighted_value, "output": _output, "concatenated": _concatenated}
MADE: dict[type, Maker] = {Projection: _projection, Sum: _sum, Fed: _fed}

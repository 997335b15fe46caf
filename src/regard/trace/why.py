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
from regard.trace.named_steps import Fed, Projection, Steps, Sum, Taken, key_of, last_stage, row_of, weighted_values_of

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
    target = ExplainedNumber(trace, name, query, key, head, component, full)
    if name in OF_PAIRS:
        text, terms = OF_PAIRS[name](target)
        return Why(text, target.pair(name), terms)
    values, at = _where(target)
    if component is not None:
        component = validate.index("component", component, len(values))
    shown = target.vector(values) if component is None else number(values[component])
    made = OF_VECTORS.get(name) or MADE.get(type(trace.origin.parts.get(name)), _taken)
    text, terms = made(target, at, component, shown)
    return Why(text, values if component is None else float(values[component]), terms)


# One number per query and key


def _score(target: ExplainedNumber) -> Line:
    query, key = target.step("query", target.head, target.row), target.step("key", target.head, target.column)
    products = tuple(float(a) * float(b) for a, b in zip(query, key, strict=True))
    line = f"{target.vector(query)}·{target.vector(key)}"
    if target.trace.origin.is_cosine:
        lengths = [float(np.linalg.norm(values)) for values in (query, key)]
        over = f"({number(lengths[0])}·{number(lengths[1])})"
        line += f" / {over} = {number(sum(products))} / {number(lengths[0] * lengths[1])}"
    elif len(products) > 1:
        line += f" = {dot(query, key, target.full)}"
    return f"{line} = {number(target.pair('score'))}", products


def _from_before(target: ExplainedNumber) -> Line:
    """A score after one more stage."""
    origin, names = target.trace.origin, target.trace.names
    before, after = target.pair(names[names.index(target.name) - 1]), target.pair(target.name)
    if target.name == "scaled":
        by = f"/ √{target.trace.head_dim}" if origin.is_root else f"· {factor(origin.scale)}"
        return f"{number(before)} {by} = {number(after)}", (before, origin.scale)
    if target.name == "capped":
        cap = number(origin.softcap)
        return f"{cap} · tanh({number(before)} / {cap}) = {number(after)}", (before,)
    if target.name == "biased":
        return f"{number(before)} + {factor(after - before)} = {number(after)}", (before, after - before)
    query, key = target.trace.query_words[target.row], target.trace.words[target.column]
    if math.isinf(after) and after < 0:
        return f"{query} may not see {key}: {number(before)} becomes −∞", (before,)
    return f"{query} may see {key}: {number(before)} stays {number(after)}", (before,)


def _weight(target: ExplainedNumber) -> Line:
    scores = target.step(last_stage(target.trace), target.head, target.row).astype(np.float64)
    weight, sinks = number(target.pair("weight")), target.trace.origin.sinks
    if np.isneginf(scores[target.column]):
        query, key = target.trace.query_words[target.row], target.trace.words[target.column]
        return f"{query} may not see {key}: e^(−∞) = 0, and the weight is {weight}", ()
    sink = None if sinks is None else float(numpy_of(sinks)[target.head])
    line, less = softmax_line(scores, target.column, sink, target.full)
    logits = scores[~np.isneginf(scores)] if sink is None else np.append(scores[~np.isneginf(scores)], sink)
    with np.errstate(all="ignore"):
        powers = np.exp(logits - less)
    line += f" = {weight}"
    if less:
        line += f", with the largest score, {number(less)}, subtracted from each: the weights stay the same"
    return line, tuple(powers.tolist())


# Vectors: where they are, and what they come from


def _where(target: ExplainedNumber) -> tuple[Any, int]:
    """The vector, and its row in the arrays it was computed from."""
    trace, axes = target.trace, target.trace.step(target.name).axes
    if target.name == "weighted_value":
        return numpy_of(weighted_values_of(trace, target.row, target.head))[target.column], target.column
    if axes[0] == "query" or axes[1] == "query":
        return target.step(target.name, *([target.head] if axes[0] == "head" else []), target.row), target.row
    if axes[0] == "head":  # of a word that is given as key or as query
        by_query = target.key is None and target.query is not None
        at = key_of(trace, target.query if by_query else target.key, target.name)
        return target.step(target.name, target.head, at), at
    named = target.query if target.query is not None else target.key
    if trace.own_key is None:  # an input token: of the query in cross-attention, else of the key
        at = trace.first_query + row_of(trace, named, target.name)
    else:
        at = key_of(trace, named, target.name) if named is not None else trace.own_key + target.row
    return target.step(target.name, at), at


def _weighted_value(target: ExplainedNumber, at: int, component: int | None, shown: str) -> Line:
    weight, value = target.pair("weight"), target.step("value", target.head, at)
    if component is None:
        return f"{factor(weight)}·{target.vector(value)} = {shown}", (weight, value)
    return f"{factor(weight)}·{factor(value[component])} = {shown}", (weight, float(value[component]))


def _output(target: ExplainedNumber, at: int, component: int | None, shown: str) -> Line:
    weights, values = target.step("weight", target.head, at), target.step("value", target.head)
    weighted = numpy_of(weighted_values_of(target.trace, at, target.head))
    if component is not None:
        return f"{dot(weights, values[:, component], target.full)} = {shown}", tuple(weighted[:, component].tolist())
    keys = range(len(weights)) if target.full or len(weights) <= FEW_KEYS else (0, 1, 2, len(weights) - 1)
    terms = [f"{factor(weights[key])}·{target.vector(values[key])}" for key in keys]
    if len(terms) < len(weights):
        terms.insert(-1, "…")
    return f"{' + '.join(terms)} = {shown}", tuple(weighted)


def _concatenated(target: ExplainedNumber, at: int, component: int | None, shown: str) -> Line:
    outputs = tuple(target.step("output", head, at) for head in range(target.trace.heads))
    if component is None:
        return f"{' | '.join(map(target.vector, outputs))} = {shown}", outputs
    head, component = divmod(component, len(outputs[0]))
    return f"number {component} of head {head}: {shown}", (float(outputs[head][component]),)


# Steps of layers: vectors as given, projections, sums, norms, feed-forward


def _taken(target: ExplainedNumber, at: int, component: int | None, shown: str) -> Line:
    made = target.trace.origin.parts.get(target.name)
    return f"{shown}, {made.how if isinstance(made, Taken) else 'as given'}", ()


def _projection(target: ExplainedNumber, at: int, component: int | None, shown: str) -> Line:
    made: Projection = target.trace.origin.parts[target.name]
    row = _double(made.rows[at])
    head = target.head // made.shared_by if made.heads > 1 else 0
    matrix = _double(made.matrices[head])  # (in, out)
    shift = None if made.linear.bias is None else np.split(_double(made.linear.bias), made.heads)[head]
    before = row @ matrix + (0 if shift is None else shift)
    if component is None:
        letters = f"W_{made.letter}" + (f" of head {head}" if made.heads > 1 else "")
        with_shift = "" if shift is None else f" + b_{made.letter}"
        result = f" = {target.vector(before)}, {made.then}: {shown}" if made.then else f" = {shown}"
        return f"{target.vector(row)} · {letters}{with_shift}{result}", tuple(matrix.T * row)
    column = matrix[:, component]
    added = "" if shift is None else f" + {factor(shift[component])}"
    line = f"{target.vector(row)}·{target.vector(column)}{added} = {dot(row, column, target.full)}{added}"
    line += f" = {number(before[component])}" + (f"; {made.then}: {shown}" if made.then else "")
    return line, (*(row * column).tolist(), *([] if shift is None else [float(shift[component])]))


def _sum(target: ExplainedNumber, at: int, component: int | None, shown: str) -> Line:
    made: Sum = target.trace.origin.parts[target.name]
    left, right = _double(made.left[at]), _double(made.right[at])
    if component is None:
        line = f"{target.vector(left)} + {target.vector(right)}"
        if made.norm is not None:
            line = f"norm({line}) = norm({target.vector(left + right)})"
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


def _fed(target: ExplainedNumber, at: int, component: int | None, shown: str) -> Line:
    made: Fed = target.trace.origin.parts[target.name]
    layer, row = made.layer, target.vector(_double(made.rows[at]))
    hidden, down = _double(layer.hidden(made.rows[at : at + 1])[0]), layer.down
    if component is None:
        inner = f"{row} · W_1" + ("" if layer.up.bias is None else " + b_1")
        gated = f"{layer.activation}({row} · W_g) · ({inner})"
        inner = f"{layer.activation}({inner})" if layer.gate is None else gated
        shift = "" if down.bias is None else " + b_2"
        return f"{inner} = {target.vector(hidden)}; {target.vector(hidden)} · W_2{shift} = {shown}", (hidden,)
    column = _double(down.matrix[:, component])
    shift = "" if down.bias is None else f" + {factor(_double(down.bias)[component])}"
    line = f"{target.vector(hidden)}·{target.vector(column)}{shift} = {dot(hidden, column, target.full)}{shift}"
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

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

    @property
    def token(self) -> int:
        """The position among the keys of a word given as key or as query."""
        if self.key is None and self.query is not None:
            return key_of(self.trace, self.query, self.name)
        return self.column

    def step(self, name: str, *index: int) -> Any:
        """Part of a step as a NumPy array."""
        return numpy_of(self.trace[name][index])

    def part(self, name: str) -> Any:
        """The provenance of a layer's step, or None."""
        return self.trace.origin.parts.get(name)

    def vector(self, values: Any) -> str:
        """A vector, shortened unless `full`."""
        return vector(values, self.full)


def why(trace: Steps, name: str, *, query: Any, key: Any, head: int, component: int | None, full: bool) -> Why:
    """The calculation of one number, or of one vector."""
    trace.step(name)
    return CALCULATIONS[name](ExplainedNumber(trace, name, query, key, head, component, full))


def chosen_component(target: ExplainedNumber, values: Any) -> int | None:
    """The chosen component, counted from 0; None for the whole vector."""
    component = target.component
    if component is None:
        return None
    size = len(values)
    return validate.index("component", component, size)


def _score(target: ExplainedNumber) -> Why:
    query, key = target.step("query", target.head, target.row), target.step("key", target.head, target.column)
    score = float(target.step("score", target.head, target.row, target.column))
    products = tuple(float(a) * float(b) for a, b in zip(query, key, strict=True))
    line = f"{target.vector(query)}·{target.vector(key)}"
    if target.trace.origin.is_cosine:
        lengths = [float(np.linalg.norm(values)) for values in (query, key)]
        over = f"({number(lengths[0])}·{number(lengths[1])})"
        line += f" / {over} = {number(sum(products))} / {number(lengths[0] * lengths[1])}"
        return Why(f"{line} = {number(score)}", score, products)
    if len(products) > 1:
        line += f" = {dot(query, key, target.full)}"
    return Why(f"{line} = {number(score)}", score, products)


def _scaled(target: ExplainedNumber) -> Why:
    score, scaled = (float(target.step(name, target.head, target.row, target.column)) for name in ("score", "scaled"))
    by = f"/ √{target.trace.head_dim}" if target.trace.origin.is_root else f"· {factor(target.trace.origin.scale)}"
    return Why(f"{number(score)} {by} = {number(scaled)}", scaled, (score, target.trace.origin.scale))


def _capped(target: ExplainedNumber) -> Why:
    scaled, capped = (float(target.step(name, target.head, target.row, target.column)) for name in ("scaled", "capped"))
    cap = number(target.trace.origin.softcap)
    return Why(f"{cap} · tanh({number(scaled)} / {cap}) = {number(capped)}", capped, (scaled,))


def _before(target: ExplainedNumber) -> float:
    """The number of the step before."""
    names = target.trace.names
    return float(target.step(names[names.index(target.name) - 1], target.head, target.row, target.column))


def _biased(target: ExplainedNumber) -> Why:
    before, biased = _before(target), float(target.step("biased", target.head, target.row, target.column))
    bias = biased - before
    return Why(f"{number(before)} + {factor(bias)} = {number(biased)}", biased, (before, bias))


def _masked(target: ExplainedNumber) -> Why:
    before, masked = _before(target), float(target.step("masked", target.head, target.row, target.column))
    query, key = target.trace.query_words[target.row], target.trace.words[target.column]
    if math.isinf(masked) and masked < 0:
        return Why(f"{query} may not see {key}: {number(before)} becomes −∞", masked, (before,))
    return Why(f"{query} may see {key}: {number(before)} stays {number(masked)}", masked, (before,))


def _weight(target: ExplainedNumber) -> Why:
    scores = target.step(last_stage(target.trace), target.head, target.row).astype(np.float64)
    weight = float(target.step("weight", target.head, target.row, target.column))
    query, key = target.trace.query_words[target.row], target.trace.words[target.column]
    sinks = target.trace.origin.sinks
    sink = None if sinks is None else float(numpy_of(sinks)[target.head])
    if np.isneginf(scores[target.column]):
        return Why(f"{query} may not see {key}: e^(−∞) = 0, and the weight is {number(weight)}", weight)
    line, less = softmax_line(scores, target.column, sink, target.full)
    logits = scores[~np.isneginf(scores)] if sink is None else np.append(scores[~np.isneginf(scores)], sink)
    with np.errstate(all="ignore"):
        powers = np.exp(logits - less)
    line += f" = {number(weight)}"
    if less:
        line += f", with the largest score, {number(less)}, subtracted from each: the weights stay the same"
    return Why(line, weight, tuple(powers.tolist()))


def _weighted_value(target: ExplainedNumber) -> Why:
    weight = float(target.step("weight", target.head, target.row, target.column))
    value = target.step("value", target.head, target.column)
    weighted = numpy_of(weighted_values_of(target.trace, target.row, target.head))[target.column]
    component = chosen_component(target, value)
    if component is None:
        return Why(f"{factor(weight)}·{target.vector(value)} = {target.vector(weighted)}", weighted, (weight, value))
    contribution = float(weighted[component])
    line = f"{factor(weight)}·{factor(value[component])} = {number(contribution)}"
    return Why(line, contribution, (weight, float(value[component])))


def _output(target: ExplainedNumber) -> Why:
    weights, values = target.step("weight", target.head, target.row), target.step("value", target.head)
    output = target.step("output", target.head, target.row)
    weighted = numpy_of(weighted_values_of(target.trace, target.row, target.head))
    component = chosen_component(target, output)
    if component is not None:
        contribution = float(output[component])
        line = dot(weights, values[:, component], target.full)
        return Why(f"{line} = {number(contribution)}", contribution, tuple(weighted[:, component].tolist()))
    shown = range(len(weights)) if target.full or len(weights) <= FEW_KEYS else (0, 1, 2, len(weights) - 1)
    terms = [f"{factor(weights[key])}·{target.vector(values[key])}" for key in shown]
    if len(terms) < len(weights):
        terms.insert(-1, "…")
    return Why(f"{' + '.join(terms)} = {target.vector(output)}", output, tuple(weighted))


# Steps of layers: projections, sums, norms, feed-forward


def _vector_of(target: ExplainedNumber) -> Why:
    """Queries, keys, values, and all steps after the heads, by their provenance."""
    values, at = _where(target)
    made = target.part(target.name)
    if isinstance(made, Projection):
        return _projection(target, made, values, at)
    if isinstance(made, Sum):
        return _sum(target, made, values, at)
    if isinstance(made, Fed):
        return _fed(target, made, values, at)
    how = made.how if isinstance(made, Taken) else "as given"
    component = chosen_component(target, values)
    if component is None:
        return Why(f"{target.vector(values)}, {how}", values)
    return Why(f"{number(values[component])}, {how}", float(values[component]))


def _where(target: ExplainedNumber) -> tuple[Any, int]:
    """The vector, and its row in the arrays it was computed from."""
    axes = target.trace.step(target.name).axes
    if axes[0] == "head":
        at = target.row if axes[1] == "query" else target.token
        return target.step(target.name, target.head, at), at
    if axes[0] == "query":
        return target.step(target.name, target.row), target.row
    at = _token(target)
    return target.step(target.name, at), at


def _token(target: ExplainedNumber) -> int:
    """The position of a word among the input tokens: of the query in cross-attention, else of the key."""
    trace = target.trace
    named = target.query if target.query is not None else target.key
    if trace.own_key is None:
        return trace.first_query + row_of(trace, named, target.name)
    return key_of(trace, named, target.name) if named is not None else trace.own_key + target.row


def _projection(target: ExplainedNumber, made: Projection, values: Any, at: int) -> Why:
    row = _double(made.rows[at])
    head = target.head // made.shared_by if made.heads > 1 else 0
    matrix = _double(made.matrices[head])  # (in, out)
    shift = None if made.linear.bias is None else np.split(_double(made.linear.bias), made.heads)[head]
    letters = f"W_{made.letter}" + (f" of head {head}" if made.heads > 1 else "")
    with_shift = "" if shift is None else f" + b_{made.letter}"
    component = chosen_component(target, values)
    before = row @ matrix + (0 if shift is None else shift)
    if component is None:
        then = "" if not made.then else f" = {target.vector(before)}, {made.then}:"
        end = f" {target.vector(values)}" if then else f" = {target.vector(values)}"
        return Why(f"{target.vector(row)} · {letters}{with_shift}{then}{end}", values, tuple(matrix.T * row))
    column = matrix[:, component]
    line = f"{target.vector(row)}·{target.vector(column)}"
    added = "" if shift is None else f" + {factor(shift[component])}"
    line += f"{added} = {dot(row, column, target.full)}{added} = {number(before[component])}"
    if made.then:
        line += f"; {made.then}: {number(values[component])}"
    terms = [*(row * column).tolist(), *([] if shift is None else [float(shift[component])])]
    return Why(line, float(values[component]), tuple(terms))


def _sum(target: ExplainedNumber, made: Sum, values: Any, at: int) -> Why:
    left, right = _double(made.left[at]), _double(made.right[at])
    both = left + right
    component = chosen_component(target, values)
    if component is None:
        line = f"{target.vector(left)} + {target.vector(right)}"
        if made.norm is not None:
            line = f"norm({line}) = norm({target.vector(both)})"
        return Why(f"{line} = {target.vector(values)}", values, (left, right))
    terms = (float(left[component]), float(right[component]))
    line = f"{number(terms[0])} + {factor(terms[1])} = {number(sum(terms))}"
    if made.norm is not None:
        line += f"; {_normed(made.norm, both, component)} = {number(values[component])}"
    return Why(line, float(values[component]), terms)


def _normed(norm: LayerNorm | RMSNorm, row: Any, component: int) -> str:
    """One component of a normalised row, without its result."""
    end = f" · {factor(float(_double(norm.weight)[component]))}"
    if isinstance(norm, LayerNorm):
        end += "" if norm.bias is None else f" + {factor(_double(norm.bias)[component])}"
        top, square = f"({number(row[component])} − {factor(row.mean())})", row.var()
    else:
        top, square = number(row[component]), np.mean(row * row)
    return f"{top} / √({number(square)} + {norm.epsilon:g})".replace("e-", "e−") + end


def _fed(target: ExplainedNumber, made: Fed, values: Any, at: int) -> Why:
    layer = made.layer
    row = _double(made.rows[at])
    hidden = _double(layer.hidden(made.rows[at : at + 1])[0])
    down = layer.down
    component = chosen_component(target, values)
    up = "" if layer.up.bias is None else " + b_1"
    if component is None:
        shift = "" if down.bias is None else " + b_2"
        inner = f"{target.vector(row)} · W_1{up}"
        inner = f"{layer.activation}({inner})" if layer.gate is None else (
            f"{layer.activation}({target.vector(row)} · W_g) · ({inner})"
        )  # fmt: skip
        line = f"{inner} = {target.vector(hidden)}; {target.vector(hidden)} · W_2{shift} = {target.vector(values)}"
        return Why(line, values, (hidden,))
    column = _double(down.matrix[:, component])
    shift = "" if down.bias is None else f" + {factor(_double(down.bias)[component])}"
    line = f"{target.vector(hidden)}·{target.vector(column)}{shift} = {dot(hidden, column, target.full)}{shift}"
    terms = tuple((hidden * column).tolist())
    return Why(f"{line} = {number(values[component])}", float(values[component]), terms)


def _concatenated(target: ExplainedNumber) -> Why:
    values = target.step("concatenated", target.row)
    outputs = tuple(target.step("output", head, target.row) for head in range(target.trace.heads))
    component = chosen_component(target, values)
    if component is not None:
        head, at = divmod(component, len(outputs[0]))
        line = f"number {at} of head {head}: {number(values[component])}"
        return Why(line, float(values[component]), (float(outputs[head][at]),))
    return Why(f"{' | '.join(target.vector(output) for output in outputs)} = {target.vector(values)}", values, outputs)


def _double(array: Any) -> Any:
    """As float64."""
    return numpy_of(array).astype(np.float64)


CALCULATIONS: dict[str, Callable[[ExplainedNumber], Why]] = {
    "score": _score,
    "scaled": _scaled,
    "capped": _capped,
    "biased": _biased,
    "masked": _masked,
    "weight": _weight,
    "weighted_value": _weighted_value,
    "output": _output,
    **dict.fromkeys(("embedding", "positioned", "query", "key", "value"), _vector_of),
    "concatenated": _concatenated,
    **dict.fromkeys(("projected", "attended", "fed_forward", "result"), _vector_of),
}

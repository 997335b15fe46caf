"""Calculations of the steps that layers make: projections, sums, norms and feed-forward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regard.arrays import numpy_of
from regard.trace.formatting import dot, factor, number
from regard.trace.provenance import Fed, Projection, Sum, Taken
from regard.trace.why import Place, Why, picked
from regard.trace.words import key_of, row_of


def _vector_of(place: Place) -> Why:
    """Queries, keys, values, and all steps after the heads: whatever a recipe says."""
    values, at = _where(place)
    recipe = place.part(place.name)
    if isinstance(recipe, Projection):
        return _projection(place, recipe, values, at)
    if isinstance(recipe, Sum):
        return _sum(place, recipe, values, at)
    if isinstance(recipe, Fed):
        return _fed(place, recipe, values, at)
    how = recipe.how if isinstance(recipe, Taken) else "as given"
    component = picked(place, values)
    if component is None:
        return Why(f"{place.vector(values)}, {how}", values)
    return Why(f"{number(values[component])}, {how}", float(values[component]))


def _where(place: Place) -> tuple[Any, int]:
    """The vector that somebody asks about, and its place among the rows of its recipe."""
    axes = place.trace.step(place.name).axes
    if axes[0] == "head":
        at = place.row if axes[1] == "query" else place.token
        return place.step(place.name, place.head, at), at
    if axes[0] == "query":
        return place.step(place.name, place.row), place.row
    at = _token(place)
    return place.step(place.name, at), at


def _token(place: Place) -> int:
    """The position of a word among the tokens that came in: queries where they look at others, keys elsewhere."""
    trace = place.trace
    named = place.query if place.query is not None else place.key
    if trace.own_key is None:
        return trace.first_query + row_of(trace, named, place.name)
    return key_of(trace, named, place.name) if named is not None else trace.own_key + place.row


def _projection(place: Place, recipe: Projection, values: Any, at: int) -> Why:
    row = _double(recipe.rows[at])
    outputs = recipe.linear.outputs // recipe.heads
    head = place.head // recipe.shared_by if recipe.heads > 1 else 0
    part = slice(head * outputs, (head + 1) * outputs)
    weight = _double(recipe.linear.weight[part])  # (out, in)
    shift = None if recipe.linear.bias is None else _double(recipe.linear.bias[part])
    letters = f"W_{recipe.letter}ᵀ" + (f" of head {head}" if recipe.heads > 1 else "")
    with_shift = "" if shift is None else f" + b_{recipe.letter}"
    component = picked(place, values)
    before = weight @ row + (0 if shift is None else shift)
    if component is None:
        then = "" if not recipe.then else f" = {place.vector(before)}, {recipe.then}:"
        end = f" {place.vector(values)}" if then else f" = {place.vector(values)}"
        return Why(f"{place.vector(row)} · {letters}{with_shift}{then}{end}", values, tuple(weight * row))
    line = f"{place.vector(row)}·{place.vector(weight[component])}"
    added = "" if shift is None else f" + {factor(shift[component])}"
    line += f"{added} = {dot(row, weight[component], place.full)}{added} = {number(before[component])}"
    if recipe.then:
        line += f"; {recipe.then}: {number(values[component])}"
    terms = [*(weight[component] * row).tolist(), *([] if shift is None else [float(shift[component])])]
    return Why(line, float(values[component]), tuple(terms))


def _sum(place: Place, recipe: Sum, values: Any, at: int) -> Why:
    left, right = _double(recipe.left[at]), _double(recipe.right[at])
    both = left + right
    component = picked(place, values)
    if component is None:
        line = f"{place.vector(left)} + {place.vector(right)}"
        if recipe.norm is not None:
            line = f"norm({line}) = norm({place.vector(both)})"
        return Why(f"{line} = {place.vector(values)}", values, (left, right))
    terms = (float(left[component]), float(right[component]))
    line = f"{number(terms[0])} + {factor(terms[1])} = {number(sum(terms))}"
    if recipe.norm is not None:
        line += f"; {_normed(recipe.norm, both, component)} = {number(values[component])}"
    return Why(line, float(values[component]), terms)


def _normed(norm: Any, row: Any, component: int) -> str:
    """One number of a normed row, before its result."""
    weight, bias = float(_double(norm.weight)[component]), getattr(norm, "bias", None)
    end = f" · {factor(weight)}" + ("" if bias is None else f" + {factor(_double(bias)[component])}")
    if hasattr(norm, "bias"):
        top, square = f"({number(row[component])} − {factor(row.mean())})", row.var()
    else:
        top, square = number(row[component]), np.mean(row * row)
    return f"{top} / √({number(square)} + {norm.epsilon:g})".replace("e-", "e−") + end


def _fed(place: Place, recipe: Fed, values: Any, at: int) -> Why:
    layer = recipe.layer
    row = _double(recipe.rows[at])
    hidden = _double(layer.hidden(recipe.rows[at : at + 1])[0])
    down = layer.down
    component = picked(place, values)
    up = "" if layer.up.bias is None else " + b_1"
    if component is None:
        shift = "" if down.bias is None else " + b_2"
        inner = f"{place.vector(row)} · W_1ᵀ{up}"
        inner = f"{layer.activation}({inner})" if layer.gate is None else (
            f"{layer.activation}({place.vector(row)} · W_gᵀ) · ({inner})"
        )  # fmt: skip
        line = f"{inner} = {place.vector(hidden)}; {place.vector(hidden)} · W_2ᵀ{shift} = {place.vector(values)}"
        return Why(line, values, (hidden,))
    weight = _double(down.weight[component])
    shift = "" if down.bias is None else f" + {factor(_double(down.bias)[component])}"
    line = f"{place.vector(hidden)}·{place.vector(weight)}{shift} = {dot(hidden, weight, place.full)}{shift}"
    terms = tuple((hidden * weight).tolist())
    return Why(f"{line} = {number(values[component])}", float(values[component]), terms)


def _concatenated(place: Place) -> Why:
    values = place.step("concatenated", place.row)
    outputs = tuple(place.step("output", head, place.row) for head in range(place.trace.heads))
    component = picked(place, values)
    if component is not None:
        head, at = divmod(component, len(outputs[0]))
        line = f"number {at} of head {head}: {number(values[component])}"
        return Why(line, float(values[component]), (float(outputs[head][at]),))
    return Why(f"{' | '.join(place.vector(output) for output in outputs)} = {place.vector(values)}", values, outputs)


def _double(array: Any) -> Any:
    """In double precision: a line is about numbers, not about their storage."""
    return numpy_of(array).astype(np.float64)


LAYER_CALCULATIONS: dict[str, Callable[[Place], Why]] = {
    **dict.fromkeys(("embedding", "positioned", "query", "key", "value"), _vector_of),
    "concatenated": _concatenated,
    **dict.fromkeys(("projected", "attended", "fed_forward", "result"), _vector_of),
}

"""The steps of attention, each computed from the steps before it, and the calculation of one number written out.

Arrays have a head axis in front, except concatenated and projected. `x` and `context` are the embeddings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.engines import generic
from regard.teaching.hand_check.inputs import Inputs, Numbers
from regard.trace.arithmetic import dot, factor, precise, softmax_line, total

Known = Mapping[str, Numbers]
LONGEST = 1000.0  # divisors up to this are written as a root


@dataclass(frozen=True)
class Way:
    """One way to compute a step: what it needs, the computation, and how that is written for one number."""

    needs: tuple[str, ...]
    compute: Callable[..., Numbers]
    line: Callable[..., str]  # the place, then what is needed
    terms: Callable[..., Numbers] | None = None  # the terms of the sum at one place


def start(inputs: Inputs) -> dict[str, Numbers]:
    """What is known before the first step."""
    known: dict[str, Numbers] = {}
    if inputs.x is not None:
        known["x"] = inputs.x
        known["context"] = inputs.x if inputs.context is None else inputs.context
    for name, matrix in inputs.matrices.items():
        known[name] = matrix if name == "W_O" else split_columns(matrix, inputs.heads)
    known |= inputs.parts
    visible = inputs.visible()
    if visible is not None:
        known["visible"] = visible.astype(np.float64)
    return known


def split_columns(matrix: Numbers, heads: int) -> Numbers:
    """(in, head · head_dim) → (head, in, head_dim)."""
    return np.stack(np.split(matrix, heads, axis=1))


def set_divisor(known: dict[str, Numbers], divisor: float | None) -> None:
    """√d_k unless another divisor is given."""
    size = next((known[name].shape[-1] for name in ("query", "key", "W_q", "W_k") if name in known), None)
    if divisor is not None or size is not None:
        known["divisor"] = np.array(divisor if divisor is not None else (size or 1) ** 0.5)


def ways_to(step: str, known: Known) -> list[Way]:
    """The ways to compute a step from what is known. With a mask, weights come from masked scores."""
    stage = "masked" if "visible" in known or "masked" in known else "scaled"
    ways = [way for way in WAYS[step] if all(name in known for name in way.needs)]
    return [way for way in ways if step != "weight" or way.needs == (stage,)]


def computed(way: Way, inputs: Sequence[Numbers]) -> Numbers:
    """A step from what it needs; NaN where that is not known."""
    with np.errstate(all="ignore"):
        return np.asarray(way.compute(*inputs), np.float64)


def written_out(way: Way, inputs: Sequence[Numbers], place: Sequence[int], result: float) -> str:
    """The calculation of one number."""
    return f"{way.line(place, *inputs)} = {precise(result)}"


# The computation


def softmax(scores: Numbers) -> Numbers:
    """Over keys; rows that are masked entirely give zeros."""
    with np.errstate(all="ignore"):
        return np.asarray(generic.softmax_rows(scores[None]).weights[0])


def concatenated(outputs: Numbers) -> Numbers:
    """(head, query, value_dim) → (query, head · value_dim)."""
    return outputs.swapaxes(0, 1).reshape(outputs.shape[1], -1)


def _masked(scaled: Numbers, visible: Numbers) -> Numbers:
    return np.where(visible > 0, scaled, -np.inf)


def _project(rows: Numbers, matrices: Numbers) -> Numbers:
    return rows @ matrices


def _weigh(weights: Numbers, values: Numbers) -> Numbers:
    return weights[..., None] * values[:, None]


# How each number is written


def _projected_line(place: Sequence[int], rows: Numbers, matrices: Numbers) -> str:
    head, row, column = place
    return dot(rows[row], matrices[head][:, column], show=precise)


def _score_line(place: Sequence[int], queries: Numbers, keys: Numbers) -> str:
    return dot(queries[place[0], place[1]], keys[place[0], place[2]], show=precise)


def _scaled_line(place: Sequence[int], scores: Numbers, divisor: Numbers) -> str:
    return f"{precise(scores[tuple(place)])} / {divisor_text(float(divisor))}"


def divisor_text(divisor: float) -> str:
    """√4 for 2, since d_k = 4 is what the reader knows."""
    size = round(min(divisor, LONGEST) ** 2)
    return f"√{size}" if abs(divisor - size**0.5) < 1e-9 else precise(divisor)


def _masked_line(place: Sequence[int], scaled: Numbers, visible: Numbers) -> str:
    return precise(scaled[tuple(place)]) if visible[place[1], place[2]] > 0 else "masked: −∞"


def _weight_line(place: Sequence[int], stage: Numbers) -> str:
    row = stage[place[0], place[1]]
    if np.isneginf(row[place[2]]):
        return "masked: e^(−∞)"
    return softmax_line(row, place[2], show=precise)[0]


def _weighted_line(place: Sequence[int], weights: Numbers, values: Numbers) -> str:
    head, row, key, component = place
    return f"{factor(weights[head, row, key], precise)}·{factor(values[head, key, component], precise)}"


def _added_line(place: Sequence[int], weighted: Numbers) -> str:
    return total([factor(term, precise) for term in weighted[place[0], place[1], :, place[2]]])


def _output_line(place: Sequence[int], weights: Numbers, values: Numbers) -> str:
    return dot(weights[place[0], place[1]], values[place[0], :, place[2]], show=precise)


def _concatenated_line(place: Sequence[int], outputs: Numbers) -> str:
    head, component = divmod(place[1], outputs.shape[-1])
    return f"component {component} of head {head}"


def _through_line(place: Sequence[int], rows: Numbers, matrix: Numbers) -> str:
    return dot(rows[place[0]], matrix[:, place[1]], show=precise)


def _projection_terms(place: Sequence[int], rows: Numbers, matrices: Numbers) -> Numbers:
    return np.asarray(rows[place[1]] * matrices[place[0]][:, place[2]])


_PROJECTION: Any = {"compute": _project, "line": _projected_line, "terms": _projection_terms}
WAYS: dict[str, tuple[Way, ...]] = {
    "query": (Way(("x", "W_q"), **_PROJECTION),),
    "key": (Way(("context", "W_k"), **_PROJECTION),),
    "value": (Way(("context", "W_v"), **_PROJECTION),),
    "score": (
        Way(
            ("query", "key"),
            lambda queries, keys: queries @ keys.swapaxes(-1, -2),
            _score_line,
            lambda place, queries, keys: queries[place[0], place[1]] * keys[place[0], place[2]],
        ),
    ),
    "scaled": (Way(("score", "divisor"), lambda scores, divisor: scores / divisor, _scaled_line),),
    "masked": (Way(("scaled", "visible"), _masked, _masked_line),),
    "weight": (Way(("scaled",), softmax, _weight_line), Way(("masked",), softmax, _weight_line)),
    "weighted_value": (Way(("weight", "value"), _weigh, _weighted_line),),
    "output": (
        Way(
            ("weighted_value",),
            lambda weighted: weighted.sum(axis=2),
            _added_line,
            lambda place, weighted: weighted[place[0], place[1], :, place[2]],
        ),
        Way(
            ("weight", "value"),
            lambda weights, values: weights @ values,
            _output_line,
            lambda place, weights, values: weights[place[0], place[1]] * values[place[0], :, place[2]],
        ),
    ),
    "concatenated": (Way(("output",), concatenated, _concatenated_line),),
    "projected": (
        Way(
            ("concatenated", "W_O"),
            lambda rows, matrix: rows @ matrix,
            _through_line,
            lambda place, rows, matrix: rows[place[0]] * matrix[:, place[1]],
        ),
    ),
}


# Rounding of printed queries, keys and values


def spreads(inputs: Inputs, known: Known) -> dict[str, Numbers]:
    """How far each later number may be off if q, k and v were printed rounded: a bound per number."""
    if not inputs.spread or not {"query", "key"} <= set(known):
        return {}
    of_query, of_key = inputs.spread.get("query", 0.0), inputs.spread.get("key", 0.0)
    queries, keys = np.abs(known["query"]), np.abs(known["key"])
    size = queries.shape[-1]
    found: dict[str, Numbers] = {}
    found["score"] = queries.sum(-1)[..., None] * of_key + keys.sum(-1)[:, None] * of_query + size * of_query * of_key
    found["scaled"] = found["masked"] = found["score"] / known["divisor"]
    stage = known.get("masked", known.get("scaled"))
    if stage is None or "value" not in known:
        return found
    with np.errstate(all="ignore"):
        largest = np.where(np.isnan(stage), -np.inf, stage).max(axis=-1, keepdims=True)
        high, low = (np.exp(stage - largest + sign * found["scaled"]) for sign in (1, -1))
        most = high / (high + low.sum(-1, keepdims=True) - low)
        least = low / (low + high.sum(-1, keepdims=True) - high)
    weights = known["weight"]
    found["weight"] = np.nan_to_num(np.maximum(most - weights, weights - least))
    values, of_value = np.abs(known["value"]), inputs.spread.get("value", 0.0)
    found["weighted_value"] = found["weight"][..., None] * (values[:, None] + of_value) + weights[..., None] * of_value
    found["output"] = found["weighted_value"].sum(axis=2)
    return found

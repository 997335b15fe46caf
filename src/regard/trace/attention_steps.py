"""The trace of one attention: from queries, keys and values to the outputs of every head."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from regard import arrays
from regard.arrays import Array, four_axes
from regard.attention import arguments
from regard.engines import generic, score_parts
from regard.engines.interface import Scores
from regard.errors import ShapeError, TooLarge, count, size_in_bytes
from regard.trace.labels import place_of, words_for
from regard.trace.named_steps import Origin, Step, weigh
from regard.trace.trace import Trace

LIMIT = 1 << 30  # bytes of all stages together
WEIGHTED_LIMIT = 1 << 28  # bytes of the weighted values of all queries
PER_KEY = ("head", "query", "key")


def explain(
    scores: Scores,
    queries_and_keys: tuple[Array, Array],
    values: Any,
    query: Any = None,
    words: Sequence[Any] | None = None,
    *,
    query_words: Sequence[Any] | None = None,
    is_cosine: bool = False,
    has_offset: bool = False,
) -> Trace:
    """All steps of an attention over one sequence, or in O(n) those of one query.

    queries_and_keys   as given, before they are normalised for cosine similarity
    query_words        words of the queries, if these are not among the keys; by default the words at their positions
    has_offset         whether the position of the first query was given
    """
    values = four_axes(arguments.values(values, queries_and_keys[1]))
    if scores.queries.shape[0] != 1:
        raise several_sequences(scores.queries.shape[0])
    queries, keys = scores.queries.shape[2], scores.keys.shape[2]
    names = words_for("words", words, keys, "key")
    # The key at the position of the first query, if all queries are among the keys.
    offset: Any = scores.offset
    start = int(offset) if arrays.is_number(offset) else int(offset[0])
    are_keys = query_words is None and (has_offset or queries == keys) and 0 <= start <= keys - queries
    own_key = start if are_keys else None
    asking = names[start : start + queries] if are_keys else words_for("query_words", query_words, queries, "query")
    row = 0
    if query is not None:
        row = place_of("query", query, asking)
        scores = score_parts.of_rows(scores, slice(row, row + 1))
        asking = asking[row : row + 1]
    rows = slice(row, row + len(asking))
    numbers = tuple(
        as_step(arrays.wide(part)) for part in _heads(*queries_and_keys, values, rows)
    )  # each (head, query or key, head_dim or value_dim)
    origin = Origin(
        scores.scale,
        math.isclose(scores.scale, numbers[0].shape[-1] ** -0.5, rel_tol=1e-9),
        scores.softcap,
        is_cosine,
        scores.sinks,
    )
    steps = _steps(scores, origin, *numbers)
    return Trace(names, asking, tuple(steps), None, row, None if own_key is None else own_key + row, origin)


def several_sequences(batch: int) -> ShapeError:
    """A batch where one sequence is expected."""
    return ShapeError(
        f"There are {batch} sequences; a trace is of one.\n"
        "Choose one: A.select(batch=0).explain(values[0]), or layer.explain(x[0])."
    )


def as_step(array: Array) -> Array:
    """A tensor that keeps its gradient after a backward pass; anything else unchanged."""
    if arrays.is_tensor(array) and array.requires_grad:
        array = array.view_as(array) if array.is_leaf else array
        if not array.is_leaf:  # under no_grad, a view is a leaf as well
            array.retain_grad()
    return array


def _heads(queries: Array, keys: Array, values: Array, rows: slice) -> tuple[Array, Array, Array]:
    """One sequence's queries, keys and values, with shared key heads repeated for each query head."""
    queries, keys = four_axes(queries)[0][:, rows], four_axes(keys)[0]
    group = queries.shape[0] // keys.shape[0]
    return queries, _repeat(keys, group), _repeat(values[0], group)


def _repeat(array: Array, times: int) -> Array:
    if times == 1:
        return array
    return array.repeat_interleave(times, 0) if arrays.is_tensor(array) else np.repeat(array, times, 0)


def _steps(scores: Scores, origin: Origin, queries: Array, keys: Array, values: Array) -> list[Step]:
    numbers = int(np.prod([queries.shape[0], queries.shape[1], keys.shape[1]], dtype=object))
    needed = 4 * numbers * queries.dtype.itemsize
    if needed > LIMIT and queries.shape[1] > 1:
        raise TooLarge(
            f"All steps of {count(queries.shape[1], 'query')} would take {size_in_bytes(needed)}, the limit is "
            f"{size_in_bytes(LIMIT)}.\nExplain one query, which takes O(n): explain(..., query=0)."
        )
    steps = [
        Step("query", queries, ("head", "query", "head_dim"), "q, as given"),
        Step("key", keys, ("head", "key", "head_dim"), "k, as given"),
        Step("value", values, ("head", "key", "value_dim"), "v, as given"),
    ]
    with np.errstate(all="ignore"):  # a masked key may hold NaN or inf
        steps += _stages(scores, origin, queries, keys)
        before = steps[-1]
        rows = generic.softmax_rows(before.array[None], scores.sinks)
        weights, hidden = as_step(rows.weights[0]), rows.hidden[0]
        output = as_step(arrays.cast(generic.from_keys(weights[None], rows, values[None])[0], values.dtype))
    total = f"Σ e^{before.name}" if scores.sinks is None else f"(Σ e^{before.name} + e^sink)"
    steps.append(Step("weight", weights, PER_KEY, f"weight = e^{before.name} / {total}"))
    full = (*weights.shape, values.shape[-1])

    def weighted() -> Array:
        bytes_needed = int(np.prod(full, dtype=object)) * weights.dtype.itemsize
        if bytes_needed > WEIGHTED_LIMIT and full[1] > 1:
            raise TooLarge(
                f"The weighted values of all queries would take {size_in_bytes(bytes_needed)}, the limit is "
                f"{size_in_bytes(WEIGHTED_LIMIT)}.\n"
                "Take those of one query: trace.weighted_values(query=0, head=0), or explain(..., query=0)."
            )
        return weigh(weights, hidden, values[:, None])

    def flow_to_weighted() -> Array | None:
        """Every term of a sum has the gradient of the sum."""
        flow = output.grad if arrays.is_tensor(output) and output.requires_grad else None
        return None if flow is None else flow[:, :, None].expand(full)

    steps.append(
        Step("weighted_value", weighted, (*PER_KEY, "value_dim"), "weighted value = weight · v", flow_to_weighted)
    )
    steps.append(Step("output", output, ("head", "query", "value_dim"), "output = Σ weight · v"))
    return steps


def _stages(scores: Scores, origin: Origin, queries: Array, keys: Array) -> list[Step]:
    """Score and scaled; capped, biased and masked if there is a cap, a bias or a mask."""
    if origin.is_cosine:
        queries, keys = arrays.unit_length(queries), arrays.unit_length(keys)
    steps: list[Step] = []

    def then(name: str, array: Array, formula: str) -> Array:
        """Add a step of one sequence, given with its batch axis."""
        array = as_step(array[0])
        steps.append(Step(name, array, PER_KEY, f"{name} = {formula}"))
        return array[None]

    formula = "q · k / (‖q‖ · ‖k‖)" if origin.is_cosine else "q · k"
    stage = then("score", generic.to_keys(queries[None], keys[None]), formula)
    by = "score / √d_k" if origin.is_root else f"score · {scores.scale:.6g}"
    stage = then("scaled", generic.scaled(stage, scores), by)
    if scores.softcap:
        stage = then("capped", generic.capped(stage, scores), f"{scores.softcap:g} · tanh(scaled / {scores.softcap:g})")
    if scores.bias is not None or scores.relative is not None:
        stage = then("biased", generic.biased(stage, scores), f"{steps[-1].name} + bias")
    visible = generic.seen_keys(scores)
    if visible is not None:
        formula = f"{steps[-1].name} where the query may see the key, −∞ elsewhere"
        then("masked", arrays.library(stage).where(visible, stage, -math.inf), formula)
    return steps

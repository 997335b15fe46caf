"""The native engine: allocates results and passes arrays to `regard._core` without copying them.

`interface.Engine` documents its functions; "logsumexp" is always float64.

The kernel reads float16, bfloat16 (as 16-bit integers), float32 and float64 with any strides. A mask that is neither
intervals nor an array is evaluated for strips of queries, so that memory stays bounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _core
from regard.arrays import chunks
from regard.engines import score_parts
from regard.engines.interface import ACTIVATIONS, STAGES, Gradients, Pool, RowState, Scores, Stage
from regard.engines.memory import empty
from regard.masks import Visible

Array = NDArray[Any]

STRIP = 1 << 24  # booleans of a mask that are evaluated at once: 16 MiB
DOUBLE, SINGLE, HALF = np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.float16)
WHOLE = np.dtype(np.int32)
BITS = np.dtype(np.uint16)  # bfloat16 as the kernel takes it


def forward(
    scores: Scores, values: Array | None, statistics: Sequence[str] = (), top: int = 0
) -> tuple[Array | None, dict[str, Array]]:
    queries = scores.queries
    shape = queries.shape[:3]
    output = None if values is None else result_like(queries, values.shape[3], values.dtype)
    if not statistics and not top and (scores.visible is None or scores.visible.rest is None):
        _core.forward(kernel_scores(scores), readable(values), readable(output))
        return output, {}
    kind = computing(queries)
    results = {name: np.empty(shape, DOUBLE if name == "logsumexp" else kind) for name in statistics}
    if top:
        results["top_index"] = np.empty((*shape, top), np.int64)
        results["top_weight"] = np.empty((*shape, top), kind)
    for rows, strip in strips(scores):
        whole = rows == score_parts.EVERYTHING
        target = results if whole else {name: np.empty_like(array[:, :, rows]) for name, array in results.items()}
        part = None if output is None else output[:, :, rows]
        _core.forward(kernel_scores(strip), readable(values), readable(part), **target, top=top)
        if not whole:
            for name, array in target.items():
                results[name][:, :, rows] = array
    return output, results


product = _core.product  # checks, allocates and computes; tensors too


def backflow(scores: Scores, state: RowState, rows: Array) -> Array:
    return _flow_to_keys(scores, state, rows, rows.shape[3], rows.dtype)


def column_sums(scores: Scores, state: RowState) -> Array:
    return _flow_to_keys(scores, state, None, 1, computing(scores.queries))[..., 0]


def _flow_to_keys(scores: Scores, state: RowState, rows: Array | None, size: int, kind: np.dtype[Any]) -> Array:
    """Weights transposed times rows, or times ones, (batch, head, key, size)."""
    shape = (*scores.queries.shape[:2], scores.keys.shape[2], size)
    result: Array | None = None
    for some, strip in strips(scores):
        target = np.empty(shape, kind)
        some_rows = None if rows is None else readable(rows[:, :, some])
        _core.backflow(kernel_scores(strip), *state_rows(scores, state[:, :, some]), some_rows, readable(target))
        result = target if result is None else result + target
    return np.zeros(shape, kind) if result is None else result


def pooled(scores: Scores, state: RowState, row_edges: Array, column_edges: Array, pool: Pool) -> Array:
    row_edges, column_edges = (np.ascontiguousarray(edges, np.int64) for edges in (row_edges, column_edges))
    shape = (*scores.queries.shape[:2], len(row_edges) - 1, len(column_edges) - 1)
    kind = computing(scores.queries)
    heights, widths = score_parts.cell_sizes(row_edges, column_edges, pool)
    is_even = bool((widths == widths[0]).all())
    if heights is not None:  # weights are divided with their row: dividing the cells takes a tenth of a forward
        counts = np.ones(scores.queries.shape[2], kind)
        counts[row_edges[0] : row_edges[-1]] = np.repeat(heights, heights) * (widths[0] if is_even else 1)
        state = RowState(state.row_max, state.row_sum * counts)
    result: Array | None = None
    for rows, strip in strips(scores):
        target = empty(shape, kind)
        start, stop, _ = rows.indices(scores.queries.shape[2])
        edges = np.clip(row_edges, start, stop) - start
        _core.pooled(
            kernel_scores(strip), *state_rows(scores, state[:, :, rows]), edges, column_edges, pool == "max", target
        )
        result = target if result is None else (np.maximum if pool == "max" else np.add)(result, target, out=result)
    if result is None:
        return np.zeros(shape, kind)
    return result if heights is None or is_even else np.divide(result, widths, out=result, casting="same_kind")


def tile(
    scores: Scores,
    state: RowState | None,
    stage: Stage,
    rows: score_parts.Index = score_parts.EVERYTHING,
    columns: score_parts.Index = score_parts.EVERYTHING,
) -> Array:
    scores = score_parts.cut(scores, rows, columns)
    result = np.empty((*scores.queries.shape[:3], scores.keys.shape[2]), computing(scores.queries))
    for some, strip in strips(scores):
        whole = some == score_parts.EVERYTHING
        target = result if whole else np.empty_like(result[:, :, some])
        row_max, row_sum = (None, None) if state is None else state_rows(scores, state[:, :, some])
        _core.tile(kernel_scores(strip), row_max, row_sum, STAGES.index(stage), target)
        if not whole:
            result[:, :, some] = target
    return result


def backward(
    scores: Scores, values: Array, output: Array, state: RowState, flow: Array, wanted: Sequence[str] = ()
) -> Gradients:
    arrays = {"values": values, **{name: getattr(scores, name) for name in ("queries", "keys", *wanted)}}
    gradients = wide_gradients(scores, values, output, state, flow, wanted)
    return Gradients(**{name: array.astype(arrays[name].dtype, copy=False) for name, array in gradients.items()})


def wide_gradients(
    scores: Scores, values: Array, output: Array, state: RowState, flow: Array, wanted: Sequence[str] = ()
) -> dict[str, Array]:
    """Gradients by name, in the computing type: float32 for 16-bit arrays."""
    kind = computing(scores.queries)
    make = np.empty if scores.queries.shape[2] else np.zeros  # without queries there may be no strip that fills them
    queries, keys, of_values = (make(array.shape, kind) for array in (scores.queries, scores.keys, values))
    options = {name: np.zeros(getattr(scores, name).shape, kind) for name in wanted if name != "sinks"}
    batch, head = scores.queries.shape[:2]
    sinks = np.zeros((batch, head), DOUBLE)
    for rows, strip in strips(scores):
        whole = rows == score_parts.EVERYTHING
        part_keys, part_values = (keys, of_values) if whole else (np.empty_like(keys), np.empty_like(of_values))
        part_sinks = np.zeros_like(sinks) if "sinks" in wanted else None
        bias = options.get("bias")
        _core.backward(
            kernel_scores(strip),
            readable(values),
            readable(output[:, :, rows]),
            *state_rows(scores, state[:, :, rows]),
            readable(flow[:, :, rows]),
            queries[:, :, rows],
            part_keys,
            part_values,
            grad_bias=None if bias is None else score_parts.shared(bias, rows, 2),
            grad_relative=options.get("relative"),
            grad_sinks=part_sinks,
        )
        if part_sinks is not None:
            sinks += part_sinks
        if not whole:
            first = rows.start == 0
            keys = part_keys if first else keys + part_keys
            of_values = part_values if first else of_values + part_values
    if "sinks" in wanted:
        options["sinks"] = sinks.sum(axis=0)
    return {"queries": queries, "keys": keys, "values": of_values, **options}


def linear(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    activation: str | None = None,
    residual: Array | None = None,
    times: Array | None = None,
) -> Array:
    output = empty((*x.shape[:-1], weight.shape[0]), x.dtype)
    flat = readable(output).reshape(-1, weight.shape[0])
    added = None if residual is None else readable(residual).reshape(flat.shape)
    gate = None if times is None else readable(times).reshape(flat.shape)
    which = activation_code(activation)
    if flat.size:
        _core.linear(_flat(x), readable(weight), readable(bias), added, flat, which, gate)
    return output


SLOPED = ("gelu", "gelu_tanh", "silu", "quick_gelu")  # those of `_core.activate`


def activation_code(activation: str | None) -> int:
    """The number of an activation in the native code."""
    return 0 if activation is None else 1 + ACTIVATIONS.index(activation)


def layer_norm(x: Array, weight: Array, bias: Array | None, epsilon: float) -> Array:
    output = empty(x.shape, x.dtype)
    if x.size:
        _core.norm(_flat(x), readable(weight), readable(bias), _flat(output), epsilon, True)
    return output


def rms_norm(x: Array, weight: Array, epsilon: float) -> Array:
    output = empty(x.shape, x.dtype)
    if x.size:
        _core.norm(_flat(x), readable(weight), None, _flat(output), epsilon, False)
    return output


def rotary(x: Array, cosines: Array, sines: Array, interleaved: bool, in_place: bool = False) -> Array:
    output = x if in_place and x.dtype is SINGLE and x.flags.behaved else result_like(x, x.shape[3], x.dtype)
    if x.size:
        _core.rotary(readable(x), readable(cosines[:, None]), readable(sines[:, None]), readable(output), interleaved)
    return output


# What heads do: weights (text, head, row, key) are contiguous float32


def vector_lengths(vectors: Array, grams: Array) -> Array:
    """√(x G xᵀ), (head, token), of vectors (head or key head, token, size), with a matrix G per head."""
    scores_out = np.empty((len(grams), vectors.shape[1]), SINGLE)
    _core.vector_lengths(vectors, np.ascontiguousarray(grams), scores_out)
    return scores_out


def head_sums(
    weights: Array, entropy: Array, distance: Array, norms: Array, tokens: tuple[Array, Array, Array],
    settings: tuple[int, bool, int, int, int], received: Array, count: int,
) -> Array:  # fmt: skip
    """Amount and count of `count` statistics, (text, head, statistic, 2); column sums are added to `received`.

    tokens     flags (text, key): 1 content, 2 special, 4 punctuation; the next token like each, and the next piece of
               its word, each in a circle
    settings   position of the first row, causal, window, content keys for a window and for an evenness
    """
    sums = np.zeros((*weights.shape[:2], count, 2))
    of_rows, apart, lengths = (np.ascontiguousarray(array, SINGLE) for array in (entropy, distance, norms))
    _core.head_sums(weights, of_rows, apart, lengths, tokens[0], tokens[1], tokens[2], settings, sums, received)
    return sums


def strongest_links(weights: Array, may: Array, first: int) -> tuple[Array, Array]:
    """For every query the key with the largest weight, and that weight; not itself, nor keys that may not be chosen."""
    best, weight = np.empty(weights.shape[:3], WHOLE), np.empty(weights.shape[:3], SINGLE)
    _core.strongest_links(weights, np.ascontiguousarray(may, np.uint8), first, best, weight)
    return best, weight


def word_choices(weights: Array, edges: Array, counts: Array, aside: Array) -> Array:
    """For every word the other word with the largest weight, (text, head, word); −1 where there is none."""
    best = np.empty((*weights.shape[:2], aside.shape[1]), WHOLE)
    _core.word_choices(weights, edges, counts, aside, best)
    return best


# Arguments of the kernel


def kernel_scores(scores: Scores) -> Any:
    """The scores as the kernel takes them."""
    visible, sinks = scores.visible, scores.sinks
    queries, keys = readable(scores.queries), readable(scores.keys)
    plain = visible is None and sinks is None and scores.bias is None and scores.relative is None
    if plain and type(scores.offset) is int:
        return _core.Scores(queries, keys, scores.scale, scores.softcap, offset=scores.offset)
    rest = None if visible is None else visible.rest
    relative = scores.relative
    return _core.Scores(
        queries,
        keys,
        scores.scale,
        scores.softcap,
        readable(within_range(scores.bias, computing(queries))),
        None if rest is None else np.asarray(rest.dense, bool),
        None if relative is None else np.ascontiguousarray(relative, computing(queries)),
        scores.relative_zero,
        None if sinks is None else np.ascontiguousarray(sinks, DOUBLE),
        None if visible is None else whole_numbers(visible.first),
        None if visible is None else whole_numbers(visible.last),
        None if visible is None else whole_numbers(visible.second_first),
        None if visible is None else whole_numbers(visible.second_last),
        scores.offset if isinstance(scores.offset, int) else np.ascontiguousarray(scores.offset, np.int64),
    )


def is_interval(visible: Visible) -> bool:
    """Whether a mask is one interval per query, as contiguous int32."""
    first, last = visible.first, visible.last
    return (
        visible.rest is None is visible.second_first
        and type(first) is np.ndarray is type(last)
        and first.dtype is WHOLE is last.dtype
        and first.flags.c_contiguous
        and last.flags.c_contiguous
    )


def strips(scores: Scores) -> Iterator[tuple[slice, Scores]]:
    """Slices of queries and their scores: all at once, or strips if a mask must be evaluated."""
    visible = scores.visible
    if visible is None or visible.rest is None or visible.rest.dense is not None:
        yield score_parts.EVERYTHING, scores
        return
    batch, head, query, _ = scores.queries.shape
    step = max(1, STRIP // max(1, batch * head * scores.keys.shape[2]))
    for rows in chunks(query, step):
        part = score_parts.of_rows(scores, rows)
        assert part.visible is not None
        seen = part.visible.tile(score_parts.EVERYTHING, score_parts.EVERYTHING)
        yield rows, replace(part, visible=Visible.of_dense(seen))


def result_like(rows: Array, size: int, kind: np.dtype[Any]) -> Array:
    """An uninitialised result (batch, head, token, size) with the memory order of `rows`.

    If the heads of a token are contiguous, those of the result are too: concatenating them is a view.
    """
    batch, head, token, _ = rows.shape
    if rows.strides[1] < rows.strides[2]:
        return empty((batch, token, head, size), kind).swapaxes(1, 2)
    return empty((batch, head, token, size), kind)


def readable(array: Array | None) -> Any:
    """The array as the kernel reads it: bfloat16 as 16-bit integers; other byte orders and misaligned ones copied."""
    if array is None:
        return None
    kind, aligned = array.dtype, array.flags.aligned
    if (kind is SINGLE or kind is DOUBLE or kind is HALF or kind is BITS) and aligned:  # the common case, by identity
        return array
    if kind.name == "bfloat16":
        return (array if aligned else np.array(array, order="C")).view(BITS)
    if aligned and kind.isnative and kind in (SINGLE, DOUBLE, HALF, BITS):  # results must not be copied
        return array
    return np.array(array, kind.newbyteorder("="), order="C")


def within_range(bias: Array | None, kind: np.dtype[Any]) -> Array | None:
    """A float64 bias clipped so that finite numbers stay finite in the computing type."""
    if bias is None or bias.dtype != DOUBLE or kind == DOUBLE:
        return bias
    most = float(np.finfo(kind).max)
    return np.where(np.isinf(bias), bias, np.clip(bias, -most, most))


def state_rows(scores: Scores, state: RowState) -> tuple[Array, Array]:
    """row_max and row_sum as the kernel takes them: contiguous, in the computing type."""
    kind = computing(scores.queries)
    return np.ascontiguousarray(state.row_max, kind), np.ascontiguousarray(state.row_sum, kind)


def whole_numbers(ends: Array | None) -> Array | None:
    """Ends of intervals as contiguous int32."""
    return None if ends is None else np.ascontiguousarray(ends, np.int32)


def computing(array: Array) -> np.dtype[Any]:
    """The type that results are computed and summed in."""
    return DOUBLE if array.dtype in (DOUBLE, np.dtype(np.float64)) else SINGLE


def _flat(x: Array) -> Any:
    return readable(x).reshape(math.prod(x.shape[:-1]), x.shape[-1])

"""The plain engine: NumPy in float64. It says what is right, and it runs where nothing compiled.

Every pass walks over strips: some queries of some heads against all their keys, at most `STRIP` weights at once. What
leaves an engine has the type of its inputs; statistics, weights and scores are float32 (float64 for float64 inputs),
but row state and log-sum-exp always float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from regard.kernels import parts
from regard.kernels.interface import ROW_STATE, Gradients, Pool, RowState, Scores, Stage, softmax_units
from regard.kernels.parts import no_short_way as short_product
from regard.kernels.reference_layers import layer_norm, linear, rms_norm, rotary

__all__ = [
    "backflow",
    "backward",
    "fingerprint",
    "forward",
    "layer_norm",
    "linear",
    "pooled",
    "received",
    "rms_norm",
    "rotary",
    "short_product",
    "tile",
]

Array = NDArray[Any]
Place = tuple[slice, slice, slice]  # batch, head, query

STRIP = 1 << 20  # weights in one strip: 8 MiB of float64
EXACT = (*ROW_STATE, "logsumexp")  # statistics in float64 whatever the inputs
quiet = np.errstate(all="ignore")  # NaN and inf travel by rule here, not by accident


@quiet
def forward(
    scores: Scores, values: Array | None, statistics: Sequence[str] = (), top: int = 0
) -> tuple[Array | None, dict[str, Array]]:
    """Outputs and row statistics, in one pass."""
    rows, kind = scores.queries.shape[:3], statistic_type(scores.queries)
    output = None if values is None else np.empty((*rows, values.shape[-1]), values.dtype)
    found = {name: np.empty(rows, np.float64 if name in EXACT else kind) for name in statistics}
    if top:
        found["top_index"] = np.empty((*rows, top), np.int64)
        found["top_weight"] = np.empty((*rows, top), kind)
    for place, part, part_values in _strips(scores, values):
        masked, factor = _compared(part)
        state = _state(masked, factor, part.sinks)
        weights = _weights(masked, factor, state)
        if output is not None:
            assert part_values is not None
            output[place] = _from_keys(weights, ~np.isneginf(masked), part_values)
        for name in statistics:
            found[name][place] = _statistic(name, part, masked, factor, weights, state)
        if top:
            found["top_index"][place], found["top_weight"][place] = _strongest(masked, weights, top)
    return output, found


@quiet
def backflow(scores: Scores, state: RowState, rows: Array) -> Array:
    """Weights transposed times rows: what each key gives away."""
    batch, head, _, size = rows.shape
    result = np.zeros((batch, head, scores.keys.shape[2], size))
    for place, part, _ in _strips(scores):
        masked, factor = _compared(part)
        weights = _weights(masked, factor, state[place])
        result[place[:2]] += _product(_turned(weights), _turned(~np.isneginf(masked)), _double(rows[place]))
    return result.astype(rows.dtype)


@quiet
def received(scores: Scores, state: RowState) -> Array:
    """Column sums of the weights."""
    result = np.zeros((*scores.queries.shape[:2], scores.keys.shape[2]))
    for place, part, _ in _strips(scores):
        result[place[:2]] += _weights(*_compared(part), state[place]).sum(axis=2)
    return result.astype(statistic_type(scores.queries))


@quiet
def pooled(scores: Scores, state: RowState, row_edges: Array, column_edges: Array, pool: Pool) -> Array:
    """Sum or largest weight of every cell; edges rise strictly."""
    row_edges, column_edges = np.asarray(row_edges), np.asarray(column_edges)
    add = np.add if pool == "sum" else np.maximum
    result = np.zeros((*scores.queries.shape[:2], len(row_edges) - 1, len(column_edges) - 1))
    region = slice(int(row_edges[0]), int(row_edges[-1]))
    columns = slice(int(column_edges[0]), int(column_edges[-1]))
    for place, part, _ in _strips(parts.of_rows(scores, region)):
        weights = _weights(*_compared(part, columns), state[:, :, region][place])
        cells = add.reduceat(weights, column_edges[:-1] - columns.start, axis=-1)  # (batch, head, row, column cell)
        row_cells = np.searchsorted(row_edges, np.arange(region.start, region.stop)[place[2]], side="right") - 1
        by_row = np.moveaxis(result[place[:2]], 2, 0)  # a view
        add.at(by_row, row_cells, np.moveaxis(cells, 2, 0))
    return result.astype(statistic_type(scores.queries))


@quiet
def tile(scores: Scores, state: RowState | None, stage: Stage) -> Array:
    """The whole matrix at one stage."""
    shape = (*scores.queries.shape[:3], scores.keys.shape[2])
    result = np.empty(shape, statistic_type(scores.queries))
    for place, part, _ in _strips(scores):
        if stage == "weight":
            assert state is not None
            result[place] = _weights(*_compared(part), state[place])
        else:
            result[place] = _at_stage(part, stage)
    return result


@quiet
def backward(
    scores: Scores, values: Array, output: Array, state: RowState, flow: Array, wanted: Sequence[str] = ()
) -> Gradients:
    """Gradients, given `flow`, the gradient of the output."""
    queries, keys = np.zeros(scores.queries.shape), np.zeros(scores.keys.shape)
    given = {"values": values, **{name: getattr(scores, name) for name in wanted}}
    found = {name: np.zeros(array.shape) for name, array in given.items() if array is not None}
    for place, part, part_values in _strips(scores, values):
        assert part_values is not None
        of_keys = (place[0], _key_heads(place[1], scores))
        masked, factor = _compared(part)
        seen = ~np.isneginf(masked)
        weights = _weights(masked, factor, state[place])
        part_flow = _double(flow[place])
        to_weights = np.where(seen, _to_keys(part_flow, part_values), 0)  # gradient of the weights
        weighted_flow = (weights * to_weights).sum(axis=-1, keepdims=True)
        to_scores = np.where(seen, weights * (to_weights - weighted_flow), 0)  # gradient of the biased scores
        found["values"][of_keys] += _back_to_keys(weights, seen, part_flow, part)
        _collect_options(found, place, scores, part, to_scores, weighted_flow, state[place])
        if scores.softcap:
            to_scores = to_scores * (1 - (_at_stage(part, "capped") / scores.softcap) ** 2)
            to_scores = np.where(seen, to_scores, 0)
        to_scores = to_scores * scores.scale
        queries[place] = _from_keys(to_scores, seen, part.keys)
        keys[of_keys] += _back_to_keys(to_scores, seen, _double(part.queries), part)
    found = {name: array.astype(given[name].dtype) for name, array in found.items()}
    return Gradients(queries.astype(scores.queries.dtype), keys.astype(scores.keys.dtype), **found)


def fingerprint(array: Array) -> int:
    """A checksum of the content, block by block, so that nothing large is copied."""
    if array.flags.c_contiguous:
        return crc32(array.reshape(-1).view(np.uint8).data) if array.size else 0
    checksum = 0
    for block in array if array.ndim > 1 else (array,):
        checksum = crc32(fingerprint(np.ascontiguousarray(block)).to_bytes(4, "little"), checksum)
    return checksum


def statistic_type(queries: Array) -> np.dtype[Any]:
    """The type of statistics, scores and weights."""
    return np.dtype(np.float64 if queries.dtype == np.float64 else np.float32)


# Strips


def _strips(scores: Scores, values: Array | None = None) -> Iterator[tuple[Place, Scores, Array | None]]:
    """The scores in pieces of at most `STRIP` weights, each with its place among the rows and with its values.

    Keys and values come in float64, converted once for all strips of a head.
    """
    (batch, head, query, _), key = scores.queries.shape, scores.keys.shape[2]
    if batch * head * query * key <= STRIP:
        everything = slice(0, batch), slice(0, head), slice(0, query)
        yield everything, replace(scores, keys=_double(scores.keys)), None if values is None else _double(values)
        return
    step = max(1, STRIP // key)
    for b, h in product(range(batch), range(head)):
        place = slice(b, b + 1), slice(h, h + 1)
        one = parts.selected(scores, *place)
        one = replace(one, keys=_double(one.keys))
        one_values = None if values is None else _double(values[b : b + 1, _key_heads(place[1], scores)])
        for start in range(0, query, step):
            rows = slice(start, min(start + step, query))
            yield (*place, rows), parts.of_rows(one, rows), one_values


def _key_heads(head: slice, scores: Scores) -> parts.Index:
    return parts.key_heads(head, scores.queries.shape[1], scores.keys.shape[1])


# The stages: score → scaled → capped → biased → masked → weight


def _at_stage(scores: Scores, stage: Stage, columns: slice = parts.EVERYTHING) -> Array:
    """The scores of a strip at one stage before the weights, (batch, head, query, key)."""
    result = _to_keys(_double(scores.queries), scores.keys[:, :, columns])
    if stage == "score":
        return result
    result *= scores.scale
    if stage == "scaled":
        return result
    if scores.softcap:
        result = scores.softcap * np.tanh(result / scores.softcap)
    if stage == "capped":
        return result
    if scores.bias is not None:
        result = _biased(result, parts.shared(scores.bias, columns, 3))
    if scores.relative is not None:
        result = _biased(result, parts.relative_bias(scores, columns=columns))
    if stage == "masked" and scores.visible is not None:
        result = np.where(scores.visible.tile(parts.EVERYTHING, columns), result, -np.inf)
    return result


def _biased(scores: Array, bias: Array) -> Array:
    """A bias of −inf hides a key as a mask does: NaN + −inf would let a poisoned key through."""
    bias = _double(bias)
    return np.where(np.isneginf(bias), -np.inf, scores + bias)


def _compared(scores: Scores, columns: slice = parts.EVERYTHING) -> tuple[Array, float]:
    """Masked scores in the units of the softmax, and what differences of them are multiplied by."""
    before, factor = softmax_units(scores)
    return _at_stage(replace(scores, scale=before), "masked", columns), factor


def _state(masked: Array, factor: float, sinks: Array | None) -> RowState:
    """The largest and the sum of exponentials over keys and the head's sink, (batch, head, query)."""
    row_max = masked.max(axis=-1)
    if sinks is not None:
        row_max = np.maximum(row_max, _double(sinks)[:, None])
    row_sum = _exponentials(masked, factor, row_max).sum(axis=-1)
    if sinks is not None:
        row_sum = row_sum + np.exp(_double(sinks)[:, None] - _or_zero(row_max))
    return RowState(row_max, row_sum)


def _exponentials(masked: Array, factor: float, row_max: Array) -> Array:
    return np.exp(factor * (masked - _or_zero(row_max)[..., None]))


def _or_zero(row_max: Array) -> Array:
    """A row that sees no key has the maximum −inf, and −inf − −inf is NaN."""
    return np.where(np.isneginf(row_max), 0, row_max)


def _weights(masked: Array, factor: float, state: RowState) -> Array:
    """Exactly zero for a key that is not seen, even in a row of NaN."""
    found = _exponentials(masked, factor, _double(state.row_max)) / _double(state.row_sum)[..., None]
    return np.where(np.isneginf(masked), 0, found)


# Statistics of rows


def _statistic(name: str, scores: Scores, masked: Array, factor: float, weights: Array, state: RowState) -> Array:
    if name in ROW_STATE:
        return np.asarray(getattr(state, name))
    if name == "logsumexp":
        return np.asarray(factor * state.row_max + np.log(state.row_sum))
    if name == "entropy":
        surprise = np.log(state.row_sum)[..., None] - factor * (masked - _or_zero(state.row_max)[..., None])
        return np.asarray((weights * np.where(weights == 0, 0, surprise)).sum(axis=-1))
    if name == "peak":
        return np.asarray(weights.max(axis=-1))
    assert name == "distance", name
    return np.asarray((weights * np.abs(parts.distances(scores))).sum(axis=-1))


def _strongest(masked: Array, weights: Array, top: int) -> tuple[Array, Array]:
    """Indices and weights of the strongest keys; by score, because small weights can round to equal ones."""
    index = np.argsort(-masked, axis=-1, kind="stable")[..., :top]  # stable: ties to the lower index
    weight = np.take_along_axis(weights, index, axis=-1)
    index = np.where(np.isneginf(np.take_along_axis(masked, index, axis=-1)), -1, index)
    missing = [(0, 0)] * 3 + [(0, top - index.shape[-1])]
    return np.pad(index, missing, constant_values=-1), np.pad(weight, missing)


# Products, with grouped queries and without leaks: query heads that share a key head are stacked along the queries


def _to_keys(rows: Array, keys: Array) -> Array:
    """rows @ keysᵀ for (batch, head, query, size) and (batch, key head, key, size)."""
    return (_stacked(rows, keys.shape[1]) @ _turned(keys)).reshape(*rows.shape[:3], keys.shape[2])


def _from_keys(weights: Array, seen: Array, values: Array) -> Array:
    """weights @ values for (batch, head, query, key) and (batch, key head, key, size)."""
    heads = values.shape[1]
    result = _product(_stacked(weights, heads), _stacked(seen, heads), values)
    return result.reshape(*weights.shape[:3], values.shape[3])


def _back_to_keys(weights: Array, seen: Array, rows: Array, scores: Scores) -> Array:
    """weightsᵀ @ rows, summed over the query heads that share a key head."""
    weights, seen, rows = (_stacked(array, scores.keys.shape[1]) for array in (weights, seen, rows))
    return _product(_turned(weights), _turned(seen), rows)


def _product(weights: Array, seen: Array, values: Array) -> Array:
    """weights @ values where an unseen value has no influence, not even as NaN: 0 · NaN would be NaN."""
    result = np.asarray(weights @ values)
    if np.isfinite(result).all():  # every row meets every value, so that none of them can be NaN or inf
        return result
    result = weights @ np.where(np.isfinite(values), values, 0)
    reached = seen.astype(np.float64)
    above, below = (reached @ (values == infinity) > 0 for infinity in (np.inf, -np.inf))
    result = result + np.where(above, np.inf, 0) - np.where(below, np.inf, 0)
    return np.where(reached @ np.isnan(values) > 0, np.nan, result)


def _stacked(rows: Array, heads: int) -> Array:
    """(batch, key head · group, query, x) as (batch, key head, group · query, x)."""
    batch, all_heads, query, last = rows.shape
    return rows.reshape(batch, heads, all_heads // heads * query, last)


def _turned(matrix: Array) -> Array:
    return matrix.swapaxes(-1, -2)


def _double(array: Array) -> Array:
    return array.astype(np.float64, copy=False)


# Gradients of what changes scores


def _collect_options(
    found: dict[str, Array],
    place: Place,
    scores: Scores,
    part: Scores,
    to_scores: Array,
    weighted_flow: Array,
    state: RowState,
) -> None:
    """Add a strip's share to the gradients of bias, relative bias and sinks, where they are wanted."""
    if "bias" in found:
        target = found["bias"]
        shared = tuple(axis for axis in range(4) if target.shape[axis] == 1)
        where = tuple(slice(None) if target.shape[axis] == 1 else place[axis] for axis in range(3))
        target[where] += to_scores.sum(axis=shared, keepdims=True)
    if "relative" in found:
        target = found["relative"]
        index = np.broadcast_to(parts.distances(part) + scores.relative_zero, to_scores.shape)
        heads = np.arange(target.shape[0])[place[1]] if target.shape[0] > 1 else np.zeros(1, int)
        np.add.at(target, (heads[:, None, None], index), to_scores)
    if "sinks" in found and part.sinks is not None:
        share = np.exp(_double(part.sinks)[:, None] - state.row_max) / state.row_sum  # weight of the sink
        share = np.where(np.isneginf(_double(part.sinks))[:, None], 0, share)
        found["sinks"][place[1]] -= (share * weighted_flow[..., 0]).sum(axis=(0, 2))

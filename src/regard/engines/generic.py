"""The generic engine: attention over any array namespace. NumPy in float64 (the reference), PyTorch.

`interface.Engine` documents the functions.

`xp` is the namespace of the arrays, `numpy_arrays` or `torch_arrays`: functions that both libraries share, and the few
that differ. Every pass iterates over strips: some queries of some heads against all their keys, at most `xp.STRIP`
weights at once. The results of strips are joined, never written into a shared array, so that PyTorch can differentiate,
transform and compile all of it.

Each strip normalises its own rows instead of relying on a row state computed earlier. A matrix product of another shape
may round a score differently, and at scores of 10¹⁰ one unit in the last place decides the whole weight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce, wraps
from typing import Any, TypeVar

import numpy as np

from regard.arrays import Array, cast, chunks, wide_type
from regard.engines import numpy_arrays, score_parts
from regard.engines.interface import ROW_STATE, STAGES, Gradients, Pool, RowState, Scores, Stage, softmax_units
from regard.masks import Mask

Span = tuple[slice, slice, slice]  # batch, head, query
Compute = Callable[[Scores, Span, Array | None], tuple[Array, ...]]
Result = TypeVar("Result")


def namespace(array: Array) -> Any:
    """The array namespace that computes with this array."""
    if isinstance(array, np.ndarray):
        return numpy_arrays
    from regard.engines import torch_arrays

    return torch_arrays


def exact(function: Callable[..., Result]) -> Callable[..., Result]:
    """A function of scores or arrays, called without warnings; scores are not rounded by automatic casts."""

    @wraps(function)
    def exact(first: Any, *arguments: Any, **options: Any) -> Result:
        array = first.queries if isinstance(first, Scores) else first
        result: Result = namespace(array).exactly(function, first, *arguments, **options)
        return result

    return exact


# The functions of an engine


@exact
def forward(
    scores: Scores, values: Array | None, statistics: Sequence[str] = (), top: int = 0
) -> tuple[Array | None, dict[str, Array]]:
    if values is None and not statistics and not top:
        return None, {}

    def compute(part: Scores, span: Span, part_values: Array | None) -> tuple[Array, ...]:
        rows = softmax(part)
        statistics_of_rows = _statistics(statistics, part, rows)
        if top:
            statistics_of_rows.extend(_strongest(rows, top, wide_type(scores.queries)))
        if values is not None:
            statistics_of_rows.append(cast(from_keys(rows.weights, rows, part_values), values.dtype))
        return tuple(statistics_of_rows)

    results = in_strips(scores, compute, values)
    return None if values is None else results[-1], dict(zip(names(statistics, top), results, strict=False))


def product(queries: Array, keys: Array, values: Array, mask: Mask | None) -> None:
    """`forward` has little overhead beside these engines."""


def names(statistics: Sequence[str], top: int) -> tuple[str, ...]:
    """The names of the results of `forward` besides the outputs, in order."""
    return (*statistics, *(("top_index", "top_weight") if top else ()))


@exact
def backflow(scores: Scores, state: RowState, rows: Array) -> Array:
    xp = namespace(rows)

    def compute(part: Scores, span: Span, _: Any) -> tuple[Array, ...]:
        rows_of_part, flow = softmax(part), xp.wide(rows[span])
        return (back_to_keys(rows_of_part.weights, rows_of_part, flow, flow.shape[1]),)

    return cast(in_strips(scores, compute, add=xp.add)[0], rows.dtype)


@exact
def column_sums(scores: Scores, state: RowState) -> Array:

    def compute(part: Scores, span: Span, _: Any) -> tuple[Array, ...]:
        return (softmax(part).weights.sum(axis=2),)

    results = in_strips(scores, compute, add=namespace(scores.queries).add)[0]
    return cast(results, wide_type(scores.queries))


@exact
def pooled(scores: Scores, state: RowState, row_edges: Array, column_edges: Array, pool: Pool) -> Array:
    xp, how = namespace(scores.queries), "max" if pool == "max" else "sum"
    region, columns = (slice(int(edges[0]), int(edges[-1])) for edges in (row_edges, column_edges))
    row_cells, column_cells = (
        np.repeat(np.arange(len(edges) - 1), np.diff(edges)) for edges in (row_edges, column_edges)
    )

    def compute(part: Scores, span: Span, _: Any) -> tuple[Array, ...]:
        weights = softmax(part).weights[..., columns]
        by_column = xp.by_cell(weights, 3, column_cells, len(column_edges) - 1, how)
        return (xp.by_cell(by_column, 2, row_cells[span[2]], len(row_edges) - 1, how),)

    add = xp.maximum if pool == "max" else xp.add
    cells = cast(in_strips(score_parts.of_rows(scores, region), compute, add=add)[0], wide_type(scores.queries))
    heights, widths = score_parts.cell_sizes(row_edges, column_edges, pool)
    return cells if heights is None else cells / cast(score_parts.like(heights[:, None] * widths, cells), cells.dtype)


@exact
def tile(
    scores: Scores,
    state: RowState | None,
    stage: Stage,
    rows: score_parts.Index = score_parts.EVERYTHING,
    columns: score_parts.Index = score_parts.EVERYTHING,
) -> Array:
    xp, is_weight = namespace(scores.queries), stage == "weight"
    some_rows = [rows]
    if is_weight and not score_parts.is_run(rows):  # their masks and biases become arrays (rows, keys)
        index, step = np.arange(scores.queries.shape[2])[rows], max(1, xp.STRIP // scores.keys.shape[2])
        some_rows = [index[some] for some in chunks(len(index), step)]

    def compute(part: Scores, span: Span, _: Any) -> tuple[Array, ...]:
        part_values = score_parts.taken(softmax(part).weights, columns, 3) if is_weight else at_stage(part, stage)
        return (cast(part_values, wide_type(scores.queries)),)

    cut = score_parts.EVERYTHING if is_weight else columns
    return _join([in_strips(score_parts.cut(scores, some, cut), compute) for some in some_rows], 2)[0]


@exact
def backward(
    scores: Scores, values: Array, output: Array, state: RowState, flow: Array, wanted: Sequence[str] = ()
) -> Gradients:
    xp = namespace(values)
    inputs = {"keys": scores.keys, "values": values, **{name: getattr(scores, name) for name in wanted}}
    sums = {name: xp.zeros_like(xp.wide(array)) for name, array in inputs.items() if array is not None}

    def compute(part: Scores, span: Span, part_values: Array | None) -> tuple[Array, ...]:
        rows, part_flow = softmax(part), xp.wide(flow[span])
        to_weights = to_keys(part_flow, part_values)  # gradient of the weights
        weighted_flow = (rows.weights * to_weights).sum(axis=-1, keepdims=True)
        clean = xp.all_finite(weighted_flow)  # otherwise NaN or inf may come from hidden keys
        if not clean:
            to_weights = xp.where(rows.hidden, 0, to_weights)
            weighted_flow = (rows.weights * to_weights).sum(axis=-1, keepdims=True)
        to_weights -= weighted_flow
        to_weights *= rows.weights
        to_scores = to_weights if clean else xp.where(rows.hidden, 0, to_weights)  # gradient of the biased scores
        _add_options(sums, scores, part, span, to_scores, weighted_flow, rows)
        if scores.softcap:
            to_scores = xp.where(rows.hidden, 0, to_scores * (1 - (at_stage(part, "capped") / scores.softcap) ** 2))
        to_scores *= _in_range(scores.scale, to_scores)
        of_keys = span[0], score_parts.key_heads(span[1], scores.queries.shape[1], scores.keys.shape[1])
        heads = part.keys.shape[1]
        sums["keys"][of_keys] += back_to_keys(to_scores, rows, xp.wide(part.queries), heads, signed=True)
        sums["values"][of_keys] += back_to_keys(rows.weights, rows, part_flow, heads)
        return (cast(from_keys(to_scores, rows, part.keys, signed=True), scores.queries.dtype),)

    with xp.no_grad():
        queries = in_strips(scores, compute, values)[0]
    return Gradients(queries, **{name: cast(total, inputs[name].dtype) for name, total in sums.items()})


# Strips


def in_strips(
    scores: Scores, compute: Compute, values: Array | None = None, add: Callable[..., Array] | None = None
) -> tuple[Array, ...]:
    """The results of `compute` for all strips, joined along batch, head and query; reduced along the query by `add`."""
    xp = namespace(scores.queries)
    (batch, head, query, _), (_, key_head, key, _) = scores.queries.shape, scores.keys.shape
    if xp.in_one_graph() or batch * head * query * key <= xp.STRIP:
        everything = slice(0, batch), slice(0, head), slice(0, query)
        return compute(scores, everything, None if values is None else xp.wide(values))
    rows = max(1, xp.STRIP // key)
    heads, group = max(1, rows // query), head // key_head
    heads = heads - heads % group if heads >= group else 1  # whole groups, so that the keys they share are not copied
    over_batch = []
    for some in chunks(batch, max(1, rows // (head * query))):
        over_heads = []
        for some_heads in chunks(head, heads):
            part_scores = score_parts.selected(scores, some, some_heads)
            part_scores = replace(part_scores, keys=xp.wide(part_scores.keys))  # once for all strips of these heads
            one_values = None
            if values is not None:
                one_values = xp.wide(values[some][:, score_parts.key_heads(some_heads, head, key_head)])
            strips = [
                xp.of_strip(
                    compute, score_parts.of_rows(part_scores, some_rows), (some, some_heads, some_rows), one_values
                )
                for some_rows in chunks(query, rows)
            ]
            over_heads.append(_join(strips, 2, add))
        over_batch.append(_join(over_heads, 1))
    return _join(over_batch, 0)


def _join(pieces: list[tuple[Array, ...]], axis: int, add: Callable[..., Array] | None = None) -> tuple[Array, ...]:
    if len(pieces) == 1:
        return pieces[0]
    if add is not None:
        return tuple(reduce(add, parts_of_one) for parts_of_one in zip(*pieces, strict=True))
    return tuple(namespace(parts_of_one[0]).concat(parts_of_one, axis) for parts_of_one in zip(*pieces, strict=True))


# The stages: score → scaled → capped → biased → masked → weight


def at_stage(scores: Scores, stage: Stage) -> Array:
    """The scores at one stage before the weights, (batch, head, query, key)."""
    xp = namespace(scores.queries)
    seen = seen_keys(scores) if stage == "masked" else None
    keys = xp.wide(scores.keys)
    products = to_keys(xp.wide(scores.queries), keys if seen is None else xp.without_unseen(keys, seen))
    for step in (scaled, capped, biased)[: STAGES.index(stage)]:
        products = step(products, scores)
    return products if seen is None else xp.where(seen, products, -xp.inf)


def scaled(score: Array, scores: Scores) -> Array:
    """score · scale."""
    return score if scores.scale == 1 else score * _in_range(scores.scale, score)


def capped(score: Array, scores: Scores) -> Array:
    """softcap · tanh(score / softcap), if there is a soft cap."""
    cap = scores.softcap
    return cap * namespace(score).tanh(score / cap) if cap else score


def biased(score: Array, scores: Scores) -> Array:
    """score + bias; a bias of −inf masks a key even if its score is NaN."""
    xp = namespace(score)
    for bias in (scores.bias, None if scores.relative is None else score_parts.relative_bias(scores)):
        if bias is not None:
            bias = cast(bias, score.dtype)
            score = xp.where(xp.isneginf(bias), -xp.inf, score + bias)
    return score


def seen_keys(scores: Scores) -> Array | None:
    """Booleans (batch or 1, head or 1, query, key): whether a query may see a key; None if all may."""
    if scores.visible is None:
        return None
    return score_parts.like(scores.visible.tile(score_parts.EVERYTHING, score_parts.EVERYTHING), scores.queries)


def _in_range(scale: float, score: Array) -> float:
    """The scale clipped to the range of the scores' type: inf · 0 would be NaN."""
    largest = float(namespace(score).finfo(score.dtype).max)
    if -largest <= scale <= largest:
        return scale
    return largest if scale > 0 else -largest


# Weights


@dataclass(frozen=True, eq=False, slots=True)
class Softmax:
    """Whole rows of weights and the terms of their statistics; row_max and row_sum are (batch, head, query, 1).

    weight = exp(factor · (score − row_max)) / row_sum, in the units of `softmax_units`.
    """

    score: Array  # −inf where a key is hidden
    exponent: Array  # factor · (score − row_max)
    factor: float
    row_max: Array  # −inf where a query sees no key
    row_sum: Array  # 0 where a query sees no key
    weights: Array
    sink: Array | None  # the weight of the sink

    @property
    def hidden(self) -> Array:
        """Booleans: the key is masked, or its score is −inf."""
        return namespace(self.score).isneginf(self.score)


def softmax(scores: Scores) -> Softmax:
    """The weights of all rows."""
    before, factor = softmax_units(scores)
    return softmax_rows(at_stage(replace(scores, scale=before), "masked"), scores.sinks, factor)


def softmax_rows(score: Array, sinks: Array | None = None, factor: float = 1.0) -> Softmax:
    """The weights of rows of masked scores, (batch, head, query, key), not yet multiplied by `factor`."""
    xp = namespace(score)
    row_max = xp.amax(xp.detach(score), axis=-1, keepdims=True)
    if sinks is not None:
        sinks = cast(sinks, score.dtype)[:, None, None]  # (head, 1, 1)
        row_max = xp.maximum(row_max, xp.detach(sinks))
    empty = xp.isneginf(row_max)
    level = xp.where(empty, 0, row_max)  # −inf − −inf is NaN
    exponent = score - level
    if factor != 1:
        exponent *= _in_range(factor, score)
    exponentials = xp.exp(exponent)
    row_sum = exponentials.sum(axis=-1, keepdims=True)
    sink = None if sinks is None else xp.exp(sinks - level)
    row_sum = row_sum if sink is None else row_sum + sink
    total = xp.where(empty, 1, row_sum)
    weights = exponentials / total
    if not xp.all_finite(row_sum):  # a row with NaN: hidden keys keep weight 0
        weights = xp.where(xp.isneginf(score), 0, weights)
    return Softmax(score, exponent, factor, row_max, row_sum, weights, None if sink is None else sink / total)


def _statistics(names: Sequence[str], scores: Scores, rows: Softmax) -> list[Array]:
    """Some of ROW_STATE and ROW_STATISTICS, each (batch, head, query)."""
    if not names:
        return []
    xp, weights = namespace(scores.queries), rows.weights
    empty = xp.isneginf(rows.row_max)
    log_sum = xp.log(xp.where(empty, 1, rows.row_sum))

    def statistic(name: str) -> Array:
        if name in ROW_STATE:
            return getattr(rows, name)[..., 0]
        if name == "logsumexp":
            natural = xp.at_least_float64(rows.row_max) * rows.factor + xp.at_least_float64(log_sum)
            return xp.where(empty, -xp.inf, natural)[..., 0]
        if name == "entropy":
            numbers = (weights * xp.where(weights == 0, 0, log_sum - rows.exponent)).sum(axis=-1)
        elif name == "peak":
            numbers = xp.amax(weights, axis=-1)
        else:
            assert name == "distance", name
            numbers = (weights * abs(score_parts.distances(scores))).sum(axis=-1)
        return cast(numbers, wide_type(scores.queries))

    return [statistic(name) for name in names]


def _strongest(rows: Softmax, top: int, kind: Any) -> tuple[Array, Array]:
    """Indices and weights of the `top` keys, ranked by score, because small weights can round to equal ones."""
    xp = namespace(rows.score)
    index = xp.argsort(-xp.detach(rows.score), axis=-1, stable=True)[..., :top]  # stable: ties to the lower index
    weight = cast(xp.take_along(rows.weights, index), kind)
    index = xp.where(xp.take_along(rows.hidden, index), -1, index)
    return xp.pad(index, top, -1), xp.pad(weight, top, 0)


# Products, with grouped queries: query heads that share a key head are stacked along the queries


def to_keys(rows: Array, keys: Array) -> Array:
    """rows @ keysᵀ for (batch, head, query, size) and (batch, key head, key, size)."""
    return (_stack_groups(rows, keys.shape[1]) @ keys.mT).reshape(*rows.shape[:3], keys.shape[2])


def from_keys(matrix: Array, rows: Softmax, values: Array, signed: bool = False) -> Array:
    """matrix @ values for (batch, head, query, key) and (batch, key head, key, size)."""
    values, heads = namespace(values).wide(values), values.shape[1]
    stacked = _stack_groups(matrix, heads)
    if namespace(values).all_finite(values):
        products = stacked @ values
    else:
        products = _product_without_hidden(stacked, _stack_groups(rows.hidden, heads), values, signed)
    return products.reshape(*matrix.shape[:3], values.shape[3])


def back_to_keys(matrix: Array, rows: Softmax, flow: Array, heads: int, signed: bool = False) -> Array:
    """matrixᵀ @ flow, summed over the query heads that share each of `heads` key heads."""
    stacked, flow = _stack_groups(matrix, heads).mT, _stack_groups(flow, heads)
    if namespace(flow).all_finite(flow):
        return stacked @ flow
    return _product_without_hidden(stacked, _stack_groups(rows.hidden, heads).mT, flow, signed)


def _product_without_hidden(matrix: Array, hidden: Array, values: Array, signed: bool) -> Array:
    """matrix @ values in which a hidden value has no influence, not even as NaN: 0 · NaN would be NaN.

    Weights are not negative, and one that has become 0 is still a small positive number. With `signed`, the matrix has
    both signs, and 0 · inf is NaN.
    """
    xp, size = namespace(values), values.shape[-1]
    result = matrix @ xp.where(xp.isfinite(values), values, 0)
    odd = cast(xp.concat([values == xp.inf, values == -xp.inf, xp.isnan(values)], -1), result.dtype)

    def reached_outputs(by: Array) -> tuple[Array, Array, Array]:
        reaches = cast(by & ~hidden, result.dtype) @ odd > 0
        return reaches[..., :size], reaches[..., size : 2 * size], reaches[..., 2 * size :]

    above, below, unknown = reached_outputs(matrix > 0 if signed else ~hidden)
    if signed:
        turned_below, turned_above, turned_unknown = reached_outputs(matrix < 0)
        above, below, unknown = above | turned_above, below | turned_below, unknown | turned_unknown
        for keys in reached_outputs(matrix == 0):
            unknown = unknown | keys
    result = result + xp.where(above, xp.inf, 0.0) - xp.where(below, xp.inf, 0.0)
    return xp.where(unknown, xp.nan, result)


def _stack_groups(rows: Array, heads: int) -> Array:
    """(batch, key head · group, query, x) as (batch, key head, group · query, x)."""
    batch, all_heads, query, last = rows.shape
    return rows if all_heads == heads else rows.reshape(batch, heads, all_heads // heads * query, last)


# Gradients of biases and sinks


def _add_options(
    sums: dict[str, Array],
    scores: Scores,
    part: Scores,
    span: Span,
    to_scores: Array,
    weighted_flow: Array,
    rows: Softmax,
) -> None:
    """Add a strip's share to the gradients of bias, relative bias and sinks, where they are wanted."""
    xp = namespace(to_scores)
    if "bias" in sums:
        total = sums["bias"]
        where = tuple(slice(None) if total.shape[axis] == 1 else span[axis] for axis in range(3))
        shared = tuple(axis for axis in range(4) if total.shape[axis] == 1)
        total[where] += to_scores.sum(axis=shared, keepdims=True) if shared else to_scores
    if "relative" in sums:
        total = sums["relative"]
        index = score_parts.distances(part) + scores.relative_zero  # (batch or 1, 1, query, key)
        index = xp.broadcast_to(index[:, 0], (to_scores.shape[0], *to_scores.shape[2:])).reshape(-1)
        by_head = to_scores.swapaxes(0, 1).reshape(to_scores.shape[1], -1)  # (head, batch · query · key)
        of_heads = span[1] if total.shape[0] > 1 else slice(None)
        by_head = by_head if total.shape[0] > 1 else by_head.sum(axis=0, keepdims=True)
        total[of_heads] += xp.by_index(by_head, index, total.shape[1])
    if "sinks" in sums and rows.sink is not None:
        sums["sinks"][span[1]] -= (rows.sink * weighted_flow).sum(axis=(0, 2, 3))


# Layers


@exact
def linear(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    activation: str | None = None,
    residual: Array | None = None,
    times: Array | None = None,
) -> Array:
    xp = namespace(x)
    result = xp.ACTIVATION[activation](xp.affine(x, weight, bias))
    if times is not None:
        result = result * xp.wide(times)
    if residual is not None:
        result = result + xp.wide(residual)
    return cast(result, x.dtype)


@exact
def layer_norm(x: Array, weight: Array, bias: Array | None, epsilon: float) -> Array:
    return cast(namespace(x).layer_norm(x, weight, bias, epsilon), x.dtype)


@exact
def rms_norm(x: Array, weight: Array, epsilon: float) -> Array:
    xp = namespace(x)
    wide = xp.wide(x)
    root = xp.sqrt(xp.square(wide).mean(axis=-1, keepdims=True) + epsilon)
    return cast(wide / root * xp.wide(weight), x.dtype)


@exact
def rotary(x: Array, cosines: Array, sines: Array, interleaved: bool, in_place: bool = False) -> Array:
    xp, pairs = namespace(x), cosines.shape[-1]
    wide = xp.wide(x)
    cosines, sines = (
        cast(cosines, wide.dtype)[:, None],
        cast(sines, wide.dtype)[:, None],
    )  # (batch or 1, 1, token, pairs)
    if interleaved:
        even, other = wide[..., 0 : 2 * pairs : 2], wide[..., 1 : 2 * pairs : 2]
    else:
        even, other = wide[..., :pairs], wide[..., pairs : 2 * pairs]
    turned = even * cosines - other * sines, other * cosines + even * sines
    joined = xp.stack(turned, -1).reshape(*x.shape[:-1], 2 * pairs) if interleaved else xp.concat(turned, -1)
    return cast(xp.concat([joined, wide[..., 2 * pairs :]], -1), x.dtype)

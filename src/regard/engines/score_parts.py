"""Parts of `Scores`: some sequences, heads, queries and keys, evaluating masks and biases only for those.

For NumPy arrays and PyTorch tensors alike. An index is a slice with a positive step or a NumPy array of non-negative
integers; every axis is kept.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np

from regard.arrays import Array, is_number, is_tensor
from regard.engines.interface import Pool, RowState, Scores
from regard.masks import Visible

Index = Any  # a slice with a positive step, or a NumPy array of integers
EVERYTHING = slice(None)


def selected(scores: Scores, batch: Index, head: Index) -> Scores:
    """Some sequences and heads; query heads still share keys if their groups stay of equal size."""
    key_head = key_heads(head, scores.queries.shape[1], scores.keys.shape[1])
    return replace(
        scores,
        queries=taken(taken(scores.queries, batch, 0), head, 1),
        keys=taken(taken(scores.keys, batch, 0), key_head, 1),
        bias=None if scores.bias is None else shared(shared(scores.bias, batch, 0), head, 1),
        relative=None if scores.relative is None else shared(scores.relative, head, 0),
        sinks=None if scores.sinks is None else taken(scores.sinks, head, 0),
        visible=None if scores.visible is None else scores.visible.select(batch=batch, head=head),
        offset=scores.offset if is_number(scores.offset) else taken(scores.offset, batch, 0),
    )


def of_rows(scores: Scores, rows: slice) -> Scores:
    """Consecutive queries, which keep their positions."""
    start, stop, _ = rows.indices(scores.queries.shape[2])
    if start == 0 and stop == scores.queries.shape[2]:
        return scores
    return replace(
        scores,
        queries=scores.queries[:, :, rows],
        bias=None if scores.bias is None else shared(scores.bias, rows, 2),
        visible=None if scores.visible is None else scores.visible.rows(rows),
        offset=scores.offset + start,
    )


def cut(scores: Scores, rows: Index, columns: Index) -> Scores:
    """Any queries against any keys; mask and bias become arrays only if positions are lost."""
    if is_run(rows) and (columns == EVERYTHING if isinstance(columns, slice) else False):
        return of_rows(scores, rows)
    return lattice(scores, rows, columns)


def is_run(rows: Index) -> bool:
    """Whether an index takes consecutive elements."""
    return isinstance(rows, slice) and rows.step in (None, 1)


def lattice(scores: Scores, rows: Index, columns: Index) -> Scores:
    """Any queries against any keys: mask and bias become arrays of that size, because positions are lost."""
    bias = None if scores.bias is None else shared(shared(scores.bias, rows, 2), columns, 3)
    if scores.relative is not None:
        relative = relative_bias(scores, rows, columns)
        bias = relative if bias is None else _exactly(bias) + _exactly(relative)  # engines round their sum once
    return replace(
        scores,
        queries=taken(scores.queries, rows, 2),
        keys=taken(scores.keys, columns, 2),
        bias=bias,
        relative=None,
        relative_zero=0,
        visible=None if scores.visible is None else visible_part(scores.visible, rows, columns),
        offset=0,
    )


def visible_part(visible: Visible, rows: Index, columns: Index) -> Visible:
    """Which of some keys some queries see: as intervals if those still can express it, otherwise as an array."""
    if isinstance(rows, slice) and isinstance(columns, slice) and columns == EVERYTHING:
        return visible.rows(rows)
    return Visible.of_dense(visible.tile(rows, columns), visible.xp, visible.device)


def distances(scores: Scores, rows: Index = EVERYTHING, columns: Index = EVERYTHING) -> Array:
    """i − j for every query position i and key position j: integers (batch or 1, 1, row, column)."""
    row, column = _places(scores.queries, rows), _places(scores.keys, columns)
    offset: Any = scores.offset
    if not is_number(offset):
        offset = like(offset, scores.queries)[:, None, None, None]
    return (row[:, None] - column)[None, None] + offset


def _places(vectors: Array, index: Index) -> Array:
    """The indices along the third axis that an index takes, as integers of the library and device of the array."""
    if is_tensor(vectors):
        return taken(sys.modules["torch"].arange(vectors.shape[2], device=vectors.device), index, 0)
    return np.arange(vectors.shape[2])[index]


def relative_bias(scores: Scores, rows: Index = EVERYTHING, columns: Index = EVERYTHING) -> Array:
    """The bias by relative position as an array, (batch or 1, head or 1, row, column)."""
    assert scores.relative is not None
    apart = distances(scores, rows, columns)[:, 0] + scores.relative_zero  # (batch or 1, row, column)
    return scores.relative[:, apart].swapaxes(0, 1)


def key_heads(head: Index, heads: int, key_head_count: int) -> Index:
    """The key heads that some query heads use, in order, each once if the groups stay of equal size.

    With two query heads per key head, heads 2 to 5 share key heads 1 and 2 evenly; heads 1 to 3 do not, so key head 1
    is repeated:

    >>> key_heads(slice(2, 6), 8, 4), key_heads(slice(1, 4), 8, 4).tolist()
    (slice(1, 3, 1), [0, 1, 1])
    """
    group = heads // key_head_count
    if group == 1 or (isinstance(head, slice) and head == EVERYTHING):
        return head
    chosen = np.arange(heads)[head] // group
    if not len(chosen):
        return slice(0, 0)
    starts = np.flatnonzero(np.diff(chosen, prepend=-1))
    runs = np.diff(starts, append=len(chosen))
    used = chosen[starts] if (runs == runs[0]).all() else chosen
    steps = np.diff(used)
    if len(used) == 1 or (steps[0] > 0 and (steps == steps[0]).all()):  # a slice does not copy the keys
        step = 1 if len(used) == 1 else int(steps[0])
        return slice(int(used[0]), int(used[-1]) + 1, step)
    return used


def shared(array: Array, index: Index, axis: int) -> Array:
    """Part of an axis of full size; an axis of size 1 is broadcast and kept."""
    return array if array.shape[axis] == 1 else taken(array, index, axis)


def taken(array: Array, index: Index, axis: int) -> Array:
    """Part of an axis."""
    if isinstance(index, slice) and index == EVERYTHING:
        return array
    return array[(EVERYTHING,) * axis + (index,)]


def state_part(state: RowState, batch: Index, head: Index, rows: Index) -> RowState:
    """The state of some sequences, heads and rows."""
    return RowState(
        *(taken(taken(taken(array, batch, 0), head, 1), rows, 2) for array in (state.row_max, state.row_sum))
    )


def _exactly(array: Array) -> Array:
    """In double precision if the device supports it."""
    if isinstance(array, np.ndarray):
        return array.astype(np.float64)
    return array.float() if array.device.type == "mps" else array.double()


def cell_sizes(row_edges: Array, column_edges: Array, pool: Pool) -> tuple[Array | None, Array]:
    """Numbers of queries and of keys that a sum over a cell is divided by; None: it stays a sum, or is none."""
    widths = np.diff(column_edges) if pool == "mean" else np.ones(len(column_edges) - 1, np.int64)
    return (np.diff(row_edges) if pool in ("mean", "words") else None), widths


def like(array: Array, other: Array) -> Array:
    """Integers or booleans as an array of the library and the device of `other`."""
    if isinstance(other, np.ndarray):
        return array
    if isinstance(array, np.ndarray):
        array = np.require(array, requirements=("C", "W"))  # copies read-only arrays and negative strides
    return sys.modules["torch"].as_tensor(array, device=other.device)

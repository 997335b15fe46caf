"""`A[...]`: any part of the matrix at any stage, computing only that part.

Without index arrays the part is one tile. With them, it consists of points: one tile where the points fill it well, and
many small ones where they are scattered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from regard import arrays, errors
from regard.arrays import Array
from regard.attention.indexing import Reading, read
from regard.attention.remembering import state_for, state_of_rows
from regard.attention.scoring import scores_of
from regard.kernels import parts
from regard.kernels.choosing import engine_for
from regard.kernels.interface import RowState, Scores, Stage

if TYPE_CHECKING:
    from regard.attention.indexing import Integers
    from regard.attention.matrix import Attention

    Points = dict[int, Integers]  # axis of four → one index a point

LIMIT = 1 << 30  # bytes
SCATTERED = 8  # a tile is computed whole unless it holds more than so many times the points wanted
POINTS = 64  # in a small tile: at most 64 × 64 weights, and Python's share stays near 1 µs a point

Lattice = tuple[parts.Index, parts.Index, parts.Index, parts.Index]  # batch, head, query, key


def look(attention: Attention, index: Any, stage: Stage, limit: int | None = LIMIT) -> Array:
    """The part of the matrix that an index names, at one stage."""
    reading = read(index, attention.shape, "torch" if arrays.is_tensor(attention.queries) else "numpy")
    check_size(attention, reading.shape, limit)
    if 0 in reading.shape:
        return arrays.empty_weights(reading.shape, attention.queries)
    missing = 4 - len(attention.shape)
    batch, head, rows, columns = [parts.EVERYTHING] * missing + reading.needed
    points = {axis + missing: array.reshape(-1) for axis, array in reading.points.items() if axis >= 0}
    source = Source(_scores_for(attention, stage), stage)
    if stage == "weight":
        source = replace(source, state=state_for(attention, _share_of_rows(source, reading, missing)))
    if not reading.points_shape and not points:
        return source.tile((batch, head, rows, columns)).reshape(reading.shape)
    found = _points(source, (batch, head, rows, columns), points)
    found = found.reshape(*reading.points_shape, *reading.kept)
    axes = range(len(reading.points_shape))
    return arrays.library(found).moveaxis(found, tuple(axes), tuple(axis + reading.points_at for axis in axes))


def check_size(attention: Attention, shape: tuple[int, ...], limit: int | None) -> None:
    """Refuse to build more than the limit, in bytes."""
    size = int(np.prod(shape, dtype=object)) * max(4, attention.queries.dtype.itemsize)
    if limit is not None and size > limit:
        raise errors.too_large_to_build(size, limit)


@dataclass(frozen=True, slots=True)
class Source:
    """Where tiles come from."""

    scores: Scores
    stage: Stage
    state: RowState | None = None  # of all rows, where it is known

    def tile(self, lattice: Lattice) -> Array:
        """The numbers of a lattice, four axes."""
        batch, head, rows, columns = lattice
        scores, state = parts.selected(self.scores, batch, head), None
        if self.stage == "weight":
            state = self.state
            state = state_of_rows(scores, rows) if state is None else parts.state_part(state, batch, head, rows)
        if _is_run(rows) and _is_everything(columns, scores.keys.shape[2]):
            scores = parts.of_rows(scores, rows)
        else:
            scores = parts.lattice(scores, rows, columns)
        return engine_for(scores.queries).tile(scores, state, self.stage)


def _scores_for(attention: Attention, stage: Stage) -> Scores:
    """Without what changes scores only after this stage, so that none of it is evaluated."""
    scores = scores_of(attention)
    if stage in ("score", "scaled", "capped"):
        return replace(scores, bias=None, relative=None, visible=None)
    return replace(scores, visible=None) if stage == "biased" else scores


def _share_of_rows(source: Source, reading: Reading, missing: int) -> float:
    """The share of all rows that will be looked at, at most."""
    counts = source.scores.queries.shape[:3]
    looked_at = float(np.prod(reading.points_shape)) if any(axis + missing < 3 for axis in reading.points) else 1.0
    for axis, count in enumerate(counts):
        if axis >= missing and axis - missing not in reading.points:
            looked_at *= len(np.arange(count)[reading.needed[axis - missing]])
    return looked_at / max(1, int(np.prod(counts)))


# Points


def _points(source: Source, lattice: Lattice, points: Points) -> Array:
    """The numbers of all points: (point, and every axis that points do not choose along)."""
    count = len(next(iter(points.values()))) if points else 1
    if source.stage == "weight" and source.state is None and not _is_dense(points, count):
        source = replace(source, state=_state_of_points(source.scores, lattice, points))
    chunks, found = list(_chunks(points, count)), []
    for chunk in chunks:
        needed, places = list(lattice), []
        for axis, index in points.items():
            values, inverse = np.unique(index[chunk], return_inverse=True)
            needed[axis] = _run(values)
            places.append(parts.like(inverse, source.scores.queries))
        tile = source.tile((needed[0], needed[1], needed[2], needed[3]))
        tile = arrays.library(tile).moveaxis(tile, tuple(points), tuple(range(len(points))))
        found.append(tile[tuple(places)] if places else tile[None])
    joined = found[0] if len(found) == 1 else arrays.library(found[0]).concatenate(found, 0)
    back = np.argsort(np.concatenate(chunks))
    return joined[parts.like(back, joined)]


def _chunks(points: Points, count: int) -> Iterator[Integers]:
    """Points that share a tile."""
    everything = np.arange(count)
    if _is_dense(points, count):
        yield everything
        return
    order = np.lexsort([points[axis] for axis in sorted(points, reverse=True)])
    for group in _groups(points, order):
        if _is_dense({axis: index[group] for axis, index in points.items()}, len(group)):
            yield group
        else:
            yield from (group[start : start + POINTS] for start in range(0, len(group), POINTS))


def _groups(points: Points, order: Integers) -> list[Integers]:
    """Ordered points, split where the sequence or the head changes."""
    changes = np.zeros(len(order), dtype=bool)
    for axis in points:
        if axis < 2:
            changes[1:] |= np.diff(points[axis][order]) != 0
    return np.split(order, np.flatnonzero(changes))


def _is_dense(points: Points, count: int) -> bool:
    """Whether the points are a good part of the smallest tile that holds them all."""
    tile = int(np.prod([len(np.unique(index)) for index in points.values()], dtype=object)) if points else 1
    return tile <= SCATTERED * count


def _state_of_points(scores: Scores, lattice: Lattice, points: Points) -> RowState:
    """The state of every row that a point lies in, at its place among all rows."""
    everywhere: RowState | None = None
    order = np.lexsort([points[axis] for axis in sorted(points, reverse=True)])
    for group in _groups(points, order):
        batch, head = (_run(points[axis][group[:1]]) if axis in points else _hull(lattice[axis]) for axis in (0, 1))
        rows = _run(np.unique(points[2][group])) if 2 in points else _hull(lattice[2])
        found = state_of_rows(parts.selected(scores, batch, head), rows)
        if everywhere is None:
            shape = tuple(scores.queries.shape[:3])  # of all rows; only those of points are read
            everywhere = RowState(*(arrays.uninitialised(shape, part) for part in (found.row_max, found.row_sum)))
        everywhere.row_max[batch, head, rows] = found.row_max
        everywhere.row_sum[batch, head, rows] = found.row_sum
    assert everywhere is not None
    return everywhere


# Indices


def _run(values: Integers) -> parts.Index:
    """Rising integers, as a slice where none is left out."""
    first, last = int(values[0]), int(values[-1])
    return slice(first, last + 1) if last - first == len(values) - 1 else values


def _hull(index: parts.Index) -> slice:
    """A slice that holds all of an index."""
    if isinstance(index, slice):
        return slice(index.start, index.stop)
    return slice(int(index.min()), int(index.max()) + 1)


def _is_run(rows: parts.Index) -> bool:
    return isinstance(rows, slice) and rows.step in (None, 1)


def _is_everything(index: parts.Index, count: int) -> bool:
    return isinstance(index, slice) and index.indices(count) == (0, count, 1)

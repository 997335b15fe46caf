"""`A[...]`: any part of the matrix at any stage, computing only that part.

`read` turns an index into what each axis needs and the shape that results, by the rules of NumPy or PyTorch. Without
index arrays the part is one tile. With them, it consists of points: one tile where the points fill it well, and many
small ones where they are scattered.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from regard import arrays, errors
from regard.arrays import Array, numpy_of
from regard.attention.row_statistics import RowStatistics, state_of_rows
from regard.engines import score_parts
from regard.engines.interface import RowState, Scores, Stage
from regard.engines.select import engine_for
from regard.validate import is_number

if TYPE_CHECKING:  # numpy.typing costs 3 ms
    from numpy.typing import NDArray

    Integers = NDArray[np.intp]
    Points = dict[int, Integers]  # axis of four → one index per point

LIMIT = 1 << 30  # bytes
SCATTERED = 8  # a tile is computed whole unless it is more than 8 times the number of points
POINTS = 64  # per small tile: at most 64 × 64 weights, and about 1 µs of Python per point

Lattice = tuple[score_parts.Index, score_parts.Index, score_parts.Index, score_parts.Index]  # batch, head, query, key
AXES = ("batch", "head", "query", "key")


# The part of the matrix that an index selects


def look(scores: Scores, known: RowStatistics, ndim: int, index: Any, stage: Stage, limit: int | None = LIMIT) -> Array:
    """The part of a matrix of `ndim` axes that an index selects, at one stage."""
    missing = 4 - ndim
    shape = (*scores.queries.shape[missing:3], scores.keys.shape[2])
    reading = read(index, shape, "torch" if arrays.is_tensor(scores.queries) else "numpy")
    check_size(reading.shape, scores.queries, limit)
    if 0 in reading.shape:
        return arrays.empty_weights(reading.shape, scores.queries)
    batch, head, rows, columns = [score_parts.EVERYTHING] * missing + reading.needed
    points = {axis + missing: array.reshape(-1) for axis, array in reading.points.items() if axis >= 0}
    source = StageScores(_without_later_stages(scores, stage), stage)
    if stage == "weight":
        source = replace(source, state=known.state_for(scores, _share_of_rows(source, reading, missing)))
    if not reading.points_shape and not points:
        return source.tile((batch, head, rows, columns)).reshape(reading.shape)
    values = _points(source, (batch, head, rows, columns), points)
    values = values.reshape(*reading.points_shape, *reading.kept)
    axes = range(len(reading.points_shape))
    return arrays.library(values).moveaxis(values, tuple(axes), tuple(axis + reading.points_at for axis in axes))


def check_size(shape: tuple[int, ...], like: Array, limit: int | None) -> None:
    """Raise if the weights of this shape take more than `limit` bytes."""
    size = int(np.prod(shape, dtype=object)) * max(4, like.dtype.itemsize)
    if limit is not None and not (is_number(limit) and limit >= 0):
        raise errors.option("limit", limit, "a number of bytes, or None for no limit")
    if limit is not None and size > limit:
        takes, most = errors.sizes_apart(size, int(limit))
        raise errors.TooLarge(
            f"The dense matrix would take {takes}, the limit is {most}.\n"
            f"Look at a part of it (A[..., 0, :], A.pooled((512, 512)), A.top(8)), or allow it: dense(limit={size})."
        )


@dataclass(frozen=True, slots=True)
class StageScores:
    """Computes tiles of one stage."""

    scores: Scores
    stage: Stage
    state: RowState | None = None  # of all rows; None: computed for each tile

    def tile(self, lattice: Lattice) -> Array:
        """The tile of these indices, with four axes."""
        batch, head, rows, columns = lattice
        scores, state = score_parts.selected(self.scores, batch, head), None
        if self.stage == "weight":
            state = self.state
            state = state_of_rows(scores, rows) if state is None else score_parts.state_part(state, batch, head, rows)
        if _is_everything(columns, scores.keys.shape[2]):
            columns = score_parts.EVERYTHING
        return engine_for(scores.queries).tile(scores, state, self.stage, rows, columns)


def _without_later_stages(scores: Scores, stage: Stage) -> Scores:
    """The scores without mask and bias where the stage comes before them, so that they are not evaluated."""
    if stage in ("score", "scaled", "capped"):
        return replace(scores, bias=None, relative=None, visible=None)
    return replace(scores, visible=None) if stage == "biased" else scores


def _share_of_rows(source: StageScores, reading: ParsedIndex, missing: int) -> float:
    """The largest possible fraction of rows that the index touches."""
    counts = source.scores.queries.shape[:3]
    looked_at = float(np.prod(reading.points_shape)) if any(axis + missing < 3 for axis in reading.points) else 1.0
    for axis, count in enumerate(counts):
        if axis >= missing and axis - missing not in reading.points:
            looked_at *= len(np.arange(count)[reading.needed[axis - missing]])
    return looked_at / max(1, int(np.prod(counts)))


# Points


def _points(source: StageScores, lattice: Lattice, points: Points) -> Array:
    """The values at all points: (point, then every axis without points)."""
    count = len(next(iter(points.values()))) if points else 1
    if source.stage == "weight" and source.state is None and not _is_dense(points, count):
        source = replace(source, state=_state_of_points(source.scores, lattice, points))
    chunks, chunk_values = list(_chunks(points, count)), []
    for chunk in chunks:
        needed, cells = list(lattice), []
        for axis, index in points.items():
            values, inverse = np.unique(index[chunk], return_inverse=True)
            needed[axis] = _run(values)
            cells.append(score_parts.like(inverse, source.scores.queries))
        tile = source.tile((needed[0], needed[1], needed[2], needed[3]))
        tile = arrays.library(tile).moveaxis(tile, tuple(points), tuple(range(len(points))))
        chunk_values.append(tile[tuple(cells)] if cells else tile[None])
    joined = chunk_values[0] if len(chunk_values) == 1 else arrays.library(chunk_values[0]).concatenate(chunk_values, 0)
    back = np.argsort(np.concatenate(chunks))
    return joined[score_parts.like(back, joined)]


def _chunks(points: Points, count: int) -> Iterator[Integers]:
    """Groups of points that share a tile."""
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
    """Sorted points, split where the sequence or the head changes."""
    changes = np.zeros(len(order), dtype=bool)
    for axis in points:
        if axis < 2:
            changes[1:] |= np.diff(points[axis][order]) != 0
    return np.split(order, np.flatnonzero(changes))


def _is_dense(points: Points, count: int) -> bool:
    """Whether the points fill enough of the smallest tile that contains them."""
    tile = int(np.prod([len(np.unique(index)) for index in points.values()], dtype=object)) if points else 1
    return tile <= SCATTERED * count


def _state_of_points(scores: Scores, lattice: Lattice, points: Points) -> RowState:
    """The state of every row with a point, in arrays of all rows."""
    everywhere: RowState | None = None
    order = np.lexsort([points[axis] for axis in sorted(points, reverse=True)])
    for group in _groups(points, order):
        batch, head = (_run(points[axis][group[:1]]) if axis in points else _hull(lattice[axis]) for axis in (0, 1))
        rows = _run(np.unique(points[2][group])) if 2 in points else _hull(lattice[2])
        state = state_of_rows(score_parts.selected(scores, batch, head), rows)
        if everywhere is None:
            shape = tuple(scores.queries.shape[:3])  # of all rows; only those with points are read
            everywhere = RowState(*(arrays.uninitialised(shape, part) for part in (state.row_max, state.row_sum)))
        everywhere.row_max[batch, head, rows] = state.row_max
        everywhere.row_sum[batch, head, rows] = state.row_sum
    assert everywhere is not None
    return everywhere


# Indices


def _run(values: Integers) -> score_parts.Index:
    """Increasing integers; a slice if they are consecutive."""
    first, last = int(values[0]), int(values[-1])
    return slice(first, last + 1) if last - first == len(values) - 1 else values


def _hull(index: score_parts.Index) -> slice:
    """The smallest slice that contains an index."""
    if isinstance(index, slice):
        return slice(index.start, index.stop)
    return slice(int(index.min()), int(index.max()) + 1)


def _is_everything(index: score_parts.Index, count: int) -> bool:
    return isinstance(index, slice) and index.indices(count) == (0, count, 1)


# Reading an index


@dataclass(slots=True)
class ParsedIndex:
    """A parsed index. All index arrays together select points; the other axes of the result are kept."""

    needed: list[score_parts.Index] = field(default_factory=list)  # per axis: a slice, or integers
    points: dict[int, Integers] = field(default_factory=dict)  # axis → index array, all of one shape
    points_shape: tuple[int, ...] = ()
    points_at: int = 0  # where the axes of the points are inserted among the kept ones
    kept: list[int] = field(default_factory=list)  # lengths of the kept axes

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return (*self.kept[: self.points_at], *self.points_shape, *self.kept[self.points_at :])


def read(index: Any, shape: tuple[int, ...], library: Literal["numpy", "torch"] = "numpy") -> ParsedIndex:
    """Parse an index into an array of this shape by the rules of NumPy or PyTorch.

    The axes of the points replace the indexed axes if the index arrays are adjacent, and come first if they are not.
    The libraries differ in what counts as adjacent: in NumPy an integer is an index array too, and `...` separates even
    if it expands to no axis; PyTorch applies integers and `...` first.

    >>> read((..., slice(None, None, 2), 3), (7, 5)).shape
    (4,)
    >>> read(([0, 2], slice(None), [1, 1]), (3, 4, 5)).shape
    (2, 4)
    >>> read((0, slice(None), [1, 1]), (3, 4, 5)).shape, read((0, slice(None), [1, 1]), (3, 4, 5), "torch").shape
    ((2, 4), (4, 2))
    """
    reading = ParsedIndex()
    arrays_met: list[tuple[int | None, Integers]] = []
    advanced: list[tuple[int, int]] = []  # integers and arrays: position among the items, number of kept axes before
    axis = item_index = 0
    for item in _filled(index, len(shape)):
        item_index += 1
        if item is None:
            reading.kept.append(1)
        elif item is ...:  # expands to no axis
            item_index -= library == "torch"
        elif isinstance(item, slice):
            needed, length = _from_slice(item, shape[axis])
            reading.needed.append(needed)
            reading.kept.append(length)
            axis += 1
        elif isinstance(item, int):
            item = _bounded(item, shape[axis], axis, len(shape))
            reading.needed.append(slice(item, item + 1))
            axis += 1
            if library == "torch":
                item_index -= 1
            else:
                advanced.append((item_index, len(reading.kept)))
        else:
            advanced.append((item_index, len(reading.kept)))
            if item.dtype == bool:  # a single True or False: points without an axis
                arrays_met.append((None, np.zeros(int(item), np.intp)))
            else:
                arrays_met.append((axis, _bounded(item, shape[axis], axis, len(shape))))
                reading.needed.append(score_parts.EVERYTHING)
                axis += 1
    if arrays_met:
        _place_points(reading, arrays_met, advanced, index)
    return reading


def chosen(index: Any, count: int, axis: str = "key") -> tuple[score_parts.Index, bool]:
    """An index along one axis, as integers or a slice, and whether it was one integer."""
    if index is None or isinstance(index, slice):
        return _from_slice(index or slice(None), count)[0], False
    following = 3 - AXES.index(axis)
    reading = read([*index] if isinstance(index, tuple) else index, (count, *(1,) * following))
    if -1 in reading.points:
        raise _not_an_index(index)
    is_one = not reading.points and len(reading.kept) == following
    return (reading.points[0].reshape(-1) if reading.points else reading.needed[0]), is_one


def _place_points(reading: ParsedIndex, met: list[tuple[int | None, Integers]], advanced: Any, index: Any) -> None:
    try:
        together = np.broadcast_arrays(*(array for _, array in met))
    except ValueError:
        raise _not_an_index(index) from None
    reading.points_shape = together[0].shape
    reading.points = {-1 if axis is None else axis: array for (axis, _), array in zip(met, together, strict=True)}
    axes_of_arrays = [axis_number for axis_number, _ in advanced]
    neighbours = axes_of_arrays == list(range(axes_of_arrays[0], axes_of_arrays[0] + len(axes_of_arrays)))
    reading.points_at = advanced[0][1] if neighbours else 0


def _filled(index: Any, axes: int) -> list[Any]:
    """The items of an index: `...` expanded unless that gives no axis, boolean arrays as integer arrays."""
    items: list[Any] = []
    for item in index if isinstance(index, tuple) else (index,):
        items.extend(_item(item))
    consumed = sum(1 for item in items if not (item is None or item is ... or _is_truth(item)))
    if consumed > axes:
        came = f"{errors.count(consumed, 'index')} for an attention of {errors.count(axes, 'axis')}"
        raise errors.OutOfRange(f"{came}: leave {consumed - axes} out.")
    dots = [position for position, item in enumerate(items) if item is ...]
    if len(dots) > 1:
        raise _not_an_index(index)
    position = dots[0] if dots else len(items)
    filling: list[Any] = [score_parts.EVERYTHING] * (axes - consumed) or [...] * len(dots)
    return [*items[:position], *filling, *items[position + 1 :]]


def _item(item: Any) -> list[Any]:
    """One item as None, ..., slice, int or integer array; a boolean array as one integer array per axis."""
    if item is None or item is ... or isinstance(item, slice):
        return [item]
    if not isinstance(item, (bool, np.bool_)) and hasattr(item, "__index__") and not getattr(item, "shape", ()):
        return [operator.index(item)]
    try:
        array = numpy_of(item)
    except ValueError:
        raise _not_an_index(item) from None
    if str(getattr(item, "dtype", "")) == "torch.uint8":  # a mask to PyTorch, integers to NumPy
        raise errors.option("index", item, "a tensor of bool or int64", "Say which with .bool() or .long().")
    if array.size == 0 and not hasattr(item, "dtype"):
        array = array.astype(np.intp)
    if array.dtype == bool:
        if array.ndim == 0:
            return [array]
        return [_Sized(indices, length) for indices, length in zip(array.nonzero(), array.shape, strict=True)]
    if array.dtype.kind not in "iu":
        raise _not_an_index(item)
    return [int(array)] if array.ndim == 0 else [array.astype(np.intp)]


class _Sized(np.ndarray[Any, np.dtype[np.intp]]):
    """The indices of true elements along one axis, with the length that this axis must have."""

    length: int

    def __new__(cls, indices: Integers, length: int) -> _Sized:
        sized = indices.view(cls)
        sized.length = length
        return sized


def _is_truth(item: Any) -> bool:
    return isinstance(item, np.ndarray) and item.dtype == bool


def _from_slice(item: slice, count: int) -> tuple[score_parts.Index, int]:
    try:
        start, stop, step = item.indices(count)
    except (TypeError, ValueError):
        raise _not_an_index(item) from None
    length = len(range(start, stop, step))
    if step < 0:  # tensors have no negative strides
        return np.arange(start, stop, step), length
    return slice(start, stop if length else start, step), length


def _bounded(item: Any, count: int, axis: int, axes: int) -> Any:
    """Non-negative integers, checked against the length of the axis."""
    name = AXES[4 - axes + axis]
    if isinstance(item, _Sized):
        if item.length != count:
            raise _not_an_index(f"a boolean array of {item.length} for {count} along {name}")
        return np.asarray(item)
    outside = (item < -count) | (item >= count)
    if np.any(outside):
        raise errors.index_out_of_range(name, item if isinstance(item, int) else int(item[outside][0]), count)
    return item + count * (item < 0)


def _not_an_index(index: object) -> errors.OutOfRange:
    return errors.OutOfRange(
        f"{errors.shown(index)} is not a valid index; expected integers, slices, `...` or integer arrays.\n"
        "For anything else, build the matrix first: A.dense()[...]."
    )

"""An index into the matrix, read as NumPy would read it: what each axis needs, and the shape that results."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from regard import errors
from regard.arrays import numpy_of
from regard.kernels import parts

if TYPE_CHECKING:  # numpy.typing costs 3 ms
    from numpy.typing import NDArray

    Integers = NDArray[np.intp]

AXES = ("batch", "head", "query", "key")


@dataclass(slots=True)
class Reading:
    """An index, read. All index arrays together name points; the other axes of the result are kept as they are."""

    needed: list[parts.Index] = field(default_factory=list)  # for each axis: a slice, or integers
    points: dict[int, Integers] = field(default_factory=dict)  # axis → index array, all of one shape
    points_shape: tuple[int, ...] = ()
    points_at: int = 0  # place of the points' axes among those of the result
    kept: list[int] = field(default_factory=list)  # lengths of the other axes of the result

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return (*self.kept[: self.points_at], *self.points_shape, *self.kept[self.points_at :])


def read(index: Any, shape: tuple[int, ...], library: Literal["numpy", "torch"] = "numpy") -> Reading:
    """What NumPy or PyTorch would make of an index into an array of this shape.

    The axes of the points replace those that were indexed where the index arrays are next to each other, and come
    first where they are not. The libraries differ in what separates them: to NumPy, an integer is an index array
    too, and `...` separates even where it stands for no axis; PyTorch takes integers and `...` away first.

    >>> read((..., slice(None, None, 2), 3), (7, 5)).shape
    (4,)
    >>> read(([0, 2], slice(None), [1, 1]), (3, 4, 5)).shape
    (2, 4)
    >>> read((0, slice(None), [1, 1]), (3, 4, 5)).shape, read((0, slice(None), [1, 1]), (3, 4, 5), "torch").shape
    ((2, 4), (4, 2))
    """
    reading = Reading()
    arrays_met: list[tuple[int | None, Integers]] = []
    advanced: list[tuple[int, int]] = []  # of integers and arrays: place among the items that count, axes kept before
    axis = place = 0
    for item in _filled(index, len(shape)):
        place += 1
        if item is None:
            reading.kept.append(1)
        elif item is ...:  # stands for no axis
            place -= library == "torch"
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
                place -= 1
            else:
                advanced.append((place, len(reading.kept)))
        else:
            advanced.append((place, len(reading.kept)))
            if item.dtype == bool:  # a single True or False: points, but of no axis
                arrays_met.append((None, np.zeros(int(item), np.intp)))
            else:
                arrays_met.append((axis, _bounded(item, shape[axis], axis, len(shape))))
                reading.needed.append(parts.EVERYTHING)
                axis += 1
    if arrays_met:
        _place_points(reading, arrays_met, advanced, index)
    return reading


def chosen_keys(index: Any, count: int) -> parts.Index:
    """An index along the keys alone, each of them once."""
    reading = read(index, (count,))
    return reading.points[0].reshape(-1) if 0 in reading.points else reading.needed[0]


def _place_points(reading: Reading, met: list[tuple[int | None, Integers]], advanced: Any, index: Any) -> None:
    try:
        together = np.broadcast_arrays(*(array for _, array in met))
    except ValueError:
        raise errors.bad_index(index) from None
    reading.points_shape = together[0].shape
    reading.points = {-1 if axis is None else axis: array for (axis, _), array in zip(met, together, strict=True)}
    places = [place for place, _ in advanced]
    neighbours = places == list(range(places[0], places[0] + len(places)))
    reading.points_at = advanced[0][1] if neighbours else 0


def _filled(index: Any, axes: int) -> list[Any]:
    """The items of an index: `...` filled in unless it stands for no axis, boolean arrays as integers."""
    items: list[Any] = []
    for item in index if isinstance(index, tuple) else (index,):
        items.extend(_item(item))
    consumed = sum(1 for item in items if not (item is None or item is ... or _is_truth(item)))
    if consumed > axes:
        raise errors.too_many_indices(consumed, axes)
    dots = [place for place, item in enumerate(items) if item is ...]
    if len(dots) > 1:
        raise errors.bad_index(index)
    place = dots[0] if dots else len(items)
    filling: list[Any] = [parts.EVERYTHING] * (axes - consumed) or [...] * len(dots)
    return [*items[:place], *filling, *items[place + 1 :]]


def _item(item: Any) -> list[Any]:
    """One item as None, ..., slice, int or integer array; a boolean array as one integer array for each of its axes."""
    if item is None or item is ... or isinstance(item, slice):
        return [item]
    if not isinstance(item, (bool, np.bool_)) and hasattr(item, "__index__") and not getattr(item, "shape", ()):
        return [operator.index(item)]
    try:
        array = numpy_of(item)
    except ValueError:
        raise errors.bad_index(item) from None
    if str(getattr(item, "dtype", "")) == "torch.uint8":  # a mask to PyTorch, integers to NumPy
        raise errors.option("index", item, "a tensor of bool or int64", "Say which with .bool() or .long().")
    if array.size == 0 and not hasattr(item, "dtype"):
        array = array.astype(np.intp)
    if array.dtype == bool:
        return [array] if array.ndim == 0 else _where_true(array)
    if array.dtype.kind not in "iu":
        raise errors.bad_index(item)
    return [int(array)] if array.ndim == 0 else [array.astype(np.intp)]


def _where_true(array: NDArray[np.bool_]) -> list[Any]:
    return [_Sized(indices, length) for indices, length in zip(array.nonzero(), array.shape, strict=True)]


class _Sized(np.ndarray[Any, np.dtype[np.intp]]):
    """Where a boolean array is true along one axis, with the length that this axis must have."""

    length: int

    def __new__(cls, indices: Integers, length: int) -> _Sized:
        sized = indices.view(cls)
        sized.length = length
        return sized


def _is_truth(item: Any) -> bool:
    return isinstance(item, np.ndarray) and item.dtype == bool


def _from_slice(item: slice, count: int) -> tuple[parts.Index, int]:
    try:
        start, stop, step = item.indices(count)
    except (TypeError, ValueError):
        raise errors.bad_index(item) from None
    length = len(range(start, stop, step))
    if step < 0:  # tensors have no negative strides
        return np.arange(start, stop, step), length
    return slice(start, stop if length else start, step), length


def _bounded(item: Any, count: int, axis: int, axes: int) -> Any:
    """Integers counted from the front, all of them there."""
    name = AXES[4 - axes + axis]
    if isinstance(item, _Sized):
        if item.length != count:
            raise errors.bad_index(f"a boolean array of {item.length} for {count} along {name}")
        return np.asarray(item)
    outside = (item < -count) | (item >= count)
    if np.any(outside):
        raise errors.index_out_of_range(name, item if isinstance(item, int) else int(item[outside][0]), count)
    return item + count * (item < 0)

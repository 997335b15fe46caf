"""Interval algebra of masks: for each query, one or two intervals of keys.

An interval is a pair of ends [first, last). An end is a number if all queries share it, else an integer array
(batch or 1, query or 1); `xp` is the library of the arrays, NumPy or PyTorch. Only operators and functions of both
libraries are used, and nothing branches on the content of a tensor, so that PyTorch can trace all of it.

Invariant of two intervals: first <= last <= second first <= second last; the first is empty only if the second is,
and a gap separates them if neither is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = Any  # a NumPy array or a PyTorch tensor
End = Any  # a number, or an integer array (batch or 1, query or 1)
Interval = tuple[End, End]
Index = Any  # a slice, or an integer array


# Ends

FAR = 2**30  # beyond any position; the sum of two fits into int32


def lower(a: End, b: End, xp: Any) -> End:
    """The smaller of two ends."""
    if is_number(a) and is_number(b):
        return min(a, b)
    if xp is np:
        return np.minimum(a, b)
    if is_number(a):  # PyTorch's minimum takes tensors only
        return xp.clip(b, None, a)
    return xp.clip(a, None, b) if is_number(b) else xp.minimum(a, b)


def higher(a: End, b: End, xp: Any) -> End:
    """The larger of two ends."""
    if is_number(a) and is_number(b):
        return max(a, b)
    if xp is np:
        return np.maximum(a, b)
    if is_number(a):
        return xp.clip(b, a, None)
    return xp.clip(a, b, None) if is_number(b) else xp.maximum(a, b)


def is_number(end: End) -> bool:
    """Whether all queries share this end; under torch.compile, numbers and booleans may be symbolic."""
    return isinstance(end, int) or type(end).__name__ in ("SymInt", "SymBool")


# Intersection, union and complement of one or two intervals; None if the result needs more than two


def clipped(first: End, last: End, keys: int, xp: Any) -> Interval:
    """The interval clipped to [0, keys]; empty intervals get equal ends."""
    if not _is_zero(first):
        first = lower(higher(first, 0, xp), keys, xp)
    return first, higher(lower(last, keys, xp), first, xp)


def intersection(a: Sequence[Interval], b: Sequence[Interval], xp: Any) -> tuple[Interval, ...] | None:
    """The keys in both."""
    pieces = [_meet(interval, other, xp) for interval in a for other in b]
    if len(pieces) == 1:
        return (pieces[0],)
    return _ordered(pieces[0], pieces[1], xp) if len(pieces) == 2 else _few(pieces, xp)


def union(a: Sequence[Interval], b: Sequence[Interval], xp: Any) -> tuple[Interval, ...] | None:
    """The keys in either."""
    if len(a) + len(b) > 2:
        return _few([*a, *b], xp)
    (a_first, a_last), (b_first, b_last) = a[0], b[0]
    if _is_zero(a_first) and _is_zero(b_first):
        return ((0, higher(a_last, b_last, xp)),)
    a_before = _is_zero(a_first) or (not _is_zero(b_first) and a_first <= b_first)
    before = _choose(a_before, a_first, b_first, xp), _choose(a_before, a_last, b_last, xp)
    after = _choose(a_before, b_first, a_first, xp), _choose(a_before, b_last, a_last, xp)
    return _ordered(before, after, xp)


def complement(a: Sequence[Interval], keys: int, xp: Any) -> tuple[Interval, ...] | None:
    """The keys in none of them."""
    gaps = []
    start: End = 0
    for first, last in a:
        if not (_is_zero(start) and _is_zero(first)):
            gaps.append((start, first))
        start = last
    gaps.append((start, keys))
    if len(gaps) == 1:
        return (gaps[0],)
    return _ordered(gaps[0], gaps[1], xp) if len(gaps) == 2 else _few(gaps, xp)


def hull(a: Sequence[Interval]) -> Interval:
    """The smallest interval that contains all of them."""
    return a[0][0], a[-1][1]


def _meet(a: Interval, b: Interval, xp: Any) -> Interval:
    first = higher(a[0], b[0], xp)
    return first, higher(lower(a[1], b[1], xp), first, xp)


def _ordered(before: Interval, after: Interval, xp: Any) -> tuple[Interval, ...]:
    """Two intervals in order of their first ends: joined where they touch, an empty one moved last."""
    (first, last), (second_first, second_last) = before, after
    empty = first >= last
    first, last = _choose(empty, second_first, first, xp), _choose(empty, second_last, last, xp)
    joined = (second_first <= last) | (second_first >= second_last)
    last = _choose(joined & (second_first < second_last), higher(last, second_last, xp), last, xp)
    second = _choose(joined, last, second_first, xp), _choose(joined, last, second_last, xp)
    never_two = joined if is_number(joined) else xp is np and joined.all()  # the content of a traced tensor is unknown
    return ((first, last),) if never_two else ((first, last), second)


def _few(pieces: Sequence[Interval], xp: Any) -> tuple[Interval, ...] | None:
    """The union of several intervals if no query needs more than two; None otherwise, and for tensors."""
    if xp is not np:
        return None
    shape = np.broadcast_shapes((1, 1), *(np.shape(end) for piece in pieces for end in piece))
    firsts, lasts = (np.stack([np.broadcast_to(piece[end], shape) for piece in pieces]) for end in (0, 1))
    order = np.argsort(np.where(firsts < lasts, firsts, np.iinfo(np.int32).max), axis=0)  # empty ones last
    firsts, lasts = np.take_along_axis(firsts, order, axis=0), np.take_along_axis(lasts, order, axis=0)
    one_first, one_last = firsts[0], lasts[0]
    two_first = two_last = one_last
    for first, last in zip(firsts[1:], lasts[1:], strict=True):
        some, has_two = first < last, two_first < two_last
        if np.any(some & has_two & (first > two_last)):
            return None
        new = some & ~has_two & (first > one_last)
        one_last = np.where(some & ~has_two & ~new, np.maximum(one_last, last), one_last)
        two_last = np.where(some & has_two, np.maximum(two_last, last), two_last)
        two_first = np.where(new, first, np.where(has_two, two_first, one_last))
        two_last = np.where(new, last, np.where(has_two, two_last, one_last))
    return _ordered((one_first, one_last), (two_first, two_last), xp)


def _is_zero(end: End) -> bool:
    """Whether an end is known to be 0 for all queries."""
    return is_number(end) and end == 0


def _choose(condition: Any, yes: End, no: End, xp: Any) -> End:
    if is_number(condition):
        return yes if condition else no
    return xp.where(condition, yes, no)


# Arrays by rows, sequences and heads


def bounds(index: slice, count: int) -> tuple[int, int, int]:
    """Start, stop and step of a slice of `count` elements.

    >>> bounds(slice(2, None), 5), bounds(slice(-2, None), 5), bounds(slice(-1, 1), 5)
    ((2, 5, 1), (3, 5, 1), (4, 4, 1))
    """
    start, stop, step = index.start or 0, index.stop, index.step
    # `slice.indices` would specialise a traced graph to one `count`.
    if step in (None, 1) and start >= 0 and (stop is None or stop >= 0):
        start = min(start, count)
        return start, count if stop is None else max(min(stop, count), start), 1
    start, stop, step = index.indices(count)
    return start, max(start, stop) if step > 0 else min(start, stop), step


def length(index: Index, count: int) -> int:
    """The number of elements that an index selects out of `count`."""
    if not isinstance(index, slice):
        return len(index)
    start, stop, step = bounds(index, count)
    return stop - start if step == 1 else len(range(start, stop, step))


def indices(index: Index, count: int, xp: Any, device: Any = None) -> Array:
    """A slice or an integer array as non-negative integers."""
    if isinstance(index, slice):
        start, stop, step = bounds(index, count)
        return xp.arange(start, stop, step, **on(device))
    index = xp.asarray(index, **on(device))
    return xp.where(index < 0, index + count, index)


def take_rows(array: Array, rows: Index) -> Array:
    """Some rows of (batch, query), as a view if the slice allows it."""
    if isinstance(rows, slice) and rows.step is not None and rows.step < 0:  # tensors have no negative strides
        start, stop, step = rows.indices(array.shape[1])
        return array[:, list(range(start, stop, step))]
    return array[:, rows]


def take(array: Array, index: Any, axis: int) -> Array:
    """Some elements along an axis, which is kept; an axis of size 1 is left unchanged."""
    if index is None or array.shape[axis] == 1:
        return array
    if not isinstance(index, slice) and not hasattr(index, "__len__"):
        index = slice(index, index + 1 if index != -1 else None)
    return array[(slice(None),) * axis + (index,)]


def on(device: Any) -> dict[str, Any]:
    """The `device` argument of array constructors; empty for the default device."""
    return {} if device is None else {"device": device}

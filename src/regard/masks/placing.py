"""Masks put in their place: combined as intervals for so many queries and keys, and drawn."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from regard import errors
from regard.masks import given, rest
from regard.masks.intervals import (
    FAR,
    Array,
    Interval,
    Rest,
    Visible,
    clipped,
    complement,
    higher,
    hull,
    intersection,
    is_number,
    lower,
    on,
    union,
)


class Keys(NamedTuple):
    """The keys that queries may see, while masks are combined: in an interval, and allowed by the rest."""

    intervals: tuple[Interval, ...] | None  # None: all keys
    rest: Rest | None = None


class Sizes(NamedTuple):
    """What a mask that holds arrays already says about where it can stand."""

    queries: int | None = None
    keys: int | None = None
    batch: int = 1
    heads: int = 1

    def with_(self, other: Sizes) -> Sizes:
        """What both say."""
        return Sizes(
            other.queries if self.queries is None else self.queries,
            other.keys if self.keys is None else self.keys,
            max(self.batch, other.batch),
            max(self.heads, other.heads),
        )


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Place:
    """Where a mask is to hold: how many queries and keys, and where the queries stand."""

    queries: int
    keys: int
    batch: int
    heads: int
    positions: Array  # of the queries, int32 (batch or 1, query); None where no mask asks for them
    xp: Any
    device: Any = None

    def array(self, numbers: Any, dtype: Any = None) -> Array:
        """Numbers of any kind as an array of the library and device in use."""
        if self.xp is np and hasattr(numbers, "detach"):
            numbers = numbers.detach().cpu().numpy()
        return self.xp.asarray(numbers, dtype=dtype, **on(self.device))

    def per_sequence(self, name: str, numbers: Any) -> Any:
        """A number as it is; one for each sequence as (batch, 1)."""
        if is_number(numbers):
            return min(numbers, FAR)
        count = len(numbers)
        if count != 1 and count != self.batch:
            raise errors.not_per_sequence(name, count, self.batch)
        return self.array(self.xp.clip(self.array(numbers), -FAR, FAR), self.xp.int32)[:, None]

    def visible(self, keys: Keys) -> Visible:
        """The intervals as arrays of full size."""
        ends = [] if keys.intervals is None else [end for interval in keys.intervals for end in interval]
        batch = 1
        for end in ends:
            if not is_number(end) and end.shape[0] != 1:
                batch = end.shape[0]
        first, last, second_first, second_last = [self._row(end, batch) for end in ends] + [None] * (4 - len(ends))
        return Visible(
            first,
            last,
            second_first,
            second_last,
            keys.rest,
            queries=self.queries,
            keys=self.keys,
            xp=self.xp,
            device=self.device,
        )

    def _row(self, end: Any, batch: int) -> Array:
        xp = self.xp
        if is_number(end):
            make = xp.zeros if end == 0 else partial(xp.full, fill_value=end)  # `full` takes four times as long
            return make((batch, self.queries), dtype=xp.int32, **on(self.device))
        if end.dtype != xp.int32:
            end = self.array(end, xp.int32)
        if end.shape[0] == batch and end.shape[1] == self.queries:
            return end
        row = xp.broadcast_to(end, (batch, self.queries))
        return np.ascontiguousarray(row) if xp is np else row.contiguous()

    def both(self, a: Keys, b: Keys) -> Keys:
        """What both show: intervals meet in intervals, rests in a rest."""
        rests = _both_rests(a.rest, b.rest)
        if a.intervals is None or b.intervals is None:
            return Keys(b.intervals if a.intervals is None else a.intervals, rests)
        met = intersection(a.intervals, b.intervals, self.xp)
        if met is None:  # too many intervals: those of one stay, the other is evaluated
            return Keys(a.intervals, _both_rests(a.rest, self.visible(b)))
        return Keys(met, rests)

    def either(self, a: Keys, b: Keys) -> Keys:
        """What one of them shows; where intervals can't say it, by tile within the interval that holds both."""
        if a == (None, None) or b == (None, None):
            return Keys(None)
        within: tuple[Interval, ...] | None = None
        if a.intervals is not None and b.intervals is not None:
            joined = union(a.intervals, b.intervals, self.xp) if a.rest is None and b.rest is None else None
            if joined is not None:
                return Keys(joined)
            (a_first, a_last), (b_first, b_last) = hull(a.intervals), hull(b.intervals)
            within = ((lower(a_first, b_first, self.xp), higher(a_last, b_last, self.xp)),)
        return Keys(within, rest.Mixed(operator.or_, (self.visible(a), self.visible(b))))

    def neither(self, a: Keys) -> Keys:
        """What it does not show."""
        if a.rest is None:
            gaps = ((0, 0),) if a.intervals is None else complement(a.intervals, self.keys, self.xp)
            if gaps is not None:
                return Keys(gaps)
        return Keys(None, rest.Mixed(operator.invert, (self.visible(a),)))


def positions(queries: int, batch: int, offset: Any, xp: Any, device: Any = None) -> Array:
    """Where the queries stand: int32 (1, query), or (batch, query) where the offset is one for each sequence."""
    if is_number(offset):
        if xp is np and not -FAR <= offset <= FAR:
            raise errors.bad_offset(offset, batch)
        return xp.arange(offset, offset + queries, dtype=xp.int32, **on(device))[None]
    try:
        numbers = given.plain(given.numbers("offset", offset, lowest=-FAR))
    except errors.OptionError:
        raise errors.bad_offset(offset, batch) from None
    start = Place(queries, 0, batch, 1, None, xp, device).per_sequence("offset", numbers)
    return start + xp.arange(queries, dtype=xp.int32, **on(device))


def same_document(ids: Array, place: Place) -> Keys:
    """Queries and keys with equal ids (batch or 1, position): intervals where each document is in one piece."""
    xp = place.xp
    if ids.shape[0] != 1 and ids.shape[0] != place.batch:
        raise errors.not_per_sequence("ids", ids.shape[0], place.batch)
    tracing = xp is not np and xp.compiler.is_compiling()
    if tracing:
        return Keys(None, _equal_ids(place.array(ids), place))
    known = Place(place.queries, place.keys, place.batch, 1, None, np)
    stand = known.array(place.positions)
    if (stand.size and (stand.min() < 0 or stand.max() >= ids.shape[1])) or place.keys > ids.shape[1]:
        raise errors.ids_too_short(ids, place.keys, stand)
    spans = [_spans(row) for row in known.array(ids)]
    sequence = np.arange(len(spans))[:, None]
    first, last = (place.array(np.stack([span[end] for span in spans])[sequence, stand]) for end in (0, 1))
    interval = clipped(first, last, place.keys, xp)
    in_one_piece = all(span[2] for span in spans)
    return Keys((interval,), None if in_one_piece else _equal_ids(place.array(ids), place))


def _equal_ids(ids: Array, place: Place) -> Rest:
    sequence = place.xp.arange(ids.shape[0], **on(place.device))[:, None]
    return rest.SameDocument(ids[sequence, place.array(place.positions, place.xp.int64)], ids[:, : place.keys])


def _spans(ids: Array) -> tuple[Array, Array, bool]:
    """From where to where each position's document reaches, and whether all documents are in one piece."""
    is_start = np.ones(len(ids), dtype=bool)
    is_start[1:] = ids[1:] != ids[:-1]
    starts = np.flatnonzero(is_start)
    piece = np.cumsum(is_start) - 1  # of each position
    names, opening, document = np.unique(ids[starts], return_index=True, return_inverse=True)
    ends = np.append(starts[1:], len(ids))
    closing = np.zeros(len(names), dtype=np.int64)
    np.maximum.at(closing, document, ends)
    return starts[opening][document][piece], closing[document][piece], len(names) == len(starts)


def drawing(seen: np.ndarray[Any, Any]) -> str:
    """Booleans (batch, query, key) as lines of characters, the sequences side by side."""
    lines = ("  ".join("".join("█" if key else "·" for key in row) for row in rows) for rows in seen.swapaxes(0, 1))
    return "\n".join(lines)


def _both_rests(a: Rest | None, b: Rest | None) -> Rest | None:
    if a is None or b is None:
        return b if a is None else a
    return rest.Mixed(operator.and_, (a, b))

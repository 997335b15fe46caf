"""Masks put in their place: combined as intervals for so many queries and keys, and drawn."""

from __future__ import annotations

import operator
from collections.abc import Sequence
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

    def both(self, parts: Sequence[Keys]) -> Keys:
        """What all of them show: intervals meet in intervals, rests in a rest."""
        intervals: tuple[Interval, ...] | None = None
        rests: list[Rest] = []
        for part in parts:
            met = part.intervals
            if intervals is not None and part.intervals is not None:
                met = intersection(intervals, part.intervals, self.xp)
                if met is None:  # more than two intervals for a query: keep those so far, evaluate this part by tile
                    rests.append(self.visible(part))
                    continue
            intervals = intervals if met is None else met
            rests += [] if part.rest is None else [part.rest]
        return Keys(intervals, rest.joined(operator.and_, rests))

    def either(self, parts: Sequence[Keys]) -> Keys:
        """What at least one shows; where intervals can't say it, by tile within the interval that holds all."""
        groups: list[Keys] = []  # parts that are intervals alone are joined where two intervals hold them
        for part in parts:
            if part == (None, None):
                return Keys(None)
            if groups and part.rest is None is groups[-1].rest and part.intervals and groups[-1].intervals:
                both = union(groups[-1].intervals, part.intervals, self.xp)
                if both is not None:
                    groups[-1] = Keys(both)
                    continue
            groups.append(part)
        if len(groups) == 1:
            return groups[0]
        within: Interval | None = None
        if all(group.intervals is not None for group in groups):
            hulls = [hull(group.intervals) for group in groups if group.intervals is not None]
            within = hulls[0]
            for first, last in hulls[1:]:
                within = lower(within[0], first, self.xp), higher(within[1], last, self.xp)
        seen = rest.joined(operator.or_, [self.visible(group) for group in groups])
        return Keys(None if within is None else (within,), seen)

    def neither(self, a: Keys) -> Keys:
        """What it does not show."""
        if a.rest is None:
            gaps = ((0, 0),) if a.intervals is None else complement(a.intervals, self.keys, self.xp)
            if gaps is not None:
                return Keys(gaps)
        return Keys(None, rest.Inverted(self.visible(a)))


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

"""Evaluated masks: the visible keys of each query as intervals, plus a `Rest` for what intervals cannot express.

`Region` holds the sizes and positions that a mask is evaluated for, and combines masks into `Keys`; `Visible` is the
result that engines take. A `Rest` is evaluated per tile of queries and keys, so that nothing of size query × key is
built.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial, reduce
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np

from regard import errors
from regard.arrays import tracing
from regard.masks import parameters
from regard.masks.intervals import (
    FAR,
    Array,
    Index,
    Interval,
    clipped,
    complement,
    higher,
    hull,
    indices,
    intersection,
    is_number,
    length,
    lower,
    on,
    take,
    take_rows,
    union,
)

ENDS = ("first", "last", "second_first", "second_last")  # of the intervals of a `Visible`


class Rest(Protocol):
    """The part of a mask that intervals cannot express, evaluated per tile."""

    @property
    def dense(self) -> Array | None:
        """Booleans with four axes, each of full size or 1, if the mask was given as an array; None otherwise."""

    def tile(self, rows: Index, columns: Index) -> Array:
        """Booleans (batch or 1, head or 1, row, column) for some queries and keys."""

    def rows(self, rows: slice) -> Rest:
        """The same for some of the queries."""

    def select(self, batch: Any = None, head: Any = None) -> Rest:
        """The same for some of the sequences and heads; axes are kept."""


@dataclass(frozen=True, eq=False, slots=True)
class Visible:
    """The keys that each query may see: those in one of its intervals that the rest also allows.

    Interval ends are int32 (batch or 1, query) within [0, keys]. Small ones are shared and read-only; selections of
    rows and sequences are views where possible.
    """

    first: Array | None = None  # both None: all keys
    last: Array | None = None
    second_first: Array | None = None  # both None: no query has a second interval
    second_last: Array | None = None
    rest: Rest | None = None
    _: KW_ONLY
    queries: int
    keys: int
    xp: Any = np
    device: Any = None

    @classmethod
    def of_dense(cls, seen: Array, xp: Any = np, device: Any = None) -> Visible:
        """A mask that is an array of booleans, (batch or 1, head or 1, query, key)."""
        queries, keys = seen.shape[2:]
        return cls(rest=Dense(seen, queries, keys, xp), queries=queries, keys=keys, xp=xp, device=device)

    @property
    def dense(self) -> Array | None:
        """The mask as an array, if it was given as one and has no intervals."""
        return self.rest.dense if self.first is None and self.rest is not None else None

    def tile(self, rows: Index, columns: Index) -> Array:
        """Booleans (batch or 1, head or 1, row, column); rows and columns are slices or integer arrays."""
        inside = None
        if self.first is not None:
            column = indices(columns, self.keys, self.xp, self.device)
            inside = _within(self.first, self.last, rows, column)
            if self.second_first is not None:
                inside = inside | _within(self.second_first, self.second_last, rows, column)
        if self.rest is None:
            return self._everything(rows, columns) if inside is None else inside
        return self.rest.tile(rows, columns) if inside is None else inside & self.rest.tile(rows, columns)

    def rows(self, rows: slice) -> Visible:
        """The same for some of the queries, without a copy unless the step is negative."""
        ends = {name: take_rows(end, rows) for name, end in self.ends()}
        rest = None if self.rest is None else self.rest.rows(rows)
        return replace(self, **ends, rest=rest, queries=length(rows, self.queries))

    def select(self, batch: Any = None, head: Any = None) -> Visible:
        """The same for some of the sequences and heads, given by an integer, a slice or integers; axes are kept."""
        ends = {name: take(end, batch, 0) for name, end in self.ends()}
        return replace(self, **ends, rest=None if self.rest is None else self.rest.select(batch, head))

    def ends(self) -> list[tuple[str, Array]]:
        """The ends of its intervals, by name."""
        ends = [(name, getattr(self, name)) for name in ENDS]
        return [(name, end) for name, end in ends if end is not None]

    def _everything(self, rows: Index, columns: Index) -> Array:
        row = indices(rows, self.queries, self.xp, self.device)
        column = indices(columns, self.keys, self.xp, self.device)
        return ((row[:, None] == row[:, None]) & (column == column))[None, None]


def _within(first: Array, last: Array, rows: Index, column: Array) -> Array:
    """Booleans (batch or 1, 1, row, column): whether a key lies in the interval of a query."""
    return ((column >= take_rows(first, rows)[..., None]) & (column < take_rows(last, rows)[..., None]))[:, None]


# Kinds of rests


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Dense:
    """A given boolean array, not copied: four axes, each of full size or 1."""

    dense: Array
    queries: int
    keys: int
    xp: Any

    def tile(self, rows: Index, columns: Index) -> Array:
        return _along(_along(self.dense, rows, 2, self.queries, self.xp), columns, 3, self.keys, self.xp)

    def rows(self, rows: slice) -> Dense:
        some = self.dense if self.dense.shape[2] == 1 else _along(self.dense, rows, 2, self.queries, self.xp)
        return replace(self, dense=some, queries=length(rows, self.queries))

    def select(self, batch: Any = None, head: Any = None) -> Dense:
        return replace(self, dense=take(take(self.dense, batch, 0), head, 1))


class _Computed:
    """A rest that is computed per tile, from arrays by query (their axis 1), by sequence and by head (their axis 0)."""

    __slots__ = ()
    by_query: ClassVar[tuple[str, ...]] = ()
    by_sequence: ClassVar[tuple[str, ...]] = ()
    by_head: ClassVar[tuple[str, ...]] = ()

    @property
    def dense(self) -> None:
        return None

    def rows(self, rows: slice) -> Self:
        return replace(self, **{name: take_rows(getattr(self, name), rows) for name in self.by_query})  # type: ignore[type-var]

    def select(self, batch: Any = None, head: Any = None) -> Self:
        some = {name: take(getattr(self, name), batch, 0) for name in self.by_sequence}
        some |= {name: take(getattr(self, name), head, 0) for name in self.by_head}
        return replace(self, **some)  # type: ignore[type-var]


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class SameDocument(_Computed):
    """Equal document ids of queries (batch or 1, query) and keys (batch or 1, key)."""

    query_ids: Array
    key_ids: Array
    by_query = ("query_ids",)
    by_sequence = ("query_ids", "key_ids")

    def tile(self, rows: Index, columns: Index) -> Array:
        return (take_rows(self.query_ids, rows)[:, :, None] == take_rows(self.key_ids, columns)[:, None, :])[:, None]


@dataclass(frozen=True, eq=False, repr=False, slots=True, kw_only=True)
class _Positioned(_Computed):
    """A rest that is evaluated from the positions of queries and keys."""

    positions: Array  # of the queries, int64 (batch or 1, query)
    batch: Array  # indices of the sequences
    heads: Array  # indices of the heads
    keys: int
    xp: Any
    device: Any = None
    by_query = ("positions",)
    by_sequence = ("positions", "batch")
    by_head = ("heads",)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class FromPositions(_Positioned):
    """A function of positions, called per tile."""

    function: Callable[..., Any]
    arguments: int  # 2: query and key; 4: batch, head, query and key

    def tile(self, rows: Index, columns: Index) -> Array:
        query = take_rows(self.positions, rows)  # (batch or 1, row)
        key = indices(columns, self.keys, self.xp, self.device)  # (column,)
        shape = (query.shape[0], 1, query.shape[1], key.shape[0])
        arguments: tuple[Array, ...]
        if self.arguments == 4:
            arguments = (
                self.batch[:, None, None, None],
                self.heads[:, None, None],
                query[:, None, :, None],
                key[None, None, None],
            )
        elif query.shape[0] == 1:
            arguments = (query[0][:, None], key[None])
        else:
            arguments = (query[:, None, :, None], key[None])
        try:
            result = self.function(*arguments)
        except Exception as problem:
            if isinstance(problem, errors.RegardError) or tracing():
                raise
            shapes = ", ".join(str(tuple(argument.shape)) for argument in arguments)
            raise errors.OptionError(
                f"The function of `where` raised {type(problem).__name__}: {problem}\nIt is called with arrays of "
                f"positions, here of shapes {shapes}: compare them, and combine with `&` and `|`."
            ) from problem
        result = self.xp.asarray(result, **on(self.device))
        if not str(result.dtype).endswith("bool"):
            raise errors.OptionError(
                f"The function of `where` gave type {errors.type_name(result.dtype)}; expected booleans.\n"
                "Compare, as in `key <= query`, and combine with `&` and `|`."
            )
        largest = (len(self.batch), len(self.heads), *shape[2:])
        came = tuple(result.shape)
        full = (1,) * (4 - len(came)) + came
        if len(full) > 4 or any(size != 1 and size != most for size, most in zip(full, largest, strict=False)):
            shapes = ", ".join(str(tuple(argument.shape)) for argument in arguments)
            raise errors.OptionError(
                f"The function of `where` returned shape {came} for positions of shapes {shapes}.\n"
                "Return one boolean per query and key, as comparing the two arrays does."
            )
        return self.xp.broadcast_to(result, self.xp.broadcast_shapes(came, shape))


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class SparsePairs(_Positioned):
    """Listed pairs of query and key."""

    pairs: tuple[Any, Any, Any, Any]  # NumPy integers of one length: sequence, head, query, key; None: all

    def tile(self, rows: Index, columns: Index) -> Array:
        sequences, heads, queries, keys = self.pairs
        batch, head, position = (_in_numpy(numbers) for numbers in (self.batch, self.heads, self.positions))
        position = np.broadcast_to(take_rows(position, rows), (len(batch), length(rows, position.shape[1])))
        column = indices(columns, self.keys, np, None)
        shape = (len(batch) if sequences is not None or len(self.positions) > 1 else 1,
                 1 if heads is None else len(head), position.shape[1], len(column))  # fmt: skip
        seen = np.zeros(shape, bool)
        to_column, in_columns = _places_of(keys, column)
        to_head, in_heads = (None, True) if heads is None else _places_of(heads, head)
        for at in range(shape[0]):
            to_row, chosen = _places_of(queries, position[at])
            chosen = chosen & in_columns & in_heads
            if sequences is not None:
                chosen = chosen & (sequences == batch[at])
            of_heads = slice(None) if to_head is None else to_head[chosen]
            seen[at, of_heads, to_row[chosen], to_column[chosen]] = True
        return seen if self.xp is np else self.xp.asarray(seen, **on(self.device))


def _in_numpy(array: Array) -> Any:
    return array.detach().cpu().numpy() if hasattr(array, "detach") else array


def _places_of(numbers: Any, among: Any) -> tuple[Any, Any]:
    """Where each number is among others, and whether it is."""
    if not len(among):
        return np.zeros(len(numbers), np.int64), np.zeros(len(numbers), bool)
    order = np.argsort(among, kind="stable")
    position = order[np.minimum(np.searchsorted(among, numbers, sorter=order), len(among) - 1)]
    return position, among[position] == numbers


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Joined:
    """Rests combined by `&` or `|`, or one rest inverted, one tile at a time."""

    join: Callable[..., Array]  # and_, or_ or invert
    parts: tuple[Rest, ...]
    dense: None = None

    def tile(self, rows: Index, columns: Index) -> Array:
        tiles = (part.tile(rows, columns) for part in self.parts)
        return ~next(tiles) if self.join is operator.invert else reduce(self.join, tiles)

    def rows(self, rows: slice) -> Joined:
        return Joined(self.join, tuple(part.rows(rows) for part in self.parts))

    def select(self, batch: Any = None, head: Any = None) -> Joined:
        return Joined(self.join, tuple(part.select(batch, head) for part in self.parts))


def joined(join: Callable[..., Array], rests: Sequence[Rest]) -> Rest | None:
    """Several rests combined; None if there is none."""
    return Joined(join, tuple(rests)) if len(rests) > 1 else rests[0] if rests else None


def _along(array: Array, index: Index, axis: int, count: int, xp: Any) -> Array:
    """Some elements along an axis; an axis of size 1 is broadcast without a copy."""
    if array.shape[axis] == 1:
        return xp.broadcast_to(array, (*array.shape[:axis], length(index, count), *array.shape[axis + 1 :]))
    if isinstance(index, slice) and index.step is not None and index.step < 0:  # tensors have no negative strides
        index = list(range(*index.indices(array.shape[axis])))
    return array[(slice(None),) * axis + (index,)]


# Evaluation and combination


class Keys(NamedTuple):
    """Visible keys while masks are combined: those in an interval that the rest also allows."""

    intervals: tuple[Interval, ...] | None  # None: all keys
    rest: Rest | None = None


class ImpliedSizes(NamedTuple):
    """The sizes that the arrays of a mask imply."""

    queries: int | None = None
    keys: int | None = None
    batch: int = 1
    heads: int = 1

    def with_(self, other: ImpliedSizes) -> ImpliedSizes:
        """The sizes that both imply."""
        return ImpliedSizes(
            other.queries if self.queries is None else self.queries,
            other.keys if self.keys is None else self.keys,
            max(self.batch, other.batch),
            max(self.heads, other.heads),
        )


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Region:
    """What a mask is evaluated for: the numbers of queries and keys, and the query positions."""

    queries: int
    keys: int
    batch: int
    heads: int
    positions: Array  # of the queries, int32 (batch or 1, query); None if no mask depends on them
    xp: Any
    device: Any = None

    def array(self, numbers: Any, dtype: Any = None) -> Array:
        """As an array of the library and device in use."""
        if self.xp is np and hasattr(numbers, "detach"):
            numbers = numbers.detach().cpu().numpy()
        return self.xp.asarray(numbers, dtype=dtype, **on(self.device))

    def per_sequence(self, name: str, numbers: Any) -> Any:
        """One integer unchanged; one per sequence as (batch, 1)."""
        if is_number(numbers):
            return min(numbers, FAR)
        count = len(numbers)
        if count != 1 and count != self.batch:
            raise _not_per_sequence(name, count, self.batch)
        return self.array(self.xp.clip(self.array(numbers), -FAR, FAR), self.xp.int32)[:, None]

    def visible(self, keys: Keys) -> Visible:
        """The `Visible` of these keys, with intervals as arrays of full size."""
        ends = [] if keys.intervals is None else [end for interval in keys.intervals for end in interval]
        batch = 1
        for end in ends:
            if not is_number(end) and end.shape[0] != 1:
                batch = end.shape[0]
        rows = dict(zip(ENDS, [self._row(end, batch) for end in ends], strict=False))
        return Visible(**rows, rest=keys.rest, queries=self.queries, keys=self.keys, xp=self.xp, device=self.device)

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
        """The intersection: intervals intersect in intervals, rests are combined."""
        intervals: tuple[Interval, ...] | None = None
        rests: list[Rest] = []
        for part in parts:
            met = part.intervals
            if intervals is not None and part.intervals is not None:
                met = intersection(intervals, part.intervals, self.xp)
                if met is None:  # more than two intervals per query: evaluate this part per tile
                    rests.append(self.visible(part))
                    continue
            intervals = intervals if met is None else met
            rests += [] if part.rest is None else [part.rest]
        return Keys(intervals, joined(operator.and_, rests))

    def either(self, parts: Sequence[Keys]) -> Keys:
        """The union; what intervals cannot express is evaluated per tile, within the hull of all intervals."""
        groups: list[Keys] = []  # neighbouring parts without a rest are merged while two intervals suffice
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
        seen = joined(operator.or_, [self.visible(group) for group in groups])
        return Keys(None if within is None else (within,), seen)

    def neither(self, a: Keys) -> Keys:
        """The complement."""
        if a.rest is None:
            gaps = ((0, 0),) if a.intervals is None else complement(a.intervals, self.keys, self.xp)
            if gaps is not None:
                return Keys(gaps)
        return Keys(None, Joined(operator.invert, (self.visible(a),)))


def positions(queries: int, batch: int, offset: Any, xp: Any, device: Any = None) -> Array:
    """Query positions, int32: (1, query), or (batch, query) if the offset is given per sequence."""
    if is_number(offset):
        if xp is np and not -FAR <= offset <= FAR:
            raise errors.bad_offset(offset, batch)
        return xp.arange(offset, offset + queries, dtype=xp.int32, **on(device))[None]
    try:
        numbers = parameters.plain(parameters.numbers("offset", offset, lowest=-FAR))
    except errors.OptionError:
        raise errors.bad_offset(offset, batch) from None
    start = Region(queries, 0, batch, 1, None, xp, device).per_sequence("offset", numbers)
    return start + xp.arange(queries, dtype=xp.int32, **on(device))


def same_document(ids: Array, place: Region) -> Keys:
    """Keys with the id of the query, ids (batch or 1, position): intervals if every document is contiguous."""
    xp = place.xp
    if ids.shape[0] != 1 and ids.shape[0] != place.batch:
        raise _not_per_sequence("ids", ids.shape[0], place.batch)
    if xp is not np and tracing():  # the content of a traced tensor is unknown
        return Keys(None, _equal_ids(place.array(ids), place))
    region = Region(place.queries, place.keys, place.batch, 1, None, np)
    stand = region.array(place.positions)
    if (stand.size and (stand.min() < 0 or stand.max() >= ids.shape[1])) or place.keys > ids.shape[1]:
        lowest, highest = (int(stand.min()), int(stand.max())) if stand.size else (0, -1)
        raise errors.OptionError(
            f"`ids` name the documents of {errors.count(ids.shape[-1], 'position')}; "
            f"expected those of {errors.count(place.keys, 'key')} and of queries at positions {lowest} to {highest}.\n"
            "Give the id of every position, past ones included, and check `offset`."
        )
    spans = [_spans(row) for row in region.array(ids)]
    sequence = np.arange(len(spans))[:, None]
    first, last = (place.array(np.stack([span[end] for span in spans])[sequence, stand]) for end in (0, 1))
    interval = clipped(first, last, place.keys, xp)
    in_one_piece = all(span[2] for span in spans)
    return Keys((interval,), None if in_one_piece else _equal_ids(place.array(ids), place))


def _equal_ids(ids: Array, place: Region) -> Rest:
    sequence = place.xp.arange(ids.shape[0], **on(place.device))[:, None]
    return SameDocument(ids[sequence, place.array(place.positions, place.xp.int64)], ids[:, : place.keys])


def _spans(ids: Array) -> tuple[Array, Array, bool]:
    """First and last position of each position's document, and whether all documents are contiguous."""
    is_start = np.ones(len(ids), dtype=bool)
    is_start[1:] = ids[1:] != ids[:-1]
    starts = np.flatnonzero(is_start)
    piece = np.cumsum(is_start) - 1  # contiguous piece of each position
    names, opening, document = np.unique(ids[starts], return_index=True, return_inverse=True)
    ends = np.append(starts[1:], len(ids))
    closing = np.zeros(len(names), dtype=np.int64)
    np.maximum.at(closing, document, ends)
    return starts[opening][document][piece], closing[document][piece], len(names) == len(starts)


def drawing(seen: np.ndarray[Any, Any]) -> str:
    """Booleans (batch, query, key) as lines of characters, sequences side by side."""
    lines = ("  ".join("".join("█" if key else "·" for key in row) for row in rows) for rows in seen.swapaxes(0, 1))
    return "\n".join(lines)


def _not_per_sequence(name: str, came: int, batch: int) -> errors.OptionError:
    return errors.OptionError(
        f"`{name}` are for {errors.count(came, 'sequence')}, the batch holds {batch}.\n"
        "Give one per sequence, or one for all."
    )

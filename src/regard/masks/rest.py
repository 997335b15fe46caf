"""What intervals cannot say: booleans given as an array, a function of positions, scattered documents, and their mixes.

Each kind answers for any tile of queries and keys, so that nothing of size query × key is ever built.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from regard import errors
from regard.arrays import tracing
from regard.masks.intervals import Array, Index, Rest, indices, length, on, take, take_rows


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Dense:
    """Booleans as they were given, not copied: four axes, each of full size or 1."""

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


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class SameDocument:
    """Equal ids: the documents of the queries (batch or 1, query) and of the keys (batch or 1, key)."""

    query_ids: Array
    key_ids: Array
    dense: None = None

    def tile(self, rows: Index, columns: Index) -> Array:
        return (take_rows(self.query_ids, rows)[:, :, None] == take_rows(self.key_ids, columns)[:, None, :])[:, None]

    def rows(self, rows: slice) -> SameDocument:
        return replace(self, query_ids=take_rows(self.query_ids, rows))

    def select(self, batch: Any = None, head: Any = None) -> SameDocument:
        return replace(self, query_ids=take(self.query_ids, batch, 0), key_ids=take(self.key_ids, batch, 0))


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class FromPositions:
    """A function of positions, called for the tile that is looked at."""

    function: Callable[..., Any]
    arguments: int  # 2: query and key; 4: batch, head, query and key
    positions: Array  # of the queries, int64 (batch or 1, query)
    batch: Array  # numbers of the sequences
    heads: Array  # numbers of the heads
    keys: int
    xp: Any
    device: Any = None
    dense: None = None

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
            found = self.function(*arguments)
        except Exception as problem:
            if isinstance(problem, errors.RegardError) or tracing():
                raise
            given = ", ".join(str(tuple(argument.shape)) for argument in arguments)
            raise errors.OptionError(
                f"The function of `where` raised {type(problem).__name__}: {problem}\nIt is called with whole arrays "
                f"of positions, here of shapes {given}: compare, and combine with `&` and `|`."
            ) from problem
        found = self.xp.asarray(found, **on(self.device))
        if not str(found.dtype).endswith("bool"):
            raise errors.mask_function_result(found.dtype)
        largest = (len(self.batch), len(self.heads), *shape[2:])
        came = tuple(found.shape)
        full = (1,) * (4 - len(came)) + came
        if len(full) > 4 or any(size != 1 and size != most for size, most in zip(full, largest, strict=False)):
            given = ", ".join(str(tuple(argument.shape)) for argument in arguments)
            raise errors.OptionError(
                f"The function of `where` gave booleans of shape {came} for positions of shapes {given}.\n"
                "Give one for each query and key: comparing the two arrays it gets does so."
            )
        return self.xp.broadcast_to(found, self.xp.broadcast_shapes(came, shape))

    def rows(self, rows: slice) -> FromPositions:
        return replace(self, positions=take_rows(self.positions, rows))

    def select(self, batch: Any = None, head: Any = None) -> FromPositions:
        return replace(
            self,
            positions=take(self.positions, batch, 0),
            batch=take(self.batch, batch, 0),
            heads=take(self.heads, head, 0),
        )


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Joined:
    """Parts that are evaluated each for itself, then joined by `&` or `|`."""

    join: Callable[[Array, Array], Array]
    parts: tuple[Rest, ...]
    dense: None = None

    def tile(self, rows: Index, columns: Index) -> Array:
        found = self.parts[0].tile(rows, columns)
        for part in self.parts[1:]:
            found = self.join(found, part.tile(rows, columns))
        return found

    def rows(self, rows: slice) -> Joined:
        return Joined(self.join, tuple(part.rows(rows) for part in self.parts))

    def select(self, batch: Any = None, head: Any = None) -> Joined:
        return Joined(self.join, tuple(part.select(batch, head) for part in self.parts))


def joined(join: Callable[[Array, Array], Array], rests: Sequence[Rest]) -> Rest | None:
    """Several rests as one; None where there is none."""
    return Joined(join, tuple(rests)) if len(rests) > 1 else rests[0] if rests else None


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Inverted:
    """What a part does not show."""

    part: Rest
    dense: None = None

    def tile(self, rows: Index, columns: Index) -> Array:
        return ~self.part.tile(rows, columns)

    def rows(self, rows: slice) -> Inverted:
        return Inverted(self.part.rows(rows))

    def select(self, batch: Any = None, head: Any = None) -> Inverted:
        return Inverted(self.part.select(batch, head))


def _along(array: Array, index: Index, axis: int, count: int, xp: Any) -> Array:
    """Some of an axis, repeated without a copy where its size is 1."""
    if array.shape[axis] == 1:
        return xp.broadcast_to(array, (*array.shape[:axis], length(index, count), *array.shape[axis + 1 :]))
    if isinstance(index, slice) and index.step is not None and index.step < 0:  # tensors have no negative strides
        index = list(range(*index.indices(array.shape[axis])))
    return array[(slice(None),) * axis + (index,)]

"""The kinds of masks: for each, the public function and its dataclass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard import errors, validate
from regard.masks.intervals import FAR, clipped, higher
from regard.masks.mask import Mask
from regard.masks.parameters import Given, Numbers, document_ids, numbers, packed_ids, parameters, plain, sequences
from regard.masks.visible import Dense, FromPositions, ImpliedSizes, Keys, Region, SparsePairs, same_document


def causal() -> Mask:
    """Keys up to the query's own position.

    >>> print(causal().draw(4, 4))
    █···
    ██··
    ███·
    ████
    """
    return _CAUSAL


@dataclass(frozen=True, repr=False)
class Causal(Mask):
    """The key interval [0, i + 1)."""

    expression = "causal()"

    def _keys(self, place: Region) -> Keys:
        return Keys((clipped(0, place.positions + 1, place.keys, place.xp),))


_CAUSAL = Causal()  # one for all: the cache of evaluated masks finds it by identity


def window(left: int, right: int | None = None) -> Mask:
    """Keys at most `left` positions before the query and `right` after it; `right` defaults to `left`.

    >>> print(window(1).draw(5, 5))
    ██···
    ███··
    ·███·
    ··███
    ···██
    >>> print(window(2, 0).draw(5, 5))
    █····
    ██···
    ███··
    ·███·
    ··███
    """
    return Window(left, left if right is None else right)


@dataclass(frozen=True, repr=False)
class Window(Mask):
    """The key interval [i - left, i + right + 1)."""

    left: int
    right: int

    def __post_init__(self) -> None:
        for name in ("left", "right"):
            object.__setattr__(self, name, validate.integer(name, getattr(self, name), 0))

    @property
    def expression(self) -> str:
        return f"window({self.left})" if self.left == self.right else f"window({self.left}, {self.right})"

    def _keys(self, place: Region) -> Keys:
        from_key, to_key = place.positions - min(self.left, FAR), place.positions + (min(self.right, FAR) + 1)
        return Keys((clipped(from_key, to_key, place.keys, place.xp),))


def padding(counts: Any, side: str = "right") -> Mask:
    """Padding: the first `counts` keys of each sequence are real; with `side="left"`, the last ones.

    `counts` is one integer, or one per sequence.

    >>> print(padding([2, 4]).draw(3, 5))
    ██···  ████·
    ██···  ████·
    ██···  ████·
    >>> print(padding([2, 4], side="left").draw(3, 5))
    ···██  ·████
    ···██  ·████
    ···██  ·████
    """
    return Lengths(counts, side)


@dataclass(frozen=True, repr=False)
class Lengths(Mask):
    """The first or last keys of each sequence."""

    counts: Numbers
    side: str
    needs_position = False

    def __post_init__(self) -> None:
        validate.choice("side", self.side, ("right", "left"))
        object.__setattr__(self, "counts", numbers("counts", self.counts))

    @property
    def expression(self) -> str:
        side = "" if self.side == "right" else f", side={self.side!r}"
        return f"padding({self.counts}{side})"

    @property
    def _only_numbers(self) -> bool:
        return isinstance(self.counts, int)

    @property
    def _sizes(self) -> ImpliedSizes:
        return ImpliedSizes(batch=sequences(self.counts))

    def _keys(self, place: Region) -> Keys:
        real = place.per_sequence("counts", plain(self.counts))
        first, last = (0, real) if self.side == "right" else (place.keys - real, place.keys)
        return Keys((clipped(first, last, place.keys, place.xp),))


def prefix(n: Any, start: Any = 0) -> Mask:
    """Prefix-LM: every query sees keys `start` to `start + n`, and all keys up to its own position.

    With padding on the left, `start` is the first real key. Both are one integer, or one per sequence.

    >>> print(prefix(3).draw(5, 5))
    ███··
    ███··
    ███··
    ████·
    █████
    >>> print(prefix(2, start=1).draw(5, 5))
    ·██··
    ·██··
    ·██··
    ·███·
    ·████
    """
    return Prefix(n, start)


@dataclass(frozen=True, repr=False)
class Prefix(Mask):
    """The key interval [start, max(start + n, i + 1))."""

    n: Numbers
    start: Numbers

    def __post_init__(self) -> None:
        for name in ("n", "start"):
            object.__setattr__(self, name, numbers(name, getattr(self, name)))

    @property
    def expression(self) -> str:
        return f"prefix({self.n})" if self.start == 0 else f"prefix({self.n}, start={self.start})"

    @property
    def _only_numbers(self) -> bool:
        return isinstance(self.n, int) and isinstance(self.start, int)

    @property
    def _sizes(self) -> ImpliedSizes:
        return ImpliedSizes(batch=max(sequences(self.n), sequences(self.start)))

    def _keys(self, place: Region) -> Keys:
        n, start = place.per_sequence("n", plain(self.n)), place.per_sequence("start", plain(self.start))
        return Keys((clipped(start, higher(start + n, place.positions + 1, place.xp), place.keys, place.xp),))


def documents(ids: Any = None, *, lengths: Any = None, offsets: Any = None) -> Mask:
    """Packed sequences: a query sees the keys of its own document. Give one of

    ids      the document of each position, (position,) or (batch, position), integers or names
    lengths  the number of positions of each document, one after the other
    offsets  where each document begins, and where the last ends: the cumulative lengths that varlen kernels take

    Contiguous documents are intervals: keys of other documents are not computed; others are evaluated per tile.

    >>> print(documents([0, 0, 1, 1, 1]).draw())
    ██···
    ██···
    ··███
    ··███
    ··███
    >>> documents(lengths=[2, 3]).expression, documents(offsets=[0, 2, 5]).expression
    ('documents([0, 0, 1, 1, 1])', 'documents([0, 0, 1, 1, 1])')
    """
    return Documents(Given(document_ids(ids) if lengths is None is offsets else packed_ids(ids, lengths, offsets)))


@dataclass(frozen=True, repr=False)
class Documents(Mask):
    """Keys with the id of the query."""

    ids: Given
    _only_numbers = False

    @property
    def expression(self) -> str:
        return f"documents({self.ids})"

    @property
    def _sizes(self) -> ImpliedSizes:
        shape = self.ids.array.shape
        return ImpliedSizes(shape[-1], shape[-1], 1 if len(shape) == 1 else shape[0])

    def _keys(self, place: Region) -> Keys:
        ids = self.ids.array if len(self.ids.array.shape) == 2 else self.ids.array[None]
        return same_document(ids, place)


def chunks(n: int) -> Mask:
    """Chunked attention: a query sees the keys of its own chunk of `n` positions.

    >>> print(chunks(2).draw(5, 5))
    ██···
    ██···
    ··██·
    ··██·
    ····█
    """
    return Chunks(n)


@dataclass(frozen=True, repr=False)
class Chunks(Mask):
    """Keys between two multiples of n."""

    n: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", validate.integer("n", self.n, 1))

    @property
    def expression(self) -> str:
        return f"chunks({self.n})"

    def _keys(self, place: Region) -> Keys:
        n = min(self.n, FAR)
        start = place.positions - place.positions % n
        return Keys((clipped(start, start + n, place.keys, place.xp),))


def first(n: int) -> Mask:
    """The first `n` keys for every query: attention sinks, combined with a window.

    >>> print((causal() & (first(1) | window(2))).draw(6, 6))
    █·····
    ██····
    ███···
    ████··
    █·███·
    █··███
    """
    return First(n)


@dataclass(frozen=True, repr=False)
class First(Mask):
    """The key interval [0, n)."""

    n: int
    needs_position = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", validate.integer("n", self.n, 0))

    @property
    def expression(self) -> str:
        return f"first({self.n})"

    def _keys(self, place: Region) -> Keys:
        return Keys(((0, min(self.n, place.keys)),))


def allowed(array: Any) -> Mask:
    """A boolean array, True where a query may see a key; each axis has full size or 1. It is not copied.

    The axes are (query, key), (head, query, key) or (batch, head, query, key).

    >>> print(allowed(np.eye(3, dtype=bool)).draw())
    █··
    ·█·
    ··█
    """
    array = array if hasattr(array, "shape") else np.asarray(array)
    if not str(array.dtype).endswith("bool"):
        raise errors.OptionError(
            f"`allowed` got an array of type {errors.type_name(array.dtype)}; expected booleans, "
            "True where a query may see a key.\n"
            "For ones and zeros write array != 0; numbers to add to the scores (0 and -inf) are a bias: bias=array."
        )
    if not 2 <= len(array.shape) <= 4:
        raise errors.OptionError(
            f"`allowed` got shape {tuple(array.shape)}; expected (query, key), with head and batch in front "
            "where there are any.\nA padding mask (batch, key) is mask[:, None, None, :]."
        )
    return Allowed(Given(array))


@dataclass(frozen=True, repr=False)
class Allowed(Mask):
    """The keys that an array allows."""

    array: Given
    needs_position = False
    _only_numbers = False

    @property
    def expression(self) -> str:
        return f"allowed({self.array})"

    @property
    def _sizes(self) -> ImpliedSizes:
        batch, heads, queries, keys = (1,) * (4 - len(self.array.array.shape)) + tuple(self.array.array.shape)
        return ImpliedSizes(None if queries == 1 else queries, None if keys == 1 else keys, batch, heads)

    def _keys(self, place: Region) -> Keys:
        array = self.array.array
        dense = place.array(array)[(None,) * (4 - len(array.shape))]
        full = (place.batch, place.heads, place.queries, place.keys)
        if any(size != 1 and size != whole for size, whole in zip(dense.shape, full, strict=True)):
            came = f"`mask` of shape {tuple(array.shape)} does not fit attention of shape {full}."
            fix = "Each axis has full size or 1; a padding mask (batch, key) is mask[:, None, None, :]."
            raise errors.OptionError(errors.with_shapes(came, fix, mask=array, attention=full))
        # An axis of stride 0 (from `broadcast_to` or `expand`) becomes one of size 1, so that no engine copies it.
        strides = dense.strides if place.xp is np else dense.stride()
        dense = dense[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in strides)]
        return Keys(None, Dense(dense, place.queries, place.keys, place.xp))


def where(function: Callable[..., Any]) -> Mask:
    """A function of positions that returns booleans, evaluated per tile.

    It gets integer arrays of query and key positions that broadcast against each other; with four parameters, batch
    and head indices before them.

    >>> print(where(lambda query, key: (query - key) % 3 == 0).draw(5, 5))
    █··█·
    ·█··█
    ··█··
    █··█·
    ·█··█
    """
    return Where(function, parameters(function))


@dataclass(frozen=True, repr=False)
class Where(Mask):
    """The keys for which a function of positions is true."""

    function: Callable[..., Any]
    parameters: int
    _only_numbers = False

    @property
    def expression(self) -> str:
        return f"where({getattr(self.function, '__name__', 'function').strip('<>')})"

    def _keys(self, place: Region) -> Keys:
        xp = place.xp
        batch, heads = (place.array(xp.arange(count)) for count in (place.batch, place.heads))
        query_positions = place.array(place.positions, xp.int64)  # the product of two positions fits
        where = {"positions": query_positions, "batch": batch, "heads": heads, "keys": place.keys}
        return Keys(None, FromPositions(self.function, self.parameters, **where, xp=xp, device=place.device))


@dataclass(frozen=True, eq=False, repr=False)
class Edges(Mask):
    """Single pairs of query and key; `~Edges(…)` hides them. All arrays are integers of one length."""

    queries: Any  # positions
    keys: Any
    sequences: Any = None  # of the batch; None: all
    heads: Any = None  # None: all
    _only_numbers = False

    @property
    def expression(self) -> str:
        return f"edges({len(self.queries):,} pairs)"

    def _keys(self, place: Region) -> Keys:
        batch, heads = (place.array(place.xp.arange(count)) for count in (place.batch, place.heads))
        pairs = self.sequences, self.heads, self.queries, self.keys
        where = {"positions": place.positions, "batch": batch, "heads": heads, "keys": place.keys}
        return Keys(None, SparsePairs(pairs, **where, xp=place.xp, device=place.device))

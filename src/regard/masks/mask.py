"""`Mask`, the base class: combining with `&`, `|` and `~`, evaluation, drawing. The kinds are in `kinds`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from regard import errors
from regard.arrays import Array, is_tensor
from regard.masks.intervals import Index, take
from regard.masks.visible import ImpliedSizes, Keys, Region, Visible, drawing, positions

DEEPEST = 100  # levels of `(a & b | c) & d | …`, one per change of operator; evaluating a level recurses four calls
_CACHED_QUERIES = 4096  # at most 16 bytes per query and 64 masks: 4 MiB


class Mask:
    """For each query, the keys it may see. Masks are values: combine them with `&`, `|` and `~`.

    >>> from regard.masks import causal, window
    >>> mask = causal() & ~window(1)
    >>> print(mask.draw(4, 4))
    ····
    ····
    █···
    ██··
    """

    __slots__ = ()
    __array_ufunc__ = None  # makes NumPy call Mask.__rand__ for `array & mask`, which explains how to write it
    _only_numbers: Any = True  # whether the mask consists of numbers only, so that it can be cached by value

    @property
    def needs_position(self) -> bool:
        """Whether the mask depends on the positions of the queries.

        >>> from regard.masks import causal, padding
        >>> causal().needs_position, padding([3]).needs_position
        (True, False)
        """
        return True

    @property
    def expression(self) -> str:
        """The expression that constructs this mask.

        >>> from regard.masks import causal, window
        >>> (causal() & window(2)).expression
        'causal() & window(2)'
        """
        raise NotImplementedError

    def visible(
        self,
        *,
        queries: int,
        keys: int,
        batch: int = 1,
        heads: int = 1,
        offset: Any = 0,
        xp: Any = np,
        device: Any = None,
    ) -> Visible:
        """The mask evaluated for these numbers of queries and keys, in O(queries) memory per distinct sequence.

        `offset` is the position of the first query: one integer, or one per sequence.

        >>> from regard.masks import causal
        >>> causal().visible(queries=2, keys=5, offset=3).last
        array([[4, 5]], dtype=int32)
        """
        if xp is np and queries <= _CACHED_QUERIES and type(offset) is int and self._only_numbers:
            return _cached(self, queries, keys, offset)
        return _placed(self, queries, keys, batch, heads, offset, xp, device)

    def draw(self, queries: int | None = None, keys: int | None = None, *, offset: Any = 0) -> str:
        """A drawing: one line per query, one character per key, █ where it is visible; sequences side by side.

        >>> from regard.masks import causal
        >>> print(causal().draw(2, 5, offset=3))
        ████·
        █████
        """
        sizes = self._sizes
        queries = (sizes.queries or 8) if queries is None else queries
        keys = (sizes.keys or 8) if keys is None else keys
        seen = self.visible(queries=queries, keys=keys, batch=sizes.batch, heads=sizes.heads, offset=offset)
        return drawing(seen.tile(slice(0, 32), slice(0, 64))[:4, 0])

    def __and__(self, other: Mask) -> Mask:
        return Both.of(self, other)

    def __or__(self, other: Mask) -> Mask:
        return Either.of(self, other)

    def __rand__(self, other: Any) -> Mask:
        return Both.of(other, self)

    def __ror__(self, other: Any) -> Mask:
        return Either.of(other, self)

    def __invert__(self) -> Mask:
        return _not_too_deep(Inverse(self))

    def __bool__(self) -> bool:
        raise errors.TypeProblem(
            "A mask is neither true nor false.\nCombine masks with `&`, `|`, `~`, not `and`, `or`, `not`."
        )

    def __repr__(self) -> str:
        try:
            return f"{self.expression}\n{self.draw()}"
        except Exception:  # noqa: BLE001 - a function may reject the sizes drawn, and repr must not raise
            return self.expression

    @property
    def _depth(self) -> int:
        """The nesting depth."""
        return 1

    @property
    def _sizes(self) -> ImpliedSizes:
        return ImpliedSizes()

    def _keys(self, place: Region) -> Keys:
        raise NotImplementedError


class Combined(Mask):
    """Several masks combined by one operator; `a & b & c` is one `Both` of three, so that long chains do not nest."""

    __slots__ = ()
    masks: tuple[Mask, ...]

    @classmethod
    def of(cls, *masks: Any) -> Mask:
        """The combined mask; operands that are combined by the same operator are flattened."""
        checked = map(checked_mask, masks)
        flat = tuple(part for mask in checked for part in (mask.masks if isinstance(mask, cls) else (mask,)))
        return _not_too_deep(cls(flat))  # type: ignore[call-arg]

    @property
    def needs_position(self) -> bool:
        return any(mask.needs_position for mask in self.masks)

    @property
    def _only_numbers(self) -> bool:
        return all(mask._only_numbers for mask in self.masks)

    @property
    def _depth(self) -> int:
        return 1 + max(mask._depth for mask in self.masks)

    @property
    def _sizes(self) -> ImpliedSizes:
        sizes = ImpliedSizes()
        for mask in self.masks:
            sizes = sizes.with_(mask._sizes)
        return sizes


@dataclass(frozen=True, repr=False)
class Both(Combined):
    """Keys visible in all masks, `one & other`."""

    masks: tuple[Mask, ...]

    @property
    def expression(self) -> str:
        return " & ".join(_wrapped(mask, Either) for mask in self.masks)

    def _keys(self, place: Region) -> Keys:
        return place.both([mask._keys(place) for mask in self.masks])


@dataclass(frozen=True, repr=False)
class Either(Combined):
    """Keys visible in at least one mask, `one | other`."""

    masks: tuple[Mask, ...]

    @property
    def expression(self) -> str:
        return " | ".join(mask.expression for mask in self.masks)

    def _keys(self, place: Region) -> Keys:
        return place.either([mask._keys(place) for mask in self.masks])


@dataclass(frozen=True, repr=False)
class Inverse(Mask):
    """Keys not visible in a mask, `~inner`."""

    inner: Mask

    @property
    def needs_position(self) -> bool:
        return self.inner.needs_position

    @property
    def expression(self) -> str:
        return f"~{_wrapped(self.inner, (Both, Either))}"

    def __invert__(self) -> Mask:
        return self.inner

    @property
    def _only_numbers(self) -> bool:
        return bool(self.inner._only_numbers)

    @property
    def _depth(self) -> int:
        return 1 + self.inner._depth

    @property
    def _sizes(self) -> ImpliedSizes:
        return self.inner._sizes

    def _keys(self, place: Region) -> Keys:
        return place.neither(self.inner._keys(place))


@dataclass(frozen=True, eq=False, repr=False)
class SelectedMask(Mask):
    """A mask restricted to some of its sequences and heads."""

    whole: Mask
    sequences: int  # of the whole
    heads: int
    batch: Index
    head: Index

    _only_numbers = False

    @classmethod
    def of(cls, mask: Mask, sequences: int, heads: int, batch: Index, head: Index) -> Mask:
        """The mask itself if it consists of numbers only and so is the same for all, else the part."""
        return mask if mask._only_numbers else cls(mask, sequences, heads, batch, head)

    @property
    def needs_position(self) -> bool:
        return self.whole.needs_position

    @property
    def expression(self) -> str:
        return self.whole.expression

    @property
    def _sizes(self) -> ImpliedSizes:
        batch, heads = (len(np.arange(n)[some]) for n, some in ((self.sequences, self.batch), (self.heads, self.head)))
        return self.whole._sizes._replace(batch=batch, heads=heads)

    def _keys(self, place: Region) -> Keys:
        whole = Region(
            place.queries, place.keys, self.sequences, self.heads, self._positions(place), place.xp, place.device
        )
        keys = self.whole._keys(whole)
        intervals = keys.intervals
        if intervals is not None:
            intervals = tuple((self._some(first), self._some(last)) for first, last in intervals)
        return Keys(intervals, None if keys.rest is None else keys.rest.select(self.batch, self.head))

    def _positions(self, place: Region) -> Array:
        """Query positions for all sequences; only those of the selected ones matter."""
        if place.positions is None or place.positions.shape[0] == 1:
            return place.positions
        whole = place.xp.broadcast_to(place.positions[:1], (self.sequences, place.queries))
        whole = whole.clone() if is_tensor(whole) else whole.copy()
        whole[self.batch] = place.positions
        return whole

    def _some(self, end: Any) -> Any:
        return take(end, self.batch, 0) if hasattr(end, "shape") else end


def checked_mask(given: Any) -> Mask:
    """A mask, or an error that tells how to make one.

    >>> from regard.masks import causal
    >>> checked_mask(causal)
    Traceback (most recent call last):
    regard.errors.TypeProblem: `mask` is the function causal; expected a mask.
    Call it: causal().
    """
    if isinstance(given, Mask):
        return given
    if callable(given):
        name = getattr(given, "__name__", "function")
        fix = f"A function of positions becomes one: regard.masks.where({name})."
        if str(getattr(given, "__module__", "")).startswith("regard.masks"):
            fix = f"Call it: {name}({'' if name == 'causal' else '…'})."
        raise errors.TypeProblem(f"`mask` is the function {name}; expected a mask.\n{fix}")
    raise errors.TypeProblem(
        f"`mask` is {errors.kind_of(given)}; expected a mask such as causal() & window(128).\n"
        "A boolean array, True where a query may see a key, becomes one: regard.masks.allowed(array)."
    )


def _not_too_deep(mask: Mask) -> Mask:
    if mask._depth > DEEPEST:
        raise errors.OptionError(
            f"This mask nests `&`, `|` and `~` more than {DEEPEST} levels deep.\nCombine the operands of each operator "
            "first, as in (a & b & c) | (d & e), or write it as one function: regard.masks.where(function)."
        )
    return mask


def _wrapped(mask: Mask, looser: Any) -> str:
    return f"({mask.expression})" if isinstance(mask, looser) else mask.expression


def _placed(mask: Mask, queries: int, keys: int, batch: int, heads: int, offset: Any, xp: Any, device: Any) -> Visible:
    where = positions(queries, batch, offset, xp, device) if mask.needs_position else None
    region = Region(queries, keys, batch, heads, where, xp, device)
    return region.visible(mask._keys(region))


@lru_cache(maxsize=64)
def _cached(mask: Mask, queries: int, keys: int, offset: int) -> Visible:
    visible = _placed(mask, queries, keys, 1, 1, offset, np, None)
    for _, end in visible.ends():
        end.flags.writeable = False  # shared between callers
    return visible

"""`Attention.select` and `Attention.copy`: the arrays, mask and bias of some sequences and heads; a deep copy."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from regard import arrays, errors
from regard.arrays import Array, four_axes, is_tensor, numpy_of
from regard.biases import Bias
from regard.engines import slicing
from regard.masks import Mask
from regard.masks.intervals import take
from regard.masks.visible import Keys, Place, Sizes

if TYPE_CHECKING:
    from regard.attention.attention import Attention

Index = slicing.Index


def chosen(axis: str, given: Any, count: int) -> tuple[Index, bool]:
    """An index that keeps its axis, from an integer, a slice or several integers; and whether it was an integer."""
    if given is None:
        return slicing.EVERYTHING, False
    if isinstance(given, slice):
        start, stop, step = given.indices(count)
        picked = np.arange(start, stop, step)
        return (slice(start, stop, step) if step > 0 else picked), False
    index = numpy_of(given)
    if index.dtype == bool and index.shape == (count,):
        index = np.flatnonzero(index)
    if index.dtype.kind not in "iu" or index.ndim > 1:
        raise errors.option(axis, given, "an integer, a slice or a list of integers")
    for number in index.reshape(-1):
        if not -count <= number < count:
            raise errors.index_out_of_range(axis, number, count)
    index = np.where(index < 0, index + count, index)
    if index.ndim == 0:
        return slice(int(index), int(index) + 1), True
    return index, False


def selected(attention: Attention, batch: Any, head: Any) -> Attention:
    """Some sequences and heads of an attention."""
    for name, given, axes in (("batch", batch, 4), ("head", head, 3)):
        if given is not None and attention.ndim < axes:
            raise errors.option(name, given, f"None for an attention of shape {attention.shape}")
    sequences, heads = (1, 1, *attention.shape[:-2])[-2:]
    batches, one_sequence = chosen("batch", batch, sequences)
    some_heads, one_head = chosen("head", head, heads)
    key_heads = slicing.key_heads(some_heads, heads, four_axes(attention.keys).shape[1])
    dropped = 4 - attention.ndim + one_sequence  # leading axes that the result does not have
    dropped += one_head and dropped == 1

    def part(array: Array, head_part: Index) -> Array:
        return slicing.taken(slicing.taken(four_axes(array), batches, 0), head_part, 1)[(0,) * dropped]

    def part_of_bias(bias: Any) -> Any:
        if isinstance(bias, Bias):
            return PartOfBias(bias, heads, some_heads)
        return slicing.shared(slicing.shared(four_axes(bias), batches, 0), some_heads, 1)[(0,) * dropped]

    return replace(
        attention,
        queries=part(attention.queries, some_heads),
        keys=part(attention.keys, key_heads),
        mask=part_of_mask(attention.mask, sequences, heads, batches, some_heads),
        bias=None if attention.bias is None else part_of_bias(attention.bias),
        sinks=None if attention.sinks is None else slicing.taken(attention.sinks, some_heads, 0),
        offset=_part_of_offset(attention.offset, batches),
    )


def _part_of_offset(offset: Any, batch: Index) -> Any:
    return slicing.taken(offset, batch, 0) if hasattr(offset, "shape") else offset


@dataclass(frozen=True, eq=False, repr=False)
class Part(Mask):
    """A mask restricted to some of its sequences and heads."""

    whole: Mask
    sequences: int  # of the whole
    heads: int
    batch: Index
    head: Index

    _only_numbers = False

    @property
    def needs_position(self) -> bool:
        return self.whole.needs_position

    @property
    def expression(self) -> str:
        return self.whole.expression

    @property
    def _sizes(self) -> Sizes:
        sizes = self.whole._sizes
        return sizes._replace(batch=len(np.arange(self.sequences)[self.batch]), heads=self._head_count)

    @property
    def _head_count(self) -> int:
        return len(np.arange(self.heads)[self.head])

    def _keys(self, place: Place) -> Keys:
        whole = Place(
            place.queries, place.keys, self.sequences, self.heads, self._positions(place), place.xp, place.device
        )
        keys = self.whole._keys(whole)
        intervals = keys.intervals
        if intervals is not None:
            intervals = tuple((self._some(first), self._some(last)) for first, last in intervals)
        return Keys(intervals, None if keys.rest is None else keys.rest.select(self.batch, self.head))

    def _positions(self, place: Place) -> Array:
        """Query positions for all sequences; only those of the selected ones matter."""
        if place.positions is None or place.positions.shape[0] == 1:
            return place.positions
        whole = place.xp.broadcast_to(place.positions[:1], (self.sequences, place.queries))
        whole = whole.clone() if is_tensor(whole) else whole.copy()
        whole[self.batch] = place.positions
        return whole

    def _some(self, end: Any) -> Any:
        return take(end, self.batch, 0) if hasattr(end, "shape") else end


@dataclass(frozen=True, eq=False)
class PartOfBias(Bias):
    """A lazy bias restricted to some of its heads."""

    whole: Bias
    heads: int  # of the whole
    head: Index

    def table(
        self, heads: int, lowest: int, highest: int, xp: Any = np, dtype: Any = None, device: Any = None
    ) -> Array:
        """The rows of the selected heads."""
        return slicing.shared(self.whole.table(self.heads, lowest, highest, xp, dtype, device), self.head, 0)


def part_of_mask(mask: Mask | None, sequences: int, heads: int, batch: Index, head: Index) -> Mask | None:
    """The mask itself if it consists of numbers only, else the mask restricted to these sequences and heads."""
    if mask is None or mask._only_numbers:
        return mask
    return Part(mask, sequences, heads, batch, head)


def copied(attention: Attention) -> Attention:
    """The attention with its own copies of all arrays."""
    bias = attention.bias
    return replace(
        attention,
        queries=arrays.copied(attention.queries),
        keys=arrays.copied(attention.keys),
        mask=deepcopy(attention.mask),
        bias=arrays.copied(bias) if hasattr(bias, "shape") else deepcopy(bias),
        sinks=arrays.copied(attention.sinks),
        offset=arrays.copied(attention.offset),
    )

"""Lazy biases by relative position: one row per head instead of a matrix.

A bias knows its value for every difference i - j of query position and key position. `table` gives those of a range as
(head or 1, differences), which is all that an engine needs: O(n) where the dense bias takes n².
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard import errors, validate
from regard.arrays import Array, is_tensor

MOST_HEADS = 1 << 16


class Bias:
    """A bias by relative position, added to the scores."""

    __slots__ = ()

    def table(
        self, heads: int, lowest: int, highest: int, xp: Any = np, dtype: Any = None, device: Any = None
    ) -> Array:
        """The bias (head or 1, highest - lowest + 1) for every i - j from `lowest` to `highest`."""
        raise NotImplementedError


def alibi(slopes: Any = None, *, heads: int | None = None) -> Bias:
    """Attention with linear biases (ALiBi): -slope · |i - j|, one slope per head.

    `alibi(heads=8)` uses the slopes of the paper (Press, Smith and Lewis, 2022).

    >>> alibi(heads=8)
    alibi([0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625])
    >>> alibi([1.0, 0.5]).table(heads=2, lowest=-1, highest=2)
    array([[-1. , 0. , -1. , -2. ],
           [-0.5, 0. , -0.5, -1. ]])
    """
    if (slopes is None) == (heads is None):
        came = "neither" if slopes is None else "both"
        raise errors.option("alibi", came, "either slopes, one per head, or heads=… for those of the paper")
    if heads is not None:
        return AlibiBias(np.asarray(paper_slopes(validate.integer("heads", heads, 1, MOST_HEADS))))
    numbers = _floats(slopes)
    if numbers is None or len(numbers.shape) > 1:
        raise errors.option("slopes", slopes, "one number, or numbers (head,), one per head")
    return AlibiBias(numbers.reshape(-1))


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class AlibiBias(Bias):
    """-slope · |i - j|."""

    slopes: Array  # (head,), or (1,) for all heads

    def table(
        self, heads: int, lowest: int, highest: int, xp: Any = np, dtype: Any = None, device: Any = None
    ) -> Array:
        _check_heads("slopes", self.slopes.shape[0], heads)
        apart = xp.abs(xp.arange(lowest, highest + 1, **_on(device)))
        wide = None if dtype is None else xp.float64 if dtype == xp.float64 else xp.float32  # float16 ends at 65,504
        return _cast(-_cast(self.slopes, xp, wide, device)[:, None] * apart, xp, dtype)

    def __repr__(self) -> str:
        return f"alibi({self.slopes.tolist()})"


def paper_slopes(heads: int) -> list[float]:
    """The slopes of the paper: 2^(-8 h / heads) for a power of two; otherwise those of the next lower power, then every
    second one of the next higher power.

    >>> paper_slopes(4)
    [0.25, 0.0625, 0.015625, 0.00390625]
    >>> paper_slopes(6)
    [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]
    """
    power = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-8.0 * (head + 1) / power) for head in range(power)]
    return slopes if power == heads else slopes + paper_slopes(2 * power)[::2][: heads - power]


def relative_positions(table: Any, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True) -> Bias:
    """A learned bias per bucket of distances, as in T5: `table` is (bucket, head).

    Small distances have a bucket each, larger ones share buckets of logarithmically growing width, and all from
    `max_distance` on share the last. `bidirectional=False` is for decoders: all later keys are in bucket 0.

    >>> rising = np.arange(8.0)[:, None]  # (bucket, head): a bias that shows the bucket itself
    >>> relative_positions(rising, buckets=8, max_distance=16).table(heads=1, lowest=-3, highest=7)
    array([[6., 6., 5., 0., 1., 2., 2., 2., 2., 3., 3.]])
    """
    buckets = validate.integer("buckets", buckets, 2)
    max_distance = validate.integer("max_distance", max_distance, 1)
    numbers = _floats(table)
    if numbers is None:
        raise errors.option("table", table, "numbers (bucket, head)")
    if len(numbers.shape) != 2 or numbers.shape[0] != buckets:
        raise errors.option(
            "table", tuple(numbers.shape), f"the shape ({buckets}, head): one row per bucket", "Check `buckets`."
        )
    exact = buckets // (4 if bidirectional else 2)
    if exact < 1 or max_distance <= exact:
        raise errors.option(
            "max_distance", max_distance, f"more than the {exact} distances with a bucket each, of {buckets} buckets"
        )
    return RelativePositions(numbers, max_distance, bidirectional)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class RelativePositions(Bias):
    """A learned bias per bucket of distances."""

    learned: Array  # (bucket, head)
    max_distance: int
    bidirectional: bool

    def table(
        self, heads: int, lowest: int, highest: int, xp: Any = np, dtype: Any = None, device: Any = None
    ) -> Array:
        _check_heads("table", self.learned.shape[1], heads)
        apart = xp.arange(lowest, highest + 1, **_on(device))
        bucket = bucket_of(apart, self.learned.shape[0], self.max_distance, self.bidirectional, xp)
        return _cast(self.learned, xp, dtype, device)[bucket].T

    def __repr__(self) -> str:
        shape, after = tuple(self.learned.shape), "" if self.bidirectional else ", bidirectional=False"
        return f"relative_positions(<{shape}>, buckets={shape[0]}, max_distance={self.max_distance}{after})"


def bucket_of(apart: Array, buckets: int, max_distance: int, bidirectional: bool, xp: Any = np) -> Array:
    """The bucket of each difference i - j, numbered as in T5: earlier keys first, then later ones.

    >>> bucket_of(np.array([0, 1, 8, 16, 127, 128, -1, -128]), 32, 128, bidirectional=True).tolist()
    [0, 1, 8, 10, 15, 15, 17, 31]
    """
    after = 0
    if bidirectional:
        buckets //= 2
        after = (apart < 0) * buckets
        distance = xp.abs(apart)
    else:
        distance = xp.clip(apart, 0, None)
    exact = buckets // 2
    # In float32 as in T5: at exact powers, rounding decides the bucket.
    ratio = xp.asarray(xp.clip(distance, exact, None), dtype=xp.float32) / exact
    growth = xp.log(ratio) / math.log(max_distance / exact) * (buckets - exact)
    far = xp.clip(exact + xp.asarray(growth, dtype=xp.int64), None, buckets - 1)
    return after + xp.where(distance < exact, distance, far)


@dataclass(frozen=True, eq=False)
class PartOfBias(Bias):
    """A lazy bias restricted to some of its heads."""

    whole: Bias
    heads: int  # of the whole
    head: Any  # a slice, or a NumPy array of integers

    def table(
        self, heads: int, lowest: int, highest: int, xp: Any = np, dtype: Any = None, device: Any = None
    ) -> Array:
        """The rows of the selected heads."""
        table = self.whole.table(self.heads, lowest, highest, xp, dtype, device)
        return table if table.shape[0] == 1 else table[self.head]


def _floats(numbers: Any) -> Array | None:
    """Arrays unchanged, other numbers as float64; None for anything else."""
    if is_tensor(numbers):
        return numbers
    try:
        array = np.asarray(numbers)
    except ValueError:  # rows of unequal length
        return None
    if array.dtype.kind in "ObcSUMm":
        return None
    return array if array is numbers else array.astype(np.float64)


def _check_heads(name: str, came: int, heads: int) -> None:
    if came != 1 and came != heads:
        raise errors.OptionError(
            f"`{name}` are for {errors.count(came, 'head')}, the attention has {heads}.\nGive one per head."
        )


def _cast(array: Array, xp: Any, dtype: Any, device: Any = None) -> Array:
    """Cast without leaving the autograd graph, as `asarray` would."""
    if xp is not np and not isinstance(array, np.ndarray):
        return array.to(dtype=dtype or array.dtype, device=device or array.device)
    return xp.asarray(array, dtype=dtype, **_on(device))


def _on(device: Any) -> dict[str, Any]:
    return {} if device is None else {"device": device}

"""Positional encodings: added to embeddings, rotated into queries and keys, or subtracted from scores (ALiBi)."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from regard import arrays, biases, errors, validate
from regard.arrays import Array
from regard.engines.select import engine_for
from regard.layers.layer import Layer, Seed, seed_of
from regard.layers.linear import rows_of
from regard.layers.token_inputs import float_weights

Turns = tuple[Array, Array]  # cosines and sines, each (batch or 1, token, pair)


def sinusoidal(count: int, width: int, base: float = 10000.0) -> NDArray[np.float64]:
    """The table (position, width) of Vaswani et al. (2017): sines and cosines alternate, with decreasing frequency.

    >>> sinusoidal(2, 4).round(3)
    array([[0. , 1. , 0. , 1. ],
           [0.841, 0.54 , 0.01 , 1. ]])
    """
    table: NDArray[np.float64] = _waves(np.arange(count), width, base, np)
    return table


@dataclass(frozen=True, eq=False, repr=False)
class Sinusoidal(Layer):
    """x + sinusoidal(…), for any number of positions.

    >>> Sinusoidal()(np.zeros((2, 4))).round(2)
    array([[0.  , 1.  , 0.  , 1.  ],
           [0.84, 0.54, 0.01, 1.  ]])
    """

    base: float = 10000.0

    def __call__(self, x: Array, offset: Any = 0) -> Array:
        """`offset` is the position of the first row of x: one number, or one per sequence."""
        return self.at(x, positions_of(offset, x.shape[-2], x))

    def at(self, x: Array, positions: Array, *, in_place: bool = False) -> Array:
        """x with these positions, (token,) or (batch, token), added; `in_place` has no effect here."""
        return x + arrays.cast(_waves(positions, x.shape[-1], self.base, arrays.library(x)), x.dtype)


@dataclass(frozen=True, eq=False, repr=False)
class Learned(Layer):
    """x + the row of the weight for each position; negative positions, as of padding on the left, use row 0.

    padding   a token without a position, as in RoBERTa: it uses row `padding`, and others start at the row after it

    >>> Learned.seeded(count=10, width=4)(np.zeros((3, 4), np.float32)).shape
    (3, 4)
    """

    weight: Array  # (position, width)
    padding: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", float_weights("weight", self.weight))

    def __call__(self, x: Array, offset: Any = 0, tokens: Any = None) -> Array:
        """`offset` is the position of the first row of x: one number, or one per sequence; `padding` needs `tokens`."""
        if self.padding is None:
            return self.at(x, positions_of(offset, x.shape[-2], x))
        if tokens is None:
            raise errors.option("tokens", None, "the tokens of x, since `padding` tokens have no position")
        return self.at(x, self.positions(arrays.library(x).asarray(tokens), offset))

    def at(self, x: Array, positions: Array, *, in_place: bool = False) -> Array:
        """x with the rows of these positions, (token,) or (batch, token), added; `in_place`: x may be overwritten."""
        longest = self.weight.shape[0]
        if not arrays.tracing() and 0 not in positions.shape and int(positions.max()) >= longest:
            fix = f"There are learned positions 0 to {longest - 1}: shorten the text, or use rotary positions."
            raise errors.option("position", int(positions.max()), f"less than {longest}", fix)
        rows = arrays.cast(rows_of(self.weight, positions.clip(0)), x.dtype)
        return np.add(x, rows, out=x) if in_place and isinstance(x, np.ndarray) else x + rows

    def positions(self, tokens: Array, offset: Any = 0) -> Array:
        """The row of the weight for each of these tokens, (token,) or (batch, token); O(n)."""
        if self.padding is None:
            return positions_of(offset, tokens.shape[-1], tokens)
        counted = arrays.cast(tokens != self.padding, tokens.dtype)
        return (counted.cumsum(-1) + offset) * counted + self.padding

    @classmethod
    def seeded(cls, count: int, width: int, *, seed: int | Seed = 0, dtype: Any = np.float32) -> Self:
        """Vectors from a seed, normal with variance 1."""
        shape = validate.integer("count", count, 1), validate.integer("width", width, 1)
        return cls(seed_of(seed).normal(shape, dtype))


@dataclass(frozen=True, eq=False, repr=False)
class Rotary(Layer):
    """Pairs of components of each query and key, rotated by an angle proportional to the position (Su et al., 2021).

    dim          number of components that are rotated, an even number; the others are unchanged
    base         pair p is rotated by base^(−2p / dim) per position
    interleaved  whether pairs are neighbours; otherwise component p is paired with p + dim / 2, as in Llama
    frequencies  rotation of each pair per position instead, for models with scaled positions
    attention_factor   multiplies the rotated numbers, as YaRN does
    long_frequencies   instead of `frequencies` for sequences of more than `long_after` tokens, as LongRoPE does

    >>> layer = Rotary(4)
    >>> cosines, sines = layer.at(np.arange(2), np.ones(1))
    >>> cosines[0].round(2)  # positions 0 and 1, one number per pair
    array([[1.  , 1.  ],
           [0.54, 1.  ]])
    """

    dim: int
    base: float = 10000.0
    interleaved: bool = False
    frequencies: tuple[float, ...] | None = None
    attention_factor: float = 1.0
    long_frequencies: tuple[float, ...] | None = None
    long_after: int | None = None

    def __post_init__(self) -> None:
        if validate.integer("dim", self.dim, 1) % 2:
            raise errors.option("dim", self.dim, "an even number", "Components are rotated in pairs.")
        for name in ("frequencies", "long_frequencies"):
            if (given_ones := getattr(self, name)) is not None:
                object.__setattr__(self, name, tuple(float(number) for number in given_ones))
                if len(given_ones) != self.dim // 2:
                    raise errors.option(name, given_ones, f"{self.dim // 2} numbers, one per pair")
        if (self.long_frequencies is None) != (self.long_after is None):
            raise errors.option("long_after", self.long_after, "given together with `long_frequencies`")

    @property
    def speeds(self) -> tuple[float, ...]:
        """The rotation of each pair per position, in radians."""
        return tuple(float(speed) for speed in _speeds(self.dim, self.base, self.frequencies))

    def __call__(self, x: Array, offset: Any = 0) -> Array:
        """(…, head, token, head_dim) rotated; the first token is at `offset`, one number or one per sequence."""
        return self.turned(x, self.cosines_and_sines(offset, x.shape[-2], x))

    def turned(self, x: Array, turns: Turns, *, in_place: bool = False) -> Array:
        """(…, head, token, head_dim) rotated by given angles; `in_place`: x may be overwritten."""
        if x.shape[-1] < self.dim:
            raise errors.option("dim", self.dim, f"at most {x.shape[-1]}, the head_dim")
        turned = engine_for(x).rotary(arrays.four_axes(x), *turns, self.interleaved, in_place)
        return turned if x.ndim == 4 else turned[(0,) * (4 - x.ndim)]

    def cosines_and_sines(self, offset: Any, count: int, like: Array) -> Turns:
        """Cosines and sines of the angles, each (batch or 1, token, pair), in at least float32."""
        if isinstance(like, np.ndarray) and type(offset) is int:
            frequencies = self.frequencies
            if self.long_after is not None and offset + count > self.long_after:
                frequencies = self.long_frequencies
            kind = arrays.wide_type(like)
            return _turns(self.dim, self.base, frequencies, self.attention_factor, offset, count, kind)
        return self.at(positions_of(offset, count, like), like)

    def at(self, positions: Array, like: Array, lengths: Array | None = None) -> Turns:
        """Cosines and sines for positions (token,) or (batch, token).

        lengths   tokens of the sequence each position belongs to; by default the largest position + 1
        """
        xp, kind = arrays.library(like), arrays.wide_type(like)
        speeds = xp.asarray(_speeds(self.dim, self.base, self.frequencies), **_double(like))
        if self.long_after is not None:
            lengths = positions.max() + 1 if lengths is None else lengths[..., None]
            long = xp.asarray(_speeds(self.dim, self.base, self.long_frequencies), **_double(like))
            speeds = xp.where(lengths > self.long_after, long, speeds)
        angles = positions[..., None] * speeds
        angles = angles if angles.ndim == 3 else angles[None]
        cosines, sines = xp.cos(angles), xp.sin(angles)
        if self.attention_factor != 1.0:
            cosines, sines = cosines * self.attention_factor, sines * self.attention_factor
        return arrays.cast(cosines, kind), arrays.cast(sines, kind)


@dataclass(frozen=True, eq=False, repr=False)
class Alibi(Layer):
    """One slope per head: −slope · distance is added to the scores. Not learned (Press, Smith and Lewis, 2022).

    >>> Alibi.of(heads=4).slopes
    (0.25, 0.0625, 0.015625, 0.00390625)
    """

    slopes: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "slopes", tuple(float(slope) for slope in self.slopes))

    @property
    def bias(self) -> biases.Bias:
        """The bias for `Attention`."""
        return biases.alibi(self.slopes)

    @classmethod
    def of(cls, heads: int) -> Self:
        """The slopes of the paper."""
        return cls(tuple(biases.paper_slopes(validate.integer("heads", heads, 1))))


def positions_of(offset: Any, count: int, like: Array) -> Array:
    """Positions of `count` tokens, (token,), or (batch, token) where each sequence has its own offset."""
    if not arrays.is_tensor(like):
        offset = offset if arrays.is_number(offset) else arrays.numpy_of(offset)
        return np.arange(count) + (offset if np.ndim(offset) == 0 else offset[:, None])
    torch = sys.modules["torch"]
    steps = torch.arange(count, device=like.device)
    if arrays.is_number(offset):
        return steps + offset
    offset = torch.as_tensor(offset, device=like.device)
    return steps + (offset if offset.ndim == 0 else offset[:, None])


def _waves(positions: Array, width: int, base: float, xp: Any) -> Array:
    pairs = (width + 1) // 2
    speeds = xp.asarray(_speeds(width, base, None, pairs), **_double(positions))
    angles = positions[..., None] * speeds
    both = xp.stack([xp.sin(angles), xp.cos(angles)], -1)
    return both.reshape(*positions.shape, 2 * pairs)[..., :width]


def _speeds(
    size: int, base: float, given_frequencies: tuple[float, ...] | None, pairs: int | None = None
) -> NDArray[np.float64]:
    """The frequency of each pair, in radians per position."""
    if given_frequencies is not None:
        return np.asarray(given_frequencies)
    return np.asarray(base ** (-2.0 * np.arange(size // 2 if pairs is None else pairs) / size), np.float64)


@lru_cache(maxsize=4)  # the same for all layers of a model
def _turns(
    size: int,
    base: float,
    frequencies: tuple[float, ...] | None,
    factor: float,
    offset: int,
    count: int,
    kind: np.dtype[Any],
) -> tuple[Array, Array]:
    angles = (np.arange(offset, offset + count)[:, None] * _speeds(size, base, frequencies))[None]
    turns = (factor * np.cos(angles)).astype(kind), (factor * np.sin(angles)).astype(kind)
    for array in turns:
        array.flags.writeable = False
    return turns


def _double(like: Array) -> dict[str, Any]:
    """float64 on the device of `like`, or float32 where the device lacks it."""
    if not arrays.is_tensor(like):
        return {"dtype": np.float64}
    torch = sys.modules["torch"]
    return {"dtype": torch.float32 if like.device.type == "mps" else torch.float64, "device": like.device}

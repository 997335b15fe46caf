"""One vector per token id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from regard import errors, validate
from regard.arrays import Array
from regard.engines.memory import empty
from regard.layers.layer import Layer, Seed, float_weights, seed_of, token_ids


@dataclass(frozen=True, eq=False, repr=False)
class Embedding(Layer):
    """From token ids to their rows of the weight.

    >>> Embedding([[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])([2, 0])
    array([[1., 1., 1., 1.],
           [1., 0., 1., 0.]])
    """

    weight: Array  # (vocabulary, width)

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", float_weights("weight", self.weight))
        if len(self.weight.shape) != 2:
            raise errors.ShapeError(f"`weight` is {tuple(self.weight.shape)}; expected (vocabulary, width).")

    @property
    def width(self) -> int:
        """The width of its vectors."""
        return int(self.weight.shape[1])

    def __call__(self, tokens: Any) -> Array:
        """(…, token) → (…, token, width)."""
        return rows_of(self.weight, token_ids(tokens, self.weight))

    @classmethod
    def seeded(cls, vocabulary: int, width: int, *, seed: int | Seed = 0, dtype: Any = np.float32) -> Self:
        """Vectors from a seed, normal with variance 1."""
        shape = validate.integer("vocabulary", vocabulary, 1), validate.integer("width", width, 1)
        return cls(seed_of(seed).normal(shape, dtype))

    @classmethod
    def from_torch(cls, module: Any) -> Self:
        """The weights of an `nn.Embedding`, shared."""
        return cls(module.weight)


def rows_of(table: Array, numbers: Array) -> Array:
    """The rows of a table with these indices, which must be in range, as a new array."""
    if not isinstance(table, np.ndarray):
        return table[numbers]
    # "clip" avoids a copy of `out`; reused memory avoids page faults.
    room = empty((*numbers.shape, table.shape[1]), table.dtype)
    return table.take(numbers, axis=0, out=room, mode="clip")

"""Numbers from a seed: the same for NumPy and PyTorch, on every machine, and for every part of a layer its own.

Projections are drawn as Glorot and Bengio do it (Xavier uniform): evenly from ±√(6 / (in + out)), so that signals
keep their size forwards and backwards; biases are 0, norms 1, embeddings and learned positions normal with variance 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from regard import validate
from regard.arrays import Array


@dataclass(frozen=True)
class Seed:
    """A seed and the way from it to one part; what is drawn for a part does not depend on the parts beside it.

    >>> [Seed(0).part(name).uniform((2,), 1.0, np.float64).round(3).tolist() for name in ("w_q", "w_k")]
    [[-0.781, -0.049], [0.088, -0.24]]
    """

    number: int
    path: tuple[str, ...] = ()

    def part(self, name: str) -> Seed:
        """The seed of a part."""
        return Seed(self.number, (*self.path, name))

    def uniform(self, shape: tuple[int, ...], bound: float, dtype: Any) -> Array:
        """Numbers evenly from −bound up to bound."""
        return typed((2 * self._unit(shape) - 1) * bound, dtype)

    def projection(self, outputs: int, inputs: int, dtype: Any) -> Array:
        """A matrix (out, in), Xavier uniform."""
        return self.uniform((outputs, inputs), float(np.sqrt(6 / (inputs + outputs))), dtype)

    def normal(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Normal numbers of variance 1, by Box and Muller."""
        radius = np.sqrt(-2 * np.log1p(-self.part("radius")._unit(shape)))
        return typed(radius * np.cos(2 * np.pi * self.part("angle")._unit(shape)), dtype)

    def _unit(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Numbers from 0 up to 1, from the raw bits: those NumPy promises never to change."""
        keys = tuple(crc32(name.encode()) for name in self.path)
        bits = np.random.PCG64(np.random.SeedSequence(self.number, spawn_key=keys))
        raw = np.asarray(bits.random_raw(int(np.prod(shape))), np.uint64)
        return np.asarray((raw >> np.uint64(11)) * 2.0**-53, np.float64).reshape(shape)


def seed_of(given: int | Seed) -> Seed:
    """A seed from what was given."""
    if isinstance(given, Seed):
        return given
    return Seed(validate.integer("seed", given, 0))


def constant(value: float, count: int, dtype: Any) -> Array:
    """The same number, count times."""
    return typed(np.full(count, value), dtype)


def typed(numbers: NDArray[np.float64], dtype: Any) -> Array:
    """As an array of a type of NumPy, or as a tensor of a type of PyTorch."""
    if type(dtype).__module__.partition(".")[0] == "torch":
        return import_module("torch").from_numpy(numbers).to(dtype)
    return numbers.astype(dtype)

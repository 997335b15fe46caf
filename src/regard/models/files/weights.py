"""Weights, whichever file they come from: names, shapes, and arrays that are made when they are asked for."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Weights(Protocol):
    """Tensors by the names the hub gives them."""

    @property
    def names(self) -> frozenset[str]:
        """The names of all tensors."""
        ...

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of one tensor, without reading it."""
        ...

    def __getitem__(self, name: str) -> Array:
        """One tensor of floats in float32: a read-only view of the file where it is stored so, else a new array."""
        ...


class StoredWeights(Weights, Protocol):
    """Weights of safetensors files, which may hold integers beside floats."""

    def kind(self, name: str) -> str:
        """The type a tensor is stored in, such as F32 or I8."""
        ...

    def stored(self, name: str) -> Array:
        """One tensor in the type it is stored in."""
        ...


def widened(stored: Array, kind: str) -> Array:
    """Stored numbers as float32; bfloat16, which NumPy lacks, comes as uint16."""
    if kind == "BF16":
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored if stored.dtype == np.float32 and stored.flags.aligned else stored.astype(np.float32)

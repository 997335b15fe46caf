"""What weights are, whichever file they come from: names, shapes, and arrays made when somebody asks."""

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
        """The shape of one tensor, which is not read for it."""
        ...

    def __getitem__(self, name: str) -> Array:
        """One tensor in float32: a read-only view of the file where it is stored so, else a new array."""
        ...


def widened(stored: Array, kind: str) -> Array:
    """Stored numbers as float32; bfloat16, which NumPy has not, comes as uint16."""
    if kind == "BF16":
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored if stored.dtype == np.float32 and stored.flags.aligned else stored.astype(np.float32)

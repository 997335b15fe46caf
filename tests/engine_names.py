"""Every engine by its name, for tests that compare them: which are available, and conversions of their arrays."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from regard.engines import select

Array = Any  # a NumPy array or a PyTorch tensor

# What REGARD_ENGINE would say for each; the last two take PyTorch tensors.
_WANTED = {"reference": "reference", "native": "native", "torch": "torch", "torch_native": "native"}
_MODULE = {"reference": "generic", "torch": "torch_engine"}

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def _is_there(engine: str) -> bool:
    if engine.startswith("torch") and not find_spec("torch"):
        return False
    if "native" in engine and select.NATIVE_PROBLEM:
        return False
    return find_spec(f"regard.engines.{_MODULE.get(engine, engine)}") is not None


ENGINES = [name for name in _WANTED if _is_there(name)]
NUMPY_ENGINES = [name for name in ENGINES if not name.startswith("torch")]
TORCH_ENGINES = [name for name in ENGINES if name.startswith("torch")]


@contextmanager
def using(engine: str) -> Iterator[None]:
    """Everything computed inside is computed by this engine."""
    before = select.WANTED, select._for_numpy, select._for_tensors
    select.WANTED, select._for_numpy, select._for_tensors = _WANTED[engine], None, {}
    try:
        yield
    finally:
        select.WANTED, select._for_numpy, select._for_tensors = before


def for_engine(engine: str, array: NDArray[Any] | None) -> Array:
    """The array as this engine takes it: as it is, or as a tensor."""
    if array is None or not engine.startswith("torch"):
        return array
    import torch

    array = np.array(array, order="K")  # writable, without negative strides
    if array.dtype == BFLOAT16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def as_numpy(array: Array) -> NDArray[Any]:
    """A NumPy array of the same numbers and the same type."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(array, torch.Tensor):
        return np.asarray(array)
    array = array.detach()
    if array.dtype == torch.bfloat16:
        bits: NDArray[np.int16] = array.view(torch.int16).numpy()
        return bits.view(BFLOAT16)
    converted: NDArray[Any] = array.numpy()
    return converted

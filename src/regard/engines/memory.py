"""Room for large results, taken from what earlier results have left: fresh memory costs as much as a product.

A system hands out memory page by page, each cleared first: for 14 MB that took 8 to 40 ms in a virtual machine where
the product that fills them takes 20. So the memory of a large array goes back to a list here when it is not used any
more, and the next array of about its size gets it. Only so many bytes wait there; the rest goes back to the system.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEAST = 1 << 18  # bytes: below, the C library keeps memory itself
MOST = 1 << 29  # and never more than a sixteenth of the machine's memory

_waiting: dict[int, list[NDArray[np.uint8]]] = {}  # by size in bytes
_bytes_waiting = 0


def empty(shape: tuple[int, ...], kind: np.dtype[Any]) -> NDArray[Any]:
    """An array with whatever is in memory, as `np.empty` gives it.

    >>> empty((3, 5), np.dtype(np.float32)).shape
    (3, 5)
    """
    size = math.prod(shape) * kind.itemsize
    if size < LEAST:
        return np.empty(shape, kind)
    return np.asarray(Block(_rounded(size)))[:size].view(kind).reshape(shape)


class Block:
    """Memory that arrays are views of, and that waits for the next one when the last of them is gone."""

    __slots__ = ("__array_interface__", "memory")

    def __init__(self, size: int) -> None:
        global _bytes_waiting
        try:
            self.memory = _waiting[size].pop()
            _bytes_waiting -= size
        except (KeyError, IndexError):
            self.memory = np.empty(size, np.uint8)
        self.__array_interface__ = self.memory.__array_interface__

    def __del__(self) -> None:
        global _bytes_waiting
        size = self.memory.nbytes
        if _bytes_waiting + size <= _most:
            _bytes_waiting += size
            _waiting.setdefault(size, []).append(self.memory)


def waiting() -> int:
    """How many bytes wait to be used again."""
    return _bytes_waiting


def release() -> None:
    """Give all memory that waits back to the system."""
    global _bytes_waiting
    _waiting.clear()
    _bytes_waiting = 0


def _share_of_machine() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 16
    except (AttributeError, OSError, ValueError):  # not every system says
        return 1 << 28


_most = min(MOST, _share_of_machine())


def _rounded(size: int) -> int:
    """Up to the next of eight steps between powers of two, so that arrays of about one size share memory.

    >>> _rounded(1000), _rounded(1025)
    (1024, 1152)
    """
    step = 1 << max(size.bit_length() - 4, 0)
    return -(-size // step) * step

"""Memory for large results, reused from earlier ones: fresh memory costs as much time as a product.

The system clears memory page by page before handing it out: 14 MB took 8 to 40 ms in a virtual machine where the
product that fills them takes 20. So the memory of a large array goes to a free list when the array is released, and the
next array of about that size gets it. The list is limited in bytes; beyond that, memory goes back to the system.
"""

from __future__ import annotations

import ctypes
import math
import os
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEAST = 1 << 18  # bytes: smaller blocks are reused by the C library
MOST = 1 << 29  # and never more than a sixteenth of the machine's memory

_waiting: dict[int, list[NDArray[np.uint8]]] = {}  # by size in bytes
_bytes_waiting = 0


def empty(shape: tuple[int, ...], kind: np.dtype[Any]) -> NDArray[Any]:
    """An uninitialised array, like `np.empty`.

    >>> empty((3, 5), np.dtype(np.float32)).shape
    (3, 5)
    """
    size = math.prod(shape) * kind.itemsize
    if size < LEAST:
        return np.empty(shape, kind)
    return np.asarray(Block(_rounded(size)))[:size].view(kind).reshape(shape)


class Block:
    """Memory that arrays are views of; when the last of them is released, it goes to the free list."""

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
    """Bytes in the free list."""
    return _bytes_waiting


def release() -> None:
    """Give all memory in the free list back to the system, and what the C library keeps of freed blocks."""
    global _bytes_waiting
    _waiting.clear()
    _bytes_waiting = 0
    # glibc returns freed blocks below 32 MB only from the end of an arena, and each thread has an arena.
    with suppress(AttributeError, OSError, TypeError):  # other C libraries
        ctypes.CDLL(None).malloc_trim(0)


def _share_of_machine() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 16
    except (AttributeError, OSError, ValueError):  # not every system reports it
        return 1 << 28


_most = min(MOST, _share_of_machine())


def _rounded(size: int) -> int:
    """Rounded up to one of eight steps between powers of two, so that arrays of similar sizes share memory.

    >>> _rounded(1000), _rounded(1025)
    (1024, 1152)
    """
    step = 1 << max(size.bit_length() - 4, 0)
    return -(-size // step) * step

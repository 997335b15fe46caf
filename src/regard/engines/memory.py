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
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEAST = 1 << 18  # bytes: smaller blocks are reused by the C library
MOST = 1 << 29  # and never more than a sixteenth of the machine's memory


def empty(shape: tuple[int, ...], kind: np.dtype[Any]) -> NDArray[Any]:
    """An uninitialised array, like `np.empty`.

    >>> empty((3, 5), np.dtype(np.float32)).shape
    (3, 5)
    """
    size = math.prod(shape) * kind.itemsize
    if size < LEAST:
        return np.empty(shape, kind)
    return np.asarray(MemoryBlock(_round_up(size)))[:size].view(kind).reshape(shape)


class FreeList:
    """Memory of released arrays, by size in bytes, at most `most` bytes of it."""

    __slots__ = ("blocks", "most", "size")

    def __init__(self, most: int) -> None:
        self.blocks: dict[int, list[NDArray[np.uint8]]] = {}
        self.size = 0  # bytes in the list
        self.most = most


class MemoryBlock:
    """Memory that arrays are views of; when the last of them is released, it goes to the free list.

    The last array may be released while Python ends and the names of this module are gone: `__del__` uses none of them.
    """

    __slots__ = ("__array_interface__", "memory")
    free: FreeList

    def __init__(self, size: int) -> None:
        try:
            self.memory = self.free.blocks[size].pop()
            self.free.size -= size
        except (KeyError, IndexError):
            self.memory = np.empty(size, np.uint8)
        self.__array_interface__ = self.memory.__array_interface__

    def __del__(self) -> None:
        memory, free = getattr(self, "memory", None), self.free
        if memory is not None and free.size + memory.nbytes <= free.most:  # None: there was not enough for it
            free.size += memory.nbytes
            free.blocks.setdefault(memory.nbytes, []).append(memory)


def waiting() -> int:
    """Bytes in the free list."""
    return MemoryBlock.free.size


def release() -> None:
    """Give all memory in the free list back to the system, and what the C library keeps of freed blocks."""
    MemoryBlock.free.blocks.clear()
    MemoryBlock.free.size = 0
    # glibc returns freed blocks below 32 MB only from the end of an arena, and each thread has an arena.
    with suppress(AttributeError, OSError, TypeError):  # other C libraries
        ctypes.CDLL(None).malloc_trim(0)


def of_machine(root: Path = Path("/")) -> int:
    """Bytes of memory that this process may use: the machine's, or less where a control group says so.

    Both versions of control groups are read, and every group that this one is in: the least holds. Inside a container
    the group's own folder is often mounted as the root, so a path that is not there is looked for further up.
    """
    try:
        limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (AttributeError, OSError, ValueError):  # not every system reports it
        limits = [1 << 32]
    mounted = root / "sys/fs/cgroup"
    with suppress(OSError, ValueError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "memory" not in controllers.split(","):
                continue
            top, name = (mounted / "memory", "memory.limit_in_bytes") if controllers else (mounted, "memory.max")
            group = PurePosixPath("/", path).relative_to("/")
            for folder in (group, *group.parents):
                with suppress(OSError, ValueError):  # not there, or "max": no limit
                    limits.append(int((top / folder / name).read_text()))
    return min(limits)


MemoryBlock.free = FreeList(min(MOST, of_machine() // 16))


def _round_up(size: int) -> int:
    """Rounded up to one of eight steps between powers of two, so that arrays of similar sizes share memory.

    >>> _round_up(1000), _round_up(1025)
    (1024, 1152)
    """
    step = 1 << max(size.bit_length() - 4, 0)
    return -(-size // step) * step

"""PyTorch's OpenMP threads for the native kernels while PyTorch trains: its threads spin between its operations."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

import torch

from regard import _core


def _find_team() -> None:
    """Hand over the entry points of the OpenMP library that PyTorch is linked with; only GNU's on Linux is known."""
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    if sys.platform != "linux" or not library.exists():
        return
    try:
        loaded = ctypes.CDLL(str(library), mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        addresses = [ctypes.cast(getattr(loaded, name), ctypes.c_void_p).value for name in _NAMES]
    except (OSError, AttributeError):
        return
    _core.set_team(*(address or 0 for address in addresses))


_NAMES = ("GOMP_parallel", "omp_get_max_threads")
_find_team()


class Borrowed:
    """While it is entered, kernels that this thread calls run on PyTorch's threads, if there are as many as ours."""

    def __enter__(self) -> None:
        _core.borrow_team(True)

    def __exit__(self, *problem: object) -> None:
        _core.borrow_team(False)


BORROWED = Borrowed()

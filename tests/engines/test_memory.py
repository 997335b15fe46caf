"""Memory of large results is used again, and never while it is still referenced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from regard.engines import memory

SINGLE = np.dtype(np.float32)
LARGE = (300, 1000)  # 1.2 MB


@pytest.fixture(autouse=True)
def nothing_waits() -> Iterator[None]:
    memory.release()
    yield
    memory.release()


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def test_memory_of_a_large_array_serves_the_next_one() -> None:
    first = memory.empty(LARGE, SINGLE)
    place = address(first)
    del first
    assert memory.waiting() >= 1_200_000
    assert address(memory.empty((299, 1000), SINGLE)) == place


def test_memory_in_use_is_not_given_away() -> None:
    first = memory.empty(LARGE, SINGLE)
    first[:] = 1
    part = first[7:9, ::2].T  # a view keeps all of it
    del first
    other = memory.empty(LARGE, SINGLE)
    other[:] = 2
    assert not np.shares_memory(part, other)
    assert (part == 1).all()


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(2, 3), LARGE, (3, 200, 1000), (0, 5), ()])
def test_arrays_are_as_numpy_makes_them(shape: tuple[int, ...], kind: Any) -> None:
    made = memory.empty(shape, np.dtype(kind))
    assert (made.shape, made.dtype) == (shape, np.dtype(kind))
    assert made.flags.c_contiguous and made.flags.aligned and made.flags.writeable


def test_no_more_waits_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_most", 3_000_000)
    several = [memory.empty(LARGE, SINGLE) for _ in range(5)]
    del several
    assert 0 < memory.waiting() <= 3_000_000


def test_small_arrays_are_left_to_numpy() -> None:
    del (small := [memory.empty((10, 10), SINGLE)])[:]
    assert memory.waiting() == 0 and small == []

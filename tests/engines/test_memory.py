"""Memory of large results is used again, and never while it is still referenced."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
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
    monkeypatch.setattr(memory.MemoryBlock.free, "most", 3_000_000)
    several = [memory.empty(LARGE, SINGLE) for _ in range(5)]
    del several
    assert 0 < memory.waiting() <= 3_000_000


def test_small_arrays_are_left_to_numpy() -> None:
    del (small := [memory.empty((10, 10), SINGLE)])[:]
    assert memory.waiting() == 0 and small == []


@pytest.mark.parametrize(
    "end",
    [
        "vars(memory).update(dict.fromkeys(vars(memory))); del kept",  # as Python ends modules that are still in use
        "sys.kept = kept, memory",
        "memory.empty((10**13,), kept.dtype)",
    ],
)
def test_memory_released_at_exit_or_never_had_says_nothing(end: str) -> None:
    program = f"""
import sys
import numpy as np
from regard.engines import memory
kept = memory.empty((1000, 1000), np.dtype(np.float32))
try:
    {end}
except MemoryError:
    pass
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def group(root: Path, groups: str, **limits: str) -> Path:
    """A root folder whose processes are in these control groups, with these limits by file."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    for name, limit in limits.items():
        (root / "sys/fs/cgroup" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "sys/fs/cgroup" / name).write_text(limit)
    return root


UNLIMITED = "9223372036854771712\n"  # what version 1 says


@pytest.mark.parametrize(
    ("groups", "limits", "expected"),
    [
        ("0::/user/job\n", {"user/job/memory.max": "max\n", "user/memory.max": "1048576\n"}, 1 << 20),
        ("0::/\n", {"memory.max": "2097152\n"}, 2 << 20),
        ("0::/docker/3f\n", {"memory.max": "2097152\n"}, 2 << 20),  # the group's folder is mounted as the root
        (
            "4:cpu,cpuacct:/a\n2:memory:/a/b\n0::/x\n",
            {"memory/a/b/memory.limit_in_bytes": "3145728", "memory/a/memory.limit_in_bytes": UNLIMITED},
            3 << 20,
        ),
        ("5:memory,hugetlb:/kube/7\n", {"memory/memory.limit_in_bytes": "4194304\n"}, 4 << 20),
        ("2:memory:/a\n0::/a\n", {"memory/a/memory.limit_in_bytes": UNLIMITED, "a/memory.max": "max"}, None),
        ("nonsense\n", {}, None),
        ("0::/../../..\n", {}, None),
    ],
)
def test_memory_limits_of_control_groups_of_both_versions_hold(
    tmp_path: Path, groups: str, limits: dict[str, str], expected: int | None
) -> None:
    machine = memory.of_machine(tmp_path)  # no control groups
    assert memory.of_machine(group(tmp_path / "root", groups, **limits)) == (expected or machine)

"""The CPU quota of control groups decides the number of threads, in both versions of control groups."""

import shutil
import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "native"
PROGRAM = """
#include <cstdio>
#include "cgroup.h"
int main(int, char** roots) {
    while (*++roots) std::printf("%d\\n", regard::cgroup_cpu_limit(*roots));
}
"""
NONE = 1 << 20
V1 = "4:cpu,cpuacct:/a/b\n2:memory:/a\n0::/x\n"
CASES = [
    ("0::/job\n", {"job/cpu.max": "150000 100000\n"}, 2),
    ("0::/user/job\n", {"user/job/cpu.max": "max 100000\n", "user/cpu.max": "300000 100000\n"}, 3),
    ("0::/docker/3f\n", {"cpu.max": "50000 100000\n"}, 1),  # the group's folder is mounted as the root
    (V1, {"cpu/a/b/cpu.cfs_quota_us": "400000\n", "cpu/a/b/cpu.cfs_period_us": "100000\n"}, 4),
    (V1, {"cpu/cpu.cfs_quota_us": "100000\n", "cpu/cpu.cfs_period_us": "50000\n"}, 2),
    (V1, {"cpu/a/b/cpu.cfs_quota_us": "-1\n", "cpu/a/b/cpu.cfs_period_us": "100000\n"}, NONE),
    ("1:cpuset:/\n", {"cpu/cpu.cfs_quota_us": "100000\n", "cpu/cpu.cfs_period_us": "100000\n"}, NONE),
    ("0::/\n", {"cpu.max": "1e300 1e-9\n"}, NONE),
    ("nonsense\n::\n", {"cpu.max": "what\n"}, NONE),
]


def test_cpu_quotas_of_both_versions_hold(tmp_path):
    compiler = shutil.which("c++") or pytest.skip("needs a C++ compiler")
    (tmp_path / "print_limits.cpp").write_text(PROGRAM)
    program = tmp_path / "print_limits"
    subprocess.run(
        [compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{NATIVE}", tmp_path / "print_limits.cpp", "-o",
         program], check=True,
    )  # fmt: skip
    roots = []
    for number, (groups, limits, _) in enumerate(CASES):
        root = tmp_path / str(number)
        (root / "proc/self").mkdir(parents=True)
        (root / "proc/self/cgroup").write_text(groups)
        for name, limit in limits.items():
            (root / "sys/fs/cgroup" / name).parent.mkdir(parents=True, exist_ok=True)
            (root / "sys/fs/cgroup" / name).write_text(limit)
        roots.append(root)
    printed = subprocess.run([program, *roots], check=True, capture_output=True, text=True).stdout
    assert [int(line) for line in printed.split()] == [expected for *_, expected in CASES]

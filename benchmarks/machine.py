"""The machine: what it is, how busy it is, and waiting until our own processes sleep."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time
from collections.abc import Iterable
from pathlib import Path

PAUSE = 0.05  # longer than OpenMP, OpenBLAS and ONNX Runtime let their threads spin after a call
WINDOW = 0.005
LIBRARIES = ("regard", "numpy", "torch", "onnxruntime", "onnx", "openvino", "llama-cpp-python")
BUILT = ("llama-cpp-python",) if "GGML_LIBRARIES" in os.environ else ()  # see peers/ggml_peer.py
INSTRUCTION_SETS = {"avx512f": "AVX-512", "avx2": "AVX2", "asimd": "NEON"}


def cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def describe() -> dict[str, object]:
    facts = _cpu_facts()
    flags = (facts.get("flags") or facts.get("Features") or "").split()
    found = [name for flag, name in INSTRUCTION_SETS.items() if flag in flags]
    return {
        "processor": _processor(facts, flags),
        "cores": cores(),
        "instructions": found[0] if found else "unknown",
        "memory_gib": round(memory("MemTotal") / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": versions(),
    }


def _processor(facts: dict[str, str], flags: list[str]) -> str:
    name = facts.get("model name") or platform.processor() or platform.machine()
    generation = {"25": "Zen 4" if "avx512f" in flags else "Zen 3", "26": "Zen 5"}.get(facts.get("cpu family", ""))
    return f"{name} ({generation})" if generation else name  # virtual machines often say no more than "AMD EPYC"


def _cpu_facts() -> dict[str, str]:
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return {}
    lines = (line.partition(":") for line in path.read_text().splitlines())
    return {name.strip(): value.strip() for name, _, value in lines if name.strip()}


def versions() -> dict[str, str]:
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "from source" if name == "regard" or name in BUILT else "not installed"
    return found


def memory(entry: str = "MemAvailable") -> int:
    """Bytes, as /proc/meminfo says; plenty where there is none."""
    path = Path("/proc/meminfo")
    if not path.exists():
        return 2**40
    for line in path.read_text().splitlines():
        if line.startswith(entry + ":"):
            return int(line.split()[1]) * 1024
    return 0


def wait_until_quiet(enough: float = 0.05, longest: float = 2.0) -> float:
    """Wait a little for others to leave the machine alone; the share of it that they use in the end."""
    end = time.monotonic() + longest
    while (busy := _busy_share()) > enough and time.monotonic() < end:
        pass
    return busy


def _busy_share(seconds: float = 0.1) -> float:
    """The share of all cores in use during the next moments."""
    before = _busy_and_total()
    time.sleep(seconds)
    after = _busy_and_total()
    total = after[1] - before[1]
    return (after[0] - before[0]) / total if total else 0.0


def _busy_and_total() -> tuple[int, int]:
    path = Path("/proc/stat")
    if not path.exists():
        return 0, 0
    numbers = [int(word) for word in path.read_text().splitlines()[0].split()[1:9]]
    idle = numbers[3] + numbers[4]
    return sum(numbers) - idle, sum(numbers)


def wait_until_asleep(processes: Iterable[int], longest: float = 2.0) -> None:
    """Return when none of the processes uses the processor any more: threads spin for a while after their work."""
    processes = [*processes, os.getpid()]
    if platform.system() != "Linux":
        time.sleep(PAUSE)
        return
    time.sleep(WINDOW)
    end = time.monotonic() + longest
    before = _processor_time(processes)
    while time.monotonic() < end:
        time.sleep(WINDOW)
        now = _processor_time(processes)
        if now - before < WINDOW / 20:
            return
        before = now


def _processor_time(processes: Iterable[int]) -> float:
    total = 0.0
    for process in processes:
        try:
            total += time.clock_gettime((~process << 3) | 2)  # Linux's clock of another process: clock_getcpuclockid(3)
        except OSError:  # it has ended
            continue
    return total

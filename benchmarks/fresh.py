"""What needs a fresh process each time: the memory that a call takes, and the time that an import takes."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cases import Case, inputs, square
from driver import lower_quartile

HERE = Path(__file__).parent
MIB = 2**20
KINDS = ("forward", "entropy and top 8", "received", "map", "backward")
LONGEST = 900  # seconds


def memory_cases(quick: bool) -> list[tuple[str, Case]]:
    """Every kind of call; the longest with short vectors but for the plain forward, for time's sake."""
    found = [(kind, square("forward", 1, 32768, 64, causal=kind == "backward")) for kind in KINDS]
    if not quick:
        found.append(("forward", square("forward", 1, 131072, 64)))
        found += [(kind, square("forward", 1, 131072, 16, causal=True)) for kind in KINDS[1:]]
    return found


def memory_of(kind: str, case: Case) -> dict[str, Any]:
    """{"mib": peak beyond inputs and outputs, "seconds": …}, or {"problem": …}, from a process of its own."""
    command = [sys.executable, str(HERE / "fresh.py"), kind, json.dumps(case.as_dict())]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return {"problem": f"not done within {LONGEST} s"}
    if done.returncode:
        return {"problem": (done.stderr.strip().splitlines() or [f"ended with code {done.returncode}"])[-1]}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def import_seconds(repeats: int) -> dict[str, Any]:
    """`import regard` after `import numpy`, over fresh processes, and whether it brought PyTorch along."""
    program = (
        "import time, sys, numpy; start = time.perf_counter(); import regard; "
        "print(time.perf_counter() - start, 'torch' in sys.modules)"
    )
    seconds, torch = [], False
    for _ in range(repeats + 1):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        if done.returncode:
            return {"problem": done.stderr.strip().splitlines()[-1]}
        taken, with_torch = done.stdout.split()
        seconds.append(float(taken))
        torch |= with_torch == "True"
    return {"seconds": lower_quartile(seconds[1:]), "torch": torch}  # the first may write bytecode


def _peak_beyond(run: Callable[[], int]) -> int:
    """How far the resident memory rises above what it was before, less the bytes of the outputs."""
    before = _status("VmRSS")
    if before is None:  # not Linux: the peak so far stands for what was there before
        start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        outputs = run()
        unit = 1 if sys.platform == "darwin" else 1024
        return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start) * unit - outputs
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew from here
    outputs = run()
    return (_status("VmHWM") or 0) - before - outputs


def _status(entry: str) -> int | None:
    path = Path("/proc/self/status")
    if not path.exists():
        return None
    lines = (line.split() for line in path.read_text().splitlines())
    return next((int(words[1]) * 1024 for words in lines if words[0] == entry + ":"), None)


def _call(kind: str, case: Case) -> Callable[[], int]:
    """A call that gives back the size of its outputs."""
    import regard

    mask = regard.causal() if case.causal else None
    given = inputs(case)
    if kind == "backward":
        return _backward(case)
    queries, keys, values = (x[None] for x in (given.queries, given.keys, given.values))

    def run() -> int:
        attention = regard.Attention(queries, keys, mask=mask)
        if kind == "entropy and top 8":
            found: Any = attention.attend(values, statistics=("entropy",), top=8)
            return sum(x.nbytes for x in (found.output, found.entropy, found.top.index, found.top.weight))
        output = attention @ values
        if kind == "received":
            return int(output.nbytes + attention.column_sums().nbytes)
        if kind == "map":
            cells = min(512, case.queries)
            return int(output.nbytes + np.asarray(attention.pooled((cells, cells))).nbytes)
        return int(output.nbytes)

    return run


def _backward(case: Case) -> Callable[[], int]:
    import torch

    import regard

    given = inputs(case)
    queries, keys, values = (
        torch.from_numpy(x)[None].requires_grad_() for x in (given.queries, given.keys, given.values)
    )
    flow = torch.from_numpy(given.values)[None]

    def run() -> int:
        output = regard.Attention(queries, keys, mask=regard.causal() if case.causal else None) @ values
        output.backward(flow)
        return sum(int(x.nbytes) for x in (output, queries.grad, keys.grad, values.grad))

    return run


def _main() -> None:
    import time

    kind, text = sys.argv[1:]
    case = Case(**json.loads(text))
    _call(kind, square("forward", 1, 2, case.size))()  # loads what is loaded late
    run = _call(kind, case)
    start = time.perf_counter()
    peak = _peak_beyond(run)
    print(json.dumps({"mib": peak / MIB, "seconds": time.perf_counter() - start}))


if __name__ == "__main__":
    _main()

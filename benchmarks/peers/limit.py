"""The machine's own limit: how long the case's multiplications and additions take where nothing else is done."""

from __future__ import annotations

from cases import Case
from peers import Call, Calls

SECONDS = 0.1  # of fused multiply-adds, on all cores


def prepare(case: Case) -> Calls:
    from regard import _core  # the native module alone knows how to run the loop

    def seconds(gflop_per_second: float) -> float:
        return case.forward_flops / (gflop_per_second * 1e9)

    return {"run": Call(lambda: _core.machine_limit(SECONDS), lambda rate: {}, seconds=seconds)}

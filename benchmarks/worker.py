"""A process that holds one peer: it prepares, verifies and times when told to, and sleeps on its pipe otherwise."""

from __future__ import annotations

import gc
import sys
import time
from multiprocessing.connection import Connection
from typing import Any

import peers


def serve(pipe: Connection, peer: str) -> None:
    calls: peers.Calls = {}
    while True:
        request, *rest = pipe.recv()
        if request == "end":
            return
        try:
            answer: Any = None
            if request in ("prepare", "forget"):  # the last case's arrays go before the next one's come
                calls.clear()
                gc.collect()
            if request == "prepare":
                calls.update(peers.prepare(peer, *rest))
                answer = list(calls)
            elif request == "verify":
                answer = _verify(calls[rest[0]])
            elif request == "run":
                name, repeats, inner = rest
                answer = _run(calls[name], repeats, inner)
        except Exception as problem:  # noqa: BLE001 (whatever went wrong belongs in the table)
            pipe.send(("problem", f"{type(problem).__name__}: {problem}".splitlines()[0]))
        else:
            pipe.send(("answer", answer))


def _verify(call: peers.Call) -> tuple[float, Any]:
    if call.before is not None:
        call.before()
    start = time.perf_counter()
    found = (call.verify or call.run)()
    seconds = time.perf_counter() - start
    if call.seconds is not None:
        seconds = call.seconds(found)
    return seconds, call.results(found)


def _run(call: peers.Call, repeats: int, inner: int) -> list[float]:
    """Seconds of each repeat; a repeat of short calls is the mean of `inner` of them."""
    clock, run, before, read = time.perf_counter, call.run, call.before, call.seconds
    gc.disable()
    try:
        seconds = []
        for _ in range(repeats):
            if before is not None:
                before()
            start = clock()
            for _ in range(inner):
                result = run()
            end = clock()
            seconds.append((end - start) / inner if read is None else read(result))
            del result
        return seconds
    finally:
        gc.enable()


if __name__ == "__main__":
    sys.exit("The driver starts workers: python benchmarks/run.py")

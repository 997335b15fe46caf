"""A training step of one model in a process of its own: by Regard's layers, or on PyTorch's fused attention.

Both start from the same weights and see the same batches, so that their losses can be compared as well. A worker sleeps
on its pipe until it is told to train for a few steps.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import machine

OURS, THEIRS = "Regard", "PyTorch sdpa"
PEERS = (OURS, THEIRS)
LARGE, NANOGPT = "large", "nanogpt"
WARMING = 2  # steps of another model before the first turn


def serve(pipe: Connection, peer: str, case: str, steps: int, text: str | None) -> None:
    """Train for as many steps as each message says; answer with wall time, CPU time and losses."""
    trainer = _trainer(peer, case, steps, text)
    pipe.send("ready")
    while count := pipe.recv():
        wall, cpu = time.perf_counter(), time.process_time()
        losses = [trainer.step() for _ in range(count)]
        pipe.send(((time.perf_counter() - wall) / count, (time.process_time() - cpu) / count, losses))


def _trainer(peer: str, case: str, steps: int, text: str | None) -> Any:
    from training_models import Ours, Theirs

    trainer = Theirs if peer == THEIRS else Ours
    warm = trainer(case, WARMING, text)
    for _ in range(WARMING):
        warm.step()
    return trainer(case, steps, text)


@dataclass
class Timed:
    """Steps of one peer, turn by turn."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)


def by_turns(case: str, steps: int, turn: int, text: str | None = None, peers: tuple[str, ...] = PEERS) -> Any:
    """Steps of every peer, each in its own process, in turns of `turn` steps."""
    context = multiprocessing.get_context("spawn")
    found, pipes, processes = {peer: Timed() for peer in peers}, {}, []
    for peer in peers:
        pipes[peer], theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs, peer, case, steps, text), daemon=True)
        process.start()
        processes.append(process)
        theirs.close()
        pipes[peer].recv()
    for start in range(0, steps, turn):
        first = start // turn % len(peers)
        for peer in peers[first:] + peers[:first]:
            machine.wait_until_asleep([process.pid for process in processes])
            pipes[peer].send(min(turn, steps - start))
            wall, cpu, losses = pipes[peer].recv()
            found[peer].wall.append(wall)
            found[peer].cpu.append(cpu)
            found[peer].losses += losses
    for peer, process in zip(peers, processes, strict=True):
        pipes[peer].send(0)
        process.join(10)
    return found


def summary(found: dict[str, Timed], tokens: int, theirs: str = THEIRS) -> dict[str, Any]:
    """Medians, the ratio by turns, and the largest difference between the losses."""
    rows = {}
    for peer, timed in found.items():
        wall = statistics.median(timed.wall)
        faster = [other / own for own, other in zip(timed.wall, found[theirs].wall, strict=True)]
        quartiles = statistics.quantiles(faster, n=4) if len(faster) > 1 else faster * 3
        difference = max(abs(a - b) for a, b in zip(timed.losses, found[theirs].losses, strict=True))
        rows[peer] = {
            "wall": wall, "cpu": statistics.median(timed.cpu), "tokens_per_second": tokens / wall,
            "times_as_fast": statistics.median(faster), "quartiles": [quartiles[0], quartiles[2]],
            "loss": timed.losses[-1], "loss_difference": difference,
        }  # fmt: skip
    return rows

"""Ctrl-C during a long call: it comes back, with KeyboardInterrupt, and the engine works on afterwards."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from typing import Any

import pytest

from regard.engines.select import NATIVE_PROBLEM

from .scripts import environment

pytestmark = [
    pytest.mark.skipif(NATIVE_PROBLEM is not None, reason="only the native engine leaves Python for long"),
    pytest.mark.skipif(sys.platform == "win32", reason="a process cannot be sent a Ctrl-C of its own there"),
]

BACK_WITHIN = 20  # seconds: a call that ignores the interrupt takes longer; the aim is one second

# Each takes at least half a minute on this much: 131,072 tokens, one head.
CALLS = {
    "outputs": "A @ v",
    "outputs with statistics": "A.attend(v, ('entropy', 'distance'), top=8)",
    "strongest keys": "A.top(8)",
    "column sums": "A.column_sums()",
    "a map": "A.pooled((512, 512))",
    "what flows back": "A.mT @ v",
    "gradients": ("native.backward(A.scores, v[None, None], v[None, None], RowState(zeros, zeros + 1), v[None, None])"),
}

PROGRAM = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
import numpy as np
import regard
from regard.engines import native
from regard.engines.interface import RowState
q, k, v = np.random.default_rng(0).normal(size=(3, 131072, 64)).astype(np.float32)
A = regard.Attention(q, k)
zeros = np.zeros((1, 1, len(v)), np.float32)
small = regard.Attention(q[:500], k[:500])
before = small @ v[:500]
print("started", flush=True)
try:
    {call}
except KeyboardInterrupt:
    assert ((small @ v[:500]) == before).all()
    print("interrupted", flush=True)
    sys.exit(0)
print("ran to its end", flush=True)
"""


@pytest.mark.parametrize("what", CALLS)
def test_a_long_call_comes_back_when_interrupted(what: str, record_property: Any) -> None:
    program = textwrap.dedent(PROGRAM).replace("{call}", CALLS[what])
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n", process.stderr and process.stderr.read()
        wait_until_it_computes(process)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        try:
            said, complaints = process.communicate(timeout=BACK_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            pytest.fail(f"no answer to an interrupt for {BACK_WITHIN} s")
        took = time.monotonic() - sent
    record_property("measured", f"{what}: back {took:.2f} s after an interrupt")
    print(f"{what}: back {took:.2f} s after the interrupt")  # noqa: T201
    assert said == "interrupted\n", complaints


def wait_until_it_computes(process: subprocess.Popen[str]) -> None:
    """Until the process has used some CPU time since it printed that it starts, as /proc shows, or has ended."""
    if not sys.platform.startswith("linux"):
        time.sleep(0.5)
        return
    start = used_time(process.pid)
    while process.poll() is None and used_time(process.pid) < start + 0.3:
        time.sleep(0.01)


def used_time(process: int) -> float:
    from os import sysconf
    from pathlib import Path

    after_name = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / sysconf("SC_CLK_TCK")

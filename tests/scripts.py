"""Python programs in separate processes, for tests of what can hang, crash or be interrupted."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

LONG_ENOUGH = 120  # seconds: a program that takes longer hangs


def environment(**variables: str) -> dict[str, str]:
    """This process's environment without what chooses engines, threads and instructions, and with `variables`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("REGARD_")}
    return {**kept, "OPENBLAS_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1", **variables}


def run(program: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, whatever that is."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=LONG_ENOUGH,
        check=False,
    )


def printed(program: str, *arguments: str, **variables: str) -> str:
    """What a program prints that ends well."""
    ended = run(program, *arguments, **variables)
    assert ended.returncode == 0, f"ended with {ended.returncode}:\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout.strip()

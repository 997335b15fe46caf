"""`make fuzz`: the property tests with random seeds and more examples, round after round, until the time is over.

    python tests/fuzz.py --minutes 10 --jobs 2      a new seed for each round
    python tests/fuzz.py --seed 4129                one round with this seed: what that round drew, again

The exit code is 1 if a round failed, and the seed of that round is printed.
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOTHING_RAN = 5  # pytest's exit code


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the property tests with random seeds.")
    parser.add_argument("--minutes", type=float, default=10, help="begin no test after this time (default: 10)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--seed", type=int, help="run one round with this seed")
    parser.add_argument("paths", nargs="*", help="test files or folders (default: all)")
    options = parser.parse_args()
    until = time.time() + 60 * options.minutes
    rounds = 0
    while time.time() < until:
        seed = secrets.randbelow(10**6) if options.seed is None else options.seed
        rounds += 1
        print(f"Round {rounds}: seed {seed}", flush=True)
        if code := run(seed, until, options.jobs, options.paths):
            if code != 1:  # not a failed test: interrupted, or nothing to run
                return code
            paths = "".join(f" {path}" for path in options.paths)
            print(f"\nA property failed. To draw the same examples again:  make fuzz SEED={seed}")
            print(f"Or a single test:  REGARD_FUZZ=1 pytest --hypothesis-seed={seed}{paths} -k NAME")
            print("Keep what it found as a test with @example(...) or as a case of its own.")
            return 1
        if options.seed is not None:
            break
    print(f"{rounds} round{'s' * (rounds != 1)}, no property failed.")
    return 0


def run(seed: int, until: float, jobs: int, paths: list[str]) -> int:
    """One round; pytest's exit code."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "hypothesis and not slow", "-p", "no:cacheprovider"]
    command += ["-n", str(jobs), "--dist", "worksteal", "--no-header", "-r", "f", f"--hypothesis-seed={seed}", *paths]
    environment = {**os.environ, "REGARD_FUZZ": "1", "REGARD_FUZZ_UNTIL": str(until)}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

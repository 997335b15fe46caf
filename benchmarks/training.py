"""Training, measured: the speed of a step, what the presets learn, and other networks; writes TRAINING.md.

    python benchmarks/training.py step                       # 4 layers, 8 heads, width 512, 1,024 tokens: a minute
    python benchmarks/training.py nanogpt --text input.txt   # tokens per second of nanoGPT's recipe for a CPU
    python benchmarks/training.py lookup relations induction copy sort facts
    python benchmarks/training.py text --text input.txt      # the same recipe, trained to its end
    python benchmarks/training.py compare zoology            # networks without attention; zoology takes hours
    python benchmarks/training.py                            # the page alone, from training.json

Every result goes to training.json as soon as it is there, and the page is written from that file. `--seeds 0 1 2`
chooses seeds; `--quiet` says that nothing else uses the machine, so that wall times are worth keeping.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import machine
import training_page
import training_step
from regard import atomic_file, lock_file
from training_step import LARGE, NANOGPT

RESULTS = Path(__file__).with_name("training.json")
PAGE = Path(__file__).with_name("TRAINING.md")
TASKS = ("lookup", "relations", "induction", "copy", "sort", "facts", "text")
PARTS = ("step", "nanogpt", *TASKS, "compare", "zoology")
ZOOLOGY_LENGTHS = (64, 128)


def keep(result: Any, *names: str) -> None:
    """Put a result into the file under these names, and write the page again."""
    with lock_file.held(Path(tempfile.gettempdir()) / "regard-training-results.lock", lambda: time.sleep(0.1)):
        found = results()
        place = found
        for name in names[:-1]:
            place = place.setdefault(name, {})
        place[names[-1]] = result
        found["machine"] = machine.describe()
        atomic_file.write(RESULTS, json.dumps(found, indent=1) + "\n")
        atomic_file.write(PAGE, training_page.page(found))


def results() -> dict[str, Any]:
    """What was measured so far."""
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    return found


def speed(case: str, given: argparse.Namespace) -> None:
    """Steps by turns of Regard and of PyTorch."""
    steps, turn, tokens = (100, 2, 1024) if case == LARGE else (400, 10, 768)
    found = training_step.by_turns(case, steps, turn, given.text)
    keep({"steps": steps, "turn": turn, "rows": training_step.summary(found, tokens), "day": today()}, "speed", case)


def today() -> str:
    return time.strftime("%Y-%m-%d")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("parts", nargs="*", help=", ".join(PARTS))
    options.add_argument("--text", help="a text file, for nanogpt and text")
    options.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options.add_argument("--lengths", type=int, nargs="+", default=ZOOLOGY_LENGTHS, help="of zoology")
    options.add_argument("--networks", nargs="+", help="of compare and zoology; by default all")
    options.add_argument("--quiet", action="store_true")
    given = options.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        options.error(f"unknown: {', '.join(sorted(unknown))}; expected some of {', '.join(PARTS)}")
    for part in given.parts:
        if part in ("step", "nanogpt"):
            speed(LARGE if part == "step" else NANOGPT, given)
            continue
        for seed in given.seeds:
            learn(part, seed, given)
    found = results()
    atomic_file.write(PAGE, training_page.page(found))
    print(PAGE.read_text(encoding="utf-8"))


def learn(part: str, seed: int, given: argparse.Namespace) -> None:
    """Train with one seed."""
    import training_tasks
    from regard.training.compare import NETWORKS, ZOOLOGY

    if part == "compare":
        for network in given.networks or NETWORKS:
            keep(training_tasks.compared(network, seed), "compare", network, str(seed))
    elif part == "zoology":
        for network in given.networks or ZOOLOGY:
            for length in given.lengths:
                found = training_tasks.zoology(network, length, seed)
                print(network, length, seed, found["accuracy"], flush=True)
                keep(found, "zoology", str(length), network, str(seed))
    else:
        found = training_tasks.trained(part, seed, given.text)
        if not given.quiet:
            found["wall"] = None
        print(part, seed, {name: value for name, value in found.items() if name != "snapshots"}, flush=True)
        keep(found | {"day": today()}, "tasks", part, str(seed))


if __name__ == "__main__":
    main()

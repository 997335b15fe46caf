"""Whole models side by side: python benchmarks/models.py [--quick] [--long] [--only WORD] [--repeats N].

Every peer has a process of its own, and they take turns. Regard gets texts and keeps every layer's attention; the
others get tokens that are ready-made.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import machine
import peers
from driver import Lost, Refused, Worker, lower_quartile
from model_cases import WRITTEN, ModelCase, cases

HERE = Path(__file__).parent
PEERS = {"read": ("model_regard", "model_transformers"), "write": ("model_regard", "model_transformers")}
WITH_ONNX = ("model_regard", "model_transformers", "model_onnx")
TARGETS = {  # name of the case, of the participant: at least so many times as long as Regard
    ("1 sentence of 16 words", "transformers: sdpa"): 1.4,
    ("1 sentence of 16 words", "ONNX Runtime: run"): 1.0,
    ("64 sentences of 32 words", "transformers: sdpa"): 1.3,
    ("4 texts of 512 tokens", "transformers: eager with attentions"): 2.5,
    ("embedding 1,000 sentences", "ONNX Runtime: embed"): 1.15,
}
AGREE = 2e-3  # of mean vectors, whose numbers are near 1: peers sum in another order
SLOW = 2.0  # seconds of a call from which its verifying run counts as a repeat
SECONDS = 8.0  # for all turns of a case, roughly


def main() -> None:
    options = _options()
    if options.peak:
        print(_peak_here(*options.peak))
        return
    lines = []
    for case in cases(options.quick, options.long):
        if options.only is None or options.only in f"{case.model} {case.name}":
            print(f"{case.model}: {case.name}", file=sys.stderr, flush=True)
            lines += _measured(case, options.repeats or (3 if options.quick else 7))
    text = _table(lines)
    print(text)
    if options.output is not None or not (options.quick or options.only):
        folder = options.output or HERE
        (folder / "models.json").write_text(json.dumps({**machine.describe(), "lines": lines}, indent=1) + "\n")
        (folder / "MODELS.md").write_text(f"# Models side by side\n\n{_facts()}\n\n{text}\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Whole models side by side with transformers and ONNX Runtime.")
    parser.add_argument("--quick", action="store_true", help="fewer and smaller cases")
    parser.add_argument("--long", action="store_true", help="8,192 tokens of SmolLM2 too: some minutes more")
    parser.add_argument("--only", help="cases whose name contains this")
    parser.add_argument("--repeats", type=int, help="rounds of turns (default 7; quick 3)")
    parser.add_argument("--output", type=Path, help="folder for models.json and MODELS.md")
    parser.add_argument("--peak", nargs=3, metavar=("CASE", "PEER", "CALL"), help=argparse.SUPPRESS)
    return parser.parse_args()


def _measured(case: ModelCase, rounds: int) -> list[dict[str, Any]]:
    names = WITH_ONNX if case.model == "minilm" else PEERS[case.kind]
    workers = {name: Worker(name) for name in names}
    found: dict[str, dict[str, Any]] = {}
    calls: list[tuple[str, str]] = []
    right: Any = None
    try:
        for name, worker in workers.items():
            try:
                for call in worker.ask("prepare", case):
                    seconds, result = worker.ask("verify", call)
                    right = result if right is None else right
                    counted = [seconds] if seconds > SLOW else []  # a long call needs no warming up
                    wrong = _disagreement(result, right)
                    found[f"{name} {call}"] = {"first": seconds, "seconds": counted, "wrong": wrong}
                    calls.append((name, call))
            except (Lost, Refused) as problem:
                found[f"{name} -"] = {"problem": str(problem), "seconds": []}
        a_round = sum(found[f"{name} {call}"]["first"] for name, call in calls)
        least = 0 if all(one["seconds"] for one in found.values()) and a_round > 2 * SECONDS else 1
        for turn in range(max(least, min(rounds, round(SECONDS / a_round)))):
            first = turn % len(calls)
            for name, call in calls[first:] + calls[:first]:
                machine.wait_until_asleep([worker.process.pid for worker in workers.values() if worker.process.pid])
                one = found[f"{name} {call}"]
                few = one["first"] < 0.2
                try:
                    one["seconds"] += workers[name].ask("run", call, 12 if few else 1, 1)[2 if few else 0 :]
                except (Lost, Refused) as problem:
                    one["problem"] = str(problem)
    finally:
        for worker in workers.values():
            worker.end()
    return [_line(case, key, one, found) for key, one in found.items()]


def _line(case: ModelCase, key: str, one: dict[str, Any], found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    name, call = key.split(" ", 1)
    participant = f"{peers.PEERS[name].label}: {call}"
    ours = next(iter(found.values()))["seconds"]
    line: dict[str, Any] = {"model": case.model, "case": case.name, "participant": participant, "note": ""}
    if not one["seconds"]:
        return {**line, "seconds": None, "note": one.get("problem", "not timed")}
    line["seconds"] = lower_quartile(one["seconds"])
    line["ratio"] = line["seconds"] / lower_quartile(ours) if ours else None
    line["note"] = one["wrong"]
    target = TARGETS.get((case.name, participant))
    if target and line["ratio"]:
        line["note"] += f"wanted {target}×: {'reached' if line['ratio'] >= target else 'missed'}"
    if case.kind == "write":
        line["note"] += f"{WRITTEN / line['seconds']:.1f} tokens/s"
    if case.model == "smollm2" and case.kind == "read":
        line["note"] += f"peak {_peak(case, name, call)}"
    return line


def _disagreement(result: Any, right: Any) -> str:
    (name, ours), (_, theirs) = *right.items(), *result.items()
    if ours.shape != theirs.shape:
        return "WRONG: another shape. "
    if name == "tokens":
        return "" if np.array_equal(ours, theirs) else "WRONG: other tokens. "
    difference = float(np.abs(ours - theirs).max() / np.abs(ours).max())
    return "" if difference < AGREE else f"WRONG by {difference:.1e}. "


def _peak(case: ModelCase, peer: str, call: str) -> str:
    """The most memory that a fresh process took for one call, weights and libraries included."""
    command = [sys.executable, str(HERE / "models.py"), "--peak", case.name, peer, call]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    return done.stdout.strip() or "unknown"


def _peak_here(name: str, peer: str, call: str) -> str:
    case = next(case for case in cases(False, True) if case.name == name)
    found = peers.prepare(peer, case)  # type: ignore[arg-type]
    found[call].run()
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB"


def _facts() -> str:
    facts = machine.describe()
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return f"{facts['processor']}, {facts['cores']} cores; {versions}. Lower quartiles; ratios to Regard in one run."


def _table(lines: list[dict[str, Any]]) -> str:
    rows = ["| model, task | who | time | times Regard's | |", "|---|---|---:|---:|---|"]
    for line in lines:
        seconds, ratio = line["seconds"], line.get("ratio")
        taken = "–" if seconds is None else f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
        times = "–" if ratio is None else f"{ratio:.2f}×"
        rows.append(f"| {line['model']}, {line['case']} | {line['participant']} | {taken} | {times} | {line['note']} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()

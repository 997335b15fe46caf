"""Regard side by side with its peers: python benchmarks/run.py [--quick] [--only SECTION] [--cases TEXT] [--merge]."""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import fresh
import machine
import plot
import report
import summary
from cases import Case
from driver import Driver, Pace
from sections import NAMES, SECTIONS
from targets import Outcome

HERE = Path(__file__).parent


def main() -> None:
    options = _options()
    wanted = options.only.split(",") if options.only else NAMES
    pace = Pace(rounds=3, turn=0.03, budget=1.5) if options.quick else Pace()
    if options.repeats:
        pace = replace(pace, rounds=options.repeats, budget=pace.budget * options.repeats / pace.rounds)
    facts = {"date": datetime.date.today().isoformat(), "engine": _engine(), **machine.describe()}
    partial = options.quick or options.only or options.cases
    folder = options.output or (HERE if options.merge or not partial else None)
    outcome = _measured(wanted, pace, options.quick, options.cases)
    if options.merge and folder is not None:
        outcome = _earlier(folder / "results.json", facts).replaced_by(outcome, _all_cases())
    outcome = outcome.with_one_limit()
    print(report.as_text(outcome, facts))
    if folder is None:
        print("Not written: a quick or partial run is written with --output FOLDER only.", file=sys.stderr)
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(report.as_json(outcome, facts))
    (folder / "RESULTS.md").write_text(report.as_markdown(outcome, facts))
    (folder / plot.NAME).write_text(plot.draw(outcome, facts))
    if folder == HERE:
        summary.write(outcome, facts)
    print(f"Written: results.json, RESULTS.md and {plot.NAME} in {folder}", file=sys.stderr)


def _all_cases() -> list[tuple[str, Case]]:
    return [(section.name, case) for section in SECTIONS for case in section.cases(False)]


def _earlier(path: Path, facts: dict[str, Any]) -> Outcome:
    """What was measured before, if it was on this machine with these versions; otherwise nothing."""
    text = path.read_text() if path.exists() else "{}"
    before = json.loads(text)
    if any(before.get(name) != facts[name] for name in ("processor", "cores", "instructions", "versions")):
        print("results.json comes from another machine or other versions: nothing of it is kept.", file=sys.stderr)
        return Outcome()
    return report.from_json(text)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Regard side by side with its peers, as ratios in one table.")
    parser.add_argument("--quick", action="store_true", help="fewer and smaller cases: about a minute")
    parser.add_argument("--only", help=f"sections, with commas between: {', '.join(NAMES)}")
    parser.add_argument("--cases", default="", help="only cases whose name contains this, such as 'n 2048'")
    parser.add_argument("--repeats", type=int, help="rounds of turns (default 5; quick 3)")
    parser.add_argument("--merge", action="store_true", help="keep the cases of results.json not measured now")
    parser.add_argument("--output", type=Path, help="folder for results.json and RESULTS.md")
    options = parser.parse_args()
    unknown = [name for name in (options.only or "").split(",") if name and name not in NAMES]
    if unknown:
        parser.error(f"no section is called {', '.join(unknown)}; there are {', '.join(NAMES)}")
    return options


def _measured(wanted: tuple[str, ...] | list[str], pace: Pace, quick: bool, named: str) -> Outcome:
    outcome = Outcome()
    tasks = [
        (section, case)
        for section in SECTIONS
        if section.name in wanted
        for case in section.cases(quick)
        if named in case.name
    ]
    memory = fresh.memory_cases(quick) if "memory" in wanted else []
    progress = Progress(len(tasks) + len(memory) + ("import" in wanted))
    if "import" in wanted:  # first, while nothing else has been started
        progress.say("import")
        busy = machine.wait_until_quiet()
        outcome.importing = {**fresh.import_seconds(5 if quick else 15), "busy": busy}
    with Driver(pace) as driver:
        for section, case in tasks:
            progress.say(f"{section.name}: {case.name}")
            outcome.measured.append(driver.measure(section.name, case, section.peers(case)))
    for call, case in memory:
        progress.say(f"memory: {call}, {case.name}")
        outcome.memory.append({"call": call, "case": case, **fresh.memory_of(call, case)})
    progress.end()
    return outcome


class Progress:
    """A line on the error stream: what is done now, how far along, and since when."""

    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0
        self.start = time.monotonic()
        self.live = sys.stderr.isatty()

    def say(self, text: str) -> None:
        self.done += 1
        line = f"[{self.done:3}/{self.total}, {time.monotonic() - self.start:4.0f} s] {text}"
        print(f"\r\033[K{line}" if self.live else line, end="" if self.live else "\n", file=sys.stderr, flush=True)

    def end(self) -> None:
        print("\r\033[K" if self.live else "", end="", file=sys.stderr, flush=True)


def _engine() -> str:
    program = "import regard; print(regard.engines.engine())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    return done.stdout.strip() or "not there: " + (done.stderr.strip().splitlines() or ["?"])[-1]


if __name__ == "__main__":
    main()

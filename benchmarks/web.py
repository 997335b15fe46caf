"""The page's kernels and models: python benchmarks/web.py [--quick]. Writes WEB.md.

Beside the JavaScript that they replaced, which comes out of the repository's history, by turns and each in a process of
its own; their speed alone; whole models, in Node and in Chromium; how much is loaded until the
first picture; and the first screen in a browser.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import statistics
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import machine
import web_models
from frames import first_pictures, frames
from regard import Attention, Reading
from regard.viewer import bundle
from regard.viewer.page import page

ROOT = Path(__file__).parents[1]
WEB = ROOT / "src/regard/web"
BEFORE = "68bdc3e"  # the last commit whose page computed in JavaScript
Line = tuple[str, str, str]  # what, wanted, measured


def run(web: Path, *task: str) -> dict[str, float]:
    """Milliseconds of a task, and a number that says what came out."""
    command = ["node", str(Path(__file__).with_suffix(".js")), str(web), *task]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(ended.stdout)
    return found


def against_javascript(rounds: int, tokens: int) -> Iterator[Line]:
    """The same work by both, in turns."""
    archive = subprocess.run(["git", "-C", ROOT, "archive", BEFORE, "src/regard/web"], capture_output=True, check=True)
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
            files.extractall(folder, filter="data")
        old = Path(folder, "src/regard/web")
        cases = {
            "tile of 512 × 512 weights": ("tile",),
            f"map of {tokens:,} tokens, 512 × 512 cells": ("map", str(tokens)),
            "one token through a block of MiniLM's size": ("block",),
        }
        for name, task in cases.items():
            turns = [(run(old, *task), run(WEB, *task)) for _ in range(1 if task[0] == "map" else rounds)]
            for before, after in turns:
                assert abs(before["check"] - after["check"]) <= 1e-4 * abs(before["check"]), (before, after)
            ratio = statistics.median(before["milliseconds"] / after["milliseconds"] for before, after in turns)
            old_ms, new_ms = (statistics.median(turn[at]["milliseconds"] for turn in turns) for at in (0, 1))
            yield f"{name}, against the JavaScript before", "6×", f"{ratio:.1f}× ({_ms(old_ms)} → {_ms(new_ms)})"


def speeds(rounds: int) -> Iterator[Line]:
    """GFLOP/s on one core."""
    for rows, width, out, kind, wanted in (
        (16, 384, 384, "f32", "22"), (16, 384, 1536, "f32", "22"), (128, 384, 384, "f32", "22"),
        (128, 384, 1536, "f32", "22"), (128, 1536, 384, "f32", "22"), (64, 576, 1536, "q4_1", ""),
    ):  # fmt: skip
        fastest = min(run(WEB, "linear", str(rows), str(width), str(out), kind)["milliseconds"] for _ in range(rounds))
        speed = 2e-6 * rows * width * out / fastest
        name = f"linear, {rows} rows, {width} → {out}, {kind}"
        yield name, f"{wanted} GFLOP/s" if wanted else "", f"{speed:.1f} GFLOP/s"
    for heads, count, size, kind, wanted in (
        (8, 128, 64, "f32", "23"), (8, 512, 64, "f32", "23"), (12, 20, 32, "f32", ""), (8, 512, 64, "f64", ""),
    ):  # fmt: skip
        task = ("attention", str(heads), str(count), str(size), kind)
        fastest = min(run(WEB, *task)["milliseconds"] for _ in range(rounds))
        speed = 4e-6 * heads * count**2 * size / fastest
        name = f"attention, {heads} heads, {count} tokens, size {size}, {kind}"
        yield name, f"{wanted} GFLOP/s" if wanted else "", f"{speed:.1f} GFLOP/s"
    for kind in ("f32", "f16", "q8_0", "q4_1"):
        fastest = min(run(WEB, "linear", "1", "576", "49152", kind)["milliseconds"] for _ in range(rounds))
        yield f"one row, 576 → 49,152, {kind}", "", f"{576 * 49152e-6 / fastest:.2f} G weights/s ({_ms(fastest)})"


def sizes() -> Iterator[Line]:
    """Kilobytes, gzipped."""
    studio, style = bundle.script("hosts/studio.js").encode(), bundle.style().encode()
    parts = [*(len(gzip.compress(part)) for part in (studio, style)), len(bundle.wasm())]
    script, sheet, kernels = (round(part / 1000) for part in parts)
    said = f"{sum(parts) / 1000:.0f} KB (JavaScript {script}, CSS {sheet}, kernels {kernels})"
    yield "studio, all that is loaded for the first picture", "300 KB", said
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 1, 2, 4), dtype=np.float32)
    smallest = page(Reading.of(Attention(q, k), v)).encode()
    yield "one-file page without a model, code", "450 KB", f"{len(gzip.compress(smallest)) / 1000:.0f} KB"


def _ms(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.1f} s" if milliseconds > 999 else f"{milliseconds:.3g} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, a map of 4,000 tokens; prints only")
    quick = parser.parse_args().quick
    rounds, tokens = (1, 4000) if quick else (5, 20_000)
    lines = []
    models = (web_models.against_onnx(rounds), web_models.in_chromium(rounds))
    for part in (against_javascript(rounds, tokens), speeds(rounds), *models, sizes(), frames(), first_pictures()):
        for line in part:
            print(f"| {' | '.join(line)} |", flush=True)
            lines.append(line)
    if quick:
        return
    facts = machine.describe()
    node = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    text = (
        "# The page's kernels and models\n\n"
        f"Written by `make bench-web`. {time.strftime('%Y-%m-%d')}, {facts['processor']}, one core, Node {node}. Times "
        "are of the processor, so that others who use the machine do not count, but those in Chromium (keys, pictures, "
        "tokens per second), which are by the clock; ratios are medians of turns.\n\n"
        "| what | wanted | measured |\n|---|---:|---:|\n"
    )
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    Path(__file__).with_name("WEB.md").write_text(text + table, encoding="utf-8")


if __name__ == "__main__":
    main()

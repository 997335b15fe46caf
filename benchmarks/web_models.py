"""Whole models in the page: beside onnxruntime-web in Node, by turns; in Chromium, from the last key to the picture."""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, Page, sync_playwright

import regard
from peers.model_onnx import onnx_of
from regard.viewer import page, web_model

Line = tuple[str, str, str]  # what, wanted, measured
ORT = Path(__file__).parents[1] / ".venv/onnxruntime-web/node_modules/onnxruntime-web/dist/ort.wasm.min.mjs"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
PATIENCE = 180_000  # milliseconds
WORDS = ("time", "year", "people", "way", "day", "man", "thing", "woman", "life", "child", "world", "school", "state")
LAST = ("dog", "cat", "tree", "house", "river", "king", "queen", "bread", "stone", "ship", "bird", "horse", "apple")
KIDS = "The kids were scared of the lions, so they left right away."

# When a text that begins with this word is drawn, in milliseconds since the page was opened.
DRAWN = """(word) => new Promise((done, fail) => {
  const look = () => {
    const words = [...document.querySelectorAll(".regard-view > :not([hidden]) .regard-sentence-word")].slice(0, 2);
    if (words.some((one) => one.textContent.trim() === word)) done(performance.now());
    else if (performance.now() > 150_000) fail(new Error("No picture."));
    else requestAnimationFrame(look);
  };
  look();
})"""
# From the last key to the picture: views are drawn aside, and replace the old one when they are complete.
TYPED = """(text) => new Promise((done, fail) => {
  const field = document.querySelector("textarea");
  const shown = () => document.querySelector(".regard-view > .regard-sentence:not([hidden])");
  const before = shown();
  field.value = text;
  const start = performance.now();
  const look = () => {
    const now = shown();
    if (now && now !== before) done(performance.now() - start);
    else if (performance.now() - start > 60_000) fail(new Error("No picture."));
    else requestAnimationFrame(look);
  };
  field.dispatchEvent(new Event("input"));
  look();
})"""


def against_onnx(rounds: int) -> Iterator[Line]:
    """MiniLM in Node: the page's model, which keeps every layer's attention, and onnxruntime-web, by turns."""
    model = regard.model("minilm")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "minilm.onnx")
        file.write_bytes(onnx_of(model))
        for dtype in ("float16", "float32"):
            web_model.write(model, Path(folder, dtype), dtype)
        for tokens in (16, 128):
            ours = [("page", Path(folder, dtype), tokens) for dtype in ("float16", "float32")]
            peers = [("onnx", file, tokens, ORT), *ours]
            turns = [[_run(*peer) for peer in peers] for _ in range(rounds)]
            assert all(abs(one["check"] - turn[0]["check"]) < 1e-2 * turn[0]["check"] for turn in turns for one in turn)
            theirs, half, single = (statistics.median(turn[at]["milliseconds"] for turn in turns) for at in range(3))
            ratio, other = theirs / half, theirs / single
            said = f"{ratio:.1f}× ({theirs:.1f} → {half:.1f} ms; {other:.1f}× with float32 weights)"
            yield f"MiniLM, {tokens} tokens, against onnxruntime-web", "1.0×", said


def _run(peer: str, path: Path, tokens: int, *more: Path) -> dict[str, float]:
    command = ["node", Path(__file__).with_suffix(".js"), peer, path, str(tokens), *more]
    found: dict[str, float] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found


def in_chromium(rounds: int) -> Iterator[Line]:
    """Pages whose model lies beside them on a web server, in a browser with a profile on the disk."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        start = partial(playwright.chromium.launch_persistent_context, executable_path=found, args=FLAGS)
        for name in ("minilm", "smollm2"):
            model = regard.model(name)
            site = Path(folder, name)
            web_model.write(model, site / "model")
            page.save(model.read(KIDS), site / "index.html", model_at="model/model.json")
        with _served(Path(folder)) as address:
            context = start(Path(folder, "profile"))
            try:
                yield from _minilm(context, f"{address}/minilm/index.html", rounds)
                yield from _smollm2(context, f"{address}/smollm2/index.html")
            finally:
                context.close()


def _minilm(context: BrowserContext, address: str, rounds: int) -> Iterator[Line]:
    shown, before = _loaded(context, address)
    renderer = _renderer(shown)
    chance = random.Random(5)
    wall, processor = [], []
    for place in range(rounds * len(LAST) // 3):
        text = " ".join([*(chance.choice(WORDS) for _ in range(19)), LAST[place % len(LAST)]])
        start = _processor_time(renderer)
        wall.append(shown.evaluate(TYPED, text))
        processor.append(_processor_time(renderer) - start)
        shown.wait_for_timeout(300)  # the picture's other parts follow
    said = f"{_median(wall)} / {_late(wall)} ms (of the processor {_median(processor)} / {_late(processor)})"
    yield "MiniLM, 20 words, last key to picture, median / 95th percentile", "60 / 120 ms", said
    grown = _memory(renderer) - before
    yield "memory of the page's process with MiniLM in float16, more than without", "150 MB", f"{grown:.0f} MB"
    shown.close()
    first = []
    for place in range(rounds):
        opened = context.new_page()
        word = LAST[place % len(LAST)]
        opened.goto(f"{address}#text={word}%20left%20home", wait_until="commit")
        opened.wait_for_selector(".regard")
        first.append(opened.evaluate(DRAWN, word))
        opened.close()
    yield "MiniLM, from the browser's storage to the first picture", "1.5 s", f"{statistics.median(first) / 1000:.2f} s"


def _smollm2(context: BrowserContext, address: str) -> Iterator[Line]:
    shown, before = _loaded(context, address)
    words = (WORDS * 5)[:63]
    reading = []
    for word in LAST[:5]:
        reading.append(shown.evaluate(TYPED, " ".join([*words, word])))
        shown.wait_for_timeout(1000)
    yield "SmolLM2 (Q4_1), 64 words, last key to picture", "1.5 s", f"{statistics.median(reading) / 1000:.2f} s"
    shown.evaluate(TYPED, "Once upon a time there was a dog")
    shown.get_by_role("tab", name="Output").click()
    shown.get_by_label("Tokens", exact=True).fill("64")
    field = shown.get_by_label("Text", exact=True)
    prompt = field.input_value()
    start = shown.evaluate("performance.now()")
    shown.get_by_role("button", name="Write", exact=True).click()
    changed = "(before) => document.querySelector('textarea').value !== before"
    shown.wait_for_function(changed, arg=prompt, timeout=PATIENCE)
    seconds = (shown.evaluate("performance.now()") - start) / 1000
    yield "SmolLM2, writing 64 tokens, its picture included", "8 tokens/s", f"{64 / seconds:.1f} tokens/s"
    grown = _memory(_renderer(shown)) - before
    yield "memory of the page's process with SmolLM2, more than without", "700 MB", f"{grown:.0f} MB"
    shown.close()


def _loaded(context: BrowserContext, address: str) -> tuple[Page, float]:
    """A page whose model is loaded, and the memory of its process before, in MB."""
    opened = context.new_page()
    opened.set_default_timeout(PATIENCE)
    opened.goto(address)
    load = opened.get_by_role("button", name="Load")
    load.wait_for()
    before = _memory(_renderer(opened))
    load.click()
    load.wait_for(state="hidden")
    opened.evaluate(TYPED, "they left home")
    opened.wait_for_timeout(2000)
    return opened, before


def _renderer(opened: Page) -> int:
    """The process of a page: the renderer that uses the processor most while the page computes."""
    times = {pid: _processor_time(pid) for pid in _renderers(os.getpid())}
    opened.evaluate("() => { const end = performance.now() + 300; while (performance.now() < end); }")
    return max(times, key=lambda pid: _processor_time(pid) - times[pid])


def _renderers(root: int) -> list[int]:
    """The renderers among all processes below one."""
    parents: dict[int, int] = {}
    kinds: dict[int, bool] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int(_stat(int(entry.name))[1])
                kinds[int(entry.name)] = b"--type=renderer" in (entry / "cmdline").read_bytes()
            except OSError:
                continue  # ended meanwhile

    def is_below(pid: int) -> bool:
        return pid == root or (pid in parents and is_below(parents[pid]))

    return [pid for pid, is_renderer in kinds.items() if is_renderer and is_below(pid)]


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name of the program."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _processor_time(pid: int) -> float:
    """Milliseconds of all threads of a process."""
    fields = _stat(pid)
    return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> float:
    """Private memory of a process in MB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1000


def _median(times: list[float]) -> str:
    return f"{statistics.median(times):.0f}"


def _late(times: list[float]) -> str:
    return f"{statistics.quantiles(times, n=20)[-1]:.0f}"


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Stay silent."""

    handler: Callable[..., Any] = partial(Quiet, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

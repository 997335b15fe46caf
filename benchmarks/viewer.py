"""The viewer's numbers: python benchmarks/viewer.py [--quick]. Needs Chromium, playwright and the default model.

A one-file page of 512 tokens × 12 × 12 heads: its size, and how soon it can be used. A studio with 100,000 tokens: how
soon there is a picture, how long the exact one takes beside `A @ v`, regions, memory, the longest task while panning.
Typing in the studio: from the last key to the drawing. Times of a browser hold for a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

import machine
from regard import Attention, Reading
from regard.viewer.queries import Answers

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
]  # fmt: skip
READY = '.regard[aria-busy="false"]'
TEXT = "The kids were scared of the lions so they left right away and nobody saw them again until the next morning"
Line = tuple[str, str, str]  # what, wanted, measured


def main() -> None:
    parser = argparse.ArgumentParser(description="The viewer's numbers.")
    parser.add_argument("--quick", action="store_true", help="20,000 tokens instead of 100,000")
    options = parser.parse_args()
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    tokens = 20_000 if options.quick else 100_000
    lines = [*answers(tokens)]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        lines += [*one_file(browser), *panning(browser, tokens), *typing(browser)]
        browser.close()
    table = ["| what | wanted | measured |", "|---|---:|---:|", *(f"| {' | '.join(line)} |" for line in lines)]
    text = "\n".join(table)
    print(text)
    if not options.quick:
        facts = machine.describe()
        about = f"{time.strftime('%Y-%m-%d')}, {facts['processor']}, {facts['cores']} cores, Python {facts['python']}"
        Path(__file__).with_name("VIEWER.md").write_text(f"# The viewer's numbers\n\n{about}\n\n{text}\n")


def answers(tokens: int) -> Iterator[Line]:
    """What the server computes, without the web around it."""
    rng = np.random.default_rng(0)
    queries, keys, values = rng.standard_normal((3, 8, tokens, 64), dtype=np.float32)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    head = Attention(queries[0], keys[0])
    product = _seconds(lambda: head @ values[0])
    asked = Answers(Reading.of(Attention(queries, keys), values, model="synthetic"))
    whole: dict[str, Any] = {"layer": 0, "head": 0, "rows": [0, tokens], "columns": [0, tokens], "shape": [512, 512]}
    first = _seconds(lambda: asked.answer("tile", {**whole, "pool": "mean", "quality": "first"}))
    yield f"{tokens:,} tokens: first picture of a head", "1 s", f"{first:.2f} s"
    exact = _seconds(lambda: asked.answer("tile", {**whole, "pool": "mean", "quality": "exact"}))
    yield "the exact one, of the time of `A @ v`", "1.3×", f"{exact / product:.2f}× ({exact:.1f} s)"
    span = min(12_000, tokens // 2)
    for pool in ("mean", "max"):
        times = []
        for start in range(5):
            rows = [1000 * start, 1000 * start + span]
            region = {**whole, "rows": rows, "columns": rows, "pool": pool, "quality": "exact"}
            times.append(_seconds(lambda region=region: asked.answer("tile", region)))
        yield f"512 × 512 cells over {span:,} × {span:,}, {pool}", "150 ms", f"{1e3 * statistics.median(times):.0f} ms"
    given = 3 * queries.nbytes
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    more = 1024 * (peak - before) / given
    yield "memory of q, k, v and the answers, of q, k and v", "1.5×", f"{1 + more:.2f}×"


def one_file(browser: Browser) -> Iterator[Line]:
    """Sizes of pages, and how soon one can be used."""
    rng = np.random.default_rng(1)
    layers = [rng.standard_normal((3, 12, 512, 64), dtype=np.float32) for _ in range(12)]
    words = [f"word{place}" for place in range(512)]
    reading = Reading.of([Attention(q, k) for q, k, _ in layers], [v for _, _, v in layers], words=words)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "page.html")
        cases: tuple[tuple[str, dict[str, bool], int], ...] = (
            ("with steps", {}, 40),
            ("without", {"steps": False}, 28),
            ("light", {"light": True}, 3),
        )
        for name, how, most in cases:
            reading.save_html(path, **how)
            times = [_until_ready(browser, path.as_uri()) for _ in range(3)]
            size = path.stat().st_size / 1e6
            yield f"one page, 512 tokens, 12 × 12 heads, {name}", f"{most} MB", f"{size:.1f} MB"
            yield f"the same, until it can be used: {name}", "1 s", f"{statistics.median(times):.2f} s"


def panning(browser: Browser, tokens: int) -> Iterator[Line]:
    """The longest task of the page's main thread while panning over a long reading."""
    with studio("--synthetic", str(tokens)) as address:
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        started = time.perf_counter()
        page.goto(address)
        page.wait_for_selector(READY)
        page.get_by_role("tab", name="Matrix").click()
        page.wait_for_selector("canvas")
        took = time.perf_counter() - started
        yield "studio: from the address, by way of the first view, to the map", "–", f"{took:.2f} s"
        page.wait_for_timeout(3000)
        page.evaluate(
            """() => { window.longest = 0; new PerformanceObserver((list) => {
            for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.duration); })
            .observe({ entryTypes: ["longtask"] }); }"""
        )
        box = page.locator("canvas").first.bounding_box()
        assert box is not None
        middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.mouse.move(*middle)
        for _ in range(4):
            page.mouse.wheel(0, -400)
            page.wait_for_timeout(200)
            page.mouse.down()
            for step in range(20):
                page.mouse.move(middle[0] - 8 * step, middle[1] - 5 * step)
                page.wait_for_timeout(16)
            page.mouse.up()
            page.mouse.move(*middle)
        longest = page.evaluate("window.longest")
        yield "longest task while panning", "50 ms", f"{longest:.0f} ms" if longest else "under 50 ms"
        page.close()


def typing(browser: Browser) -> Iterator[Line]:
    """From the last key to new attention on the screen, for about 20 words."""
    with studio(TEXT) as address:
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.goto(address)
        page.wait_for_selector(READY)
        page.wait_for_selector(".regard-sentence, svg")
        area = page.locator("textarea").first
        times = []
        for word in ("then", "came", "home", "with", "a", "lion"):
            area.focus()
            page.keyboard.press("End")
            page.keyboard.type(f" {word}")
            times.append(_until_drawn(page, word))
        yield "typing 20 words with MiniLM, last key to drawing", "100 ms", f"{statistics.median(times):.0f} ms"
        page.close()


def _until_drawn(page: Page, word: str) -> float:
    return float(
        page.evaluate(
            """async (word) => { const start = performance.now();
            const words = () => [...document.querySelectorAll(".regard bdi, .regard text")];
            const drawn = () => words().some((one) => one.textContent === word);
            while (!drawn() && performance.now() - start < 5000) await new Promise(requestAnimationFrame);
            return performance.now() - start; }""",
            word,
        )
    )


def _until_ready(browser: Browser, address: str) -> float:
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    page.add_init_script(
        f"""(() => {{ const look = () => document.querySelector('{READY}')
        ? (window.usable = performance.now()) : requestAnimationFrame(look); look(); }})()"""
    )
    page.goto(address, wait_until="commit")
    page.wait_for_selector(READY)
    page.wait_for_timeout(100)
    took = page.evaluate("window.usable") / 1000
    page.close()
    return float(took)


@contextmanager
def studio(*arguments: str) -> Iterator[str]:
    """The address of a studio that runs meanwhile."""
    command = [sys.executable, "-m", "regard", "studio", "--no-browser", *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ)
    try:
        assert process.stderr is not None
        found = re.search(r"http\S+", process.stderr.readline())
        assert found is not None
        yield found[0]
    finally:
        process.terminate()
        process.wait(20)


def _seconds(work: Any) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()

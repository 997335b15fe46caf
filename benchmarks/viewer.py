"""The viewer's numbers: python benchmarks/viewer.py [--quick] [PART ...]. Needs Chromium, playwright, both models.

answers   a studio's answers for 100,000 tokens: the first picture, the exact one beside `A @ v`, regions, memory
page      a one-file page of 512 tokens × 12 × 12 heads: its size, and how soon it can be used
studio    from opening the first address to the first sentence; from the last key to the drawing of 20 words
panning   frames per second over a map of 100,000 tokens
memory    a studio before and after ten readings of 1,200 words were opened and deleted

Parts that are named replace their lines of VIEWER.md. Times hold for a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
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

import httpx
import numpy as np
from playwright.sync_api import Browser, sync_playwright

import machine
from regard import Attention, Reading
from regard.viewer.queries import Answers

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
]  # fmt: skip
READY = '.regard[aria-busy="false"]'
DRAWN = ".regard-sentence-lines path"
TEXT = "The kids were scared of the lions so they left right away and nobody saw them again until the next morning"
Line = tuple[str, str, str]  # what, wanted, measured


def main() -> None:
    parser = argparse.ArgumentParser(description="The viewer's numbers.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="20,000 tokens instead of 100,000; nothing is written")
    options = parser.parse_args()
    chosen = options.parts or list(PARTS)
    if unknown := set(chosen) - set(PARTS):
        parser.error(f"unknown: {', '.join(unknown)}")
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    tokens = 20_000 if options.quick else 100_000
    measured: dict[str, list[Line]] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        for part in chosen:
            measured[part] = [*PARTS[part](browser, tokens)]
            for line in measured[part]:
                print(f"| {' | '.join(line)} |", flush=True)
        browser.close()
    if not options.quick:
        write(measured)


def write(measured: dict[str, list[Line]]) -> None:
    """VIEWER.md with these lines; parts that were not measured keep theirs, from viewer.json."""
    kept = Path(__file__).with_name("viewer.json")
    facts = machine.describe()
    about = f"{time.strftime('%Y-%m-%d')}, {facts['processor']}, {facts['cores']} cores, Python {facts['python']}"
    known = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    known |= {part: {"about": about, "lines": lines} for part, lines in measured.items()}
    kept.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    rows = [(*line, known[part]["about"]) for part in PARTS if part in known for line in known[part]["lines"]]
    table = [
        "| what | wanted | measured | when and where |",
        "|---|---:|---:|---|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    text = "# The viewer's numbers\n\nWritten by `benchmarks/viewer.py`, each part on an otherwise idle machine.\n\n"
    kept.with_name("VIEWER.md").write_text(text + "\n".join(table) + "\n", encoding="utf-8")


def answers(_browser: Browser, tokens: int) -> Iterator[Line]:
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


def one_file(browser: Browser, _tokens: int) -> Iterator[Line]:
    """Sizes of pages, and how soon one can be used."""
    rng = np.random.default_rng(1)
    layers = [rng.standard_normal((3, 12, 512, 64), dtype=np.float32) for _ in range(12)]
    words = [f"word{place}" for place in range(512)]
    reading = Reading.of([Attention(q, k) for q, k, _ in layers], [v for _, _, v in layers], words=words)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "page.html")
        cases: tuple[tuple[str, dict[str, Any], int], ...] = (
            ("with steps", {}, 40),
            ("without", {"steps": False}, 28),
            ("one layer", {"layers": 0}, 5),
        )
        for name, how, most in cases:
            reading.save_html(path, **how)
            times = [_until_ready(browser, path.as_uri()) for _ in range(3)]
            size = path.stat().st_size / 1e6
            yield f"one page, 512 tokens, 12 × 12 heads, {name}", f"{most} MB", f"{size:.1f} MB"
            yield f"the same, until it can be used: {name}", "1 s", f"{statistics.median(times):.2f} s"


FRAMES = """() => { window.frames = [];
const look = (now) => { window.frames.push(now); window.going = requestAnimationFrame(look); };
window.going = requestAnimationFrame(look); }"""


def panning(browser: Browser, tokens: int) -> Iterator[Line]:
    """Frames while panning and zooming over a long reading."""
    with studio("--synthetic", str(tokens)) as address:
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        started = time.perf_counter()
        page.goto(f"{address}&view=matrix&head=4")
        page.wait_for_selector("canvas")
        page.wait_for_selector(READY)
        yield (
            f"{tokens:,} tokens in the studio: from the address to the map",
            "1 s",
            f"{time.perf_counter() - started:.2f} s",
        )
        page.wait_for_timeout(3000)
        box = page.locator("canvas").first.bounding_box()
        assert box is not None
        middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.mouse.move(*middle)
        page.evaluate(FRAMES)
        for _ in range(4):
            page.mouse.wheel(0, -400)
            page.wait_for_timeout(200)
            page.mouse.down()
            for step in range(40):
                page.mouse.move(middle[0] - 4 * step, middle[1] - 3 * step)
                page.wait_for_timeout(16)
            page.mouse.up()
            page.mouse.move(*middle)
        page.evaluate("cancelAnimationFrame(window.going)")
        between = np.diff(page.evaluate("window.frames"))
        yield "panning and zooming: frames per second", "60", f"{1e3 / between.mean():.1f}"
        late = f"99 % within {np.percentile(between, 99):.0f} ms, the longest {between.max():.0f} ms"
        yield "time between frames", "17 ms", late
        page.close()


def in_studio(browser: Browser, _tokens: int) -> Iterator[Line]:
    """From opening the address to the first sentence; from the last key to new attention on the screen."""
    times = []
    for _ in range(3):
        with studio(TEXT) as address:
            context = browser.new_context(viewport={"width": 1400, "height": 900})
            page = context.new_page()
            page.add_init_script(_watch(DRAWN))
            page.goto(address, wait_until="commit")
            page.wait_for_selector(DRAWN, state="attached")
            page.wait_for_timeout(200)
            times.append(page.evaluate("window.usable"))
            context.close()
    first = f"{statistics.median(times) / 1e3:.2f} s"
    yield "studio with minilm: from opening the first address to the first sentence", "1 s", first
    with studio(TEXT) as address:
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.goto(address)
        page.wait_for_selector(DRAWN)
        page.wait_for_selector(READY)
        page.wait_for_timeout(1000)
        area = page.locator("textarea").first
        times = []
        for word in ("then", "came", "home", "with", "lion"):
            area.focus()
            page.keyboard.press("Control+A")
            page.keyboard.type(TEXT)
            page.wait_for_timeout(600)
            page.keyboard.type(" ")
            page.wait_for_timeout(600)
            page.evaluate(UNTIL_DRAWN, word)
            page.keyboard.type(word)
            times.append(page.evaluate("window.took"))
        yield "20 words with minilm: from the last key to the drawing", "100 ms", f"{statistics.median(times):.0f} ms"
        page.close()


# From the last key event to the end of the frame in which the word is drawn among the queries: a message that is posted
# in an animation frame arrives after the frame was painted.
UNTIL_DRAWN = """(word) => { let last = 0;
const key = () => (last = performance.now());
document.addEventListener("keydown", key, true);
window.took = new Promise((done) => {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => { document.removeEventListener("keydown", key, true); done(performance.now() - last); };
  const look = () => {
    const words = [...document.querySelectorAll(".regard-sentence-side[data-side=query] .regard-sentence-text")];
    if (words.some((one) => one.textContent === word && one.offsetParent)) port2.postMessage(null);
    else requestAnimationFrame(look);
  };
  look();
}); }"""


def memory(_browser: Browser, _tokens: int) -> Iterator[Line]:
    """A studio's memory before ten readings of 1,200 words are opened, while they are, and after they are deleted."""
    rng = np.random.default_rng(0)
    with studio() as address:
        own, _, ticket = address.partition("/#ticket=")
        with httpx.Client(base_url=own, headers={"Origin": own}, timeout=120, trust_env=False) as client:
            key = client.post("/session", headers={"Authorization": f"Ticket {ticket}"}).json()["key"]
            client.headers["Authorization"] = f"Bearer {key}"
            client.delete(f"/readings/{_read(client, TEXT)}")
            time.sleep(5)
            before = _resident()
            names = [_read(client, " ".join(rng.choice(TEXT.split(), 1200))) for _ in range(10)]
            during = _resident()
            for name in names:
                client.delete(f"/readings/{name}")
            time.sleep(5)
            after = _resident()
    said = f"{(after - before) / 1e6:+.0f} MB ({before / 1e6:.0f} → {during / 1e6:.0f} → {after / 1e6:.0f})"
    yield "memory after ten readings of 1,200 words by smollm2 were deleted", "+150 MB", said


def _read(client: httpx.Client, text: str) -> str:
    """Read a text, ask for a map and a row, and give the name of the reading."""
    answer = client.post("/read", json={"text": text, "model": "smollm2"}).json()
    step = -1
    while "reading" not in answer:
        news = client.get(f"/jobs/{answer['job']}", params={"after": step}).json()
        assert news["state"] in ("waiting", "running", "done"), news
        step = news["step"]
        answer |= {"reading": news["reading"]} if news["state"] == "done" else {}
    name = str(answer["reading"])
    for kind, given in (
        ("statistics", {}),
        ("row", {"layer": 3, "heads": [1], "query": 9}),
        ("tile", {"layer": 1, "head": 1, "shape": [8, 8]}),
    ):
        assert client.post(f"/ask/{name}/{kind}", json=given).status_code == 200
    return name


def _resident() -> int:
    """Bytes of memory of the running studio."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{running[-1].pid}/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


def _until_ready(browser: Browser, address: str) -> float:
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    page.add_init_script(_watch(READY))
    page.goto(address, wait_until="commit")
    page.wait_for_selector(READY)
    page.wait_for_timeout(100)
    took = page.evaluate("window.usable") / 1000
    page.close()
    return float(took)


def _watch(selector: str) -> str:
    """Script that stores when something is first on the screen: after the frame in which it exists was painted."""
    return f"""(() => {{ const {{ port1, port2 }} = new MessageChannel();
    port1.onmessage = () => (window.usable = performance.now());
    const look = () => document.querySelector('{selector}') ? port2.postMessage(null) : requestAnimationFrame(look);
    look(); }})()"""


running: list[subprocess.Popen[str]] = []


@contextmanager
def studio(*arguments: str) -> Iterator[str]:
    """The address of a studio that runs meanwhile."""
    command = [sys.executable, "-m", "regard", "studio", "--no-browser", *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ)
    running.append(process)
    try:
        assert process.stderr is not None
        found = re.search(r"http\S+", process.stderr.readline())
        assert found is not None
        yield found[0]
    finally:
        running.pop()
        process.terminate()
        process.wait(20)


def _seconds(work: Any) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


PARTS = {"answers": answers, "page": one_file, "studio": in_studio, "panning": panning, "memory": memory}

if __name__ == "__main__":
    main()

"""The first screen in a real browser: frames per second while dots move, and the time until the first picture."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page, sync_playwright

from regard import Attention, Reading, model, site
from regard.viewer.page import save

WORDS = ["The", "kids", "were", "scared", "of", "the", "lions", ",", "so", "they", "left", "right", "away", "."]
SECONDS = 3.0

# Counts frames while dots fly between words and tray, one flight after the other.
COUNT = """async (seconds) => {
  const button = document.querySelector('.regard-vote-legend button');
  const times = [];
  const end = performance.now() + 1000 * seconds;
  let flown = 0;
  while (performance.now() < end) {
    const now = await new Promise(requestAnimationFrame);
    times.push(now);
    if (now - flown > 390) { button.click(); flown = now; }
  }
  return times;
}"""


def reading(layers: int, heads: int) -> Reading:
    """Random heads that look at one word each, every second one at the first word."""
    rng = np.random.default_rng(0)
    attentions, values = [], []
    for _ in range(layers):
        q, k, v = rng.normal(size=(3, heads, len(WORDS), 16)).astype(np.float32)
        q[::2, :, 0], k[:, 0, 0] = 4, 4
        attentions.append(Attention(3 * q, k))
        values.append(v)
    plain = Reading.of(attentions, values, words=WORDS)
    first = plain.tokens[0].__class__(**{**_fields(plain.tokens[0]), "special": True})
    return Reading(plain.text, (first, *plain.tokens[1:]), plain.seen)


def _fields(token: Any) -> dict[str, Any]:
    return {name: getattr(token, name) for name in token.__slots__}


def frames() -> Iterator[tuple[str, str, str]]:
    """What, wanted, measured."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", chromium), args=["--no-sandbox", "--disable-gpu"]
        )
        for layers, heads in ((6, 12), (30, 9), (48, 25)):
            path = save(reading(layers, heads), Path(folder, f"{layers}x{heads}.html"), steps=False)
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            first = _opened(page, path)
            if layers == 6:
                yield "first screen from disk, until its first picture", "1 s", f"{first / 1000:.2f} s"
            page.locator(".regard-vote-text").nth(3).click()
            page.evaluate("Promise.allSettled(document.getAnimations().map((one) => one.finished)).then(() => null)")
            cost = page.context.new_cdp_session(page)
            cost.send("Performance.enable", {"timeDomain": "threadTicks"})
            before = _main_thread(cost)
            times = page.evaluate(COUNT, SECONDS)
            each = 1000 * (_main_thread(cost) - before) / len(times)
            steps = np.diff(times)
            rate = 1000 * len(steps) / float(steps.sum())
            wanted = "55 a second" if layers == 6 else ""
            slowest = f"slowest of 100: {np.quantile(steps, 0.99):.0f} ms; main thread {each:.1f} ms each"
            yield f"frames while {layers * heads:,} dots change places", wanted, f"{rate:.0f} a second ({slowest})"
            page.close()
        browser.close()


def _main_thread(session: Any) -> float:
    """Seconds of the processor that the page's main thread has used: others who use the machine do not count."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))


PAGES = {  # of a site, and what is drawn first on each
    "index.html": ".regard-vote-word",
    "heads.html": ".regard-heads-scatter circle",
    "films/relations.html": ".regard-training-chart",
    "films.html": "h1",
    "lessons/01-who-left.html": ".regard-live .regard-vote-word",
    "lessons/04-one-table.html": ".regard-live table",
}


def first_pictures() -> Iterator[tuple[str, str, str]]:
    """Of every kind of page of a site, opened from disk: what, wanted, measured."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        site.write(folder, model("minilm"))
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", chromium), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        for name, selector in PAGES.items():
            size = Path(folder, name).stat().st_size / 1000
            first = _opened(page, Path(folder, name), selector)
            yield f"{name} of a site ({size:,.0f} KB), until its first picture", "1 s", f"{first / 1000:.2f} s"
        browser.close()


def _opened(page: Page, path: Path, selector: str = ".regard-vote-word") -> float:
    """Milliseconds from the request until something is drawn, the median of three visits."""
    found = []
    for _ in range(3):
        page.goto("about:blank")
        page.goto(path.as_uri())
        page.wait_for_selector(selector)
        found.append(page.evaluate("performance.now()"))
    return statistics.median(found)


if __name__ == "__main__":
    for line in (*frames(), *first_pictures()):
        print(f"| {' | '.join(line)} |", flush=True)

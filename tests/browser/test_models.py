"""Models that run in a page: in one file without a network, and loaded from a web server under the page's policy."""

from __future__ import annotations

import csv
import io
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

import regard
from regard.arrays import numpy_of
from regard.viewer import model_answers, web_model
from regard.viewer import page as pages

from ..models.checkpoints import transformers, write
from ..models.test_llama import SMALL
from ..patterns import search
from .conftest import open_adjust, open_view

KIDS = "The kids were scared of the lions, so they left right away."
OTHER = "Sarah lost her keys, because she was in a hurry."
LOADED = 120_000  # milliseconds until a model of 45 MB is loaded, on a busy machine


@pytest.fixture(scope="module")
def minilm() -> Any:
    try:
        return regard.model("minilm")
    except regard.errors.RegardError as problem:
        pytest.skip(str(problem))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A model of a few thousand weights that writes, with weights that float16 holds."""
    folder = tmp_path_factory.mktemp("small")
    write(folder, transformers.LlamaConfig(**SMALL), "causal", "LlamaForCausalLM")
    made = regard.models.model.opened(folder, "small")
    halves = made.transformer.map(lambda array: array.astype(np.float16).astype(np.float32))
    return replace(made, transformer=halves)


def type_text(page: Page, text: str) -> None:
    page.get_by_label("Text", exact=True).fill(text)


def shows(page: Page, word: str) -> None:
    expect(page.locator(".regard-sentence-word", has_text=word).first).to_be_visible(timeout=LOADED)


def test_one_file_reads_another_text_offline_as_python_does(minilm, tmp_path, new_page, settle, exported):
    path = pages.save(minilm.read(KIDS), tmp_path / "page.html", with_model=True)
    page = new_page(offline=True)
    page.goto(path.as_uri())
    settle(page)
    type_text(page, OTHER)
    shows(page, "Sarah")
    settle(page)
    open_view(page, "Map")
    settle(page)
    layer, head = (int(part) for part in search(r"layer=(\d+)&head=(\d+)", page.url).groups())
    rows = list(csv.reader(io.StringIO(exported(page, "CSV"))))
    weights = np.array([[float(cell) for cell in row[1:-1]] for row in rows[1:]])  # the last column is the source
    expected = numpy_of(minilm.read(OTHER).attention(layer).dense())[head]
    assert weights.shape == expected.shape
    np.testing.assert_allclose(weights, expected, atol=3e-3)  # weights of the model are rounded to float16


def test_what_the_model_computes_says_its_precision(minilm, tmp_path, new_page, settle):
    page = new_page(offline=True)
    page.goto(pages.save(minilm.read(KIDS), tmp_path / "page.html", with_model=True).as_uri())
    settle(page)
    type_text(page, OTHER)
    shows(page, "Sarah")
    settle(page)
    page.locator("summary.regard-more").click()
    said = page.get_by_text(re.compile("weights rounded to float16: outputs within 1e-03 of the float32 model"))
    expect(said.first).to_be_visible()


def test_one_file_writes_what_python_writes(small, tmp_path, new_page, settle):
    page = new_page(offline=True)
    page.goto(pages.save(small.read("the kids left"), tmp_path / "page.html", with_model=True).as_uri())
    settle(page)
    open_view(page, "Output")
    settle(page)
    open_adjust(page)
    page.get_by_label("Tokens", exact=True).fill("7")
    page.get_by_role("button", name="Write", exact=True).click()
    written = small.generate("the kids left", 7, temperature=1.0, seed=0).text
    expect(page.get_by_label("Text", exact=True)).to_have_value(written)
    settle(page)
    expect(page.get_by_role("alert")).to_be_hidden()


def test_silencing_a_head_is_followed_through_all_layers(small, tmp_path, new_page, settle):
    page = new_page(offline=True)
    path = pages.save(small.read("the kids left"), tmp_path / "page.html", with_model=True)
    text = "the kids were scared of the lions"
    page.goto(f"{path.as_uri()}#text={quote(text)}&view=steps&layer=1&head=2&query=scared")
    expect(page.locator("[data-silences]").first).to_be_visible()
    settle(page)
    page.locator("[data-silences]").first.click()
    settle(page)
    reading = small.read(text)
    changes = model_answers.changes_of(reading, {"silenced": [[1, 0]]})
    moved = 100 * model_answers.flow(reading, changes, 3, lambda: None)[1]["moved"][-1]
    share = f"{moved:.1f}" if moved < 10 else f"{moved:.0f}"
    said = f"The vector after the last layer moves by {share} % of its length."
    expect(page.get_by_role("tabpanel", name="One number").get_by_text(said)).to_be_visible()


# Loaded from a web server


@dataclass
class Files:
    """What a web server sends; a file can end early or wait in the middle."""

    content: dict[str, bytes]
    cut: dict[str, int] = field(default_factory=dict)
    waits: bool = False  # at the cut, instead of ending the connection
    ranges: list[str | None] = field(default_factory=list)  # asked for, of weights
    goes_on: threading.Event = field(default_factory=threading.Event)


@contextmanager
def served(files: Files) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.split("?")[0].lstrip("/")
            content = files.content.get(name)
            if content is None:
                return self.send_error(404)
            asked = self.headers.get("Range")
            if name.endswith(".safetensors"):
                files.ranges.append(asked)
            start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
            self.send_response(206 if asked else 200)
            kind = {"html": "text/html", "json": "application/json"}.get(name.rpartition(".")[2])
            self.send_header("Content-Type", kind or "application/octet-stream")
            self.send_header("Content-Length", str(len(content) - start))
            if asked:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            self.end_headers()
            cut = files.cut.get(name, len(content))
            try:
                self.wfile.write(content[start:cut])
                if cut < len(content) and files.waits:
                    files.goes_on.wait(60)
            except OSError:
                pass  # the browser hung up

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        files.goes_on.set()
        server.shutdown()
        server.server_close()
        thread.join()


def site_of(model: Any, folder: Path, text: str) -> Files:
    """A page and its model beside it."""
    web_model.write(model, folder / "model")
    content = {f"model/{path.name}": path.read_bytes() for path in (folder / "model").iterdir()}
    links = {"Try it": "index.html", "Read": "read.html", "Heads": "heads.html", "Learning": "films.html"}
    content["index.html"] = pages.page(model.read(text), model_at="model/model.json", links=links).encode()
    return Files(content)


@contextmanager
def browsing(chromium: Browser) -> Iterator[Any]:
    """Tabs that share a storage, and may log that a connection ended."""
    context = chromium.new_context(viewport={"width": 1200, "height": 900})
    yield context
    context.close()


def test_a_large_model_is_asked_for_loaded_and_kept(minilm, tmp_path, chromium, settle):
    files = site_of(minilm, tmp_path, KIDS)
    with served(files) as address, browsing(chromium) as context:
        page = context.new_page()
        page.goto(f"{address}/index.html")
        settle(page)
        expect(page.get_by_role("alert")).to_have_count(0)  # nothing is asked before another text is
        type_text(page, OTHER)
        expect(page.get_by_role("alert")).to_contain_text("minilm is loaded once and kept by this browser.")
        assert files.ranges == []
        page.get_by_role("button", name="Load 46 MB").click()
        shows(page, "Sarah")
        page.close()
        again = context.new_page()
        again.goto(f"{address}/index.html#text={quote(OTHER)}")
        shows(again, "Sarah")  # without a question
        assert files.ranges == [None]


def test_a_download_goes_on_after_the_tab_was_closed(minilm, tmp_path, chromium, settle):
    files = site_of(minilm, tmp_path, KIDS)
    files.cut, files.waits = {"model/weights.safetensors": 20_000_000}, True
    with served(files) as address, browsing(chromium) as context:
        page = context.new_page()
        page.goto(f"{address}/index.html#text=they%20left")
        page.get_by_role("button", name="Load 46 MB").click()
        expect(page.locator(".regard-studio-message")).to_contain_text(re.compile(r"minilm: 4\d %"), timeout=LOADED)
        page.close()
        files.cut = {}
        again = context.new_page()
        again.goto(f"{address}/index.html#text=they%20left")
        again.get_by_role("button", name=re.compile(r"Load \d+ MB")).click()
        shows(again, "left")
        first, second = files.ranges
        assert first is None and second is not None and 15_000_000 < int(second[6:-1]) <= 20_000_000


def test_a_changed_file_is_refused_and_the_text_shown_before_stays(small, tmp_path, chromium, settle):
    files = site_of(small, tmp_path, "the kids left")
    whole = files.content["model/weights.safetensors"]
    with served(files) as address, browsing(chromium) as context:
        page = context.new_page()
        for content, sentence in (
            (whole[:-1] + bytes([whole[-1] ^ 1]), "is not the file that its manifest names"),
            (whole[: len(whole) // 2], "ended after"),
            (whole + b" ", "another file is at"),
        ):
            files.content["model/weights.safetensors"] = content
            page.goto("about:blank")
            page.goto(f"{address}/index.html")
            settle(page)
            expect(page.get_by_role("alert")).to_contain_text(sentence)
            shows(page, "kids")
        files.content["model/weights.safetensors"] = whole
        page.get_by_role("button", name="Try again").click()
        expect(page.get_by_role("alert")).to_be_hidden()
        type_text(page, "the lions were scared")
        shows(page, "scared")


def test_a_model_that_is_not_there_is_said(small, tmp_path, chromium, settle):
    files = site_of(small, tmp_path, "the kids left")
    del files.content["model/model.json"]
    with served(files) as address, browsing(chromium) as context:
        page = context.new_page()
        page.goto(f"{address}/index.html")
        settle(page)
        expect(page.get_by_role("alert")).to_contain_text("the server answered 404")

"""The studio in a browser: a text is read as it is typed, long work shows its progress and can be cancelled."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from regard.attention import Attention
from regard.layers import Transformer
from regard.masks import causal
from regard.models import progress
from regard.models.errors import TooLong
from regard.reading import Reading
from regard.reading.reader import BlockShape

from .conftest import choose_model, expect_view, open_adjust, open_view

MOST_WORDS = 600


class Reader:
    """Reads a text word by word with random vectors; generates until it is stopped."""

    writes = True
    refuses = False

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.go_on.set()
        self.read_texts: list[str] = []

    def beginning(self, text: str) -> str:
        return " ".join(text.split()[:MOST_WORDS])

    def read(self, text: str, on_layer: Callable[[int, int], None] | None = None) -> Reading:
        self.read_texts.append(text)
        words = text.split() or ["∅"]
        if len(words) > MOST_WORDS:
            raise TooLong(f"The text has {len(words)} tokens; words reads at most {MOST_WORDS}.", len(words))
        queries, keys, values = np.random.default_rng(len(words)).normal(size=(3, 2, len(words), 4))
        attention = Attention(queries, keys, mask=causal())
        read = Reading.of(attention, values, words=words, text=text, model="words")
        # As if it came from a model that writes, of one block: the studio offers to continue the text.
        states = np.zeros((2, len(words), 8), np.float32)
        return replace(read, states=tuple(states), blocks=self.blocks, reader=cast(Any, self))

    transformer = Transformer.seeded(MOST_WORDS, 8, 2, encoders=1)
    blocks = transformer.encoders
    block_shapes = (BlockShape(2, 2, 4, 4, None),)

    causal = True
    tokeniser = SimpleNamespace(piece=lambda number: (f"token{number}", True))

    def next_logits(self, states: Any) -> Any:
        return np.tile(np.arange(9.0), (len(states), 1))

    def generate(self, prompt: str, tokens: int, *, on_token: Callable[[str], None], **_: Any) -> Reading:
        if self.refuses:
            raise TooLong("These are too many tokens.", tokens)
        on_token(" one")
        while not self.go_on.wait(0.05):
            on_token("")  # raises if the request was cancelled
        on_token(" two")
        return self.read(f"{prompt} one two")


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
def studio(reader: Reader, monkeypatch: pytest.MonkeyPatch, run_studio: Any) -> Iterator[str]:
    """The first address of a studio that runs."""
    from regard.studio.library import Library

    def fetch(name: str) -> None:
        report = progress.reporter(name, 100_000_000)
        report(40_000_000)
        while not reader.go_on.wait(0.05):
            report(50_000_000)  # raises if the request was cancelled
        here.add(name)

    here = {"minilm"}
    monkeypatch.setattr("regard.studio.library.models_here", lambda: here)
    library = Library("words", load=lambda name: cast(Any, reader), fetch=fetch)
    library.model("words")
    with run_studio(library, "The cat sat", before_end=reader.go_on.set) as address:
        yield address


def opened(new_page: Callable[..., Page], address: str) -> Page:
    page = new_page()
    page.goto(address)
    expect(words(page)).to_have_text(["The", "cat", "sat"])
    open_adjust(page)
    return page


def box(page: Page) -> Any:
    return page.get_by_label("Text", exact=True)


def words(page: Page) -> Any:
    return page.locator(".regard-sentence-side[data-side=query] .regard-sentence-text")


def continue_text(page: Page) -> None:
    page.get_by_label("More actions").click()
    page.get_by_role("button", name="Continue the text").click()
    page.get_by_role("button", name="Write").click()


def test_a_text_is_read_as_it_is_typed(new_page: Callable[..., Page], studio: str, reader: Reader) -> None:
    page = opened(new_page, studio)
    page.locator(".regard-sentence-word").nth(1).click()
    box = page.get_by_label("Text", exact=True)
    box.press("Control+End")
    page.keyboard.type(" on mats")
    expect(words(page)).to_have_text(["The", "cat", "sat", "on", "mats"])
    expect(page.locator(".regard-sentence-word[aria-selected=true]")).to_have_text("cat")  # what is chosen stays
    expect(box).to_be_focused()
    assert len(reader.read_texts) <= 1 + len(" on mats")


def test_a_text_typed_before_the_models_are_known_is_read(new_page: Callable[..., Page], studio: str) -> None:
    page = new_page()
    held: list[Any] = []
    page.route("**/models", lambda route: held.append(route))
    with page.expect_request("**/models"):
        page.goto(studio)
    box(page).fill("typed at once")
    for route in held:
        route.continue_()
    expect(words(page)).to_have_text(["typed", "at", "once"])
    expect(box(page)).to_have_value("typed at once")


def test_examples_are_offered_while_the_box_is_empty(new_page: Callable[..., Page], studio: str) -> None:
    page = opened(new_page, studio)
    example = page.get_by_role("button", name="jane visits africa")
    expect(example).to_be_hidden()
    page.get_by_label("Text", exact=True).fill("")
    example.click()
    expect(example).to_be_hidden()
    expect(words(page)).to_have_text(["jane", "visits", "africa"])


def test_a_file_is_opened(new_page: Callable[..., Page], studio: str) -> None:
    page = opened(new_page, studio)
    file: Any = {"name": "a.txt", "mimeType": "text/plain", "buffer": "Größe zählt".encode()}
    page.set_input_files("input[type=file]", file)
    expect(words(page)).to_have_text(["Größe", "zählt"])
    expect(page.get_by_label("Text", exact=True)).to_have_value("Größe zählt")


def test_writing_shows_progress_and_can_be_cancelled(
    new_page: Callable[..., Page], studio: str, reader: Reader
) -> None:
    page = opened(new_page, studio)
    reader.go_on.clear()
    continue_text(page)
    expect(page.locator(".regard-output-written")).to_have_text("one")
    expect(page.locator(".regard-studio-message")).to_contain_text("words is writing")
    page.locator(".regard-output-writing").get_by_role("button", name="Cancel").click()
    expect(page.locator(".regard-studio-work")).to_be_hidden()
    expect(page.locator(".regard-output-writing")).to_contain_text("Cancelled: the text is as before.")
    expect(box(page)).to_have_value("The cat sat")
    reader.go_on.set()
    page.get_by_role("button", name="Write").click()
    expect(box(page)).to_have_value("The cat sat one two")


def test_a_refusal_to_write_is_shown(new_page: Callable[..., Page], studio: str, reader: Reader) -> None:
    page = opened(new_page, studio)
    reader.go_on.clear()
    reader.refuses = True
    continue_text(page)
    expect(page.locator(".regard-output-writing .regard-error")).to_contain_text("too many tokens")


def test_axe_finds_nothing(new_page: Callable[..., Page], studio: str, axe: str, settle: Any) -> None:
    page = opened(new_page, studio)
    page.evaluate(axe)
    for width, height in ((360, 740), (1400, 900)):
        page.set_viewport_size({"width": width, "height": height})
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            settle(page)
            found = page.evaluate("axe.run(document)")
            assert [problem["id"] for problem in found["violations"]] == [], (width, theme)


def test_the_studio_fits_a_narrow_screen(new_page: Callable[..., Page], studio: str) -> None:
    page = new_page(width=360, height=740)
    page.goto(studio)
    expect(words(page)).to_have_text(["The", "cat", "sat"])
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_the_first_address_may_hold_a_selection(new_page: Callable[..., Page], studio: str) -> None:
    page = opened(new_page, f"{studio}&head=1&query=cat")
    expect(page.get_by_role("button", name="Head 1", exact=True)).to_have_attribute("aria-pressed", "true")
    expect(page).to_have_url(re.compile("/#text=The%20cat%20sat&model=words&head=1&query=cat$"))


def test_an_address_works_once_and_its_browser_stays_signed_in(new_page: Callable[..., Page], studio: str) -> None:
    page = opened(new_page, studio)
    own = studio.partition("#")[0]
    assert page.url.partition("#")[0] == own and page.context.cookies() == []
    page.reload()
    expect(words(page)).to_have_text(["The", "cat", "sat"])
    for address in (own, studio):  # in another tab, by the plain address or by the used one
        tab = page.context.new_page()
        tab.goto(address)
        expect(words(tab)).to_have_text(["The", "cat", "sat"])


def test_another_browser_learns_how_to_sign_in(chromium: Any, new_page: Callable[..., Page], studio: str) -> None:
    opened(new_page, studio)
    for address in (studio, studio.partition("#")[0]):
        stranger = chromium.new_context().new_page()
        stranger.goto(address)
        expect(stranger.get_by_role("alert")).to_contain_text("Press Enter in the terminal")
        stranger.context.close()


def test_a_reload_and_a_shared_address_keep_the_work(new_page: Callable[..., Page], studio: str) -> None:
    page = opened(new_page, studio)
    box(page).fill("Dogs & cats = 100% pets?")
    expect(words(page)).to_have_text(["Dogs", "&", "cats", "=", "100%", "pets?"])
    page.get_by_role("button", name="Head 1", exact=True).click()
    page.locator(".regard-sentence-word").nth(2).click()
    expect(page).to_have_url(re.compile("text=Dogs.*&model=words&head=1&query=cats$"))
    page.reload()
    other = page.context.new_page()
    other.goto(page.url)
    for one in (page, other):
        expect(words(one)).to_have_text(["Dogs", "&", "cats", "=", "100%", "pets?"])
        expect(box(one)).to_have_value("Dogs & cats = 100% pets?")
        expect(one.get_by_role("button", name="Head 1", exact=True)).to_have_attribute("aria-pressed", "true")
        expect(one.locator(".regard-sentence-word[aria-selected=true]")).to_have_text("cats")
        expect(one).to_have_title("Dogs & cats = 100% pets? · Regard")


def test_back_and_forward_go_through_texts_and_views(new_page: Callable[..., Page], studio: str) -> None:
    page = opened(new_page, studio)
    expect(page).to_have_url(re.compile("text=The%20cat%20sat"))
    box(page).fill("Birds fly")
    expect(page).to_have_url(re.compile("text=Birds%20fly"))
    page.get_by_role("radio", name="Map", exact=True).check()
    expect(page).to_have_url(re.compile("view=matrix"))
    page.go_back()
    expect(words(page)).to_have_text(["Birds", "fly"])
    page.go_back()
    expect(words(page)).to_have_text(["The", "cat", "sat"])
    expect(box(page)).to_have_value("The cat sat")
    page.go_forward()
    expect(words(page)).to_have_text(["Birds", "fly"])
    page.go_forward()
    expect_view(page, "Map")


def test_two_tabs_do_not_disturb_each_other(new_page: Callable[..., Page], studio: str, settle: Any) -> None:
    page = opened(new_page, studio)
    tab = page.context.new_page()
    tab.goto(studio.partition("#")[0])
    expect(words(tab)).to_have_text(["The", "cat", "sat"])
    for number in range(3):
        box(tab).fill(f"Tab two {number}")
        expect(words(tab)).to_have_text(["Tab", "two", str(number)])
    page.locator(".regard-sentence-word").nth(1).click()
    expect(page.locator(".regard-sentence-said")).to_contain_text("cat looks most at")
    open_view(page, "One number")
    settle(page)
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page).to_have_url(re.compile("text=The%20cat%20sat"))
    expect(tab).to_have_url(re.compile("text=Tab%20two%202"))


def test_a_text_too_long_for_an_address_is_stored(new_page: Callable[..., Page], studio: str, settle: Any) -> None:
    page = opened(new_page, studio)
    text = "abcdef " * 500 + "end"
    box(page).fill(text)
    expect(page).to_have_url(re.compile("#stored=[0-9a-f]{16}&model=words"))
    page.reload()
    expect(box(page)).to_have_value(text)
    expect(page.locator(".regard-studio-problem")).to_be_hidden()
    settle(page)


def test_a_text_that_is_too_long_offers_ways_on(new_page: Callable[..., Page], studio: str, reader: Reader) -> None:
    page = opened(new_page, studio)
    box(page).fill("abcdef " * 700)
    problem = page.get_by_role("alert")
    expect(problem).to_contain_text("The text has 700 tokens; words reads at most 600.")
    expect(page.locator(".regard-stale .regard-view")).to_have_css("opacity", "0.35")
    expect(problem.get_by_role("button")).to_have_text(
        ["Read with smollm2", "Read only the beginning", "Back to the text shown"]
    )
    expect(page).to_have_url(re.compile("#stored="))
    page.reload()  # a text that was refused is kept as well
    expect(problem).to_contain_text("700 tokens")
    expect(problem.get_by_role("button")).to_have_text(["Read with smollm2", "Read only the beginning"])
    problem.get_by_role("button", name="Read only the beginning").click()
    expect(problem).to_be_hidden()
    expect(page.locator(".regard-stale")).to_have_count(0)
    assert len(box(page).input_value().split()) == MOST_WORDS


def test_an_empty_text_dims_the_old_picture(new_page: Callable[..., Page], studio: str) -> None:
    page = opened(new_page, studio)
    box(page).fill("  ")
    expect(page.get_by_role("alert")).to_contain_text("Type or paste a text")
    expect(page.locator(".regard-stale")).to_have_count(1)
    page.get_by_role("button", name="Back to the text shown").click()
    expect(box(page)).to_have_value("The cat sat")
    expect(page.locator(".regard-stale")).to_have_count(0)
    box(page).fill("")
    box(page).fill("Birds fly")
    expect(words(page)).to_have_text(["Birds", "fly"])
    expect(page.locator(".regard-stale")).to_have_count(0)


def test_a_model_is_downloaded_only_after_asking(new_page: Callable[..., Page], studio: str, reader: Reader) -> None:
    page = opened(new_page, studio)
    reader.go_on.clear()
    choose_model(page, "smollm2")
    problem = page.get_by_role("alert")
    expect(problem).to_contain_text("98 MB to download, licence Apache-2.0")
    expect(page.locator(".regard-stale")).to_have_count(1)
    problem.get_by_role("button", name="Download 98 MB").click()
    expect(page.locator(".regard-studio-message")).to_contain_text("Downloading smollm2: 50 of 100 MB")
    page.get_by_role("button", name="Cancel").click()
    expect(problem).to_contain_text("98 MB to download")
    reader.go_on.set()
    problem.get_by_role("button", name="Download 98 MB").click()
    expect(page.locator(".regard-stale")).to_have_count(0)
    expect(words(page)).to_have_text(["The", "cat", "sat"])
    expect(page).to_have_url(re.compile("model=smollm2"))


def test_a_download_can_be_declined(new_page: Callable[..., Page], studio: str) -> None:
    page = opened(new_page, studio)
    choose_model(page, "smollm2")
    page.get_by_role("button", name="Back to the text shown").click()
    expect(page.get_by_label("Model")).to_have_value("words")
    expect(page.locator(".regard-stale")).to_have_count(0)

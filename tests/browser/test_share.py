"""Share: exports hold what is on the screen, a page of weights alone opens anywhere, addresses open the same view."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from regard.viewer import page as pages

from .conftest import open_view, save_as
from .test_models import LOADED, served, site_of, small  # noqa: F401 - a fixture
from .test_zoom import IN_SIGHT

Show = Callable[..., Page]
Settle = Callable[[Page], None]
VIEWS = ("vote", "dots", "grid", "sentence", "matrix", "steps", "context", "words", "output", "architecture", "lookup")

# The words of the view as a person sees them, without buttons that only act.
SEEN = """() => {
  const skipped = ".regard-unseen, .regard-button, .regard-popover, noscript, canvas, option, title";
  const words = [];
  const walk = (el) => {
    if (el.matches(skipped) || !el.checkVisibility({ opacityProperty: true, visibilityProperty: true })) return;
    const isClosed = el.tagName === "DETAILS" && !el.open;
    for (const child of el.childNodes) {
      if (child.nodeType === 1 && (!isClosed || child.tagName === "SUMMARY")) walk(child);
      else if (child.nodeType === 3 && child.data.trim()) words.push(...child.data.trim().split(/\\s+/));
    }
  };
  walk(document.querySelector(".regard-view > div:not([hidden])"));
  return words;
}"""
# What an SVG holds.
HELD = """(text) => {
  const svg = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  const widthOf = (el) => Number(el.getAttribute("width"));
  return {
    name: svg.tagName,
    texts: [...svg.querySelectorAll("text")].map((one) => one.textContent),
    images: [...svg.querySelectorAll("image")].map((one) => one.getAttribute("href").slice(0, 5)),
    width: widthOf(svg),
    ground: widthOf(svg.querySelector("rect")),
  };
}"""
# The weights of a layer in a shared page.
WEIGHTS = """() => {
  const holder = document.getElementById("regard-layer-1");
  const { buffer } = Uint8Array.from(atob(holder.textContent), (sign) => sign.charCodeAt(0));
  const length = new DataView(buffer).getUint32(0, true);
  const { arrays } = JSON.parse(new TextDecoder().decode(buffer.slice(4, 4 + length)));
  const { offset, shape } = arrays.weight;
  const start = 4 + length + offset;
  const bits = new Uint16Array(buffer.slice(start, start + 2 * shape.reduce((a, b) => a * b)));
  return { arrays: Object.keys(arrays), shape, bits: [...bits] };
}"""


def downloaded(page: Page, kind: str) -> Path:
    with page.expect_download() as waiting:
        save_as(page, kind)
    return Path(waiting.value.path())


def letters(text: str) -> str:
    """Without spaces and case: lines of an SVG break elsewhere, and style sheets may write capitals."""
    return re.sub(r"\s+", "", text).casefold()


@pytest.fixture
def show_text(
    new_page: Callable[..., Page], settle: Settle, development: Any, tmp_path: Path, opening: bool
) -> Callable[[str], Page]:
    """A page of a small model's reading, at an address; with its start, which votes need."""

    def show(address: str) -> Page:
        reading = development.small_models().encoder().read("a king and he love apple pie")
        path = pages.save(reading, tmp_path / "page.html")
        page = new_page(offline=True)
        page.goto(f"{path.as_uri()}#{address}")
        settle(page)
        return page

    return show


@pytest.mark.parametrize("view", VIEWS)
def test_an_export_is_the_view_on_the_screen_whole_and_says_where_it_comes_from(
    show_text: Callable[[str], Page], view: str
) -> None:
    page = show_text(f"view={view}")
    expect(page.locator(".regard[data-view]")).to_have_attribute("data-view", view)
    seen = page.evaluate(SEEN)
    svg = downloaded(page, "SVG").read_text(encoding="utf-8")
    root = page.evaluate(HELD, svg)
    assert root["name"] == "svg" and set(root["images"]) <= {"data:"}
    assert root["ground"] == pytest.approx(root["width"], abs=1)  # a background behind everything
    written = letters("".join(root["texts"]))
    missing = [word for word in seen if letters(word) not in written]
    assert seen and not missing, missing
    source = "look-up" if view == "lookup" else "small-encoder"
    assert source in "".join(root["texts"][-3:])
    png = downloaded(page, "PNG").read_bytes()
    assert png.startswith(b"\x89PNG") and struct.unpack(">I", png[16:20])[0] >= root["width"]


def test_a_card_has_the_size_of_link_previews(show_text: Callable[[str], Page]) -> None:
    png = downloaded(show_text("view=vote&vote_open=true"), "Save a card").read_bytes()
    assert struct.unpack(">II", png[16:24]) == (1200, 630)


def test_a_shared_page_holds_the_weights_and_opens_where_it_was(
    show: Show, new_page: Callable[..., Page], settle: Settle, development: Any, tmp_path: Path
) -> None:
    page = show("file", "kids", "#view=sentence&layer=1&head=2&query=they")
    settle(page)
    path = tmp_path / "shared.html"
    path.write_bytes(downloaded(page, "Save a page").read_bytes())
    assert path.stat().st_size < 500_000
    other = new_page(offline=True)
    other.goto(path.as_uri())
    settle(other)
    expect(other.locator(".regard[data-view]")).to_have_attribute("data-view", "sentence")
    shown = other.evaluate(WEIGHTS)
    assert shown["arrays"] == ["weight", "visible"]  # no vectors, no weights of the model
    weights = np.array(shown["bits"], np.uint16).view(np.float16).reshape(shown["shape"]).astype(float)
    np.testing.assert_allclose(weights, np.asarray(development.subject("kids").attention(1)), rtol=2e-3, atol=2e-3)
    again = downloaded(other, "Save a page").read_text(encoding="utf-8")  # and it can be shared in turn
    assert 'id="regard-layer-1"' in again and len(again) < 500_000


def test_hostile_texts_stay_data_in_a_shared_page(
    new_page: Callable[..., Page], settle: Settle, development: Any, tmp_path: Path
) -> None:
    attack = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
    reading = development.subject("kids")
    path = pages.save(replace(reading, text=f"{reading.text} {attack}"), tmp_path / "hostile.html")
    page = new_page(offline=True)
    page.goto(f"{path.as_uri()}#view=sentence")
    settle(page)
    shared = tmp_path / "shared.html"
    shared.write_bytes(downloaded(page, "Save a page").read_bytes())
    other = new_page(offline=True)
    other.goto(shared.as_uri())
    settle(other)
    assert other.evaluate("window.hacked") is None


def test_the_studio_shares_an_address_and_a_page(
    new_page: Callable[..., Page], small_studio: str, settle: Settle
) -> None:
    page = new_page()
    page.goto(small_studio)
    settle(page)
    page.get_by_label("Text", exact=True).fill("a king and he love apple pie")
    settle(page)
    page.locator("summary.regard-save").click()
    address = page.get_by_label("Address of this view").input_value()
    assert "text=a king and he love apple pie" in unquote(address).replace("+", " ") and "key" not in address
    assert len(downloaded(page, "Save a page").read_bytes()) < 500_000


def place_of(page: Page) -> tuple[str | None, str | None, str | None]:
    """What the page shows: the level, the head, and the word that is asked about."""
    return (
        page.locator(".regard[data-view]").get_attribute("data-view"),
        page.locator(".regard-place-name").text_content(),
        page.locator(".regard-number-title b").first.text_content(),
    )


def assert_shared_and_kept(page: Page, settle: Settle) -> None:
    """The address of a view opens the same view elsewhere; reload, back and forward keep the place."""
    open_view(page, "Threads")
    settle(page)
    page.locator(".regard-place-dots circle[data-head='1.1']").press("Enter")
    page.locator(".regard-sentence-side[data-side=query] .regard-sentence-word", has_text="lions").click()
    settle(page)
    open_view(page, "One number")
    settle(page)
    shown = place_of(page)
    assert shown == ("steps", "Layer 1, head 1", "lions")
    page.locator("summary.regard-save").click()
    address = page.get_by_label("Address of this view").input_value()
    other = page.context.new_page()
    other.goto(address)
    expect(other.locator(".regard-number-title")).to_contain_text("lions")
    settle(other)
    assert place_of(other) == shown
    other.reload()
    expect(other.locator(".regard-number-title")).to_contain_text("lions")
    settle(other)
    assert place_of(other) == shown
    page.keyboard.press("Escape")
    page.go_back()
    expect(page.locator(".regard[data-view]")).to_have_attribute("data-view", "sentence")
    page.go_forward()
    expect(page.locator(".regard-number-title")).to_contain_text("lions")
    settle(page)
    assert place_of(page) == shown


def test_an_address_of_the_studio_opens_the_same_level_word_and_head(
    new_page: Callable[..., Page], small_studio: str, settle: Settle
) -> None:
    page = new_page()
    page.goto(small_studio)
    settle(page)
    page.get_by_label("Text", exact=True).fill("the kids and the lions left")
    expect(page.locator(".regard-sentence-word", has_text="lions").first).to_be_visible()
    assert_shared_and_kept(page, settle)


def test_an_address_of_the_site_opens_the_same_level_word_and_head(
    small: Any,  # noqa: F811
    tmp_path: Path,
    new_page: Callable[..., Page],
    settle: Settle,
    contexts: list[Any],
) -> None:
    with served(site_of(small, tmp_path, "the kids left")) as address:
        page = new_page()
        page.goto(f"{address}/index.html")
        settle(page)
        assert len(page.evaluate(IN_SIGHT)) <= 8  # also with the links of the site in the header
        page.goto(f"{address}/index.html#view=sentence")
        page.reload()
        settle(page)
        page.get_by_label("Text", exact=True).fill("the kids and the lions left")
        expect(page.locator(".regard-sentence-word", has_text="lions").first).to_be_visible(timeout=LOADED)
        assert_shared_and_kept(page, settle)
        for context in contexts:
            context.close()

"""In context: a word in two texts side by side; its vectors are those of `Reading.moved`; any two readings compare."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from regard.viewer import page as pages

from .conftest import open_adjust, open_view

Show = Callable[..., Page]
Settle = Callable[[Page], None]
HERE, THERE = "love apple phones", "a king and he love apple pie"


def pane(page: Page, place: int) -> Any:
    return page.locator(".regard-context-pane").nth(place)


def numbers(page: Page) -> list[float]:
    page.get_by_text("These numbers as a table").click()
    cells = page.locator(".regard-context-numbers td:nth-of-type(1)").all_text_contents()
    return [float(text.replace("−", "-")) for text in cells]


def moved(development: Any, model: str, word: str, other_word: str | None = None, there: str = THERE) -> Any:
    read = getattr(development.small_models(), model)().read
    return [row[1] for row in read(HERE).moved(word, read(there), other_word).rows]


@pytest.fixture
def subjects(development: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read = development.small_models().encoder().read
    monkeypatch.setattr(development, "subject", {"here": read(HERE), "there": read(THERE)}.__getitem__)


def test_a_notebook_reads_another_text_beside_the_first(
    show: Show, settle: Settle, development: Any, subjects: None, exported: Callable[[Page, str], str]
) -> None:
    page = show("blob", "here")
    open_view(page, "In context")
    page.get_by_label("Text on the right").fill(THERE)
    expect(pane(page, 1).get_by_role("option", name="king")).to_be_visible()  # not in the text of the example
    settle(page)
    expect(pane(page, 0).locator("[aria-selected=true]")).to_have_text("apple")  # a word that both have
    expect(pane(page, 1).locator("[aria-selected=true]")).to_have_text("apple")
    np.testing.assert_allclose(numbers(page), moved(development, "encoder", "apple"), atol=6e-4)
    pane(page, 1).get_by_role("option", name="love").click()
    expect(page.locator(".regard-context-moved")).to_contain_text("the vectors of “apple” and “love”")
    for kind in ("CSV", "LaTeX", "SVG"):
        compared = "small-encoder: “love apple phones”; compared: apple with love in “a king and he love apple pie”"
        assert compared in exported(page, kind).replace("{-}", "-")
    reading = development.subject("there")
    shown = pane(page, 1).locator(".regard-context-word").evaluate_all("els => els.map((el) => Number(el.title))")
    np.testing.assert_allclose(shown, reading.attention(0)[0, 5, :], atol=6e-4)
    norms = reading.norms("love", layer=0, head=0, sinks=True, itself=True)
    by_word = dict(zip(norms["Word"], norms[norms.columns[3].name], strict=True))
    measures = {"rollout": reading.rollout()[5], "norm": [by_word[label] for label in reading.labels]}
    for measure, expected in measures.items():
        page.get_by_label("Shown").select_option(measure)
        settle(page)
        shown = pane(page, 1).locator(".regard-context-word").evaluate_all("els => els.map((el) => Number(el.title))")
        np.testing.assert_allclose(shown, expected, atol=6e-4)


def test_a_page_holds_a_second_reading(
    new_page: Callable[..., Page], settle: Settle, development: Any, tmp_path: Path, subjects: None
) -> None:
    path = pages.save(development.subject("here"), tmp_path / "two.html", beside=development.subject("there"))
    page = new_page(offline=True)
    page.goto(f"{path.as_uri()}#view=context&query=apple")
    settle(page)
    expect(pane(page, 1).locator("h2")).to_contain_text(THERE)
    np.testing.assert_allclose(numbers(page), moved(development, "encoder", "apple"), atol=2e-3)  # stored in 16 bits


def test_one_text_is_compared_with_itself(show: Show, settle: Settle, development: Any) -> None:
    page = show("file", "kids", "#view=context&query=they")
    expect(pane(page, 1).locator("[aria-selected=true]")).to_have_text("kids")  # never the same word of the same text
    page.get_by_label("There layer").get_by_role("button", name="Next").click()
    pane(page, 1).get_by_role("option", name="lions").click()
    expect(page).to_have_url(re.compile("context_layer=1.*context_word="))
    settle(page)
    weights = np.asarray(development.subject("kids").attention(1)[0, 7, :])
    shown = pane(page, 1).locator(".regard-context-word").evaluate_all("els => els.map((el) => Number(el.title))")
    np.testing.assert_allclose(shown, weights, atol=3e-3)
    expect(page.get_by_label("Text on the right")).to_have_count(0)
    page.reload()
    expect(pane(page, 1).locator("[aria-selected=true]")).to_have_text("lions")


def test_the_studio_compares_texts_and_models(
    new_page: Callable[..., Page], small_studio: str, settle: Settle, development: Any
) -> None:
    page = new_page()
    page.goto(small_studio)
    settle(page)
    page.get_by_label("Text", exact=True).fill(HERE)
    expect(page).to_have_url(re.compile("love"))  # the menu is drawn again with the text
    open_view(page, "In context")
    page.get_by_label("Text on the right").fill(THERE)
    expect(pane(page, 1).get_by_role("option", name="king")).to_be_visible()  # not in the text of the example
    settle(page)
    np.testing.assert_allclose(numbers(page), moved(development, "writer", "apple"), atol=6e-4)
    expect(page).to_have_url(re.compile("context_text="))
    open_adjust(page)
    page.get_by_label("Model on the right").select_option("small-encoder")
    expect(page.locator(".regard-context-moved")).to_contain_text("different models")
    expect(page).to_have_url(re.compile("context_model=small-encoder"))
    page.reload()  # the other text and model are in the address
    expect(pane(page, 1).get_by_role("option", name="king")).to_be_visible()  # not in the text of the example
    expect(page.get_by_label("Model on the right")).to_have_value("small-encoder")
    expect(page.get_by_label("Text on the right")).to_have_value(THERE)
    page.get_by_role("option", name="Apple: phones or pie").click()
    expect(page.get_by_label("Text", exact=True)).to_have_value("Love Apple phones")
    expect(page.get_by_label("Text on the right")).to_have_value("Love apple pie")

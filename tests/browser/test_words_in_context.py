"""Words in context: what a word gives and receives, entropy along the text, links that can be sorted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from .conftest import EACH_HOST, open_adjust, open_view

Show = Callable[..., Page]
Settle = Callable[[Page], None]
ROUNDED = 0.0005 + 2e-3


def weights(development: Any, name: str, layer: int, head: int) -> Any:
    attention = development.subject(name).attention(layer)
    queries, keys = (np.asarray(array[head], np.float64) for array in (attention.queries, attention.keys))
    scores = queries @ keys.T / np.sqrt(queries.shape[-1])
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def opened(show: Show, host: str, name: str = "kids") -> Page:
    page = show(host, name)
    open_view(page, "Words")
    open_adjust(page)
    expect(page.locator(".regard-words-row").first).to_be_visible()
    return page


def choose(page: Page, word: str) -> None:
    page.locator(".regard-words-word", has_text=word).first.click()
    expect(page.locator(".regard-words-heading .regard-word").first).to_have_text(word)


def bars(page: Page, place: int) -> dict[str, float]:
    rows = page.locator(".regard-words-bars").nth(place).get_by_role("option")
    names, numbers = rows.locator("bdi").all_text_contents(), rows.locator(".regard-words-number").all_text_contents()
    return dict(zip(names, map(float, numbers), strict=True))


@pytest.mark.parametrize("host", EACH_HOST)
def test_what_a_word_gives_and_receives_are_a_row_and_a_column(show: Show, development: Any, host: str) -> None:
    page = opened(show, host)
    choose(page, "they")
    found = weights(development, "kids", 0, 0)
    words = [token.text for token in development.subject("kids").tokens]
    for place, line in ((0, found[10]), (1, found[:, 10])):
        shown = bars(page, place)
        strongest = np.argsort(-line)[: len(shown)]
        assert next(iter(shown)) == words[strongest[0]]
        for name, number in shown.items():
            assert abs(number - line[words.index(name)]) < ROUNDED
    total = float(page.locator(".regard-words-total").text_content())
    assert abs(total - found[:, 10].sum()) < 0.005 + 16 * 2e-3


@pytest.mark.parametrize("host", EACH_HOST)
def test_entropy_along_the_text_can_be_walked(show: Show, development: Any, host: str) -> None:
    page = opened(show, host)
    choose(page, "kids")
    chart = page.get_by_role("slider", name="Entropy")
    chart.focus()
    page.keyboard.press("ArrowRight")
    expect(chart).to_have_attribute("aria-valuenow", "3")
    row = weights(development, "kids", 0, 0)[3]
    word, number, _ = chart.get_attribute("aria-valuetext").split()
    assert word == "were"
    assert abs(float(number) - -(row * np.log(row)).sum()) < 0.02


def test_links_are_the_strongest_and_can_be_sorted(show: Show, development: Any) -> None:
    page = opened(show, "served")
    found = weights(development, "kids", 0, 0)
    np.fill_diagonal(found, 0)
    rows = page.locator(".regard-words-links tbody tr")
    expect(rows).to_have_count(40)
    numbers = [float(text) for text in page.locator(".regard-words-links td:nth-child(3)").all_text_contents()]
    np.testing.assert_allclose(numbers, np.sort(found.ravel())[::-1][:40], atol=ROUNDED)
    page.get_by_role("columnheader", name="Distance").click()
    expect(page.get_by_role("columnheader", name="Distance")).to_have_attribute("aria-sort", "descending")
    distances = [int(text) for text in page.locator(".regard-words-links td:nth-child(4)").all_text_contents()]
    assert distances == sorted(distances, reverse=True)
    page.get_by_role("columnheader", name="Distance").press("Enter")
    expect(page.get_by_role("columnheader", name="Distance")).to_have_attribute("aria-sort", "ascending")
    rows.nth(2).press("Enter")  # a link chooses its query and key
    expect(page.locator(".regard-words-word[aria-selected=true]")).to_have_text(
        rows.nth(2).locator("th").text_content()
    )


def test_words_of_the_text_are_walked_by_arrow_keys(show: Show) -> None:
    page = opened(show, "served")
    choose(page, "kids")
    page.locator(".regard-words-word[aria-selected=true]").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".regard-words-word[aria-selected=true]")).to_have_text("scared")
    expect(page.locator(".regard-words-word[aria-selected=true]")).to_be_focused()


def test_a_long_text_finds_the_strongest_queries_of_a_word(show: Show, development: Any) -> None:
    page = opened(show, "served", "long")
    choose(page, "lions1")
    column = weights(development, "long", 0, 0)[:, 14 + 6]
    expect(page.locator(".regard-words-heading .regard-word").nth(1)).to_have_text("lions1")
    shown = list(bars(page, 1).values())
    np.testing.assert_allclose(shown, np.sort(column)[::-1][: len(shown)], atol=ROUNDED)


def test_excluding_sinks_removes_them_from_the_lists(show: Show, settle: Settle) -> None:
    page = opened(show, "served")
    assert "[CLS]" in {*bars(page, 0), *bars(page, 1)}
    page.locator("label", has_text="Set [CLS] and [SEP] aside").click()
    settle(page)
    assert not {"[CLS]", "[SEP]"} & {*bars(page, 0), *bars(page, 1)}
    assert "[CLS]" not in page.locator(".regard-words-links td:nth-child(2)").all_text_contents()

"""The sentence: its numbers are NumPy's, words are reachable by keyboard, sinks can be excluded, long texts scroll."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from .conftest import EACH_HOST, open_view, save_as

Show = Callable[..., Page]
Settle = Callable[[Page], None]
TWO_DIGITS = 0.005 + 2e-3  # rounding, and what 16 bits in a page may cost


def plain(reading: Any, layer: int, heads: list[int]) -> Any:
    """The mean weights by the plain formula, in float64."""
    attention = reading.attention(layer)
    queries, keys = (np.asarray(array, np.float64) for array in (attention.queries, attention.keys))
    scores = queries @ keys.swapaxes(-1, -2) / np.sqrt(queries.shape[-1])
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (exponentials / exponentials.sum(axis=-1, keepdims=True))[heads].mean(axis=0)


def word(page: Page, side: str, place: int) -> Any:
    return page.locator(f".regard-sentence-side[data-side={side}] .regard-sentence-word").nth(place)


def numbers(page: Page, side: str) -> list[float]:
    found = page.locator(f".regard-sentence-side[data-side={side}] .regard-sentence-number").all_text_contents()
    return [float(text) for text in found]


def choose_head(page: Page, layer: int, head: int) -> None:
    page.get_by_label("Layer", exact=True).locator("select").select_option(str(layer))
    page.get_by_role("button", name=f"Head {head}", exact=True).click()
    page.wait_for_selector(".regard-sentence-stage:not([aria-busy])")


@pytest.mark.parametrize("host", EACH_HOST)
def test_the_weights_of_a_word_are_those_of_the_plain_formula(show: Show, development: Any, host: str) -> None:
    page = show(host)
    choose_head(page, 1, 2)
    word(page, "query", 10).click()
    expect(page.locator(".regard-sentence-said")).to_contain_text("they looks most at")
    expected = plain(development.subject("kids"), 1, [2])[10]
    np.testing.assert_allclose(numbers(page, "key"), expected, atol=TWO_DIGITS)


@pytest.mark.parametrize("host", EACH_HOST)
def test_several_heads_are_averaged_or_shown_apart(show: Show, development: Any, host: str) -> None:
    page = show(host)
    word(page, "query", 10).click()
    page.get_by_role("button", name="several").click()
    page.get_by_role("button", name="Head 2", exact=True).click()
    page.wait_for_selector(".regard-sentence-stage:not([aria-busy])")
    expected = plain(development.subject("kids"), 0, [0, 2])[10]
    np.testing.assert_allclose(numbers(page, "key"), expected, atol=TWO_DIGITS)
    page.get_by_role("radio", name="Separate").check()
    bars = word(page, "key", 0).locator(".regard-sentence-bar i")
    expect(bars).to_have_count(2)
    for place, head in enumerate((0, 2)):  # a bar has the colour of its head's button
        chip = page.get_by_role("button", name=f"Head {head}", exact=True)
        colour = chip.evaluate("el => getComputedStyle(el).backgroundColor")
        expect(bars.nth(place)).to_have_css("background-color", colour)


def test_bars_reach_from_0_to_1_or_to_the_largest_weight(show: Show, development: Any) -> None:
    page = show("served")
    word(page, "query", 10).click()
    weights = plain(development.subject("kids"), 0, [0])[10]
    shares = "els => els.map((el) => new DOMMatrix(getComputedStyle(el).transform).a)"
    bars = page.locator(".regard-sentence-side[data-side=key] .regard-sentence-bar i")
    strongest = int(np.argmax(weights))
    expect(bars.nth(strongest)).to_have_css("transform", re.compile(f"matrix\\({weights[strongest]:.2f}"))
    np.testing.assert_allclose(bars.evaluate_all(shares), weights, atol=1e-3)
    page.get_by_role("radio", name="Relative").check()
    expect(bars.nth(strongest)).to_have_css("transform", "matrix(1, 0, 0, 1, 0, 0)")


def test_hovering_over_a_key_shows_the_queries_that_attend_to_it(show: Show, development: Any) -> None:
    page = show("served")
    word(page, "key", 2).hover()
    expect(page.locator(".regard-sentence-said")).to_contain_text("kids receives most attention from")
    expected = plain(development.subject("kids"), 0, [0])[:, 2]
    np.testing.assert_allclose(numbers(page, "query"), expected, atol=TWO_DIGITS)


def test_arrow_keys_walk_the_words(show: Show) -> None:
    page = show("served")
    word(page, "query", 0).focus()
    for place in (1, 2, 3):
        page.keyboard.press("ArrowDown")
        expect(word(page, "query", place)).to_be_focused()
        expect(word(page, "query", place)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("End")
    expect(word(page, "query", 15)).to_be_focused()
    page.keyboard.press("ArrowRight")
    focused = page.evaluate("document.activeElement.closest('.regard-sentence-side').dataset.side")
    assert focused == "key"
    page.keyboard.press("ArrowLeft")
    expect(word(page, "query", 15)).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(".regard-sentence-word[aria-selected=true]")).to_have_count(0)


def test_moving_by_keyboard_is_announced(show: Show) -> None:
    page = show("served")
    word(page, "query", 9).focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator("[aria-live=polite]").first).to_contain_text("they looks most at")


@pytest.mark.parametrize("host", EACH_HOST)
def test_sinks_are_excluded_and_their_weight_is_shown(show: Show, development: Any, host: str) -> None:
    page = show(host)
    choose_head(page, 2, 3)
    word(page, "query", 10).click()
    row = plain(development.subject("kids"), 2, [3])[10]
    switch = page.locator("label", has=page.get_by_role("switch"))
    expect(switch).to_contain_text("Set [CLS] and [SEP] aside (they take")
    said = float(switch.text_content().split("take ")[1].split(" of")[0])
    assert abs(said - (row[0] + row[15])) < TWO_DIGITS
    switch.click()
    expect(word(page, "key", 0)).to_have_attribute("data-aside", "")
    best = page.locator(".regard-sentence-said .regard-word").nth(1)
    words = [token.text for token in development.subject("kids").tokens]
    assert best.text_content() == words[1 + int(np.argmax(row[1:15]))]


def test_a_long_text_shows_a_window_that_moves(show: Show, settle: Settle, development: Any) -> None:
    page = show("served", "long", "#query=they50&head=1")
    expect(page.locator(".regard-sentence-word[aria-selected=true]")).to_have_text("they50")
    expect(page.locator(".regard-sentence-side[data-side=query] .regard-sentence-word")).to_have_count(40)
    more = page.locator(".regard-sentence-side[data-side=key] .regard-sentence-more")
    expect(more.first).to_contain_text("most")  # what lies before the window, and its strongest word
    row = plain(development.subject("long"), 0, [1])[14 * 50 + 9]
    first = int(word(page, "key", 0).get_attribute("data-unit"))
    assert abs(float(more.first.text_content().split("· ")[1].split(",")[0]) - row[:first].sum()) < TWO_DIGITS
    more.first.click()
    expect(word(page, "key", 0)).to_have_attribute("data-unit", str(first - 35))
    settle(page)  # what moved is drawn, and nothing takes the focus away again
    last = page.locator(".regard-sentence-side[data-side=query] .regard-sentence-word").last
    last.focus()
    expect(last).to_be_focused()
    before = int(last.get_attribute("data-unit"))
    page.keyboard.press("ArrowDown")
    expect(page.locator(f".regard-sentence-word[aria-selected=true][data-unit='{before + 1}']")).to_be_focused()


def test_a_window_moves_while_the_pointer_is_on_a_word_that_leaves_it(show: Show, settle: Settle) -> None:
    page = show("served", "long", "#query=they50&head=1")
    last = page.locator(".regard-sentence-side[data-side=query] .regard-sentence-word").last
    after = int(last.get_attribute("data-unit")) + 1
    last.focus()
    held: list[Any] = []
    page.route("**/ask/long/**", lambda route: held.append(route))
    page.keyboard.press("ArrowDown")
    word(page, "key", 0).hover()  # the next window begins 20 words later
    page.unroute("**/ask/long/**")  # what is held goes on
    settle(page)
    expect(page.locator(f".regard-sentence-word[aria-selected=true][data-unit='{after}']")).to_be_focused()


def test_a_selected_key_may_leave_the_window(show: Show, settle: Settle) -> None:
    page = show("served", "long", "#query=&key=they50&head=1")
    said = page.locator(".regard-sentence-said")
    expect(said).to_contain_text("they50 receives most attention from")
    page.locator(".regard-sentence-side[data-side=key] .regard-sentence-more").last.click()
    expect(word(page, "key", 0)).to_have_attribute("data-unit", "724")
    page.mouse.move(1, 1)
    settle(page)
    expect(said).to_contain_text("The strongest links of all words")


def test_the_table_holds_every_digit(show: Show, development: Any) -> None:
    page = show("served", address="#layer=1&head=1&query=they")
    expect(page.locator(".regard-sentence-word[aria-selected=true]")).to_have_count(1)
    with page.expect_download() as waiting:
        save_as(page, "CSV")
    rows = list(csv.reader(waiting.value.path().read_text(encoding="utf-8").splitlines()))[1:]
    found = [float(row[2]) for row in rows]
    np.testing.assert_allclose(found, plain(development.subject("kids"), 1, [1])[10], atol=1e-6)


@pytest.mark.parametrize("host", EACH_HOST)
def test_heads_that_link_two_words_are_listed_strongest_first(show: Show, development: Any, host: str) -> None:
    page = show(host, address="#query=they" if host != "blob" else "")
    word(page, "query", 10).click(force=True) if host == "blob" else None
    word(page, "key", 2).click()
    panel = page.locator(".regard-which")
    expect(panel).to_contain_text("they → kids")
    panel.locator("summary").click()
    reading = development.subject("kids")
    table = reading.heads_for("they", "kids")
    expected = [f"{layer} · {head}" for layer, head in zip(table["layer"], table["head"], strict=True)]
    expect(panel.locator(".regard-which-name")).to_have_text(expected[:10])
    shown = [float(text) for text in panel.locator(".regard-which-number").all_text_contents()]
    np.testing.assert_allclose(shown, table["weight"][:10], atol=TWO_DIGITS)
    panel.get_by_role("button", name="All 12 heads").click()
    expect(panel.locator(".regard-which-name")).to_have_text(expected)
    panel.get_by_role("button", name=re.compile("^Layer 2, head 1,")).click()
    expect(page.get_by_label("Layer", exact=True).locator("select")).to_have_value("2")
    expect(page.get_by_role("button", name="Head 1", exact=True)).to_have_attribute("aria-pressed", "true")
    expect(panel.locator("[aria-current]")).to_have_attribute("data-at", "2.1")


@pytest.mark.parametrize("host", EACH_HOST)
def test_norms_means_and_rollout_can_be_shown(show: Show, settle: Settle, development: Any, host: str) -> None:
    page = show(host)
    reading = development.subject("kids")
    choose_head(page, 1, 2)
    word(page, "query", 10).click()
    kinds = page.get_by_role("combobox", name="Shown")
    norms = reading.norms("they", layer=1, head=2, sinks=True, itself=True)
    by_word = dict(zip(norms["Word"], norms[norms.columns[3].name], strict=True))
    rows = {
        "norm": [by_word[label] for label in reading.labels],
        "mean": np.mean([plain(reading, layer, [0, 1, 2, 3])[10] for layer in range(3)], axis=0),
        "rollout": reading.rollout()[10],
    }
    for kind, row in rows.items():
        kinds.select_option(kind)
        page.mouse.move(1, 1)
        settle(page)
        np.testing.assert_allclose(numbers(page, "key"), row, atol=TWO_DIGITS + 2e-3 * max(row))
        expect(page.get_by_role("combobox", name="Layer")).to_be_visible(visible=kind == "norm")
    open_view(page, "Map")
    settle(page)
    expect(page.locator(".regard-matrix-about")).to_have_text("Rollout through all layers")


@pytest.mark.parametrize("host", EACH_HOST)
def test_a_long_text_is_running_text_coloured_by_weight_and_searched(
    show: Show, settle: Settle, development: Any, host: str
) -> None:
    page = show(host, "long")
    page.get_by_role("searchbox", name="Find a word").fill("they5")
    expect(page.locator(".regard-running-bar [role=status]")).to_have_text("1 of 11")  # they5, they50 to they59
    page.get_by_role("button", name="Next match").click()
    expect(page.locator(".regard-running-word[data-now]")).to_have_text("they50")
    page.get_by_role("searchbox", name="Find a word").press("Enter")
    expect(page.locator(".regard-running-word[data-query]")).to_have_text("they50")
    expect(page.locator(".regard-sentence-side[data-side=query] [aria-selected=true]")).to_have_text("they50")
    expect(page.locator(".regard-running-strong button")).to_have_count(6)
    reading = development.subject("long")
    row = plain(reading, 0, [0])[14 * 50 + 9]
    sinks = set(reading.sinks)
    best = [reading.tokens[place].text for place in np.argsort(-row) if place not in sinks][:6]
    assert page.locator(".regard-running-strong button").all_text_contents() == best
    shares = page.locator(".regard-running-word").evaluate_all("all => all.map((el) => el.style.cssText)")
    found = np.array([float(text.split(":")[1].strip(" ;")) for text in shares])
    top = max(weight for place, weight in enumerate(row) if place not in sinks)
    np.testing.assert_allclose(found, np.minimum(1, np.sqrt(row / top)), atol=0.03)
    page.get_by_role("searchbox", name="Find a word").fill("nowhere")
    expect(page.locator(".regard-running-bar [role=status]")).to_have_text("not found")
    page.locator(".regard-running-word", has_text=re.compile("^kids1$")).click()
    expect(page.locator(".regard-running-word[data-query]")).to_have_text("kids1")

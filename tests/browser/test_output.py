"""Output: the next token's probabilities are NumPy's, a text is continued and cancelled, sentences are compared."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from regard.models.generate import Sampling

from .conftest import EACH_HOST, choose_model, expect_view, open_adjust, open_view

Show = Callable[..., Page]
Settle = Callable[[Page], None]


def opened(page: Page, settle: Settle) -> Page:
    open_view(page, "Output")
    open_adjust(page)
    settle(page)
    return page


def numbers(page: Page) -> list[float]:
    found = page.locator(".regard-output-row:not([data-rest]) .regard-output-number").all_text_contents()
    return [float(text) for text in found]


def tokens(page: Page) -> list[str]:
    texts: list[str] = page.locator("bdi.regard-output-token").all_text_contents()
    return texts


def expected(development: Any, query: int, **how: Any) -> tuple[list[str], Any]:
    model, reading = development.small_models().writer(), development.subject("writer")
    logits = model.next_logits(reading.states[-1])[query]
    order, shares = Sampling(how.pop("temperature", 1.0), **how).probabilities(logits)
    return [model.tokeniser.piece(number)[0] for number in order], shares


def drag(page: Page, label: str, value: float) -> None:
    page.get_by_label(label, exact=True).evaluate(
        "(el, value) => { el.value = value; el.dispatchEvent(new Event('input', { bubbles: true })); }", value
    )


@pytest.mark.parametrize("host", EACH_HOST)
def test_probabilities_of_the_next_token_follow_the_sliders(
    show: Show, settle: Settle, development: Any, host: str
) -> None:
    page = opened(show(host, "writer"), settle)
    names, shares = expected(development, 10)
    assert tokens(page) == names[:12]
    np.testing.assert_allclose(numbers(page), shares[:12], atol=0.002)
    drag(page, "Temperature", 0.5)
    drag(page, "Top p", 0.6)
    drag(page, "Top k", 7)
    _, shares = expected(development, 10, temperature=0.5, top_k=7, top_p=0.6)
    found = np.zeros(12)
    found[: len(shares)] = shares[:12]
    np.testing.assert_allclose(numbers(page), found, atol=0.002)
    expect(page.locator(".regard-output-row[data-cut]")).to_have_count(12 - len(shares))
    words = page.locator(".regard-output-tokens")
    words.get_by_role("option", name="scared").click()  # what was expected after another word
    settle(page)
    expect(page.locator(".regard-output-next h2")).to_have_text("After scared, the model expects")
    page.get_by_role("button", name="Reset").click()
    np.testing.assert_allclose(numbers(page), expected(development, 3)[1][:12], atol=0.002)
    expect(page.locator(".regard-output-next .regard-note").last).to_contain_text("In this text, “of” follows")
    if host != "blob":  # a notebook keeps its own address
        expect(page).to_have_url(re.compile("view=output.*output_at=3"))
    expect(page.get_by_role("button", name="Write")).to_have_count(1 if host == "blob" else 0)


def test_a_notebook_continues_the_text_and_marks_what_is_written(show: Show, settle: Settle, development: Any) -> None:
    page = opened(show("blob", "writer"), settle)
    page.get_by_label("Tokens", exact=True).fill("4")
    page.get_by_label("Seed", exact=True).fill("5")
    drag(page, "Temperature", 0.8)
    page.get_by_role("button", name="Write").click()
    expect(page.locator("[data-written]").first).to_be_visible()
    model = development.small_models().writer()
    reading = model.generate(development.SMALL, 4, temperature=0.8, seed=5)
    written = [token.text for token in reading.tokens[reading.given :]]
    assert page.locator("[data-written]").all_text_contents() == written
    settle(page)
    best = page.locator(".regard-output-row[role=option]").first
    text = best.locator("bdi").text_content()
    best.click()  # the most likely token is appended
    expect(page.locator(".regard-output-piece").last).to_have_text(text or "")
    open_view(page, "Threads")
    expect(page.locator(".regard-sentence-side[data-side=query] .regard-sentence-text").last).to_have_text(text or "")


def test_the_studio_continues_the_text(new_page: Callable[..., Page], small_studio: str, settle: Settle) -> None:
    page = new_page()
    page.goto(small_studio)
    settle(page)
    page.get_by_label("More actions").click()
    page.get_by_role("button", name="Continue the text").click()
    expect_view(page, "Output")
    open_adjust(page)
    drag(page, "Temperature", 1.5)
    page.get_by_label("Tokens", exact=True).fill("6")
    page.get_by_label("Seed", exact=True).fill("3")
    page.get_by_role("button", name="Write").click()
    expect(page.locator("[data-written]").first).to_be_visible()
    settle(page)
    text = page.get_by_label("Text", exact=True).input_value()
    assert text.startswith("the kids were scared of the lions, so they left")
    expect(page).to_have_url(re.compile("reading=.*output_seed=3"))
    marked = page.locator("[data-written]").all_text_contents()
    page.reload()  # what the model has written is kept, with its mark
    expect(page.locator("[data-written]")).to_have_text(marked)
    open_view(page, "Threads")
    expect(page.locator(".regard-sentence-word[data-written]").first).to_be_visible()
    choose_model(page, "small-encoder")
    expect(page.locator(".regard-menu-foot .regard-about").first).to_contain_text("small-encoder")
    page.get_by_label("More actions").click()
    expect(page.get_by_role("button", name="Continue the text")).to_be_hidden()


@pytest.mark.parametrize("host", EACH_HOST)
def test_sentences_are_compared(show: Show, settle: Settle, development: Any, host: str) -> None:
    page = opened(show(host, "encoder"), settle)
    model = development.small_models().encoder()
    rows = page.locator(".regard-output-similar li")
    expect(rows).to_have_count(5)
    if host == "file":
        expect(page.get_by_label("Another sentence")).to_have_count(0)
    elif host == "blob":
        page.get_by_label("Another sentence").fill("they left the table")
        page.keyboard.press("Enter")
        expect(rows).to_have_count(6)
        settle(page)
    texts = page.locator(".regard-output-text").all_text_contents()
    vectors = model.embed([development.SMALL, *texts])
    cosines = vectors[1:] @ vectors[0]
    found = [float(text) for text in page.locator(".regard-output-similar .regard-output-number").all_text_contents()]
    np.testing.assert_allclose(found, cosines, atol=0.0061)
    assert found == sorted(found, reverse=True)


def test_exports_say_after_which_words_and_how_tokens_are_sampled(
    show: Show, settle: Settle, exported: Callable[[Page, str], str]
) -> None:
    page = opened(show("served", "writer"), settle)
    assert "small-writer: “the kids were scared of the lions, so they left”" in exported(page, "CSV")
    page.locator(".regard-output-tokens [data-place='2']").click()
    settle(page)
    drag(page, "Temperature", 0.5)
    drag(page, "Top k", 7)
    for kind in ("CSV", "LaTeX", "SVG"):
        expected = "small-writer: “the kids were”; edited: temperature 0.50, top k 7"
        assert expected in exported(page, kind).replace("{-}", "-")

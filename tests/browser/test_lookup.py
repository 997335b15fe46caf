"""Lookup: the same weights as Python's, from hard to uniform, without a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from regard import examples
from regard.teaching.lookup import lookup

from .conftest import EACH_HOST, open_adjust, open_view

Show = Callable[..., Page]
ROUNDED = 0.0006


def opened(show: Show, host: str, name: str = "kids") -> Page:
    page = show(host, name)
    open_view(page, "Lookup")
    open_adjust(page)
    expect(page.locator(".regard-lookup-table tbody tr").first).to_be_visible()
    return page


def column(page: Page, place: int) -> list[float]:
    texts = page.locator(f".regard-lookup-table td:nth-child({place})").all_text_contents()
    return [float(text.replace("−", "-")) for text in texts]


@pytest.mark.parametrize("host", EACH_HOST)
def test_shares_are_those_of_python(show: Show, host: str) -> None:
    page = opened(show, host)
    form = lookup(examples.named("jane").content)
    for query in ("birth date", "Place", "who are you?"):
        page.get_by_label("Query", exact=True).fill(query)
        np.testing.assert_allclose(column(page, 4), form.soft(query).weights, atol=ROUNDED)


@pytest.mark.parametrize("how", ["scaled dot", "dot", "cosine", "negative distance"])
def test_vectors_are_averaged_by_every_similarity(show: Show, how: Any) -> None:
    page = opened(show, "served")
    page.get_by_label("Dictionary").select_option("Vectors")
    page.get_by_label("Similarity").select_option(how)
    given = examples.named("four-words").content
    expected = lookup(given["keys"], given["values"], similarity=how).soft(given["queries"][0])
    np.testing.assert_allclose(column(page, 4), expected.weights, atol=ROUNDED)
    blend = page.locator(".regard-lookup-results dd").nth(1).locator(".regard-lookup-value").text_content()
    numbers = [float(part.replace("−", "-")) for part in blend.strip("[]").split()]
    np.testing.assert_allclose(numbers, expected.value, atol=0.006)


def test_temperature_goes_from_hard_to_uniform_by_keyboard(show: Show) -> None:
    page = opened(show, "served")
    slider = page.get_by_role("slider", name="Temperature")
    slider.focus()
    page.keyboard.press("Home")
    expect(slider).to_have_attribute("aria-valuetext", "0, hard")
    assert column(page, 4) == [0, 0, 1, 0]
    page.keyboard.press("End")
    expect(slider).to_have_attribute("aria-valuetext", "∞, uniform")
    assert column(page, 4) == [0.25] * 4


def test_equal_keys_are_added_by_the_hard_lookup_and_a_miss_gives_zero(show: Show) -> None:
    page = opened(show, "served")
    page.get_by_label("Dictionary").select_option("Vectors")
    values = page.locator(".regard-lookup-results .regard-lookup-value")
    page.get_by_label("Query", exact=True).fill("0.3, 1.2, 4")
    expect(values.first).to_have_text("[−4.40 8.20 5.00]")
    page.get_by_label("Query", exact=True).fill("1 1 1")
    expect(values.first).to_have_text("[0 0 0]")
    page.get_by_label("Query", exact=True).fill("1 1")
    expect(page.locator(".regard-lookup-results")).to_contain_text("Enter 3 numbers")


@pytest.mark.parametrize("host", EACH_HOST)
def test_a_given_lookup_shows_its_keys(show: Show, host: str) -> None:
    page = show(host, "lookup")
    keys = page.locator(".regard-lookup-table tbody th").all_text_contents()
    assert keys == list(examples.named("jane").content)


@pytest.mark.parametrize("host", ["served", "blob"])  # a one-file page has no model
def test_keys_are_compared_by_meaning_where_minilm_is_there(show: Show, settle: Any, host: str) -> None:
    page = opened(show, host, "meaning")
    page.get_by_label("Query", exact=True).fill("when was she born?")
    expect(page.locator(".regard-lookup-results .regard-lookup-value").nth(1)).to_have_text("May 5th 2000")
    expect(page.locator(".regard-lookup-by")).to_contain_text("minilm's embeddings")
    settle(page)
    similarity = column(page, 3)
    assert similarity[2] == pytest.approx(1, abs=ROUNDED) and similarity[2] > max(similarity[0], similarity[1])
    page.get_by_role("radio", name="Spelling").check(force=True)
    expect(page.locator(".regard-lookup-by")).to_contain_text("groups of three letters")
    form = lookup(examples.named("jane").content)
    np.testing.assert_allclose(column(page, 4), form.soft("when was she born?").weights, atol=ROUNDED)


def test_without_minilm_keys_are_compared_by_spelling(show: Show) -> None:
    page = opened(show, "file", "meaning")
    expect(page.get_by_role("radio", name="Meaning")).to_be_hidden()
    expect(page.locator(".regard-lookup-by")).to_contain_text("groups of three letters")


@pytest.mark.parametrize("host", EACH_HOST)
def test_a_tie_and_a_query_without_a_match_are_said(show: Show, host: str) -> None:
    page = opened(show, host)
    said, values = page.locator(".regard-lookup-said"), page.locator(".regard-lookup-results .regard-lookup-value")
    page.get_by_label("Query", exact=True).fill("birth")
    expect(said).to_be_empty()  # “Date of birth” has one more letter than “Place of birth” has in common
    page.get_by_label("Query", exact=True).fill("xyz")
    expect(said).to_contain_text("No match")
    expect(values.nth(1)).to_have_text("undecided")
    assert column(page, 4) == [0.25] * 4
    page.get_by_label("Dictionary").select_option("Vectors")
    page.get_by_label("Query", exact=True).fill("0.3, 1.2, 4")
    expect(said).to_have_text("A tie: “[0.3, 1.2, 4]” and “[0.3, 1.2, 4]” have the same probability.")
    page.get_by_label("Query", exact=True).fill("0 0 0")
    expect(said).to_contain_text("No match")


@pytest.mark.parametrize("kind", ["CSV", "LaTeX", "SVG"])
def test_an_export_names_the_look_up_and_no_text(show: Show, exported: Callable[[Page, str], str], kind: str) -> None:
    page = opened(show, "served", "meaning")
    by_meaning = "look-up by minilm's embeddings, softmax(cosine ÷ 0.10): “A form”"
    assert plain(exported(page, kind), kind).count(by_meaning) == (4 if kind == "CSV" else 1)
    page.get_by_label("Spelling").check()
    content = plain(exported(page, kind), kind)
    assert "look-up by spelling, softmax(cosine ÷ 0.10): “A form”" in content
    assert "synthetic" not in content and "kids" not in content


def plain(content: str, kind: str) -> str:
    """A file with its escapes undone; of an SVG, its description."""
    if kind == "SVG":
        return content.split("<desc>")[1].split("</desc>")[0].replace("&#39;", "'")
    return content.replace("{-}", "-").replace("\\textquotesingle{}", "'")


def test_a_mistyped_key_is_suggested(show: Show) -> None:
    page = show("file", "kids", "#view=lookup&lookup_example=1")
    expect(page.get_by_role("status").filter(has_text="Did you mean")).to_contain_text("Did you mean model?")
    page.get_by_role("button", name="model", exact=True).click()
    expect(page.get_by_label("Query")).to_have_value("model")
    expect(page.locator(".regard-lookup-results")).to_contain_text("Mustang")

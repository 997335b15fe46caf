"""The tour drives the page, points at what it talks about without covering it, and can be left and resumed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

HOSTS = ("served", "file", "blob")
TITLES = (
    "A look-up made soft", "One query, all keys", "Scale", "Softmax", "The weighted sum", "Many heads",
    "Concatenate, then W_O", "Layers", "What you may conclude",
)  # fmt: skip
VIEWS = ("Lookup", "Steps", "Steps", "Steps", "Steps", "Grid", "Steps", "Sentence", "Sentence")
Show = Callable[..., Page]

# Empty once the first part pointed at is in the window and nothing lies over it; else what is wrong after many frames.
UNCOVERED = """async () => {
  const look = () => {
    const pointed = document.querySelector(".regard-tour-pointed");
    if (!pointed) return "nothing is pointed at";
    const box = pointed.getBoundingClientRect();
    const [x, y] = [Math.max(box.left, 0) + 6, box.top + Math.min(box.height / 2, 12)];
    const there = document.elementFromPoint(Math.min(x, innerWidth - 2), y);
    const free = there && (pointed.contains(there) || there.contains(pointed)) && y < innerHeight;
    return free ? "" : `${x} ${y} ${there?.className}`;
  };
  for (let frame = 0; frame < 600 && look(); frame++) await new Promise(requestAnimationFrame);
  return look();
}"""


def begin(page: Page) -> Any:
    page.get_by_role("button", name="Tour", exact=True).click()
    return page.get_by_role("dialog")


def go_on(page: Page) -> None:
    page.get_by_role("dialog").get_by_role("button", name=re.compile("Next|Done")).click()


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("width", [1400, 360])
def test_every_stop_shows_its_view_and_points_at_something_free(show: Show, host: str, width: int) -> None:
    page = show(host, width=width, height=900 if width > 360 else 780)
    card = begin(page)
    for title, view in zip(TITLES, VIEWS, strict=True):
        if host == "file" and title == "Concatenate, then W_O":
            continue  # a page holds the steps after attention of models alone
        expect(card.get_by_role("heading")).to_have_text(title)
        expect(page.get_by_role("tab", name=view, exact=True)).to_have_attribute("aria-selected", "true")
        expect(card.locator("p").first).to_contain_text(re.compile(r"\w{4}"))
        expect(page.locator(".regard-tour-pointed").first).to_be_visible()
        expect(card.locator(".regard-error")).to_have_count(0)
        assert page.evaluate(UNCOVERED) == ""
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        go_on(page)
    expect(card).to_have_count(0)
    expect(page.locator(".regard-tour-pointed")).to_have_count(0)
    expect(page.get_by_role("tab", name="Sentence")).to_have_attribute("aria-selected", "true")


def test_the_tour_says_the_numbers_that_the_page_shows(
    show: Show, settle: Any, development: Any, opening: bool
) -> None:
    page = show("served", address="#view=sentence")
    card = begin(page)
    for _ in range(3):
        go_on(page)
    expect(card).to_contain_text("“they” gives")
    settle(page)
    address = dict(part.split("=") for part in page.evaluate("location.hash.slice(1)").split("&"))
    reading = development.subject("kids")
    start = reading.opening()  # the address holds what differs from it
    layer, head = int(address.get("layer", start.layer)), int(address.get("head", start.head))
    weights = np.asarray(reading.attention(layer)[head, 10, :])
    said = [float(number) for number in re.findall(r"(\d\.\d\d) to", card.text_content())]
    np.testing.assert_allclose(said, np.sort(weights)[::-1][:3], atol=0.0051)
    page.get_by_role("button", name="lions", exact=True).click()  # another word: other numbers
    expect(card).to_contain_text("“lions” gives")
    settle(page)
    shown = page.locator(".regard-steps-weight").all_text_contents()
    assert all(f"{number:.2f}" in shown for number in map(float, re.findall(r"(\d\.\d\d) to", card.text_content())))


def test_the_tour_can_be_left_and_resumed(show: Show) -> None:
    page = show("served", address="#view=matrix&layer=2&head=3&query=lions")
    card = begin(page)
    go_on(page)
    go_on(page)
    expect(card.get_by_role("heading")).to_have_text("Scale")
    page.get_by_role("button", name="Reset").focus()  # the page stays free to use
    page.keyboard.press("Escape")
    expect(card).to_have_count(0)
    expect(page.get_by_role("tab", name="Matrix")).to_have_attribute("aria-selected", "true")
    expect(page).to_have_url(re.compile("layer=2&head=3&query=lions"))
    page.get_by_role("button", name="Resume tour").click()
    expect(card.get_by_role("heading")).to_have_text("Scale")
    expect(page).to_have_url(re.compile("tour_stop=2"))
    page.reload()
    expect(card.get_by_role("heading")).to_have_text("Scale")


def test_the_tour_of_a_worked_example_leaves_out_what_it_does_not_have(show: Show) -> None:
    page = show("served", "worked")
    card = begin(page)
    expect(card.locator(".regard-tour-count")).to_have_text("1 of 6")
    go_on(page)
    expect(card).to_contain_text("4 numbers")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 360])
def test_axe_finds_nothing_serious_during_the_tour(show: Show, settle: Any, axe: str, theme: str, width: int) -> None:
    page = show("served", theme=theme, width=width)
    card = begin(page)
    expect(card.locator("p").first).to_be_visible()
    go_on(page)
    settle(page)
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    assert [one["id"] for one in found["violations"] if one["impact"] in ("serious", "critical")] == []

"""One zoom from a sentence to a number: a newcomer walks it, an expert finds every control, and the place is kept."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from regard.viewer.frames import unpack

from .conftest import BESIDE, PATIENCE, SCREENS, expect_view, open_adjust, open_view, settled, titles
from .controls import CONTROLS, EVERYWHERE, EXPORTING, EXPORTS
from .test_hosts import findings
from .test_vote import AT_REST, word
from .test_vote import CONTROLS as COUNT

Show = Callable[..., Page]
LEVELS = ("Sentence", "Heads", "One head", "One number", "Does it matter?")
SIZES = [(360, 740), (1400, 900)]


@pytest.fixture
def visit(chromium: Browser, served: str, contexts: list[BrowserContext]) -> Callable[..., Page]:
    """A newcomer's page; with touch on a phone."""

    def open_page(subject: str, width: int, height: int, touch: bool = False, motion: str = "reduce") -> Page:
        context = chromium.new_context(
            viewport={"width": width, "height": height}, has_touch=touch, reduced_motion=motion
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(f"{served}/{subject}")
        settled(page)
        return page

    return open_page


def press(page: Page, target: Any, how: str) -> None:
    """Choose something by mouse, finger or keyboard."""
    target.scroll_into_view_if_needed()
    if how == "keyboard":
        target.focus()
        page.keyboard.press("Enter")
        return
    box = target.bounding_box()
    assert box is not None
    at = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    if how == "touch":
        page.touchscreen.tap(*at)
    else:
        page.mouse.click(*at)


@pytest.mark.parametrize("how", ["mouse", "touch", "keyboard"])
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_a_newcomer_walks_from_the_guess_to_does_it_matter(
    visit: Callable[..., Page], opening: bool, width: int, height: int, how: str
) -> None:
    """At most two presses per step, at most eight controls in sight at each."""
    page = visit("encoder", width, height, how == "touch")
    expect(page.locator(".regard-vote-said")).to_contain_text("Tap a word.")
    assert page.evaluate(COUNT) <= 8
    press(page, word(page, "kids").locator(".regard-vote-text") if how != "keyboard" else word(page, "kids"), how)
    expect(page.locator(".regard-vote-said")).to_contain_text("kids")
    assert page.evaluate(COUNT) <= 8
    press(page, page.locator("circle[data-where=word]").first, how)
    expect_view(page, "One head")
    settled(page)
    expect(page.locator(".regard-sentence-word[aria-selected=true]").first).to_contain_text("they")
    assert page.evaluate(COUNT) <= 8
    press(page, page.get_by_role("tab", name="One number"), how)
    expect(page.locator(".regard-number-title")).to_contain_text("How much does they take from")
    settled(page)
    assert page.evaluate(COUNT) <= 8
    press(page, page.get_by_role("tab", name="Does it matter?"), how)
    expect_view(page, "Does it matter?")
    press(page, page.locator(".regard-matter circle").first, how)
    expect(page.locator(".regard-matter-said b")).to_have_text(re.compile(r"\d %"))
    settled(page)
    assert page.evaluate(COUNT) <= 8
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


# Everything that can be pressed or filled in on the first screen; a word, a dot or a cell is an option of its picture.
IN_SIGHT = """() => [...document.querySelectorAll(
  'button, a[href], input, select, textarea, [role=button], [role=tab], [role=switch], [role=radio]'
)].filter((el) => {
  const { width, height, top, bottom } = el.getBoundingClientRect();
  return width && height && bottom > 0 && top < innerHeight && getComputedStyle(el).visibility !== 'hidden';
}).map((el) => el.getAttribute('aria-label') || el.textContent || el.type)"""
PICTURES = (
    "Dots", "Small maps", "Threads", "Map", "One number", "Does it matter?", "Without one link", "From another text",
    "Layer by layer", "Learn", *BESIDE,
)  # fmt: skip
WIDTHS = ((360, 740), (1400, 900), (1920, 1080))


def too_many(page: Page) -> dict[str, list[str]]:
    """The levels, pictures and views beside the zoom with more than eight controls in sight, at three widths."""
    found: dict[str, list[str]] = {}

    def count(title: str) -> None:
        for width, height in WIDTHS:
            page.set_viewport_size({"width": width, "height": height})
            settled(page)
            found[f"{title} at {width}"] = page.evaluate(IN_SIGHT)

    levels = titles(page)
    if "Sentence" in levels:
        open_view(page, "Sentence")
        count("Guess")
        page.locator(".regard-vote-word:not([data-asker])").nth(1).click()
        count("Vote")
    for title in PICTURES:
        if title in levels or title in ("Dots", "Small maps"):
            open_view(page, title)
            count(title)
    assert len(found) >= 8 * len(WIDTHS)
    return {title: controls for title, controls in found.items() if len(controls) > 8}


@pytest.mark.parametrize(
    ("host", "subject"),
    [("served", "writer"), *(pytest.param(host, "encoder", marks=pytest.mark.slow) for host in ("served", "file"))],
)
def test_at_most_eight_controls_are_in_sight_in_every_view(show: Show, opening: bool, host: str, subject: str) -> None:
    assert too_many(show(host, subject)) == {}


def test_at_most_eight_controls_are_in_sight_in_the_studio(
    new_page: Callable[..., Page], small_studio: str, opening: bool
) -> None:
    page = new_page()
    page.goto(small_studio)
    settled(page)
    assert too_many(page) == {}


@pytest.mark.parametrize(("width", "height", "theme"), SCREENS)
def test_axe_finds_nothing_at_any_level(
    show: Show, settle: Callable[[Page], None], axe: str, opening: bool, width: int, height: int, theme: str
) -> None:
    page = show("served", "encoder", theme=theme, width=width, height=height)
    page.evaluate(axe)
    for level in LEVELS:
        open_view(page, level)
        settle(page)
        page.evaluate(AT_REST)
        assert findings(page) == [], level
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, level
    page.locator("circle").first.press("Enter")
    expect(page.locator(".regard-matter-said b")).to_be_visible()
    assert findings(page) == []


def test_every_control_and_export_is_still_within_reach(show: Show, settle: Callable[[Page], None]) -> None:
    page = show("served", "writer", address="#query=scared")
    for role, name in EVERYWHERE:
        if name == "Theme: ":
            page.locator("summary.regard-more").click()
        expect(page.get_by_role(role, name=name).first).to_be_attached()
        page.keyboard.press("Escape")
    missing = []
    for title, controls in CONTROLS.items():
        if title not in [*titles(page), "Small maps"]:
            continue
        open_view(page, title)
        settle(page)
        if title == "Sentence":
            word(page, "kids").click()
        if title == "Does it matter?":
            page.locator(".regard-matter circle").first.press("Enter")
        open_adjust(page)
        for closed in page.locator(".regard-view .regard-popover:not([open]) > summary").all():
            closed.click()
        settle(page)
        for role, name in controls:
            exact = not name.endswith(" ") and role in ("button", "radio")
            found = page.get_by_role(role, name=name, exact=exact)
            if not found.count() or not found.first.is_visible():
                missing.append((title, role, name))
    assert missing == []
    for title in EXPORTING:
        open_view(page, title)
        settle(page)
        entries = page.locator(".regard-share .regard-export button").all_text_contents()
        assert set(EXPORTS) <= set(entries), title


def test_back_forward_and_reload_keep_the_place(show: Show, settle: Callable[[Page], None], opening: bool) -> None:
    page = show("served", "encoder")
    word(page, "kids").click()
    open_view(page, "Heads")
    page.locator("circle[data-head='1.0']").press("Enter")
    expect_view(page, "One head")
    open_view(page, "One number")
    settle(page)
    name = page.locator(".regard-place-name")
    expect(name).to_have_text("Layer 1, head 0")
    page.reload()
    settle(page)
    expect_view(page, "One number")
    expect(name).to_have_text("Layer 1, head 0")
    for title in ("One head", "Heads", "Sentence"):
        page.go_back()
        expect_view(page, title)
    expect(page.locator(".regard-vote-said")).to_contain_text("kids")
    for title in ("Heads", "One head", "One number"):
        page.go_forward()
        expect_view(page, title)
    expect(name).to_have_text("Layer 1, head 0")


def test_the_same_dots_move_from_level_to_level(visit: Callable[..., Page], opening: bool) -> None:
    """With motion allowed: every dot starts where it was and moves for 300 to 400 ms."""
    page = visit("encoder", 1400, 900, motion="no-preference")
    word(page, "kids").click()
    page.evaluate(AT_REST)
    started = """(level) => new Promise((done) => {
      const dots = () => [...document.querySelectorAll('circle[data-head]')];
      const before = Object.fromEntries(dots().map((one) => [one.dataset.head, one.getBoundingClientRect().x]));
      [...document.querySelectorAll('[role=tab], .regard-menu-item')].find((one) => one.textContent === level).click();
      let looks = 0;
      const look = () => {
        const moving = dots().filter((one) => one.getAnimations().length);
        if (moving.length === 0) return looks++ < 600 ? requestAnimationFrame(look) : done({ heads: 1, moving: 0 });
        const [one] = moving[0].getAnimations();
        const far = moving.map((dot) => Math.abs(dot.getBoundingClientRect().x - before[dot.dataset.head]));
        done({ heads: Object.keys(before).length, moving: moving.length, duration: one.effect.getTiming().duration,
          far: Math.max(...far) });
      };
      look();
    })"""
    for level in ("Heads", "One head", "Does it matter?"):
        found = page.evaluate(started, level)
        assert found["moving"] >= found["heads"] * 0.7, (level, found)
        assert 300 <= found["duration"] <= 400
        page.evaluate(AT_REST)


@pytest.mark.parametrize("subject", ["kids", "causal"])
def test_heads_stand_in_rows_of_layers_and_spread_over_two_measures(
    show: Show, settle: Callable[[Page], None], development: Any, opening: bool, subject: str
) -> None:
    page = show("served", subject, address="#view=dots")
    places = """els => els.map((el) => [el.dataset.head, el.cx.baseVal.value, el.cy.baseVal.value])"""
    circles = page.locator(".regard-dots-stage circle")
    expect(circles).to_have_count(12)
    rows: dict[str, set[float]] = {}
    for head, _, y in circles.evaluate_all(places):
        rows.setdefault(head.split(".")[0], set()).add(round(y, 1))
    assert [len(ys) for ys in rows.values()] == [1, 1, 1]  # layers run down, whatever the model
    open_adjust(page)
    page.get_by_role("radio", name="Over two measures").check()
    settle(page)
    found = {head: (x, y) for head, x, y in circles.evaluate_all(places)}
    reading = development.subject(subject)
    entropy = np.array([reading.attention(layer).entropy().mean(axis=-1) for layer in range(3)]).ravel()
    across = [found[f"{place // 4}.{place % 4}"] for place in range(12)]
    order = np.argsort([-y for _, y in across])  # entropy grows upwards
    assert entropy[order] == pytest.approx(np.sort(entropy), abs=0.02)


def test_pointing_at_a_row_of_the_map_lights_up_its_threads_and_the_reverse(show: Show, settle: Any) -> None:
    page = show("served", address="#view=sentence&query=lions", width=1400, height=900)
    settle(page)
    said = page.locator(".regard-sentence-said")
    expect(said).to_contain_text("lions looks most at")
    stage = page.locator(".regard-matrix-stage")
    box = stage.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.9)
    expect(said).not_to_contain_text("lions looks most at")
    pointed = page.locator(".regard-sentence-side[data-side=query] [data-pointed]")
    expect(pointed).to_have_count(1)
    expect(said).to_contain_text(pointed.locator(".regard-sentence-text").text_content() or "")
    page.mouse.move(5, 5)
    expect(said).to_contain_text("lions looks most at")
    before = stage.locator("canvas").evaluate("el => el.toDataURL()")
    page.locator(".regard-sentence-side[data-side=query] .regard-sentence-word").nth(2).hover()
    page.wait_for_function(
        "(before) => document.querySelector('.regard-matrix-stage canvas').toDataURL() !== before", arg=before
    )


def test_a_colour_keeps_its_meaning_at_every_zoom(show: Show, settle: Any) -> None:
    page = show("served", "long", address="#view=matrix")
    settle(page)
    ends = page.locator(".regard-matrix-ends")
    scale = ends.text_content()
    for _ in range(6):
        page.get_by_role("button", name="Zoom in").click()
        settle(page)
        page.wait_for_timeout(250)
        assert ends.text_content() == scale
    expect(page.locator(".regard-minimap")).to_be_visible()
    shown = page.locator(".regard-minimap-frame")
    before = shown.bounding_box()
    box = page.locator(".regard-minimap").bounding_box()
    assert before is not None and box is not None
    page.mouse.click(box["x"] + box["width"] * 0.2, box["y"] + box["height"] * 0.2)
    page.wait_for_function(
        "(x) => document.querySelector('.regard-minimap-frame').getBoundingClientRect().x < x", arg=before["x"]
    )


def test_struck_heads_change_the_answer_as_python_computes_it(
    show: Show, settle: Any, development: Any, opening: bool
) -> None:
    page = show("served", "writer", address="#view=matter&matter_struck=0.0,1.1&query=scared")
    settle(page)
    words = development.subject("writer").labels
    place = next(at for at, label in enumerate(words) if label.strip() == "scared")
    asked = {"layer": 0, "head": 0, "query": place, "silenced": [[0, 0], [1, 1]]}
    _, arrays = unpack(development.answers("writer").answer("flow", asked))
    percent = 100 * float(arrays["moved"][-1])
    expect(page.locator(".regard-matter-said b")).to_have_text(f"{percent:.{0 if percent >= 10 else 1}f} %")
    expect(page.locator(".regard-matter-control")).to_contain_text("2 other heads of the same layers")
    expect(page.locator(".regard-next-table tbody tr").first).to_be_visible()
    expect(page.locator("circle[aria-selected=true]")).to_have_count(2)
    page.get_by_role("button", name="Put all back").click()
    expect(page.locator("circle[aria-selected=true]")).to_have_count(0)


@pytest.mark.parametrize(("width", "height"), [(1024, 768), (700, 450)])  # the second: 1400 × 900 at 200%
def test_the_picture_is_on_the_first_screen(show: Show, settle: Any, opening: bool, width: int, height: int) -> None:
    page = show("served", "encoder", width=width, height=height)
    pictures = (("Heads", "dots-stage"), ("One head", "sentence-stage"), ("One number", "number-stages"))
    for level, picture in pictures:
        open_view(page, level)
        settle(page)
        box = page.locator(f".regard-{picture}").first.bounding_box()
        assert box is not None and box["y"] < height * 0.75, level

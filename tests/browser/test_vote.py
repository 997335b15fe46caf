"""The first screen: a newcomer guesses, sees the heads vote, and opens one; whoever asks for a place lands there."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from .conftest import SCREENS, expect_view, open_view, titles
from .test_hosts import findings

Show = Callable[..., Page]
Settle = Callable[[Page], None]

# How many controls the first screen shows: what Tab stops at, so that levels, dots and options that exclude each other
# count once each. The words of the sentence are no controls.
CONTROLS = """() => {
  const all = document.querySelectorAll('button, a[href], input, select, textarea, summary, circle[tabindex]');
  const isSeen = (el) => {
    const { top, bottom, width } = el.getBoundingClientRect();
    return width && bottom > 0 && top < innerHeight && el.checkVisibility({ visibilityProperty: true });
  };
  const stops = [...all].filter((el) => isSeen(el) && el.tabIndex >= 0 && !el.matches('.regard-skip'));
  const radios = stops.filter((el) => el.type === 'radio');
  return stops.length - radios.length + new Set(radios.map(({ name }) => name)).size;
}"""

AT_REST = "Promise.allSettled(document.getAnimations().map((one) => one.finished)).then(() => null)"


def word(page: Page, text: str) -> Locator:
    return page.locator(f".regard-vote-word:has(.regard-vote-text:text-is('{text}'))")


def dots(page: Page) -> list[dict[str, Any]]:
    """Where each head's dot is: on which word, and how it is marked."""
    found: list[dict[str, Any]] = page.locator(".regard-vote-stage > svg:not([aria-hidden]) circle").evaluate_all(
        "els => els.map((el) => ({ head: el.dataset.head, where: el.dataset.where, abstains: 'abstains' in el.dataset,"
        " changed: 'changed' in el.dataset, transform: el.style.transform }))"
    )
    return found


def counts(page: Page) -> dict[str, int]:
    """The number above each word, by its accessible name."""
    names = page.locator(".regard-vote-word").evaluate_all("els => els.map((el) => el.getAttribute('aria-label'))")
    return {name.split(", ")[0]: int(found[1]) for name in names if (found := re.search(r", (\d+) votes?", name))}


def expected(reading: Any, of: str) -> dict[str, int]:
    """The counts of Python."""
    return dict(reading.votes(of).counts)


@pytest.mark.parametrize("host", ["served", "file"])
@pytest.mark.parametrize(("width", "height"), [(360, 740), (1400, 900)])
def test_a_newcomer_guesses_sees_the_vote_and_opens_one_head_by_mouse(
    show: Show, development: Any, opening: bool, host: str, width: int, height: int
) -> None:
    page = show(host, width=width, height=height)
    expect(page.locator(".regard-vote-said")).to_have_text("Which word does they look at? Tap a word.")
    expect(word(page, "they")).to_have_attribute("data-asker", "")
    assert page.evaluate(CONTROLS) <= 8
    word(page, "kids").click()
    reading = development.subject("kids")
    wanted = expected(reading, "they")
    assert counts(page) == wanted
    heads = reading.layers * reading.heads
    assert len(dots(page)) == heads
    expect(page.locator(".regard-vote-said")).to_contain_text(f"{wanted.get('kids', 'no')} ")
    assert page.evaluate(CONTROLS) <= 8
    choice = next(vote for vote in reading.votes("they").heads if vote.word is not None)
    dot = page.locator(f"circle[data-head='{choice.layer}.{choice.head}']")
    dot.scroll_into_view_if_needed()
    box = dot.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect_view(page, "Threads")
    expect(page.locator(".regard-place-name")).to_have_text(f"Layer {choice.layer}, head {choice.head}")
    expect(page.locator(".regard-sentence-word[aria-selected=true]")).to_contain_text("they")
    expect(page).to_have_url(re.compile("view=sentence"))
    page.go_back()
    expect(page.locator(".regard-vote-said")).to_contain_text("kids")
    assert counts(page) == wanted
    page.go_back()
    expect(page.locator(".regard-vote-said")).to_contain_text("Tap a word.")


def test_the_same_by_keyboard(show: Show, development: Any, opening: bool) -> None:
    page = show("served")
    page.keyboard.press("Tab")  # skips to the view
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(word(page, "they")).to_be_focused()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(word(page, "kids")).to_be_focused()
    page.keyboard.press("Enter")
    assert counts(page) == expected(development.subject("kids"), "they")
    expect(word(page, "kids")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator("circle").first).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".regard-vote-hint")).to_contain_text("Layer 0, head 1 looks at")
    page.keyboard.press("Enter")
    expect(page.locator(".regard-place-name")).to_have_text("Layer 0, head 1")


def test_the_same_by_touch(
    show: Show, chromium: Any, served: str, contexts: list[Any], settle: Settle, opening: bool
) -> None:
    context = chromium.new_context(viewport={"width": 360, "height": 740}, has_touch=True, reduced_motion="reduce")
    contexts.append(context)
    page = context.new_page()
    page.goto(f"{served}/kids")
    settle(page)
    word(page, "lions").locator(".regard-vote-text").tap()
    expect(page.locator(".regard-vote-said")).to_contain_text("lions")
    dot = page.locator("circle[data-where=word]").first
    dot.scroll_into_view_if_needed()
    box = dot.bounding_box()
    page.touchscreen.tap(box["x"] + 3, box["y"] + 3)
    expect_view(page, "Threads")


@pytest.mark.parametrize(("width", "height", "theme"), SCREENS)
def test_axe_finds_nothing_on_the_first_screen(
    show: Show, settle: Settle, axe: str, opening: bool, width: int, height: int, theme: str
) -> None:
    page = show("served", theme=theme, width=width, height=height)
    page.evaluate(axe)
    assert findings(page) == []
    page.get_by_role("button", name="What is this?").click()
    word(page, "kids").click()
    settle(page)
    page.evaluate(AT_REST)
    assert findings(page) == []
    page.get_by_role("button", name="Set them apart").click()
    page.evaluate(AT_REST)
    assert findings(page) == []


@pytest.mark.parametrize(("width", "height"), [(360, 740), (1024, 768), (1400, 900), (1920, 1080)])
def test_nothing_overflows_and_the_sentence_is_on_the_first_screen(
    show: Show, opening: bool, width: int, height: int
) -> None:
    page = show("served", width=width, height=height)
    for _ in range(2):
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        box = page.locator(".regard-vote-words").bounding_box()
        assert box is not None and box["y"] + box["height"] <= height
        word(page, "kids").click()


@pytest.mark.parametrize("address", ["#layer=1", "#head=2", "#query=lions", "#view=grid", "#view=sentence"])
def test_whoever_asks_for_a_place_lands_there(show: Show, opening: bool, address: str) -> None:
    page = show("served", address=address)
    expect_view(page, "Small maps" if "grid" in address else "Threads")
    expect(page.locator(".regard-vote-stage")).to_have_count(0)


def test_every_level_and_view_is_one_or_two_taps_away_and_leads_back(show: Show, opening: bool) -> None:
    page = show("served")
    every = ["Heads", "One head", "One number", "Small maps", "Map", "In context", "Words", "Architecture", "Lookup"]
    assert set(every) <= {*titles(page), "Small maps"}
    for title in every:
        open_view(page, title)
    open_view(page, "Sentence")
    expect(page.locator(".regard-vote-said")).to_contain_text("Tap a word.")


def test_a_reload_and_a_returning_visit_do_not_ask_again(
    show: Show, new_page: Any, settle: Settle, tmp_path: Any, development: Any, opening: bool
) -> None:
    page = show("file")
    word(page, "kids").click()
    expect(page).to_have_url(re.compile("vote_guess=kids"))
    page.reload()
    settle(page)
    expect(page.locator(".regard-vote-said")).to_contain_text("kids")
    assert counts(page) == expected(development.subject("kids"), "they")
    plain = page.url.split("#")[0]
    page.goto("about:blank")
    page.goto(plain)  # another visit: the votes, without the guess
    settle(page)
    expect(page.locator(".regard-vote-said")).to_contain_text("heads")
    open_view(page, "Small maps")
    page.goto("about:blank")
    page.goto(plain)
    settle(page)
    expect_view(page, "Small maps")


def test_votes_form_layer_by_layer_and_no_dot_is_lost(show: Show, development: Any, opening: bool) -> None:
    page = show("served")
    word(page, "kids").click()
    reading = development.subject("kids")
    slider = page.get_by_role("slider")
    votes = reading.votes("they")
    for layers in (0, 1, 2, 3):
        slider.fill(str(layers))
        found = dots(page)
        assert len(found) == len(votes.heads)
        waiting = {dot["head"] for dot in found if dot["where"] == "layer"}
        assert waiting == {f"{vote.layer}.{vote.head}" for vote in votes.heads if vote.layer >= layers}
        on_words = sum(vote.word is not None for vote in votes.heads if vote.layer < layers)
        assert sum(counts(page).values()) == on_words


def test_heads_that_abstain_can_be_set_apart(show: Show, development: Any, opening: bool) -> None:
    page = show("served")
    word(page, "kids").click()
    votes = development.subject("kids").votes("they")
    resting = {f"{vote.layer}.{vote.head}" for vote in votes.heads if vote.abstains and vote.word is not None}
    assert resting
    assert {dot["head"] for dot in dots(page) if dot["abstains"] and dot["where"] == "word"} == resting
    expect(page.locator(".regard-vote-legend")).to_contain_text(f"{len(resting)} of {len(votes.heads)} abstain")
    page.get_by_role("button", name="Set them apart").click()
    assert {dot["head"] for dot in dots(page) if dot["where"] == "tray"} >= resting
    assert sum(counts(page).values()) == sum(not vote.abstains for vote in votes.heads)


def test_words_hidden_by_the_mask_get_no_dots(show: Show, development: Any, opening: bool) -> None:
    page = show("served", "causal")
    word(page, "kids").click()
    assert counts(page) == expected(development.subject("causal"), "they")
    expect(page.locator(".regard-vote-legend")).to_contain_text("Grey words are hidden from they")
    assert not {"left", "right", "away"} & set(counts(page))


def test_in_the_studio_nouns_are_swapped_sentences_change_and_one_types_ones_own(
    new_page: Any, small_studio: str, settle: Settle, opening: bool
) -> None:
    page = new_page()
    page.goto(small_studio)
    settle(page)
    said = page.locator(".regard-vote-said")
    expect(said).to_contain_text("Which word does they look at?")
    expect(page.get_by_role("textbox")).to_have_count(0)  # the studio's bar is with the other views
    word(page, "kids").click()
    first = dots(page)
    page.get_by_role("button", name="Swap the nouns").click()
    expect(page.locator(".regard-vote-words")).to_contain_text(re.compile("lions.*kids"))
    settle(page)
    assert [dot["head"] for dot in dots(page)] == [dot["head"] for dot in first]  # the same dots, elsewhere
    expect(said).to_contain_text("kids")  # the guess stays with its word
    page.get_by_role("button", name="Another sentence").click()
    expect(said).to_have_text("Who left? Tap a word.")
    page.get_by_role("button", name="Your own").click()
    field = page.get_by_role("textbox", name="Your own sentence")
    expect(field).to_be_focused()
    field.fill("the lions were scared, so they left")
    expect(page.locator(".regard-vote-words")).to_contain_text(re.compile("^the"))
    expect(said).to_contain_text("Which word does they look at?")
    expect(field).to_be_focused()  # typing goes on
    expect(page.get_by_role("button", name="Swap the nouns")).to_be_hidden()


def test_a_page_from_disk_offers_only_what_it_can_do(show: Show, opening: bool) -> None:
    page = show("file")
    expect(page.get_by_role("button", name="What is this?")).to_be_visible()
    for name in ("Swap the nouns", "Another sentence", "Your own"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)


def test_a_notebook_opens_with_the_sentence_and_has_the_vote(show: Show, development: Any, opening: bool) -> None:
    page = show("blob")
    expect_view(page, "Threads")
    open_view(page, "Sentence")
    word(page, "kids").click()
    assert counts(page) == expected(development.subject("kids"), "they")


def test_dots_move_and_keep_their_identity(
    chromium: Any, served: str, contexts: list[Any], settle: Settle, opening: bool
) -> None:
    """With motion allowed: every transition takes 300 to 400 ms and moves the same elements."""
    context = chromium.new_context(viewport={"width": 1200, "height": 900}, reduced_motion="no-preference")
    contexts.append(context)
    page = context.new_page()
    page.goto(f"{served}/kids")
    settle(page)
    word(page, "kids").click()
    durations = "els => els.flatMap((el) => el.getAnimations().map((one) => one.effect.getTiming().duration))"
    falling = page.locator("circle").evaluate_all(durations)
    assert len(falling) == 12 and all(300 <= one <= 400 for one in falling)
    page.evaluate("window.before = [...document.querySelectorAll('circle')]")
    page.evaluate(AT_REST)
    page.get_by_role("button", name="Set them apart").click()
    assert page.locator("circle").evaluate_all(durations)
    assert page.evaluate("[...document.querySelectorAll('circle')].every((one, place) => one === window.before[place])")


# The dots that are not within the pile of their own word: by their place on the screen.
ASTRAY = """() => [...document.querySelectorAll('circle[data-where=word]')].filter((circle) => {
  const dot = circle.getBoundingClientRect();
  const [x, y] = [dot.x + dot.width / 2, dot.y + dot.height / 2];
  const name = / looks at (.*) \\(/.exec(circle.getAttribute('aria-label'))[1];
  return ![...document.querySelectorAll('.regard-vote-word')].some((word) => {
    const pile = word.firstElementChild.getBoundingClientRect();
    const reach = Math.max(pile.width / 2, 24);
    const isAbove = Math.abs(pile.x + pile.width / 2 - x) <= reach && y <= pile.bottom && y >= pile.top;
    return isAbove && word.lastElementChild.textContent === name;
  });
}).length"""


@pytest.mark.parametrize("width", [360, 1400])
def test_every_dot_comes_to_rest_on_its_own_word(
    chromium: Any, served: str, contexts: list[Any], settle: Settle, opening: bool, width: int
) -> None:
    """With motion allowed, also if the window changes while words and dots move."""
    context = chromium.new_context(viewport={"width": width, "height": 740}, reduced_motion="no-preference")
    contexts.append(context)
    page = context.new_page()
    page.goto(f"{served}/kids")
    settle(page)
    word(page, "kids").click()
    page.set_viewport_size({"width": width - 40, "height": 740})
    page.get_by_role("slider").fill("1")
    page.get_by_role("slider").fill("3")
    page.evaluate(AT_REST)
    settle(page)
    assert page.evaluate(ASTRAY) == 0


def test_a_mean_of_several_heads_has_one_colour(show: Show) -> None:
    page = show("served", address="#query=they")
    page.get_by_role("button", name="all", exact=True).click()
    colours = "els => new Set(els.map((el) => getComputedStyle(el).backgroundColor)).size"
    chips = page.locator(".regard-heads .regard-head[aria-pressed=true]")
    expect(chips).to_have_count(4)
    assert chips.evaluate_all(colours) == 1
    page.get_by_role("radio", name="Separate").check()
    assert chips.evaluate_all(colours) == 4


def test_a_studio_that_has_ended_says_so(chromium: Any, contexts: list[Any], small_studio: str, settle: Settle) -> None:
    context = chromium.new_context(reduced_motion="reduce")
    contexts.append(context)
    page = context.new_page()
    page.goto(small_studio)
    settle(page)
    page.route("**/read", lambda route: route.abort())
    page.get_by_label("Text").fill("the kids left")
    expect(page.get_by_role("alert")).to_contain_text("The studio does not answer: it has ended")
    expect(page.get_by_label("Text")).to_have_value("the kids left")


def test_the_first_run_without_a_model_says_what_to_do(
    run_studio: Any, new_page: Any, development: Any, axe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.studio import library

    from .conftest import Known

    known = {"small": Known("small", "a small model", 91_000_000, "MIT")}
    monkeypatch.setattr("regard.studio.library.store.CATALOGUE", known)
    monkeypatch.setattr(library, "models_here", lambda: set())
    with run_studio(library.Library("small"), development.KIDS) as address:
        page = new_page()
        page.goto(address)
        expect(page.get_by_role("tabpanel")).to_contain_text(development.KIDS)
        expect(page.get_by_role("tabpanel")).to_contain_text("small is not here yet: 91 MB to download, licence MIT.")
        expect(page.get_by_role("button", name="Download 91 MB")).to_be_visible()
        expect(page.get_by_role("alert")).to_have_count(0)
        assert page.evaluate(CONTROLS) <= 8
        page.evaluate(axe)
        assert findings(page) == []

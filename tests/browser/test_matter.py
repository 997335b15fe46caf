"""Does it matter? Heads struck out, links cut, activations of another text, the logit lens: as Python computes them."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, Route, expect

from regard.edits import block, patch, silence
from regard.reading.votes import vote_of
from regard.viewer.frames import unpack

from .conftest import SCREENS, open_view
from .test_hosts import findings
from .test_vote import AT_REST
from .test_vote import CONTROLS as COUNT

Show = Callable[..., Page]
NAMES = "els => els.map((el) => el.dataset.head)"
PICTURES = ("Without heads", "Without one link", "From another text", "Layer by layer")


def token_of(reading: Any, word: str) -> int:
    return next(place for place, label in enumerate(reading.labels) if label.strip() == word)


def votes(reading: Any, token: int) -> dict[tuple[int, int], int | None]:
    """The word that each head votes for, by layer and head."""
    word = reading.word_weights.place_of(token)
    sinks = [place for place, one in enumerate(reading.words) if set(range(one.first, one.last)) & set(reading.sinks)]
    rows = reading.word_weights.rows(reading.words[word], None, None)
    return {(layer, head): vote_of(row, sinks=sinks, own=word)[0] for layer, head, row in rows}


def test_heads_that_look_elsewhere_after_a_change_are_counted_and_marked(
    show: Show, settle: Any, development: Any, opening: bool
) -> None:
    """Against readings of the model with the same heads silenced, and of the control."""
    page = show("served", "writer", address="#view=matter&matter_struck=0.0,0.1&query=scared")
    settle(page)
    reading = development.subject("writer")
    token = token_of(reading, "scared")
    before = votes(reading, token)
    changed = votes(reading.reader.edited(silence((0, 0), (0, 1))).read(reading.text), token)
    later = [head for head in before if head[0] > 0]
    moved = {f"{layer}.{head}" for layer, head in later if before[layer, head] != changed[layer, head]}
    said = page.locator(".regard-matter-later")
    expect(said).to_contain_text(f"{len(moved)} of {len(later)} heads" if moved else "None")
    drawn = page.locator(".regard-matter-votes circle[data-changed]").evaluate_all(NAMES)
    assert set(drawn) == moved
    struck = page.locator(".regard-matter-votes circle[data-struck]")
    assert sorted(struck.evaluate_all(NAMES)) == ["0.0", "0.1"]
    expect(page.locator(".regard-matter-control")).to_contain_text("elsewhere")
    page.get_by_role("button", name="Put all back").click()
    expect(page.locator(".regard-matter-votes circle[data-changed]")).to_have_count(0)


@pytest.mark.parametrize("where", ["all", "layer", "head"])
def test_a_cut_link_changes_the_word_as_a_blocked_edge_does(
    show: Show, settle: Any, development: Any, opening: bool, where: str
) -> None:
    reading = development.subject("writer")
    query, key = token_of(reading, "left"), token_of(reading, "kids")
    weights = [np.asarray(seen.attention[:, query, key]) for seen in reading.seen]
    layer, head = (int(place) for place in np.unravel_index(np.argmax(weights), (len(weights), len(weights[0]))))
    address = f"#view=edges&query=left&key=kids&layer={layer}&head={head}"
    page = show("served", "writer", address=address + ("" if where == "all" else f"&edge_where={where}"))
    settle(page)
    places = {"all": {}, "layer": {"layers": [layer]}, "head": {"heads": [(layer, head)]}}[where]
    changed = reading.reader.read(reading.text, edit=block(queries=query, keys=key, **places))  # type: ignore[arg-type]
    after, start = (np.asarray(one.states[-1])[query].astype(float) for one in (changed, reading))
    percent = 100 * np.linalg.norm(after - start) / np.linalg.norm(start)
    assert percent > 0.1
    expect(page.locator(".regard-matter-said b")).to_have_text(f"{percent:.{0 if percent >= 10 else 1}f} %")
    expect(page.locator(".regard-matter-said")).to_contain_text("Without left → kids")
    expect(page.locator(".regard-matter-control")).to_contain_text("instead")
    page.get_by_role("option", name="All layers").click()
    page.get_by_role("listbox", name="may not look at").get_by_role("option", name="were").click()
    expect(page.locator(".regard-matter-said")).to_contain_text("Without left → were")


def test_a_link_that_the_mask_hides_is_named(show: Show, settle: Any, opening: bool) -> None:
    page = show("served", "writer", address="#view=edges&query=scared&key=left")
    settle(page)
    expect(page.locator(".regard-matter-said")).to_contain_text("cannot look at left anyway")


@pytest.mark.parametrize("by", ["head", "position"])
def test_the_map_of_another_texts_activations_is_pythons(
    show: Show, settle: Any, development: Any, opening: bool, by: str, exported: Callable[[Page, str], str]
) -> None:
    reading = development.subject("writer")
    other = reading.text.replace("scared", "kids", 1)
    page = show(
        "served", "writer", address="#view=patching&query=left" + ("&patch_by=position" if by == "position" else "")
    )
    field = page.get_by_role("textbox", name="The other text")
    field.fill(other)
    field.press("Enter")
    expect(page.locator(".regard-heat [data-waits]")).to_have_count(0)
    expect(page.locator(".regard-matter-said")).to_contain_text("The strongest: ")
    query = token_of(reading, "left")
    there = reading.reader.read(other)
    layer, column = 1, 2
    what = (
        {"heads": [(layer, column)]} if by == "head" else {"what": "residual", "layers": [layer], "positions": column}
    )
    patched = reading.reader.read(reading.text, edit=patch(there, **what))
    ends = [
        np.asarray(reading.reader.next_logits(np.asarray(one.states[-1])[[query]]))[0]
        for one in (reading, patched, there)
    ]
    answer, others = int(ends[0].argmax()), int(ends[2].argmax())
    assert answer != others
    here, now, end = (float(logits[others] - logits[answer]) for logits in ends)
    share = (now - here) / (end - here)
    _, *rows = csv.reader(exported(page, "CSV").splitlines())
    label = str(column) if by == "head" else reading.tokens[column].text
    (found,) = [float(row[2]) for row in rows if row[0] == str(layer)][column : column + 1]
    assert [row[1] for row in rows if row[0] == str(layer)][column] == label
    assert found == pytest.approx(share, abs=2e-4)
    assert "<svg" in exported(page, "SVG")


def test_texts_of_other_lengths_are_refused_in_a_sentence(show: Show, settle: Any, opening: bool) -> None:
    page = show("blob", "writer")  # no request fails, so that nothing is logged
    open_view(page, "From another text")
    field = page.get_by_role("textbox", name="The other text")
    field.fill("the kids")
    field.press("Enter")
    expect(page.locator(".regard-matter-said")).to_contain_text("both need equally many")


def test_a_map_can_be_cancelled_and_its_strongest_heads_struck_out(
    show: Show, settle: Any, development: Any, opening: bool
) -> None:
    page = show("served", "encoder", address="#view=patching")
    waiting: list[Route] = []
    page.route(
        "**/patching",
        lambda route: waiting.append(route) if route.request.post_data_json["layer"] == 1 else route.continue_(),
    )
    field = page.get_by_role("textbox", name="The other text")
    field.fill(development.subject("encoder").text.replace("kids", "they", 1))
    field.press("Enter")
    work = page.locator(".regard-patching .regard-bar-group", has=page.locator("progress"))
    expect(work).to_contain_text("1 of 2 layers computed")
    work.get_by_role("button", name="Cancel").click()  # while the second layer is computed
    expect(work).to_contain_text("1 of 2 layers computed, stopped")
    page.unroute("**/patching")
    work.get_by_role("button", name="Go on").click()
    expect(work).to_be_hidden()
    page.get_by_role("button", name="Strike out the 3 strongest heads").click()
    expect(page.locator(".regard-matter circle[aria-selected=true]")).to_have_count(3)
    expect(page.locator(".regard-matter-said b")).to_be_visible()


def test_the_logit_lens_is_a_table_of_pythons_words(
    show: Show, settle: Any, development: Any, opening: bool, exported: Callable[[Page, str], str]
) -> None:
    page = show("served", "writer", address="#view=lens&query=left")
    settle(page)
    header, arrays = unpack(development.answers("writer").answer("lens"))
    rows = page.locator(".regard-heat tbody tr")
    expect(rows).to_have_count(len(header["tops"]))
    shown = rows.nth(2).locator("td").all_text_contents()
    assert shown == [top if len(top) <= 9 else f"{top[:8]}…" for top in header["tops"][2]]
    token = token_of(development.subject("writer"), "left")
    expect(page.locator(".regard-matter-said b")).to_have_text(f"“{header['tops'][-1][token]}”")
    expect(page.locator(".regard-heat td[data-strong]")).to_have_count(int((arrays["rank"] == 0).sum()))
    assert exported(page, "CSV").startswith("after,position,token,top,probability")


def test_a_model_without_an_unembedding_says_why_it_has_no_lens(show: Show, settle: Any, opening: bool) -> None:
    page = show("served", "encoder", address="#view=lens")
    expect(page.locator(".regard-missing")).to_contain_text("has no unembedding")
    expect(page.locator(".regard-missing code")).to_contain_text("regard studio --model smollm2")


def test_a_page_without_a_model_says_what_is_missing_and_how_to_get_it(show: Show, settle: Any, opening: bool) -> None:
    page = show("file", "writer")
    for picture in PICTURES:
        open_view(page, picture)
        expect(page.locator(".regard-missing-why")).to_contain_text("not the model")
        expect(page.locator(".regard-missing code")).to_contain_text("--with-model --out page.html")


@pytest.mark.parametrize(("width", "height", "theme"), SCREENS)
def test_axe_finds_nothing_and_few_controls_are_in_sight(
    show: Show, settle: Any, axe: str, opening: bool, theme: str, width: int, height: int
) -> None:
    page = show("served", "writer", theme=theme, width=width, height=height, address="#query=left&matter_struck=0.0")
    page.evaluate(axe)
    for picture in PICTURES:
        open_view(page, picture)
        settle(page)
        if picture == "From another text":
            field = page.get_by_role("textbox", name="The other text")
            field.fill("the kids were scared of the lions, so they left".replace("kids", "lions"))
            field.press("Enter")
            settle(page)
        page.evaluate(AT_REST)
        assert findings(page) == [], picture
        assert page.evaluate(COUNT) <= 8, picture
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, picture


def test_another_text_is_shown_at_heads_and_at_does_it_matter(new_page: Any, small_studio: str, settle: Any) -> None:
    """Both wait for a width before they draw: they get one although the picture before is still there."""
    page = new_page()
    page.goto(small_studio)
    settle(page)
    for level, selector in (("Heads", ".regard-dots-stage"), ("Does it matter?", ".regard-matter-heads")):
        open_view(page, level)
        settle(page)
        page.locator(f"{selector} circle").first.evaluate("el => el.ownerSVGElement.setAttribute('data-old', '')")
        field = page.locator("textarea").first
        field.fill(f"the lions {'left' if level == 'Heads' else 'were scared'}")
        expect(page.locator(f"{selector} svg[data-old]")).to_have_count(0)
        expect(page.locator(f"{selector} circle").first).to_be_visible()
    expect(page.locator(".regard-matter-said")).to_contain_text(re.compile("Tap dots to strike out"))


@pytest.mark.slow
def test_train_one_now_trains_and_shows_its_film(
    new_page: Any, small_studio: str, settle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the code that `regard train` runs, in a process of its own, with twelve steps."""
    pytest.importorskip("torch")
    from regard.studio import training

    run = training.run
    monkeypatch.setattr(training, "run", lambda task, tell: run(task, tell, steps=12))
    page = new_page()
    page.goto(small_studio)
    settle(page)
    open_view(page, "Learn")
    page.get_by_role("button", name="Look-up").click()
    expect(page.locator(".regard-learn-work")).to_be_visible()
    expect(page.locator(".regard-learn-film")).to_contain_text("Step", timeout=300_000)
    expect(page.locator(".regard-learn-film canvas").first).to_be_visible()
    expect(page.locator(".regard-learn-work")).to_be_hidden()

"""Heads chosen by what they are known to do, with their scores, and an honest answer where no head does it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from regard.viewer import page as pages


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from regard.models.model import model

    path = tmp_path_factory.mktemp("roles") / "keys.html"
    return pages.save(model("minilm").read("Keys on the table belong to Sarah"), path)


def opened(new_page: Callable[..., Page], path: Path, **how: Any) -> Page:
    page = new_page(offline=True, **how)
    page.goto(path.as_uri())
    expect(page.locator(".regard-sentence-said")).to_be_visible()
    return page


def test_a_question_chooses_the_head_that_answers_it_and_gives_its_score(
    new_page: Callable[..., Page], keys: Path
) -> None:
    page = opened(new_page, keys)
    said = page.locator(".regard-roles-said")
    page.get_by_role("button", name="whose").click()
    expect(said).to_contain_text("possessor → possession, layer 1, head 7: right for 0.70 of 387 words in UD English")
    expect(said).to_contain_text("the best fixed offset (+1) for 0.62")
    expect(page.get_by_role("button", name="Head 7", exact=True)).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="who does what").click()
    expect(said).to_contain_text("object → verb, layer 2, head 0: right for 0.74")
    page.get_by_role("button", name="subject → verb 2.8").click()
    expect(said).to_contain_text("subject → verb, layer 2, head 8: right for 0.61")
    expect(page.get_by_role("button", name="who does what")).to_have_attribute("aria-pressed", "true")


def test_a_question_without_a_head_says_so_and_leaves_the_head(new_page: Callable[..., Page], keys: Path) -> None:
    page = opened(new_page, keys)
    chosen = page.locator(".regard-heads .regard-head[aria-pressed=true]")
    expect(chosen).to_have_text("8")
    page.get_by_role("button", name="what refers to what").click()
    expect(page.locator(".regard-roles-said")).to_contain_text("No head of minilm does this")
    expect(page.locator(".regard-roles-said")).to_contain_text("0.59")
    expect(chosen).to_have_text("8")


def test_chosen_questions_are_in_the_address_and_heads_have_their_label(
    new_page: Callable[..., Page], keys: Path
) -> None:
    page = opened(new_page, keys)
    page.get_by_role("button", name="where", exact=True).click()
    expect(page).to_have_url(re.compile("roles_asked=where"))
    expect(page.get_by_role("button", name="Head 8", exact=True)).to_have_attribute(
        "title", "spatial preposition → noun 0.73"
    )
    page.reload()
    expect(page.get_by_role("button", name="where", exact=True)).to_have_attribute("aria-pressed", "true")
    page.get_by_role("tab", name="Grid").click()
    expect(page.get_by_role("button", name="Layer 2, head 8, spatial preposition → noun 0.73")).to_be_visible()


def test_in_the_studio_a_typed_sentence_is_asked_whose_where_and_who_does_what(
    new_page: Callable[..., Page], run_studio: Any, settle: Callable[[Page], None]
) -> None:
    from regard.studio.library import Library

    with run_studio(Library("minilm"), "The cat sat") as address:
        page = new_page()
        page.goto(address)
        page.get_by_label("Text", exact=True).fill("Keys on the table belong to Sarah")
        words = page.locator(".regard-sentence-side[data-side=query] .regard-sentence-text")
        expect(words.filter(has_text="Sarah")).to_be_visible()
        settle(page)
        said = page.locator(".regard-roles-said")
        for question, answer, head in (
            ("whose", "possessor → possession, layer 1, head 7: right for 0.70", "Head 7"),
            ("where", "noun → spatial preposition, layer 2, head 0: right for 0.73 of 1,026 words", "Head 0"),
            ("who does what", "object → verb, layer 2, head 0: right for 0.74", "Head 0"),
        ):
            page.get_by_role("button", name=question, exact=True).click()
            expect(said).to_contain_text(answer)
            expect(said).to_contain_text("the best fixed offset (")
            expect(page.get_by_role("button", name=head, exact=True)).to_have_attribute("aria-pressed", "true")
        page.get_by_role("button", name="what refers to what").click()
        expect(said).to_contain_text("No head of minilm does this")


@pytest.mark.parametrize("width", [360, 1400])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_and_nothing_is_cut_off(
    new_page: Callable[..., Page], keys: Path, axe: str, width: int, theme: str
) -> None:
    page = opened(new_page, keys, width=width, height=900, theme=theme)
    page.get_by_role("button", name="who does what").click()
    page.evaluate(axe)
    found: Any = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    assert [(one["id"], [node["html"][:160] for node in one["nodes"]]) for one in found["violations"]] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_an_unknown_model_has_no_questions(show: Callable[..., Page]) -> None:
    page = show("file")
    expect(page.locator(".regard-sentence-said")).to_be_visible()
    expect(page.locator(".regard-roles")).to_have_count(0)

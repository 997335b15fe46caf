"""Heads chosen by what they are known to do, with their scores, and an honest answer where no head does it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from regard.viewer import page as pages

from .conftest import open_adjust, open_view


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from regard.models.model import model

    path = tmp_path_factory.mktemp("roles") / "keys.html"
    return pages.save(model("minilm").read("Keys on the table belong to Sarah"), path)


@pytest.fixture(scope="module")
def kids_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from regard.models.model import model

    path = tmp_path_factory.mktemp("roles") / "kids.html"
    return pages.save(model("minilm").read("The kids were scared of the lions, so they left right away."), path)


def opened(new_page: Callable[..., Page], path: Path, **how: Any) -> Page:
    page = new_page(offline=True, **how)
    page.goto(f"{path.as_uri()}#view=sentence")
    expect(page.locator(".regard-sentence-said")).to_be_visible()
    open_adjust(page)
    return page


def pressed(page: Page) -> list[str]:
    labels: list[str] = page.locator("[aria-label='Head known for'] [aria-pressed=true]").all_inner_texts()
    return labels


def test_a_question_chooses_the_link_that_can_answer_it_and_gives_its_score(
    new_page: Callable[..., Page], keys: Path
) -> None:
    page = opened(new_page, keys)
    said = page.locator(".regard-roles-said")
    page.get_by_role("button", name="where", exact=True).click()
    expect(said).to_contain_text("noun → spatial preposition, layer 2, head 0: table → on 0.22 here")
    expect(said).to_contain_text("In general right for 0.73 of 1,026 words in UD English EWT; the best fixed offset (")
    expect(said).to_contain_text("Head 2.0 is also the best for object → verb (who does what).")
    expect(page.get_by_role("button", name="Head 0", exact=True)).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="who does what").click()
    expect(said).to_contain_text("object → verb, layer 2, head 0: Sarah → belong 0.35 here")
    page.get_by_role("button", name="subject → verb 2.8").click()
    expect(said).to_contain_text("subject → verb, layer 2, head 8: table → belong 0.10 here")
    assert pressed(page) == ["who does what"]


def test_a_relation_that_is_not_in_the_sentence_names_one_to_try_and_lights_nothing(
    new_page: Callable[..., Page], keys: Path
) -> None:
    page = opened(new_page, keys)
    chosen = page.locator(".regard-heads .regard-head[aria-pressed=true]")
    expect(chosen).to_have_text("8")
    for question, example in (
        ("whose", "Sarah lost her keys"),
        ("when", "The train left yesterday"),
        ("what refers to what", "The kids were scared of the lions, so they left right away."),
    ):
        page.get_by_role("button", name=question, exact=True).click()
        expect(page.locator(".regard-roles-said")).to_have_text(f"Not in this sentence: try “{example}”.")
        expect(chosen).to_have_text("8")
        assert pressed(page) == []


def test_a_caption_claims_a_relation_only_if_the_link_can_be_one(
    new_page: Callable[..., Page], kids_page: Path
) -> None:
    page = new_page(offline=True)
    page.goto(f"{kids_page.as_uri()}#layer=3&head=1&query=they")
    said = page.locator(".regard-roles-said")
    expect(said).to_contain_text(
        "Head 3.1: they → kids 0.81 here. It is known for another link, in general (UD English EWT): verb → object 0.55"
    )
    expect(said).not_to_contain_text("can be")
    page.goto(f"{kids_page.as_uri()}#layer=2&head=8&query=they")
    expect(said).to_contain_text("Head 2.8: they → left 0.60 here, which can be subject → verb. In general")


def test_what_a_pronoun_refers_to_is_said_for_this_sentence_without_a_score(
    new_page: Callable[..., Page], kids_page: Path
) -> None:
    page = opened(new_page, kids_page)
    page.get_by_role("button", name="what refers to what").click()
    said = page.locator(".regard-roles-said")
    expect(said).to_contain_text(
        "layer 3, head 1 links they → kids 0.81 here. No head of minilm does this reliably in other texts"
    )
    assert pressed(page) == ["what refers to what"]


def test_rollout_makes_no_claim_about_one_head(new_page: Callable[..., Page], kids_page: Path) -> None:
    page = opened(new_page, kids_page)
    said = page.locator(".regard-roles-said")
    expect(said).to_contain_text("Head 3.1")
    for measure in ("rollout", "mean"):
        page.get_by_label("Shown").select_option(measure)
        expect(said).to_have_text("")
    page.get_by_label("Shown").select_option("weight")
    expect(said).to_contain_text("Head 3.1")


def test_a_question_is_lit_only_over_its_own_picture(new_page: Callable[..., Page], kids_page: Path) -> None:
    page = opened(new_page, kids_page)
    refers = page.get_by_role("button", name="what refers to what")
    words = page.locator(".regard-sentence-side[data-side=query] .regard-sentence-text")
    for change in (
        lambda: page.get_by_role("button", name="Head 4", exact=True).click(),
        lambda: words.filter(has_text="lions").click(),
        lambda: page.get_by_role("button", name="whose", exact=True).click(),
    ):
        refers.click()
        expect(refers).to_have_attribute("aria-pressed", "true")
        change()
        expect(refers).to_have_attribute("aria-pressed", "false")
    expect(page.locator(".regard-roles-said")).to_contain_text("Not in this sentence")
    words.filter(has_text="lions").click()
    expect(page.locator(".regard-roles-said")).not_to_contain_text("Not in this sentence")


def test_chosen_questions_are_in_the_address_and_heads_have_their_label(
    new_page: Callable[..., Page], keys: Path
) -> None:
    page = opened(new_page, keys)
    page.get_by_role("button", name="where", exact=True).click()
    expect(page).to_have_url(re.compile("roles_asked=where"))
    expect(page.get_by_role("button", name="Head 8", exact=True)).to_have_attribute(
        "title", "In general: spatial preposition → noun"
    )
    page.reload()
    expect(page.get_by_role("button", name="where", exact=True)).to_have_attribute("aria-pressed", "true")
    open_view(page, "Small maps")
    expect(page.get_by_role("option", name="Layer 2, head 8, in general spatial preposition → noun")).to_be_visible()


HEADS = [(3, 1), (2, 1), (5, 2), (1, 7), (0, 2), (2, 8)]  # the opening head, and others with and without a relation


def test_a_head_has_the_same_name_on_every_page_and_in_every_table(
    new_page: Callable[..., Page], kids_page: Path, tmp_path: Path, settle: Callable[[Page], Page]
) -> None:
    """Its evidence is behind the ⓘ; `regard see` begins with the name, and `regard heads` has a column of names."""
    from regard.heads import known, profile
    from regard.models.model import model
    from regard.viewer import heads_page

    minilm, atlas = model("minilm"), known("minilm")
    assert atlas is not None
    measured = profile.profile_texts(minilm, ["The kids were scared of the lions, so they left right away."])
    names = {tuple(map(int, row[0].split("."))): row[1] for row in measured.table().rows}
    path = heads_page.save(tmp_path / "heads.html", [measured.data()], [heads_page.maps(minilm)[:1]])
    all_heads = new_page(offline=True)
    all_heads.goto(path.as_uri())
    page = new_page(offline=True, width=1400)
    for layer, head in HEADS:
        name = atlas.name(layer, head)
        page.goto(f"{kids_page.as_uri()}#view=sentence&layer={layer}&head={head}")
        settle(page)
        expect(page.locator(".regard-place-label")).to_have_text(f"in general: {name}")
        dot = page.locator(f".regard-place-dots circle[data-head='{layer}.{head}']")
        expect(dot).to_have_attribute("aria-label", f"Layer {layer}, head {head}, {name}")
        open_view(page, "Small maps")
        expect(page.get_by_role("option", name=f"Layer {layer}, head {head}, in general {name}")).to_be_attached()
        all_heads.locator(f".regard-heads-cell[title^='Layer {layer}, head {head}:']").click()
        expect(all_heads.locator(".regard-heads-name")).to_have_text(name)
        assert names[layer, head] == name
        said = atlas.said(layer, head)  # what `regard see` prints below the map of a head
        assert said.startswith(f"layer {layer}, head {head}: {name}")
    assert len({atlas.name(*place) for place in HEADS}) >= 4


def test_in_the_studio_a_typed_sentence_is_asked_and_an_example_is_read(
    new_page: Callable[..., Page], run_studio: Any, settle: Callable[[Page], Page]
) -> None:
    from regard.studio.library import Library

    with run_studio(Library("minilm"), "The cat sat") as address:
        page = new_page()
        page.goto(address)
        page.get_by_label("Text", exact=True).fill("Keys on the table belong to Sarah")
        words = page.locator(".regard-sentence-side[data-side=query] .regard-sentence-text")
        expect(words.filter(has_text="Sarah")).to_be_visible()
        settle(page)
        open_adjust(page)
        said = page.locator(".regard-roles-said")
        page.get_by_role("button", name="where", exact=True).click()
        expect(said).to_contain_text("noun → spatial preposition, layer 2, head 0: table → on 0.22 here")
        page.get_by_role("button", name="whose", exact=True).click()
        expect(said).to_contain_text("Not in this sentence: try “Sarah lost her keys”.")
        page.get_by_role("button", name="Read it").click()
        expect(words.filter(has_text="lost")).to_be_visible()
        settle(page)
        assert pressed(page) == []
        page.get_by_role("button", name="whose", exact=True).click()
        expect(said).to_contain_text("possessor → possession, layer 1, head 7: her → keys 0.15 here")


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


def test_the_place_that_a_page_would_open_with_is_kept_after_a_reload(
    new_page: Callable[..., Page], kids_page: Path
) -> None:
    """Asked for by address, it is not the first screen, though it differs from the opening place in nothing."""
    page = new_page(offline=True)
    page.goto(f"{kids_page.as_uri()}#layer=3&head=1&query=they")
    expect(page).to_have_url(f"{kids_page.as_uri()}#view=sentence")
    page.reload()
    expect(page.locator(".regard[data-view]")).to_have_attribute("data-view", "sentence")
    expect(page.locator(".regard-roles-said")).to_contain_text("Head 3.1: they → kids 0.81")

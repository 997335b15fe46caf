"""The page of what heads do: dots, cells and details follow each other; nothing is fetched; two models side by side."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from regard.viewer import heads_page

from ..viewer.test_heads_page import data_of, models  # noqa: F401 - a fixture


@pytest.fixture(scope="session")
def paths(models: list[Any], tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:  # noqa: F811
    folder = tmp_path_factory.mktemp("pages")
    data = [data_of(model) for model in models]
    readings = [[model.read("the cat sat"), model.read("the dog ran")] for model in models]
    return {count: heads_page.save(folder / f"{count}.html", data[:count], readings[:count]) for count in (1, 2)}


def opened(new_page: Callable[..., Page], path: Path, **how: Any) -> Page:
    page = new_page(offline=True, **how)
    page.goto(path.as_uri())
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    return page


def test_a_dot_and_a_cell_select_the_same_head(new_page: Callable[..., Page], paths: dict[int, Path]) -> None:
    page = opened(new_page, paths[1])
    card = page.get_by_role("region", name="Selected head")
    expect(card.get_by_role("heading", name="Layer 1, head 2")).to_be_visible()  # the one with a relation
    expect(card.get_by_role("row", name="object → verb")).to_contain_text("0.700.300.10")
    cells, dots = page.locator(".regard-heads-cell"), page.locator(".regard-heads-dot")
    expect(dots).to_have_count(10)
    cells.nth(3).click()
    expect(card.get_by_role("heading", name="Layer 0, head 3")).to_be_visible()
    chosen = page.locator(".regard-heads-dot[aria-pressed=true]")
    expect(chosen).to_have_attribute("aria-label", re.compile("^Layer 0, head 3"))
    page.locator(".regard-heads-dot[aria-label^='Layer 1, head 4']").click()
    expect(cells.nth(9)).to_have_attribute("aria-pressed", "true")


def test_words_beside_the_map_are_not_cut_off(
    new_page: Callable[..., Page],
    models: list[Any],  # noqa: F811
    tmp_path: Path,
) -> None:
    path = heads_page.save(tmp_path / "wide.html", [data_of(models[0])], [[models[0].read("the cat sat")]])
    page = new_page(offline=True)
    page.add_init_script(
        """globalThis.labels = [];
        const font = Object.getOwnPropertyDescriptor(CanvasRenderingContext2D.prototype, "font");
        Object.defineProperty(CanvasRenderingContext2D.prototype, "font", {
          get: font.get,
          set(value) { font.set.call(this, value); this.letterSpacing = "6px"; }, // letters as wide as W or 我
        });
        const plain = CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
          if (this.textAlign === "right") labels.push([text, x - this.measureText(text).width]);
          return plain.call(this, text, x, y);
        };"""
    )
    page.goto(path.as_uri())
    page.locator(".regard-training-matrix").focus()
    for _ in range(4):  # every row is bold once
        page.keyboard.press("ArrowUp")
    labels = page.evaluate("labels")
    assert "cat" in {text for text, _ in labels}
    assert [text for text, left in labels if left < 0] == []


def test_axes_and_colours_can_be_any_statistic(new_page: Callable[..., Page], paths: dict[int, Path]) -> None:
    page = opened(new_page, paths[1])
    dot = page.locator(".regard-heads-dot[aria-label^='Layer 1, head 4']")
    before = dot.get_attribute("transform")
    page.get_by_label("Across", exact=True).select_option("rank of W_QK")
    assert dot.get_attribute("transform") != before
    expect(page.locator(".regard-heads-all")).to_contain_text("rank of W_QK: effective rank of W_QK")
    page.get_by_label("Colour cells by").select_option("entropy")
    expect(page.locator(".regard-heads-cell").first).to_have_attribute("title", re.compile("entropy"))
    page.get_by_role("button", name="Swap").click()
    expect(page.get_by_label("Up", exact=True)).to_have_value("rank of W_QK")
    page.get_by_role("region", name="Selected head").get_by_role("button", name="received", exact=True).click()
    expect(page.get_by_label("Across", exact=True)).to_have_value("received")


def test_the_keyboard_reaches_dots_cells_and_the_map(new_page: Callable[..., Page], paths: dict[int, Path]) -> None:
    page = opened(new_page, paths[1])
    page.locator(".regard-heads-cell[aria-pressed=true]").press("Home")
    page.keyboard.press("Enter")
    card = page.get_by_role("region", name="Selected head")
    expect(card.get_by_role("heading", name="Layer 0, head 0")).to_be_visible()
    page.locator(".regard-heads-dot[tabindex='0']").press("ArrowRight")
    page.keyboard.press("Enter")
    expect(card.get_by_role("heading", name="Layer 0, head 1")).to_be_visible()
    card.get_by_role("img", name="Attention matrix of layer 0, head 1").press("Home")
    expect(card.locator(".regard-heads-readout")).to_contain_text("attends most to")
    card.get_by_label("Sentence").select_option("1")
    expect(card.get_by_label("Sentence")).to_have_value("1")


def test_a_pattern_keeps_only_its_heads_and_examples_are_text(
    new_page: Callable[..., Page], paths: dict[int, Path]
) -> None:
    page = opened(new_page, paths[1])
    page.get_by_role("button", name="finds a relation 1").click()
    expect(page.locator(".regard-heads-cell:not(.regard-heads-faint)")).to_have_count(1)
    examples = page.locator(".regard-heads-examples")
    expect(examples.locator("summary")).to_have_text(["Strongest", "0.8 to 0.9"])
    expect(examples.first.locator("u")).to_have_text("</script>")
    expect(examples.first.locator("strong")).to_have_text("the")


def test_on_a_phone_the_selected_head_is_named_below_the_dots_and_leads_to_its_details(
    new_page: Callable[..., Page], paths: dict[int, Path]
) -> None:
    page = opened(new_page, paths[1], width=360, height=700)
    page.locator(".regard-heads-dot[aria-label^='Layer 1, head 2']").click()
    page.get_by_role("button", name="1.2: object → verb").click()
    expect(page.get_by_role("heading", name="Layer 1, head 2")).to_be_in_viewport()


def test_two_models_share_their_axes(new_page: Callable[..., Page], paths: dict[int, Path]) -> None:
    page = opened(new_page, paths[2])
    expect(page.locator(".regard-heads-scatter")).to_have_count(2)
    ticks = [plot.locator("g").first.text_content() for plot in page.locator(".regard-heads-scatter").all()]
    assert ticks[0] == ticks[1]
    page.locator(".regard-heads-map").nth(1).locator(".regard-heads-cell").nth(7).click()
    expect(page.get_by_role("heading", name="tiny, layer 1, head 1")).to_be_visible()
    expect(page.locator(".regard-heads-cell[aria-pressed=true]")).to_have_count(1)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("width", [360, 1400])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_and_nothing_is_cut_off(
    new_page: Callable[..., Page], paths: dict[int, Path], axe: str, count: int, width: int, theme: str
) -> None:
    page = opened(new_page, paths[count], width=width, height=900, theme=theme)
    page.evaluate(axe)
    found: Any = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    assert [(one["id"], [node["html"][:160] for node in one["nodes"]]) for one in found["violations"]] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width

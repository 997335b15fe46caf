"""A training run in a browser: its steps can be walked and played, its heads chosen; nothing is fetched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

pytest.importorskip("torch")


@pytest.fixture
def run(new_page: Callable[..., Page], tmp_path: Path) -> Page:
    from tests.viewer.test_training_page import record

    from regard.viewer import training_page

    path = training_page.save(record(), tmp_path / "run.html")
    page = new_page(offline=True)
    page.goto(path.as_uri())
    expect(page.get_by_role("heading", name="Training on relations")).to_be_visible()
    return page


def test_the_slider_walks_the_steps(run: Page) -> None:
    slider, numbers = run.get_by_role("slider", name="Step"), run.locator(".regard-training-numbers")
    expect(numbers).to_contain_text("step 40")
    slider.press("Home")
    expect(numbers).to_contain_text("step 0")
    expect(numbers).not_to_contain_text("training loss")  # not measured before the first step
    slider.press("ArrowRight")
    expect(numbers).to_contain_text("step 10training loss 2.000test loss 2.900")


def test_a_film_plays_to_the_end(run: Page) -> None:
    play = run.get_by_role("button", name="Play")
    play.click()
    expect(run.get_by_role("button", name="Pause")).to_be_visible()
    expect(run.get_by_role("button", name="Play")).to_be_visible(timeout=60_000)
    expect(run.locator(".regard-training-numbers")).to_contain_text("step 40")


def test_a_head_and_a_query_can_be_chosen_from_the_keyboard(run: Page) -> None:
    run.get_by_role("button", name="Layer 1, head 2").click()
    expect(run.get_by_role("heading", name="Layer 1, head 2")).to_be_visible()
    matrix = run.get_by_role("img", name="Attention matrix of layer 1, head 2")
    matrix.press("Home")
    expect(run.locator(".regard-training-readout")).to_contain_text("</script> attends most to")


@pytest.mark.parametrize("width", [360, 1400])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_and_nothing_is_cut_off(
    new_page: Callable[..., Page], tmp_path: Path, axe: str, width: int, theme: str
) -> None:
    from tests.viewer.test_training_page import record

    from regard.viewer import training_page

    path = training_page.save(record(), tmp_path / "run.html")
    page = new_page(offline=True, width=width, height=900, theme=theme)
    page.goto(path.as_uri())
    expect(page.locator(".regard-training-matrix")).to_be_visible()
    page.evaluate(axe)
    found: Any = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    assert [(one["id"], [node["html"][:160] for node in one["nodes"]]) for one in found["violations"]] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_right_keys_have_a_legend_and_stand_out_on_every_weight(run: Page) -> None:
    expect(run.get_by_text("framed: the right key of the row's word")).to_be_visible()
    # Both a dark and a light line frame a right key, so that one of them differs from the cell whatever its colour.
    colours = run.evaluate(
        """() => {
          const canvas = document.querySelector(".regard-training-matrix");
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          const found = new Set();
          for (let at = 0; at < data.length; at += 4) found.add([...data.slice(at, at + 3)].join());
          return [...found];
        }"""
    )
    assert {"27,31,39", "255,255,255"} <= set(colours)

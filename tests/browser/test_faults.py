"""Faults that pages had once: each stays away."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import regard
from regard.reading.synthetic import HEADS, synthetic
from regard.viewer import page as pages

from .conftest import open_view

Settle = Callable[[Page], Page]

# The smallest letters of a chart as they are on the screen, in pixels.
LETTERS = """() => Math.min(...[...document.querySelectorAll('.regard-training-chart text')].map((el) => {
  const { width } = el.ownerSVGElement.getBoundingClientRect();
  return parseFloat(getComputedStyle(el).fontSize) * width / (el.ownerSVGElement.viewBox.baseVal.width || width);
}))"""


def test_made_up_heads_have_names_and_open_on_a_link_between_words(
    new_page: Callable[..., Page], settle: Settle, tmp_path: Path, opening: bool
) -> None:
    page = new_page(offline=True, width=1400)
    page.goto(f"{pages.save(synthetic(300), tmp_path / 'synthetic.html').as_uri()}#view=matrix")
    settle(page)
    expect(page.locator(".regard-place-label")).to_have_text(re.compile("|".join(map(re.escape, HEADS))))
    links = page.locator(".regard-matrix-strongest li").all_text_contents()
    assert links and not [link for link in links if "0…" in link]
    open_view(page, "Dots")
    settle(page)
    shown = " ".join(page.locator(".regard-dots-name, .regard-dots-names b").all_text_contents())
    assert all(name in shown.replace("\u00a0", " ") for name in HEADS)


@pytest.mark.slow
def test_words_of_several_byte_tokens_are_letters(
    new_page: Callable[..., Page], settle: Settle, tmp_path: Path
) -> None:
    try:
        reading = regard.model("smollm2").read("مرحبا שלום 🦁")
    except regard.errors.RegardError as problem:
        pytest.skip(str(problem))
    page = new_page(offline=True)
    page.goto(f"{pages.save(reading, tmp_path / 'bytes.html').as_uri()}#view=sentence")
    settle(page)
    words = page.locator(".regard-sentence-side[data-side=query] .regard-sentence-text").all_text_contents()
    assert "".join(words).replace(" ", "") == "مرحباשלום🦁"


@pytest.mark.parametrize("width", [360, 1400])
def test_a_run_that_has_not_learned_says_so_and_its_chart_can_be_read(
    new_page: Callable[..., Page], tmp_path: Path, width: int
) -> None:
    pytest.importorskip("torch")
    from tests.viewer.test_training_page import record

    from regard.viewer import training_page

    run = record(2)
    run.snapshots[:] = [replace(one, head_accuracy=0.2 * one.head_accuracy) for one in run.snapshots]
    page = new_page(offline=True, width=width, height=800)
    page.goto(training_page.save(run, tmp_path / "run.html").as_uri())
    expect(page.locator(".regard-training-learned")).to_contain_text("the model has not learned the task")
    assert page.evaluate(LETTERS) >= 11


def test_in_context_opens_on_two_different_texts_or_words(
    new_page: Callable[..., Page], small_studio: str, settle: Settle
) -> None:
    page = new_page()
    page.goto(small_studio)
    settle(page)
    open_view(page, "In context")
    settle(page)
    panes: list[Any] = [
        (pane.locator(".regard-context-word").all_text_contents(), pane.locator("[aria-selected=true]").text_content())
        for pane in page.locator(".regard-context-pane").all()
    ]
    assert len(panes) == 2 and panes[0] != panes[1]

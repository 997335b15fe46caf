"""Pages that are read: what `regard steps --out page.html` writes, and every page of a site."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect
from typer.testing import CliRunner

import regard
from regard import site
from regard.cli.app import app

from .test_hosts import findings

HIDDEN = "[...document.querySelectorAll('.wide')].map((one) => one.scrollWidth - one.clientWidth)"
EXAMPLES = {
    "cat-sat": ("--example", "cat-sat"),
    "two heads": ("Action gets results", "--heads", "2"),
    "64 numbers": ("The cat sat", "--set", "width=64"),
    "masked": ("The cat sat", "--mask", "causal"),
}


@pytest.mark.parametrize("width", [360, 1024, 1400])
@pytest.mark.parametrize("example", EXAMPLES)
def test_no_table_of_a_page_is_cut(new_page: Callable[..., Page], tmp_path: Path, example: str, width: int) -> None:
    path = tmp_path / "steps.html"
    ended = CliRunner().invoke(app, ["steps", *EXAMPLES[example], "--out", str(path)])
    assert ended.exit_code == 0, ended.output
    page = new_page(width=width)
    page.goto(path.as_uri())
    cut = page.evaluate(HIDDEN)
    assert cut == [0] * len(cut) and len(cut) >= 3


@pytest.mark.slow  # some thirty pages
@pytest.mark.parametrize(("width", "theme"), [(360, "light"), (1400, "dark")])
def test_axe_finds_nothing_on_any_page_of_a_site(
    chromium: Browser, tmp_path: Path, axe: str, width: int, theme: Literal["light", "dark"]
) -> None:
    site.write(tmp_path / "site", regard.model("minilm"))
    paths = sorted((tmp_path / "site").rglob("*.html"))
    assert len(paths) > 25
    context = chromium.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, offline=True, bypass_csp=True
    )  # axe adds styles of its own, which the pages' policy forbids
    page = context.new_page()
    wrong = {}
    for path in paths:
        page.goto(path.as_uri())
        expect(page.locator(".regard[aria-busy=true]")).to_have_count(0)
        page.evaluate(axe)
        wrong[path.name] = findings(page)
        if page.evaluate("document.documentElement.scrollWidth") > width:
            wrong[path.name].append("wider than the screen")
    context.close()
    assert {name: problems for name, problems in wrong.items() if problems} == {}

"""What `regard steps --out page.html` writes: every column is seen without scrolling sideways."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page
from typer.testing import CliRunner

from regard.cli.app import app

HIDDEN = "[...document.querySelectorAll('.wide')].map((one) => one.scrollWidth - one.clientWidth)"
EXAMPLES = {
    "cat-sat": ("--example", "cat-sat"),
    "two heads": ("Action gets results", "--heads", "2"),
    "64 numbers": ("The cat sat", "--width", "64"),
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

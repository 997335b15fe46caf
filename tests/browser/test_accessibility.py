"""Every view in both themes, wide and narrow: axe-core finds nothing, and nothing is wider than the window."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

VIEWS = ["Sentence", "Grid", "Matrix", "Steps", "In context", "Words", "Output", "Architecture", "Lookup"]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1400])
def test_axe_finds_nothing_in_any_view(
    show: Callable[..., Page], settle: Callable[[Page], None], axe: str, width: int, theme: str
) -> None:
    page = show("file", "writer", width=width, height=900, theme=theme)
    page.evaluate(axe)
    assert page.get_by_role("tab").all_text_contents() == VIEWS
    for title in VIEWS:
        page.get_by_role("tab", name=title, exact=True).click()
        settle(page)
        found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
        assert [(title, one["id"], one["nodes"][0]["html"][:200]) for one in found] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width, title

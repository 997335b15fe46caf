"""A page of some layers and heads of a model names them, in every view, by the model's own numbers."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from .conftest import EACH_HOST, open_view, titles

Show = Callable[..., Page]
Settle = Callable[[Page], None]

NAMED = re.compile(r"\b(layer|head|heads) (\d+)", re.IGNORECASE)


@pytest.fixture(scope="module", autouse=True)
def _more_subjects(development: Any) -> Iterator[None]:
    known = development.subject

    def subject(name: str) -> Any:
        if name != "some":
            return known(name)
        whole = development.synthetic(["the", "kids", "saw", "lions", "so", "they", "left"], layers=2, heads=2)
        return replace(whole, layer_numbers=(30, 70), head_numbers=(11, 15))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(development, "subject", subject)
        yield


@pytest.mark.parametrize("host", EACH_HOST)
def test_every_view_names_layers_and_heads_by_the_models_numbers(show: Show, settle: Settle, host: str) -> None:
    page = show(host, "some")
    for title in titles(page):
        open_view(page, title)
        settle(page)
        texts = page.evaluate(
            """() => [...document.querySelectorAll("body *:not(script, style)")].flatMap((one) => [
            one.getAttribute("aria-label"), one.title, one.children.length ? null : one.textContent])
            .filter((one) => typeof one === "string")"""
        )
        named = {match.groups() for text in texts for match in NAMED.finditer(text)}
        wrong = {(axis, number) for axis, number in named if number not in ("30", "70", "11", "15")}
        assert named and not wrong, title
    expect(page.locator(".regard-menu-foot .regard-about").first).to_contain_text("layers 30, 70 · heads 11, 15")
    open_view(page, "Threads")
    expect(page.locator("button.regard-head").first).to_have_text("11")


def test_exports_name_layers_and_heads_by_the_models_numbers(
    show: Show, settle: Settle, exported: Callable[[Page, str], str]
) -> None:
    page = show("served", "some", address="#layer=70&head=15&query=they")
    for tab in ("Threads", "Map", "One number", "Words"):
        open_view(page, tab)
        settle(page)
        for kind in ("CSV", "LaTeX", "SVG"):
            assert "synthetic, layer 70, head 15: “the kids saw" in exported(page, kind), (tab, kind)
    open_view(page, "Small maps")
    settle(page)
    rows = list(csv.DictReader(io.StringIO(exported(page, "CSV"))))
    assert [row["layer"] + row["head"] for row in rows] == ["3011", "3015", "7011", "7015"]

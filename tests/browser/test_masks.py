"""Masked keys are shown as hidden, in every view and file, by the mask of the layer that is shown."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from regard import masks
from regard.attention import Attention
from regard.reading import Reading

from .conftest import EACH_HOST, open_view

Show = Callable[..., Page]
Settle = Callable[[Page], None]
WORDS = list("abcdefgh")
LAYERS = [masks.causal() & masks.window(2), masks.causal(), masks.documents([0, 0, 0, 1, 1, 1, 2, 2]), masks.window(1)]


def reading() -> Reading:
    """A window, no window, documents and a window to both sides, one after the other."""
    queries, keys, values = np.random.default_rng(3).normal(size=(3, 2, 8, 4)).astype(np.float32)
    return Reading.of(
        [Attention(queries, keys, mask=mask) for mask in LAYERS], [values] * len(LAYERS), words=WORDS, model="masked"
    )


@pytest.fixture(scope="module", autouse=True)
def _one_subject(development: Any) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(development, "subject", lambda _: reading())
        yield


@pytest.mark.parametrize("layer", range(len(LAYERS)))
@pytest.mark.parametrize("host", EACH_HOST[:2])
def test_masked_keys_are_those_of_the_layer(
    show: Show, settle: Settle, exported: Callable[[Page, str], str], host: str, layer: int
) -> None:
    query = 5
    attention = reading().attention(layer)
    weights = [f"{weight:.2f}" for weight in np.asarray(attention[0, query])]
    hidden = np.isneginf(np.asarray(attention.masked[0]))
    assert hidden[query].any() and not hidden[query].all()
    page = show(host, "masked-" + host, address=f"#view=sentence&layer={layer}&head=0&query={query}")
    shown = np.where(hidden[query], "masked", weights)
    expected = [f"{word}, {weight}" for word, weight in zip(WORDS, shown, strict=True)]
    labels = page.evaluate("() => [...document.querySelectorAll('[aria-label]')].map((el) => el.ariaLabel)")
    assert [label for label in labels if label in expected] == expected
    blank = [row["weight"] == "" for row in csv.DictReader(io.StringIO(exported(page, "CSV")))]
    assert blank == hidden[query].tolist()
    open_view(page, "Map")
    settle(page)
    rows = csv.DictReader(io.StringIO(exported(page, "CSV")))
    np.testing.assert_array_equal([[row[word] == "" for word in WORDS] for row in rows], hidden)
    page.get_by_text("These weights as a table").click()
    cells = page.locator(".regard-details tbody td").all_text_contents()
    np.testing.assert_array_equal(np.array(cells).reshape(8, 8) == "masked", hidden)
    expect(page.locator(".regard-matrix-hidden")).to_be_visible()
    open_view(page, "In context")
    settle(page)
    titles = (
        page.locator(".regard-context-pane")
        .first.locator(".regard-context-word")
        .evaluate_all("all => all.map((el) => el.title === 'masked')")
    )
    assert titles == hidden[query].tolist()
    open_view(page, "One number")
    settle(page)
    rows_of_steps = page.locator(".regard-steps-table tbody tr").all_text_contents()
    assert ["masked" in row for row in rows_of_steps] == hidden[query].tolist()

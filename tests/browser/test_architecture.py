"""Architecture: shapes and parameters are the model's, layer and head are marked and can be chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from regard.layers import Transformer

from .conftest import EACH_HOST, expect_view, open_view, save_as

Show = Callable[..., Page]
Settle = Callable[[Page], None]


def opened(page: Page, settle: Settle) -> Page:
    open_view(page, "Architecture")
    settle(page)
    return page


@pytest.mark.parametrize("host", EACH_HOST)
def test_the_model_is_drawn_with_the_current_layer_and_head(
    show: Show, settle: Settle, development: Any, host: str
) -> None:
    page = opened(show(host, "writer"), settle)
    model = development.small_models().writer()
    expect(page.locator(".regard-lead")).to_contain_text(f"has {model.transformer.count():,} parameters in 3 layers")
    attention = page.locator(".regard-arch-box[data-kind=attention]")
    for fact in ("4 heads", "W_Q 16 → 16", "W_K 16 → 8", "causal, RoPE turns q and k, 2 key heads"):
        expect(attention).to_contain_text(fact)
    expect(page.locator(".regard-arch-slab[aria-selected=true]")).to_have_text("0")
    page.get_by_role("option", name="Layer 2", exact=True).click()
    expect(page.get_by_role("heading", name="Inside layer 2")).to_be_visible()
    expect(page.get_by_role("option", name="Layer 2", exact=True)).to_be_focused()
    head = page.get_by_role("option", name="Head 3", exact=True)
    head.press("Enter")
    expect(head).to_have_attribute("aria-selected", "true")
    expect(head).to_be_focused()
    page.get_by_role("button", name="Compute one number of head 3").click()
    expect_view(page, "One number")
    expect(page.get_by_role("combobox", name="Layer")).to_have_value("2")
    with page.expect_download() as waiting:
        save_as(opened(page, settle), "SVG")
    assert "Feed-forward" in waiting.value.path().read_text(encoding="utf-8")


def test_an_encoder_and_a_decoder_are_drawn_with_cross_attention(
    show: Show, settle: Settle, development: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Transformer.seeded(vocabulary=11, width=12, heads=3, encoders=2, decoders=3)
    words, targets = ["ein", "Löwe", "geht"], ["a", "lion"]
    trace = model.explain([1, 2, 3], [4, 5], block=4, which="cross", words=words, target_words=targets)
    monkeypatch.setattr(development, "subject", lambda _: trace)
    page = opened(show("file", "cross"), settle)
    stacks = page.locator(".regard-arch-stack")
    expect(stacks.nth(0)).to_contain_text("2 encoder blocks")
    expect(stacks.nth(1)).to_contain_text("3 decoder blocks")
    expect(stacks.nth(1)).to_contain_text("cross-attention to the encoder")
    expect(stacks.nth(1).locator("[aria-current]")).to_have_text("2")
    expect(page.locator(".regard-arch-box[aria-current] strong")).to_have_text("Cross-attention")
    expect(page.get_by_role("heading", name="Its 3 heads, from the decoder to the encoder")).to_be_visible()


def test_of_given_vectors_it_says_what_is_not_known(show: Show, settle: Settle) -> None:
    page = opened(show("served", "worked"), settle)
    expect(page.locator(".regard-lead")).to_contain_text("only its attention is known here")

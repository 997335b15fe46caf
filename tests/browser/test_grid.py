"""The grid: every head is shown, its numbers are NumPy's, and maps are requested when they scroll into view."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from .conftest import EACH_HOST, expect_view, open_view, save_as

LAYERS = 40
Show = Callable[..., Page]
Settle = Callable[[Page], None]


@pytest.fixture(scope="module", autouse=True)
def _more_subjects(development: Any) -> Iterator[None]:
    known = development.subject

    made = {
        "deep": lambda: development.synthetic(list("abcde"), layers=LAYERS, heads=2),
        "smollm2": lambda: development.synthetic(list("abcdefgh"), layers=30, heads=9),
    }

    def subject(name: str) -> Any:
        return made[name]() if name in made else known(name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(development, "subject", subject)
        yield


def opened(show: Show, host: str, subject: str = "kids", **options: Any) -> Page:
    page = show(host, subject, **options)
    open_view(page, "Small maps")
    expect(page.locator(".regard-grid-numbers dd").first).to_be_visible()
    return page


def maps(page: Page) -> Locator:
    return page.locator(".regard-grid-cell")


def statistics(reading: Any, layer: int) -> dict[str, Any]:
    """What a head does, from all its weights."""
    weights = np.asarray(reading.attention(layer)[:, :, :], np.float64)
    places = np.arange(weights.shape[1])
    logarithms = np.log(weights, where=weights > 0, out=np.zeros_like(weights))
    return {
        "Entropy": -(weights * logarithms).sum(-1).mean(-1),
        "Distance": (weights * abs(places[:, None] - places)).sum(-1).mean(-1),
        "Sink mass": weights[..., list(reading.sinks)].sum(-1).mean(-1),
        "Peak": weights.max(-1).mean(-1),
    }


@pytest.mark.parametrize("host", EACH_HOST)
def test_the_numbers_of_a_head_are_those_of_numpy(show: Show, development: Any, host: str) -> None:
    page = opened(show, host)
    for layer, head in ((0, 0), (1, 1), (2, 3)):
        maps(page).nth(layer * 4 + head).hover()
        expect(page.locator(".regard-grid-title")).to_have_text(f"Layer {layer}, head {head}")
        names = page.locator(".regard-grid-numbers dt").all_text_contents()
        numbers = [float(text.split()[0]) for text in page.locator(".regard-grid-numbers dd").all_text_contents()]
        expected = statistics(development.subject("kids"), layer)
        assert numbers == pytest.approx([expected[name][head] for name in names], abs=0.006)  # two decimals


@pytest.mark.parametrize(
    ("order", "name", "sign"), [("Entropy", "Entropy", 1), ("Distance", "Distance", 1), ("Sink mass", "Sink mass", -1)]
)
def test_heads_can_be_ordered_by_what_they_do(show: Show, development: Any, order: str, name: str, sign: int) -> None:
    page = opened(show, "served")
    page.get_by_role("radio", name=order).check()
    expect(page.locator(".regard-grid-number")).to_have_count(12)
    reading = development.subject("kids")
    numbers = {(layer, head): statistics(reading, layer)[name][head] for layer in range(3) for head in range(4)}
    expected = sorted(numbers, key=lambda place: sign * numbers[place])
    assert page.locator(".regard-grid-name").all_text_contents() == [f"{layer} · {head}" for layer, head in expected]
    expect(page).to_have_url(re.compile(r"grid_order="))


def test_arrow_keys_walk_and_enter_chooses_a_head(show: Show) -> None:
    page = opened(show, "served")
    maps(page).first.focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowLeft", "ArrowRight"):
        page.keyboard.press(key)
    expect(maps(page).nth(9)).to_be_focused()
    expect(page.locator(".regard-grid-title")).to_have_text("Layer 2, head 1")
    page.keyboard.press("Enter")
    expect(maps(page).nth(9)).to_have_attribute("aria-selected", "true")
    expect(page).to_have_url(re.compile(r"layer=2&head=1"))
    page.get_by_text("Open in …").click()
    page.get_by_role("button", name="Open in Map").click()
    expect_view(page, "Map")


def test_a_map_holds_the_weights(show: Show, development: Any) -> None:
    page = opened(show, "served")
    expect(page.locator(".regard-grid-map").nth(5)).to_have_js_property("width", 16)
    dark = np.asarray(
        page.evaluate("""() => {
      const canvas = document.querySelectorAll(".regard-grid-map")[5];
      const { data } = canvas.getContext("2d").getImageData(0, 0, 16, 16);
      return Array.from({ length: 256 }, (_, cell) => data[cell * 4] + data[cell * 4 + 1] + data[cell * 4 + 2]);
    }""")
    )
    order = np.argsort(np.asarray(development.subject("kids").attention(1)[1, :, :]).ravel())
    assert (np.diff(dark[order]) <= 1).all()


def test_maps_are_requested_when_they_scroll_into_view(show: Show, settle: Settle) -> None:
    page = show("served", "deep")
    asked: list[int] = []
    page.on(
        "request",
        lambda request: asked.append(request.post_data_json["layer"]) if request.url.endswith("/thumbnails") else None,
    )
    open_view(page, "Small maps")
    expect(page.locator(".regard-grid-map").nth(0)).to_have_js_property("width", 5)
    settle(page)
    assert 0 < len(asked) < LAYERS
    assert LAYERS - 1 not in asked
    maps(page).last.scroll_into_view_if_needed()
    expect(page.locator(".regard-grid-map").nth(2 * LAYERS - 1)).to_have_js_property("width", 5)
    assert len(asked) == len(set(asked))


def test_every_head_has_a_name_for_screen_readers(show: Show) -> None:
    page = opened(show, "served")
    expect(page.get_by_role("option", name="Layer 2, head 3, entropy")).to_have_count(1)


def test_the_table_lists_every_head(show: Show) -> None:
    page = opened(show, "served")
    with page.expect_download() as waiting:
        save_as(page, "CSV")
    lines = waiting.value.path().read_text(encoding="utf-8").splitlines()
    assert lines[0] == "layer,head,entropy,distance,sinks,peak,pattern,source" and len(lines) == 13
    with page.expect_download() as waiting:
        save_as(page, "SVG")
    assert waiting.value.path().read_text(encoding="utf-8").count("<image") == 13  # and the chosen one, larger


@pytest.mark.parametrize("host", EACH_HOST)
def test_pointing_at_a_map_tells_words_and_weight(show: Show, development: Any, settle: Settle, host: str) -> None:
    page = opened(show, host)
    settle(page)
    canvas = maps(page).nth(5).locator("canvas")
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 3.5 / 16, box["y"] + box["height"] * 10.5 / 16)
    tip = page.locator(".regard-grid-tip")
    expect(tip).to_contain_text("they → were")
    expect(tip).to_contain_text("Layer 1, head 1")
    weight = float(np.asarray(development.subject("kids").attention(1)[1, 10, 3]))
    assert float(tip.locator("span").first.text_content() or "nan") == pytest.approx(weight, abs=3e-3)
    expect(page.locator(".regard-grid-about")).to_contain_text("Strongest: ")
    page.mouse.move(2, 2)
    expect(tip).to_be_hidden()


def test_270_heads_fit_one_screen(show: Show, settle: Settle) -> None:
    page = opened(show, "served", "smollm2", width=1400, height=900)
    settle(page)
    expect(page.get_by_role("radio", name="Dense")).to_be_checked()
    first, last = maps(page).first.bounding_box(), maps(page).last.bounding_box()
    assert first is not None and last is not None
    assert first["y"] > 0 and last["y"] + last["height"] < 900 and last["x"] + last["width"] < 1400
    assert first["width"] >= 20
    assert maps(page).nth(1).get_attribute("data-layer") == "0"  # rows are layers, at both sizes
    page.get_by_role("radio", name="With labels").check()
    expect(maps(page).nth(1)).to_have_attribute("data-layer", "0")
    expect(page).to_have_url(re.compile(r"grid_density=labels"))


def test_maps_can_share_one_scale_which_a_colour_bar_shows(show: Show, settle: Settle) -> None:
    page = opened(show, "served")
    settle(page)
    legend = page.locator(".regard-grid-legend")
    expect(legend).to_have_text("0largest weight of each head")
    pixel = "() => document.querySelectorAll('.regard-grid-map')[5].toDataURL()"
    before = page.evaluate(pixel)
    page.get_by_role("radio", name="All alike").check()
    expect(legend).to_have_text("01")
    assert page.evaluate(pixel) != before


def test_the_scroller_of_a_wide_grid_takes_the_focus(show: Show) -> None:
    page = opened(show, "served", width=360, height=740)
    box = page.get_by_label("Heads as small maps")
    box.focus()
    expect(box).to_be_focused()
    assert box.evaluate("el => el.scrollWidth <= el.clientWidth || getComputedStyle(el).overflowX === 'auto'")

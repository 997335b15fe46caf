"""The grid: every head is shown, its numbers are NumPy's, and maps are requested when they scroll into view."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

HOSTS = ("served", "file", "blob")
LAYERS = 40
Show = Callable[..., Page]
Settle = Callable[[Page], None]


@pytest.fixture(scope="module", autouse=True)
def _more_subjects(development: Any) -> Iterator[None]:
    known = development.subject

    def subject(name: str) -> Any:
        return development.synthetic(list("abcde"), layers=LAYERS, heads=2) if name == "deep" else known(name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(development, "subject", subject)
        yield


def opened(show: Show, host: str, subject: str = "kids", **options: Any) -> Page:
    page = show(host, subject, **options)
    page.get_by_role("tab", name="Grid", exact=True).click()
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


@pytest.mark.parametrize("host", HOSTS)
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
    page.wait_for_function("/grid_order=/.test(location.hash)")


def test_arrow_keys_walk_and_enter_chooses_a_head(show: Show) -> None:
    page = opened(show, "served")
    maps(page).first.focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowLeft", "ArrowRight"):
        page.keyboard.press(key)
    expect(maps(page).nth(9)).to_be_focused()
    expect(page.locator(".regard-grid-title")).to_have_text("Layer 2, head 1")
    page.keyboard.press("Enter")
    expect(maps(page).nth(9)).to_have_attribute("aria-pressed", "true")
    page.wait_for_function("/layer=2&head=1/.test(location.hash)")
    page.get_by_role("button", name="Open in Matrix").click()
    expect(page.get_by_role("tab", name="Matrix")).to_have_attribute("aria-selected", "true")


def test_a_map_holds_the_weights(show: Show, development: Any) -> None:
    page = opened(show, "served")
    page.wait_for_function("document.querySelectorAll('.regard-grid-map')[5].width === 16")
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
    page.get_by_role("tab", name="Grid", exact=True).click()
    page.wait_for_function("document.querySelectorAll('.regard-grid-map')[0].width === 5")
    settle(page)
    assert 0 < len(asked) < LAYERS
    assert LAYERS - 1 not in asked
    maps(page).last.scroll_into_view_if_needed()
    page.wait_for_function(f"document.querySelectorAll('.regard-grid-map')[{2 * LAYERS - 1}].width === 5")
    assert len(asked) == len(set(asked))


def test_every_head_has_a_name_for_screen_readers(show: Show) -> None:
    page = opened(show, "served")
    expect(page.get_by_role("button", name="Layer 2, head 3, entropy")).to_have_count(1)


def test_the_table_lists_every_head(show: Show) -> None:
    page = opened(show, "served")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="CSV", exact=True).click()
    lines = waiting.value.path().read_text(encoding="utf-8").splitlines()
    assert lines[0] == "layer,head,entropy,distance,sinks,peak,pattern" and len(lines) == 13
    with page.expect_download() as waiting:
        page.get_by_role("button", name="SVG", exact=True).click()
    assert waiting.value.path().read_text(encoding="utf-8").count("<image") == 12

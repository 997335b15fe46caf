"""What holds for every view on every host: no network access, keyboard, accessible names, clean-up."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Error, Page, expect

from regard.attention import Attention
from regard.reading import Reading
from regard.viewer import page as pages

from .conftest import (
    ALL_SCREENS,
    EACH_HOST,
    HOSTS,
    connect_to_python,
    expect_view,
    open_adjust,
    open_view,
    render_widget,
    save_as,
    settled,
    titles,
)

VIEWS = ("Heads", "Small maps", "Threads", "Map", "One number", "Words", "Lookup")
CHOSEN = ".regard-sentence-word[aria-selected=true]"
Show = Callable[..., Page]
Settle = Callable[[Page], None]

# The names of what has the focus and of all that is around it.
NAMES = """() => {
  const names = [document.activeElement.textContent];
  for (let at = document.activeElement; at; at = at.parentElement) names.push(at.getAttribute("aria-label") ?? "");
  return names;
}"""


@pytest.mark.parametrize("host", HOSTS)
def test_every_view_draws_without_errors_and_without_the_network(show: Show, settle: Settle, host: str) -> None:
    page = show(host)
    for title in VIEWS:
        open_view(page, title)
        expect_view(page, title)
        expect(page.get_by_role("tabpanel")).not_to_be_empty()
        expect(page.locator(".regard-error:visible")).to_have_count(0)
    settle(page)


@pytest.mark.parametrize("host", HOSTS)
def test_a_browser_without_webassembly_simd_is_told_so(show: Show, host: str) -> None:
    page = show(host, before="WebAssembly.validate = () => false")
    expect(page.get_by_role("alert")).to_contain_text("This browser has no WebAssembly SIMD")


@pytest.mark.parametrize("host", HOSTS)
def test_the_page_computes_with_the_kernels_under_its_policy(show: Show, settle: Settle, host: str) -> None:
    """Weights of the steps come from the page itself; a policy that forbade it would be logged and fail the test."""
    page = show(host, "worked", address="#view=steps&query=1")
    open_view(page, "One number")
    settle(page)
    expect(page.locator(".regard-steps")).to_contain_text("0.42")


@pytest.mark.parametrize("host", ["served", "blob"])  # a page in a file stays as long as it is open
def test_clean_up_leaves_no_listener_observer_timer_or_node(show: Show, settle: Settle, host: str) -> None:
    page = show(host, counting=True)
    assert page.evaluate("window.held().listeners") != {}
    for title in VIEWS:
        open_view(page, title)
        settle(page)
    page.evaluate("window.cleanUp()")
    held = page.evaluate("window.held()")
    assert held == {"listeners": {}, "observers": 0, "timers": 0, "nodes": 0}
    if host == "blob":
        assert page.evaluate("window.messageListeners.size") == 0


def test_a_view_can_be_mounted_again_after_clean_up(show: Show) -> None:
    page = show("served")
    page.evaluate("window.cleanUp()")
    page.evaluate("void window.mountAgain()")
    expect(page.get_by_role("tab", name="One head")).to_be_visible()
    assert page.locator(".regard").count() == 1


# In `make test`, each of the two models on one screen.
AXE_SCREENS = [("writer", *ALL_SCREENS[0]), ("encoder", *ALL_SCREENS[1])]
MORE_AXE_SCREENS = [(subject, *screen) for subject in ("writer", "encoder") for screen in ALL_SCREENS]


@pytest.mark.parametrize(
    ("subject", "width", "height", "theme"),
    AXE_SCREENS + [pytest.param(*one, marks=pytest.mark.slow) for one in MORE_AXE_SCREENS if one not in AXE_SCREENS],
)
def test_axe_finds_nothing(
    show: Show, settle: Settle, axe: str, subject: str, width: int, height: int, theme: str
) -> None:
    page = show("served", subject, theme=theme, width=width, height=height)
    page.evaluate(axe)
    every = titles(page)
    assert {"Heads", "One head", "One number", "Map", "Output", "Architecture", "Lookup"} <= set(every)
    for title in every:
        open_view(page, title)
        settle(page)
        assert findings(page) == [], title


def findings(page: Page) -> list[Any]:
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        (problem["id"], problem["help"], [node["html"][:200] for node in problem["nodes"][:3]])
        for problem in found["violations"]
    ]


def test_arrow_keys_walk_the_levels(show: Show) -> None:
    page = show("served", address="#view=dots")
    levels = page.get_by_role("tab").all_text_contents()
    assert levels == ["Heads", "One head", "One number", "Does it matter?"]
    page.get_by_role("tab", name="Heads").focus()
    for title in levels[levels.index("Heads") + 1 :]:
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("tab", name=title, exact=True)).to_be_focused()
        expect_view(page, title)
    page.keyboard.press("Home")
    expect(page.get_by_role("tab", name=levels[0])).to_be_focused()


def test_every_control_can_be_reached_by_tabulator(show: Show) -> None:
    page = show("served")
    page.locator("body").click(position={"x": 2, "y": 2})
    reached: set[str] = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached |= set(page.evaluate(NAMES))
    assert {"Zoom: from the sentence to a number", "More", "Share", "Adjust", "Heads", "Layer", "Head"} <= reached
    assert {"looks: query", "is looked at: key"} <= reached


@pytest.mark.parametrize("host", HOSTS)
def test_the_first_tab_stop_skips_to_the_view(show: Show, host: str) -> None:
    page = show(host, adjust=False)
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Skip to the view")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("tabpanel")).to_be_focused()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.regard-view') !== null")


def test_names_of_words_keep_their_number_apart(show: Show) -> None:
    page = show("served", address="#query=they")
    expect(page.get_by_role("option", name=re.compile(r"^kids, 0\.\d\d$"))).to_have_count(1)
    open_view(page, "Words")
    expect(page.get_by_role("option", name=re.compile(r"^\S+, 0\.\d{3}$")).first).to_be_visible()


@pytest.mark.parametrize("host", EACH_HOST[:2])
def test_the_address_holds_layer_head_and_word(show: Show, host: str) -> None:
    page = show(host, address="#layer=2&head=1&query=they")
    expect(page.get_by_label("Layer", exact=True).locator("select")).to_have_value("2")
    expect(page.get_by_role("button", name="Head 1", exact=True)).to_have_attribute("aria-pressed", "true")
    expect(page.locator(CHOSEN)).to_have_text("they")
    page.get_by_role("button", name="Head 3", exact=True).click()
    expect(page).to_have_url(re.compile("#layer=2&head=3&query=they$"))


@pytest.mark.parametrize("host", EACH_HOST[:2])
def test_the_address_holds_what_if(show: Show, settle: Settle, host: str) -> None:
    page = show(host, address="#view=steps&query=they&steps_divisor=2.5&steps_mask=causal")
    divisor, temperature = page.get_by_label("Divide scores by"), page.get_by_label("Temperature")
    expect(divisor).to_have_attribute("aria-valuetext", "2.50")
    expect(page.get_by_role("radio", name="Causal")).to_be_checked()
    expect(page.get_by_role("tabpanel")).to_contain_text("of the weight moved")
    temperature.focus()
    page.keyboard.press("Home")
    expect(page).to_have_url(re.compile("steps_divisor=2.5&.*steps_temperature=0.1"))
    page.reload()
    expect(temperature).to_have_attribute("aria-valuetext", "0.10")
    open_view(page, "Threads")
    expect(page).to_have_url(re.compile("#view=sentence.*steps_divisor=2.5"))
    page.go_back()
    expect(divisor).to_have_attribute("aria-valuetext", "2.50")
    open_adjust(page)
    page.get_by_role("region", name="What if").get_by_role("button", name="Reset").click()
    expect(page).to_have_url(re.compile("#(?!.*steps_)"))
    settle(page)


def test_a_still_picture_stays_where_no_kernel_answers(show: Show, widget_without_kernel: Page) -> None:
    expect(widget_without_kernel.get_by_text("A still picture")).to_be_visible()
    expect(widget_without_kernel.get_by_role("tab").first).to_be_hidden()
    page = show("blob")
    expect(page.get_by_role("tab", name="One head")).to_be_visible()
    expect(page.get_by_text("A still picture")).to_be_hidden()


def test_a_widget_draws_in_a_sandboxed_frame_without_the_network(
    new_page: Callable[..., Page], development: Any
) -> None:
    """As in Colab and VS Code: an opaque origin, so neither storage nor an address of its own, and no CDN."""
    opened = new_page(offline=True)
    connect_to_python(opened, development.answers("kids"))
    opened.set_content(
        '<iframe sandbox="allow-scripts" srcdoc="<!DOCTYPE html><body>" width="1200" height="900"></iframe>'
    )
    frame = opened.frames[1]
    with pytest.raises(Error, match="sandboxed"):
        frame.evaluate("localStorage.length")
    render_widget(frame)
    frame.wait_for_selector('.regard[aria-busy="false"]')
    expect(frame.get_by_role("tab").first).to_be_visible()
    assert "kids" in frame.inner_text(".regard")


def test_notebooks_keep_their_own_address(show: Show) -> None:
    page = show("blob")
    before = page.url
    page.get_by_role("button", name="Head 3", exact=True).click()
    expect(page.get_by_role("button", name="Head 3", exact=True)).to_have_attribute("aria-pressed", "true")
    assert page.url == before


# The ids that occur twice, and the names of radio buttons that two viewers share.
SHARED = """() => {
  const viewers = [...document.querySelectorAll(".regard")];
  const ids = viewers.flatMap((viewer) => [...viewer.querySelectorAll("[id]")].map(({ id }) => id));
  const names = viewers.map((viewer) => new Set([...viewer.querySelectorAll("[type=radio]")].map(({ name }) => name)));
  return { viewers: viewers.length, radios: names[0].size, ids: ids.filter((id, at) => ids.indexOf(id) !== at),
    names: [...names[0]].filter((name) => names[1].has(name)) };
}"""


def test_two_widgets_share_neither_ids_nor_radio_names(show: Show, settle: Settle) -> None:
    page = show("blob", widgets=2)
    for title in ("Heads", "One head", "One number"):
        for tab in page.get_by_role("tab", name=title, exact=True).all():
            tab.click()
        settle(page)
        found = page.evaluate(SHARED)
        assert (found["viewers"], found["ids"], found["names"]) == (2, [], []), title
        assert found["radios"] > 0 or title != "One head"


@pytest.mark.parametrize("host", HOSTS)
def test_tokens_of_any_kind_appear_as_text(show: Show, settle: Settle, host: str) -> None:
    page = show(host, "nasty")
    dialogs: list[Any] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    for title in VIEWS:
        open_view(page, title)
        settle(page)
        assert page.locator(".regard img, .regard script").count() == 0
    open_view(page, "Threads")
    shown = page.locator(".regard-sentence-side[data-side=query] .regard-sentence-text")
    shown.nth(6).wait_for()  # a busy machine draws later
    texts = shown.all_text_contents()
    assert texts[:6] == ["</script>", "<img src=x onerror=aler…", "שלום", "مرحبا", "👩‍👩‍👧‍👦", "a␀b"]
    assert texts[6] == "w" * 23 + "…"
    assert dialogs == []


@pytest.mark.parametrize("title", VIEWS)
def test_nothing_is_wider_than_a_narrow_screen(show: Show, settle: Settle, title: str) -> None:
    page = show("served", width=360, height=740)
    open_view(page, title)
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_exports_come_as_files(show: Show) -> None:
    page = show("served", address="#layer=1&head=1&query=they")
    expect(page.locator(CHOSEN)).to_have_count(1)
    starts = {"SVG": b"<svg", "PNG": b"\x89PNG", "CSV": b"query,key,weight,source\r\n", "LaTeX": b"\\textbf"}
    for name, start in starts.items():
        with page.expect_download() as waiting:
            save_as(page, name)
        content = waiting.value.path().read_bytes()
        assert content.startswith(start)
        assert "layer-1-head-1" in waiting.value.suggested_filename
        if name != "PNG":
            assert b"layer 1, head 1" in content


def test_the_theme_can_be_chosen(show: Show) -> None:
    page = show("served")
    theme = page.get_by_role("button", name="Theme")
    for name, applied in (("dark", "dark"), ("light", "light"), ("as the system", "light")):
        if not theme.is_visible():
            page.locator("summary.regard-more").click()
        theme.click()
        expect(theme).to_have_accessible_name(f"Theme: {name}")
        expect(page.locator(".regard")).to_have_attribute("data-theme", applied)


def test_the_certificate_opens_and_closes(show: Show) -> None:
    page = show("served")
    mark = page.locator("summary.regard-more")
    text = page.locator(".regard-certificate")
    expect(text).to_be_hidden()
    mark.click()
    expect(text).to_contain_text("of float64")
    page.keyboard.press("Escape")
    expect(text).to_be_hidden()
    mark.click()
    page.locator(".regard-view").click(position={"x": 5, "y": 5})
    expect(text).to_be_hidden()


def test_the_mark_of_a_reading_from_a_file_says_that_text_and_model_are_unverified(
    new_page: Callable[..., Page], development: Any, tmp_path: Path
) -> None:
    development.subject("kids").save(tmp_path / "kids.safetensors")
    Reading.load(tmp_path / "kids.safetensors").save_html(tmp_path / "kids.html")
    page = new_page(offline=True)
    page.goto((tmp_path / "kids.html").as_uri())
    page.locator("summary.regard-more").click()
    expect(page.locator(".regard-certificate")).to_contain_text("Numbers verified against float64")
    expect(page.locator(".regard-certificate")).to_contain_text("kids.safetensors states: they are not verified.")


def test_an_attention_without_words_opens_as_a_heat_map(new_page: Callable[..., Page], tmp_path: Path) -> None:
    queries, keys = np.random.default_rng(0).normal(size=(2, 3, 9, 4))
    path = pages.save(Attention(queries, keys), tmp_path / "attention.html")
    page = new_page(offline=True)
    page.goto(path.as_uri())
    expect_view(page, "Map")


@pytest.mark.parametrize("host", HOSTS)
def test_the_picture_gets_most_of_the_window(show: Show, host: str) -> None:
    page = show(host, width=1400, height=900)
    stage = page.locator(".regard-sentence-stage")
    expect(stage).to_be_visible()
    box = stage.bounding_box()
    assert box is not None and box["y"] <= 0.3 * 900


def test_on_a_phone_the_picture_is_on_the_first_screen(show: Show, settle: Settle) -> None:
    page = show("served", adjust=False, width=360, height=740)
    for title, picture in (
        ("Threads", ".regard-sentence-stage"), ("Small maps", ".regard-grid-box"), ("Map", ".regard-matrix-stage"),
    ):  # fmt: skip
        open_view(page, title)
        settle(page)
        box = page.locator(picture).bounding_box()
        assert box is not None and box["y"] < 0.4 * 740, title
        expect(page.locator(".regard-adjust")).to_be_hidden()


def test_a_page_of_some_heads_shows_the_others_as_not_kept(new_page: Any, development: Any, tmp_path: Any) -> None:
    from regard.viewer import page as pages

    path = pages.save(development.subject("kids"), tmp_path / "some.html", layers=1, heads=[1, 2])
    page = new_page(offline=True)
    page.goto(f"{path.as_uri()}#layer=0&head=0&query=they")
    expect(page.locator(".regard-sentence-said")).to_contain_text("they looks most at")
    page.locator("summary.regard-more").click()
    expect(page.locator(".regard-about").first).to_contain_text("kept in this page: 1, 2")
    page.keyboard.press("Escape")
    open_adjust(settled(page))
    expect(page.get_by_role("combobox", name="Layer")).to_have_value("0")
    expect(page.locator(".regard-head:enabled[aria-label^=Head]")).to_have_text(["1", "2"])
    expect(page.get_by_role("button", name="Head 1", pressed=True)).to_have_count(1)
    open_view(page, "Small maps")
    expect(page.get_by_role("option", name="Layer 0, head 1, not kept in this page")).to_contain_text("not kept")
    page.get_by_role("option", name="Layer 0, head 1, not kept in this page").click(force=True)
    expect(page.locator(".regard-grid-cell[aria-selected=true]")).to_have_attribute("data-layer", "1")
    page.evaluate("location.hash = '#query=lions'")  # an address without a layer, or with one that is not kept
    expect(page.locator(".regard-sentence-said")).to_contain_text("lions looks most at")


@pytest.mark.parametrize("host", HOSTS)
def test_a_page_opens_on_the_link_that_says_most(show: Show, opening: bool, host: str) -> None:
    page = show(host, address="#view=sentence")
    expect(page.locator(CHOSEN)).to_have_text("they")
    expect(page.locator(".regard-sentence-said")).to_contain_text("they looks most at")


def test_a_page_opens_where_it_was_told_to(new_page: Any, development: Any, tmp_path: Any) -> None:
    from regard.viewer import page as pages

    path = tmp_path / "start.html"
    text = pages.page(development.subject("kids"), start={"layer": 2, "head": 3, "query": 9})
    path.write_text(text, encoding="utf-8")
    page = new_page(offline=True)
    page.goto(path.as_uri())
    open_adjust(settled(page))
    expect(page.get_by_role("combobox", name="Layer")).to_have_value("2")
    expect(page.get_by_role("button", name="Head 3", pressed=True)).to_have_count(1)
    expect(page.locator(".regard-sentence-said")).to_contain_text("looks most at")

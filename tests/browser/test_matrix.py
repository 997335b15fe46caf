"""The matrix: weights on the screen are those of NumPy at every zoom, and moving never blocks the page."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from regard.attention import Attention
from regard.masks import causal
from regard.reading import Reading

from .conftest import EACH_HOST, open_view, save_as

WITHIN = {"served": 1e-3, "blob": 1e-3, "file": 5e-3}  # four digits are shown; a page holds 16 bits a number
LONGEST_TASK = 50_000  # microseconds of the main thread
Show = Callable[..., Page]
Settle = Callable[[Page], None]


def far() -> Reading:
    """100,000 tokens."""
    rng = np.random.default_rng(3)
    heads, count, size = 8, 100_000, 8
    queries, keys, values = rng.normal(size=(3, heads, count, size)).astype(np.float32)
    turns = np.arange(count)[:, None] * np.array([1e-4, 3e-3])
    queries[:, :, :4] = keys[:, :, :4] = 3 * np.concatenate([np.cos(turns), np.sin(turns)], axis=1)
    words = [f"w{place % 997}" for place in range(count)]
    return Reading.of([Attention(queries, keys, mask=causal())], [values], words=words, model="synthetic")


@pytest.fixture(scope="module", autouse=True)
def _more_subjects(development: Any) -> Iterator[None]:
    known = development.subject
    made: dict[str, Any] = {}

    def subject(name: str) -> Any:
        if name != "far":
            return known(name)
        if name not in made:
            made[name] = far()
        return made[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(development, "subject", subject)
        yield


def opened(show: Show, host: str, subject: str = "kids", layer: int = 1, head: int = 1, **options: Any) -> Page:
    page = show(host, subject, **options)
    open_view(page, "Map")
    if page.get_by_label("Layer", exact=True).locator("select").count():
        page.get_by_label("Layer", exact=True).locator("select").select_option(str(layer))
    page.get_by_role("button", name=f"Head {head}", exact=True).click()
    several = page.get_by_label("Layer", exact=True).locator("select").count()
    expect(stage(page)).to_have_attribute("aria-label", re.compile(f"layer {layer if several else 0}, head {head}"))
    return page


def stage(page: Page) -> Locator:
    return page.locator(".regard-matrix-stage")


def number(text: str) -> float:
    """What 1.834·10⁻⁹ or 0.4223 says."""
    digits, _, power = text.replace("−", "-").partition("·10")
    places = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    return float(digits) * 10.0 ** int(power.translate(places) or 0)


def shown(page: Page) -> tuple[int, int, float]:
    """Query, key and weight beside the matrix, once the weight is there."""
    weight = page.locator(".regard-matrix-weight")
    expect(weight).to_have_text(re.compile(r"\d"))
    places = page.locator(".regard-matrix-token .regard-quiet").all_text_contents()
    query, key = (int(re.sub(r"\D", "", place)) for place in places)
    return query, key, number(weight.inner_text())


@pytest.mark.parametrize("host", EACH_HOST)
def test_the_table_holds_every_weight(show: Show, development: Any, host: str) -> None:
    page = opened(show, host)
    page.get_by_text("These weights as a table").click()
    rows = page.locator(".regard-matrix .regard-table tbody tr")
    expect(rows).to_have_count(16)
    on_screen = [[number(cell) for cell in row.locator("td").all_text_contents()] for row in rows.all()]
    expected = np.asarray(development.subject("kids").attention(1)[1, :, :])
    np.testing.assert_allclose(on_screen, expected, rtol=WITHIN[host], atol=1e-5)


@pytest.mark.parametrize("host", EACH_HOST)
def test_arrow_keys_walk_to_a_cell_and_its_weight_is_said(show: Show, development: Any, host: str) -> None:
    page = opened(show, host)
    stage(page).focus()
    for key in (
        "ArrowDown",
        "ArrowDown",
        "ArrowDown",
        "ArrowRight",
        "ArrowRight",
    ):  # the first one arrives at the corner
        page.keyboard.press(key)
    for index, name in enumerate(("query", "key")):  # the readout follows with the next frame
        expect(page.locator(".regard-matrix-token").nth(index)).to_contain_text(f"{name} 2")
    query, key_at, weight = shown(page)
    expected = float(development.subject("kids").attention(1)[1, query, key_at])
    assert weight == pytest.approx(expected, rel=WITHIN[host])
    expect(page.locator("[aria-live=polite].regard-unseen")).to_contain_text("kids to kids")


def test_more_weight_is_darker(show: Show, development: Any) -> None:
    page = opened(show, "served")
    expect(page.locator(".regard-matrix-strongest li")).to_have_count(5)
    light = np.asarray(page.evaluate(LIGHTNESS))
    weights = np.asarray(development.subject("kids").attention(1)[1, :, :])
    order = np.argsort(weights.ravel())
    assert (np.diff(light.ravel()[order]) <= 1).all()  # one step of a colour's rounding


# The lightness of a corner of each of 16 × 16 cells. The matrix is found from the lower right: the first column and row
# of pixels, seen from there, that are not the ground.
LIGHTNESS = """() => {
  const drawn = document.querySelector(".regard-matrix-canvas");
  const copy = Object.assign(document.createElement("canvas"), { width: drawn.width, height: drawn.height });
  const pen = copy.getContext("2d", { willReadFrequently: true });
  pen.drawImage(drawn, 0, 0);
  const { data } = pen.getImageData(0, 0, copy.width, copy.height);
  const at4 = (x, y) => (y * copy.width + x) * 4;
  const light = (x, y) => data[at4(x, y)] + data[at4(x, y) + 1] + data[at4(x, y) + 2];
  const ground = light(0, 0);
  const edge = 1; // of the line around the cells
  const filled = (points) => points.filter(([x, y]) => light(x, y) !== ground).length > points.length * 0.6;
  const run = (count) => Array.from({ length: count }, (_, place) => place);
  const last = (from, line) => run(from).reverse().find((place) => filled(line(place))) + 1 - edge;
  const right = last(copy.width, (x) => run(60).map((y) => [x, Math.round(copy.height * 0.7) + y]));
  const across = (y) => run(60).map((x) => [right - 60 + x, y]);
  const foot = last(copy.height, across);
  const top = run(foot).find((y) => filled(across(y))) + edge;
  const size = (foot - top) / 16;
  const at = (first, place) => Math.round(first + (place + 0.15) * size);
  return run(16).map((row) => run(16).map((column) => light(at(right - 16 * size, column), at(top, row))));
}"""


def test_keys_zoom_select_and_clear_the_selection(show: Show) -> None:
    page = opened(show, "served", "long", layer=0, head=0)
    stage(page).focus()
    page.keyboard.press("ArrowDown")
    for _ in range(14):
        page.keyboard.press("+")
    expect(page).to_have_url(re.compile(r"matrix_view=0,\d+,0,\d+"))
    page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"(?=.*region=0,2,0,2)(?=.*query=1(&|$))(?=.*key=1(&|$))"))
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile(r"region"))
    page.keyboard.press("Home")
    expect(page).not_to_have_url(re.compile(r"matrix_view"))
    expect(page.get_by_role("button", name="Zoom out")).to_be_disabled()


def test_the_mouse_chooses_a_cell_and_a_region(show: Show) -> None:
    page = opened(show, "served")
    box = page.locator(".regard-matrix-canvas").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.5
    page.mouse.move(x, y)
    query, key, _ = shown(page)
    page.mouse.click(x, y)
    expect(page).to_have_url(re.compile(r"(?=.*query=)(?=.*key=)"))
    page.keyboard.down("Shift")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + box["width"] * 0.1, y + box["height"] * 0.1, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    expect(page).to_have_url(re.compile(rf"region={query},\d+,{key},\d+"))
    page.get_by_role("button", name="Zoom to the region").click()
    expect(page).to_have_url(re.compile(r"matrix_view="))


@pytest.mark.parametrize("host", EACH_HOST)
@pytest.mark.parametrize("pool", ["Mean", "Max"])
def test_a_pooled_cell_shows_its_pool_and_the_weight_under_the_pointer(
    show: Show, development: Any, host: str, pool: str
) -> None:
    page = opened(show, host, "long", layer=0, head=0)
    page.get_by_role("radio", name=pool).check()
    page.locator(".regard-matrix-canvas").hover(position={"x": 331, "y": 347})
    weights = development.subject("long").attention(0)
    query, key, weight = shown(page)
    assert weight == pytest.approx(float(weights[0, query, key]), rel=WITHIN[host])
    said = page.locator(".regard-matrix-more")
    expect(said).to_contain_text(f" {pool.lower()} ")
    edges = re.search(r"queries ([\d,]+)–([\d,]+), keys ([\d,]+)–([\d,]+), \w+ (\S+)", said.inner_text())
    assert edges is not None
    top, foot, left, right = (int(edge.replace(",", "")) for edge in edges.groups()[:4])
    region = np.asarray(weights[0, top : foot + 1, left : right + 1])
    assert region.size > 1
    expected = region.mean() if pool == "Mean" else region.max()
    assert number(edges[5]) == pytest.approx(float(expected), rel=WITHIN[host])


def test_masked_cells_are_labelled(show: Show) -> None:
    page = opened(show, "served", "causal")
    stage(page).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".regard-matrix-weight")).to_have_text("masked")
    expect(page.locator(".regard-matrix-hidden")).to_be_visible()


def test_a_logarithmic_scale_shows_its_lower_end(show: Show) -> None:
    page = opened(show, "served")
    page.get_by_role("radio", name="Log").check()
    expect(page.locator(".regard-matrix-ends")).to_contain_text("≤ 0.00008")
    expect(page).to_have_url(re.compile(r"colour=log"))


def test_two_fingers_zoom(show: Show) -> None:
    page = opened(show, "served", "long", layer=0, head=0)
    box = page.locator(".regard-matrix-canvas").bounding_box()
    assert box is not None
    x, y = box["x"] + 300, box["y"] + 300
    fingers = page.context.new_cdp_session(page)

    def touch(kind: str, apart: float) -> None:
        points = [] if kind == "touchEnd" else [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}]
        fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", 30)
    for apart in range(35, 120, 10):
        touch("touchMove", apart)
    touch("touchEnd", 0)
    expect(page).to_have_url(re.compile(r"matrix_view="))


def test_csv_and_svg_hold_the_weights(show: Show, development: Any, tmp_path: Path) -> None:
    page = opened(show, "served")
    expect(page.locator(".regard-matrix-strongest li")).to_have_count(5)
    with page.expect_download() as waiting:
        save_as(page, "CSV")
    rows = list(csv.reader(waiting.value.path().read_text(encoding="utf-8").splitlines()))
    expected = np.asarray(development.subject("kids").attention(1)[1, :, :])
    np.testing.assert_allclose(np.array([row[1:-1] for row in rows[1:]], float), expected, rtol=1e-6)
    assert rows[1][0] == "[CLS]"
    with page.expect_download() as waiting:
        save_as(page, "SVG")
    svg = waiting.value.path().read_text(encoding="utf-8")
    assert svg.count("<rect") >= 16 * 16 and ">lions<" in svg


def test_100000_tokens_are_sampled_first_then_exact_and_outdated_queries_are_cancelled(
    show: Show, development: Any
) -> None:
    page = show("served", "far", "#view=matrix&head=3")
    cancelled: list[str] = []
    page.on("requestfailed", lambda asked: cancelled.append(asked.failure or ""))
    expect(page.locator(".regard-matrix-note")).to_contain_text("sampled rows")
    page.locator(".regard-matrix-canvas").hover(position={"x": 300, "y": 420})
    for _ in range(10):
        page.mouse.wheel(0, -500)
    query, key, weight = shown(page)
    expected = float(development.subject("far").attention(0)[3, query, key])
    assert weight == pytest.approx(expected, rel=1e-3)
    expect(page.locator(".regard-matrix-note")).to_have_text("")
    page.get_by_role("button", name="Show the whole matrix").click()
    page.get_by_role("button", name="Head 4", exact=True).click()
    page.get_by_role("button", name="Head 5", exact=True).click()
    expect(page).to_have_url(re.compile(r"head=5"))
    assert any("ABORTED" in failure for failure in cancelled)


@pytest.mark.slow  # a measurement, which wants a machine of its own
def test_moving_over_100000_tokens_takes_no_task_over_50_ms(show: Show, settle: Settle, chromium: Browser) -> None:
    page = show("served", "far", "#view=matrix&matrix_view=40000,60000,30000,50000")
    expect(page.locator(".regard-matrix-strongest li")).to_have_count(5)
    box = page.locator(".regard-matrix-canvas").bounding_box()
    assert box is not None
    x, y = box["x"] + 330, box["y"] + 300
    chromium.start_tracing(page=page, categories=["disabled-by-default-devtools.timeline"])
    for _ in range(3):
        page.mouse.move(x, y)
        page.mouse.down()
        for step in range(40):
            page.mouse.move(x - 5 * step, y - 4 * step)
        page.mouse.up()
        page.mouse.move(x, y)
        page.mouse.wheel(0, -250)
        settle(page)
    tasks = main_thread_tasks(json.loads(chromium.stop_tracing()))
    assert len(tasks) > 100
    assert max(tasks) < LONGEST_TASK


def main_thread_tasks(trace: dict[str, Any]) -> list[int]:
    """CPU time of the tasks of the page's main thread; on a busy machine wall-clock time includes waiting."""
    events = trace["traceEvents"]
    names = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    tasks = [
        event
        for event in events
        if event["name"] == "RunTask" and names.get((event["pid"], event["tid"])) == "CrRendererMain"
    ]
    return [event.get("tdur", event.get("dur", 0)) for event in tasks]


def test_clean_up_in_the_midst_of_moving_leaves_nothing(show: Show, settle: Settle) -> None:
    page = show("served", "long", "#view=matrix", counting=True)
    settle(page)
    before = page.evaluate("window.held().listeners")
    page.evaluate("""() => {
      const stage = document.querySelector(".regard-matrix-stage");
      const point = (type, x) =>
        stage.dispatchEvent(new PointerEvent(type, { pointerId: 1, clientX: x, clientY: x, bubbles: true }));
      stage.setPointerCapture = () => {};
      const wheel = () => stage.dispatchEvent(new WheelEvent("wheel", { deltaY: -300, cancelable: true }));
      for (let turn = 0; turn < 5; turn++) wheel();
      point("pointerdown", 400);
      for (let x = 400; x < 460; x += 10) point("pointermove", x);
      window.cleanUp();
    }""")
    held = page.evaluate("window.held()")
    assert (held["timers"], held["nodes"]) == (0, 0)
    more = {name for name, count in held["listeners"].items() if count > before.get(name, 0)}
    assert {name for name in more if "playwright" not in name} == set()


def test_a_long_causal_text_is_coloured_by_the_logarithm(show: Show) -> None:
    page = show("served", "far", "#view=matrix")
    expect(page.locator(".regard-matrix-about")).to_contain_text("logarithmic")
    expect(page.get_by_role("radio", name="Log")).to_be_checked()
    page.get_by_role("radio", name="Linear").check()
    expect(page).to_have_url(re.compile(r"colour=linear"))
    expect(page.locator(".regard-matrix-about")).not_to_contain_text("logarithmic")
    page = show("served", "causal", "#view=matrix")  # 14 words
    expect(page.get_by_role("radio", name="Linear")).to_be_checked()


def test_the_exact_map_keeps_the_colours_of_the_sampled_one_and_its_progress_is_shown(show: Show) -> None:
    page = show("served", "kids", "#view=matrix")
    held: list[Any] = []
    released: list[bool] = []

    def exact(route: Any) -> None:
        asked = route.request.post_data_json
        wide = asked["rows"][1] - asked["rows"][0] > 8192
        held.append(route) if asked.get("quality") == "exact" and wide and not released else route.continue_()

    page.route("**/ask/huge/tile", exact)
    page.goto(page.url.split("/kids")[0] + "/huge#view=matrix")
    expect(page.locator(".regard-matrix-note")).to_contain_text("computing the exact one")
    progress = page.get_by_role("progressbar", name="Computing the exact map")
    expect(progress).to_be_visible()
    expect(page.locator(".regard-matrix-progress")).to_contain_text("%")
    ends = page.locator(".regard-matrix-ends")
    before = ends.inner_text()
    released.append(True)
    for route in held:
        route.continue_()
    expect(page.locator(".regard-matrix-note")).to_have_text("")
    expect(progress).to_be_hidden()
    assert ends.inner_text() == before


RECORDING = """
window.texts = [];
const write = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
  const { a, b, c, d, e, f } = this.getTransform();
  const wide = this.measureText(text).width;
  const from = x - { left: 0, right: wide, center: wide / 2 }[this.textAlign];
  const edge = (u) => ({ x: (a * u + c * y + e) / a_scale(this), y: (b * u + d * y + f) / a_scale(this) });
  window.texts.push({ text, start: edge(from), end: edge(from + wide), width: this.canvas.clientWidth });
  return write.call(this, text, x, y);
};
const a_scale = (drawing) => drawing.canvas.width / drawing.canvas.clientWidth;
"""


@pytest.mark.parametrize("width", [360, 1200])
def test_labels_are_whole_or_end_in_an_ellipsis(show: Show, settle: Settle, development: Any, width: int) -> None:
    page = show("served", "kids", "#view=matrix", width=width, height=800)
    page.add_init_script(RECORDING)
    words = set(development.subject("long").text.split())
    for view in ("", "&matrix_view=600,604,691.3,695.3", "&matrix_view=600,640,691.3,731.3"):
        page.goto(page.url.split("#")[0].replace("/kids", "/long") + f"#view=matrix{view}")
        page.reload()
        settle(page)
        texts = page.evaluate("window.texts")
        assert len(texts) > 4
        for text in filter(lambda one: one["text"], texts):  # nothing is written where not even a letter fits
            whole = text["text"]
            plain = re.fullmatch(r"[\d,.·×−⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+|keys →|← queries", whole)
            assert whole.endswith("…") or whole in words or plain, whole
            for end in (text["start"], text["end"]):
                assert -1 <= end["x"] <= text["width"] + 1, text
                assert end["y"] >= 0, text


def test_the_wheel_zooms_both_ways(show: Show, settle: Settle) -> None:
    page = opened(show, "served", "long", 1, 1)
    settle(page)
    whole = page.get_by_role("button", name="Show the whole matrix")
    expect(whole).to_be_disabled()
    page.locator(".regard-matrix-canvas").hover(position={"x": 300, "y": 300})
    for _ in range(3):
        page.mouse.wheel(0, -300)
    expect(whole).to_be_enabled()
    for _ in range(4):
        page.mouse.wheel(0, 300)
    expect(whole).to_be_disabled()
    assert page.evaluate("scrollY") == 0

"""The steps: the lecture's numbers to the digit, NumPy's numbers for every head, and everything that can be changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import regard
from regard.attention import Attention
from regard.layers import Encoder, Linear, MultiHead, RMSNorm
from regard.reading import Reading

from ..small_models import writer
from .conftest import EACH_HOST, open_adjust, open_view, save_as

E = np.array([[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]], np.float64)
WORDS = ["The", "cat", "sat"]
SARAH = ["Keys", "on", "the", "table", "belong", "to", "Sarah"]
LONG = 5000
Show = Callable[..., Page]

# As the lecture notes have them.
SCORES = {"The": ["2", "0", "2"], "cat": ["0", "2", "2"], "sat": ["2", "2", "4"]}
WEIGHTS = {"The": ["0.42", "0.16", "0.42"], "cat": ["0.16", "0.42", "0.42"], "sat": ["0.21", "0.21", "0.58"]}
OUTPUTS = {"The": "0.840.580.840.58", "cat": "0.580.840.580.84", "sat": "0.790.790.790.79"}


def identity(heads: int = 1, w_o: Any = None) -> MultiHead:
    eye = np.eye(4)
    return MultiHead(Linear(eye), Linear(eye), Linear(eye), w_o, heads=heads)


def longer() -> Reading:
    queries, keys, values = np.random.default_rng(5).normal(size=(3, 1, LONG, 8)).astype(np.float32)
    return Reading.of([Attention(4 * queries, keys)], [values], words=[f"w{place}" for place in range(LONG)])


def normed() -> Reading:
    """Queries and keys are normed, as in Qwen 3."""
    model = writer()
    norm = RMSNorm(np.linspace(0.5, 2, 4).astype(np.float32))
    blocks = [
        replace(block, attention=replace(block.attention, q_norm=norm, k_norm=norm))
        for block in model.transformer.encoders
    ]
    return replace(model, transformer=replace(model.transformer, encoders=tuple(blocks))).read("the kids were scared")


SUBJECTS: dict[str, Callable[[], Any]] = {
    "edited": lambda: identity().explain(E, words=WORDS),
    "two-heads": lambda: identity(2, Linear(np.eye(4)[::-1].copy())).explain(E, words=WORDS),
    "uneven": lambda: MultiHead.from_heads([np.eye(3, 2)], [np.eye(3, 2)], [np.eye(3, 5)], np.eye(5, 3)).explain(
        E[:, :3], words=WORDS
    ),
    "block": lambda: Encoder.seeded(12, heads=3).explain(np.random.default_rng(0).normal(size=(7, 12)), words=SARAH),
    "longer": longer,
    "normed": normed,
}


@pytest.fixture(scope="module", autouse=True)
def _more_subjects(development: Any) -> Iterator[None]:
    known, made = development.subject, {}

    def subject(name: str) -> Any:
        if name not in SUBJECTS:
            return known(name)
        if name not in made:
            made[name] = SUBJECTS[name]()
        return made[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(development, "subject", subject)
        yield


def opened(show: Show, host: str, subject: str, query: str = "", head: int = 0, **options: Any) -> Page:
    page = show(host, subject, **options)
    open_view(page, "One number")
    open_adjust(page)
    table = page.locator(".regard-steps-all")
    if table.count():
        table.locator("summary").first.click()
    if head:
        page.get_by_role("button", name=f"Head {head}", exact=True).click()
    if query:
        page.get_by_role("listbox", name="Query").get_by_role("option", name=query, exact=True).first.click()
        expect(page.locator(".regard-steps-heading", has_text=f"Query {query}:")).to_be_visible()
    expect(page.locator(".regard-steps-table tbody tr").first).to_be_visible()
    expect(page.locator(".regard-steps > * > [aria-busy], .regard-steps > [aria-busy]").first).to_have_attribute(
        "aria-busy", "false"
    )
    return page


def column(page: Page, name: str) -> list[str]:
    """The cells below a heading, as text."""
    places = page.locator(".regard-steps-table thead th").evaluate_all("all => all.map((th) => th.firstChild.data)")
    found = page.locator(f".regard-steps-table tbody tr > :nth-child({places.index(name) + 1})")
    return [text.split(" was ")[0].strip() for text in found.all_text_contents()]


def numbers(texts: list[str]) -> list[float]:
    return [float(text.replace("−", "-")) for text in texts]


def softmax(scores: Any) -> Any:
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def slide(page: Page, label: str, value: str) -> None:
    page.get_by_label(label, exact=True).fill(value)


@pytest.mark.parametrize("subject", ["worked", "edited"])
@pytest.mark.parametrize("host", EACH_HOST)
def test_the_worked_example_shows_the_numbers_of_the_lecture(show: Show, host: str, subject: str) -> None:
    page = opened(show, host, subject)
    for word in WORDS:
        page.get_by_role("listbox", name="Query").get_by_role("option", name=word).click()
        expect(page.locator(".regard-steps-heading").filter(has_text="Query ")).to_have_text(
            f"Query {word}: d_k = 4, √d_k = 2"
        )
        assert column(page, "score") == SCORES[word]
        assert column(page, "softmax") == WEIGHTS[word]
        assert "".join(column(page, "sum")) == OUTPUTS[word]


@pytest.mark.parametrize("host", EACH_HOST)
def test_scores_and_weights_of_a_reading_are_those_of_numpy(show: Show, development: Any, host: str) -> None:
    page = opened(show, host, "kids", "they", head=2)
    attention = development.subject("kids").attention(0)
    place = development.subject("kids").text.split().index("they")
    queries, keys = (np.asarray(array, np.float64) for array in (attention.queries[2], attention.keys[2]))
    scores = queries[place] @ keys.T
    within = 0.02 if host == "file" else 0.006  # two decimals; a page holds 16 bits a number
    assert numbers(column(page, "score")) == pytest.approx(scores.tolist(), abs=within)
    assert numbers(column(page, "score/√d_k")) == pytest.approx((scores / 4).tolist(), abs=within)
    assert numbers(column(page, "softmax")) == pytest.approx(softmax(scores / 4).tolist(), abs=within)


def test_a_score_opens_into_its_products(show: Show) -> None:
    page = opened(show, "served", "worked", "cat")
    score = page.get_by_role("button", name="score of sat: 2")
    score.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".regard-score")).to_contain_text("0·1 + 1·1 + 0·1 + 1·1 = 2")
    expect(page.locator(".regard-score-bars rect")).to_have_count(4)
    expect(score).to_be_focused()
    expect(score).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Enter")
    expect(page.locator(".regard-score")).to_have_count(0)


def test_a_wide_vector_opens_into_its_numbers(show: Show, development: Any) -> None:
    page = opened(show, "served", "kids", "they")
    page.get_by_role("button", name=re.compile("^key k of lions")).click()
    shown = page.locator(".regard-numbers-list li > span:nth-child(2)").all_text_contents()
    place = development.subject("kids").text.split().index("lions")
    expected = np.asarray(development.subject("kids").attention(0).keys[0, place])
    assert numbers(shown) == pytest.approx(expected.tolist(), abs=0.006)


def test_another_divisor_temperature_and_mask_give_other_weights(show: Show) -> None:
    page = opened(show, "served", "worked", "cat")
    scores = E[1] @ E.T
    slide(page, "Divide scores by", "1")
    assert numbers(column(page, "softmax")) == pytest.approx(softmax(scores).tolist(), abs=0.006)
    assert column(page, "score/1.00") == ["0", "2", "2"]
    slide(page, "Temperature", "0.3")
    assert numbers(column(page, "softmax")) == pytest.approx(softmax(scores / 10**0.3).tolist(), abs=0.006)
    expect(page.get_by_role("tabpanel").get_by_text("of the weight moved")).to_be_visible()
    page.get_by_role("radio", name="Causal").check()
    expected = softmax(scores[:2] / 10**0.3)
    *seen, masked = column(page, "softmax")
    assert numbers(seen) == pytest.approx(expected.tolist(), abs=0.006) and masked == "masked"
    assert column(page, "softmax × v")[-1] == ""
    expect(page.get_by_role("img", name=re.compile("^Weights flow"))).to_have_accessible_name(re.compile("sat masked"))
    page.get_by_role("button", name="Reset").click()
    assert column(page, "softmax") == WEIGHTS["cat"]


def test_a_mask_can_be_removed(show: Show, development: Any) -> None:
    page = opened(show, "served", "causal", "kids")
    assert column(page, "softmax")[2:] == ["masked"] * 12
    page.get_by_role("radio", name="Off").check()
    attention = development.subject("causal").attention(0)
    scores = np.asarray(attention.queries[0, 1], np.float64) @ np.asarray(attention.keys[0], np.float64).T / 4
    assert numbers(column(page, "softmax")) == pytest.approx(softmax(scores).tolist(), abs=0.006)


def test_an_edited_entry_changes_all_that_follows(show: Show) -> None:
    page = opened(show, "served", "edited", "cat")
    page.get_by_label("cat, 0", exact=True).fill("3")
    embeddings = E.copy()
    embeddings[1, 0] = 3
    scores = embeddings[1] @ embeddings.T
    assert numbers(column(page, "score")) == scores.tolist()
    assert numbers(column(page, "softmax")) == pytest.approx(softmax(scores / 2).tolist(), abs=0.006)
    page.get_by_label("W q row 0, 1", exact=True).fill("-1.5")
    w_q = np.eye(4)
    w_q[0, 1] = -1.5
    scores = embeddings @ w_q @ embeddings.T
    assert numbers(column(page, "score")) == pytest.approx(scores[1].tolist(), abs=0.006)
    expect(page.get_by_text("the other views show the original example")).to_be_visible()
    page.get_by_label("cat, 0", exact=True).fill("much")
    expect(page.get_by_label("cat, 0", exact=True)).to_have_attribute("aria-invalid", "true")
    page.locator(".regard-steps-edited").get_by_role("button", name="Reset").click()
    assert column(page, "softmax") == WEIGHTS["cat"]


@pytest.mark.parametrize("host", EACH_HOST)
def test_typed_matrices_multiply_rows_and_check_calls_the_export_right(show: Show, host: str, tmp_path: Path) -> None:
    """E is 3 × 3, W_Q 3 × 2 and W_V 3 × 5, none symmetric; what the page saves goes back into `regard check`."""
    page = opened(show, host, "uneven", "cat")
    generator = np.random.default_rng(2)
    typed = {"": np.round(generator.normal(size=(3, 3)), 2)}
    for name, size in (("W q", 2), ("W k", 2), ("W v", 5)):
        typed[name] = np.round(generator.normal(size=(3, size)), 2)
    typed["W O"] = np.round(generator.normal(size=(5, 3)), 2)
    for name, matrix in typed.items():
        for (down, across), number in np.ndenumerate(matrix):
            label = f"{name} row {down}, {across}" if name else f"{WORDS[down]}, {across}"
            page.get_by_label(label, exact=True).fill(str(number))
    x, w_q, w_k, w_v, w_o = typed.values()
    scores = x @ w_q @ (x @ w_k).T
    assert numbers(column(page, "score")) == pytest.approx(scores[1].tolist(), abs=0.006)
    output = softmax(scores[1] / 2**0.5) @ x @ w_v
    vectors = page.locator(".regard-after-stage .regard-vector")
    shown = numbers(vectors.nth(1).locator("span").all_text_contents())
    assert shown == pytest.approx((output @ w_o).tolist(), abs=0.006)
    expect(page.get_by_text("× W_Q (3 × 2) =")).to_be_visible()
    with page.expect_download() as download:
        save_as(page, "CSV")
    path = tmp_path / "page.csv"
    download.value.save_as(path)
    verdicts = regard.teaching.check_notes(path).verdicts
    assert {verdict.kind for verdict in verdicts} == {"right"}
    assert {"query", "score", "weight", "output", "projected"} <= {verdict.step for verdict in verdicts}


def test_exports_say_where_their_numbers_come_from(
    show: Show, settle: Callable[[Page], None], exported: Callable[[Page, str], str]
) -> None:
    page = show("served", address="#view=steps&layer=1&head=1&query=they")
    settle(page)
    for name in ("CSV", "LaTeX", "SVG"):
        assert "layer 1, head 1" in exported(page, name)
    page.goto(page.url.replace("view=steps", "view=steps&steps_temperature=2"))
    page.reload()
    settle(page)
    for name in ("CSV", "LaTeX", "SVG"):
        assert "edited: temperature 2.00" in exported(page, name)
    open_adjust(page)
    page.get_by_role("button", name="Reset", exact=True).click()
    page.get_by_role("radio", name="A small example to edit").check()
    settle(page)
    for name in ("CSV", "LaTeX", "SVG"):
        content = exported(page, name)
        assert "typed by hand: “The cat sat”" in content and "layer 1" not in content and "edited" not in content


def test_a_silenced_head_leaves_the_concatenated_output(show: Show) -> None:
    page = opened(show, "served", "two-heads", "The")
    vectors = page.locator(".regard-after-stage .regard-vector")
    weights = softmax(np.array([1, 0, 1]) / 2**0.5)
    output = weights @ E[:, :2]
    expected = np.concatenate([output, output])
    assert numbers(vectors.nth(0).locator("span").all_text_contents()) == pytest.approx(expected.tolist(), abs=0.006)
    page.get_by_role("button", name="Silence head 1").click()
    silenced = np.concatenate([output, [0, 0]])
    assert numbers(vectors.nth(0).locator("span").all_text_contents()) == pytest.approx(silenced.tolist(), abs=0.006)
    assert numbers(vectors.nth(1).locator("span").all_text_contents()) == pytest.approx(
        silenced[::-1].tolist(), abs=0.006
    )
    expect(page.get_by_text("50 % of the squared norm removed")).to_be_visible()
    expect(page.get_by_role("button", name="Silence head 1")).to_be_focused()


def test_what_follows_the_heads_is_what_the_block_computed(show: Show, development: Any) -> None:
    page = opened(show, "served", "block", "Sarah")
    trace = development.subject("block")
    titles = {
        "Concatenated": "concatenated",
        "× W_O": "projected",
        "Residual": "attended",
        "Feed-forward": "fed_forward",
        "Result": "result",
    }
    for title, name in titles.items():
        stage = page.locator(".regard-after-stage").filter(
            has=page.locator("strong", has_text=re.compile(f"^{re.escape(title)}$"))
        )
        stage.get_by_role("button").click()
        shown = numbers(stage.locator(".regard-numbers-list li > span:nth-child(2)").all_text_contents())
        assert shown == pytest.approx(np.asarray(trace[name])[6].tolist(), abs=0.006)


def test_a_long_text_shows_its_strongest_keys_with_their_exact_weights(show: Show, development: Any) -> None:
    page = opened(show, "served", "longer")
    expect(page.get_by_text("needs all keys")).to_be_visible()
    weights = np.asarray(development.subject("longer").attention(0)[0, 0, :])
    strongest = {*np.argsort(-weights)[:11].tolist(), 0} | set(np.argsort(-weights)[:12].tolist())
    places = [int(re.sub(r".* ", "", word).replace(",", "")) for word in column(page, "Word")[:-1]]
    assert set(places) <= strongest and len(places) == 12
    shown = numbers(column(page, "softmax"))
    assert shown[:-1] == pytest.approx(weights[places].tolist(), abs=0.006)
    assert shown[-1] == pytest.approx(float(1 - weights[places].sum()), abs=0.006)


def test_the_flow_and_the_table_can_be_exported(show: Show) -> None:
    page = opened(show, "served", "worked", "cat")
    with page.expect_download() as waiting:
        save_as(page, "CSV")
    lines = waiting.value.path().read_text(encoding="utf-8").splitlines()
    assert lines[0] == "Word,q,k,v,score,score/√d_k,softmax,softmax × v,sum,source"
    assert lines[2].startswith("cat,0 1 0 1,0 1 0 1,0 1 0 1,2,1,0.42231879825")
    with page.expect_download() as waiting:
        save_as(page, "SVG")
    assert "Σ weight · v" in waiting.value.path().read_text(encoding="utf-8")


@pytest.mark.parametrize("subject", ["edited", "block", "two-heads", "writer"])
def test_axe_finds_nothing_serious_in_what_can_be_edited(show: Show, axe: str, subject: str) -> None:
    page = opened(show, "served", subject)
    page.locator("[data-opens=score-0]").click()
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
    assert [
        (one["id"], one["nodes"][0]["html"][:200]) for one in found if one["impact"] in ("serious", "critical")
    ] == []


@pytest.mark.parametrize("subject", ["edited", "block", "kids"])
def test_nothing_is_wider_than_a_narrow_screen(show: Show, subject: str) -> None:
    page = opened(show, "served", subject, width=360, height=740)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


# From x to q, and on to the next token


def opened_numbers(page: Page, within: str) -> list[float]:
    return numbers(page.locator(f"{within} .regard-numbers-list li > span:nth-child(2)").all_text_contents())


def labels_of_origin(page: Page) -> list[str]:
    labels: list[str] = page.locator(".regard-origin-cell > .regard-quiet").all_text_contents()
    return labels


def test_the_norm_of_queries_is_part_of_the_product(show: Show, settle: Any, development: Any) -> None:
    page = opened(show, "served", "normed", "kids")
    settle(page)
    operators = page.locator(".regard-origin-operator").all_text_contents()
    assert operators[-2:] == ["× W_Q (16 × 4) → norm →", "turned by position 1 (RoPE) →"]
    block, x = development.subject("normed").blocks[0], np.asarray(development.subject("normed").states[0])[1]
    projected = np.asarray(block.attention.w_q.weight)[:4] @ np.asarray(block.norm_1(x[None]))[0]
    expected = np.asarray(block.attention.q_norm(projected[None]))[0]
    shown = page.locator("[data-origin=projected] .regard-vector span").all_text_contents()
    assert numbers(shown) == pytest.approx(expected.tolist(), abs=0.006)
    page.get_by_role("radio", name="v", exact=True).check()
    assert page.locator(".regard-origin-operator").all_text_contents()[-1] == "× W_V (16 × 4) ="


def test_a_query_is_x_times_w_q_with_the_position_added(show: Show, settle: Any, development: Any) -> None:
    page = opened(show, "blob", "encoder", "lions")
    settle(page)
    reading = development.subject("encoder")
    place = [token.text for token in reading.tokens].index("lions")
    operators = page.locator(".regard-origin-operator").all_text_contents()
    assert operators[0] == "+" and operators[-1] == "× W_Q (16 × 4) + b_Q ="
    assert labels_of_origin(page)[-2:] == ["x (1 × 16)", "q (1 × 4)"]
    page.get_by_role("option", name=re.compile("^position 7")).click()
    model = reading.reader.transformer
    ids = np.array([token.id for token in reading.tokens])
    steps = {step.name: np.asarray(step.value) for step in model.embedding_steps(ids, separate=True)}
    added = (steps["positioned"] - steps["embedding"])[place]
    assert opened_numbers(page, ".regard-origin") == pytest.approx(added.tolist(), abs=0.006)
    page.get_by_role("radio", name="k", exact=True).check()
    page.locator("[data-origin=projected] [role=option]").click()
    row = page.get_by_role("button", name=re.compile("^k, number 2:"))
    row.click()
    w = np.asarray(reading.blocks[0].attention.w_k.weight)[2]
    product = float(w @ np.asarray(reading.states[0])[place])
    expect(page.locator(".regard-origin .regard-worked")).to_contain_text(
        f"x · column 2 of W_K = Σ xᵢ · wᵢ = {product:.2f}".replace("-", "−")
    )


@pytest.mark.parametrize("host", EACH_HOST)
def test_rope_turns_the_query_by_its_position(show: Show, settle: Any, development: Any, host: str) -> None:
    page = opened(show, host, "writer", "scared")
    settle(page)
    expect(page.locator("[data-origin=turned]")).to_be_visible()
    expect(page.locator(".regard-dials figure")).to_have_count(2)
    before, after = (
        numbers(page.locator(f"[data-origin={name}] .regard-vector span").all_text_contents())
        for name in ("projected", "turned")
    )
    reading = development.subject("writer")
    place = [token.text for token in reading.tokens].index("scared")
    used = np.asarray(reading.attention(0).queries)[0, place]
    assert after == pytest.approx(used.tolist(), abs=0.012)
    x, block = np.asarray(reading.states[0])[place], reading.blocks[0]
    straight = np.asarray(block.attention.w_q.weight)[:4] @ np.asarray(block.norm_1(x[None]))[0]
    assert before == pytest.approx(straight.tolist(), abs=0.012)
    page.locator("[data-origin=turned] [role=option]").click()
    page.get_by_role("button", name=re.compile("^q, number 0:")).click()
    expect(page.locator(".regard-worked")).to_contain_text(f"Position {place} turns the numbers 0 and 2")


def test_every_number_opens_into_its_arithmetic(show: Show) -> None:
    page = opened(show, "served", "worked", "cat")
    for key, formula in {
        "scaled-1": "2.00 ÷ 2.00 = 1.00",
        "weight-0": "e^(0.00 − 1.00) ÷ Σ = 0.368 ÷ 2.368 = 0.155",
    }.items():
        page.locator(f"[data-opens={key}]").click()
        expect(page.locator(".regard-steps-opened .regard-formula")).to_contain_text(formula)
    page.locator("[data-opens=weighted-1]").click()
    page.get_by_role("button", name=re.compile("^weighted value of cat, number 1")).click()
    expect(page.locator(".regard-worked")).to_have_text("0.422 × 1.000 = 0.422")
    page.locator("[data-opens=sum-1]").click()
    page.get_by_role("button", name=re.compile("^output of cat, number 0")).click()
    expect(page.locator(".regard-worked")).to_contain_text("0.16 · 1.00 (The) + 0.42 · 1.00 (sat)")
    expect(page.locator(".regard-worked")).to_contain_text("= 0.578")


# Whether an element is on the screen below the header and the story, at least its beginning.
IN_SIGHT = """el => {
  const { top, bottom } = el.getBoundingClientRect();
  const story = document.querySelector('.regard-story').getBoundingClientRect();
  return top >= story.bottom - 1 && Math.min(bottom, top + 120) <= innerHeight;
}"""


def test_the_story_waits_for_the_reader_and_shows_what_it_explains(show: Show) -> None:
    page = opened(show, "served", "encoder", "lions", width=1366, height=768)
    page.get_by_role("button", name="Adjust", exact=True).click()
    line = page.locator(".regard-story-line li")
    assert line.all_text_contents()[:6] == ["+ position", "x · W_Q", "q · k", "÷ √d_k", "softmax", "Σ weight · v"]
    page.get_by_role("button", name="▶ Play").click()
    expect(line.nth(0)).to_have_attribute("aria-selected", "true")
    faded = page.locator("[data-stage-card=weight]")
    expect(faded).to_have_css("opacity", "0.12")
    page.wait_for_timeout(2500)
    expect(line.nth(0)).to_have_attribute("aria-selected", "true")  # nothing moves without the reader
    for place in range(1, line.count()):
        page.get_by_role("button", name="Next ›").click()
        expect(line.nth(place)).to_have_attribute("aria-selected", "true")
        stage = line.nth(place).get_attribute("data-stage-name")
        parts = {"origin": ".regard-origin", "after": ".regard-steps-after", "next": ".regard-steps-next"}
        explained = parts.get(stage or "", f"[data-stage-card={stage}]")
        page.wait_for_function(f"(at) => ({IN_SIGHT})(document.querySelector(at))", arg=explained)
    expect(line.last).to_have_text(re.compile("later layers|next token"))
    page.get_by_role("button", name="Show all").click()
    expect(page.locator("[data-stage]")).to_have_count(0)
    line.nth(2).click()  # a stage by itself
    expect(page.locator(".regard-story-said")).to_contain_text("q · k")
    line.nth(2).click()
    expect(page.locator("[data-stage]")).to_have_count(0)


def test_one_number_is_the_weight_of_one_word_in_every_step(show: Show, development: Any) -> None:
    page = opened(show, "served", "kids", "they", head=2)
    attention = development.subject("kids").attention(0)
    scores = np.asarray(attention.queries[2], np.float64)[10] @ np.asarray(attention.keys[2], np.float64).T
    weights = softmax(scores / np.sqrt(attention.queries.shape[-1]))
    for place in (int(np.argmax(weights)), 3):
        page.locator(f".regard-number-bars [data-key='{place}']").click(force=True)
        expect(page.locator(".regard-number-answer")).to_have_text(f"{weights[place]:.2f}")
        expect(page.locator("[data-stage-card=score] b")).to_have_text(f"{scores[place]:.2f}".replace("-", "−"))


@pytest.mark.parametrize("host", EACH_HOST[:2])
def test_matrices_can_be_written_for_lectures_that_multiply_by_the_transpose(
    show: Show, host: str, tmp_path: Path
) -> None:
    """x · Wᵀ: headings, shapes, the numbers that are shown and typed, and the export, which `regard check` reads."""
    page = opened(show, host, "uneven", "cat")
    page.get_by_role("radio", name="x · Wᵀ").check()
    expect(page.locator(".regard-story-line li").first).to_have_text("x · W_Qᵀ")
    expect(page.locator(".regard-matrix-edited", has_text="W_Q")).to_contain_text("W_Q: 2 × 3")
    expect(page.locator(".regard-origin-operator").last).to_contain_text("× W_Qᵀ (W 2 × 3)")
    entry = page.get_by_role("textbox", name="W q row 0, 2")  # one number of the first row of W, as it is written
    entry.fill("2")
    with page.expect_download() as waiting:
        save_as(page, "CSV")
    path = tmp_path / "steps.csv"
    waiting.value.save_as(path)
    assert "product,x W^T" in path.read_text(encoding="utf-8")
    verdicts = regard.teaching.check_notes(path).verdicts
    assert {verdict.kind for verdict in verdicts} == {"right"}
    assert {"query", "score", "weight", "output", "projected"} <= {verdict.step for verdict in verdicts}


def test_a_change_is_named_in_every_column_that_it_changes(show: Show) -> None:
    page = opened(show, "served", "worked", "cat")
    head = page.locator(".regard-steps-table thead th")
    slide(page, "Temperature", "0.3")
    assert head.all_text_contents()[-4:] == [
        "score/√d_k", "softmax at temperature 2.00", "softmax × v changed", "sum changed",
    ]  # fmt: skip
    slide(page, "Temperature", "0")
    slide(page, "Divide scores by", "1")
    assert head.all_text_contents()[-4:] == ["score/1.00", "softmax changed", "softmax × v changed", "sum changed"]
    page.get_by_role("button", name="Reset").click()
    assert head.all_text_contents()[-3:] == ["softmax", "softmax × v", "sum"]


@pytest.mark.parametrize("host", ["served", "blob"])
def test_a_silenced_head_reaches_the_next_token(show: Show, settle: Any, development: Any, host: str) -> None:
    from regard.heads.ablation_effects import silenced

    page = opened(show, host, "writer", "scared")
    settle(page)
    reading = development.subject("writer")
    place = [token.text for token in reading.tokens].index("scared")
    page.get_by_role("button", name="Silence head 2").click()
    expect(page.locator(".regard-steps-next")).to_contain_text("after layer 2")
    settle(page)
    model = silenced(reading.reader, [(0, 2)])
    changed = model.read(reading.text)
    logits = np.asarray(model.next_logits(np.asarray(changed.states[-1])[place][None]))[0].astype(np.float64)
    expected = np.sort(softmax(logits))[::-1]
    shown = page.locator(".regard-next-table tbody tr").evaluate_all("all => all.map((tr) => tr.cells[1].textContent)")
    assert numbers(shown[:6]) == pytest.approx(expected[:6].tolist(), abs=6e-4)
    for title in ("× W_O", "Result"):
        stage = page.locator(".regard-after-stage").filter(has=page.locator("strong", has_text=title))
        expect(stage).to_contain_text("changed: moved by")
    stage.get_by_role("button").click()
    after_block = np.asarray(changed.states[1])[place]
    assert opened_numbers(page, ".regard-after-stage") == pytest.approx(after_block.tolist(), abs=0.012)
    stage.get_by_role("button", name=re.compile("^Result, number 0:")).click()
    worked = stage.locator(".regard-worked").inner_text().replace("−", "-").replace("(", "").replace(")", "")
    one, other, total = (float(part) for part in re.split(r" \+ | = ", worked))
    assert one + other == pytest.approx(total, abs=2e-3) and total == pytest.approx(after_block[0], abs=2e-3)


@pytest.mark.parametrize("host", EACH_HOST)
def test_a_small_example_can_be_edited_beside_every_text(show: Show, host: str) -> None:
    page = opened(show, host, "kids")
    page.get_by_role("radio", name="A small example to edit").check()
    expect(page.locator(".regard-steps-table tbody tr")).to_have_count(3)
    assert column(page, "Word") == WORDS
    assert column(page, "softmax") == WEIGHTS["cat"]
    page.get_by_label("Word 1", exact=True).fill("dog")
    assert column(page, "Word") == ["The", "dog", "sat"]
    page.get_by_label("W O row 0, 0", exact=True).fill("2")
    stage = page.locator(".regard-after-stage").filter(has=page.locator("strong", has_text="× W_O"))
    assert numbers(stage.locator(".regard-vector span").all_text_contents())[0] == pytest.approx(2 * 0.58, abs=0.012)
    page.get_by_role("button", name="Add a word").click()
    page.get_by_label("Word 3", exact=True).fill("down")
    assert len(column(page, "softmax")) == 4
    scores = E[1] @ np.vstack([E, np.zeros(4)]).T
    assert numbers(column(page, "softmax")) == pytest.approx(softmax(scores / 2).tolist(), abs=0.006)
    page.get_by_role("button", name="Remove word 0").click()
    assert column(page, "Word") == ["dog", "sat", "down"]
    page.locator(".regard-steps-edited").get_by_role("button", name="Reset").click()
    assert column(page, "softmax") == WEIGHTS["cat"]
    page.get_by_role("radio", name="This text").check()
    expect(page.locator(".regard-steps-table tbody tr")).to_have_count(16)


def test_the_studio_follows_a_change_and_has_the_example(
    new_page: Callable[..., Page], small_studio: str, settle: Any
) -> None:
    page = new_page()
    page.goto(small_studio)
    settle(page)
    open_view(page, "One number")
    open_adjust(page)
    page.get_by_role("button", name="Silence head 1").click()
    expect(page.locator(".regard-steps-next")).to_contain_text("With this change in layer 0")
    expect(page.locator(".regard-next-table thead")).to_contain_text("before")
    expect(page).to_have_url(re.compile("steps_silenced=1"))
    page.reload()
    expect(page.locator(".regard-next-table thead")).to_contain_text("before")
    page.get_by_role("radio", name="A small example to edit").check()
    expect(page.locator(".regard-steps-table tbody tr")).to_have_count(3)
    page.get_by_label("Word 1", exact=True).fill("dog")
    assert column(page, "Word") == ["The", "dog", "sat"]
    expect(page).to_have_url(re.compile("steps_example=1"))
    page.reload()
    expect(page.get_by_role("radio", name="A small example to edit")).to_be_checked()

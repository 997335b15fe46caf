"""q = x · W wherever a person types or sees a matrix: one example through every host, every file back into check."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from regard.cli.app import app
from regard.layers import Linear, MultiHead
from regard.teaching.block import block_lesson
from regard.trace.named_steps import setup
from regard.viewer import frames, page
from regard.viewer.queries import Answers

from .viewer.page_in_node import ask_page

# Unequal sizes, of which no two matrices share a shape: a transposed one does not fit, or gives other numbers.
WORDS, WIDTH, HEADS, HEAD_DIM, VALUE_DIM, OUT = ("Action", "gets", "results"), 5, 2, 2, 3, 7
GENERATOR = np.random.default_rng(21)


def draw(*shape):
    return GENERATOR.integers(-3, 4, shape).astype(float)


E = draw(len(WORDS), WIDTH) / 8  # small, so that no weight is nearly 1
W = {
    "W_q": draw(WIDTH, HEADS * HEAD_DIM),
    "W_k": draw(WIDTH, HEADS * HEAD_DIM),
    "W_v": draw(WIDTH, HEADS * VALUE_DIM),
    "W_O": draw(HEADS * VALUE_DIM, OUT),
}
TYPED = {"words": WORDS, "embeddings": E.tolist(), "heads": HEADS} | {name: one.tolist() for name, one in W.items()}


def expected():
    """Every step with NumPy, (head, word, …)."""
    q, k, v = (np.stack(np.split(E @ W[name], HEADS, axis=1)) for name in ("W_q", "W_k", "W_v"))
    score = q @ k.swapaxes(1, 2)
    powers = np.exp(score / HEAD_DIM**0.5)
    weight = powers / powers.sum(-1, keepdims=True)
    output = weight @ v
    concatenated = np.concatenate(list(output), axis=1)
    return {
        "query": q, "key": k, "value": v, "score": score, "weight": weight, "output": output,
        "concatenated": concatenated, "projected": concatenated @ W["W_O"],
    }  # fmt: skip


STEPS = expected()


def run(*arguments):
    ended = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert ended.exit_code == 0, ended.output
    return ended.output


def assert_checked(path):
    """What `regard check` finds in a file: every number is right, and there are some."""
    report = run("check", path)
    assert re.search(r": [\d,]+ numbers: [\d,]+ right(, [\d,]+ rounded)?\.", report), report


def layer():
    w_q, w_k, w_v = (list(np.split(W[name], HEADS, axis=1)) for name in ("W_q", "W_k", "W_v"))
    return MultiHead.from_heads(w_q, w_k, w_v, W["W_O"])


@pytest.fixture(scope="module")
def trace():
    return layer().explain(E, words=WORDS)


@pytest.fixture
def typed(tmp_path):
    path = tmp_path / "typed.json"
    path.write_text(json.dumps(TYPED), encoding="utf-8")
    return path


def assert_same_steps(steps):
    for name, numbers in STEPS.items():
        np.testing.assert_allclose(np.asarray(steps[name], float), numbers, atol=1e-12, err_msg=name)


# The command line


def test_the_command_line_computes_x_times_w(typed, tmp_path):
    run("steps", "--example", typed, "--out", tmp_path / "steps.json")
    written = json.loads((tmp_path / "steps.json").read_text(encoding="utf-8"))
    assert_same_steps({step["name"]: step["array"] for step in written["steps"]})
    for name, matrix in W.items():
        np.testing.assert_array_equal(written[name], matrix)
    assert not [step["formula"] for step in written["steps"] if "ᵀ" in step["formula"]]


def test_options_beside_the_file_and_the_other_product_give_the_same_numbers(tmp_path):
    turned = {name: one.T.tolist() for name, one in W.items()}
    bare = {"embeddings": E.tolist(), **turned, "product": "x W^T"}
    (tmp_path / "turned.json").write_text(json.dumps(bare), encoding="utf-8")
    options = ("--example", tmp_path / "turned.json", "--heads", HEADS, "--out", tmp_path / "steps.json")
    run("steps", " ".join(WORDS), *options)
    written = json.loads((tmp_path / "steps.json").read_text(encoding="utf-8"))
    assert_same_steps({step["name"]: step["array"] for step in written["steps"]})
    assert written["product"] == "x W^T"  # exports follow the convention of the file
    np.testing.assert_array_equal(written["W_q"], W["W_q"].T)
    assert_checked(tmp_path / "steps.json")


@pytest.mark.parametrize("ending", ["json", "csv", "md"])
@pytest.mark.parametrize("options", [(), ("--mask", "causal"), ("--query", "gets"), ("--query", "gets", "--head", "1")])
def test_check_calls_right_what_steps_wrote(typed, tmp_path, ending, options):
    run("steps", "--example", typed, "--out", tmp_path / f"steps.{ending}", *options)
    assert_checked(tmp_path / f"steps.{ending}")


def test_figures_and_latex_show_the_matrices_as_typed(typed, tmp_path):
    names = ("steps.tex", "steps.svg", "steps.html")
    run("steps", "--example", typed, *(part for name in names for part in ("--out", tmp_path / name)))
    latex, svg, html = ((tmp_path / name).read_text(encoding="utf-8") for name in names)
    plain = re.sub(r"\\phantom\{\{-\}\}|\\,|[{}]", "", latex)
    for place, row in enumerate(W["W_O"], 1):
        numbers = r"\;".join(f"{number:.0f}" for number in row)
        assert f"{place} & $[{numbers}]$" in plain
    assert "W_O 6 × 7" in html.replace("<sub>O</sub>", "_O")
    for row, column in ((1, 3), (6, 7), (2, 5)):
        number = f"{W['W_O'][row - 1, column - 1]:.2f}".replace("-", "−")
        assert f"W_O, row {row}, column {column}: {number}" in svg, (row, column)


# Notebooks


def test_a_layer_takes_its_matrices_as_they_are_typed(trace):
    assert_same_steps(trace)
    np.testing.assert_allclose(np.asarray(layer()(E)), STEPS["projected"], atol=1e-12)
    for name, matrix in W.items():
        np.testing.assert_array_equal(setup(trace)[name], matrix)
    assert [trace.step(name).formula for name in ("query", "projected")] == [
        "q = x · W_q", "projected = concatenated · W_O",
    ]  # fmt: skip


def test_why_multiplies_x_with_a_column_of_w(trace):
    why = trace.why("query", query="gets", head=1, component=0)
    column = " ".join(f"{number:.0f}".replace("-", "−") for number in W["W_q"][:, HEAD_DIM])
    assert f"·[{column}]" in str(why)
    assert why.value == STEPS["query"][1, 1, 0] == sum(why.terms)
    assert str(trace.why("query", query="gets", head=1)).split(" = ")[0].endswith(" · W_q of head 1")


def test_a_linear_map_is_typed_and_shown_as_x_times_w():
    linear = Linear.from_matrix(W["W_v"])
    np.testing.assert_array_equal(linear(E), E @ W["W_v"])
    np.testing.assert_array_equal(linear.matrix, W["W_v"])


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_block_multiplies_by_w_o_and_does_not_transpose(norm_first):
    lesson = block_lesson(WORDS, width=6, norm_first=norm_first)
    trace = lesson.traces[0]
    np.testing.assert_allclose(trace["concatenated"] @ setup(trace)["W_O"], trace["projected"], atol=1e-12)
    assert "ᵀ" not in str(lesson) and "concatenated · W_O." in str(lesson)


# The page: what the studio, a notebook and a one-file page send, computed by the page's own modules


def computed_in_the_page(numbers, query, head, folder):
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node: apt-get install nodejs")
    path = folder / "numbers.json"
    path.write_text(json.dumps(numbers), encoding="utf-8")
    script = Path(__file__).with_name("small_example.js")
    command = [node, script, path, str(query), str(head)]
    ended = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.parametrize("host", ["server", "file", "typed"])
@pytest.mark.parametrize("head", range(HEADS))
def test_the_page_computes_x_times_w_and_check_calls_its_files_right(trace, tmp_path, host, head):
    if host == "server":
        numbers = frames.unpack(Answers(trace).answer("describe"))[0]["editable"]
    elif host == "file":
        numbers = ask_page(page.page(trace), [("describe", {})])[0][0]["editable"]
    else:  # as typed into the editor: a matrix per head
        split = {f"w_{letter}": [one.tolist() for one in np.split(W[f"W_{letter}"], HEADS, axis=1)] for letter in "qkv"}
        numbers = {"tokens": WORDS, "embedding": E.tolist(), **split, "w_o": W["W_O"].tolist()}
    shapes = [np.shape(numbers[name]) for name in ("w_q", "w_v", "w_o")]
    assert shapes == [(HEADS, WIDTH, HEAD_DIM), (HEADS, WIDTH, VALUE_DIM), (HEADS * VALUE_DIM, OUT)]
    made = computed_in_the_page(numbers, 1, head, tmp_path)
    for name, step in (("query", "query"), ("score", "score"), ("weight", "weight"), ("output", "output")):
        np.testing.assert_allclose(made[name], STEPS[step][head][1], atol=1e-12, err_msg=name)
    for name, step in (("keys", "key"), ("values", "value")):
        np.testing.assert_allclose(made[name], STEPS[step][head], atol=1e-12, err_msg=name)
    np.testing.assert_allclose(made["projected"], STEPS["projected"][1], atol=1e-12)
    (tmp_path / "page.csv").write_text(made["csv"], encoding="utf-8")
    assert_checked(tmp_path / "page.csv")
    for row in W["W_O"]:
        assert r"\;".join(f"{number:.0f}" for number in row) in made["latex"]

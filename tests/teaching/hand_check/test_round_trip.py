"""What `regard steps` writes, `regard check` finds right: every example, format, mask and number of heads."""

import json
import shutil
import subprocess
from itertools import product

import numpy as np
import pytest
from typer.testing import CliRunner

import regard
from regard import examples
from regard.cli.app import app
from regard.teaching.hand_check import check_notes

from ...rotation import rotated

ENDINGS = ["md", "csv", "json"]
WITH_WORDS = [name for name, one in examples.EXAMPLES.items() if one.kind in ("worked", "vectors", "sentence")]
PASSAGES = [name for name, one in examples.EXAMPLES.items() if one.kind == "passage"]
SETTINGS = {
    "plain": [],
    "heads": ["--heads", "2"],
    "causal": ["--mask", "causal"],
    "window": ["--mask", "causal", "--mask", "window:1", "--heads", "2"],
    "union": ["--mask", "first:1 | window:1"],
    "padding": ["--mask", "length:2"],
    "positions": ["--set", "positions=sinusoidal", "--heads", "2"],
}


def written(path, *arguments):
    finished = CliRunner().invoke(app, ["steps", *arguments, "--out", str(path)], catch_exceptions=False)
    assert finished.exit_code == 0, finished.output
    return check_notes(path)


def assert_right(check):
    assert check.ok, [(one.what, one.given, one.kind, one.because) for one in check.slips][:5]
    assert {verdict.kind for verdict in check.verdicts} <= {"right", "rounded"}


CASES = [(name, setting) for name in WITH_WORDS for setting in SETTINGS if setting != "positions"] + [
    (name, "window") for name in PASSAGES
]
# The vectors of four-words have 3 numbers, which 2 heads cannot share.
CASES += [("cat-sat", "positions"), ("kids", "positions")]
CASES = [case for case in CASES if case[0] != "four-words" or "--heads" not in SETTINGS[case[1]]]


@pytest.mark.parametrize(("case", "ending"), rotated(CASES, ENDINGS))
def test_steps_of_every_example_are_right(tmp_path, case, ending):
    name, setting = case
    options = ["--query", "2"] if ending != "md" and name in PASSAGES else []
    assert_right(written(tmp_path / f"steps.{ending}", "--example", name, *SETTINGS[setting], *options))


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("options", [[], ["--query", "chat"], ["--heads", "3"], ["--mask", "length:2"]])
def test_steps_of_cross_attention_are_right(tmp_path, options, ending):
    check = written(tmp_path / f"steps.{ending}", "le chat noir", "--context", "The cat sat , the end", *options)
    assert_right(check)
    assert any("→ the" in verdict.what for verdict in check.verdicts)


SENTENCES = [
    "the cat saw the dog and the cat",
    "sum of sums : Word | q _ * C# ** $5 `x` \\ … ?",
    "Ünïcödé 日本 👩‍👩‍👧 שלום",
    "one",
    "asks asks asks, head 1",
    "table table 1 2 W_q",
]
MORE = [[], ["--heads", "2", "--mask", "causal", "--set", "seed=5"], ["--query", "-1"]]


@pytest.mark.parametrize(("case", "ending"), rotated(product(MORE, SENTENCES), ENDINGS))
def test_steps_of_hard_sentences_are_right(tmp_path, case, ending):
    options, sentence = case
    assert_right(written(tmp_path / f"steps.{ending}", sentence, *options))


def a_file(tmp_path, content):
    path = tmp_path / "vectors.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


KINDS = ["matrices", "transposed", "cross", "parts", "parts of heads", "divisor", "mask"]


@pytest.mark.parametrize(("kind", "ending"), rotated(KINDS, ENDINGS))
def test_steps_of_files_are_right_with_arbitrary_digits(tmp_path, kind, ending):
    draw = np.random.default_rng(3).normal
    embeddings = {word: draw(size=5).tolist() for word in ("The", "cat", "sat")}
    w_q, w_k, w_v = draw(size=(5, 6)), draw(size=(5, 6)), draw(size=(5, 4))
    weights = {"W_q": w_q.tolist(), "W_k": w_k.tolist(), "W_v": w_v.tolist(), "W_O": draw(size=(4, 3)).tolist()}
    parts = {name: draw(size=(3, 4)).tolist() for name in ("q", "k", "v")}
    content = {
        "matrices": {"embeddings": embeddings, **weights, "heads": 2},
        "transposed": {
            "embeddings": embeddings,
            "product": "x W^T",
            **{name: np.transpose(matrix).tolist() for name, matrix in weights.items()},
        },
        "cross": {"embeddings": embeddings, "context": {"le": [0.123, 4], "chat": [1, 2]}, "W_q": w_q.tolist(),
                  "W_k": w_k[:2].tolist(), "W_v": w_v[:2].tolist()},
        "parts": {"words": ["The", "cat", "sat"], **parts},
        "parts of heads": {"words": ["The", "cat", "sat"], "heads": 2, "W_O": draw(size=(4, 2)).tolist(), **parts},
        "divisor": {"embeddings": embeddings, "divisor": 3, **weights},
        "mask": {"embeddings": embeddings, "mask": [[1, 0, 1], [0, 0, 0], [1, 1, 0]]},
    }[kind]  # fmt: skip
    check = written(tmp_path / f"steps.{ending}", "--example", a_file(tmp_path, content))
    assert_right(check)
    assert ("projected" in {verdict.step for verdict in check.verdicts}) == ("W_O" in content)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_changed_number_in_the_file_is_found(tmp_path, ending):
    path = tmp_path / f"steps.{ending}"
    assert_right(written(path, "--example", "cat-sat", "--heads", "2", "--mask", "causal"))
    text = path.read_text(encoding="utf-8")
    weight = {"md": "0.67", "csv": "0.6697", "json": "0.6697"}[ending]
    assert weight in text
    path.write_text(text.replace(weight, "0.76", 1), encoding="utf-8")
    assert check_notes(path).of_kind("wrong")


@pytest.mark.slow
def test_one_query_of_many_words_is_checked_in_linear_memory(tmp_path):
    """The n × n scores of the other queries are not computed."""
    text = " ".join(f"word{place % 211}" for place in range(2100))
    assert_right(written(tmp_path / "steps.json", text, "--query", "1500", "--mask", "causal"))


@pytest.mark.filterwarnings("error")
def test_the_table_of_one_query_is_checked_without_the_queries_of_the_others(tmp_path):
    """As a page saves it: masked keys are blank, the mask stands beside them, vectors are in one cell."""
    E = np.random.default_rng(3).normal(size=(3, 2)).round(7)
    trace = regard.Attention(E, E, mask=regard.causal()).explain(E)
    weights, output = trace["weight"][0, 1], trace["output"][0, 1]
    rows = ["mask,a,b,c", "b,1,1,0", "", "Word,q,k,score,softmax,v,sum"]
    for place, word in enumerate("abc"):
        vector = " ".join(map(repr, E[place].tolist()))
        own = place == 1
        weight = repr(float(weights[place])) if place < 2 else ""
        total = " ".join(map(repr, output.tolist())) if own else ""
        score = repr(float(trace["score"][0, 1, place]))
        rows.append(f"{word},{vector if own else ''},{vector},{score},{weight},{vector},{total}")
    path = tmp_path / "page.csv"
    path.write_text("\n".join(rows), encoding="utf-8")
    verdicts = check_notes(path).verdicts
    assert {verdict.kind for verdict in verdicts} == {"right"}
    assert {"score", "weight", "output"} <= {verdict.step for verdict in verdicts}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("soffice") is None, reason="LibreOffice is not installed")
def test_spreadsheets_that_libreoffice_has_computed_are_right(tmp_path):
    settings = [[], ["--heads", "2"], ["--mask", "causal"], ["--set", "positions=sinusoidal"], ["--context", "le chat"]]
    files = []
    for number, options in enumerate(settings):
        for convention in ("x W", "x W^T"):
            files.append(tmp_path / f"steps-{number}-{len(convention)}.xlsx")
            arguments = ["steps", "The cat sat", *options, "--set", f"product={convention}", "--out", str(files[-1])]
            assert CliRunner().invoke(app, arguments).exit_code == 0
    command = ["soffice", f"-env:UserInstallation=file://{tmp_path}/profile", "--headless", "--convert-to", "xlsx"]
    command += ["--outdir", str(tmp_path / "computed"), *map(str, files)]
    subprocess.run(command, check=True, capture_output=True)
    for file in files:
        check = check_notes(tmp_path / "computed" / file.name)
        assert_right(check)
        assert len(check.verdicts) > 40


def test_a_caption_names_the_matrix_below_it(tmp_path):
    rows = ["x", ",1,2", "a,1,0", "b,0,2", "", '"score = q · k"', ",a,b", "a,1,0", "b,0,3"]
    (tmp_path / "notes.csv").write_text("\n".join(rows), encoding="utf-8")
    kinds = {verdict.what: verdict.kind for verdict in check_notes(tmp_path / "notes.csv").verdicts}
    assert kinds.pop("score b → b") == "wrong" and set(kinds.values()) == {"right"}

"""Notes from files, and errors for files that are not notes."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from regard.attention import Attention
from regard.cli.app import app
from regard.errors import RegardError
from regard.output import table_formats
from regard.tables import printed_number
from regard.teaching.hand_check import check_notes, worked_example

FACTS = """\
step,query,key,numbers
embedding,The,,1 0 1 0
embedding,cat,,0 1 0 1
embedding,sat,,1 1 1 1
W,,,1 0 0; 0 1 0; 0 0 1
score,cat,,0 2 2
weight,The,cat,0.15
output,The,,0.84 ? 0.84 0.58
"""
MATRICES = """\
# My notes

| E | 1 | 2 | 3 | 4 |
|---|---|---|---|---|
| The | 1 | 0 | 1 | 0 |
| cat | 0 | 1 | 0 | 1 |
| sat | 1 | 1 | 1 | 1 |

| weights | The | cat | sat |
|---|---|---|---|
| The | 0.42 | 0.15 | **0.42** |
| sat | | | $0.58$ |

| output | |
|---|---|
| The | [0.84, 0.57, 0.84, 0.57] |
"""


@pytest.fixture
def saved(tmp_path):
    def save(name, text):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return save


def kinds(check):
    return [(verdict.what, verdict.kind) for verdict in check.verdicts]


def test_json_file_and_dictionary_say_the_same(saved):
    path = saved("notes.json", json.dumps(worked_example()))
    assert kinds(check_notes(path)) == kinds(check_notes(str(path))) == kinds(check_notes(worked_example()))


def test_json_keeps_decimals_as_written(saved):
    check = check_notes(saved("notes.json", '{"q": [[0.501]], "k": [[1]], "scores": [[0.50]]}'))
    assert [(verdict.given, verdict.kind) for verdict in check.verdicts] == [("0.50", "rounded")]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv_with_one_line_per_fact(saved, delimiter):
    text = FACTS.replace("1 0 0; 0 1 0; 0 0 1", "1 0 0 / 0 1 0 / 0 0 1").replace(",", delimiter)
    check = check_notes(saved("notes.csv", "\ufeff" + text))
    assert [kind for _, kind in kinds(check)] == ["shape", *["right"] * 3, "cut", *["rounded"] * 3, "missing"]


def test_markdown_matrices(saved):
    check = check_notes(saved("notes.md", MATRICES))
    assert [kind for _, kind in kinds(check)] == [
        "rounded", "cut", "rounded", "rounded", "rounded", "carried on", "rounded", "carried on", "missing", "missing"
    ]  # fmt: skip


@pytest.mark.parametrize("words", [("The", "cat", "sat"), ("the", "cat", "the"), ("=x", "-cat", "@y")])
def test_tables_that_regard_prints_are_notes(saved, words):
    vectors = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]]
    trace = Attention(vectors, vectors).explain(vectors, words=words)
    for name, text in (
        ("one.md", table_formats.to_markdown(trace.table(1))),
        ("one.csv", table_formats.to_csv(trace.table(1))),
    ):
        check = check_notes(saved(name, text))
        assert check.ok
        assert len(check.verdicts) == 3 * 3 + 3 * 4 + 4
    pages = {"all.md": "\n".join(map(table_formats.to_markdown, trace.tables()))}
    if len(set(words)) == 3:  # titles of CSV tables do not tell one "the" from the other
        pages["all.csv"] = table_formats.to_csv(trace.tables())
    for name, text in pages.items():
        check = check_notes(saved(name, text))
        assert check.ok
        assert len(check.verdicts) == 3 * 25


def test_the_sum_may_have_its_own_row(saved):
    text = "cat:\n\n|Word|E|softmax × v|sum|\n|-|-|-|-|\n|The|1 0|||\n|cat|0 1|||\n|sum|||0.34 0.67|\n"
    with pytest.raises(RegardError, match="sum"):  # no vector for the word "sum"
        check_notes(saved("notes.md", text.replace("|sum|||", "|sum|1||")))
    check = check_notes(saved("notes.md", text))
    assert [what for what, kind in kinds(check) if kind != "missing"] == ["output cat [0]", "output cat [1]"]
    missing = [verdict.what for verdict in check.of_kind("missing")]
    assert missing == ["weighted value cat → The", "weighted value cat → cat"]


START = '{"embeddings": [[1, 0], [0, 1]], "scores": [[%s, 0], [0, 1]]}'


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "", "a.json is empty"),
        ("a.csv", " \n ", "a.csv is empty"),
        ("a.md", "# Only words\n", "holds no table"),
        ("a.json", "{}", "is empty"),
        ("a.json", '{"words": ["a",]}', "is not JSON"),
        ("a.json", '{"words": ["a"]', "line 1, column"),
        ("a.json", "[1, 2]", "holds a list"),
        ("a.json", "[" * 100_000, "too deeply|not JSON"),
        ("a.json", START % "NaN", "not a finite number"),
        ("a.json", START % '"NaN"', "not a finite number"),
        ("a.json", START % "1e999", "not a finite number"),
        ("a.json", START % '"1.2,42"', "is not a number"),
        ("a.json", START % '"many"', "is not a number"),
        ("a.json", START % "true", "is not a number"),
        ("a.json", '{"embeddings": [[1, 0], [0]], "scores": [[1]]}', "unequal length"),
        (
            "a.json",
            '{"embeddings": {"a": [1, 0], "b": [0, 1], "c": [1], "d": [1, 1]}, "scores": [[1]]}',
            "unequal length: 'a' has 2 numbers, 'c' has 1[.]$",
        ),
        ("a.json", '{"embeddings": [[1, NaN]], "scores": [[1]]}', "not a finite number"),
        ("a.json", '{"embeddings": [[1, null]], "scores": [[1]]}', "is not a number"),
        ("a.json", '{"embeddings": 3, "scores": [[1]]}', "which words|one vector for each word"),
        ("a.json", '{"embeddings": [[1]]}', "calculated by hand"),
        ("a.json", '{"scoers": [[1]]}', "Did you mean 'scores'"),
        ("a.json", '{"scores": [[1]], "score": [[1]]}', "given twice"),
        ("a.json", '{"scores": {"a": 1, "a": 2}}', "given twice"),
        ("a.json", '{"embeddings": {"a": [1]}, "scores": {"b": [1]}}', "not among the words"),
        ("a.json", '{"q": [[1, 2]], "k": [[1]], "scores": [[1]]}', "`k` has head_dim 1, `q` has 2"),
        ("a.json", '{"embeddings": [[1]], "W_q": [[1], [1, 2]], "scores": [[1]]}', "`W_q` has rows of unequal length"),
        (
            "a.json",
            '{"embeddings": [[1, 0]], "positions": [[1]], "scores": [[1]]}',
            "`positions` have 1 number per word, `embeddings` have 2",
        ),
        ("a.json", '{"q": [[1]], "k": [[1]], "W": "I", "scores": [[1]]}', "without embeddings"),
        ("a.json", '{"embeddings": [[1]], "divisor": 0, "scores": [[1]]}', "positive number"),
        ("a.json", '{"embeddings": [[1]], "product": "W x", "scores": [[1]]}', "`product` is 'W x'"),
        ("a.csv", FACTS.replace("1 0 1 0", '"1,0"'), "has a decimal comma, or is two numbers"),
        ("a.csv", FACTS.replace("0.15", "0,15"), "5 cells for 4 headings"),
        ("a.csv", FACTS.replace("cat,,0 2 2", 'cat,,"0 2 2'), "not CSV"),
        ("a.md", "|Word|E|score|\n|-|-|-|\n|a|1|2|\n|b|1|2|\n", "which query"),
        ("a.md", "||\n|-|\n|x|\n", "holds no table"),
        ("a.json", b"\xff\xfe\x00", "not UTF-8 text"),
        ("a.txt", "1", "holds no number"),
        ("a.docx", "1", "ends in '.docx'"),
    ],
)
def test_files_that_are_not_notes_raise_a_clear_error(saved, name, text, message):
    with pytest.raises(RegardError, match=message):
        check_notes(saved(name, text))


def test_a_missing_file_is_named(tmp_path):
    for name in ("none.json", "none"):
        with pytest.raises(RegardError, match="There is no file"):
            check_notes(tmp_path / name)
    with pytest.raises(RegardError, match="is a folder"):
        check_notes(tmp_path)


@pytest.mark.parametrize("seed", range(6))
def test_tables_with_rounded_vectors_alone_are_right(saved, seed):
    """q, k and v as printed are rounded: scores computed from the exact ones agree within that rounding."""
    draw = np.random.default_rng(seed).normal
    trace = Attention(draw(size=(4, 3)), draw(size=(4, 3))).explain(draw(size=(4, 2)), words=["a", "b", "c", "d"])
    text = "\n".join(map(table_formats.to_markdown, trace.tables()))
    check = check_notes(saved("steps.md", text))
    assert check.ok, check.slips
    score = printed_number(trace["score"][0, 0, 0], 2)
    changed = check_notes(saved("steps.md", text.replace(f" {score} |", " 9.99 |", 1)))
    assert [verdict.what for verdict in changed.of_kind("wrong")] == ["score a → a"]


def test_both_conventions_of_w_give_the_same_steps(tmp_path):
    weights = {"W_q": [[1, 2, 3], [4, 5, 6]], "W_k": [[1, 0, 1], [0, 1, 1]], "W_v": [[2, 1], [0, 3]]}
    other = {name: np.transpose(matrix).tolist() for name, matrix in weights.items()}
    notes = {"embeddings": {"a": [1, 2], "b": [0, 1]}, "q": {"a": [9, 12, 15]}}
    assert check_notes(notes | weights).ok
    assert check_notes(notes | other | {"product": "x W^T"}).ok
    assert check_notes(notes | weights | {"product": "x W^T"}).of_kind("shape")
    shown = []
    for content in (weights, other | {"product": "x W^T"}):
        path = tmp_path / "vectors.json"
        path.write_text(json.dumps(notes | content))
        shown.append(json.loads(CliRunner().invoke(app, ["steps", "--example", str(path), "--show", "json"]).stdout))
    assert [step["array"] for step in shown[0]["steps"]] == [step["array"] for step in shown[1]["steps"]]
    assert shown[0]["W_q"] == np.transpose(shown[1]["W_q"]).tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert [steps["steps"][1]["formula"] for steps in shown] == ["q = x · W_q", "q = x · W_qᵀ"]
    output = CliRunner().invoke(app, ["steps", "--example", str(path)]).stdout
    assert "q = x · W_qᵀ" in output and "W_q 3 × 2" in output


@pytest.mark.parametrize("ending", ["md", "csv", "json"])
@pytest.mark.parametrize("options", [[], ["--heads", "2"], ["--context", "one two"]])
def test_what_steps_write_in_the_other_convention_is_right(tmp_path, ending, options):
    path = tmp_path / f"steps.{ending}"
    arguments = ["steps", "The cat sat", "--set", "product=x W^T", "--out", str(path), *options]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    check = check_notes(path)
    assert check.ok and len(check.verdicts) > 20

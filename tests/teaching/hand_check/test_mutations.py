"""Any notes give a check or a RegardError, never another exception."""

import json
import random

import pytest
from typer.testing import CliRunner

from regard.cli.app import app
from regard.errors import RegardError
from regard.teaching.hand_check import check_notes, worked_example

ODD: list[object] = [
    None, True, False, 0, 1, -1, 10**400, 1e308, -1e308, 1e-320, float("nan"), float("inf"), "", "I", "x", "−∞", "NaN",
    "1e99999999999999999999", "0,5", "\ud800", "🦁", "the:2", "the (99999999999999999999)", "head 9", [], {}, [[]], [1],
    {"The": 1}, {"\ud800": [1]}, [[1, 2], [3]], "causal", "window:99999999999999999999", "causal & ", "√d_k", "x W^T",
]  # fmt: skip
NAMES = [
    "words", "query words", "context words", "heads", "mask", "divisor", "product", "W", "W_q", "W_k", "W_v", "W_O",
    "embeddings", "context", "q", "k", "v", "scores", "scaled", "masked", "weights", "weighted values", "outputs",
    "concatenated", "projected", "steps", "first_query", "query_words", "title",
]  # fmt: skip


def mutated(part, draw, depth=0):
    """The same with a few parts replaced, removed, doubled or moved a level."""
    if draw.random() < 0.06 or depth > 6:
        return draw.choice(ODD)
    if isinstance(part, dict):
        items = [(name, mutated(one, draw, depth + 1)) for name, one in part.items() if draw.random() > 0.05]
        if draw.random() < 0.1:
            items.append((draw.choice([*NAMES, "\ud800", "dog"]), draw.choice([*ODD, part])))
        return dict(items)
    if isinstance(part, list):
        parts = [mutated(one, draw, depth + 1) for one in part if draw.random() > 0.04]
        return parts * 2 if draw.random() < 0.02 else [parts] if draw.random() < 0.02 else parts
    return part


def a_start(draw):
    notes = worked_example()
    if draw.random() < 0.5:
        notes = {name: notes[name] for name in ("words", "embeddings", "scores", "weights")}
        notes |= {"heads": draw.choice([1, 2, 4]), "mask": draw.choice(["causal", [[1, 0, 0], [1, 1, 0], [1, 1, 1]]])}
        notes |= {"W_O": [[1, 0], [0, 1], [1, 1], [0, 0]], "projected": {"cat": [1, 2]}}
    elif draw.random() < 0.3:
        notes |= {"q": notes.pop("embeddings"), "k": [[1, 0, 1, 0]] * 3, "v": [[1, 2]] * 3}
        notes.pop("W")
    if draw.random() < 0.2:
        array = [[[1.0, 2.0], [3.0, 4.0]]]
        notes = {"words": ["a", "b"], "query_words": ["b"], "first_query": 1, "steps": [
            {"name": "query", "array": [[[1, 2]]]}, {"name": "key", "array": array}, {"name": "value", "array": array},
            {"name": "score", "array": [[[5, 11]]]}]}  # fmt: skip
    return notes


def judged(notes):
    try:
        check = check_notes(notes)
    except RegardError:
        pass
    else:
        assert str(check)
        assert check.table().rows is not None


@pytest.mark.parametrize("seed", range(8))
def test_mutated_dictionaries_never_give_a_traceback(seed):
    draw = random.Random(seed)
    for _ in range(400):
        judged(mutated(a_start(draw), draw))


PAGES = """**Settings**

| Setting | value |
|---|---|
| heads | 1 |
| mask | causal |

| Word | x |
|---|---|
| The | [1 0] |
| the | [0 1] |

| Row | W_q | W_k |
|---|---|---|
| 1 | [1 0] | [0 1] |
| 2 | [0 1] | [1 0] |

**Query the: d_k = 2, √d_k = 1.41**

| Word | q | k | score | masked | softmax | softmax × v | sum |
|---|---|---|---|---|---|---|---|
| The | | [0 1] | 1 | 0.71 | 0.67 | [0.67 0] | |
| the | [0 1] | [1 0] | 0 | −∞ | 0.33 | [0 0.33] | [0.67 0.33] |

| weights, head 0 | The | the |
|---|---|---|
| The | 1 | 0 |

| Step | vector |
|---|---|
| concatenated | [1 2] |
"""
FACTS = "step,head,query,key,numbers\nembedding,,The,,1 0\nembedding,,cat,,0 1\nW,,,,1 0; 0 1\nscore,0,cat,The,0\n"
TOKENS = ["|", "\n", ",", "−∞", "head 7", " asks", ":", "0,5", "1e999999999", "W_q", "score", "The", "I", "[", "table"]


@pytest.mark.parametrize("ending", ["md", "csv", "json"])
@pytest.mark.parametrize("seed", range(3))
def test_mutated_files_never_give_a_traceback(tmp_path, seed, ending):
    draw = random.Random(seed)
    text = {"md": PAGES, "csv": FACTS, "json": json.dumps(worked_example())}[ending]
    path = tmp_path / f"notes.{ending}"
    for _ in range(150):
        characters = list(text)
        for _ in range(draw.randint(1, 6)):
            at = draw.randrange(len(characters))
            characters[at : at + draw.randint(0, 4)] = draw.choice([*TOKENS, "", chr(draw.randrange(32, 400))])
        path.write_text("".join(characters), encoding="utf-8")
        judged(path)


@pytest.mark.parametrize("seed", range(3))
def test_mutated_embeddings_never_give_a_traceback(tmp_path, seed):
    draw = random.Random(seed)
    path = tmp_path / "vectors.json"
    for _ in range(60):
        path.write_text(json.dumps(mutated(a_start(draw), draw)), encoding="utf-8")
        show = draw.choice(["json", "table"])
        finished = CliRunner().invoke(app, ["steps", "--example", str(path), "--show", show])
        assert finished.exception is None or isinstance(finished.exception, SystemExit), finished.exception
        assert finished.exit_code in (0, 2)


@pytest.mark.parametrize("notes", [5, None, 2.5, b"notes.md", ["notes.md"], object()])
def test_other_types_than_notes_raise_a_clear_error(notes):
    with pytest.raises(RegardError, match=r"expected the path of a \.json, \.csv or \.md file"):
        check_notes(notes)


@pytest.mark.parametrize("number", ["1e99999999999999999999", "1e400", "-1e400", "1e999999"])
def test_numbers_that_overflow_raise_a_clear_error(tmp_path, number):
    path = tmp_path / "notes.json"
    path.write_text(f'{{"embeddings": [[1, 0], [0, 1]], "scores": [[{number}, 0], [0, 1]]}}', encoding="utf-8")
    with pytest.raises(RegardError, match="not a finite number"):
        check_notes(path)


def test_lone_surrogates_are_ordinary_words(tmp_path):
    path = tmp_path / "notes.json"
    path.write_text('{"embeddings": {"\\ud800": [1, 0], "b": [0, 1]}, "scores": {"\\ud800": [1, 5]}}', encoding="utf-8")
    checked = CliRunner().invoke(app, ["check", str(path)])
    assert checked.exit_code == 1
    for show in ("table", "markdown", "csv", "json", "latex", "html", "svg"):
        for arguments in (["--example", str(path)], ["a\ud800 b"], ["a b", "--context", "\udcff c"]):
            finished = CliRunner().invoke(app, ["steps", *arguments, "--show", show])
            assert finished.exit_code == 0, (show, arguments, finished.exception)
    for command in (
        ["steps", "a b", "--query", "\ud800"],
        ["steps", "--example", "\ud800.json"],
        ["steps", "a b", "--mask", "\ud800"],
        ["steps", "--example", "\ud800"],
        ["check", "\ud800.md"],
    ):
        assert CliRunner().invoke(app, command).exit_code == 2, command

"""`regard attribute` and `regard recipe`: every format, and refusals in a sentence."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from regard.cli.app import app

from .cases import TEXT


def call(*arguments: str) -> Any:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, [*arguments], catch_exceptions=False)


def said(*arguments: str) -> str:
    finished = call(*arguments)
    assert finished.exit_code == 0, finished.output
    return str(finished.stdout)


def refused(*arguments: str) -> str:
    finished = call(*arguments)
    assert finished.exit_code == 2 and "Traceback" not in finished.output, finished.output
    return str(finished.stderr)


@pytest.fixture
def path(folders: Any) -> str:
    return str(folders("llama").folder)


@pytest.mark.parametrize(
    "arguments",
    [
        ("attribute", "lens", TEXT, "--target", "dogs"),
        ("attribute", "logit", TEXT, "--toward", "cat", "--against", "mat"),
        ("attribute", "weights"),
        ("attribute", "project", "1.2", TEXT),
        ("recipe", "sinks", f"{TEXT}\nthe cat sat on a mat"),
        ("recipe", "edge", TEXT, "it", "mat"),
        ("recipe", "patch", TEXT, TEXT.replace("cat", "dog"), "mat", "a"),
        ("recipe", "patch-heads", TEXT, TEXT.replace("cat", "dog"), "mat", "a"),
        ("recipe", "patch-heads", TEXT, TEXT.replace("cat", "dog")),
    ],
    ids=lambda arguments: arguments[1],
)
def test_every_command_prints_and_writes_tables_and_figures(
    arguments: tuple[str, ...], path: str, tmp_path: Path
) -> None:
    model = ("--model", path)
    assert len(said(*arguments, *model, "--full").splitlines()) > 5
    names = [str(tmp_path / f"a{ending}") for ending in (".csv", ".svg", ".html", ".parquet", ".json")]
    said(*arguments, *model, *(part for name in names for part in ("--out", name)))
    rows = list(csv.reader(Path(names[0]).read_text(encoding="utf-8").splitlines()))
    assert len(rows) > 3 and len({len(row) for row in rows if row[0] == rows[1][0]}) == 1
    assert "<svg" in Path(names[1]).read_text(encoding="utf-8") and "<svg" in Path(names[2]).read_text(encoding="utf-8")


def test_models_of_transformers_are_attributed_too(path: str) -> None:
    own, watched = (
        said("attribute", "logit", TEXT, "--toward", "cat", "--model", name) for name in (path, f"hf:{path}")
    )
    assert own.replace(path, "") == watched.replace(path, "")
    assert "computes itself" in refused("attribute", "weights", "--model", f"hf:{path}")


def test_refusals(path: str) -> None:
    assert "expected layer.head" in refused("attribute", "project", "2", TEXT, "--model", path)
    assert "give both" in refused("attribute", "weights", "1.2", "--model", path)
    assert "a next token is one" in refused("attribute", "logit", TEXT, "--toward", "cat mat", "--model", path)
    assert "induction" in refused("recipe", "question", "inductions")
    assert "single tokens" in refused("recipe", "question", "pronouns", "--model", path)
    assert "No induction head" in refused("recipe", "circuit", "--model", path, "--prompts", "3")


def test_one_token_for_patched_heads_is_refused(path: str) -> None:
    assert "Give both tokens" in refused("recipe", "patch-heads", TEXT, TEXT, "mat", "--model", path)

"""Commands in an environment with only what `pip install regard` installs."""

import sys

import pytest
from typer.testing import CliRunner

from regard.cli.app import app

EXTRAS = (
    "anywidget", "dask", "distributed", "gguf", "openpyxl", "pptx", "pyarrow", "starlette", "torch", "transformers",
    "typst", "uvicorn",
)  # fmt: skip
SENTENCE = "The cat sat"


@pytest.mark.parametrize(
    ("command", "packages"),
    [
        (["steps", SENTENCE, "--out", "steps.pdf"], "typst"),
        (["steps", SENTENCE, "--out", "steps.xlsx"], "openpyxl"),
        (["see", SENTENCE, "--model", "hf:folder"], "torch transformers"),
        (["slides", SENTENCE, "--part", "table", "--out", "deck.pptx"], "python-pptx typst"),
        (["slides", SENTENCE, "--part", "table", "--out", "deck.pdf"], "typst"),
        (["studio", "--no-browser"], "starlette uvicorn"),
        (["exercise", "table", "--count", "2", "--out", "sheets"], "openpyxl typst"),
        (["check", "answers.xlsx"], "openpyxl"),
        (["heads", "corpus", "corpus.txt", "--out", "atlas"], "pyarrow"),
        (["train", "lookup", "--out", "run"], "torch"),
        (["compare", "lookup"], "torch"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_a_missing_package_is_named_before_anything_is_written(command, packages, tmp_path, monkeypatch):
    for name in EXTRAS:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.chdir(tmp_path)
    given = {"answers.xlsx", "corpus.txt"}
    for name in given:
        (tmp_path / name).write_text("The cat sat on the mat.")
    finished = CliRunner().invoke(app, command)
    assert finished.exit_code == 2, finished.output
    assert finished.stderr.splitlines()[1].endswith(f" -m pip install {packages}")
    assert {path.name for path in tmp_path.iterdir()} == given

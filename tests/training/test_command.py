"""`regard train` on the command line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from regard.cli.app import app
from regard.cli.training import BUSY_SPINS, library

pytest.importorskip("torch")

SMALL = ("--layers", "1", "--heads", "2", "--width", "8", "--steps", "20", "--set", "batch=2")


@pytest.fixture(autouse=True)
def threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command limits the threads of its process only where the environment does not say how many."""
    monkeypatch.setenv("REGARD_THREADS", "1")


def call(*arguments: str) -> Any:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, [*arguments], catch_exceptions=False)


def refused(*arguments: str) -> str:
    finished = call("train", *arguments)
    assert finished.exit_code == 2, finished.output
    assert "Traceback" not in finished.stderr
    return str(finished.stderr)


def test_a_trained_model_is_a_model_like_any_other(tmp_path: Path) -> None:
    out = str(tmp_path / "copy")
    finished = call("train", "copy", *SMALL, "--set", "length=6,vocabulary=6", "--out", out)
    assert finished.exit_code == 0, finished.output
    assert "Step 20 of 20" in finished.stderr and "accuracy" in finished.stderr
    assert "training.html" in finished.stdout and "20 steps are too few to learn this task" in finished.stdout
    assert (tmp_path / "copy" / "training.html").stat().st_size > 10_000
    seen = call("see", "--model", out, "a b c")
    assert seen.exit_code == 0 and "attends" in seen.stdout, seen.output
    again = call("train", "copy", *SMALL, "--set", "length=6,vocabulary=6", "--out", out)
    assert again.exit_code == 0, again.output  # finished already: nothing is trained again


def test_a_checkpoint_of_another_shape_is_refused(tmp_path: Path) -> None:
    out = str(tmp_path / "run")
    task = ("copy", "--set", "length=6,vocabulary=6", "--out", out)
    assert call("train", *task, *SMALL).exit_code == 0
    before = (tmp_path / "run" / "run.safetensors").read_bytes()
    assert "other" in refused(*task, *SMALL, "--seed", "1")
    assert "other" in refused(
        *task, "--layers", "2", "--heads", "2", "--width", "8", "--steps", "20", "--set", "batch=2"
    )
    assert (tmp_path / "run" / "run.safetensors").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("recall",), "lookup, relations"),
        (("copy", "--heads", "3", "--width", "8"), "a multiple of `heads`, 3"),
        (("copy", "--set", "batch=6,accumulate=4"), "a divisor of `batch`, 6"),
        (("copy", "--set", "rate=-1"), "`rate` is -1"),
        (("text",), "Give the text file"),
        (("missing.txt",), "missing.txt"),
        (("relations", "--sentence", "The zebras left."), "'zebras'"),
    ],
)
def test_bad_input_gets_one_clear_sentence(tmp_path: Path, arguments: tuple[str, ...], sentence: str) -> None:
    found = refused(*arguments, "--out", str(tmp_path / "run"))
    assert sentence in found
    assert not (tmp_path / "run" / "run.safetensors").exists()


@pytest.mark.parametrize("content", [b"", b"\x00\x01\xff\xfe" * 400, b"too short"])
def test_a_text_that_cannot_be_learned_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "input.txt"
    file.write_bytes(content)
    assert "input.txt" in refused(str(file), "--out", str(tmp_path / "run"))


def test_threads_spin_less_where_other_programs_are_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    (name,) = BUSY_SPINS
    monkeypatch.setenv(name, "5")
    monkeypatch.delenv(name)  # and restored at the end
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0), raising=False)
    library()
    assert name not in os.environ
    monkeypatch.setattr(os, "getloadavg", lambda: (1000.0, 0.0, 0.0), raising=False)
    library()
    assert os.environ[name] == BUSY_SPINS[name]

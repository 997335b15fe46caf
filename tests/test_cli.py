"""The command line: what it prints, where it prints it."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

import regard
from regard.cli import app


def run(*arguments: str) -> str:
    """What a pipe gets from `regard`, run as a program of its own."""
    finished = subprocess.run(
        [sys.executable, "-X", "utf8", "-m", "regard.cli", *arguments],
        capture_output=True, text=True, encoding="utf-8", check=True, timeout=120,
    )  # fmt: skip
    assert not finished.stderr
    return finished.stdout


@pytest.fixture(scope="module")
def cat_sat() -> str:
    return run("steps", "--example", "cat-sat")


def test_steps_prints_the_numbers_of_the_slides(cat_sat):
    lines = [" ".join(line.split()) for line in cat_sat.splitlines()]
    assert "Word q k v score score/√d_k softmax softmax × v" in lines
    assert "The 1 0 1 0 1 0 1 0 1 0 1 0 2 1.00 0.42 0.42 0.00 0.42 0.00" in lines
    assert "cat 0 1 0 1 0 1 0 1 0 0.00 0.16 0.00 0.16 0.00 0.16" in lines
    sums = [line for line in lines if line.startswith("sum")]
    assert sums == [
        "sum 1.00 0.84 0.58 0.84 0.58",
        "sum 1.00 0.58 0.84 0.58 0.84",
        "sum 1.00 0.79 0.79 0.79 0.79",
    ]


def test_steps_fits_80_columns_and_is_plain_when_piped(cat_sat):
    assert max(len(line) for line in cat_sat.splitlines()) <= 80
    assert "\x1b" not in cat_sat
    assert "…" not in cat_sat


def test_steps_names_the_examples_it_knows():
    finished = CliRunner().invoke(app, ["steps", "--example", "dog-ran"])
    assert finished.exit_code == 2
    assert "cat-sat" in finished.output


def test_engine_says_what_the_library_says():
    assert run("engine").split() == str(regard.engine()).split()


def test_version():
    assert run("--version").split()[0] == "regard"


def test_no_arguments_gives_help():
    output = CliRunner().invoke(app, []).output
    assert "steps" in output
    assert "engine" in output

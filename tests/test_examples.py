"""Every script in examples/ runs, and prints what its lesson promises."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("[0-9]*.py"))
LONG = ("09_watch_a_model", "10_words_in_time", "11_patches_of_an_image")
PROMISED = {
    "01_the_cat_sat": ["[0.42 0.16 0.42]", "[0.84 0.58 0.84 0.58]", "sat attends most to sat"],
    "02_where_attention_comes_from": ["May 5th 2000", "[-4.4  8.2  5. ]", "[-2.2  4.1  2.5]"],
    "03_every_step": ["[0 1 0 1]·[1 1 1 1] = 0·1 + 1·1 + 0·1 + 1·1 = 2", "projected = concatenated · W_O"],
    "04_why_divide_by_the_root": ["0.88 0.12", "0.73 0.27"],
    "05_check_a_hand_calculation": ["0.15 is cut", "3 is wrong"],
    "09_watch_a_model": ["the same tokens as unwatched: True", "mask=causal()"],
    "10_words_in_time": ["planted: ['0.00-0.06', '0.06-0.12', '0.12-0.18', '0.18-0.24']"],
    "11_patches_of_an_image": ["rows and columns: [6, 8]", "the patch that stands out: (2, 5)"],
    "06_figures_for_slides": ["fixed_and_computed.svg", "heads_and_filters.svg", "table.tex"],
}


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.slow] if path.stem in LONG else [], id=path.stem) for path in EXAMPLES],
)
def test_example_runs(path, tmp_path):
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-X", "utf8", path],
        cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", check=False, timeout=300,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    for text in PROMISED.get(path.stem, []):
        assert text in finished.stdout


@pytest.mark.parametrize("arguments", [pytest.param([], marks=pytest.mark.slow), ["slides/week 3"]])
def test_figures_are_written_where_the_example_says(tmp_path, arguments):
    script = next(path for path in EXAMPLES if path.stem.startswith("06"))
    finished = subprocess.run(
        [sys.executable, "-X", "utf8", script, *arguments],
        cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", check=True, timeout=300,
    )  # fmt: skip
    said, names = finished.stdout.splitlines()
    folder = tmp_path / (arguments[0] if arguments else "figures")
    assert said == f"Wrote to {folder.resolve()}:"
    assert sorted(path.name for path in folder.iterdir()) == names.split(", ")
    assert all(path.stat().st_size > 300 for path in folder.iterdir())


def test_every_promise_has_its_example():
    assert {path.stem for path in EXAMPLES} >= PROMISED.keys()

"""`make test` draws the same examples everywhere; `make fuzz` draws new ones that its seed draws again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .scripts import LONG_ENOUGH, environment

ROOT = Path(__file__).parents[1]
PROBE = """
import importlib, os
from hypothesis import given, settings, strategies as st

for name in os.environ.get("PROBE_IMPORTS", "").split():
    importlib.import_module(name)

@given(st.integers(), st.floats(), st.text())
@settings(max_examples=60)
def test_draws(integer, number, text):
    with open(os.environ["PROBE_DRAWN"], "a", encoding="utf-8") as file:
        file.write(repr((integer, number, text)) + "\\n")
"""


def drawn(folder: Path, *arguments: str, **variables: str) -> str:
    """What a property test draws in a process of its own, under the settings of tests/conftest.py."""
    probe, log = folder / "test_probe.py", folder / "drawn"
    probe.write_text(PROBE)
    log.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    ended = subprocess.run(
        [*command, f"--rootdir={folder}", "-c", "/dev/null", str(probe), *arguments],
        cwd=ROOT,
        env=environment(PROBE_DRAWN=str(log), **variables),
        capture_output=True,
        text=True,
        timeout=LONG_ENOUGH,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return log.read_text(encoding="utf-8")


def test_examples_are_the_same_in_every_run_and_whatever_was_imported(tmp_path: Path) -> None:
    usual = drawn(tmp_path)
    assert len(usual.splitlines()) >= 50
    assert drawn(tmp_path, CI="1") == usual
    # Modules whose constants Hypothesis would otherwise mix into what it draws.
    assert drawn(tmp_path, PROBE_IMPORTS="regard.trace regard.viewer regard.models regard.cli") == usual


@pytest.mark.slow
def test_fuzzing_draws_other_examples_and_its_seed_draws_them_again(tmp_path: Path) -> None:
    once = drawn(tmp_path, "--hypothesis-seed=7", REGARD_FUZZ="1")
    assert once == drawn(tmp_path, "--hypothesis-seed=7", REGARD_FUZZ="1", PROBE_IMPORTS="regard.trace")
    assert once != drawn(tmp_path, "--hypothesis-seed=8", REGARD_FUZZ="1")


@pytest.mark.parametrize(("passes", "code"), [(True, 0), (False, 1)])
def test_make_fuzz_says_how_to_draw_a_failure_again(tmp_path: Path, passes: bool, code: int) -> None:
    probe = tmp_path / "test_property.py"
    probe.write_text(
        "from hypothesis import given, strategies as st\n\n\n"
        f"@given(st.integers())\ndef test_property(n):\n    assert n < 1000 or {passes}\n"
    )
    ended = subprocess.run(
        [sys.executable, "tests/fuzz.py", "--seed", "5", "--jobs", "1", str(probe)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LONG_ENOUGH,
        check=False,
    )
    assert ended.returncode == code, ended.stdout + ended.stderr
    assert ("make fuzz SEED=5" in ended.stdout) is not passes

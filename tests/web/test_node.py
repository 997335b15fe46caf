"""The viewer's pure functions, tested by Node's test runner: one test here per file of tests there."""

import os
import subprocess
from pathlib import Path

import pytest

from ..node import node
from .fixtures import write

KERNEL = Path(__file__).parents[2] / "src/regard/web/engine/node.js"  # loads it
FILES = sorted(Path(__file__).parent.glob("*.test.js"))


@pytest.fixture(scope="module")
def fixture_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("fixtures") / "fixtures.json"
    write(path)
    return path


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_pure_functions(path, fixture_file):
    ended = subprocess.run(
        [node(), "--import", KERNEL.as_uri(), "--test", path],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "REGARD_FIXTURES": str(fixture_file)},
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_every_file_of_tests_is_found():
    assert len(FILES) > 8

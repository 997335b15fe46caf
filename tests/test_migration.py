"""docs/migration.md: names of 0.1.0 are gone, and what replaces them is there."""

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
import typer

from regard.cli.app import app

TEXT = (Path(__file__).parents[1] / "docs" / "migration.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|$", TEXT, flags=re.MULTILINE)
NAMES = [row for row in ROWS if row[0].startswith("regard.")]
COMMANDS = [row for row in ROWS if row[0].startswith("regard ")]


def exists(name: str) -> bool:
    """Whether a dotted name can be reached by importing modules and reading attributes."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        try:
            for part in parts[end:]:
                value = getattr(value, part)
        except AttributeError:
            return False
        return True
    return False


def accepts(command: str) -> bool:
    """Whether all words of `regard …` before its values are commands, and its options exist."""
    here: Any = typer.main.get_command(app)
    words = re.sub(r'"[^"]*"', "TEXT", command).split()[1:]
    while words and words[0] in getattr(here, "commands", {}):
        here = here.commands[words.pop(0)]
    if getattr(here, "commands", {}):
        return False
    options = {option for parameter in here.params for option in parameter.opts if option.startswith("-")}
    return {word for word in words if word.startswith("--")} <= options


def test_table_is_read():
    assert len(NAMES) >= 25
    assert len(COMMANDS) >= 8


@pytest.mark.parametrize(("old", "new"), NAMES)
def test_name_has_moved(old, new):
    if "watch" in new:
        pytest.importorskip("torch")
    assert exists(new)
    assert not exists(old)


@pytest.mark.parametrize(("old", "new"), COMMANDS)
def test_command_has_changed(old, new):
    assert accepts(new)
    assert not accepts(old)

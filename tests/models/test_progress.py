"""A progress bar in a terminal, and nothing anywhere else."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from regard.models import progress

from .checkpoints import SENTENCES, write
from .test_bert import config_of


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("terminal", [True, False])
def test_reading_shows_a_bar_in_a_terminal_and_nothing_in_a_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    model = write(tmp_path, config_of("bert"), "bert", "BertModel").open()
    screen = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    monkeypatch.setenv("TERM", "xterm")
    model.read(SENTENCES)
    assert ("tiny reads" in screen.getvalue()) == terminal


def test_short_texts_and_on_layer_show_no_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = write(tmp_path, config_of("bert"), "bert", "BertModel").open()
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    model.read("the cat")
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    model.read("the cat", on_layer=lambda done, of: None)
    assert not screen.getvalue()

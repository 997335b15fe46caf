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


def test_long_work_outside_a_terminal_reports_share_and_time_left_in_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    screen = io.StringIO()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with progress.steps("minilm", 1000, every=20) as advance:
        for seconds, done in ((1, 400), (5, 450), (30, 500), (35, 510), (61, 700), (80, 1000)):
            now[0] = 100 + seconds
            advance(done)  # 400 were there before: they took no time
    assert screen.getvalue() == ("minilm: 50%, about 2 min left\nminilm: 70%, about 60 s left\n")

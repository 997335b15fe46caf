"""Output of the command line: terminals of any width and encoding, closed pipes, full disks."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from regard.cli import app, exit_codes

FULL = Path("/dev/full")
needs_dev_full = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
needs_posix = pytest.mark.skipif(os.name != "posix", reason="closes file descriptors")


@pytest.fixture
def shown(monkeypatch):
    """What a command prints in this process, to an output of any encoding and width."""

    def run(*arguments: str, encoding: str = "utf-8", columns: str | None = None) -> str:
        output = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        with monkeypatch.context() as changes:
            changes.setattr(sys, "stdout", output)
            changes.setattr(sys, "argv", ["regard", *arguments])
            changes.delenv("COLUMNS", raising=False)
            if columns is not None:
                changes.setenv("COLUMNS", columns)
            with pytest.raises(SystemExit) as ended:
                app.run()
        assert not ended.value.code
        return output.buffer.getvalue().decode(encoding)

    return run


def run(*arguments: str, stdout=subprocess.PIPE, stderr=subprocess.PIPE) -> subprocess.CompletedProcess[bytes]:
    """The command line as a separate process."""
    command = [sys.executable, "-m", "regard", *arguments]
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, timeout=120, check=False)


# Widths


@pytest.mark.parametrize("columns", ["0", "00", "-3", "abc", ""])
def test_an_invalid_width_means_80_columns(shown, columns):
    usual = shown("steps", "--example", "cat-sat", columns="80")
    assert "0.42" in usual
    assert shown("steps", "--example", "cat-sat", columns=columns) == usual


@pytest.mark.parametrize("columns", ["1", "7"])
def test_the_narrowest_layout_has_20_columns(shown, columns):
    narrow = shown("steps", "--example", "cat-sat", columns=columns)
    assert narrow == shown("steps", "--example", "cat-sat", columns="20")
    assert max(map(len, narrow.splitlines())) <= 20


# Encodings


def test_ascii_output_keeps_signs_and_columns(shown):
    sentence = ("steps", "a b", "--set", "seed=0", "--query", "a")
    plain = shown(*sentence, encoding="ascii")
    assert "?" not in plain
    assert "sqrt d_k" in plain and "softmax" in plain
    assert numbers(plain) == numbers(shown(*sentence).replace("−", "-"))
    headings, *rows = [line for line in plain.splitlines() if line.startswith(("Word ", "a ", "b ", "sum "))][-4:]
    assert {len(row) for row in rows} == {len(headings)}


def numbers(text: str) -> list[str]:
    return [part for line in text.splitlines() for part in line.split() if not part.strip("-0123456789.")]


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_no_command_prints_question_marks_for_its_own_signs(shown, encoding):
    for arguments in (
        ["steps", "--example", "cat-sat", "--mask", "causal"],
        ["scaling", "--size", "4", "--size", "64"],
        ["examples"],
        ["--help"],
        ["steps", "--help"],
    ):
        printed = shown(*arguments, encoding=encoding)
        assert printed and printed.count("?") == shown(*arguments).count("?")


def test_accents_are_dropped_before_letters_are(shown):
    printed = shown("steps", "Café Ünï 日", encoding="ascii")
    assert "Cafe" in printed and "Uni" in printed and "?" in printed


@pytest.mark.parametrize("kind", ["json", "svg", "markdown"])
def test_a_file_in_a_pipe_is_utf_8_whatever_the_terminal_is(shown, kind):
    arguments = ("steps", "Café −", "--show", kind)
    content = shown(*arguments, encoding="latin-1").encode("latin-1").decode("utf-8")
    assert content == shown(*arguments)
    if kind == "json":
        assert json.loads(content)["query_words"] == ["Café", "−"]


# Output that cannot be written


@needs_dev_full
@pytest.mark.parametrize("arguments", [["--help"], ["steps", "--example", "cat-sat"]])
def test_a_full_disk_gives_a_one_line_error_and_exit_code_3(arguments):
    with FULL.open("wb") as full:
        finished = run(*arguments, stdout=full)
    assert finished.stderr.decode() == "regard: Standard output cannot be written: no space left on device.\n"
    assert finished.returncode == 3


@needs_dev_full
@pytest.mark.parametrize("arguments", [["nonsense"], ["steps", ""]])
def test_wrong_input_keeps_its_exit_code_if_the_message_cannot_be_written(arguments):
    with FULL.open("wb") as full:
        assert run(*arguments, stderr=full).returncode == 2


@needs_posix
@pytest.mark.parametrize("arguments", [["--help"], ["examples", "jane"], ["steps", "a " * 300, "--full"]])
def test_a_closed_pipe_ends_quietly_with_141(arguments):
    read, write = os.pipe()
    os.close(read)
    try:
        finished = run(*arguments, stdout=write)
    finally:
        os.close(write)
    assert finished.returncode == 141
    assert finished.stderr == b""


@needs_posix
@pytest.mark.parametrize(
    ("command", "code"),
    [("steps - <&-", 2), ("examples jane >&-", 0), ("--help >&-", 0), ("steps a 2>&-", 0), ("nonsense 2>&-", 2)],
)
def test_closed_streams_give_no_traceback(command, code):
    finished = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m regard {command}"], capture_output=True, check=False, timeout=120
    )
    assert b"Traceback" not in finished.stderr + finished.stdout
    assert finished.returncode == code


def test_help_names_the_exit_codes(shown):
    printed = shown("--help")
    names = "FOUND_SOMETHING", "BAD_INPUT", "NOT_WRITTEN", "INTERRUPTED", "PIPE_CLOSED"
    for code in (getattr(exit_codes, name) for name in names):
        assert f"\n    {code} " in printed

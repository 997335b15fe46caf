"""`--out FILE`: formats by ending, several files at once, and files that a failed write leaves unchanged."""

import errno
import os
import stat
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from regard import atomic_file
from regard.cli.app import app
from regard.cli.outputs import Output, Target
from regard.errors import OptionError
from regard.output.files import Format

OLD = "what was there before"


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_several_files_are_written_at_once(tmp_path):
    paths = [tmp_path / name for name in ("cat.html", "cat.svg", "cat.md")]
    finished = run("steps", "--example", "cat-sat", *(part for path in paths for part in ("--out", str(path))))
    assert finished.exit_code == 0, finished.output
    assert finished.stdout.count("Wrote") == 3
    starts = [path.read_text(encoding="utf-8")[:9] for path in paths]
    assert starts[0] == "<!DOCTYPE" and starts[1].startswith("<svg") and starts[2].startswith("**")


def test_standard_output_beside_a_file_holds_the_result_alone(tmp_path):
    finished = run(
        "steps", "--example", "cat-sat", "--show", "csv", "--out", "-", "--out", str(tmp_path / "cat.csv"),
    )  # fmt: skip
    assert finished.exit_code == 0, finished.output
    assert finished.stdout.splitlines() == (tmp_path / "cat.csv").read_text(encoding="utf-8").splitlines()
    assert "Wrote" in finished.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--show", "svg", "--out", "cat.tex"], "--show says svg"),
        (["--out", "cat.svg", "--out", "cat.svg"], "twice"),
        (["--out", "cat.poem"], ".html"),
        (["--out", "cat"], ".html"),
        (["--out", "no/such/folder/cat.svg"], "no folder"),
        (["--out", "."], "known format"),
        (["--show", "svg", "--out", "."], "is a folder"),
        (["--show", "svg", "--out", "x" * 5000], "cannot be written"),
        (["--show", "svg", "--out", "nul\0"], "cannot be written"),
        (["--out", ""], "known format"),
    ],
)
def test_contradictions_are_refused_before_anything_is_written(tmp_path, monkeypatch, arguments, complaint):
    monkeypatch.chdir(tmp_path)
    finished = run("steps", "--example", "cat-sat", *arguments)
    assert finished.exit_code == 2
    assert complaint in finished.stderr and "Traceback" not in finished.output
    assert list(tmp_path.iterdir()) == []


def test_an_ending_names_the_format_in_any_case_and_show_names_it_where_there_is_none():
    assert Output.of(["A.SVG"]).targets == (Target(Format.SVG, "A.SVG"),)
    assert Output.of(["notes"], Format.LATEX).targets == (Target(Format.LATEX, "notes"),)
    assert Output.of().targets == (Target(Format.TABLE),)
    with pytest.raises(OptionError, match="does not write csv"):
        Output.of(["a.csv"], formats={Format.SVG})


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", [["steps", "--example", "cat-sat"], ["scaling", "--size", "2"]])
def test_a_full_disk_gives_a_one_line_error(command):
    finished = run(*command, "--show", "html", "--out", "/dev/full")
    assert finished.exit_code == 2
    assert "no space left" in finished.stderr.lower()
    assert len(finished.stderr.splitlines()) == 1


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "notes.csv"
    path.write_text(OLD)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OptionError, match=r"notes\.csv.*cannot be written: no space left"):
        atomic_file.write(path, "new")
    assert path.read_text() == OLD
    assert [one.name for one in tmp_path.iterdir()] == ["notes.csv"]


def test_a_figure_that_cannot_be_drawn_leaves_the_other_file(tmp_path):
    path = tmp_path / "cat.csv"
    path.write_text(OLD)
    slide = ("--aspect", "16:9", "--font-size", "199")
    finished = run("steps", "--example", "cat-sat", "--out", str(path), "--out", str(tmp_path / "a.svg"), *slide)
    assert finished.exit_code == 2
    assert path.read_text() == OLD


@pytest.mark.skipif(sys.platform == "win32", reason="permissions and links of POSIX")
def test_links_and_permissions_are_kept(tmp_path):
    real, link, fresh = tmp_path / "real.svg", tmp_path / "link.svg", tmp_path / "fresh.svg"
    real.write_text(OLD)
    real.chmod(0o640)
    link.symlink_to(real)
    atomic_file.write(link, "new")
    assert link.is_symlink() and real.read_text() == "new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    mask = os.umask(0o027)
    try:
        atomic_file.write(fresh, b"new")
    finally:
        os.umask(mask)
    assert stat.S_IMODE(fresh.stat().st_mode) == 0o640


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        atomic_file.write(path, "through")
        assert os.read(reading, 100) == b"through"
    finally:
        os.close(reading)
    assert stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.parametrize("ending", ["txt", "md", "tex", "csv", "json", "html", "svg"])
def test_scaling_writes_every_format(tmp_path, ending):
    path = tmp_path / f"scaling.{ending}"
    finished = run("scaling", "--size", "4", "--size", "64", "--out", str(path))
    assert finished.exit_code == 0, finished.output
    content = path.read_text(encoding="utf-8")
    assert "entropy" in content.lower()
    assert "0.88" in content or ending in ("svg", "csv", "json")


@pytest.mark.parametrize("ending", ["txt", "md", "tex", "csv", "json", "html", "svg", "pdf"])
def test_lookup_writes_every_format(tmp_path, ending):
    (tmp_path / "jane.json").write_text('{"Date of birth": "May 5th 2000", "Name": "Jane Doe"}')
    path = tmp_path / f"birth.{ending}"
    finished = run("lookup", str(tmp_path / "jane.json"), "birth date", "--out", str(path))
    assert finished.exit_code == 0, finished.output
    content = path.read_bytes()
    if ending == "pdf":
        assert content.startswith(b"%PDF")
    else:
        assert all(part in content.decode("utf-8") for part in ("Date of birth", "May 5th 2000"))


def test_lookup_of_values_nested_900_deep_gives_a_one_line_error(tmp_path):
    (tmp_path / "deep.json").write_text('{"a": ' + "[" * 900 + "]" * 900 + "}")
    finished = run("lookup", str(tmp_path / "deep.json"), "a")
    assert finished.exit_code == 2 and "nested" in finished.stderr
    assert len(finished.stderr.splitlines()) == 1


def test_several_heads_are_drawn_together_unless_one_is_named(tmp_path):
    together, one = tmp_path / "heads.svg", tmp_path / "head.svg"
    for arguments in (["--out", str(together)], ["--head", "1", "--out", str(one)]):
        assert run("steps", "The cat sat", "--heads", "2", *arguments).exit_code == 0
    assert "concatenated" in together.read_text() and "concatenated" not in one.read_text()


@pytest.mark.parametrize("order", [["cat.png", "cat.svg"], ["cat.svg", "cat.png"], ["cat.md", "cat.pdf", "cat.png"]])
@pytest.mark.parametrize("command", [["steps", "--example", "cat-sat"], ["scaling"], ["positions"]])
def test_what_lacks_a_package_is_named_and_the_other_files_are_written(tmp_path, monkeypatch, command, order):
    monkeypatch.setitem(sys.modules, "typst", None)
    finished = run(*command, *(part for name in order for part in ("--out", str(tmp_path / name))))
    assert finished.exit_code == 2
    drawn = [name for name in order if name.endswith((".png", ".pdf"))]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted({*order} - {*drawn})
    for name in drawn:
        assert f"{tmp_path / name} is not written: " in finished.stderr.replace("\n", " ").replace("  ", " ")
    assert "pip install typst" in finished.stderr

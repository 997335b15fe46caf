"""Files are on the disk before they get their names."""

import os
import stat
from pathlib import Path

import pytest

from regard import atomic_file
from regard.errors import OptionError


@pytest.mark.skipif(os.name != "posix", reason="folders can be flushed on POSIX only")
def test_a_file_reaches_the_disk_before_its_name_and_the_name_before_the_call_returns(tmp_path, monkeypatch):
    events = []
    flush, replace = os.fsync, Path.replace

    def flushed(handle):
        mode = os.fstat(handle)
        events.append("folder" if stat.S_ISDIR(mode.st_mode) else f"file of {mode.st_size}")
        flush(handle)

    def replaced(path, target):
        events.append("rename")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(Path, "replace", replaced)
    atomic_file.write(tmp_path / "a.txt", b"seven..")
    assert events == ["file of 7", "rename", "folder"]


def test_a_file_that_cannot_be_flushed_leaves_the_old_one(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("old")

    def fails(_handle):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OptionError, match=r"a\.txt' cannot be written: input/output error"):
        atomic_file.write(tmp_path / "a.txt", "new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.txt", "old")]

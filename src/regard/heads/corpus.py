"""A corpus of text, JSONL and Parquet files, divided into units that are read one at a time.

Units are fixed by the files and the unit size alone, so that every process divides a corpus in the same way. A unit of
a text or JSONL file owns the lines that begin in its range of bytes; a unit of a Parquet file is a row group.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from regard.errors import OptionError, missing_package

UNIT = 1 << 18  # bytes of a unit
LONGEST = 1 << 14  # bytes of a document; longer lines and paragraphs are divided
TEXT, JSONL, PARQUET = (".txt", ".md", ".text"), (".jsonl", ".ndjson"), (".parquet",)
FIELD = "text"  # of a JSONL object, or column of a Parquet file


class Unit(NamedTuple):
    """A part of one file: bytes, or row groups of a Parquet file."""

    file: int
    start: int
    stop: int


@dataclass(frozen=True)
class File:
    """A file of a corpus."""

    path: str
    size: int
    digest: str  # of its first 64 KiB and its size


@dataclass(frozen=True)
class Corpus:
    """Files and how they are divided."""

    files: tuple[File, ...]
    units: tuple[Unit, ...]
    field: str
    unreadable: tuple[tuple[str, str], ...] = ()  # path, reason

    def size(self, unit: Unit) -> int:
        """About how many bytes a unit has."""
        if Path(self.files[unit.file].path).suffix.lower() in PARQUET:
            groups = sum(1 for other in self.units if other.file == unit.file)
            return self.files[unit.file].size // max(groups, 1)
        return unit.stop - unit.start

    def as_json(self) -> dict[str, Any]:
        """For the manifest of an atlas."""
        return asdict(self)

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Corpus:
        """What `as_json` gave."""
        return cls(
            tuple(File(**file) for file in given["files"]),
            tuple(Unit(*unit) for unit in given["units"]),
            given["field"],
            tuple((path, reason) for path, reason in given["unreadable"]),
        )


class Texts(NamedTuple):
    """The texts of a unit, and how many lines or rows could not be used."""

    texts: list[str]
    skipped: int


def opened(paths: Sequence[str | os.PathLike[str]], *, field: str = FIELD, unit: int = UNIT) -> Corpus:
    """The corpus of some files, and of all text, JSONL and Parquet files in some folders.

    Files that cannot be read are listed in `unreadable`; an error is raised only if none can.
    """
    files: list[File] = []
    units: list[Unit] = []
    unreadable: list[tuple[str, str]] = []
    for path in _files(paths):
        try:
            found = _file(path)
            of_file = list(_units(path, len(files), found.size, unit, field))
        except (OSError, ValueError) as problem:
            reason = getattr(problem, "strerror", None) or str(problem)
            unreadable.append((str(path), reason.splitlines()[0][:200].lower() if reason else "unknown"))
            continue
        files.append(found)
        units += of_file
    if not units:
        listed = "".join(f"\n  {path}: {reason}" for path, reason in unreadable[:5])
        raise OptionError(f"The corpus holds no text: expected .txt, .jsonl or .parquet files.{listed}")
    return Corpus(tuple(files), tuple(units), field, tuple(unreadable))


def _files(paths: Sequence[str | os.PathLike[str]]) -> Iterator[Path]:
    known = {*TEXT, *JSONL, *PARQUET}
    for given in paths:
        path = Path(given)
        if path.is_dir():
            yield from sorted(one for one in path.rglob("*") if one.suffix.lower() in known and one.is_file())
        else:
            yield path


def _file(path: Path) -> File:
    if not path.exists():
        raise FileNotFoundError(0, "there is no such file")
    if not path.is_file():
        raise OSError(0, "not a regular file")
    size = path.stat().st_size
    with path.open("rb") as file:
        digest = hashlib.sha256(file.read(1 << 16) + str(size).encode()).hexdigest()
    return File(str(path.resolve()), size, digest)


def _units(path: Path, number: int, size: int, unit: int, field: str) -> Iterator[Unit]:
    if path.suffix.lower() in PARQUET:
        file = _parquet().ParquetFile(path)
        if field not in file.schema_arrow.names:
            raise ValueError(f"it has no column {field!r}; expected one of text, or name it with --field")
        for group in range(file.num_row_groups):
            yield Unit(number, group, group + 1)
        return
    for start in range(0, size, unit):
        yield Unit(number, start, min(start + unit, size))


def texts(corpus: Corpus, unit: Unit) -> Texts:
    """The texts of one unit; memory does not depend on the size of the file."""
    path = Path(corpus.files[unit.file].path)
    ending = path.suffix.lower()
    if ending in PARQUET:
        return _from_parquet(path, unit, corpus.field)
    lines = _lines(path, unit)
    return _from_jsonl(lines, corpus.field) if ending in JSONL else _from_text(lines)


def _lines(path: Path, unit: Unit) -> Iterator[bytes]:
    """The lines that begin in a unit's bytes, longer ones in pieces."""
    with path.open("rb") as file:
        if unit.start:
            file.seek(unit.start - 1)
            while (piece := file.readline(LONGEST)) and not piece.endswith(b"\n"):
                pass
        while file.tell() < unit.stop:
            while piece := file.readline(LONGEST):
                yield piece
                if piece.endswith(b"\n"):
                    break
            if not piece:
                return


def _from_text(lines: Iterator[bytes]) -> Texts:
    """Paragraphs: lines up to a blank one, at most `LONGEST` bytes."""
    found: list[str] = []
    held: list[str] = []
    length = skipped = 0
    for line in lines:
        text = _decoded(line)
        if text is None:
            skipped += 1
            continue
        if held and (not text.strip() or length + len(line) > LONGEST):
            found.append("".join(held))
            held, length = [], 0
        if text.strip():
            held.append(text)
            length += len(line)
    if held:
        found.append("".join(held))
    return Texts([text.strip() for text in found], skipped)


def _decoded(piece: bytes) -> str | None:
    """A line as text, or a piece of a long one without the characters that are cut; None if it is not UTF-8."""
    piece = piece.lstrip(bytes(range(0x80, 0xC0)))  # the rest of a character
    ends = range(4) if len(piece) > LONGEST - 4 and not piece.endswith(b"\n") else range(1)
    for end in ends:
        try:
            return piece[: len(piece) - end].decode("utf-8")
        except UnicodeDecodeError:
            continue
    return None


def _from_jsonl(lines: Iterator[bytes], field: str) -> Texts:
    """The field of each object, or the line where it is a string; a line is one document."""
    found: list[str] = []
    skipped, waiting = 0, b""
    for piece in lines:
        waiting += piece
        if not piece.endswith(b"\n") and len(piece) == LONGEST and len(waiting) < UNIT * 64:
            continue  # a long line comes in pieces
        line, waiting = waiting, b""
        if not line.strip():
            continue
        try:
            content = json.loads(line)
        except (ValueError, RecursionError):
            skipped += 1
            continue
        text = content.get(field) if isinstance(content, dict) else content
        if isinstance(text, str):
            found.append(text)
        else:
            skipped += 1
    return Texts(found, skipped + bool(waiting.strip()))


def _from_parquet(path: Path, unit: Unit, field: str) -> Texts:
    found: list[str] = []
    skipped = 0
    for batch in _parquet().ParquetFile(path).iter_batches(1024, row_groups=[unit.start], columns=[field]):
        for value in batch.column(0).to_pylist():
            if isinstance(value, str):
                found.append(value)
            else:
                skipped += 1
    return Texts(found, skipped)


def _parquet() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as problem:
        raise missing_package("Reading Parquet files", "pyarrow") from problem
    return pyarrow.parquet

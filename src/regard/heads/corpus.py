"""A corpus of text, JSONL and Parquet files, divided into units that are read block by block.

Units are fixed by the files alone, so that every process divides a corpus in the same way. A unit of a text or JSONL
file owns the lines that begin in its range of bytes; a unit of a Parquet file is a range of rows within a row group.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard import file_state
from regard.errors import OptionError, missing_package, reason_of

UNIT = 1 << 16  # bytes of a unit, in a corpus of up to UNITS of them: seconds of work
UNITS = 64  # in a corpus four times as large, units are twice as large, and there are twice as many
BLOCK = 1 << 18  # bytes of text that are in memory at once
LONGEST_LINE = 1 << 24  # bytes of a line of JSON
LONGEST = 1 << 14  # bytes of a document; longer lines and paragraphs are divided
TEXT, JSONL, PARQUET = (".txt", ".md", ".text"), (".jsonl", ".ndjson"), (".parquet",)
ROWS = 64  # of a Parquet file that are decoded at once: their texts may be long
FIELD = "text"  # of a JSONL object, or column of a Parquet file


class Unit(NamedTuple):
    """A part of one file: bytes, or rows of a Parquet file."""

    file: int
    start: int
    stop: int
    size: int  # bytes, about


@dataclass(frozen=True)
class CorpusFile:
    """A file of a corpus."""

    path: str
    size: int
    digest: str  # SHA-256 of its content


@dataclass(frozen=True)
class Corpus:
    """Files and how they are divided."""

    files: tuple[CorpusFile, ...]
    units: tuple[Unit, ...]
    field: str
    unreadable: tuple[tuple[str, str], ...] = ()  # path, reason

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Corpus:
        """From the manifest of an atlas, where it is written as JSON."""
        files, units = (CorpusFile(**file) for file in content["files"]), (Unit(*unit) for unit in content["units"])
        unreadable = ((path, reason) for path, reason in content["unreadable"])
        return cls(tuple(files), tuple(units), content["field"], tuple(unreadable))


class UnitTexts(NamedTuple):
    """Some texts of a unit, how many lines or rows could not be used, and why the rest of the unit cannot be read."""

    texts: list[str]
    skipped: int = 0
    problem: str = ""


def open_corpus(paths: Sequence[str | os.PathLike[str]], *, field: str = FIELD, unit: int | None = None) -> Corpus:
    """The corpus of some files, and of all text, JSONL and Parquet files in some folders.

    Files that cannot be read are listed in `unreadable`; an error is raised only if none can.
    """
    readable: list[tuple[Path, CorpusFile]] = []
    unreadable: list[tuple[str, str]] = []
    for path in _files(paths):
        try:
            readable.append((path, _file(path)))
        except (OSError, ValueError) as problem:
            unreadable.append((str(path), reason_of(problem)))
    size = unit_size(sum(file.size for _, file in readable)) if unit is None else unit
    files: list[CorpusFile] = []
    units: list[Unit] = []
    for path, file in readable:
        try:
            units += list(_units(path, len(files), file.size, size, field))
        except (OSError, ValueError) as problem:
            unreadable.append((str(path), reason_of(problem)))
            continue
        files.append(file)
    if not units:
        listed = "".join(f"\n  {path}: {reason}" for path, reason in unreadable[:5])
        raise OptionError(f"The corpus holds no text: expected .txt, .jsonl or .parquet files.{listed}")
    return Corpus(tuple(files), tuple(units), field, tuple(sorted(unreadable)))


def texts_of_files(paths: Sequence[str | os.PathLike[str]], field: str = FIELD) -> list[str]:
    """All texts of some files and folders; a file that cannot be read, or not to its end, is refused."""
    corpus = open_corpus(paths, field=field)
    problems = [f"{path}: {reason}" for path, reason in corpus.unreadable]
    all_texts: list[str] = []
    for unit in corpus.units:
        for part in texts(corpus, unit):
            all_texts += part.texts
            problems += [f"{corpus.files[unit.file].path}: {part.problem}"] if part.problem else []
    if problems:
        raise OptionError(f"The corpus cannot be read whole: {'; '.join(problems[:5])}.")
    return all_texts


def unit_size(total: int) -> int:
    """Bytes of a unit in a corpus of so many bytes.

    >>> [unit_size(10**power) >> 10 for power in (6, 8, 10, 12)]
    [64, 512, 4096, 32768]
    """
    size = UNIT
    while total > UNITS * size * (size // UNIT):
        size *= 2
    return size


def _files(paths: Sequence[str | os.PathLike[str]]) -> Iterator[Path]:
    for path in map(Path, paths):
        if path.is_dir():
            inside = (file for file in path.rglob("*") if file.suffix.lower() in {*TEXT, *JSONL, *PARQUET})
            yield from sorted(file for file in inside if not file.is_dir())
        else:
            yield path


def _file(path: Path) -> CorpusFile:
    if not path.exists():
        raise FileNotFoundError(0, "there is no such file")
    if not path.is_file():
        raise OSError(0, "not a regular file")
    path, state = path.resolve(), file_state.state_of(path)
    return CorpusFile(str(path), state[0], _digest(path, state))


def verify(file: CorpusFile) -> None:
    """Raise unless a file has the content that it was opened with; it is read again only if its state changed."""
    path = Path(file.path)
    try:
        digest = _digest(path, file_state.state_of(path))
    except OSError as problem:
        raise OptionError(f"{file.path!r} cannot be read any more: {reason_of(problem)}.") from None
    if digest != file.digest:
        raise OptionError(
            f"{file.path!r} is not the file that the atlas was begun with: it was changed, or is another one on this "
            "machine.\nRestore it, or begin an atlas of the new content with another --out."
        )


_digests: dict[tuple[Path, file_state.State], str] = {}  # of the files that this process has read


def _digest(path: Path, state: file_state.State) -> str:
    if (path, state) in _digests:
        return _digests[path, state]
    settled, digest = file_state.is_settled(state), file_state.sha256_of(path)
    if settled:
        _digests[path, state] = digest
    return digest


def _units(path: Path, number: int, size: int, unit: int, field: str) -> Iterator[Unit]:
    if path.suffix.lower() not in PARQUET:
        for start in range(0, size, unit):
            stop = min(start + unit, size)
            yield Unit(number, start, stop, stop - start)
        return
    file = _parquet().ParquetFile(path)
    if field not in file.schema_arrow.names:
        raise ValueError(f"it has no column {field!r}; expected one of text, or name it with --field")
    first = 0
    for row_group in range(file.num_row_groups):
        group = file.metadata.row_group(row_group)
        columns = [group.column(column) for column in range(group.num_columns)]
        weight = sum(chunk.total_uncompressed_size for chunk in columns if chunk.path_in_schema.split(".")[0] == field)
        step = max(1, group.num_rows * unit // max(weight, 1))
        for start in range(0, group.num_rows, step):
            stop = min(start + step, group.num_rows)
            yield Unit(number, first + start, first + stop, weight * (stop - start) // group.num_rows)
        first += group.num_rows


def texts(corpus: Corpus, unit: Unit) -> Iterator[UnitTexts]:
    """The texts of one unit in blocks; memory depends neither on the size of the file nor on that of the unit."""
    path = Path(corpus.files[unit.file].path)
    ending = path.suffix.lower()
    try:
        if ending in PARQUET:
            yield from _from_parquet(path, unit, corpus.field)
        elif ending in JSONL:
            yield from _blocks(_json_texts(_lines(path, unit, LONGEST_LINE + 1), corpus.field))
        else:
            yield from _blocks(_paragraphs(_lines(path, unit, LONGEST)))
    except (OSError, ValueError) as problem:
        if isinstance(problem, OSError) and problem.errno is not None:  # the file or disk is gone, not its content bad
            raise OptionError(f"{str(path)!r} cannot be read any more: {reason_of(problem)}.") from None
        yield UnitTexts([], 0, reason_of(problem))


def _lines(path: Path, unit: Unit, longest: int) -> Iterator[bytes]:
    """The lines that begin in a unit's bytes, longer ones in pieces."""
    with path.open("rb") as file:
        if unit.start:
            file.seek(unit.start - 1)
            while (left := unit.stop - file.tell()) > 0:  # a line that reaches beyond the unit is read by another one
                piece = file.readline(min(left, LONGEST))
                if not piece or piece.endswith(b"\n"):
                    break
        while file.tell() < unit.stop:
            while piece := file.readline(longest):
                yield piece
                if piece.endswith(b"\n"):
                    break
            if not piece:
                return


def _blocks(texts: Iterable[tuple[str | None, int]]) -> Iterator[UnitTexts]:
    """Texts and their sizes in bytes, None for what cannot be used, in blocks of about `BLOCK` bytes."""
    block, size, skipped = list[str](), 0, 0
    for text, length in texts:
        if text is None:
            skipped += 1
            continue
        block.append(text)
        size += length
        if size >= BLOCK:
            yield UnitTexts(block, skipped)
            block, size, skipped = [], 0, 0
    yield UnitTexts(block, skipped)


def _paragraphs(lines: Iterator[bytes]) -> Iterator[tuple[str | None, int]]:
    """Lines up to a blank one, at most `LONGEST` bytes."""
    paragraph, size = list[str](), 0
    for line in lines:
        text = _decode(line)
        if text is None:
            yield None, 0
            continue
        if paragraph and (not text.strip() or size + len(line) > LONGEST):
            yield "".join(paragraph).strip(), size
            paragraph, size = [], 0
        if text.strip():
            paragraph.append(text)
            size += len(line)
    if paragraph:
        yield "".join(paragraph).strip(), size


def _decode(piece: bytes) -> str | None:
    """A line as text, or a piece of a long one without the characters that are cut; None if it is not UTF-8."""
    piece = piece.lstrip(bytes(range(0x80, 0xC0)))  # the rest of a character
    ends = range(4) if len(piece) > LONGEST - 4 and not piece.endswith(b"\n") else range(1)
    for end in ends:
        try:
            return piece[: len(piece) - end].decode("utf-8")
        except UnicodeDecodeError:
            continue
    return None


def _json_texts(pieces: Iterator[bytes], field: str) -> Iterator[tuple[str | None, int]]:
    """The field of each object, or the line where it is a string; a line is one document."""
    is_rest = False  # of a line that is longer than `LONGEST_LINE`
    for piece in pieces:
        if not is_rest and piece.strip():
            yield (None, 0) if len(piece) > LONGEST_LINE else (_text_of(piece, field), len(piece))
        is_rest = not piece.endswith(b"\n")


def _text_of(line: bytes, field: str) -> str | None:
    """The text in a line of JSON, if there is one and it is Unicode: an escape may be half of a surrogate pair."""
    try:
        content = json.loads(line)
        text = content.get(field) if isinstance(content, dict) else content
        if isinstance(text, str):
            text.encode()
            return text
    except (ValueError, RecursionError):
        pass
    return None


_of_thread = threading.local()  # rows that were decoded last, from which the next unit goes on


def _from_parquet(path: Path, unit: Unit, field: str) -> Iterator[UnitTexts]:
    file = _parquet().ParquetFile(path)
    ends = np.cumsum([file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)])
    group = int(np.searchsorted(ends, unit.start, side="right"))
    key = path, file_state.state_of(path), field, group
    last_key, batches, first, rows = vars(_of_thread).pop("rows", (None, None, 0, []))
    if last_key != key or first > unit.start:
        batches = file.iter_batches(ROWS, row_groups=[group], columns=[field])
        first, rows = int(ends[group]) - file.metadata.row_group(group).num_rows, []
    while first < unit.stop:
        rows = rows or next((batch.column(0).to_pylist() for batch in batches), [])
        if not rows:
            return  # fewer rows than the file says
        chosen: list[Any] = rows[max(unit.start - first, 0) : unit.stop - first]
        if chosen:
            texts = [value for value in chosen if isinstance(value, str)]
            yield UnitTexts(texts, len(chosen) - len(texts))
        if first + len(rows) > unit.stop:
            break  # the next unit begins among these
        first, rows = first + len(rows), []
    _of_thread.rows = key, batches, first, rows


def _parquet() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as problem:
        raise missing_package("Parquet", "pyarrow") from problem
    return pyarrow.parquet

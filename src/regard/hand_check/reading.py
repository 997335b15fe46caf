"""Notes from a file: JSON, CSV or Markdown, each into the same nested dictionary of steps."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from regard.hand_check import wording
from regard.hand_check.naming import meant
from regard.hand_check.tabular import Grid, document_of

Document = dict[str, Any]  # what was given, by the name of its step


def read(notes: str | Path | Mapping[str, Any]) -> tuple[Document, str]:
    """The notes, and what to call them in messages."""
    if isinstance(notes, Mapping):
        return named(notes, "The notes"), "The notes"
    path = Path(notes)
    if path.suffix.casefold() not in wording.ENDINGS and path.is_file():
        raise wording.unknown_ending(path)
    text, source = _text_of(path), path.name
    if not text.strip():
        raise wording.empty(source)
    if path.suffix.casefold() == ".json":
        return named(_from_json(text, source), source), source
    grids = list(_grids_of_csv(text, source) if path.suffix.casefold() == ".csv" else _grids_of_markdown(text))
    if not grids:
        raise wording.no_table(source)
    return document_of(grids, source), source


def named(content: Mapping[str, Any], source: str) -> Document:
    """The same with the names that steps have."""
    if not content:
        raise wording.empty(source)
    document: Document = {}
    for name, part in content.items():
        step = meant(str(name), source)
        if step in document:
            raise wording.given_twice(source, repr(name))
        document[step] = part
    return document


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise wording.no_such_file(path) from None
    except UnicodeDecodeError:
        raise wording.unreadable(path, "it is not text in UTF-8") from None
    except OSError as problem:
        raise wording.unreadable(path, problem.strerror or str(problem)) from None


def _from_json(text: str, source: str) -> Mapping[str, Any]:
    def refuse(name: str) -> Any:
        raise wording.not_finite(source, name)

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            names = [name for name, _ in pairs]
            raise wording.given_twice(source, repr(next(name for name in names if names.count(name) > 1)))
        return content

    try:  # decimals as they are written: 0.50 has two
        content = json.loads(
            text, parse_float=Decimal, parse_int=Decimal, parse_constant=refuse, object_pairs_hook=once
        )
    except json.JSONDecodeError as problem:
        raise wording.broken_json(source, problem.lineno, problem.colno, problem.msg) from None
    except RecursionError:
        raise wording.too_deep(source) from None
    if not isinstance(content, dict):
        raise wording.not_an_object(source, "a list" if isinstance(content, list) else "a single value")
    return content


def _grids_of_csv(text: str, source: str) -> Iterator[Grid]:
    """Tables with blank lines between them, or one after the other."""
    first = next(line for line in text.splitlines() if line.strip())
    delimiter = max(",;\t", key=first.count)  # of two that are as frequent, the comma
    rows: list[list[str]] = []
    start = 1
    reader = csv.reader(text.splitlines(), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells):
                rows.append(cells)
                continue
            if rows:
                yield Grid("", tuple(rows[0]), tuple(map(tuple, rows[1:])), start)
            rows, start = [], reader.line_num + 1
    except csv.Error as problem:
        raise wording.broken_csv(source, reader.line_num, str(problem)) from None
    if rows:
        yield Grid("", tuple(rows[0]), tuple(map(tuple, rows[1:])), start)


def _grids_of_markdown(text: str) -> Iterator[Grid]:
    """Tables with the last line of text above each."""
    lines, caption, place = text.splitlines(), "", 0
    while place < len(lines):
        line = lines[place].strip()
        if "|" in line and place + 1 < len(lines) and re.fullmatch(r"[\s|:-]*-[\s|:-]*", lines[place + 1]):
            end = place + 2
            while end < len(lines) and "|" in lines[end]:
                end += 1
            rows = tuple(cells for row in lines[place + 2 : end] if any(cells := _cells(row)))
            if any(heading := _cells(line)):
                yield Grid(_plain(caption), heading, rows, place + 1)
            caption, place = "", end
            continue
        caption = line or caption
        place += 1


def _cells(line: str) -> tuple[str, ...]:
    cells = re.split(r"(?<!\\)\|", line.strip())
    cells = cells[1:] if not cells[0].strip() else cells
    cells = cells[:-1] if cells and not cells[-1].strip() and line.strip().endswith("|") else cells
    return tuple(_plain(cell) for cell in cells)


def _plain(text: str) -> str:
    """Without the marks of Markdown: bold, code, formulas, backslashes."""
    text = re.sub(r"(?<!\\)(\*\*|[`$])", "", text).strip().strip("*#").strip()
    return re.sub(r"\\(.)", r"\1", text)

"""Tables as data: CSV for spreadsheets, JSON for programs, with every digit."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from regard import arrays
from regard.tables import Column, Table
from regard.trace.provenance import setup


def to_csv(tables: Table | Iterable[Table]) -> str:
    r"""Comma-separated values; a vector takes one column for each of its numbers: q_1, q_2, …

    Several tables are written one after the other, with a first column that names the table.
    Numbers are written in full, −inf as `-inf`.

    >>> table = Table("T", (Column("Word", "word"), Column("q", "vector")), (("The", [1.0, 0.5]), ("cat", None)))
    >>> to_csv(table)
    'Word,q_1,q_2\r\nThe,1.0,0.5\r\ncat,,\r\n'
    """
    one = isinstance(tables, Table)
    tables = [tables] if isinstance(tables, Table) else list(tables)
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    heading: list[str] = []
    for table in tables:
        sizes = [_size(table, place) for place in range(len(table.columns))]
        parts = [name for column, size in zip(table.columns, sizes, strict=True) for name in _names(column, size)]
        names = parts if one else ["table", *parts]
        if names != heading:
            writer.writerow(names)
            heading = names
        for row in table.rows:
            cells = [part for cell, size in zip(row, sizes, strict=True) for part in _fields(cell, size)]
            writer.writerow(cells if one else [table.title, *cells])
    return stream.getvalue()


def to_json(tables: Table | Iterable[Table], indent: int | None = 2) -> str:
    """Standard JSON: title, columns, rows as objects, notes. Several tables become an array.

    JSON has no NaN and no infinity: these are the strings "NaN", "Infinity" and "-Infinity".
    """
    content: Any = _as_object(tables) if isinstance(tables, Table) else [_as_object(table) for table in tables]
    return json.dumps(content, ensure_ascii=False, allow_nan=False, indent=indent) + "\n"


def trace_to_json(trace: Any, indent: int | None = None) -> str:
    """Every step of a trace, its numbers nested as their axes are, and the matrices and settings behind them."""
    content = {
        "words": list(trace.words),
        "query_words": list(trace.query_words),
        "first_query": trace.first_query,
        "note": trace.note,
        **{name: _plain(part) for name, part in setup(trace).items()},
        "steps": [
            {"name": step.name, "formula": step.formula, "axes": list(step.axes), "array": _plain(step.array)}
            for step in trace.steps
        ],
    }
    return json.dumps(content, ensure_ascii=False, allow_nan=False, indent=indent) + "\n"


def _as_object(table: Table) -> dict[str, Any]:
    names = [column.name for column in table.columns]
    return {
        "title": table.title,
        "columns": [{"name": column.name, "kind": column.kind} for column in table.columns],
        "rows": [dict(zip(names, map(_plain, row), strict=True)) for row in table.rows],
        "notes": list(table.notes),
        "highlight": table.highlight,
    }


def _plain(value: Any) -> Any:
    """As JSON values: arrays as lists, non-finite numbers as their names."""
    if arrays.is_tensor(value) or isinstance(value, (np.ndarray, np.generic)):
        value = arrays.numpy_of(value).tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)


def _size(table: Table, place: int) -> int | None:
    """The longest vector of a column; None for other columns."""
    if table.columns[place].kind != "vector":
        return None
    return max((len(row[place]) for row in table.rows if row[place] is not None), default=0)


def _names(column: Column, size: int | None) -> list[str]:
    return [column.name] if size is None else [f"{column.name}_{part + 1}" for part in range(size)]


def _fields(cell: Any, size: int | None) -> list[Any]:
    if size is None:
        return ["" if cell is None else float(cell) if isinstance(cell, np.floating) else cell]
    numbers = [] if cell is None else [float(number) for number in cell]
    return [*numbers, *[""] * (size - len(numbers))]

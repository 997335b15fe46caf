"""Tables as CSV, JSON and Markdown, and the cells as every format prints them."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from regard import arrays
from regard.output.characters import printable
from regard.tables import Column, Table, guarded_cell, printed_number
from regard.tables import printed_cell as _printed_cell
from regard.trace.named_steps import setup
from regard.trace.trace import source_in_words


def parts_of(vector: Iterable[Any], digits: int) -> list[str]:
    """The printed numbers of a vector.

    >>> parts_of([1, 0.5, -0.25], 2)
    ['1.00', '0.50', '−0.25']
    """
    return [printed_number(number, digits) for number in vector]


def shortened(parts: Sequence[str], most: int) -> list[str]:
    """At most `most` parts: the first ones, … and the last.

    >>> shortened(["1", "2", "3", "4", "5"], 4), shortened(["1", "2", "3"], 2)
    (['1', '2', '…', '5'], ['1', '…'])
    """
    if len(parts) <= most:
        return list(parts)
    return [*parts[: most - 2], "…", parts[-1]] if most > 2 else [parts[0], "…"]


def printed(cell: Any, column: Column) -> str:
    """One cell as text on a single line, vectors in full."""
    return printable(_printed_cell(cell, column))


def strongest(table: Table, place: int) -> float | None:
    """The largest number of a shaded column, which formats without colour print bold; None if none is above 0."""
    if not table.columns[place].shade:
        return None
    return max((row[place] for row in table.rows if row[place] is not None and row[place] > 0), default=None)


def sum_below(table: Table) -> tuple[Table, bool]:
    """The table with its last column, if that is the sum of the vectors in the column before it, as a last row."""
    if len(table.columns) < 3 or table.columns[-1].name != "sum" or len(table.rows) < 2:
        return table, False
    if any(column.kind != "vector" for column in table.columns[-2:]):
        return table, False
    sums = [row[-1] for row in table.rows if row[-1] is not None]
    if len(sums) != 1:
        return table, False
    foot: list[Any] = [None] * (len(table.columns) - 1)
    foot[0], foot[-1] = "sum", sums[0]
    for index, column in enumerate(table.columns[:-1]):
        if column.shade:
            foot[index] = sum(row[index] for row in table.rows if row[index] is not None)
    rows = (*(row[:-1] for row in table.rows), tuple(foot))
    return replace(table, columns=table.columns[:-1], rows=rows), True


# CSV and JSON


def to_csv(tables: Table | Iterable[Table]) -> str:
    r"""Comma-separated values; a vector takes one column for each of its numbers: q_1, q_2, …

    Several tables are written one after the other, with a first column that names the table. A last column says where
    the numbers come from, if that is known.
    Numbers are written in full, −inf as `-inf`; text that a spreadsheet would compute has an apostrophe before it.

    >>> table = Table("T", (Column("Word", "word"), Column("q", "vector")), (("The", [1.0, 0.5]), ("cat", None)))
    >>> to_csv(table)
    'Word,q_1,q_2\r\nThe,1.0,0.5\r\ncat,,\r\n'
    """
    is_single = isinstance(tables, Table)
    tables = [tables] if isinstance(tables, Table) else list(tables)
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    heading: list[str] = []
    for table in tables:
        first = [] if is_single else [guarded_cell(table.title)]
        source = [guarded_cell(table.source)] if table.source else []
        vectors = [column.kind == "vector" for column in table.columns]
        sizes = [
            max((len(row[at]) for row in table.rows if row[at] is not None), default=0) if is_vector else 0
            for at, is_vector in enumerate(vectors)
        ]
        names = ["table"] * len(first)
        for column, is_vector, size in zip(table.columns, vectors, sizes, strict=True):
            names += [f"{column.name}_{part + 1}" for part in range(size)] if is_vector else [column.name]
        names += ["source"] * len(source)
        if names != heading:
            writer.writerow(map(guarded_cell, names))
            heading = names
        for row in table.rows:
            cells: list[Any] = []
            for cell, is_vector, size in zip(row, vectors, sizes, strict=True):
                numbers = [] if cell is None or not is_vector else [float(number) for number in cell]
                cells += [*numbers, *[""] * (size - len(numbers))] if is_vector else [_field(cell)]
            writer.writerow([*first, *cells, *source])
    return stream.getvalue()


def _field(cell: Any) -> Any:
    if isinstance(cell, str):
        return guarded_cell(cell)
    return "" if cell is None else float(cell) if isinstance(cell, np.floating) else cell


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
        "source": source_in_words(trace),
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
        **({"source": table.source} if table.source else {}),
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


# Markdown, as GitHub, notebooks and most editors read it

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$&])")


def to_markdown(table: Table) -> str:
    r"""The table with its title above and its notes below; the query word and the largest weight are bold.

    >>> columns = Column("Word", "word"), Column("softmax", "number", shade=True)
    >>> table = Table("Weights", columns, (("The", 0.42), ("a|b", 0.1)))
    >>> print(to_markdown(table), end="")
    **Weights**
    <BLANKLINE>
    | Word | softmax |
    | :--- | ---: |
    | The | **0.42** |
    | a\|b | 0.10 |
    """
    lines = [f"**{escaped_markdown(table.title)}**", ""] if table.title else []
    lines += [_line(escaped_markdown(column.name) for column in table.columns)]
    lines += [_line("---:" if column.kind in ("number", "vector") else ":---" for column in table.columns)]
    largest = [strongest(table, index) for index in range(len(table.columns))]
    for index, row in enumerate(table.rows):
        cells = []
        for cell, column, most in zip(row, table.columns, largest, strict=True):
            text = printed(cell, column)
            if column.kind == "vector":
                cells.append(f"[{text}]" if text else "")
                continue
            is_bold = (index == table.highlight and column.kind == "word") or (most is not None and cell == most)
            mark = "**" if is_bold and text.strip() else ""
            cells.append(f"{mark}{escaped_markdown(text)}{mark}")
        lines.append(_line(cells))
    lines += [line for note in table.all_notes for line in ("", f"*{escaped_markdown(note)}*")]
    return "\n".join(lines) + "\n"


def escaped_markdown(text: str) -> str:
    r"""Text with Markdown's special characters escaped.

    >>> escaped_markdown("*a*|b\nc")
    '\\*a\\*\\|b↵c'
    """
    return _SPECIAL.sub(r"\\\1", printable(text))


def _line(cells: Any) -> str:
    return "| " + " | ".join(cells) + " |"

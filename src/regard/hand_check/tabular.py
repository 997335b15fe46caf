"""Notes as tables, in three forms that CSV and Markdown share.

- a line for each fact: step · query · key · numbers
- a matrix: the step in the first heading, a row for each word
- the slide's: Word · q · k · v · score · score/√d_k · softmax · softmax × v · sum, one table for each word that asks
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.hand_check import wording
from regard.hand_check.naming import MATRICES, PER_KEY, meant, step_named
from regard.hand_check.written import is_blank, numbers_in

OF_WORDS = ("embedding", "query", "key", "value")  # vectors that a word has, whoever asks
NUMBER_COLUMNS = ("numbers", "number", "value", "values")
TOTALS = {"", "sum", "σ", "total"}


@dataclass(frozen=True)
class Grid:
    """A table as it was found."""

    caption: str  # the line above it
    heading: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    line: int

    def records(self) -> list[dict[str, str]]:
        """Every row by heading; cells that are missing at the end are blank."""
        return [dict(zip(self.heading, [*row, *[""] * len(self.heading)], strict=False)) for row in self.rows]


def document_of(grids: Sequence[Grid], source: str) -> dict[str, Any]:
    """What all tables say together."""
    document: dict[str, Any] = {}
    words = words_in(grids)
    for grid in grids:
        for row in grid.rows:
            if len(row) > len(grid.heading):
                raise wording.too_many_cells(source, row, len(grid.heading))
        first = grid.heading[0].casefold()
        if first == "step":
            _facts(document, grid, source)
        elif step_named(grid.heading[0]) not in (None, "words"):
            _matrix(document, grid, source)
        else:
            _slide(document, grid, source, words)
    return document


def words_in(grids: Sequence[Grid]) -> list[str]:
    """All labels of rows, for a caption to name one of them."""
    tables = [grid for grid in grids if grid.heading[0].casefold() != "step"]
    return [row[_labels_of(grid) - 1] for grid in tables for row in grid.rows if len(row) >= _labels_of(grid)]


def _put(document: dict[str, Any], path: Sequence[str], part: Any, source: str) -> None:
    """Set a part; the same numbers may be said twice, different ones not."""
    for name in path[:-1]:
        document = document.setdefault(name, {})
        if not isinstance(document, dict):
            raise wording.given_twice(source, ", ".join(path))
    if document.setdefault(path[-1], part) != part:
        raise wording.given_twice(source, ", ".join(path))


def _facts(document: dict[str, Any], grid: Grid, source: str) -> None:
    """step · query · key · numbers."""
    names = [name.casefold() for name in grid.heading]
    column = next((name for name in NUMBER_COLUMNS if name in names), None)
    if column is None:
        raise wording.unknown_name(source, grid.heading[-1], ("step", "query", "key", "numbers"))
    for number, record in enumerate(grid.records(), 1):
        fact = {name.casefold(): cell for name, cell in record.items()}
        where = f"{source}, row {number}"
        step = meant(fact["step"], where)
        if is_blank(fact[column]):
            continue
        if step in MATRICES:
            rows = [numbers_in(row, where) for row in re.split(r"[;/]", fact[column]) if row.strip()]
            _put(document, [step], "I" if fact[column].strip() == "I" else rows, where)
            continue
        if step in ("product", "title"):
            _put(document, [step], fact[column], where)
            continue
        numbers: Any = numbers_in(fact[column], where)
        labels = [fact.get(name, "") for name in ("query", "word", "key")]
        path = [step, *(label for label in labels if label)]
        is_one = step == "divisor" or (step in PER_KEY and len(path) == 3)
        _put(document, path, numbers[0] if is_one and len(numbers) == 1 else numbers, where)


def _matrix(document: dict[str, Any], grid: Grid, source: str) -> None:
    """The step in the first heading; below it the words, to the right the words of the keys or places in a vector."""
    step = meant(grid.heading[0], source)
    where = f"{source}, table at line {grid.line}"
    rows = [[cell if not is_blank(cell) else None for cell in row[1:]] for row in grid.rows]
    if step in MATRICES:
        _put(document, [step], rows, where)
        return
    labels = _counted([row[0] for row in grid.rows])
    keys = _counted(grid.heading[1:])
    for label, row in zip(labels, rows, strict=True):
        if step in PER_KEY and not all(key.isdigit() for key in keys):
            for key, cell in zip(keys, row, strict=False):
                if cell is not None:
                    _put(document, [step, label, key], cell, where)
        elif len(row) == 1 and row[0] is not None:
            _put(document, [step, label], numbers_in(row[0], where), where)
        elif any(cell is not None for cell in row):
            _put(document, [step, label], row, where)


def _slide(document: dict[str, Any], grid: Grid, source: str, words: Sequence[str]) -> None:
    """A row for each word that is looked at."""
    where = f"{source}, table at line {grid.line}"
    labels = _labels_of(grid)
    columns = {name: _column(name, where) for name in grid.heading[labels:]}
    records = [_joined(record, columns, where) for record in grid.records()]
    blocks: dict[str, list[tuple[str, dict[str, list[str]]]]] = {}
    for row, record in zip(grid.rows, records, strict=True):
        asking = row[0] if labels == 2 else grid.caption
        blocks.setdefault(asking, []).append((row[labels - 1] if len(row) >= labels else "", record))
    for asking, rows in blocks.items():
        block = list(zip(_counted([word for word, _ in rows]), [record for _, record in rows], strict=True))
        query = asking if asking in words and labels == 2 else None
        query = query or _alone(block, "query") or _named_in(asking, words) or _alone(block, "output")
        is_one_sum = sum("output" in record for _, record in block) == 1
        for word, record in block:
            for step, numbers in record.items():
                path = _path(step, word, query, where)
                if step == "output" and query is not None and is_one_sum:  # in whichever row it stands
                    path = [step, query]
                _put(document, path, _one(step, numbers), where)


def _labels_of(grid: Grid) -> int:
    """How many columns of words come first: the word alone, or the query (or the table's title) before it."""
    second = grid.heading[1].casefold() if len(grid.heading) > 1 else ""
    return 2 if second in ("word", "key") and grid.heading[0].casefold() in ("query", "table", "asks") else 1


def _column(name: str, where: str) -> str:
    """The step of a column; q_1, q_2 … are the parts of q."""
    split = re.fullmatch(r"(.+)_(\d+)", name)
    return meant(split[1] if split and step_named(name) is None else name, where)


def _joined(record: Mapping[str, str], columns: Mapping[str, str], where: str) -> dict[str, list[str]]:
    """The numbers of a row by step, the parts of a vector put together."""
    steps: dict[str, list[str]] = {}
    for name, step in columns.items():
        if not is_blank(record[name]):
            steps.setdefault(step, []).extend(numbers_in(record[name], f"{where}, column {name}"))
    return steps


def _one(step: str, numbers: list[str]) -> Any:
    return numbers[0] if step in PER_KEY and len(numbers) == 1 else numbers


def _path(step: str, word: str, query: str | None, where: str) -> list[str]:
    if step in OF_WORDS or (step == "output" and word.casefold() not in TOTALS):
        return [step, word]
    if query is None:
        raise wording.which_query(where, step)
    return [step, query] if step == "output" else [step, query, word]


def _named_in(caption: str, words: Sequence[str]) -> str | None:
    """The one word that a caption names."""
    parts = set(re.findall(r"[^\s:,.;()]+", caption))
    found = {word for word in words if word in parts}
    return found.pop() if len(found) == 1 else None


def _alone(block: Sequence[tuple[str, Mapping[str, Any]]], step: str) -> str | None:
    """The word of the only row with a query, or with an output."""
    rows = [word for word, record in block if step in record and word.casefold() not in TOTALS]
    return rows[0] if len(rows) == 1 else None


def _counted(labels: Sequence[str]) -> list[str]:
    """Repeated words with their number.

    >>> _counted(["the", "cat", "the"])
    ['the', 'cat', 'the (2)']
    """
    seen: Counter[str] = Counter()
    named = []
    for label in labels:
        seen[label] += 1
        named.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return named

"""Tables in CSV and Markdown, in the forms that notes take.

- facts: step · query · key · numbers, one line per fact
- a matrix: the step or the W in the first heading, a row per word or per row of W
- weights: Row · W_q · W_k · W_v, a row per component of the embedding
- settings: Setting · value
- the step table of the slides: Word · q · k · v · score · score/√d_k · softmax · softmax × v · sum, one per query
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regard.errors import OptionError, count, did_you_mean, shown
from regard.hand_check.notation import (
    AFTER_HEADS,
    AXES,
    MATRICES,
    PER_KEY,
    SETTINGS,
    VECTORS,
    canonical,
    is_blank,
    numbers_in,
    step_named,
)
from regard.trace.labels import numbered

if TYPE_CHECKING:
    from regard.hand_check.documents import Document

NUMBER_COLUMNS = ("numbers", "number", "vector", "value", "values")
TOTALS = {"", "sum", "σ", "total"}
OMITTED = re.compile(r"… [\d,]+ more")  # a row that sums up the rows a shortened table leaves out
HEAD = re.compile(r"\bheads?\s+(\d+)\b", re.IGNORECASE)
TITLE = re.compile(r"Query (.+?)(?:, head (\d+))?: d_k = .*|(.+): (?:all heads together|after W_O)", re.DOTALL)
NAMING = (
    re.compile(r"query:? (.+?)(?:,? head \d+)?[:.]?", re.DOTALL | re.IGNORECASE),
    re.compile(r"(.+) asks\b.*", re.DOTALL),
    re.compile(r"(.+?):.*", re.DOTALL),
)
OCCURRENCE = re.compile(r"(.+?)(?: \((\d+)\)|:(\d+))", re.DOTALL)  # the (2), the:2


@dataclass(frozen=True)
class Grid:
    """A table as found in a file."""

    caption: str  # the line above it
    heading: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    line: int

    def records(self) -> list[dict[str, str]]:
        """Each row by heading; missing cells at the end are blank."""
        return [dict(zip(self.heading, [*row, *[""] * len(self.heading)], strict=False)) for row in self.rows]


def read_grids(grids: Sequence[Grid], document: Document) -> None:
    """Add what all tables hold to the document."""
    words = _row_labels(grids)
    for grid in grids:
        for row in grid.rows:
            if len(row) > len(grid.heading):
                raise OptionError(
                    f"{document.source}: the row {shown(', '.join(row))} has {count(len(row), 'cell')} for "
                    f"{count(len(grid.heading), 'heading')}.\n"
                    "Separate several numbers in one cell with spaces, and write decimals with a point."
                )
        first = grid.heading[0].casefold()
        where = f"{document.source}, table at line {grid.line}"
        if first == "step":
            _read_facts(grid, document, where, words)
        elif first in ("setting", "settings"):
            for row in grid.rows:
                if len(row) > 1 and not is_blank(row[1]):
                    document.set(canonical(row[0], where, SETTINGS + MATRICES), row[1], where)
        elif first == "row":
            _read_weights(grid, document, where)
        elif _step_and_head(grid.heading[0])[0] not in (None, "words"):
            _read_matrix(grid, document, where)
        else:
            _read_steps(grid, document, where, words)


def _row_labels(grids: Sequence[Grid]) -> list[str]:
    """The words that label rows, so that a caption can name one of them."""
    labels: list[str] = []
    for grid in grids:
        if grid.heading[0].casefold() not in ("step", "row", "setting"):
            column = _label_columns(grid) - 1
            labels += [row[column] for row in grid.rows if len(row) > column]
    return labels


def _step_and_head(name: str) -> tuple[str | None, int | None]:
    """A step, and the head that is named beside it: "weights, head 1"."""
    found = HEAD.search(name)
    bare = name if not found else HEAD.sub("", name).strip(" ,:()")
    return step_named(bare), int(found[1][:9]) if found else None


def _head_in(caption: str) -> int | None:
    """The head that a caption names."""
    title, found = TITLE.fullmatch(caption), HEAD.search(caption)
    number = title[2] if title else found[1] if found else None
    return None if number is None else int(number[:9])


def _read_facts(grid: Grid, document: Document, where: str, words: Sequence[str]) -> None:
    """step · query · key · numbers, and optionally head; the caption may name the query."""
    names = [name.casefold() for name in grid.heading]
    columns = [name for name in names if re.sub(r"_\d+$", "", name) in NUMBER_COLUMNS]
    if not columns:
        known = ("step", "head", "query", "key", "numbers")
        raise OptionError(
            f"{where}: no column holds numbers.{did_you_mean(names[-1], known)}\nThe columns: {', '.join(known)}."
        )
    asking = _query_in(grid.caption, words)
    for number, record in enumerate(grid.records(), 1):
        fact = {name.casefold(): cell for name, cell in record.items()}
        cell = " ".join(fact[name] for name in columns if not is_blank(fact[name]))
        at = f"{where}, row {number}"
        step, head = _step_and_head(fact["step"])
        step = step or canonical(fact["step"], at)
        if is_blank(cell):
            continue
        if step in MATRICES:
            rows = [numbers_in(row, at) for row in re.split(r"[;/]", cell) if row.strip()]
            document.add(step, "I" if cell.strip() == "I" else rows, head=head, where=at)
            continue
        if step in SETTINGS:
            document.set(step, cell, at)
            continue
        if fact.get("head", "").strip().isdigit():
            head = int(fact["head"].strip()[:9])
        numbers: Any = numbers_in(cell, at)
        path = [label for name in ("query", "word", "key") if (label := fact.get(name, ""))]
        if not path and asking is not None and AXES.get(step, ("",))[0] == "query":
            path = [asking]
        is_one = step in PER_KEY and len(path) == 2 and len(numbers) == 1
        document.add(step, numbers[0] if is_one else numbers, path=tuple(path), head=head, where=at)


def _read_weights(grid: Grid, document: Document, where: str) -> None:
    """Row · W_q · W_k · W_v: a row of each matrix per line."""
    matrices: dict[str, list[list[str]]] = {}
    columns = {name: _column(name, where) for name in grid.heading[1:]}
    for record in grid.records():
        for name, numbers in _joined(record, columns, where).items():
            if name not in MATRICES:
                raise OptionError(f"{where}: column {shown(name)} in a table of weights; expected W_q, W_k, W_v, W_O.")
            matrices.setdefault(name, []).append(numbers)
    for name, rows in matrices.items():
        document.add(name, rows, where=where)


def _read_matrix(grid: Grid, document: Document, where: str) -> None:
    """The step in the first heading; words down the side, words or component numbers across the top."""
    step, head = _step_and_head(grid.heading[0])
    assert step is not None
    head = _head_in(grid.caption) if head is None else head
    rows: list[list[Any]] = [[cell if not is_blank(cell) else None for cell in row[1:]] for row in grid.rows]
    if step in MATRICES:
        document.add(step, rows, head=head, where=where)
        return
    labels = numbered([row[0] for row in grid.rows])
    keys = numbered(grid.heading[1:])
    for label, row in zip(labels, rows, strict=True):
        if step == "mask":
            document.settings.setdefault("mask", {})[label] = row
        elif step in PER_KEY and not all(key.isdigit() for key in keys):
            for key, cell in zip(keys, row, strict=False):
                if cell is not None:
                    document.add(step, cell, path=(label, key), head=head, where=where)
        elif len(row) == 1 and row[0] is not None:
            document.add(step, numbers_in(row[0], where), path=(label,), head=head, where=where)
        elif any(cell is not None for cell in row):
            document.add(step, row, path=(label,), head=head, where=where)


def _read_steps(grid: Grid, document: Document, where: str, words: Sequence[str]) -> None:
    """A row per key; the query is named by the caption, by a column, or by the only row with a q."""
    labels = _label_columns(grid)
    columns = {name: _column(name, where) for name in grid.heading[labels:]}
    blocks: dict[str, list[tuple[str, dict[str, list[str]]]]] = {}
    for row, record in zip(grid.rows, grid.records(), strict=True):
        label = row[labels - 1] if len(row) >= labels else ""
        if not OMITTED.fullmatch(label):
            asking = row[0] if labels == 2 else grid.caption
            blocks.setdefault(asking, []).append((label, _joined(record, columns, where)))
    for asking, rows in blocks.items():
        block = list(zip(numbered([label for label, _ in rows]), [record for _, record in rows], strict=True))
        head = _head_in(asking)
        query = asking if asking in words and labels == 2 else None
        query = query or _query_in(asking, words) or _alone(block, "query") or _alone(block, "output")
        is_one_sum = sum("output" in record for _, record in block) == 1
        is_one_query = sum("query" in record for _, record in block) == 1
        for label, steps in block:
            for step, numbers in steps.items():
                is_total = label.casefold() in TOTALS and label not in words
                if step == "weight" and is_total:  # the weights sum to 1
                    continue
                step = "output" if step == "weighted_value" and is_total else step
                path = _path(step, label, is_total, query, where)
                if query is not None and ((step == "output" and is_one_sum) or (step == "query" and is_one_query)):
                    path = (query,)  # in whichever row they are printed
                content = numbers[0] if step in PER_KEY and len(numbers) == 1 else numbers
                document.add(step, content, path=path, head=head, where=where, is_printed=step in VECTORS)


def _label_columns(grid: Grid) -> int:
    """Number of leading columns that hold words: the key alone, or the query before it."""
    second = grid.heading[1].casefold() if len(grid.heading) > 1 else ""
    return 2 if second in ("word", "key") and grid.heading[0].casefold() in ("query", "asks") else 1


def _column(name: str, where: str) -> str:
    """The step of a column; q_1, q_2 … are the components of q."""
    split = re.fullmatch(r"(.+)_(\d+)", name)
    return canonical(split[1] if split and step_named(name) is None else name, where)


def _joined(record: Mapping[str, str], columns: Mapping[str, str], where: str) -> dict[str, list[str]]:
    """The numbers of a row by step, with the components of a vector together."""
    steps: dict[str, list[str]] = {}
    for name, step in columns.items():
        if not is_blank(record[name]):
            steps.setdefault(step, []).extend(numbers_in(record[name], f"{where}, column {name}"))
    return steps


def _path(step: str, label: str, is_total: bool, query: str | None, where: str) -> tuple[str, ...]:
    if step in VECTORS or (step in ("output", *AFTER_HEADS) and not is_total):
        return (label,)
    if query is None:
        raise OptionError(
            f"{where}: which query is column {step!r} for?\n"
            "Name it in the line above the table or in a column Query, or give q or sum in its row only."
        )
    return (query,) if AXES.get(step, ("",))[-1] != "key" and step != "weighted_value" else (query, label)


def _query_in(caption: str, words: Sequence[str]) -> str | None:
    """The word that a caption names: "Query cat, head 1: …", or the only word of the table in it."""
    if found := TITLE.fullmatch(caption):  # of a table that Regard wrote; queries of cross-attention label no row
        return found[1] or found[3]
    known = set(words)
    for pattern in NAMING:
        if (found := pattern.fullmatch(caption)) and (found[1] in known or _word_of(found[1]) in known):
            return found[1]
    parts = set(re.findall(r"[^\s:,.;()]+", caption))
    named = {word for word in words if word in parts}
    return named.pop() if len(named) == 1 else None


def _word_of(label: str) -> str:
    found = OCCURRENCE.fullmatch(label)
    return found[1] if found else label


def _alone(block: Sequence[tuple[str, Mapping[str, Any]]], step: str) -> str | None:
    """The label of the only row with a query, or with an output."""
    rows = [label for label, record in block if step in record and label.casefold() not in TOTALS]
    return rows[0] if len(rows) == 1 else None

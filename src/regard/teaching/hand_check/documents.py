"""Notes as they are read from a file or a dictionary: settings, and entries that name a step and hold its numbers.

Tables in CSV and Markdown come in these forms:

- facts: step · query · key · numbers, one line per fact
- a matrix: the step or the W in the first heading, a row per word or per row of W
- weights: Row · W_q · W_k · W_v, a row per component of the embedding
- settings: Setting · value
- the step table of the slides: Word · q · k · v · score · score/√d_k · softmax · softmax × v · sum, one per query
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard import input_file, validate
from regard.errors import OptionError, count, did_you_mean, kind_of, shown
from regard.tables import unguarded_cell
from regard.teaching.hand_check.notation import (
    AFTER_HEADS,
    AXES,
    MATRICES,
    PER_KEY,
    SETTINGS,
    SPELLING_OF,
    VECTORS,
    canonical,
    is_blank,
    not_finite,
    numbers_in,
    step_named,
)
from regard.trace.labels import numbered

ENDINGS = (".json", ".csv", ".md")
TRACE_ONLY = ("capped", "biased", "positioned", "attended", "fed_forward", "result")
MOST_NESTED = 100
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
class Entry:
    """Numbers of one step, nested along the axes that `path` leaves open."""

    step: str  # a step, a matrix, "embedding" or "context"
    content: Any
    path: tuple[str, ...] = ()  # labels along the first axes
    head: int | None = None
    where: str = ""
    is_printed: bool = False  # from a column of a step table, where numbers are rounded for print
    rows: tuple[int, int] | None = None  # first query and number of queries, if these are not all


@dataclass
class Document:
    """Everything that notes hold."""

    source: str  # what messages call it
    settings: dict[str, Any] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    blanks: list[Entry] = field(default_factory=list)  # cells of tables that were left blank; their content is None

    def set(self, name: str, value: Any, where: str) -> None:
        """Add a setting; a different value for the same setting is an error."""
        if self.settings.setdefault(name, value) != value:
            raise OptionError(f"{where}: {SPELLING_OF[name]!r} is given twice.\nLeave one of them out.")

    def add(self, step: str, content: Any, **more: Any) -> None:
        """Add an entry."""
        self.entries.append(Entry(step, content, **more))

    def add_blank(self, step: str, path: Sequence[str], head: int | None, where: str) -> None:
        """Add a cell that was left blank, if it is one for a number to calculate."""
        if step in AXES:
            self.blanks.append(Entry(step, None, tuple(path), head, where))

    def of(self, step: str) -> list[Entry]:
        """All entries of a step."""
        return [entry for entry in self.entries if entry.step == step]


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


def read(notes: str | Path | Mapping[str, Any]) -> Document:
    """Read a .json, .csv or .md file, or a dictionary of the form of the JSON."""
    if isinstance(notes, Mapping):
        return from_mapping(notes, "The notes")
    if not isinstance(notes, (str, Path)):
        raise OptionError(
            f"`notes` is {shown(notes)}, {kind_of(notes)}; expected the path of a .json, .csv or .md file, or a "
            'dictionary such as {"embeddings": …, "scores": …}.'
        )
    path = Path(notes)
    ending = path.suffix.casefold()
    try:
        if ending not in ENDINGS and path.is_file():
            came = f"ends in {path.suffix!r}" if path.suffix else "has no ending"
            raise OptionError(f"{str(path)!r} {came}; notes are read from {', '.join(ENDINGS)}.")
        text = input_file.read(path).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except OptionError:  # a wrong ending, or too large; it is a ValueError too
        raise
    except FileNotFoundError:
        raise OptionError(f"There is no file {str(path)!r}.\nCheck the name and the current folder.") from None
    except UnicodeDecodeError:
        raise _unreadable(path, "it is not UTF-8 text") from None
    except OSError as problem:
        raise _unreadable(path, problem.strerror or str(problem)) from None
    except ValueError as problem:  # a null character in the path, or a lone surrogate
        raise _unreadable(path, str(problem)) from None
    if not text.strip():
        raise empty(path.name)
    if ending == ".json":
        return from_mapping(from_json(text, path.name), path.name)
    document = Document(path.name)
    grids = list(_grids_of_csv(text, path.name) if ending == ".csv" else _grids_of_markdown(text))
    if not grids:
        raise OptionError(
            f"{path.name} holds no table.\nA Markdown table has a heading row, a row of dashes, and `|` between cells."
        )
    read_grids(grids, document)
    return document


def from_mapping(content: Mapping[str, Any], source: str) -> Document:
    """A document from what a JSON file holds: notes, or the steps that `regard steps --out steps.json` writes."""
    if not content:
        raise empty(source)
    document = Document(source)
    content = {str(name): plain(part, f"{source}: {shown(name)}") for name, part in content.items()}
    if isinstance(content.get("steps"), list):
        _read_trace(content, document)
        return document
    seen: set[str] = set()
    for spelling, part in content.items():
        name = canonical(spelling, source)
        if name in seen:
            raise OptionError(f"{source}: {shown(spelling)} is given twice.\nLeave one of them out.")
        seen.add(name)
        if name in SETTINGS:
            document.settings[name] = part
        else:
            document.add(name, part, where=source)
    return document


def _read_trace(content: Mapping[str, Any], document: Document) -> None:
    """Words, settings, matrices, and every step with a head axis in front where it has one."""
    source = document.source
    first, asked = content.get("first_query", 0), content.get("query_words", content.get("words", []))
    if isinstance(first, str) and first.isdigit():
        first = int(first)
    if not validate.is_integer(first) or not 0 <= first < 1 << 31:
        raise OptionError(f"{source}: 'first_query' is {shown(first)}; expected the position of a query.")
    if not isinstance(asked, list):
        raise OptionError(f"{source}: 'query_words' is {shown(asked)}; expected a list of words.")
    rows = (first, len(asked))
    for spelling, part in content.items():
        if spelling in ("steps", "first_query", "query_words", "source"):
            continue
        name = canonical(spelling, source)
        if name in SETTINGS:
            document.settings[name] = part
        else:
            document.add(name, part, where=source)
    for step in content["steps"]:
        called = step.get("name") if isinstance(step, dict) else None
        if not isinstance(called, str) or "array" not in step:
            raise OptionError(f'{source}: a step is {shown(step)}; expected {{"name": "score", "array": …}}.')
        if called in TRACE_ONLY:
            raise OptionError(f"{source}: step {called!r} cannot be checked by `regard check`.")
        name = canonical(called, source, ("embedding", *AXES))
        has_queries = name in AXES and AXES[name][0] == "query"
        document.add(name, step["array"], where=source, rows=rows if has_queries else None)
    if "context" in content or not _is_self(content, first, asked):
        document.settings["context_words"] = document.settings.pop("words", None)
        count = len(document.of("embedding")[0].content) if document.of("embedding") else first + len(asked)
        names = list(map(str, range(count)))
        names[first : first + len(asked)] = map(str, asked)
        document.settings["words"] = names[:count]
    mask, words = document.settings.get("mask"), document.settings.get("words")
    if isinstance(mask, list) and isinstance(words, list) and len(mask) == len(asked) < len(words):
        labels = numbered(words)[first : first + len(mask)]  # a mask of the queries here alone
        document.settings["mask"] = dict(zip(labels, mask, strict=False))


def _is_self(content: Mapping[str, Any], first: int, asked: Any) -> bool:
    words = content.get("words")
    return not isinstance(words, list) or words[first : first + len(asked)] == asked


def from_json(text: str, source: str) -> Mapping[str, Any]:
    """What a JSON text holds, with numbers as the text they were written with: 0.50 has two decimals."""

    def refuse(name: str) -> Any:
        if name == "-Infinity":
            return "-inf"
        raise not_finite(source, name)

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            names = [name for name, _ in pairs]
            double = next(name for name in names if names.count(name) > 1)
            raise OptionError(f"{source}: {shown(double)} is given twice.\nLeave one of them out.")
        return content

    try:
        content = json.loads(text, parse_float=str, parse_int=str, parse_constant=refuse, object_pairs_hook=once)
    except json.JSONDecodeError as problem:
        raise OptionError(
            f"{source} is not JSON: {problem.msg}, at line {problem.lineno}, column {problem.colno}.\n"
            "Look there and just before it for an extra comma, or a missing comma, bracket or quotation mark."
        ) from None
    except RecursionError:
        raise OptionError(f"{source} is nested too deeply.") from None
    if not isinstance(content, dict):
        came = "a list" if isinstance(content, list) else "a single value"
        raise OptionError(f'{source} holds {came}; expected an object such as {{"words": …, "embeddings": …}}.')
    return content


def plain(part: Any, where: str = "The notes", depth: int = 0) -> Any:
    """Arrays and tuples as lists, mappings as dictionaries by string, all the way down."""
    if depth > MOST_NESTED:
        raise OptionError(f"{where} is nested too deeply.")
    if hasattr(part, "tolist"):
        part = part.tolist()
    if isinstance(part, Mapping):
        return {str(name): plain(one, where, depth + 1) for name, one in part.items()}
    if isinstance(part, (list, tuple)):
        return [plain(one, where, depth + 1) for one in part]
    return part


def empty(source: str) -> OptionError:
    """A file or dictionary without content."""
    return OptionError(f"{source} is empty.\nNotes hold embeddings, or q, k and v, and the numbers calculated by hand.")


def _unreadable(path: Path, reason: str) -> OptionError:
    return OptionError(f"{str(path)!r} cannot be read: {reason}.\nNotes are UTF-8 text: .json, .csv or .md.")


def is_step_name(name: object) -> bool:
    """Whether a key of a JSON object names a step, a matrix or a setting."""
    return isinstance(name, str) and step_named(name) is not None


# CSV


def _grids_of_csv(text: str, source: str) -> Iterator[Grid]:
    """Tables separated by blank lines, or by a new heading where the first column is called table."""
    first = next(line for line in text.splitlines() if line.strip())
    delimiter = max(",;\t", key=first.count)  # the comma in a tie
    rows: list[tuple[str, ...]] = []
    start = 1
    reader = csv.reader(text.splitlines(keepends=True), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            cells = tuple(unguarded_cell(cell.strip()) for cell in row)
            is_heading = len(cells) > 1 and cells[0].casefold() == "table"
            if rows and (not any(cells) or is_heading):
                yield from _by_title(_without_source(rows, start))
                rows = []
            if any(cells):
                start = start if rows else reader.line_num
                rows.append(cells)
    except csv.Error as problem:
        raise OptionError(
            f"{source} is not CSV: {problem}, at line {reader.line_num}.\nLook for an unclosed quotation mark."
        ) from None
    if rows:
        yield from _by_title(_without_source(rows, start))


def _without_source(rows: Sequence[tuple[str, ...]], start: int) -> Grid:
    """The grid of these rows; a last column that says where the numbers come from is left out."""
    width = len(rows[0]) - (rows[0][-1].casefold() == "source")
    return Grid("", rows[0][:width], tuple(row[:width] if len(row) <= len(rows[0]) else row for row in rows[1:]), start)


def _by_title(grid: Grid) -> Iterator[Grid]:
    """One grid per title, if the first column holds the title of the table that a row belongs to."""
    if grid.heading[0].casefold() != "table" or len(grid.heading) < 2:
        yield grid
        return
    blocks: dict[str, list[tuple[str, ...]]] = {}
    for row in grid.rows:
        blocks.setdefault(row[0], []).append(row[1:])
    for title, rows in blocks.items():
        yield Grid(title, grid.heading[1:], tuple(rows), grid.line)


# Markdown


def _grids_of_markdown(text: str) -> Iterator[Grid]:
    """Tables, each with the last line of text above it as its caption."""
    lines, caption, place = text.splitlines(), "", 0
    while place < len(lines):
        line = lines[place].strip()
        if "|" in line and place + 1 < len(lines) and re.fullmatch(r"[\s|:-]*-[\s|:-]*", lines[place + 1]):
            end = place + 2
            while end < len(lines) and "|" in lines[end]:
                end += 1
            rows = tuple(cells for row in lines[place + 2 : end] if any(cells := _cells(row)))
            if any(heading := _cells(line)):
                yield Grid(_unmarked(caption.lstrip("# ")), heading, rows, place + 1)
            caption, place = "", end
            continue
        caption = line or caption
        place += 1


def _cells(line: str) -> tuple[str, ...]:
    cells = re.split(r"(?<!\\)\|", line.strip())
    cells = cells[1:] if not cells[0].strip() else cells
    cells = cells[:-1] if cells and not cells[-1].strip() and line.strip().endswith("|") else cells
    return tuple(map(_unmarked, cells))


def _unmarked(text: str) -> str:
    r"""Text without Markdown's marks for bold, italic, code and formulas, and without its backslashes.

    >>> _unmarked("**cat**"), _unmarked("*cat*"), _unmarked(r"C\#"), _unmarked(r"\*\*"), _unmarked("softmax * v")
    ('cat', 'cat', 'C#', '**', 'softmax * v')
    """
    text = text.strip()
    if re.fullmatch(r"\*[^*]*[^*\\]\*", text):
        text = text[1:-1]
    return re.sub(r"\\(.)|\*\*|[`$]", lambda match: match[1] or "", text).strip()


# Tables to entries


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
        if is_blank(cell) and step not in AXES:
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
        if is_blank(cell):
            document.add_blank(step, path, head, at)
            continue
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
                else:
                    document.add_blank(step, (label, key), head, where)
        elif len(row) == 1 and row[0] is not None:
            document.add(step, numbers_in(row[0], where), path=(label,), head=head, where=where)
        elif any(cell is not None for cell in row):
            document.add(step, row, path=(label,), head=head, where=where)
        else:
            document.add_blank(step, (label,), head, where)


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
        for step, path in _blank_cells(block, set(columns.values()), query):
            document.add_blank(step, path, head, where)
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


def _blank_cells(
    block: Sequence[tuple[str, Mapping[str, Any]]], columns: Collection[str], query: str | None
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Steps and places of the blank cells of a step table; q and the sum of its query stand in one row of it."""
    of_keys = {*PER_KEY, "weighted_value"} & {*columns}
    for step in {"query", "output"} & {*columns} if of_keys else ():
        is_total = step == "output" and _total_holds_output(block)
        if query is not None and not is_total and not any(step in record for _, record in block):
            yield step, (query,)
    for label, record in block:
        if label.casefold() in TOTALS:
            continue
        for step in columns:
            if step in record or (of_keys and step in ("query", "output")):
                continue
            if step not in of_keys:
                yield step, (label,)
            elif query is not None:
                yield step, (query, label)


def _total_holds_output(block: Sequence[tuple[str, Mapping[str, Any]]]) -> bool:
    return any(label.casefold() in TOTALS and "weighted_value" in record for label, record in block)


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

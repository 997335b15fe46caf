"""Notes as they are read from a file or a dictionary: settings, and entries that name a step and hold its numbers."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard import input_file
from regard.errors import OptionError, kind_of, shown
from regard.hand_check.grids import Grid, read_grids
from regard.hand_check.notation import AXES, MATRICES, SETTINGS, SPELLING_OF, canonical, not_finite, step_named
from regard.trace.labels import numbered

ENDINGS = (".json", ".csv", ".md")
TRACE_ONLY = ("capped", "biased", "positioned", "attended", "fed_forward", "result")
MOST_NESTED = 100


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

    def set(self, name: str, value: Any, where: str) -> None:
        """Add a setting; a different value for the same setting is an error."""
        if self.settings.setdefault(name, value) != value:
            raise OptionError(f"{where}: {SPELLING_OF[name]!r} is given twice.\nLeave one of them out.")

    def add(self, step: str, content: Any, **more: Any) -> None:
        """Add an entry."""
        self.entries.append(Entry(step, content, **more))

    def of(self, step: str) -> list[Entry]:
        """All entries of a step."""
        return [entry for entry in self.entries if entry.step == step]


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
    if isinstance(first, bool) or not isinstance(first, int) or not 0 <= first < 1 << 31:
        raise OptionError(f"{source}: 'first_query' is {shown(first)}; expected the position of a query.")
    if not isinstance(asked, list):
        raise OptionError(f"{source}: 'query_words' is {shown(asked)}; expected a list of words.")
    rows = (first, len(asked))
    for spelling, part in content.items():
        if spelling in ("steps", "first_query", "query_words"):
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
            cells = tuple(cell.strip() for cell in row)
            is_heading = len(cells) > 1 and cells[0].casefold() == "table"
            if rows and (not any(cells) or is_heading):
                yield from _by_title(Grid("", rows[0], tuple(rows[1:]), start))
                rows = []
            if any(cells):
                start = start if rows else reader.line_num
                rows.append(cells)
    except csv.Error as problem:
        raise OptionError(
            f"{source} is not CSV: {problem}, at line {reader.line_num}.\nLook for an unclosed quotation mark."
        ) from None
    if rows:
        yield from _by_title(Grid("", rows[0], tuple(rows[1:]), start))


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


def empty(source: str) -> OptionError:
    """A file or dictionary without content."""
    return OptionError(f"{source} is empty.\nNotes hold embeddings, or q, k and v, and the numbers calculated by hand.")


def _unreadable(path: Path, reason: str) -> OptionError:
    return OptionError(f"{str(path)!r} cannot be read: {reason}.\nNotes are UTF-8 text: .json, .csv or .md.")


def is_step_name(name: object) -> bool:
    """Whether a key of a JSON object names a step, a matrix or a setting."""
    return isinstance(name, str) and step_named(name) is not None


__all__ = ["MATRICES", "Document", "Entry", "from_json", "from_mapping", "is_step_name", "read"]

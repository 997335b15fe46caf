"""Notes from files: JSON, CSV, Markdown, plain text and spreadsheets, each read into a `Document`.

Tables, in whichever format, come in these forms:

- facts: step · query · key · numbers, one line per fact; settings: Setting · value
- a matrix: the step or the W in the first heading, a row per word or per row of W
- weights: Row · W_q · W_k · W_v, a row per component of the embedding
- the step table of the slides: Word · q · k · v · score · score/√d_k · softmax · softmax × v · sum, one per query

Lines of text are facts too: Score(Q_cat, K_The) = 2.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard import input_file
from regard.errors import OptionError, RegardError, count, did_you_mean, kind_of, shown
from regard.tables import unguarded_cell
from regard.teaching.hand_check.document import OCCURRENCE, Document, Index, Label, given_twice, plain
from regard.teaching.hand_check.notation import (
    AXES,
    COMMA,
    HEADLESS,
    INPUTS,
    MATRICES,
    PER_KEY,
    SETTINGS,
    VECTORS,
    canonical,
    fold,
    is_blank,
    not_finite,
    split_numbers,
    step_named,
)
from regard.teaching.hand_check.workbook import rows_of_workbook
from regard.trace.labels import numbered

FormatReader = Callable[[bytes, Document, Sequence[str]], Any]  # of one format: adds what a file holds to a document

# Headings that say what labels are, in English, German, French and Spanish.
HEADINGS = {
    fold(spelling): name
    for name, spellings in {
        "step": "step|schritt|étape|paso",
        "setting": "setting|settings|einstellung|réglage|ajuste",
        "row": "row|zeile|ligne|fila",
        "head": "head|kopf|tête|cabeza",
        "query": "query|anfrage|abfrage|requête|consulta",
        "key": "key|schlüssel|clé|clave",
        "word": "word|wort|mot|palabra",
        "numbers": "numbers|number|vector|value|values|zahl|zahlen|vektor|wert|werte|nombre|nombres|vecteur|valeur|"
        "número|números|vector|valor",
        "table": "table",
    }.items()
    for spelling in spellings.split("|")
}
TOTALS = {"", "sum", "σ", "total", "summe", "somme", "suma"}
OF_QUERY = ("query", "output", "mean_gradient")  # columns with one number or vector per query, in any row
OMITTED = re.compile(r"… [\d,]+ more")  # a row that sums up the rows a shortened table leaves out
HEAD = re.compile(r"\b(?:heads?|kopf|tête|cabeza)\s+(\d+)\b", re.IGNORECASE)
TITLE = re.compile(r"Query (.+?)(?:, head \d+)?: d_k = .*|(.+): (?:all heads together|after W_O)", re.DOTALL)
MATRIX_TITLE = re.compile(r"(.+?)\s*(?:[=:][^,]*)?(, head \d+)?")
HELPERS = ("√d_k", "largest in each row", "e^(scaled − largest)")  # of a spreadsheet's formulas; not checked
NAMING = (
    re.compile(r"(?:query|anfrage|abfrage|requête|consulta):? (.+?)(?:,? \w+ \d+)?[:.]?", re.DOTALL | re.IGNORECASE),
    re.compile(r"(.+?):.*", re.DOTALL),
)


def read(notes: str | Path | Mapping[str, Any], words: Sequence[str] = (), *, lenient: bool = False) -> Document:
    """Read a file in the format of its ending, or a dictionary of the form of the JSON.

    words    that captions may name besides those of the tables
    lenient  what cannot be read becomes a remark of the document
    """
    if isinstance(notes, Mapping):
        return read_mapping(notes, Document("The notes"))
    if not isinstance(notes, (str, Path)):
        raise OptionError(
            f"`notes` is {shown(notes)}, {kind_of(notes)}; expected the path of a .json, .csv or .md file, or a "
            'dictionary such as {"embeddings": …, "scores": …}.'
        )
    path = Path(notes)
    content, ending = input_file.read(path), path.suffix.casefold()
    document = Document(path.name, remarks=[] if lenient else None)
    if ending not in READERS:
        came = f"ends in {ending!r}" if ending else "has no ending"
        raise OptionError(f"{str(path)!r} {came}; notes are read from {', '.join(READERS)}.")
    if not content.strip():
        raise empty(path.name)
    READERS[ending](content, document, words)
    return document


def empty(source: str) -> OptionError:
    return OptionError(f"{source} is empty.\nNotes hold embeddings, or q, k and v, and the numbers calculated by hand.")


# JSON


def read_mapping(content: Mapping[str, Any], document: Document) -> Document:
    """What a JSON file holds: notes, or the steps that `regard steps --out steps.json` writes."""
    source = document.source
    if not content:
        raise empty(source)
    content = {str(name): plain(part, f"{source}: {shown(name)}") for name, part in content.items()}
    document.is_trace = isinstance(content.get("steps"), list)
    skipped = ("steps", "first_query", "query_words", "source") if document.is_trace else ()
    names: set[str] = set()
    for spelling, part in content.items():
        if spelling in skipped:
            continue
        try:
            name = canonical(spelling, source)
            if name in names:
                raise given_twice(source, spelling)
        except OptionError as problem:
            document.problem(problem)
            continue
        names.add(name)
        if name in SETTINGS:
            document.settings[name] = part
        else:
            document.add(name, part, where=source)
    if document.is_trace:
        _read_trace(content, document)
    return document


def _read_trace(content: Mapping[str, Any], document: Document) -> None:
    """Every step with a head axis in front where it has one; the queries may be a part of all queries."""
    source = document.source
    query_words = content.get("query_words", content.get("words", []))
    start = str(content.get("first_query", 0))
    if not (start.isdecimal() and len(start) < 10 and isinstance(query_words, list)):
        raise OptionError(
            f"{source}: 'first_query' is {shown(start)} and 'query_words' are {shown(query_words)}; expected the "
            "position of a query, and a list of words."
        )
    first, last, words = int(start), int(start) + len(query_words), content.get("words")
    arrays = {}
    for step in content["steps"]:
        if not isinstance(step, dict) or not isinstance(step.get("name"), str) or "array" not in step:
            raise OptionError(f'{source}: a step is {shown(step)}; expected {{"name": "score", "array": …}}.')
        arrays[canonical(step["name"], source, ("embedding", *AXES))] = step["array"]
    embedding = arrays.get("embedding")
    total = len(embedding) if isinstance(embedding, list) else last
    if "context" in content or (isinstance(words, list) and words[first:last] != query_words):
        document.settings["context_words"] = document.settings.pop("words", None)
        names = list(map(str, range(total)))
        names[first:last] = map(str, query_words)
        document.settings["words"] = names[:total]
    words = document.settings.get("words")
    total = len(words) if isinstance(words, list) else total

    def among_all(rows: Any) -> Any:
        """The rows of these queries, at their positions among all of them."""
        if not isinstance(rows, list) or len(rows) != len(query_words) or last > total:
            return rows
        return {Index(first + at, total): row for at, row in enumerate(rows)}

    for name, array in arrays.items():
        if name in HEADLESS:
            array = among_all(array)
        elif AXES.get(name, ("",))[0] == "query" and isinstance(array, list):
            array = list(map(among_all, array))
        document.add(name, array, where=source)
    mask = document.settings.get("mask")
    if isinstance(mask, list) and isinstance(words, list) and len(mask) == len(query_words) < len(words):
        labels = numbered(words)[first:last]  # a mask of the queries here alone
        document.settings["mask"] = dict(zip(labels, mask, strict=False))


def parse_json(text: str, source: str) -> Mapping[str, Any]:
    """What a JSON text holds, with numbers as the text they were written with: 0.50 has two decimals."""

    def refuse(name: str) -> Any:
        if name == "-Infinity":
            return "-inf"
        raise not_finite(source, name)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content: dict[str, Any] = {}
        for name, part in pairs:
            if name in content:
                raise given_twice(source, name)
            content[name] = part
        return content

    try:
        content = json.loads(text, parse_float=str, parse_int=str, parse_constant=refuse, object_pairs_hook=unique)
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


# CSV, spreadsheets and Markdown: tables with captions


@dataclass(frozen=True)
class Grid:
    """A table as it is in a file."""

    caption: str  # the line above it
    heading: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    where: str

    @property
    def kinds(self) -> list[str | None]:
        """What the headings say of labels; None for those of numbers. The components of a vector are numbers."""
        return [HEADINGS.get(fold(re.sub(r"_\d+$", "", name))) for name in self.heading]

    @property
    def label_columns(self) -> int:
        """Number of leading columns that hold words: the key alone, or the query before it."""
        return 2 if self.kinds[0] == "query" and self.kinds[1:2] in (["word"], ["key"]) else 1


def csv_rows(text: str, source: str) -> list[tuple[int, list[str]]]:
    """The rows of a CSV file with their lines; cells are separated by commas, semicolons or tabs."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    reader = csv.reader(text.splitlines(keepends=True), delimiter=max(",;\t", key=first.count), strict=True)
    try:
        return [(reader.line_num, row) for row in reader]
    except csv.Error as problem:
        raise OptionError(
            f"{source} is not CSV: {problem}, at line {reader.line_num}.\nLook for an unclosed quotation mark."
        ) from None


def _read_csv(text: str, document: Document, words: Sequence[str]) -> None:
    read_grids([*_grids(csv_rows(text, document.source), document.source)], document, words)


def _read_workbook(content: bytes, document: Document, words: Sequence[str]) -> None:
    grids: list[Grid] = []
    for name, rows in rows_of_workbook(content, document.source):
        grids += _grids(enumerate(rows, 1), f"{document.source}, sheet {name}", name)
    read_grids(grids, document, words)


def _grids(rows: Iterable[tuple[int, Sequence[str]]], source: str, caption: str = "") -> Iterator[Grid]:
    """Tables separated by blank rows, or by a heading whose first column is called table; a lone cell is a caption."""
    block: list[tuple[str, ...]] = []
    start = 1
    for line, row in [*rows, (0, ())]:
        cells = tuple(unguarded_cell(cell.strip()) for cell in row)
        is_heading = len(cells) > 1 and cells[0].casefold() == "table"
        if block and (not any(cells) or is_heading):
            yield from _by_title(block, caption, f"{source}, table at line {start}")
            block, caption = [], ""
        if not block and any(cells) and not any(cells[1:]):
            caption = cells[0]
        elif any(cells):
            start = start if block else line
            block.append(cells)


def _by_title(block: Sequence[tuple[str, ...]], caption: str, where: str) -> Iterator[Grid]:
    """One grid per title, if the first column holds the title of the table that a row belongs to.

    A last column that says where the numbers come from is left out, and so are blank ones.
    """
    heading = block[0]
    while len(heading) > 1 and heading[-1].casefold() in ("", "source"):
        heading = heading[:-1]
    rows = [row[: len(heading)] if len(row) <= len(block[0]) else row for row in block[1:]]
    if heading[0].casefold() != "table" or len(heading) < 2:
        yield Grid(caption, heading, tuple(rows), where)
        return
    blocks: dict[str, list[tuple[str, ...]]] = {}
    for row in rows:
        blocks.setdefault(row[0], []).append(row[1:])
    for title, of_title in blocks.items():
        yield Grid(title, heading[1:], tuple(of_title), where)


def _read_markdown(text: str, document: Document, words: Sequence[str]) -> None:
    """Tables, each with the last line of text above it as its caption; other lines may be facts."""
    lines, grids, texts, caption, at = text.splitlines(), [], [], "", 0
    while at < len(lines):
        line = lines[at].strip()
        if "|" in line and at + 1 < len(lines) and re.fullmatch(r"[\s|:-]*-[\s|:-]*", lines[at + 1]):
            end = at + 2
            while end < len(lines) and "|" in lines[end]:
                end += 1
            rows = tuple(cells for row in lines[at + 2 : end] if any(cells := _cells(row)))
            if any(heading := _cells(line)):
                where = f"{document.source}, table at line {at + 1}"
                grids.append(Grid(_unmarked(caption.lstrip("# ")), heading, rows, where))
            caption, at = "", end
            continue
        caption = line or caption
        texts.append(_unmarked(line.lstrip("#-*> ")) if "(" in line else "")
        at += 1
    read_grids(grids, document, words)
    _read_lines(texts, document, words)
    if not grids and not document.cells:
        raise OptionError(
            f"{document.source} holds no table.\n"
            "A Markdown table has a heading row, a row of dashes, and `|` between cells."
        )


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


# Tables to cells


def read_grids(grids: Sequence[Grid], document: Document, words: Sequence[str] = ()) -> None:
    """Add what all tables hold to the document; captions name the words of their rows, or `words`."""
    labels = [*words]
    for grid in grids:
        if grid.kinds[0] not in ("step", "setting", "row"):
            labels += [row[grid.label_columns - 1] for row in grid.rows if len(row) >= grid.label_columns]
    for grid in grids:
        try:
            _read_grid(grid, document, labels)
        except RegardError as problem:
            document.problem(problem)


def _read_grid(grid: Grid, document: Document, words: Sequence[str]) -> None:
    width = len(grid.heading)
    for row in grid.rows:
        if len(row) > width and any(row[width:]):
            raise OptionError(
                f"{document.source}: the row {shown(', '.join(row))} has {count(len(row), 'cell')} for "
                f"{count(width, 'heading')}.\n"
                "Separate several numbers in one cell with spaces, and write decimals with a point."
            )
    grid = replace(grid, rows=tuple((*row, *[""] * (width - len(row)))[:width] for row in grid.rows))
    if not grid.heading[0] and not any(map(step_named, grid.heading[1:])):
        grid = _titled(grid, document)
    if grid.heading[0] in HELPERS:
        return
    step = _step_and_head(grid.heading[0])[0]
    if grid.kinds[0] in ("step", "setting"):
        _read_facts(grid, document, words)
    elif grid.kinds[0] == "row":
        for name, matrix in _by_column(grid, 1).items():
            if name not in MATRICES:
                raise OptionError(f"{grid.where}: column {name!r} in a table of weights; expected W_q, W_k, W_v, W_O.")
            if any(matrix):
                document.add(name, [numbers for numbers in matrix if numbers], where=grid.where)
    elif (step is not None and step not in SETTINGS) or step == "mask":
        _read_matrix(grid, document)
    else:
        _read_step_table(grid, document, words)


def _titled(grid: Grid, document: Document) -> Grid:
    """A matrix whose caption names it, as in the spreadsheets of `regard steps`: "q = x · W_q", "softmax, head 1"."""
    title = MATRIX_TITLE.fullmatch(grid.caption)
    if title is None or (title[1] not in HELPERS and step_named(title[1]) is None):
        return grid
    if "ᵀ" in grid.caption:
        document.set("product", "x W^T", grid.where)
    if step_named(title[1]) == "divisor":
        document.set("divisor", grid.rows[0][1], grid.where)
        return replace(grid, heading=(HELPERS[0],))
    name = title[1] if title[1] in HELPERS else f"{title[1]}{title[2] or ''}"
    return replace(grid, heading=(name, *grid.heading[1:]))


def _step_and_head(name: str) -> tuple[str | None, int | None]:
    """A step, and the head that is named beside it: "weights, head 1"."""
    return step_named(HEAD.sub("", name).strip(" ,:()") if HEAD.search(name) else name), _head_in(name)


def _head_in(caption: str) -> int | None:
    heads = HEAD.findall(caption)
    return int(heads[-1][:9]) if heads else None


def _query_in(caption: str, words: Collection[str]) -> str | None:
    """The word that a caption names: "Query cat, head 1: …", or the only word of the table in it."""
    if title := TITLE.fullmatch(caption):  # of a table that Regard wrote; queries of cross-attention label no row
        return title[1] or title[2]
    for pattern in NAMING:
        if match := pattern.fullmatch(caption):
            occurrence = OCCURRENCE.fullmatch(match[1])
            if match[1] in words or (occurrence and occurrence[1] in words):
                return match[1]
    parts = set(re.findall(r"[^\s:,.;()]+", caption))
    named = {word for word in words if word in parts}
    return named.pop() if len(named) == 1 else None


def _read_facts(grid: Grid, document: Document, words: Sequence[str]) -> None:
    """step · query · key · numbers, and optionally head; the caption may name the query."""
    kinds = grid.kinds
    if kinds[0] == "setting":  # the column of the values may have any name
        kinds = ["step", *(kinds[1:] if "numbers" in kinds else ["numbers", *kinds[2:]])][: len(kinds)]
    if "numbers" not in kinds:
        names = ("step", "head", "query", "key", "numbers")
        guess = did_you_mean(grid.heading[-1].casefold(), names)
        raise OptionError(f"{grid.where}: no column holds numbers.{guess}\nThe columns: {', '.join(names)}.")
    caption_query = _query_in(grid.caption, words)
    for line, row in enumerate(grid.rows, 1):
        where = f"{grid.where}, row {line}"
        cells = {kind: cell for kind, cell in zip(kinds, row, strict=True) if kind}
        numbers = [cell for kind, cell in zip(kinds, row, strict=True) if kind == "numbers" and not is_blank(cell)]
        text = " ".join(numbers)
        step, head = _step_and_head(cells["step"])
        step = step or canonical(cells["step"], where)
        if cells.get("head", "").isdecimal():
            head = int(cells["head"][:9])
        path = [cells[kind] for kind in ("query", "word", "key") if cells.get(kind)]
        if not path and caption_query is not None and AXES.get(step, ("",))[0] == "query":
            path = [caption_query]
        if is_blank(text):
            if step in AXES:
                document.add(step, None, *path, where=where, head=head)
        elif step in SETTINGS:
            document.set(step, text, where)
        else:
            _add_text(document, step, text, path, where=where, head=head)


def _add_text(document: Document, step: str, text: str, path: Sequence[Label], *, where: str, head: int | None) -> None:
    """The numbers of a text: one for a query and a key, a vector, or the rows of a matrix."""
    if step in MATRICES:
        rows = [split_numbers(row, where) for row in re.split(r"[;/]", text) if row.strip()]
        document.add(step, "I" if text.strip() == "I" else rows, where=where, head=head)
        return
    is_single = len(path) == len(AXES.get(step, ()))
    is_number = is_single and (re.search(r"[^\d\s.,;+−-]", text) or COMMA.fullmatch(text.strip().replace("−", "-")))
    numbers = [text] if is_number else split_numbers(text, where)
    document.add(step, numbers[0] if is_single and len(numbers) == 1 else numbers, *path, where=where, head=head)


def _read_matrix(grid: Grid, document: Document) -> None:
    """The step in the first heading; words down the side, words or component numbers across the top."""
    step, head = _step_and_head(grid.heading[0])
    assert step is not None
    head = _head_in(grid.caption) if head is None else head
    rows = [[None if is_blank(cell) else cell for cell in row[1:]] for row in grid.rows]
    if step in MATRICES:
        document.add(step, rows, where=grid.where, head=head)
        return
    keys = numbered(grid.heading[1:])
    for label, row in zip(numbered([row[0] for row in grid.rows]), rows, strict=True):
        is_empty = not any(row)
        if step == "mask":
            document.settings.setdefault("mask", {})[label] = row
        elif step in PER_KEY and not all(key.isdigit() for key in keys):
            document.add(step, dict(zip(keys, row, strict=True)), label, where=grid.where, head=head)
        elif len(row) == 1 and row[0] is not None:
            _add_text(document, step, row[0], (label,), where=grid.where, head=head)
        elif not is_empty or step in AXES:
            document.add(step, None if is_empty else row, label, where=grid.where, head=head)


def _by_column(grid: Grid, labels: int) -> dict[str, list[list[str]]]:
    """The numbers of each row by step; q_1, q_2 … are the components of q, blank ones among them too."""
    columns: dict[str, list[int]] = {}
    for at, name in enumerate(grid.heading[labels:], labels):
        bare = name if step_named(name) else re.sub(r"(?<=.)_\d+$", "", name)
        columns.setdefault(canonical(bare, grid.where), []).append(at)
    by_step: dict[str, list[list[str]]] = {}
    for step, positions in columns.items():
        rows = by_step[step] = []
        for row in grid.rows:
            cells = [row[at] for at in positions]
            if all(map(is_blank, cells)):
                rows.append([])
            elif len(cells) > 1 or (step in PER_KEY and COMMA.fullmatch(cells[0].strip().replace("−", "-"))):
                rows.append(cells)
            else:
                rows.append(split_numbers(cells[0], f"{grid.where}, column {grid.heading[positions[0]]}"))
    return by_step


Block = Sequence[tuple[str, Mapping[str, list[str]]]]  # label, and the numbers of each step; none if blank


def _read_step_table(grid: Grid, document: Document, words: Sequence[str]) -> None:
    """A row per key; the query is named by the caption, by a column, or by the only row with a q."""
    labels = grid.label_columns
    by_step = _by_column(grid, labels)
    blocks: dict[str, list[int]] = {}
    for at, row in enumerate(grid.rows):
        if not OMITTED.fullmatch(row[labels - 1]):
            blocks.setdefault(row[0] if labels == 2 else grid.caption, []).append(at)
    for name, rows in blocks.items():
        names = numbered([grid.rows[at][labels - 1] for at in rows])
        records = ({step: numbers[at] for step, numbers in by_step.items()} for at in rows)
        block = list(zip(names, records, strict=True))
        query = name if name in words and labels == 2 else _query_in(name, words)
        query = query or _only_row(block, "query") or _only_row(block, "output")
        _read_block(block, query, _head_in(name), document, grid.where)


def _only_row(block: Block, step: str) -> str | None:
    """The label of the only row with a query, or with an output."""
    rows = [label for label, record in block if record.get(step) and label.casefold() not in TOTALS]
    return rows[0] if len(rows) == 1 else None


def _read_block(block: Block, query: str | None, head: int | None, document: Document, where: str) -> None:
    """The rows of one query. Its q and its sum may be in any row, and the sum below the weighted values."""
    last, of_last = block[-1]
    steps = of_last.keys()
    has_keys = not steps.isdisjoint((*PER_KEY, "weighted_value"))
    of_query = [step for step in OF_QUERY if step in steps and has_keys]
    filled = {step: sum(bool(record[step]) for _, record in block) for step in steps}
    has_total = last.casefold() in TOTALS and not any(of_last.get(step) for step in VECTORS)
    for step in of_query:
        is_below = step == "output" and has_total and of_last.get("weighted_value")
        if query and not filled[step] and not is_below:
            document.add(step, None, query, where=where, head=head)
    for label, record in block:
        is_total = has_total and label == last
        for step, numbers in record.items():
            if not numbers and (is_total or step in of_query or step not in AXES):
                continue
            if is_total and step in ("weight", "unscaled_weight"):  # the weights sum to 1
                continue
            if is_total and step == "weighted_value":
                step = "output"
            path: tuple[str, ...] = (label,)
            is_vector = step in (*VECTORS, *INPUTS) or (step in ("output", *HEADLESS) and not is_total)
            if query is not None and step in of_query and (filled[step] == 1 or step == "mean_gradient"):
                path = (query,)  # in whichever row they are printed
            elif not is_vector and query is not None:
                path = (query, label) if step in (*PER_KEY, "weighted_value") else (query,)
            elif not is_vector and numbers:
                raise OptionError(
                    f"{where}: which query is column {step!r} for?\n"
                    "Name it in the line above the table or in a column Query, or give q or sum in its row only."
                )
            elif not is_vector:
                continue
            is_number = len(path) == len(AXES.get(step, ())) and len(numbers) == 1
            content: Any = (numbers[0] if is_number else numbers) or None
            document.add(step, content, *path, where=where, head=head, is_printed=step in VECTORS)


# Lines of text: Score(Q_cat, K_The) = 2


def _read_plain_text(text: str, document: Document, words: Sequence[str]) -> None:
    _read_lines(text.splitlines(), document, words)
    if not document.cells:
        raise OptionError(
            f"{document.source} holds no number that was calculated.\n"
            "Write lines such as Score(Q_cat, K_The) = 2, or Output(cat) = 0.58 0.84."
        )


def _read_lines(lines: Sequence[str], document: Document, words: Sequence[str]) -> None:
    """One fact per line; a line such as "Query cat, head 1:" names what follows."""
    query, head, labels, read = None, None, {*words}, 0
    for number, line in enumerate(map(str.strip, lines), 1):
        try:
            if not _read_line(line, document, query, head, words, f"{document.source}, line {number}") and line:
                labels |= {label for cell in document.cells[read:] for label in cell.labels if isinstance(label, str)}
                query, read = _query_in(line, labels) or query, len(document.cells)
                head = _head_in(line) if _head_in(line) is not None else head
        except RegardError as problem:
            document.problem(problem)


def _read_line(
    line: str, document: Document, query: str | None, head: int | None, words: Sequence[str], where: str
) -> bool:
    """Add the fact of a line, if it is one; of a chain of equations the last result counts."""
    match = re.fullmatch(r"([^=≈:]+?)\s*[=≈:](?:.*[=≈])?\s*([^=≈]+)", line)
    if not match:
        return False
    name, arguments = _name_and_arguments(match[1])
    step, of_name = _step_and_head(name)
    if step in SETTINGS:
        document.set(step, match[2], where)
        return True
    if step is None or (step in MATRICES) == bool(arguments):
        return False
    axes = [axis for axis in AXES.get(step, ("word",)) if axis in ("query", "key", "word")]
    if words:
        arguments = [label for label in arguments if label in words or OCCURRENCE.fullmatch(label)]
    if query is not None and axes[:1] == ["query"] and len(arguments) < len(axes):
        arguments = [query, *arguments]
    if not arguments and step not in MATRICES:
        return False
    head = of_name if of_name is not None else head
    _add_text(document, step, match[2], arguments[: len(axes)], where=where, head=head)
    return True


def _name_and_arguments(left: str) -> tuple[str, list[str]]:
    """What is calculated, and of which words.

    >>> _name_and_arguments("Score(Q_cat, K_The)/√4"), _name_and_arguments("z_cat"), _name_and_arguments("weight a → b")
    (('Score/√4', ['cat', 'The']), ('z', ['cat']), ('weight', ['a', 'b']))
    """
    if match := re.fullmatch(r"([^(]+?)\s*\((.*)\)\s*(/.*)?", left):
        name, inside = match[1] + (match[3] or ""), match[2]
    elif match := re.fullmatch(r"([^\W_]+)_\{?([^\s{}]+)\}?", left):
        name, inside = match[1], match[2]
    else:
        parts = left.split(" ")
        size = next((size for size in range(len(parts), 0, -1) if step_named(" ".join(parts[:size]))), len(parts))
        name, inside = " ".join(parts[:size]), " ".join(parts[size:])
    if HEAD.search(inside):
        name, inside = f"{name} {HEAD.search(inside)[0]}", HEAD.sub("", inside)  # type: ignore[index]
    labels = [label.strip(" {}[]") for label in re.split(r"[,;]|→|->", inside)]
    return name, [re.sub(r"^(?:[A-Za-z]|query|key)_\{?([^}]+)\}?$", r"\1", label) for label in labels if label]


# The formats, by the endings of files


def _of_text(read: Callable[[str, Document, Sequence[str]], Any]) -> FormatReader:
    """The reader of a format that is text."""

    def read_text(content: bytes, document: Document, words: Sequence[str]) -> None:
        fix = f"\nNotes are UTF-8 text, or .xlsx ({', '.join(READERS)})."
        text = input_file.decode(content, document.source, fix).replace("\r\n", "\n").replace("\r", "\n")
        read(text.replace("\0", "\N{REPLACEMENT CHARACTER}"), document, words)

    return read_text


READERS: dict[str, FormatReader] = {
    ".json": _of_text(lambda text, document, _words: read_mapping(parse_json(text, document.source), document)),
    ".csv": _of_text(_read_csv),
    ".md": _of_text(_read_markdown),
    ".txt": _of_text(_read_plain_text),
    ".xlsx": _read_workbook,
}

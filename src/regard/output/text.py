"""Tables as text for terminals: fitted to the width, shaded by weight if the terminal has colours."""

from __future__ import annotations

import io
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import zip_longest
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.table import Table as Grid
from rich.text import Text

from regard.output import colours
from regard.output.characters import printable
from regard.output.table_formats import parts_of, printed, shortened, sum_below
from regard.tables import Column, Table

GAP = 2
WORDS = (24, 16, 12, 10)  # widths to which words are cut, tried in this order
USUAL_WIDTH = 80
SHORTENED = "… stands for numbers omitted to fit the terminal: --full, or render(table, full=True), shows all."
MOST_BLOCKS = 2  # of columns that a table is split into before its vectors are shortened
SOME = 6  # parts of a shortened vector: the first four, …, the last


@dataclass(frozen=True, eq=False, slots=True)
class TextTable:
    """A table that rich prints in the width of its terminal, and that `str` turns into plain text.

    >>> from regard.tables import Column
    >>> columns = Column("Word", "word"), Column("softmax", "number", shade=True)
    >>> print(TextTable(Table("Weights", columns, (("The", 0.42),))))
    Weights
    Word  softmax
    The      0.42
    """

    table: Table
    width: int | None = None
    full: bool = False
    group: tuple[Table, ...] = ()  # tables with the same columns, printed together in one layout

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table, has_sum = sum_below(self.table)
        blocks = _laid_out(table, min(self.width or options.max_width, options.max_width), self.full, self.group)
        if table.title:
            yield Text(printable(table.title), "bold")
        grids = [_grid(block, table.highlight, has_sum) for block in blocks]
        yield Group(*[part for grid in grids for part in (grid, Text())][:-1])
        vectors = (laid for block in blocks for laid in block if laid.column.kind == "vector")
        is_short = any("…" in cell for laid in vectors for cell in laid.cells)
        is_last = self.table is (self.group or [self.table])[-1]
        for note in [*table.notes, *([SHORTENED] if is_short and is_last else [])]:
            yield Text(printable(note), "dim italic")

    def __str__(self) -> str:
        return plain(self)


def render(table: Table, width: int | None = None, full: bool = False) -> TextTable:
    """The table for `rich.print`, or as plain text by `str(...)`.

    width   columns of text; those of the terminal by default, 80 for `str`
    full    show vectors in full, on several lines if they are wide
    """
    return TextTable(table, width, full)


def render_all(tables: Sequence[Table], width: int | None = None, full: bool = False) -> list[TextTable]:
    """Tables printed below each other; those with the same columns share one layout."""
    groups: dict[tuple[str, ...], tuple[Table, ...]] = {}
    names = [tuple(column.name for column in table.columns) for table in tables]
    for table, of_table in zip(tables, names, strict=True):
        groups[of_table] = (*groups.get(of_table, ()), table)
    return [TextTable(table, width, full, groups[of_table]) for table, of_table in zip(tables, names, strict=True)]


def plain(shown: Any, width: int | None = None) -> str:
    """Any rich renderable as text without colour and trailing blanks."""
    if isinstance(shown, Table):
        shown = render(shown, width)
    columns_wide = width or (shown.width if isinstance(shown, TextTable) else None) or USUAL_WIDTH
    stream = io.StringIO()
    Console(file=stream, width=columns_wide, color_system=None, force_terminal=False, legacy_windows=False).print(shown)
    return "\n".join(line.rstrip() for line in stream.getvalue().rstrip("\n").split("\n"))


def _grid(block: Block, highlight: int | None, has_sum: bool) -> Grid:
    grid = Grid(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="italic", collapse_padding=True)
    for laid in block:
        right = laid.column.kind in ("number", "vector")
        heading = Text(laid.heading, justify="right" if right else "left")
        # Whole vectors have equal widths; rich would strip the padding of shorter ones to align them right.
        justify: Any = "right" if right and not (laid.parts and laid.least) else "left"
        grid.add_column(
            heading, justify=justify, no_wrap=True, vertical="top", overflow="fold", min_width=laid.least or None
        )
    last = len(block[0].values) - 1
    for line, row in enumerate(block[0].rows):
        grid.add_row(*(_cell(laid, line, row == highlight, has_sum and row == last) for laid in block))
    return grid


def _cell(laid: Laid, line: int, highlighted: bool, is_sum: bool) -> Text:
    """A styled cell; the background of a weight is darker the larger it is."""
    content, value = laid.cells[line], laid.values[laid.rows[line]]
    if laid.column.shade and content and not is_sum:
        return Text(content, on_ground(value))
    bold = is_sum or (highlighted and laid.column.kind == "word")
    return Text(content, "bold" if bold else "")


def on_ground(weight: float) -> str:
    """The style of a weight: readable on its colour."""
    ground = colours.sequential(float(weight))
    return f"{colours.ink_on(ground)} on {ground}"


# Layout: one line per row if it fits; else two blocks of columns; else vectors shortened or broken into lines.


@dataclass(frozen=True, eq=False, slots=True)
class Laid:
    """A column ready to print: its heading and cells, each of one or more lines."""

    column: Column
    heading: str
    cells: tuple[str, ...]
    values: tuple[Any, ...]  # of all rows of the table
    rows: tuple[int, ...]  # which row of the table each cell is from
    parts: tuple[list[str], ...] = ()  # of vectors: their printed numbers
    least: int = 0  # width of the cells of this column in the other tables of a group

    @property
    def cell_width(self) -> int:
        """Of the widest line of its cells."""
        measure = cell_len if self.column.kind in ("word", "text") else len  # digits are narrow, and there are many
        return max((measure(line) for cell in self.cells for line in cell.split("\n")), default=0)

    @property
    def width(self) -> int:
        """Of its widest line."""
        return max(self.cell_width, self.least, *map(cell_len, self.heading.split("\n")))

    def clipped(self, longest: int) -> Laid:
        """With words cut to this width."""
        if self.column.kind != "word":
            return self
        cells = (set_cell_size(cell, longest - 1).rstrip() + "…" if cell_len(cell) > longest else cell
                 for cell in self.cells)  # fmt: skip
        return replace(self, cells=tuple(cells), least=min(self.least, longest))

    def limited(self, most: int, full: bool) -> Laid:
        """With at most so many numbers of a vector on a line; a heading wider than its cells breaks at a sign."""
        laid = self
        if self.column.kind == "vector":
            widest = max((len(part) for parts in self.parts for part in parts), default=0)
            cells = (
                _in_lines(parts, most, widest) if full else " ".join(shortened(parts, most)) for parts in self.parts
            )
            laid = replace(self, cells=tuple(cells), least=0)
        if cell_len(laid.heading) > laid.cell_width:
            for sign in ("×", "/", "·", " "):
                start, separator, end = laid.heading.rpartition(sign)
                if start.strip():
                    return replace(laid, heading=f"{start.rstrip()}\n{separator.strip()}{end}")
        return laid


def _in_lines(parts: list[str], most: int, widest: int) -> str:
    lines = [parts[start : start + most] for start in range(0, len(parts), most)]
    return "\n".join(" ".join(part.rjust(widest) for part in line) for line in lines)


Block = Sequence[Laid]  # columns side by side


def _laid_out(table: Table, width: int, full: bool, group: tuple[Table, ...]) -> list[Block]:
    """Blocks of columns that each fit the width; the last resort where none do."""
    most = None if full else width // 2  # numbers of a vector that may fit, each with a blank
    widths = _widths(group or (table,), most)
    columns = [_aligned(laid, of_parts) for laid, of_parts in zip(_columns(table, most), widths, strict=True)]
    blocks: list[Block] = []
    for layout in _layouts(columns, width, full):
        blocks = [_filled(block) for block in layout] if len(layout) > 1 else layout
        if all(_total(block) <= width for block in blocks):
            break
    return blocks


def _layouts(columns: Block, width: int, full: bool) -> Iterator[list[Block]]:
    """The layouts that are tried, the best first; with `full`, vectors are broken into lines instead of shortened."""

    def in_one_block(columns: Block, least: int) -> Iterator[list[Block]]:
        """Vectors and words shortened to fit, with at least so many numbers of a vector."""
        for longest in WORDS:
            clipped = [laid.clipped(longest) for laid in columns]
            if limited := _most_numbers(clipped, least, width, full, lambda block: _total(block) <= width):
                yield [limited]

    for longest in WORDS:
        yield [[laid.clipped(longest) for laid in columns]]
    worded = [laid.clipped(WORDS[1]) for laid in columns]
    if len(columns) > 2 and all(_total([worded[0], laid]) <= width for laid in worded[1:]):
        yield from _halves(worded)
        blocks = _blocks(worded, width)
        yield from [blocks] if len(blocks) <= MOST_BLOCKS else []
    yield from in_one_block(columns, 4 if full else SOME)
    if not full:
        for halves in _halves(columns):
            fitting = [block for half in halves for block in next(in_one_block(half, SOME), [])]
            yield from [fitting] if len(fitting) == len(halves) else []
        blocks = _blocks([laid.limited(SOME, full) for laid in worded], width)
        yield from [blocks] if len(blocks) <= MOST_BLOCKS + 1 else []
        yield from in_one_block(columns, 3)
        yield from in_one_block(columns, 2)
    room = width - worded[0].width - GAP  # beside the first column
    limited = _most_numbers(worded, 2, width, full, lambda block: all(laid.width <= room for laid in block[1:]))
    yield _blocks(limited or [laid.limited(2, full) for laid in worded], width)


def _halves(columns: Block) -> Iterator[list[Block]]:
    """Vectors of words in the first block, what is computed from them in the second; none without numbers."""
    numbers = next((at for at, laid in enumerate(columns) if at > 1 and laid.column.kind == "number"), None)
    if numbers is not None:
        yield [columns[:numbers], [columns[0], *columns[numbers:]]]


def _most_numbers(columns: Block, least: int, width: int, full: bool, fits: Callable[[Block], bool]) -> Block | None:
    """The columns with as many numbers of a vector on a line as fit; None where `least` do not."""
    longest = max((len(parts) for laid in columns for parts in laid.parts), default=2)
    tries = range(least, max(min(longest, width // 2), least) + 1)
    fitting = bisect_left(tries, True, key=lambda most: not fits([laid.limited(most, full) for laid in columns]))
    return [laid.limited(tries[fitting - 1], full) for laid in columns] if fitting else None


def _columns(table: Table, most: int | None) -> list[Laid]:
    """The columns in their natural width; of very long vectors, only the components that may be shown are formatted."""
    columns = []
    for index, column in enumerate(table.columns):
        values, name = tuple(row[index] for row in table.rows), printable(column.name)
        rows = tuple(range(len(values)))
        if column.kind == "vector":
            parts = tuple([] if value is None else _parts(value, column.digits, most) for value in values)
            columns.append(Laid(column, name, tuple(map(" ".join, parts)), values, rows, parts))
        else:
            columns.append(Laid(column, name, tuple(printed(value, column) for value in values), values, rows))
    return columns


def _parts(vector: Any, digits: int, most: int | None) -> list[str]:
    if most is None or len(vector) <= most:
        return parts_of(vector, digits)
    return [*parts_of(vector[:most], digits), "…", *parts_of(vector[-1:], digits)]


@lru_cache(maxsize=2)
def _widths(tables: tuple[Table, ...], most: int | None) -> list[list[int]]:
    """Of each column in all tables: the width of its cells, or of a vector that of each component."""
    widths = []
    for same in zip(*(_columns(sum_below(table)[0], most) for table in tables), strict=True):
        if same[0].column.kind == "vector":
            parts = zip_longest(*(parts for laid in same for parts in laid.parts), fillvalue="")
            widths.append([max(map(len, components)) for components in parts])
        else:
            widths.append([max(laid.cell_width for laid in same)])
    return widths


def _aligned(laid: Laid, widths: Sequence[int]) -> Laid:
    """With each component of its vectors as wide as the widest in its place, so that they align."""
    if laid.column.kind != "vector":
        return replace(laid, least=0 if laid.column.kind == "text" else widths[0])
    parts = tuple([part.rjust(widths[at]) for at, part in enumerate(parts)] for parts in laid.parts)
    least = sum(widths) + max(len(widths) - 1, 0)
    cells = tuple(" ".join(row).ljust(least) if row else "" for row in parts)
    return replace(laid, cells=cells, parts=parts, least=least)


def _total(columns: Block) -> int:
    return sum(laid.width for laid in columns) + GAP * (len(columns) - 1)


def _blocks(columns: Block, width: int) -> list[Block]:
    """As many columns side by side as fit, the first one repeated in every block."""
    blocks = [[columns[0]]]
    for laid in columns[1:]:
        if len(blocks[-1]) > 1 and _total([*blocks[-1], laid]) > width:
            blocks.append([columns[0]])
        blocks[-1].append(laid)
    return list(blocks)


def _filled(block: Block) -> Block:
    """Without rows that are empty but for the first column."""
    rows = [row for row in range(len(block[0].cells)) if any(laid.cells[row] for laid in block[1:])]
    return [
        replace(laid, cells=tuple(laid.cells[row] for row in rows), rows=tuple(laid.rows[row] for row in rows))
        for laid in block
    ]

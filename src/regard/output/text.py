"""Tables as text for terminals: fitted to the width, shaded by weight if the terminal has colours."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.table import Table as Grid
from rich.text import Text

from regard.output import colours
from regard.output.characters import printable
from regard.output.table_formats import parts_of, printed, shortened, sum_below
from regard.tables import Column, Table
from regard.trace import Trace

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
    group: TableGroup | None = None  # tables printed together, in one layout

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(self.width or options.max_width, options.max_width)
        layout = laid_out(self.table, width, self.full, self.group)
        if self.table.title:
            yield Text(printable(self.table.title), "bold")
        grids = [_grid(block, self.table.highlight, layout.has_sum) for block in layout.blocks]
        yield Group(*[part for grid in grids for part in (grid, Text())][:-1])
        is_last = self.group is None or self.table is self.group.tables[-1]
        notes = [*self.table.notes, *([SHORTENED] if layout.is_short and is_last else [])]
        for note in notes:
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
    groups: dict[tuple[str, ...], list[Table]] = {}
    for table in tables:
        groups.setdefault(_names(table), []).append(table)
    made = {names: TableGroup(tuple(group)) for names, group in groups.items() if len(group) > 1}
    return [TextTable(table, width, full, made.get(_names(table))) for table in tables]


def _names(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.columns)


def steps(trace: Trace, head: int = 0, width: int | None = None, full: bool = False) -> Group:
    """The table of every query, one below the other."""
    tables = render_all(trace.tables(head), width, full)
    return Group(*[part for table in tables for part in (table, Text())][:-1])


def plain(shown: Any, width: int | None = None) -> str:
    """Any rich renderable as text without colour and trailing blanks."""
    if isinstance(shown, Table):
        shown = render(shown, width)
    columns_wide = width or (shown.width if isinstance(shown, TextTable) else None) or USUAL_WIDTH
    stream = io.StringIO()
    Console(file=stream, width=columns_wide, color_system=None, force_terminal=False, legacy_windows=False).print(shown)
    return "\n".join(line.rstrip() for line in stream.getvalue().rstrip("\n").split("\n"))


def _grid(block: tuple[Laid, ...], highlight: int | None, has_sum: bool) -> Grid:
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
        ground = colours.sequential(float(value))
        return Text(content, f"{colours.ink_on(ground)} on {ground}")
    bold = is_sum or (highlighted and laid.column.kind == "word")
    return Text(content, "bold" if bold else "")


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


@dataclass(frozen=True, eq=False, slots=True)
class TableLayout:
    """Blocks of columns that each fit the width, and whether a vector had to be shortened."""

    blocks: tuple[tuple[Laid, ...], ...]
    is_short: bool
    has_sum: bool  # whether the last row is the sum of those above


class TableGroup:
    """Tables with the same columns, and the widths that fit the cells of all of them."""

    def __init__(self, tables: tuple[Table, ...]) -> None:
        self.tables = tables
        self._widths: dict[int | None, list[list[int]]] = {}

    def widths(self, most: int | None) -> list[list[int]]:
        """Per column the widths of its cells: one per component of a vector, or a single one."""
        if most not in self._widths:
            self._widths[most] = _widths([_columns(sum_below(table)[0], most) for table in self.tables])
        return self._widths[most]


def laid_out(table: Table, width: int, full: bool, group: TableGroup | None = None) -> TableLayout:
    """The table for a terminal of this width; with `full`, vectors are broken into lines instead of shortened."""
    table, has_sum = sum_below(table)
    most = None if full else width // 2  # numbers of a vector that may fit, each with a blank
    columns = _columns(table, most)
    widths = _widths([columns]) if group is None else group.widths(most)
    columns = [_aligned(laid, of_parts) for laid, of_parts in zip(columns, widths, strict=True)]
    blocks = _whole(columns, width)
    if blocks is None:
        blocks = _broken(columns, width, full)
    shown = [laid for block in blocks for laid in block]
    is_short = any("…" in cell for laid in shown if laid.column.kind == "vector" for cell in laid.cells)
    return TableLayout(tuple(blocks), is_short, has_sum)


def _columns(table: Table, most: int | None) -> list[Laid]:
    return [_laid(column, [row[index] for row in table.rows], most) for index, column in enumerate(table.columns)]


def _widths(tables: Sequence[Sequence[Laid]]) -> list[list[int]]:
    widths = []
    for same in zip(*tables, strict=True):
        if same[0].column.kind != "vector":
            widths.append([max(laid.cell_width for laid in same)])
            continue
        parts = [parts for laid in same for parts in laid.parts]
        longest = max(map(len, parts), default=0)
        widths.append([max(len(part[at]) for part in parts if at < len(part)) for at in range(longest)])
    return widths


def _aligned(laid: Laid, widths: Sequence[int]) -> Laid:
    """With each component of its vectors as wide as the widest in its place, so that they align."""
    if laid.column.kind != "vector":
        return replace(laid, least=0 if laid.column.kind == "text" else widths[0])
    parts = tuple([part.rjust(widths[at]) for at, part in enumerate(parts)] for parts in laid.parts)
    least = sum(widths) + max(len(widths) - 1, 0)
    cells = tuple(" ".join(row).ljust(least) if row else "" for row in parts)
    return replace(laid, cells=cells, parts=parts, least=least)


def _whole(columns: list[Laid], width: int) -> list[tuple[Laid, ...]] | None:
    """The columns with whole vectors, in one block or in few; None if they do not fit."""
    for longest in WORDS:
        worded = [_clipped(laid, longest) for laid in columns]
        if _total(worded) <= width:
            return [tuple(worded)]
    worded = [_clipped(laid, WORDS[1]) for laid in columns]
    if len(columns) < 3 or any(_total([worded[0], laid]) > width for laid in worded[1:]):
        return None
    halves = _halves(worded)
    if halves and all(_total(half) <= width for half in halves):
        return [_filled(half) for half in halves]
    blocks = _blocks(worded, width)
    return blocks if len(blocks) <= MOST_BLOCKS else None


def _halves(columns: list[Laid]) -> list[list[Laid]]:
    """Vectors of words in the first block, what is computed from them in the second; none without numbers."""
    numbers = next((at for at, laid in enumerate(columns) if at > 1 and laid.column.kind == "number"), None)
    return [] if numbers is None else [columns[:numbers], [columns[0], *columns[numbers:]]]


def _broken(columns: list[Laid], width: int, full: bool) -> list[tuple[Laid, ...]]:
    """Vectors shortened, or with `full` in lines; in more blocks where one would leave too few of their numbers."""
    fitted = _in_one_block(columns, width, full, (4,) if full else (SOME,))
    if fitted is None and not full:
        halves = [_in_one_block(half, width, full, (SOME,)) for half in _halves(columns)]
        if halves and all(halves):
            return [_filled(half) for half in halves if half]
        blocks = _blocks([_narrow(_limited(_clipped(laid, WORDS[1]), SOME, full)) for laid in columns], width)
        if len(blocks) <= MOST_BLOCKS + 1 and all(_total(block) <= width for block in blocks):
            return blocks
        fitted = _in_one_block(columns, width, full, (3, 2))
    return _blocks(fitted or _for_blocks(columns, width, full), width)


def _in_one_block(columns: list[Laid], width: int, full: bool, leasts: Sequence[int]) -> list[Laid] | None:
    """All columns side by side, with vectors and words shortened to fit; at least so many numbers of a vector."""
    for least in leasts:
        for longest in WORDS:
            worded = [_clipped(laid, longest) for laid in columns]
            fitting = _widest_that(worded, least, width, full, lambda limited: _total(limited) <= width)
            if fitting:
                return fitting
    return None


def _for_blocks(columns: list[Laid], width: int, full: bool) -> list[Laid]:
    """Columns that each fit the width beside the first one."""
    columns = [_clipped(laid, WORDS[1]) for laid in columns]
    room = width - columns[0].width - GAP
    fits = _widest_that(columns, 2, width, full, lambda limited: all(laid.width <= room for laid in limited[1:]))
    return fits or [_narrow(_limited(laid, 2, full)) for laid in columns]


def _widest_that(
    columns: list[Laid], least: int, width: int, full: bool, fits: Callable[[list[Laid]], bool]
) -> list[Laid] | None:
    """The columns with as many numbers of a vector on a line as fit, by halving; None where `least` do not."""
    fitting, low, high = None, least, max(min(_longest_vector(columns), width // 2), least)
    while low <= high:
        most = (low + high + 1) // 2 if fitting else low
        limited = [_narrow(_limited(laid, most, full)) for laid in columns]
        if fits(limited):
            fitting, low = limited, most + 1
        elif not fitting:
            return None
        else:
            high = most - 1
    return fitting


def _longest_vector(columns: list[Laid]) -> int:
    return max((len(parts) for laid in columns for parts in laid.parts), default=2)


def _laid(column: Column, values: list[Any], most: int | None) -> Laid:
    """A column in its natural width; of very long vectors, only the components that may be shown are formatted."""
    rows = tuple(range(len(values)))
    if column.kind != "vector":
        cells = tuple(printed(value, column) for value in values)
        return Laid(column, printable(column.name), cells, tuple(values), rows)
    parts = tuple([] if value is None else _parts(value, column.digits, most) for value in values)
    return Laid(column, printable(column.name), tuple(map(" ".join, parts)), tuple(values), rows, parts)


def _parts(vector: Any, digits: int, most: int | None) -> list[str]:
    if most is None or len(vector) <= most:
        return parts_of(vector, digits)
    return [*parts_of(vector[:most], digits), "…", *parts_of(vector[-1:], digits)]


def _clipped(laid: Laid, longest: int) -> Laid:
    """With words cut to this width."""
    if laid.column.kind != "word":
        return laid
    cut = (set_cell_size(cell, longest - 1).rstrip() + "…" if cell_len(cell) > longest else cell for cell in laid.cells)
    return replace(laid, cells=tuple(cut), least=min(laid.least, longest))


def _narrow(laid: Laid) -> Laid:
    """With a heading that is wider than its cells broken after a sign or a space."""
    if cell_len(laid.heading) <= laid.cell_width:
        return laid
    for sign in ("×", "/", "·", " "):
        start, separator, end = laid.heading.rpartition(sign)
        if start.strip():
            return replace(laid, heading=f"{start.rstrip()}\n{separator.strip()}{end}")
    return laid


def _limited(laid: Laid, most: int, full: bool) -> Laid:
    """With at most so many numbers of a vector on a line."""
    if laid.column.kind != "vector":
        return laid
    if not full:
        return replace(laid, cells=tuple(" ".join(shortened(parts, most)) for parts in laid.parts), least=0)
    widest = max((len(part) for parts in laid.parts for part in parts), default=0)
    return replace(laid, cells=tuple(_in_lines(parts, most, widest) for parts in laid.parts), least=0)


def _in_lines(parts: list[str], most: int, widest: int) -> str:
    lines = [parts[start : start + most] for start in range(0, len(parts), most)]
    return "\n".join(" ".join(part.rjust(widest) for part in line) for line in lines)


def _total(columns: Sequence[Laid]) -> int:
    return sum(laid.width for laid in columns) + GAP * (len(columns) - 1)


def _blocks(columns: list[Laid], width: int) -> list[tuple[Laid, ...]]:
    """As many columns side by side as fit, the first one repeated in every block, without empty rows."""
    blocks, block = [], columns[:1]
    for laid in columns[1:]:
        if len(block) > 1 and _total([*block, laid]) > width:
            blocks.append(block)
            block = columns[:1]
        block.append(laid)
    return [tuple(columns)] if not blocks else [_filled(block) for block in (*blocks, block)]


def _filled(block: list[Laid]) -> tuple[Laid, ...]:
    rows = [row for row in range(len(block[0].cells)) if any(laid.cells[row] for laid in block[1:])]
    return tuple(
        replace(laid, cells=tuple(laid.cells[row] for row in rows), rows=tuple(laid.rows[row] for row in rows))
        for laid in block
    )

"""Text for terminals: tables that fit the width, coloured by weight, and plain where there is no colour."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.table import Table as Grid
from rich.text import Text

from regard.show import colours
from regard.show.layout import GAP, Laid, laid_out
from regard.show.words import printable
from regard.tables import Table
from regard.trace import Trace

USUAL_WIDTH = 80
SHORTENED = "… stands for numbers left out for want of room: --full, or render(table, full=True), shows them all."


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

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(self.width or options.max_width, options.max_width)
        layout = laid_out(self.table, width, self.full)
        if self.table.title:
            yield Text(printable(self.table.title), "bold")
        grids = [_grid(block, self.table.highlight, layout.has_sum) for block in layout.blocks]
        yield Group(*[part for grid in grids for part in (grid, Text())][:-1])
        notes = [*self.table.notes, *([SHORTENED] if layout.is_short else [])]
        for note in notes:
            yield Text(printable(note), "dim italic")

    def __str__(self) -> str:
        return plain(self)


def render(table: Table, width: int | None = None, full: bool = False) -> TextTable:
    """The table for `rich.print`, or as plain text by `str(...)`.

    width   columns of text; those of the terminal by default, 80 for `str`
    full    show vectors whole, in several lines where they are wide
    """
    return TextTable(table, width, full)


def steps(trace: Trace, head: int = 0, width: int | None = None, full: bool = False) -> Group:
    """The slide's table of every query, one below the other."""
    tables = [render(table, width, full) for table in trace.tables(head)]
    return Group(*[part for table in tables for part in (table, Text())][:-1])


def plain(shown: Any, width: int | None = None) -> str:
    """Anything that rich prints, as text without colour and without blanks at the ends of lines."""
    if isinstance(shown, Table):
        shown = render(shown, width)
    wanted = width or (shown.width if isinstance(shown, TextTable) else None) or USUAL_WIDTH
    stream = io.StringIO()
    Console(file=stream, width=wanted, color_system=None, force_terminal=False, legacy_windows=False).print(shown)
    return "\n".join(line.rstrip() for line in stream.getvalue().rstrip("\n").split("\n"))


def _grid(block: tuple[Laid, ...], highlight: int | None, has_sum: bool) -> Grid:
    grid = Grid(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="italic", collapse_padding=True)
    for laid in block:
        right = laid.column.kind in ("number", "vector")
        heading = Text(laid.heading, justify="right" if right else "left")
        grid.add_column(heading, justify="right" if right else "left", no_wrap=True, vertical="top", overflow="fold")
    last = len(block[0].values) - 1
    for line, row in enumerate(block[0].rows):
        grid.add_row(*(_cell(laid, line, row == highlight, has_sum and row == last) for laid in block))
    return grid


def _cell(laid: Laid, line: int, highlighted: bool, is_sum: bool) -> Text:
    """A cell in its colour; a weight on a ground that is darker, the larger it is."""
    content, value = laid.cells[line], laid.values[laid.rows[line]]
    if laid.column.shade and content and not is_sum:
        ground = colours.sequential(float(value))
        return Text(content, f"{colours.ink_on(ground)} on {ground}")
    bold = is_sum or (highlighted and laid.column.kind == "word")
    return Text(content, "bold" if bold else "")

"""Cells of tables as printed: vectors component by component, shortened to fit; the row of sums."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from regard.output.printable import printable
from regard.tables import Column, Table, printed_number
from regard.tables import printed_cell as _printed_cell


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
    for place, column in enumerate(table.columns[:-1]):
        if column.shade:
            foot[place] = sum(row[place] for row in table.rows if row[place] is not None)
    rows = (*(row[:-1] for row in table.rows), tuple(foot))
    return replace(table, columns=table.columns[:-1], rows=rows), True

"""Tables, which every format prints: terminal, page, slide and file; and how numbers are printed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

import numpy as np

from regard import validate
from regard.errors import missing_package

Kind = Literal["word", "number", "vector", "text"]
MOST_DIGITS = 6
EXACT = 2**40  # units of the last digit up to which halves can be distinguished from their neighbours

# A number within single precision of a half counts as a half, and halves are rounded away from zero. So a printed sum
# differs from the sum of the printed terms by at most half a last digit per term: three times 0.005 prints as 0.03,
# their sum as 0.02. Rounded as stored, slightly below 0.015, the sum would print as 0.01.
HALF = 0.5 + 1e-6

_FORMULA = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")  # what a spreadsheet computes


@dataclass(frozen=True)
class Column:
    """How the cells below a heading are printed."""

    name: str
    kind: Kind = "text"
    digits: int = 2  # decimals of numbers and of the components of vectors
    shade: bool = False  # shaded by value, from 0 to 1: weights


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Columns and rows. A cell is a string, a number, or a vector (a sequence or an array of one axis); None is blank.

    >>> columns = Column("Word", "word"), Column("softmax", "number")
    >>> table = Table("Weights", columns, (("The", 0.4223), ("cat", 0.1554)))
    >>> table["softmax"], table[0]
    ((0.4223, 0.1554), ('The', 0.4223))
    >>> [table.printed(row) for row in table.rows]
    [('The', '0.42'), ('cat', '0.16')]
    >>> table
    Table('Weights', 2 rows of Word, softmax)
    >>> print(table)
    Weights
    Word  softmax
    The      0.42
    cat      0.16
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    notes: tuple[str, ...] = ()
    highlight: int | None = None  # the row of the query word
    source: str = ""  # where the numbers come from, for files: see provenance.py

    @property
    def all_notes(self) -> tuple[str, ...]:
        """The notes, and where the numbers come from, if no note says it.

        >>> Table("Weights", (Column("Word"),), (("The",),), ("A note.",), source="typed by hand").all_notes
        ('A note.', 'Source: typed by hand')
        """
        is_said = not self.source or any(self.source in note for note in self.notes)
        return self.notes if is_said else (*self.notes, f"Source: {self.source}")

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)

    def __getitem__(self, name: str | int | slice) -> tuple[Any, ...]:
        """The cells of one column, by its name, or of one row, by its number; a slice gives several rows."""
        if isinstance(name, slice):
            return self.rows[name]
        if not isinstance(name, str):
            return self.rows[validate.index("row", name, len(self.rows))]
        column_index = self._names.index(validate.choice("column", name, self._names))
        return tuple(row[column_index] for row in self.rows)

    @property
    def _names(self) -> list[str]:
        return [column.name for column in self.columns]

    def printed(self, row: Sequence[Any]) -> tuple[str, ...]:
        """The cells of a row as text, vectors in full."""
        return tuple(printed_cell(cell, column) for cell, column in zip(row, self.columns, strict=True))

    def to_pandas(self) -> Any:
        """The cells as a pandas DataFrame, numbers unrounded.

        >>> print(Table("Weights", (Column("Word"), Column("softmax", "number")), (("The", 0.4223),)).to_pandas())
          Word  softmax
        0  The   0.4223
        """
        try:
            import pandas
        except ImportError:
            raise missing_package("to_pandas", "pandas") from None
        return pandas.DataFrame([list(row) for row in self.rows], columns=self._names)

    def __repr__(self) -> str:
        rows = f"{len(self):,} row" + ("" if len(self) == 1 else "s")
        return f"Table({self.title!r}, {rows} of {', '.join(self._names)})"

    def __str__(self) -> str:
        """The table as text of at most 80 columns."""
        from regard.output import table_text

        return table_text(self)

    def _repr_html_(self) -> str:
        from regard.output import notebook_html

        return notebook_html(self)


def printed_cell(cell: Any, column: Column) -> str:
    """One cell as text."""
    if cell is None:
        return ""
    if column.kind == "vector":
        return printed_vector(cell, column.digits)
    return printed_number(cell, column.digits) if column.kind == "number" else str(cell)


def printed_vector(vector: Iterable[Any], digits: int) -> str:
    """The components of a vector, separated by spaces.

    >>> printed_vector([1, 0.5, -0.001], 2)
    '1.00 0.50 0.00'
    """
    return " ".join(printed_number(number, digits) for number in vector)


def printed_number(number: Any, digits: int) -> str:
    """A number with this many decimals, a half rounded away from zero, as by hand.

    >>> printed_number(0.125, 2), printed_number(-2.5, 0), printed_number(-0.001, 2), printed_number(float("-inf"), 2)
    ('0.13', '−3', '0.00', '−∞')
    """
    number = float(number)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "∞" if number > 0 else "−∞"
    last_digits = abs(number) * 10**digits
    text = f"{abs(number):.{digits}f}"
    if last_digits < EXACT:
        text = f"{Decimal(math.floor(last_digits + HALF)).scaleb(-digits):f}"
    return f"−{text}" if number < 0 and text.strip("0.") else text


def guarded_cell(text: str) -> str:
    """Text of a CSV cell, with an apostrophe before what a spreadsheet would compute.

    >>> guarded_cell("=1+1"), guarded_cell("don't"), unguarded_cell("'=1+1")
    ("'=1+1", "don't", '=1+1')
    """
    return f"'{text}" if _FORMULA.match(text) else text


def unguarded_cell(cell: str) -> str:
    """The text that `guarded_cell` guarded."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def in_last_digits(numbers: Any, digits: int) -> Any:
    """Numbers as printed, in units of the last digit: 0.42 with two decimals is 42."""
    array = np.asarray(numbers, np.float64) * 10**digits
    return np.copysign(np.floor(np.abs(array) + HALF), array)


def omitted_rows(shown: int | None, count: int, what: str = "") -> list[str]:
    """The note of a table that holds only the first rows; none where it holds all."""
    return [] if shown is None or shown >= count else [f"The first {shown} of {count:,}{what}: --full shows all."]


def digits_for(numbers: Any, least: int = 2) -> int:
    """The number of decimals for these numbers: 0 for integers, more than usual if all of them are small.

    >>> digits_for([1.0, 2.0]), digits_for([0.5, 0.001]), digits_for([0.0004, 0.00312])
    (0, 2, 4)
    """
    array = np.asarray(numbers, dtype=np.float64)
    array = array[np.isfinite(array)]
    if np.array_equal(array, np.round(array)):
        return 0
    largest = float(np.abs(array).max())
    return least if largest >= 0.05 else min(MOST_DIGITS, max(least, 1 - math.floor(math.log10(largest))))

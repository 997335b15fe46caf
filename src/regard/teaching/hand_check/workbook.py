"""The cells of a spreadsheet of unknown origin as text: bounded in size, and nothing in it is followed or run.

A formula counts as the number that the spreadsheet program stored beside it: what the student saw.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from typing import Any

from regard.errors import OptionError, missing_package

MOST_BYTES = 1 << 25  # of all parts together, uncompressed: a sheet of 30 words takes 20 KB
MOST_PARTS = 200
MOST_SHEETS, MOST_ROWS, MOST_COLUMNS = 32, 2000, 200
DECIMALS = re.compile(r"0\.(0+)")  # of a number format: a cell formatted 0.00 that holds 0.4 shows 0.40


def rows_of_workbook(content: bytes, source: str) -> Iterator[tuple[str, list[list[str]]]]:
    """The name and the rows of each sheet."""
    try:
        import openpyxl
    except ImportError:
        raise missing_package("Reading .xlsx", "openpyxl", instead="Or save the sheet as .csv.") from None
    try:
        _check_archive(content)
        book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True, keep_links=False)
        for sheet in book.worksheets[:MOST_SHEETS]:
            sheet.reset_dimensions()  # which the file may misstate
            rows = sheet.iter_rows(max_row=MOST_ROWS, max_col=MOST_COLUMNS)
            yield str(sheet.title), [[_text(cell) for cell in row] for row in rows]
    except Exception as problem:  # noqa: BLE001 - openpyxl raises whatever a malformed part leads to
        raise OptionError(f"{source} is not a readable spreadsheet: {problem}.") from None


def _check_archive(content: bytes) -> None:
    """Refuse what is not a ZIP archive, what unpacks to more than a sheet can need, and XML that defines entities."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = archive.infolist()
        if len(parts) > MOST_PARTS or sum(part.file_size for part in parts) > MOST_BYTES:
            raise ValueError(f"it unpacks to more than {MOST_BYTES >> 20} MiB")
        for part in parts:
            text = archive.read(part)
            if b"<!DOCTYPE" in text or b"<!ENTITY" in text:
                raise ValueError(f"{part.filename} defines entities")


def _text(cell: Any) -> str:
    """A cell as it is shown."""
    value = cell.value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "" if value is None else str(value)
    text = repr(value).removesuffix(".0")
    shown = DECIMALS.search(str(cell.number_format))
    decimals = len(text.partition(".")[2])
    if shown and "e" not in text and decimals < len(shown[1]):
        return f"{value:.{len(shown[1])}f}"
    return text

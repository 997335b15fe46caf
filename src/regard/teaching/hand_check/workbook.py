"""The cells of a spreadsheet of unknown origin as text: bounded in size, and nothing in it is followed or run.

A formula counts only if it is plain arithmetic of numbers, such as =1/3 or =EXP(1)/6.4: what a formula refers to may
be anything, and the result that a file stores beside it is whatever was written there.
"""

from __future__ import annotations

import ast
import io
import math
import operator
import re
import zipfile
from collections.abc import Iterator
from typing import Any

from regard.errors import OptionError, missing_package

MOST_BYTES = 1 << 25  # of all parts together, uncompressed: a sheet of 30 words takes 20 KB
MOST_PARTS = 200
MOST_SHEETS, MOST_ROWS, MOST_COLUMNS = 32, 2000, 200
LONGEST_FORMULA = 200
DECIMALS = re.compile(r"0\.(0+)")  # of a number format: a cell formatted 0.00 that holds 0.4 shows 0.40
OPERATIONS: dict[type, Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.UAdd: operator.pos, ast.USub: operator.neg,
}  # fmt: skip
FUNCTIONS = {"EXP": math.exp, "SQRT": math.sqrt}


def rows_of_workbook(content: bytes, source: str) -> Iterator[tuple[str, list[list[str]]]]:
    """The name and the rows of each sheet."""
    _check_archive(content, source)
    try:
        import openpyxl
    except ImportError:
        raise missing_package("Reading .xlsx", "openpyxl", instead="Or save the sheet as .csv.") from None
    try:
        book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, keep_links=False)
        for sheet in book.worksheets[:MOST_SHEETS]:
            sheet.reset_dimensions()  # which the file may misstate
            rows = sheet.iter_rows(max_row=MOST_ROWS, max_col=MOST_COLUMNS)
            yield str(sheet.title), [[_text(cell) for cell in row] for row in rows]
    except Exception as problem:  # noqa: BLE001 - openpyxl raises whatever a malformed part leads to
        raise OptionError(f"{source} is not a readable spreadsheet: {problem}.") from None


def _check_archive(content: bytes, source: str) -> None:
    """Refuse what is not a ZIP archive, what unpacks to more than a sheet can need, and XML that defines entities."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            parts = archive.infolist()
            if len(parts) > MOST_PARTS or sum(part.file_size for part in parts) > MOST_BYTES:
                raise OptionError(f"{source} unpacks to more than {MOST_BYTES >> 20} MiB; expected a filled-in sheet.")
            for part in parts:
                if b"<!DOCTYPE" in archive.read(part) or b"<!ENTITY" in archive.read(part):
                    raise OptionError(f"{source} is not a readable spreadsheet: {part.filename} defines entities.")
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError) as problem:
        if isinstance(problem, OptionError):
            raise
        raise OptionError(f"{source} is not a readable spreadsheet: {problem}.") from None


def _text(cell: Any) -> str:
    """A cell as it is shown; a formula that is not plain arithmetic as it was typed."""
    value = cell.value
    if isinstance(value, str) and value.startswith("=") and cell.data_type == "f":
        result = evaluate(value[1:])
        return value if result is None else repr(result)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "" if value is None else str(value)
    text = repr(value).removesuffix(".0")
    shown = DECIMALS.search(str(cell.number_format))
    decimals = len(text.partition(".")[2])
    if shown and "e" not in text and decimals < len(shown[1]):
        return f"{value:.{len(shown[1])}f}"
    return text


def evaluate(formula: str) -> float | None:
    """The result of plain arithmetic of numbers; None for any other formula.

    >>> evaluate("1/4 + SQRT(4)"), evaluate("A1*2"), evaluate("1/0")
    (2.25, None, None)
    """

    def value_of(node: ast.AST) -> float:
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return float(node.value)
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
            return float(OPERATIONS[type(node.op)](value_of(node.left), value_of(node.right)))
        if isinstance(node, ast.UnaryOp) and type(node.op) in OPERATIONS:
            return float(OPERATIONS[type(node.op)](value_of(node.operand)))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1 and not node.keywords:
            return FUNCTIONS[node.func.id.upper()](value_of(node.args[0]))
        raise ValueError

    if len(formula) > LONGEST_FORMULA:
        return None
    try:
        result = value_of(ast.parse(formula.strip(), mode="eval").body)
    except (SyntaxError, ValueError, KeyError, ArithmeticError, RecursionError, MemoryError):
        return None
    return result if math.isfinite(result) else None

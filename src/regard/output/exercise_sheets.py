"""Exercise sheets as files: Markdown, spreadsheets with empty cells, and PDF."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from regard import atomic_file, validate
from regard.errors import require
from regard.output.table_formats import escaped_markdown
from regard.output.typst_pages import typeset
from regard.teaching.exercises import Box, Exercises, Sheet
from regard.teaching.grading import Grade, grades_csv

FORMATS = ("md", "xlsx", "pdf")
PACKAGES = {"xlsx": "openpyxl", "pdf": "typst"}  # that write them
INSTEAD = "Or write them as md: --as md"
HINT = "Fill in every empty cell: whole numbers as they are, others with two decimals at least."
BOX_COLOUR, GIVEN_COLOUR, RULE_COLOUR = "FFF7D6", "EEF1F5", "B8BEC8"


def to_markdown(sheet: Sheet) -> str:
    """A table per block, with its caption above it."""
    lines = [f"# {escaped_markdown(sheet.title)}", "", HINT, ""]
    for block in sheet.blocks:
        lines += [escaped_markdown(block.caption), ""] if block.caption else []
        rows = [block.heading, *([sheet.text(cell) for cell in row] for row in block.rows)]
        head, *written = (f"| {' | '.join(map(escaped_markdown, row))} |" for row in rows)
        lines += [head, f"| {' | '.join(['---'] * len(block.heading))} |", *written, ""]
    return "\n".join(lines)


def to_xlsx(sheet: Sheet) -> bytes:
    """One worksheet: blocks below each other, coloured cells to fill in; nothing in it is a formula."""
    openpyxl, styles = import_module("openpyxl"), import_module("openpyxl.styles")
    book = openpyxl.Workbook()
    page = book.active
    page.title = "Exercise"
    side = styles.Side(style="thin", color=RULE_COLOUR)
    border = styles.Border(left=side, right=side, top=side, bottom=side)
    fills = {name: styles.PatternFill("solid", fgColor=name) for name in (BOX_COLOUR, GIVEN_COLOUR)}

    def write_text(row: int, column: int, text: str) -> Any:
        cell = page.cell(row, column, text or None)
        if text:
            cell.data_type = "s"  # a name such as =1+1 is text
        return cell

    write_text(1, 1, f"{sheet.title}: {sheet.student}")
    write_text(3, 1, HINT)
    row = 5
    for block in sheet.blocks:
        if block.caption:
            write_text(row, 1, block.caption).font = styles.Font(bold=True)
            row += 1
        for at, cells in enumerate((block.heading, *block.rows)):
            for column, content in enumerate(cells, 1):
                text = sheet.text(content)
                number = _number(text) if at and column > 1 else None
                cell = write_text(row, column, text) if number is None else page.cell(row, column, number)
                cell.border = border
                cell.fill = fills[BOX_COLOUR if isinstance(content, Box) else GIVEN_COLOUR]
                cell.alignment = styles.Alignment(horizontal="center")
                decimals = len(text.partition(".")[2]) if number is not None else 0
                cell.number_format = "0." + "0" * decimals if decimals else "General"
            row += 1
        row += 1
    for letter in "ABCDEFGHIJKL":
        page.column_dimensions[letter].width = 14
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def _number(text: str) -> float | None:
    try:
        return float(text.replace("−", "-")) if "∞" not in text and "inf" not in text.casefold() else None
    except ValueError:
        return None


def to_pdf(sheet: Sheet) -> bytes:
    """Pages of A4, by typst."""
    blocks = [
        {
            "caption": block.caption,
            "heading": list(block.heading),
            "rows": [[sheet.text(cell) for cell in row] for row in block.rows],
            "given": block.is_given,
        }
        for block in sheet.blocks[1:]  # the first one names the student
    ]
    content = {"title": sheet.title, "student": sheet.student, "hint": HINT, "blocks": blocks}
    return typeset("Sheets", "sheet", {"sheet": json.dumps(content)}, INSTEAD, format="pdf")


WRITERS: dict[str, Callable[[Sheet], str | bytes]] = {"md": to_markdown, "xlsx": to_xlsx, "pdf": to_pdf}


def write_exercises(exercises: Exercises, folder: str | Path, formats: tuple[str, ...] = FORMATS) -> list[Path]:
    """Write a sheet and a solution per student and format, and the task file key.json; the paths of all of them."""
    for name in formats:
        validate.choice("formats", name, FORMATS)
    require("Sheets", *(PACKAGES[name] for name in formats if name in PACKAGES), instead=INSTEAD)
    folder = Path(folder)
    (folder / "solutions").mkdir(parents=True, exist_ok=True)
    paths = []
    for task in exercises.tasks:
        for under, sheet in ((folder, task.sheet()), (folder / "solutions", task.sheet(solved=True))):
            paths += [atomic_file.write(under / f"{task.file}.{name}", WRITERS[name](sheet)) for name in formats]
    key = json.dumps(exercises.key(), ensure_ascii=False, indent=1) + "\n"
    return [*paths, atomic_file.write(folder / "key.json", key)]


def write_grades(grades: Sequence[Grade], folder: str | Path) -> list[Path]:
    """Write grades.csv, grades.json and a feedback file per student; the paths of all of them."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    content = json.dumps([grade.as_dict() for grade in grades], ensure_ascii=False, indent=1) + "\n"
    paths = [atomic_file.write(folder / "grades.csv", grades_csv(grades))]
    paths.append(atomic_file.write(folder / "grades.json", content))
    return [*paths, *(atomic_file.write(folder / f"{grade.file}.md", grade.feedback()) for grade in grades)]

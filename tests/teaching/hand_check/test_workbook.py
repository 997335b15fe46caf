"""Spreadsheets that were filled in: numbers as shown, formulas as their stored results, nothing run."""

import io
import zipfile

import pytest

from regard.errors import OptionError
from regard.teaching.hand_check import check_notes
from regard.teaching.hand_check.workbook import MOST_BYTES, rows_of_workbook

openpyxl = pytest.importorskip("openpyxl")
ROWS = [["x", 1, 2], ["a", 1, 0], ["b", 0, 2], [], ["score", "a", "b"], ["a", 1, 0], ["b", 0, "=2*2"]]


def saved(rows=ROWS) -> bytes:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def patched(content: bytes, change) -> bytes:
    """The archive with each part changed by `change(name, text)`."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return buffer.getvalue()


@pytest.mark.parametrize(("stored", "kind"), [(b"4", "right"), (b"5", "wrong")])
def test_a_formula_counts_as_its_stored_result(tmp_path, stored, kind):
    content = patched(
        saved(),
        lambda name, text: text.replace(b"<v></v>", b"<v>%s</v>" % stored).replace(b"<v />", b"<v>%s</v>" % stored),
    )
    path = tmp_path / "notes.xlsx"
    path.write_bytes(content)
    check = check_notes(path)
    assert [verdict.kind for verdict in check.verdicts] == ["right"] * 3 + [kind]


def test_a_formula_without_a_result_is_missing(tmp_path):
    (tmp_path / "notes.xlsx").write_bytes(saved())
    assert [verdict.what for verdict in check_notes(tmp_path / "notes.xlsx").of_kind("missing")] == ["score b → b"]


def test_numbers_have_the_decimals_that_are_shown():
    book = openpyxl.Workbook()
    book.active["A1"], book.active["B1"], book.active["C1"] = 0.4, 0.4, 0.123
    book.active["A1"].number_format = book.active["C1"].number_format = "0.00"
    buffer = io.BytesIO()
    book.save(buffer)
    ((name, rows),) = rows_of_workbook(buffer.getvalue(), "it")
    assert name == "Sheet" and rows[0][:4] == ["0.40", "0.4", "0.123", ""]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"PK\x03\x04 nothing", "not a zip file"),
        (
            patched(saved(), lambda name, text: text + b" " * MOST_BYTES if "sheet1" in name else text),
            "unpacks to more",
        ),
        (patched(saved(), lambda name, text: b"<!DOCTYPE a>" + text if "sheet1" in name else text), "defines entities"),
        (patched(saved(), lambda name, text: text[:200] if "sheet1" in name else text), "not a readable spreadsheet"),
        (patched(saved(), lambda name, text: b"" if "workbook.xml" in name else text), "not a readable spreadsheet"),
    ],
    ids=["no archive", "too large", "entities", "cut", "empty part"],
)
def test_malformed_files_are_refused(content, says):
    with pytest.raises(OptionError, match=says):
        list(rows_of_workbook(content, "it"))

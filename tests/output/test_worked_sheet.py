"""The spreadsheet of a calculation has live formulas, which LibreOffice computes as Regard does."""

import io
import shutil
import subprocess

import numpy as np
import pytest

from regard.errors import OptionError
from regard.output.worked_sheet import worked_sheet
from regard.teaching.traced_attention import traced

openpyxl = pytest.importorskip("openpyxl")
WORDS = ["The", "cat", "sat"]
CASES = {
    "plain": traced(WORDS),
    "transposed": traced(WORDS, product="x W^T", width=4),
    "heads and mask": traced(WORDS, heads=2, masks=["causal"], product="x W^T"),
    "cross": traced(WORDS[:2], context=["le", "chat", "dort"]),
    "positions": traced(WORDS, positions="sinusoidal"),
    "parts": traced(None, {"q": [[1, 0], [0, 2]], "k": [[1, 1], [0, 1]], "v": [[1, 2, 3], [4, 5, 6]], "divisor": 2}),
}


@pytest.mark.parametrize("case", CASES)
def test_everything_but_the_inputs_is_a_formula(case):
    page = openpyxl.load_workbook(io.BytesIO(worked_sheet(CASES[case].inputs))).active
    yellow = [cell for row in page.iter_rows() for cell in row if cell.fill.fgColor.rgb == "00FFF7D6"]
    formulas = [cell for row in page.iter_rows() for cell in row if cell.data_type == "f"]
    assert yellow and all(isinstance(cell.value, (int, float)) for cell in yellow)
    assert len(formulas) > 3 * len(WORDS)


def test_words_are_never_formulas():
    page = openpyxl.load_workbook(io.BytesIO(worked_sheet(traced(["=1+1", "cat"]).inputs))).active
    assert {cell.data_type for row in page.iter_rows() for cell in row if cell.value == "=1+1"} == {"s"}


def test_many_words_are_refused():
    with pytest.raises(OptionError, match="too many"):
        worked_sheet(traced([f"w{at}" for at in range(300)]).inputs)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("soffice") is None, reason="LibreOffice is not installed")
@pytest.mark.parametrize("case", CASES)
def test_libreoffice_computes_the_same(case, tmp_path):
    """Also after an embedding has been changed in the sheet."""
    steps = CASES[case]
    book = openpyxl.load_workbook(io.BytesIO(worked_sheet(steps.inputs)))
    cell = next(cell for row in book.active.iter_rows() for cell in row if cell.fill.fgColor.rgb == "00FFF7D6")
    inputs = steps.inputs
    (inputs.parts["query"][0] if inputs.x is None else inputs.x)[0, 0] = cell.value = cell.value + 1.5
    if inputs.x is not None and inputs.context is None:
        assert book.active["A3"].value == ("x" if inputs.position is None else "embedding")
    book.save(tmp_path / "steps.xlsx")
    command = ["soffice", f"-env:UserInstallation=file://{tmp_path}/profile", "--headless", "--convert-to", "xlsx"]
    command += ["--outdir", str(tmp_path / "computed"), str(tmp_path / "steps.xlsx")]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    page = openpyxl.load_workbook(tmp_path / "computed" / "steps.xlsx", data_only=True).active
    trace = steps.whole()
    names = ["projected", *(["concatenated"] if steps.heads > 1 else []), "output"]
    expected = np.asarray(trace[next(name for name in names if name in trace)]).reshape(len(steps.words), -1)
    rows = [row for row in page.iter_rows(values_only=True) if row[0] is not None][-len(expected) :]
    numbers = [[float(number) for number in row[1 : 1 + expected.shape[1]]] for row in rows]
    np.testing.assert_allclose(numbers, expected, atol=1e-9)

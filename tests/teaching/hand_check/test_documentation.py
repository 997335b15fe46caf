"""The examples on the how-to page are valid notes."""

import re
from pathlib import Path

import pytest

from regard.teaching.hand_check import check_notes

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "check-a-hand-calculation.md"
EXAMPLES = re.findall(r"```(json|csv|markdown)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize(("language", "text"), EXAMPLES)
def test_examples_of_the_page_are_notes(tmp_path, language, text):
    path = tmp_path / f"notes.{'md' if language == 'markdown' else language}"
    path.write_text(text, encoding="utf-8")
    check = check_notes(path)
    assert check.of_kind("cut")
    assert not check.of_kind("wrong")
    assert not check.of_kind("shape")


def test_there_are_examples_of_every_form():
    assert [language for language, _ in EXAMPLES] == ["json", "csv", "markdown", "markdown"]

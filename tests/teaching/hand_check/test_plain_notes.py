"""Lines of plain text, in the forms that people write them in."""

import pytest

from regard.errors import OptionError
from regard.teaching.hand_check import check_notes

GIVEN = "x(The) = 1 0 1 0\nx(cat) = 0 1 0 1\nx(sat) = 1 1 1 1\n"


@pytest.mark.parametrize(
    "line",
    [
        "Score(Q_cat, K_The) = 0",
        "score cat → sat = 2",
        "Score(cat, sat) = 0·1 + 1·1 + 0·1 + 1·1 = 2",
        "z_cat = 0.58 0.84 0.58 0.84",
        "Output(cat) = [0.58, 0.84, 0.58, 0.84]",
        "weight(cat, The) ≈ 0,16",
        "Query cat:\nsoftmax(The) = 0.16",
        "Gewicht(cat, cat) = 0,42",
        "score/√4(cat, sat) = 1",
    ],
)
def test_lines_are_facts(tmp_path, line):
    path = tmp_path / "notes.txt"
    path.write_text(GIVEN + line, encoding="utf-8")
    check = check_notes(path)
    assert check.ok and check.verdicts, check.table().rows
    path.write_text(GIVEN + line.rpartition(" ")[0] + " 7.25", encoding="utf-8")
    assert not check_notes(path).ok


def test_heads_and_settings_are_named_in_lines(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text(
        "heads = 2\n" + GIVEN + "Query cat, head 1:\nscore(sat) = 1\nscore(cat, The, head 0) = 0\n", encoding="utf-8"
    )
    check = check_notes(path)
    places = {(verdict.what, verdict.head) for verdict in check.verdicts}
    assert check.ok and places == {("score cat → The, head 0", 0), ("score cat → sat, head 1", 1)}


def test_text_without_numbers_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("I did not do it.", encoding="utf-8")
    with pytest.raises(OptionError, match="Write lines such as"):
        check_notes(path)


@pytest.mark.parametrize(
    "heading", ["| Setting | value |", "| Einstellung | Wahl |", "| Settings | |", "| Setting | W_q |"]
)
def test_the_values_of_settings_may_stand_below_any_heading(tmp_path, heading):
    path = tmp_path / "notes.md"
    embeddings = "| x | 1 | 2 |\n|---|---|---|\n| The | 1 | 0 |\n| cat | 0 | 1 |\n"
    path.write_text(
        f"{heading}\n|---|---|\n| mask | causal |\n\n{embeddings}\n"
        "| weights | The | cat |\n|---|---|---|\n| The | 1 | 0 |\n",
        encoding="utf-8",
    )
    assert check_notes(path).ok

"""The verdict on each number."""

from collections import Counter

import numpy as np
import pytest

from regard.attention import Attention
from regard.errors import OptionError
from regard.teaching.hand_check import check_notes, worked_example

E = {"The": [1, 0, 1, 0], "cat": [0, 1, 0, 1], "sat": [1, 1, 1, 1]}


def only(notes):
    (verdict,) = check_notes(notes).verdicts
    return verdict


def verdict_on(check, what):
    (verdict,) = (verdict for verdict in check.verdicts if verdict.what == what)
    return verdict


def test_slips_of_the_lecture_notes_get_the_right_verdicts():
    check = check_notes(worked_example())
    cut = verdict_on(check, "weight The → cat")
    assert (cut.kind, cut.given, cut.shown) == ("cut", "0.15", "0.1554")
    carried = verdict_on(check, "output The [1]")
    assert (carried.kind, carried.given, carried.shown) == ("carried on", "0.57", "0.5777")
    assert "0.42·0 + 0.15·1 + 0.42·1 = 0.57" in carried.because
    rounded = verdict_on(check, "weight sat → sat")
    assert (rounded.kind, rounded.given, rounded.shown) == ("rounded", "0.58", "0.5761")
    shape = verdict_on(check, "W")
    assert (shape.kind, shape.given) == ("shape", "3 × 3")
    assert "4 × 4" in shape.because
    assert not check.ok
    assert not check.of_kind("wrong")
    assert check.summary().endswith("18 right, 15 rounded, 2 cut, 4 carried on, 1 of a shape that does not fit.")


def test_rounded_notes_are_ok():
    notes = {"embeddings": E, "weights": {"The": [0.42, 0.16, 0.42]}, "outputs": {"The": ["0.84", "0.58", 0.845, 0.58]}}
    check = check_notes(notes)
    assert check.ok
    assert not check.slips


def test_a_wrong_number_comes_with_the_right_one_and_its_calculation():
    verdict = only({"embeddings": E, "scores": {"cat": {"sat": 3}}})
    assert (verdict.kind, verdict.exact, verdict.place) == ("wrong", 2.0, (1, 2))
    assert verdict.because == "0·1 + 1·1 + 0·1 + 1·1 = 2"
    assert only({"embeddings": E, "scaled": {"cat": {"sat": 0.7}}}).because == "2 / √4 = 1"
    weight = only({"embeddings": E, "weights": {"The": {"cat": 0.25}}})
    assert weight.because == "e^0 / (e^1 + e^0 + e^1) = 1 / 6.4366 = 0.1554"


def test_what_follows_from_a_wrong_number_is_not_wrong_again():
    check = check_notes({"embeddings": E, "scores": {"cat": [0, 2, 4]}, "scaled": {"cat": [0, 1, 2]}})
    assert [verdict.kind for verdict in check.slips] == ["wrong", "follows"]
    assert "4 / √4 = 2 from a wrong number" in check.slips[1].because


def test_weighted_values_and_their_sum_may_carry_on_rounded_weights():
    notes = {
        "embeddings": E,
        "weights": {"The": [0.42, 0.15, 0.42]},
        "weighted values": {"The": {"cat": [0, 0.15, 0, 0.15]}},
        "outputs": {"The": {"1": 0.57}},
    }
    check = check_notes(notes)
    assert verdict_on(check, "weighted value The → cat [1]").kind == "carried on"
    assert "0 + 0.15 + 0.42 = 0.57" in verdict_on(check, "output The [1]").because


@pytest.mark.parametrize(
    ("text", "kind"), [("2", "right"), ("2.00", "right"), ("1.99", "wrong"), ("2.1", "wrong"), ("−2", "wrong")]
)
def test_written_digits_decide_between_right_rounded_and_cut(text, kind):
    assert only({"embeddings": E, "scores": {"cat": {"sat": text}}}).kind == kind


def test_a_half_may_be_rounded_either_way():
    for text in ("0.12", "0.13"):
        notes = {"words": ["a"], "q": [[0.125]], "k": [[1]], "scores": [[text]]}
        assert only(notes).kind == "rounded"


def test_every_step_of_the_engine_is_right_and_every_change_is_noticed():
    generator = np.random.default_rng(0)
    x, w_q, w_k, w_v = (generator.normal(size=shape) for shape in ((5, 7), (3, 7), (3, 7), (2, 7)))
    q, k, v = x @ w_q.T, x @ w_k.T, x @ w_v.T
    trace = Attention(q, k).explain(v)
    notes = {"embeddings": x, "W_q": w_q.T, "W_k": w_k.T, "W_v": w_v.T, "q": q, "k": k, "v": v}
    steps = ("score", "scaled", "weight", "weighted_value", "output")
    notes |= {name: np.array(trace[name][0]) for name in steps}
    check = check_notes(notes)
    assert check.ok
    assert {verdict.kind for verdict in check.verdicts} == {"right"}
    assert len(check.verdicts) == 15 + 15 + 10 + 25 * 3 + 50 + 10
    for name in steps:
        array = np.array(notes[name])
        array.flat[-1] += 0.5
        slips = check_notes(notes | {name: array}).slips
        assert [(verdict.step, verdict.kind) for verdict in slips] == [(name, "wrong")]


def test_a_calculation_may_start_from_q_k_v():
    notes = {"words": "Action gets", "q": [[6, 0], [3, 0]], "k": [[1, 0], [2, 0]], "divisor": 1}
    check = check_notes(notes | {"weights": [["0.00", "1.00"], [0.05, 0.95]]})
    assert check.ok
    assert len(check.verdicts) == 4


def test_softmax_alone_can_be_checked():
    check = check_notes({"scaled": [[6, 4], [3, 2]], "weights": [[0.88, 0.12], [0.73, 0.27]]})
    assert [verdict.kind for verdict in check.verdicts] == ["unchecked"] * 4 + ["rounded"] * 4
    assert check.ok


def test_nothing_checked_is_not_ok():
    check = check_notes({"words": ["a"], "outputs": [[1, 2]]})
    assert check.of_kind("unchecked") == check.verdicts
    assert not check.ok


@pytest.mark.parametrize(
    ("notes", "what", "because"),
    [
        ({"scores": {"cat": [0, 2]}}, "score cat", "2 numbers for 3 words"),
        ({"scores": [[0, 2, 2]]}, "score", "1 row for 3 words"),
        ({"outputs": {"The": [1, 2, 3]}}, "output The", "3 numbers for vectors of 4"),
        ({"weights": {"The": 0.42}}, "weight The", "1 number for 3 words"),
        ({"weights": {"The": {"cat": [0.1, 0.2]}}}, "weight The → cat", "expected one number"),
        ({"W_q": [[1, 2, 3]]}, "W_q", "x W needs 4 rows"),
        ({"W_q": [[1, 2, 3, 4]]}, "W_q", 'it fits as x W^T: set "product": "x W^T"'),
        ({"W_q": [[1], [2], [3], [4]]}, "W_k", "W_q gives queries of 1 number, W_k gives keys of 4"),
    ],
)
def test_shapes_that_do_not_fit_are_reported(notes, what, because):
    check = check_notes({"embeddings": E, "scaled": {"cat": {"cat": 1}}, **notes})
    verdict = verdict_on(check, what)
    assert verdict.kind == "shape"
    assert because in verdict.because


def test_both_conventions_of_w_are_checked():
    notes = {"embeddings": [[1, 2]], "W_q": [[1, 2, 3], [4, 5, 6]], "product": "E·W", "q": [[9, 12, 15]]}
    kinds = [verdict.kind for verdict in check_notes(notes).verdicts if verdict.step == "query"]
    assert kinds == ["right"] * 3


def test_a_repeated_word_is_named_by_its_occurrence():
    notes = {"words": ["the", "cat", "the"], "q": [[1], [2], [3]], "k": [[1], [1], [1]]}
    check = check_notes(notes | {"scores": {"the": [1, 1, 1], "the (2)": [3, 3, 3]}})
    assert check.ok
    assert [verdict.place[0] for verdict in check.verdicts] == [0, 0, 0, 2, 2, 2]


def test_the_table_has_a_row_for_each_number_or_only_for_slips():
    check = check_notes(worked_example())
    assert len(check.table()) == len(check.verdicts) == 40
    slips = check.table(slips_only=True)
    assert set(slips["Verdict"]) == {"shape", "cut", "carried on"}
    assert slips.notes == (check.summary(),)


def sheet(*, filled=False):
    """The step table of one query, to be filled in: score, softmax, softmax × v and the sum."""
    rows = [("The", "0", "0.15", "0.15 0 0.15 0", ""), ("cat", "2", "0.42", "0 0.42 0 0.42", "0.58 0.84 0.58 0.84")]
    rows += [("sat", "2", "0.42", "0.42 0.42 0.42 0.42", "")]
    lines = ["Query cat:", "", "|Word|E|score|softmax|softmax × v|sum|", "|-|-|-|-|-|-|"]
    for (word, *cells), vector in zip(rows, E.values(), strict=True):
        numbers = " ".join(map(str, vector))
        lines.append("|".join(["", word, numbers, *(cells if filled else [" "] * 4), ""]))
    return "\n".join(lines)


def test_a_blank_sheet_is_missing_answers(tmp_path):
    (tmp_path / "sheet.md").write_text(sheet())
    check = check_notes(tmp_path / "sheet.md")
    assert not check.ok
    assert Counter(verdict.step for verdict in check.of_kind("missing")) == {
        "score": 3, "weight": 3, "weighted_value": 3, "output": 1
    }  # fmt: skip
    (tmp_path / "sheet.md").write_text(sheet(filled=True))
    assert not check_notes(tmp_path / "sheet.md").of_kind("missing")


def test_null_is_a_missing_answer_unless_the_mask_hides_the_key():
    notes = {"embeddings": E, "mask": "causal", "weights": [[1, None, None], [None, 0.73, None], None]}
    assert [verdict.what for verdict in check_notes(notes).of_kind("missing")] == ["weight cat → The", "weight sat"]


@pytest.mark.parametrize(
    ("text", "kind"),
    [("0", "too few decimals"), ("0.4", "too few decimals"), ("0.42", "rounded"), ("1", "wrong"), ("0.41", "wrong")],
)
def test_a_rounded_number_has_two_decimals_at_least(text, kind):
    check = check_notes({"embeddings": E, "weights": {"The": {"The": text}}})  # 0.4223
    assert [verdict.kind for verdict in check.verdicts] == [kind]
    assert check.ok == (kind == "rounded")


def test_too_few_decimals_of_a_number_that_follows_are_not_said_to_be_those_of_the_right_one():
    notes = {"q": [[3, 0]], "k": [[1, 0], [0, 1]], "v": [[1], [2]], "words": ["a", "b"], "query words": ["a"]}
    check = check_notes(notes | {"scores": [["1", "1"]], "weights": [["0", "1"]]})  # softmax(1, 1), not softmax(3, 0)
    coarse = check.of_kind("too few decimals")
    assert [verdict.given for verdict in coarse] == ["0", "1"]
    for verdict in coarse:
        assert "with 2 decimals it is" not in verdict.because
        assert (
            "fewer than 2 decimals" in verdict.because and "from a wrong number before it; right is" in verdict.because
        )


@pytest.mark.parametrize(
    ("texts", "kinds"),
    [
        (["1", "0"], ["too few decimals"] * 2),
        (["1.0", "0.0"], ["rounded"] * 2),
        (["1.00", "0.00"], ["rounded"] * 2),
        (["0.9975", "0.0025"], ["rounded"] * 2),
    ],
)
def test_a_bare_0_or_1_is_not_rounded_even_where_0_00_and_1_00_are(texts, kinds):
    notes = {"q": [[6.0], [6.0]], "k": [[1.0], [0.0]], "v": [[1.0], [0.0]], "divisor": 1}
    assert [one.kind for one in check_notes(notes | {"weights": {"0": texts}}).verdicts] == kinds
    assert all(one.kind == "rounded" for one in check_notes(notes | {"weights": {"0": texts}}, decimals=0).verdicts)


def test_decimals_that_are_asked_for_may_be_fewer_and_zeros_at_the_end_may_be_left_out():
    notes = {"q": [[1], [1]], "k": [["0.198"], ["0.42"]], "divisor": 1}
    assert check_notes(notes | {"scaled": {"0": ["0.2", "0.42"]}}).ok  # 0.20
    assert not check_notes(notes | {"scaled": {"0": ["0.2", "0.4"]}}).ok
    assert check_notes(notes | {"scaled": {"0": ["0.2", "0.4"]}}, decimals=1).ok
    with pytest.raises(OptionError, match="`decimals` is -1; expected an integer from 0 to 12"):
        check_notes(notes | {"scaled": [[0, 0]]}, decimals=-1)


def test_keys_used_as_values_are_named_where_that_gives_zero():
    notes = {"q": [[1, 0]], "k": [[0, 2]], "v": [[0.79, 3]], "weights": [[1]], "weighted values": [[["0", "2"]]]}
    assert {verdict.because for verdict in check_notes(notes).of_kind("wrong")} == {
        "keys instead of values; right is 1·0.79 = 0.79",
        "keys instead of values; right is 1·3 = 3",
    }
    notes["weighted values"] = [[["0", "3"]]]
    assert [verdict.because for verdict in check_notes(notes).slips] == ["with 2 decimals it is 0.79"]

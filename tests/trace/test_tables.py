"""The step table of the slides, and how its numbers are printed."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard.errors import OptionError, OutOfRange
from regard.tables import Column, printed_number

CAT_SAT = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]]
WORDS = ["The", "cat", "sat"]
SLIDE = ("Word", "q", "k", "v", "score", "score/√d_k", "softmax", "softmax × v", "sum")


def number_of(text: str) -> Decimal:
    return Decimal(text.replace("−", "-"))


def test_a_row_by_its_number_and_a_column_by_its_name():
    table = regard.Attention(CAT_SAT, CAT_SAT).explain(CAT_SAT, words=WORDS).table("The")
    assert table[0] is table.rows[0] and table[-1] is table.rows[2] and table[1:] == table.rows[1:]
    with pytest.raises(OutOfRange, match="`row` is 3; there are 3 rows"):
        table[3]
    with pytest.raises(OptionError, match=r"`column` is 'softmx'; expected 'Word', .*\nDid you mean 'softmax'"):
        table["softmx"]


def test_columns_are_those_of_the_slides():
    trace = regard.Attention(CAT_SAT, CAT_SAT).explain(CAT_SAT, words=WORDS)
    table = trace.table("The")
    assert tuple(column.name for column in table.columns) == SLIDE
    assert table.highlight == 0
    assert [table.printed(row) for row in table] == [
        ("The", "1 0 1 0", "1 0 1 0", "1 0 1 0", "2", "1", "0.42", "0.42 0.00 0.42 0.00", "0.84 0.58 0.84 0.58"),
        ("cat", "", "0 1 0 1", "0 1 0 1", "0", "0", "0.16", "0.00 0.16 0.00 0.16", ""),
        ("sat", "", "1 1 1 1", "1 1 1 1", "2", "1", "0.42", "0.42 0.42 0.42 0.42", ""),
    ]
    assert [column.shade for column in table.columns].index(True) == SLIDE.index("softmax")
    assert len(trace.tables()) == 3


def test_capped_biased_and_masked_scores_get_columns(draw):
    x = draw(3, 5)
    trace = regard.Attention(x, x, scale=2.0, softcap=3.0, bias=draw(3, 3), mask=regard.causal()).explain(x)
    names = [column.name for column in trace.table(1).columns]
    assert names[4:10] == ["score", "score·2", "capped", "+ bias", "masked", "softmax"]
    assert trace.table(1)["masked"][2] == -np.inf


def test_a_query_of_cross_attention_is_in_the_first_row(draw):
    trace = regard.Attention(draw(2, 5), draw(3, 5)).explain(draw(3, 5), words=WORDS, query_words=["le", "chat"])
    table = trace.table("chat")
    assert table.highlight is None
    np.testing.assert_array_equal(table["q"][0], trace["query"][0, 1])
    assert table["q"][1:] == (None, None) == table["sum"][1:]


@given(st.integers(1, 40), st.integers(1, 5), st.integers(0, 10_000), st.sampled_from([1.0, 8.0, 0.01, 1000.0]))
def test_printed_terms_agree_with_the_printed_sum(count, size, seed, spread):
    """Within half a last digit per term."""
    vectors = np.random.default_rng(seed).normal(size=(count, size)) * spread
    table = regard.Attention(vectors, vectors).explain(vectors, query=0).table()
    digits = {column.name: column.digits for column in table.columns}
    assert digits["sum"] == digits["softmax × v"]
    _agree(table["softmax × v"], table["sum"][0], digits["sum"])


@given(st.lists(st.sampled_from([0.125, -0.125, 0.375, 0.5, -0.625, 0.005]), min_size=1, max_size=9))
def test_halves_are_rounded_consistently(terms):
    _agree([[term] for term in terms], [float(np.sum(terms))], 2)


def _agree(terms, total, digits):
    for component, number in enumerate(total):
        printed = [number_of(printed_number(term[component], digits)) for term in terms]
        apart = abs(sum(printed) - number_of(printed_number(number, digits)))
        assert apart <= len(terms) * Decimal(1).scaleb(-digits) / 2


def test_a_note_says_that_printed_terms_add_up_differently():
    values = [[0.333], [0.333], [0.333]]
    trace = regard.Attention(np.zeros((1, 2)), np.zeros((3, 2))).explain(values)
    assert not trace.table().notes  # 0.11 · 3 = 0.33
    values = [[0.34], [0.34], [0.34]]
    trace = regard.Attention(np.zeros((1, 2)), np.zeros((3, 2))).explain(values)
    assert "rounded on its own" in trace.table().notes[0]


def test_notes_of_a_trace_appear_under_its_tables():
    trace = regard.Attention(CAT_SAT, CAT_SAT).explain(CAT_SAT).noted("numbers come from random weights, seed 0")
    assert trace.note in trace.table(0).notes
    trace = regard.Attention([CAT_SAT], [CAT_SAT], sinks=[0.0]).explain([CAT_SAT])
    assert "The sink takes 0.13 of the weight" in trace.table(0).notes[0]


def test_small_weights_get_more_digits():
    zeros = np.zeros((1000, 2))
    table = regard.Attention(zeros, zeros).explain(zeros + 1, query=3).table()
    assert table.printed(table.rows[0])[SLIDE.index("softmax")] == "0.0010"


def test_torch_gives_the_same_table(draw):
    torch = pytest.importorskip("torch")
    x = draw(3, 5)
    plain = regard.Attention(x, x).explain(x).table(1)
    tensor = torch.from_numpy(x).requires_grad_()
    other = regard.Attention(tensor, tensor).explain(tensor).table(1)
    assert [plain.printed(row) for row in plain] == [other.printed(row) for row in other]
    assert plain.columns == other.columns


def test_columns_compare_by_value():
    assert Column("softmax", "number", 2, True) == Column("softmax", "number", shade=True)


def test_a_masked_key_has_a_blank_weight_and_a_visible_one_a_number_however_small():
    E = np.array([[200.0, 0.0], [0.0, 200.0], [1.0, 1.0]])
    table = regard.Attention(E, E, mask=regard.causal()).explain(E).table(1)
    assert table["softmax"] == (0.0, 1.0, None)  # e^(−28284) is 0; the third key is masked
    assert table["softmax × v"][2] is None and table["masked"][2] == -np.inf
    assert table.printed(table.rows[2])[-3:] == ("", "", "")

"""Queries given by word, by word and occurrence, or by position."""

from __future__ import annotations

import numpy as np
import pytest

import regard
from regard import errors

WORDS = ["The", "kids", "were", "scared", "of", "the", "lions", ",", "so", "they", "left", "the", "room"]


@pytest.fixture
def trace(draw):
    x = draw(len(WORDS), 3)
    return regard.Attention(x, x).explain(x, words=WORDS)


@pytest.mark.parametrize(
    ("query", "place"),
    [("kids", 1), ("the", 5), (("the", 1), 5), (("the", 2), 11), (("The", 1), 0), (("the", 3), 11), (4, 4), (-1, 12),
     (np.int64(3), 3), ("LIONS", 6)],
)  # fmt: skip
def test_queries_are_found_by_word_and_position(trace, query, place):
    assert trace.table(query).highlight == place


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("lion", "Did you mean 'lions'"),
        ("xyz", "0 The, 1 kids, 2 were"),
        (("the", 4), "occurs 3 times"),
        (("the", 0), "counted from 1"),
        (13, "there are 13 words"),
        (1.5, "a position counted from 0"),
        (True, "a position counted from 0"),
        (None, "Which `query`"),
    ],
)
def test_unknown_queries_raise_a_clear_error(trace, query, message):
    with pytest.raises(errors.RegardError, match=message):
        trace.table(query)


def test_one_query_keeps_its_position(draw):
    x = draw(len(WORDS), 3)
    alone = regard.Attention(x, x).explain(x, query="lions", words=WORDS)
    assert alone.query_words == ("lions",) and alone.words == tuple(WORDS)
    for query in (None, "lions", 6, -1):
        assert alone.table(query).highlight == 6
    with pytest.raises(errors.RegardError, match="only query 6"):
        alone.table(2)


def test_the_number_of_words_must_equal_the_number_of_keys(draw):
    x = draw(3, 2)
    with pytest.raises(errors.ShapeError, match="2 words for 3 keys"):
        regard.Attention(x, x).explain(x, words=["a", "b"])
    with pytest.raises(errors.OptionError, match="a list of words"):
        regard.Attention(x, x).explain(x, words="a b c")


def test_positions_are_the_default_words(draw):
    x = draw(3, 2)
    assert regard.Attention(x, x).explain(x).words == ("0", "1", "2")

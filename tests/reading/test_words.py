"""Tokens joined into words, words found by name, and readings of given attentions."""

import numpy as np
import pytest

from regard import errors
from regard.attention import Attention
from regard.masks import causal, padding
from regard.reading import Reading, Token

from .cases import PIECES, PLAIN, made


def test_pieces_are_joined_and_spelled_as_in_the_text():
    words = made().words
    expected = ["[CLS]", "Keeping", "the", "cats", "watchingly", ",", "the", "end", "[SEP]"]
    assert [word.text for word in words] == expected
    assert [(word.first, word.last) for word in words][:5] == [(0, 1), (1, 3), (3, 4), (4, 5), (5, 8)]
    assert [word.special for word in words] == [True, *[False] * 7, True]


def test_equal_words_have_different_labels():
    assert made().labels[2] == "the"
    assert made().labels[6] == "the:2"


def test_a_piece_after_a_special_token_always_starts_a_word():
    tokens = (Token("[CLS]", 0, 0, 0, special=True), Token("ing", 1, 0, 3, joined=True))
    assert [(word.first, word.last) for word in made(tokens).words] == [(0, 1), (1, 2)]


def test_tokens_without_a_span_keep_their_own_text():
    tokens = (Token("⏎", 0, 0, 0), Token("x", 1, 0, 0))
    assert [word.text for word in made(tokens).words] == ["⏎", "x"]


@pytest.mark.parametrize(
    ("asked", "first"), [("Keeping", 1), ("keeping", 1), (("the", 2), 9), (4, 5), (-1, 11), (np.int64(0), 0)]
)
def test_words_are_found_by_text_occurrence_and_position(asked, first):
    assert made().word(asked).first == first


@pytest.mark.parametrize("asked", ["dog", ("the", 3), 9, 2.5, True, None])
def test_unknown_words_raise_an_error_that_lists_the_words(asked):
    with pytest.raises(errors.RegardError, match="word"):
        made().strongest(asked)


def test_sinks_are_special_tokens_and_the_first_of_a_causal_model():
    assert made().sinks == (0, 11)
    assert made(PLAIN).sinks == ()
    assert made(PLAIN, causal()).sinks == (0,)
    assert made(PIECES, causal()).sinks == (0, 11)
    assert made(PLAIN, padding(5)).sinks == ()  # the first query sees more than itself
    assert made(PLAIN, causal()).sink_words == (0,)


def test_any_attention_can_be_a_reading():
    E = np.eye(3)
    one = Reading.of(Attention(E, E), E, words=["a", "b", "c"], text="a b, c")
    assert (one.layers, one.heads, one.text) == (1, 1, "a b, c")
    assert [(token.start, token.stop) for token in one.tokens] == [(0, 1), (2, 3), (5, 6)]
    assert Reading.of(Attention(E, E), E.tolist()).labels == ("0", "1", "2")
    several = Reading.of([Attention(E[None], E[None])] * 2, [E[None]] * 2)
    assert several.layers == 2
    batch = Reading.of(Attention(E[None, None], E[None, None]), E[None, None])
    assert batch.attention(0).shape == (1, 3, 3)
    pieces = Reading.of(Attention(E, E), E, words=PIECES[:3], text="Keeping")
    assert (pieces.tokens, pieces.labels) == (PIECES[:3], ("[CLS]", "Keeping"))
    spelled = Reading.of(Attention(np.eye(12), np.eye(12)), np.eye(12), words=PIECES)
    assert spelled.text == "keeping the cats watchingly , the end"
    assert spelled.labels[1:3] == ("keeping", "the")


def test_arrays_that_do_not_fit_are_refused():
    E = np.eye(3)
    two = Attention(np.zeros((2, 1, 3, 3)), np.zeros((2, 1, 3, 3)))
    attention = Attention(E, E)
    for wrong, message in (
        (lambda: Reading.of([], []), "no layer"),
        (lambda: Reading.of([attention], []), "one"),
        (lambda: Reading.of(two, E), "2 sequences"),
        (lambda: Reading.of("attention", E), "an Attention"),  # type: ignore[arg-type]
        (lambda: Reading.of(attention, E, words=["a"]), "3"),
        (lambda: Reading.of(attention, E[:2]), "(head, key, value_dim)"),
        (lambda: Reading.of(Attention(E[:2], E, offset=0), E), "(head, query, key)"),
        (lambda: Reading("", PIECES[:3], made().seen), "3 tokens"),
        (lambda: Reading("", PIECES, made().seen, states=(np.zeros((12, 2)),)), "`states` holds 1"),
        (lambda: Reading("", PIECES, made().seen, outputs=(np.zeros((6, 12, 3)),) * 3), "output"),
    ):
        with pytest.raises(errors.RegardError) as caught:
            wrong()
        assert message in str(caught.value)


def test_repr_is_short():
    assert (
        repr(made()) == "Reading(Keeping the cats watchingly , the end; 12 tokens, 3 layers × 6 heads, given vectors)"
    )
    many = Reading.of(Attention(np.zeros((40, 2)), np.zeros((40, 2))), np.zeros((40, 2)))
    assert len(repr(many)) < 120

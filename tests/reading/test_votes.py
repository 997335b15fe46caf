"""One vote per head: the published counts, and what holds for every reading."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from regard.attention import Attention
from regard.masks import allowed, causal
from regard.reading import Reading
from regard.reading.votes import vote_of, votes_of
from regard.reading.weights import WordWeights
from regard.reading.words import words_of

from ..small_models import encoder, writer


def random_reading(words, *, layers=2, heads=3, mask=None, seed=1):
    rng = np.random.default_rng(seed)
    attentions, values = [], []
    for _ in range(layers):
        q, k, v = rng.normal(size=(3, heads, len(words), 5))
        attentions.append(Attention(4 * q, k, mask=mask))
        values.append(v)
    return Reading.of(attentions, values, words=words)


@pytest.mark.parametrize("model", [writer, encoder])
def test_every_head_votes_for_the_largest_weight_that_is_not_set_aside(model):
    reading = model().read("the kids were scared of the lions, so they left")
    votes = reading.votes("they")
    own, sinks = reading.words.index(reading.word("they")), set(reading.sink_words)
    assert [vote[:2] for vote in votes.heads] == [(a, b) for a in range(reading.layers) for b in range(reading.heads)]
    for layer, head, word, weight, abstains in votes.heads:
        row = reading.weights(layer=layer, head=head)[own]
        others = [place for place in range(len(row)) if place not in sinks and place != own and row[place] > 0]
        assert word == max(others, key=lambda place: row[place])
        np.testing.assert_allclose(weight, row[word], rtol=1e-6)
        assert abstains == (max(range(len(row)), key=lambda place: row[place]) in sinks)
    assert sum(votes.counts.values()) == len(votes.heads)


def test_masked_words_get_no_vote():
    words = ["a", "b", "c", "d", "e", "f", "g"]
    hidden = np.ones((7, 7), bool)
    hidden[3, [1, 5]] = False
    reading = random_reading(words, heads=31, mask=allowed(hidden))
    assert set(reading.votes("d").counts) <= {"a", "c", "e", "f", "g"} - {"f"}
    causally = random_reading(words, heads=31, mask=causal())
    assert set(causally.votes("d").counts) == {"b", "c"}  # a, the first, is a sink
    first = causally.votes("b")
    assert first.counts == {} and first.abstaining == 62  # it sees itself and the sink


def test_ties_abstain_also_where_single_precision_rounds():
    third = np.float32(1) / np.float32(3)
    assert vote_of(np.array([third, third * (1 + 1e-7), third])) == (None, 0.0, True)
    assert vote_of(np.array([0.3, 0.3, 0.4])) == (2, 0.4, False)
    assert vote_of(np.array([0.4, 0.4, 0.2]), sinks=[0]) == (1, 0.4, True)  # as large as the sink


def test_pieces_of_words_are_summed_and_averaged():
    """Against the formula on tokens."""
    whole = random_reading(["un", "##like", "##ly", "kids", "le", "##ft"], heads=11)
    joined = [replace(token, joined=token.text.startswith("##")) for token in whole.tokens]
    reading = replace(whole, tokens=tuple(joined))
    assert [word.last - word.first for word in reading.words] == [3, 1, 2]
    for layer, head, choice, weight, _ in reading.votes(2).heads:
        row = np.asarray(reading.attention(layer)[head, 4:6, :]).mean(axis=0)
        of_words = [row[:3].sum(), row[3]]
        assert choice == int(np.argmax(of_words))
        np.testing.assert_allclose(weight, max(of_words), rtol=1e-12)


def test_cross_attention_has_no_word_of_its_own():
    rng = np.random.default_rng(4)
    attention = Attention(3 * rng.normal(size=(11, 3, 5)), rng.normal(size=(11, 7, 5)))
    keys = random_reading(list("abcdefg")).words
    query = words_of(random_reading(["x", "y", "z"]).tokens, "x y z")[1]
    votes = votes_of(WordWeights((attention,), keys), query, [word.text for word in keys])
    largest = np.asarray(attention[:, 1, :]).argmax(axis=-1)
    assert votes.counts == dict(
        sorted(Counter("abcdefg"[place] for place in largest).items(), key=lambda one: (-one[1], one[0]))
    )
    assert votes.abstaining == 0 and votes.word == "y"


def test_layers_and_heads_have_the_numbers_of_the_model():
    reading = random_reading(list("abcd"))
    kept = Reading(
        reading.text, reading.tokens, reading.seen, layer_numbers=(4, 9), head_numbers=(1, 5, 6)
    )  # fmt: skip
    assert [vote[:2] for vote in kept.votes("b").heads] == [(4, 1), (4, 5), (4, 6), (9, 1), (9, 5), (9, 6)]

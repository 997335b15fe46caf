"""Where a report or a page opens: the strongest link between content words, a pronoun's first."""

import numpy as np
import pytest

from regard import Attention
from regard.reading import Word
from regard.reading.highlights import opening
from regard.reading.weights import WordWeights


class Weights:
    """Given weights (head, query, key) in the place of an attention."""

    def __init__(self, array):
        self.array = np.asarray(array, np.float64)
        self.shape = self.array.shape

    def __getitem__(self, where):
        return self.array[where]


def by_word(words, spans, attentions):
    return WordWeights(tuple(attentions), tuple(Word(text, *span) for text, span in zip(words, spans, strict=True)))


def found(text, links, *, heads=3, layers=2, sinks=(), **given):
    """The opening of a text whose only weights are `links`: (layer, head, query, key): weight."""
    words = text.split()
    arrays = np.full((layers, heads, len(words), len(words)), 1e-6)
    for place, weight in links.items():
        arrays[place] = weight
    spans = [(place, place + 1) for place in range(len(words))]
    chosen = opening(by_word(words, spans, [Weights(array) for array in arrays]), set(sinks), **given)
    return words[chosen.query], None if chosen.key is None else words[chosen.key], chosen.layer, chosen.head


def test_neighbours_itself_and_function_words_are_set_aside():
    links = {(0, 2, 4, 3): 0.99, (0, 0, 5, 5): 0.98, (1, 2, 4, 2): 0.97, (1, 1, 4, 6): 0.4}
    assert found("Keys on the table belong to Sarah", links) == ("belong", "Sarah", 1, 1)


def test_a_pronoun_comes_first():
    links = {(1, 0, 1, 4): 0.9, (0, 1, 6, 1): 0.2}
    assert found("The kids feared the lions so they ran", links) == ("they", "kids", 0, 1)


def test_sinks_are_neither_query_nor_key():
    links = {(0, 0, 3, 0): 0.9, (0, 0, 0, 3): 0.95, (0, 2, 3, 1): 0.3}
    assert found("CLS kids saw lions", links, sinks=[0]) == ("lions", "kids", 0, 2)


def test_given_word_layer_and_head_are_kept():
    links = {(0, 0, 0, 3): 0.9, (1, 1, 2, 0): 0.5, (1, 1, 3, 0): 0.6}
    text = "cats chase grey mice"
    assert found(text, links, query=2) == ("grey", "cats", 1, 1)
    assert found(text, links, layer=1) == ("mice", "cats", 1, 1)
    assert found(text, links, layer=0, head=2)[2:] == (0, 2)


def test_neighbours_are_allowed_where_there_is_nothing_else():
    assert found("The cat sat", {(1, 2, 2, 1): 0.7}) == ("sat", "cat", 1, 2)


def test_a_single_word_has_no_link():
    assert found("cats", {(0, 0, 0, 0): 1.0}) == ("cats", None, 0, 0)


def test_pieces_of_words_are_joined():
    rng = np.random.default_rng(5)
    attention = Attention(rng.normal(size=(2, 7, 5)) * 3, rng.normal(size=(2, 7, 5)))
    spans = [(0, 1), (1, 4), (4, 5), (5, 7)]
    chosen = opening(by_word(["kids", "lions", "and", "ran"], spans, [attention]), set())
    dense = attention.dense()
    summed = np.add.reduceat(dense, [0, 1, 4, 5], axis=2)
    means = np.stack([summed[:, first:last].mean(axis=1) for first, last in spans], axis=1)
    assert chosen.weight == pytest.approx(means[chosen.head, chosen.query, chosen.key], abs=1e-12)
    apart = [means[:, query, key].max() for query, key in ((0, 3), (3, 0), (1, 3), (3, 1))]
    assert chosen.weight == pytest.approx(max(apart))

"""The made-up reading: each head attends to what is said of it, at short and long lengths."""

import numpy as np
import pytest

from regard.reading.synthetic import HEADS, synthetic

COUNTS = (96, 3000)


@pytest.fixture(scope="module", params=COUNTS)
def found(request):
    """Weights of some queries in the second half of the last whole document, and the words."""
    reading = synthetic(request.param)
    words = [word.text for word in reading.words]
    half = next(place for place in range(1, 400) if words[place : 2 * place] == words[:place] and place >= 2)
    document = 2 * half
    last = len(words) // document - 1
    queries = range(last * document + half, (last + 1) * document - 1)
    weights = np.stack([[reading.attention(0)[head, query, :] for query in queries] for head in range(len(HEADS))])
    return weights, np.array(list(queries)), np.array(words), half


def share(weights, queries, attended):
    """Mean weight on the keys for which `attended(query, keys)` holds."""
    keys = np.arange(weights.shape[-1])
    return np.mean([row[attended(query, keys)].sum() for query, row in zip(queries, weights, strict=True)])


def test_each_head_attends_to_what_is_said_of_it(found):
    weights, queries, words, half = found
    document = 2 * half
    assert share(weights[0], queries, lambda query, keys: keys == 0) > 0.9
    assert share(weights[1], queries, lambda query, keys: keys == query - 1) > 0.9
    assert share(weights[2], queries, lambda query, keys: query - keys < max(12, document)) > 0.9
    assert share(weights[3], queries, lambda query, keys: keys // document == query // document) > 0.9
    assert share(weights[4], queries, lambda query, keys: keys == query - half + 1) > 0.8
    assert share(weights[5], queries, lambda query, keys: words[keys] == words[query]) > 0.8
    assert 0.2 < share(weights[6], queries, lambda query, keys: keys == 0) < 0.9
    assert weights[7].max(axis=-1).mean() < 0.4


def test_tokens_after_the_query_get_no_weight(found):
    weights, queries, _, _ = found
    assert all(not weights[:, row, query + 1 :].any() for row, query in enumerate(queries))


def test_the_smallest_one_has_two_tokens():
    assert synthetic(2).attention(0).shape == (8, 2, 2)

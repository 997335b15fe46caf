"""Vectors and weights that `regard steps` draws from a seed."""

import numpy as np
import pytest

from regard import examples
from regard.errors import OptionError
from regard.layers.layer import Seed
from regard.teaching.traced_attention import mixing_matrix, random_embeddings, random_matrix, traced
from regard.teaching.words import words_of

SENTENCES = [one.content for one in examples.EXAMPLES.values() if one.kind in ("sentence", "passage")]


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("seed", range(5))
def test_different_words_have_different_vectors_of_whole_numbers(seed, width):
    for sentence in SENTENCES:
        words = list(dict.fromkeys(words_of(sentence)))
        vectors = random_embeddings(words, width, seed)
        assert len(np.unique(vectors, axis=0)) == len(words)
        assert np.array_equal(vectors, np.round(vectors))
        assert np.abs(vectors).sum(axis=1).min() > 0


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (4, 4), (12, 12), (3, 7), (7, 3)])
def test_random_matrices_have_full_rank(shape):
    for seed in range(20):
        matrix = random_matrix(shape[0], shape[1], Seed(seed))
        assert matrix.shape == shape
        assert set(np.unique(matrix)) <= {-1.0, 0.0, 1.0}
        if shape[0] == shape[1]:
            assert np.linalg.matrix_rank(matrix) == shape[0]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("width", [None, 2, 4])
def test_default_values_are_not_multiples_of_one_vector(width, seed):
    trace = traced(["The", "kids", "were", "scared", "of", "the", "lions"], width=width, seed=seed).whole()
    for name in ("query", "key", "value"):
        assert np.linalg.matrix_rank(trace[name][0]) >= 2
    assert len(np.unique(trace["weight"][0].round(3))) > 7  # not uniform, not one-hot


def test_positions_are_added_before_anything_else():
    words = ["the", "cat", "the"]
    trace, without = traced(words, positions="sinusoidal").whole(), traced(words).whole()
    x = np.asarray(trace["positioned"])
    pe = [[np.sin(place), np.cos(place), np.sin(place / 100), np.cos(place / 100)] for place in range(3)]
    assert np.allclose(x, np.asarray(trace["embedding"]) + pe)
    W_q = np.asarray(traced(words).inputs.matrices["W_q"])
    assert np.allclose(trace["query"][0], x @ W_q)
    assert np.allclose(without["query"][0, 0], without["query"][0, 2])
    assert not np.allclose(trace["query"][0, 0], trace["query"][0, 2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"positions": "rotary"}, "expected sinusoidal"),
        ({"positions": "sinusoidal", "context": ["le"]}, "leave out the context"),
        (
            {"positions": "sinusoidal", "content": {"embeddings": [[1, 0], [0, 1]], "positions": [[0, 0], [1, 1]]}},
            "own",
        ),
    ],
)
def test_positions_that_cannot_be_added_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        traced(["a", "b"], **options)


@pytest.mark.parametrize("heads", [1, 2, 3, 8])
def test_the_default_d_k_has_a_whole_root(heads):
    trace = traced(["The", "cat", "sat"], heads=heads).whole()
    assert trace["query"].shape[-1] == 4
    assert trace.heads == heads


def test_a_seed_is_independent_of_the_other_words():
    alone, together = random_embeddings(["cat"], 4, 0), random_embeddings(["The", "cat", "sat"], 4, 0)
    assert np.array_equal(alone[0], together[1])


@pytest.mark.parametrize(("heads", "head_dim"), [(2, 1), (2, 2), (2, 4), (3, 1), (3, 5), (8, 4), (16, 1)])
def test_every_column_of_a_random_w_o_mixes_heads(heads, head_dim):
    for seed in range(10):
        matrix = mixing_matrix(heads * head_dim, heads, Seed(seed))
        of_heads = np.abs(matrix).reshape(heads, head_dim, -1).sum(axis=1)  # (head, column)
        assert ((of_heads > 0).sum(axis=0) == 2).all()
        assert set(np.unique(matrix)) <= {-1.0, 0.0, 1.0}
        assert np.linalg.matrix_rank(matrix) == heads * head_dim


def test_each_number_through_w_o_depends_on_two_heads():
    trace = traced(["Action", "gets", "results"], heads=2).whole()
    matrix = trace.origin.parts["projected"].linear.matrix
    from_heads = np.stack([trace["output"][head] @ part for head, part in enumerate(np.split(matrix, 2))])
    assert (np.abs(from_heads).max(axis=1) > 0).all()  # (head, component of the result)

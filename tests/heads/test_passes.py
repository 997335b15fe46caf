"""The native passes over weights against the same in NumPy, at odd sizes; wrong arguments are refused."""

import numpy as np
import pytest

from regard.engines.select import native_engine
from regard.heads import exemplars, statistics
from regard.heads.observation import circles
from regard.reading import weights as word_weights
from regard.reading.weights import most_attended

native = native_engine()
pytestmark = pytest.mark.skipif(native is None, reason="the native engine is not built")


@pytest.fixture
def threads():
    from regard import _core

    before = _core.threads()
    yield _core.set_threads
    _core.set_threads(before)


def weights_of(generator, *shape):
    scores = generator.normal(size=shape) * 3
    found = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (found / found.sum(axis=-1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("keys", [1, 2, 7, 16, 33, 131])
def test_the_strongest_link_is_that_of_numpy(keys, monkeypatch):
    generator = np.random.default_rng(keys)
    first, rows = keys // 3, keys - keys // 3
    weights = weights_of(generator, 3, 5, rows, keys)
    weights[0, 0, :, : keys // 2] = weights[0, 0, :, :1]  # ties
    may = generator.random((3, keys)) < 0.8
    ours = exemplars.strongest(weights, may, first)
    monkeypatch.setattr(exemplars, "native_engine", lambda: None)
    by_numpy = exemplars.strongest(weights, may, first)
    np.testing.assert_array_equal(ours[1], by_numpy[1])
    np.testing.assert_array_equal(ours[0][ours[1] > 0], by_numpy[0][ours[1] > 0])


@pytest.mark.parametrize("tokens", [2, 9, 40])
def test_the_most_attended_word_is_that_of_numpy(tokens, monkeypatch):
    generator = np.random.default_rng(tokens)
    weights = weights_of(generator, 4, 3, tokens, tokens)
    counts = generator.integers(1, tokens + 1, size=4).astype(np.int32)
    edges = np.zeros((4, counts.max() + 1), np.int32)
    for row, count in zip(edges, counts, strict=True):
        inner = np.sort(generator.choice(np.arange(1, tokens), count - 1, replace=False))
        row[: count + 1] = [0, *inner, tokens]
    aside = generator.random((4, counts.max())) < 0.2
    ours = most_attended(weights, edges, counts, aside)
    monkeypatch.setattr(word_weights, "native_engine", lambda: None)
    np.testing.assert_array_equal(ours, most_attended(weights, edges, counts, aside))


@pytest.mark.parametrize("size", [3, 16, 37, 64])
def test_lengths_are_those_of_the_vectors_after_w_o(size):
    generator = np.random.default_rng(size)
    w_o = generator.normal(size=(6, size, 50)).astype(np.float32)
    vectors = generator.normal(size=(11, 3, size)).astype(np.float32).swapaxes(0, 1)  # 2 heads share each of 3
    found = statistics._lengths(vectors, np.matmul(w_o, w_o.swapaxes(1, 2)))
    wanted = np.linalg.norm(np.repeat(vectors, 2, axis=0).astype(np.float64) @ w_o, axis=2)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_sums_do_not_depend_on_the_number_of_threads(threads):
    generator = np.random.default_rng(5)
    weights = weights_of(generator, 5, 4, 61, 61)
    rows = [generator.random((5, 4, 61)).astype(np.float32) for _ in range(3)]
    flags = generator.choice([0, 1, 2, 5], size=(5, 61)).astype(np.uint8)
    tokens = flags, circles(generator.integers(0, 9, (5, 61))), circles(np.sort(generator.integers(0, 40, (5, 61))))
    found = []
    for count in (1, 2, 7):
        threads(count)
        received = np.zeros((5, 4, 61))
        found.append((native.head_sums(weights, *rows, tokens, (0, False, 4, 16, 4), received, 20), received))
    for sums, received in found[1:]:
        assert sums.tobytes() == found[0][0].tobytes() and received.tobytes() == found[0][1].tobytes()


def test_arrays_that_do_not_fit_are_refused():
    weights = np.ones((1, 1, 3, 3), np.float32) / 3
    rows, norms, flags = np.ones((1, 1, 3), np.float32), np.ones((1, 1, 3), np.float32), np.ones((1, 3), np.uint8)
    circle = np.array([[1, 2, 0]], np.int32)
    never_back = np.array([[1, 1, 1]], np.int32)  # following it would never end
    received = np.zeros((1, 1, 3))
    wrong = ((flags, never_back, circle), 0), ((flags, circle - 5, circle), 0), ((flags, circle, circle), 1)
    for tokens, first in wrong:
        with pytest.raises(ValueError, match="does not fit"):
            native.head_sums(weights, rows, rows, norms, tokens, (first, False, 4, 16, 4), received, 20)
    beyond = np.array([[0, 1, 9]], np.int32)
    with pytest.raises(ValueError, match="does not fit"):
        native.word_choices(weights, beyond, np.array([2], np.int32), np.zeros((1, 2), bool))
    with pytest.raises(ValueError, match="does not fit"):
        native.strongest_links(weights, flags, 1)

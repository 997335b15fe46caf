"""The attention matrix as an object: what it computes, what it accepts, what it refuses and how it says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import regard
from regard import errors

CLOSE: Any = {"rtol": 1e-11, "atol": 1e-11}  # float64 on both sides, another order of summation
Draw = Callable[..., Any]

pytestmark = pytest.mark.usefixtures("engine_name")


# Numbers that must come out


def test_the_cat_sat() -> None:
    embeddings = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]]
    A = regard.Attention(embeddings, embeddings)
    assert A.score[1].tolist() == [0, 2, 2]
    assert A.score[2].tolist() == [2, 2, 4]
    assert A[0].round(2).tolist() == [0.42, 0.16, 0.42]
    expected = [[0.84, 0.58, 0.84, 0.58], [0.58, 0.84, 0.58, 0.84], [0.79, 0.79, 0.79, 0.79]]
    assert (A @ embeddings).round(2).tolist() == expected


def test_why_scores_are_divided() -> None:
    A = regard.Attention([[1.0]], [[6.0], [4.0]], scale=1)
    assert A[0].round(2).tolist() == [0.88, 0.12]
    assert regard.Attention([[1.0]], [[6.0], [4.0]], scale=0.5)[0].round(2).tolist() == [0.73, 0.27]
    assert regard.Attention(np.ones((1, 64)), np.ones((1, 64))).scaled[0, 0] == 64 / 8


# Shapes


@pytest.mark.parametrize("leading", [(), (3,), (2, 3)])
def test_any_leading_axes(draw: Draw, weights: Draw, leading: tuple[int, ...]) -> None:
    queries, keys, values = draw(*leading, 5, 7), draw(*leading, 11, 7), draw(*leading, 11, 4)
    A = regard.Attention(queries, keys)
    assert A.shape == (*leading, 5, 11) and A.ndim == len(leading) + 2
    expected = weights(queries, keys)
    assert_allclose(A @ values, expected @ values, **CLOSE)
    assert_allclose(A.dense(), expected, **CLOSE)
    assert_allclose(A.column_sums(), expected.sum(axis=-2), **CLOSE)
    assert A.entropy().shape == (*leading, 5)


def test_leading_axes_of_values_may_serve_all(draw: Draw) -> None:
    A = regard.Attention(draw(2, 3, 5, 7), draw(2, 3, 11, 7))
    D = A.dense()
    for shape in ((11, 4), (3, 11, 4), (1, 11, 4), (2, 1, 11, 4), (1, 1, 11, 4)):
        values = draw(*shape)
        assert_allclose(A @ values, D @ values, **CLOSE)
    vector, row = draw(11), draw(5)
    assert_allclose(A @ vector, D @ vector, **CLOSE)
    assert_allclose(row @ A, row @ D, **CLOSE)


def test_products_from_the_left_and_transposed(draw: Draw) -> None:
    A = regard.Attention(draw(3, 5, 7), draw(3, 11, 7))
    D = A.dense()
    u, values = draw(3, 2, 5), draw(3, 4, 11)
    assert_allclose(u @ A, u @ D, **CLOSE)
    assert_allclose(A.mT @ u.swapaxes(1, 2), D.swapaxes(1, 2) @ u.swapaxes(1, 2), **CLOSE)
    assert_allclose(values @ A.mT, values @ D.swapaxes(1, 2), **CLOSE)
    assert A.mT.shape == (3, 11, 5) and A.mT.mT is A
    assert_allclose(np.asarray(A.mT), D.swapaxes(1, 2))


# Options


def test_causal_needs_to_know_where_the_queries_stand(draw: Draw) -> None:
    queries, keys = draw(2, 7), draw(5, 7)
    with pytest.raises(errors.OptionError, match="offset=3"):
        regard.Attention(queries, keys, mask=regard.causal())
    with pytest.raises(errors.OptionError, match="offset"):
        regard.Attention(queries, keys, bias=regard.biases.alibi([1.0]))
    with pytest.raises(errors.OptionError, match="offset"):
        regard.Attention(queries, keys).distance()
    with pytest.raises(errors.OptionError, match="offset"):
        regard.Attention(queries, keys).attend(draw(5, 7), statistics=["distance"])
    A = regard.Attention(queries, keys, mask=regard.causal(), offset=3)
    assert_array_equal(A[0] > 0, [True, True, True, True, False])
    assert regard.Attention(queries, keys, mask=regard.masks.first(2)).shape == (2, 5)


def test_a_sink_takes_its_share(draw: Draw) -> None:
    A = regard.Attention(draw(2, 5, 7), draw(2, 11, 7), sinks=[0.5, -np.inf])
    share = np.exp(np.array([[0.5], [-np.inf]]) - A.logsumexp())
    assert_allclose(A.dense().sum(axis=-1) + share, 1, **CLOSE)
    assert_array_equal(np.asarray(regard.Attention(draw(5, 7), draw(5, 7), sinks=1.0).sinks), [1.0])


# Arrays


def test_lists_and_integers_become_float64() -> None:
    assert regard.Attention([[1, 2]], [[3, 4]]).dtype == np.float64
    assert regard.Attention(np.array([[1, 2]]), np.array([[3, 4]], np.uint8)).dtype == np.float64
    float32 = np.ones((1, 2), np.float32)
    A = regard.Attention(float32, [[3, 4]])
    assert A.keys.dtype == np.float32 and (A @ [[1, 2, 3]]).dtype == np.float32


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_all_floating_types(draw: Draw, weights: Draw, dtype: str) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    queries, keys, values = (draw(2, 5, 7).astype(dtype) for _ in range(3))
    A = regard.Attention(queries, keys, mask=regard.causal())
    expected = weights(queries, keys, seen=np.tri(5, dtype=bool))
    output = A @ values
    assert output.dtype == dtype
    # Half a unit in the last place of the type, on outputs below 4; float32 sums of 5 to 7 terms for the others.
    unit = {"float16": 2**-9, "bfloat16": 2**-6, "float32": 1e-6, "float64": 1e-13}[dtype]
    assert_allclose(output.astype(np.float64), expected @ values.astype(np.float64), atol=unit, rtol=0)
    wide = np.float64 if dtype == "float64" else np.float32
    assert A.dense().dtype == wide and A.entropy().dtype == wide and A.weight_on([0]).dtype == wide
    assert_allclose(A.weight_on([0, 1]), expected[..., :2].sum(axis=-1), rtol=1e-5)
    assert regard.Attention(queries, keys, similarity="cosine")[0].dtype == wide
    assert (regard.Attention(queries, keys, similarity="cosine") @ values).dtype == dtype


def test_errors_are_also_the_usual_ones() -> None:
    with pytest.raises(ValueError, match="head_dim 4"):
        regard.Attention(np.ones((2, 3)), np.ones((2, 4)))


# Parts, snapshots


def test_dense_refuses_what_would_be_too_large(draw: Draw) -> None:
    long = np.broadcast_to(draw(1, 3), (2**17, 3))
    A = regard.Attention(long, long)
    acts: tuple[Callable[[], Any], ...] = (
        A.dense,
        A.score.dense,
        lambda: A[...],
        lambda: np.asarray(A),
        lambda: A[::2],
    )
    for act in acts:
        with pytest.raises(errors.TooLarge, match="GiB"):
            act()
    small = regard.Attention(draw(3, 2), draw(3, 2))
    with pytest.raises(MemoryError, match="72 bytes"):
        small.dense(limit=71)
    for limit in ("1 GB", -1, float("nan"), [72]):
        with pytest.raises(errors.OptionError, match="a number of bytes, or None"):
            small.dense(limit=limit)  # type: ignore[arg-type]
    assert small.dense(limit=72).shape == small.dense(limit=None).shape == (3, 3)


def test_arrays_and_copies(draw: Draw) -> None:
    A = regard.Attention(draw(3, 2), draw(3, 2))
    assert_array_equal(np.asarray(A), A.dense())
    assert np.asarray(A, dtype=np.float32).dtype == np.float32
    assert_array_equal(np.asarray(A.scaled), A.scaled.dense())
    assert A.scaled.shape == A.shape and len(A) == 3
    assert_allclose([row.sum() for row in A], 1)  # type: ignore[attr-defined]


def test_a_snapshot_does_not_change(draw: Draw) -> None:
    queries, keys, seen = draw(2, 3, 5, 7), draw(2, 3, 5, 7), np.tri(5, dtype=bool)
    A = regard.Attention(queries, keys, mask=regard.masks.allowed(seen), bias=draw(5), sinks=draw(3), offset=[0, 1])
    snapshot, before = A.copy(), A.dense()
    queries *= 2
    keys += 1
    seen[:] = True
    assert_array_equal(snapshot.dense(), before)
    assert abs(regard.Attention(queries, keys).dense() - before).max() > 0.01


def test_what_is_remembered_cannot_be_spoilt(draw: Draw) -> None:
    A = regard.Attention(draw(3, 5, 7), draw(3, 5, 7))
    before = A.dense()
    A.logsumexp()[:] = 0
    assert_array_equal(A.dense(), before)


def test_it_says_what_it_is(draw: Draw) -> None:
    A = regard.Attention(draw(2, 3, 5, 7), draw(2, 3, 5, 7), mask=regard.causal(), softcap=50)
    assert repr(A) == "Attention(batch 2, head 3, query 5, key 5; head_dim 7, float64, softcap=50, mask=causal())"


def test_masks_that_left_the_top_level_say_where_they_are() -> None:
    for name in ("where", "first", "allowed", "chunks", "prefix", "documents"):
        with pytest.raises(AttributeError, match=rf"regard\.masks\.{name}"):
            getattr(regard, name)
        assert callable(getattr(regard.masks, name))
    for name in ("causal", "window", "padding"):
        assert getattr(regard, name) is getattr(regard.masks, name)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("softcap", [1e30, 1e38, 3e38, 1e40, 1e300, 1.7e308])
def test_a_cap_beyond_all_scores_changes_nothing(draw: Draw, softcap: float, dtype: Any) -> None:
    q, k, v = (draw(3, 5, 4).astype(dtype) for _ in range(3))
    capped, plain = regard.Attention(q, k, softcap=softcap), regard.Attention(q, k)
    # c · tanh(s / c), where s / c may be subnormal: a few units of the computing type.
    close = 1e-12 if dtype == np.float64 else 2e-6
    assert_allclose(capped.dense(), plain.dense(), rtol=close, atol=close)
    close = 2e-3 if dtype == np.float16 else close  # outputs are rounded to float16
    assert_allclose(capped @ v, plain @ v, rtol=close, atol=close)

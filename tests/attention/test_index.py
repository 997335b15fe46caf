"""`A[...]` against `dense()[...]`, for whatever index NumPy takes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import regard
from regard import errors
from regard.attention import index as of_index
from regard.attention.index import read
from regard.engines import select

Draw = Callable[..., Any]
SHAPE = (2, 6, 7, 11)  # batch, head, query, key

pytestmark = pytest.mark.usefixtures("engine_name")


def matrix(axes: int = 4, dtype: Any = np.float64) -> regard.Attention:
    """Everything that an index has to carry along: grouped heads, masks, a lazy bias, sinks, offsets."""
    rng = np.random.default_rng(7)
    batch, head, query, key = SHAPE
    A = regard.Attention(
        rng.normal(size=(batch, head, query, 5)).astype(dtype),
        rng.normal(size=(batch, head // 2, key, 5)).astype(dtype),
        mask=(regard.window(5, 2) & regard.padding([8, 11])) | regard.masks.where(lambda i, j: (i + j) % 5 == 0),
        bias=regard.biases.alibi(heads=head),
        sinks=rng.normal(size=head),
        softcap=3.0,
        offset=[1, 4],
    )
    return {4: A, 3: A.select(batch=1), 2: A.select(batch=0, head=3)}[axes]


def same(A: Any, index: Any) -> None:
    expected = A.dense()[index]
    found = A[index]
    assert np.shape(found) == np.shape(expected)
    # A tile of another size sums its products in another order: a few units in the last place of float64.
    assert_allclose(found, expected, rtol=1e-13, atol=1e-15)


INDICES = [
    np.s_[...],
    np.s_[1],
    np.s_[-1, 2],
    np.s_[0, 3, 2:5, ::2],
    np.s_[..., ::-1],
    np.s_[..., 5:1:-2, -3:],
    np.s_[:, 1::2, 3],
    np.s_[..., 7],
    np.s_[1, 5, 6, 10],
    np.s_[None, 0, ..., None],
    np.s_[:, None, 2, :, None],
    np.s_[..., [1, 1, 3]],
    np.s_[[0, 1, 1], [5, 0, 2]],
    np.s_[:, [1, 2], [3, 3]],
    np.s_[[0, 1], :, [1, 2]],
    np.s_[0, :, [1, 2]],
    np.s_[0, :, :, [1, 2]],
    np.s_[:, 0, [1, 2]],
    np.s_[[[0], [1]], [1, 2, 3]],
    np.s_[..., [[1, 2], [3, 4]], ::-1],
    np.s_[..., None, [1, 2], [3, 4]],
    np.s_[[0, 1], None, [1, 2]],
    np.s_[[]],
    np.s_[..., np.zeros((0, 3), int)],
    np.s_[3:3],
    np.s_[:, :, 7:2],
    np.s_[np.array([True, False])],
    np.s_[..., np.arange(11) % 2 == 0],
    np.s_[:, :, np.tri(7, 11, dtype=bool)],
    np.s_[0, np.arange(42).reshape(6, 7) % 4 == 0],
    np.s_[np.array(1), np.int8(2)],
    np.s_[True],
    np.s_[False, 0],
    np.s_[:, True, [1, 2]],
    np.s_[np.array([0, -1], np.int8), -1, np.array([[-2]])],
    (),
]


@pytest.mark.parametrize("index", INDICES, ids=lambda index: str(index).replace("\n", ""))
def test_every_form_of_index(index: Any) -> None:
    same(matrix(), index)


def test_the_axes_of_points_stand_where_the_library_puts_them() -> None:
    """Every arrangement of up to four items in three axes, `...` of no axes too, for NumPy and for PyTorch."""
    torch = pytest.importorskip("torch")
    array = np.zeros((3, 5, 7))
    kinds: dict[str, Any] = {
        "array": [2, 1],
        "integer": -1,
        "slice": slice(1, None),
        "new": None,
        "dots": ...,
        "true": True,
    }
    tried = 0
    for names in itertools.chain.from_iterable(itertools.product(kinds, repeat=count) for count in range(1, 5)):
        index = tuple(kinds[name] for name in names)
        if names.count("dots") > 1 or sum(name in ("array", "integer", "slice") for name in names) > 3:
            continue
        assert read(index, array.shape).shape == array[index].shape, index
        assert read(index, array.shape, "torch").shape == torch.from_numpy(array)[index].shape, index
        tried += 1
    assert tried > 500


@pytest.mark.parametrize("index", [np.s_[:, [2, 1], ..., -1], np.s_[0, :, [1, 2]], np.s_[[0, 1], 2, ..., [1, 3]]])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_points_beside_integers_and_dots_of_no_axes(library: str, index: Any) -> None:
    rng = np.random.default_rng(3)
    q, k = rng.normal(size=(3, 5, 4)), rng.normal(size=(3, 7, 4))
    if library == "torch":
        torch = pytest.importorskip("torch")
        q, k = torch.from_numpy(q), torch.from_numpy(k)
    same(regard.Attention(q, k), index)


def test_boolean_arrays_of_all_axes() -> None:
    A = matrix()
    same(A, A.dense() > 0.2)
    same(matrix(2), matrix(2).dense() > 0.1)


def test_scattered_points_are_computed_in_small_tiles(draw: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    n = 500
    A = regard.Attention(draw(2, 2, n, 3), draw(2, 1, n, 3), mask=regard.causal(), bias=regard.biases.alibi(heads=2))
    expected = A.dense()
    A = A.copy()  # which remembers nothing
    sizes = []
    tile = select.engine_for(A.queries).tile

    def counted(scores: Any, *rest: Any) -> Any:
        found = tile(scores, *rest)
        sizes.append(found.size)
        return found

    monkeypatch.setattr(select.engine_for(A.queries), "tile", counted)
    diagonal = np.arange(n)
    assert_allclose(A[..., diagonal, diagonal], expected[..., diagonal, diagonal], rtol=1e-12, atol=1e-15)
    assert max(sizes) <= 4 * of_index.POINTS**2
    sizes.clear()
    batch, head, query, key = (np.random.default_rng(1).integers(0, count, 700) for count in A.shape)
    assert_allclose(A[batch, head, query, key], expected[batch, head, query, key], rtol=1e-12, atol=1e-15)
    assert max(sizes) <= of_index.POINTS**2
    assert_allclose(A[batch, ::-1, query, key], expected[batch, ::-1, query, key], rtol=1e-12, atol=1e-15)


def test_one_row_is_computed_without_the_others(draw: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    A = regard.Attention(draw(2, 2, 40, 3), draw(2, 2, 30, 3))
    engine = select.engine_for(A.queries)
    forward, rows = engine.forward, []

    def counted(scores: Any, *rest: Any) -> Any:
        rows.append(int(np.prod(scores.queries.shape[:3])))
        return forward(scores, *rest)

    monkeypatch.setattr(engine, "forward", counted)
    A[..., 7, :]
    A[0, 1, ::20]
    assert rows == [4, 2]
    A[...]
    A[0, 0, 0]
    A.entropy()
    assert rows == [4, 2, 160]  # all rows once, and remembered


def test_float32_weights_are_those_of_the_dense_matrix() -> None:
    A = matrix(dtype=np.float32)
    # The normaliser of one row may come from another kernel than that of all rows: a few units of float32.
    assert_allclose(A[0, 3, 2:5, ::-2], A.dense()[0, 3, 2:5, ::-2], rtol=3e-6, atol=1e-7)


BAD: dict[str, tuple[type[Exception], str, Any]] = {
    "far": (errors.OutOfRange, "query 7", np.s_[0, 0, 7]),
    "far below": (errors.OutOfRange, "head -7", np.s_[0, -7]),
    "far in array": (errors.OutOfRange, "key 11", np.s_[..., [0, 11]]),
    "too many": (errors.OutOfRange, "5 indices", np.s_[0, 0, 0, 0, 0]),
    "two ellipses": (errors.OutOfRange, "not a valid index", np.s_[..., 0, ...]),
    "float": (errors.OutOfRange, "not a valid index", 1.5),
    "float array": (errors.OutOfRange, "not a valid index", np.array([1.0])),
    "word": (errors.OutOfRange, "not a valid index", "head"),
    "boolean of another length": (errors.OutOfRange, "boolean", np.s_[..., np.ones(5, bool)]),
    "arrays that do not fit": (errors.OutOfRange, "not a valid index", np.s_[[0, 1], [0, 1, 2]]),
    "slice by words": (errors.OutOfRange, "not a valid index", np.s_["a":"b"]),
    "step 0": (errors.OutOfRange, "not a valid index", np.s_[::0]),
    "ragged": (errors.OutOfRange, "not a valid index", [[0], [0, 1]]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_indices_are_refused_with_words(name: str) -> None:
    error, words, index = BAD[name]
    with pytest.raises(error, match=words):
        matrix()[index]
    assert issubclass(error, IndexError)


def test_keys_for_mass_are_any_index(draw: Draw) -> None:
    A = regard.Attention(draw(3, 5, 7), draw(3, 11, 7))
    D = A.dense()
    for index in (0, -1, [0, 3], slice(2, None), slice(None, None, -3), np.arange(11) > 6, np.array([[1], [2]])):
        expected = D[..., np.unique(np.arange(11)[index])].sum(axis=-1)
        assert_allclose(A.weight_on(index), expected, rtol=1e-12)
    assert_array_equal(A.weight_on([]), np.zeros((3, 5)))
    assert_allclose(A.weight_on([2, 2]), D[..., 2], rtol=1e-12)

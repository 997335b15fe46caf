"""The same object over PyTorch tensors: every answer is a tensor, and says what it says for NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import regard
from regard import errors

torch = pytest.importorskip("torch")
pytest.importorskip("regard.engines.torch_engine")

Draw = Callable[..., Any]
CLOSE: Any = {"rtol": 1e-11, "atol": 1e-12}  # float64 on both sides, another order of summation


pytestmark = pytest.mark.usefixtures("tensor_engine")


@pytest.fixture
def pair(draw: Draw) -> tuple[regard.Attention, regard.Attention]:
    """The same attention over tensors and over arrays, with every option."""
    queries, keys, sinks = draw(2, 6, 7, 5), draw(2, 3, 11, 5), draw(6)
    options: Any = {
        "mask": regard.causal() & regard.padding([6, 11]),
        "bias": regard.biases.alibi(heads=6),
        "softcap": 2.0,
        "offset": [4, 2],
    }
    of_numpy = regard.Attention(queries, keys, sinks=sinks, **options)
    tensors = (torch.from_numpy(array.copy()) for array in (queries, keys, sinks))
    return regard.Attention(next(tensors), next(tensors), sinks=next(tensors), **options), of_numpy


def same(found: Any, expected: Any) -> None:
    assert isinstance(found, torch.Tensor)
    assert tuple(found.shape) == np.shape(expected)
    assert_allclose(found.numpy(), expected, **CLOSE)


def test_products_and_statistics(pair: Any, draw: Draw) -> None:
    A, N = pair
    values, rows = draw(2, 3, 11, 4), draw(2, 6, 3, 7)
    same(A @ torch.from_numpy(values), N @ values)
    same(torch.from_numpy(rows) @ A, rows @ N)
    same(A.mT @ torch.from_numpy(rows).mT, N.mT @ rows.swapaxes(2, 3))
    same(A @ values[0, 0].tolist(), N @ values[0, 0])
    for name in ("logsumexp", "entropy", "peak", "distance", "column_sums", "dense"):
        same(getattr(A, name)(), getattr(N, name)())
    same(A.weight_on([0, 2]), N.weight_on([0, 2]))
    same(A.top(3).index, N.top(3).index)
    same(A.top(3).weight, N.top(3).weight)
    seen = A.attend(torch.from_numpy(values), statistics=["entropy"], top=2)
    same(seen.output, N @ values)
    same(seen.entropy, N.entropy())
    for pool in ("mean", "max", "sum", "words"):
        same(A.pooled((3, 4), rows=(1, 6), pool=pool).array, N.pooled((3, 4), rows=(1, 6), pool=pool).array)
    assert_allclose(np.asarray(A), N.dense(), **CLOSE)
    assert np.asarray(A.pooled((2, 2))).shape == (2, 6, 2, 2)
    for make in (torch.as_tensor, torch.tensor, torch.asarray):
        same(make(A), N.dense())
        same(make(N), N.dense())
        same(make(A.scaled), N.scaled.dense())


INDICES = [
    np.s_[0],
    np.s_[..., 3],
    np.s_[1, 2, 3, 4],
    np.s_[0, 3, 2:5, ::-2],
    np.s_[:, ::-1, None, 5],
    np.s_[:, [1, 2], [3, 3]],
    np.s_[[0, 1], :, [1, 2]],
    np.s_[0, :, [1, 2]],
    np.s_[..., None, [1, 2], [3, 4]],
    np.s_[torch.tensor([1, 0]), :, torch.tensor([[2], [3]])],
    np.s_[..., torch.arange(11) > 3],
    np.s_[True, 3:3],
]


def judged(dense: Any, index: Any) -> Any:
    """What PyTorch takes; NumPy where a step is negative, which PyTorch does not have."""
    backwards = any(isinstance(item, slice) and (item.step or 1) < 0 for item in np.index_exp[index])
    return dense[index] if backwards else torch.from_numpy(dense)[index].numpy()


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indices(pair: Any, index: Any) -> None:
    A, N = pair
    same(A[index], judged(N.dense(), index))
    for stage in ("score", "scaled", "capped", "biased", "masked"):
        same(getattr(A, stage)[index], judged(getattr(N, stage).dense(), index))


def test_a_cache_leaves_earlier_attentions_alone(draw: Draw) -> None:
    cache = regard.Cache()
    keys, values, query = (torch.from_numpy(draw(2, 3, count, 5)) for count in (4, 4, 1))
    cache.append(keys, values)
    A = cache.attention(query)
    entropy = A.entropy()
    for _ in range(9):
        cache.append(keys[:, :, :1], values[:, :, :1])
    assert torch.equal(A.entropy(), entropy)
    assert A.shape == (2, 3, 1, 4) and cache.keys.shape == (2, 3, 13, 5)
    with pytest.raises(errors.Unsupported, match="detach"):
        cache.append(keys[:, :, :1].requires_grad_(), values[:, :, :1])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_types(draw: Draw, dtype: str) -> None:
    kind, wide = getattr(torch, dtype), torch.float64 if dtype == "float64" else torch.float32
    queries, keys, values = (torch.from_numpy(draw(2, 5, 7)).to(kind) for _ in range(3))
    for A in (regard.Attention(queries, keys), regard.Attention(queries, keys, similarity="cosine")):
        assert (A @ values).dtype == kind and (A.mT @ values).dtype == kind
        assert {A[0].dtype, A.entropy().dtype, A.logsumexp().dtype, A.weight_on([0]).dtype, A.column_sums().dtype} == {
            wide
        }


def test_integers_and_lists_become_floats() -> None:
    A = regard.Attention(torch.tensor([[1, 2]]), [[3, 4]])
    assert A.queries.dtype == A.keys.dtype == torch.float64
    assert regard.Attention(torch.ones(1, 2), [[3, 4]]).keys.dtype == torch.float32


ONES = torch.ones(2, 3)
BAD: dict[str, tuple[type[Exception], str, Callable[[], Any]]] = {
    "libraries": (errors.TypeProblem, "NumPy", lambda: regard.Attention(ONES, np.ones((2, 3), np.float32))),
    "values": (errors.TypeProblem, "NumPy", lambda: regard.Attention(ONES, ONES) @ np.ones((2, 3), np.float32)),
    "tensor values": (errors.TypeProblem, "NumPy", lambda: regard.Attention(ONES.numpy(), ONES.numpy()) @ ONES),
    "types": (errors.TypeProblem, "float64", lambda: regard.Attention(ONES, ONES.double())),
    "complex": (errors.TypeProblem, "complex", lambda: regard.Attention(ONES.cfloat().conj(), ONES)),
    "boolean": (errors.TypeProblem, "bool", lambda: regard.Attention(ONES.bool(), ONES)),
    "devices": (errors.OptionError, "meta", lambda: regard.Attention(ONES, ONES.to("meta"))),
    "sparse": (errors.TypeProblem, "queries", lambda: regard.Attention(ONES.to_sparse(), ONES)),
    "scale": (errors.OptionError, "scale", lambda: regard.Attention(ONES, ONES, scale=torch.tensor(2.0))),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_tensors_are_refused_with_words(name: str) -> None:
    error, words, act = BAD[name]
    with pytest.raises(error, match=words):
        act()


@pytest.mark.parametrize("dynamic", [pytest.param(False, marks=pytest.mark.slow), True])
def test_it_is_traced_as_a_whole(draw: Draw, dynamic: bool) -> None:
    def attend(queries: Any, keys: Any, values: Any) -> Any:
        A = regard.Attention(queries, keys, softcap=5.0, scale=0.5)
        return A @ values, A.attend(values, statistics=["entropy"]).entropy, values.mT @ A

    torch._dynamo.reset()
    compiled = torch.compile(attend, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for count in (5, 7):
        tensors = [torch.from_numpy(draw(2, 3, count, 4)) for _ in range(3)]
        for found, expected in zip(compiled(*tensors), attend(*tensors), strict=True):
            assert_allclose(found.numpy(), expected.numpy(), **CLOSE)


def test_gradients_of_no_query_are_empty():
    queries, keys, values = (torch.randn(2, 3, count, 4, requires_grad=True) for count in (0, 5, 5))
    output = regard.Attention(queries, keys) @ values
    output.sum().backward()
    assert output.shape == (2, 3, 0, 4)
    assert queries.grad.shape == queries.shape and not keys.grad.any() and not values.grad.any()


def test_weights_with_gradients_are_not_exported_without_them(draw: Draw) -> None:
    queries = torch.from_numpy(draw(5, 3)).requires_grad_()
    with pytest.raises(errors.Unsupported, match=r"A\.dense\(\) keeps"):
        torch.as_tensor(regard.Attention(queries, queries))
    long = torch.zeros(2**17, 1)
    with pytest.raises(errors.TooLarge, match="GiB"):
        torch.as_tensor(regard.Attention(long, long))

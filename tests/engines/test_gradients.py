"""Gradients: against finite differences, against PyTorch's own, in all the ways that PyTorch asks for them, in O(n)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import regard
from regard import errors
from regard.engines import select

from .torch_cases import one_thread

torch = pytest.importorskip("torch")
functional = torch.nn.functional
func = torch.func
gradcheck = partial(torch.autograd.gradcheck, fast_mode=True)  # along random directions: two calls instead of thousands

CLOSE: Any = {"rtol": 1e-10, "atol": 1e-10}  # float64 on both sides, another order of summation
MASK = regard.causal() & regard.padding([9, 11])
WHERE = regard.masks.where(lambda query, key: (query - key) % 3 != 1)


pytestmark = pytest.mark.usefixtures("tensor_engine")


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    torch.manual_seed(20240229)
    with one_thread():
        yield


def leaf(*shape: int) -> Any:
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def given() -> tuple[Any, Any, Any]:
    """Queries, keys and values: grouped heads, other counts of queries and keys, values of another size."""
    return leaf(2, 4, 7, 5), leaf(2, 2, 11, 5), leaf(2, 2, 11, 3)


# Finite differences

CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "intervals": {"mask": MASK, "offset": 3},
    "offsets": {"mask": regard.window(3), "offset": torch.tensor([1, 4])},
    "function": {"mask": WHERE, "offset": 0},
    "array": {"mask": regard.masks.allowed(torch.rand(7, 11) < 0.6)},
    "nothing for some": {"mask": regard.window(1, 0) & regard.padding([2, 3]), "offset": 0},
    "soft cap": {"softcap": 1.5, "scale": 0.9},
    "cosine": {"similarity": "cosine", "scale": 3.0},
}


@pytest.mark.parametrize("case", CASES)
def test_gradients_are_right(case: str) -> None:
    def attend(queries: Any, keys: Any, values: Any) -> Any:
        return regard.Attention(queries, keys, **CASES[case]) @ values

    assert gradcheck(attend, given())


def test_each_gradient_is_right() -> None:
    """Entry by entry, not only along random directions."""

    def attend(queries: Any, keys: Any, values: Any, sinks: Any) -> Any:
        return regard.Attention(queries, keys, mask=regard.causal(), offset=1, sinks=sinks, softcap=2.0) @ values

    assert torch.autograd.gradcheck(attend, (leaf(2, 3, 2), leaf(1, 5, 2), leaf(1, 5, 3), leaf(2)))


@pytest.mark.parametrize("shape", [(2, 4, 7, 11), (1, 4, 1, 11), (4, 7, 1), (7, 11)], ids=str)
def test_gradients_of_a_dense_bias(shape: tuple[int, ...]) -> None:
    def attend(queries: Any, keys: Any, values: Any, bias: Any) -> Any:
        return regard.Attention(queries, keys, bias=bias, mask=MASK, offset=3, softcap=2.0) @ values

    assert gradcheck(attend, (*given(), leaf(*shape)))


def test_gradients_of_sinks() -> None:
    def attend(queries: Any, keys: Any, values: Any, sinks: Any) -> Any:
        return regard.Attention(queries, keys, sinks=sinks, mask=MASK, offset=-2) @ values

    assert gradcheck(attend, (*given(), leaf(4)))


@pytest.mark.parametrize("offset", [3, torch.tensor([0, 2])], ids=["one", "each"])
def test_gradients_reach_what_a_lazy_bias_is_made_of(offset: Any) -> None:
    def by_slopes(queries: Any, keys: Any, values: Any, slopes: Any) -> Any:
        return regard.Attention(queries, keys, bias=regard.biases.alibi(slopes), offset=offset) @ values

    def by_table(queries: Any, keys: Any, values: Any, table: Any) -> Any:
        bias = regard.biases.relative_positions(table, buckets=8, max_distance=16)
        return regard.Attention(queries, keys, bias=bias, mask=WHERE, offset=offset) @ values

    assert gradcheck(by_slopes, (*given(), leaf(4)))
    assert gradcheck(by_table, (*given(), leaf(8, 4)))


STATISTICS: dict[str, Callable[[regard.Attention], Any]] = {
    "logsumexp": lambda A: A.logsumexp(),
    "entropy": lambda A: A.entropy(),
    "peak": lambda A: A.peak(),
    "distance": lambda A: A.distance(),
    "mass": lambda A: A.weight_on([0, 3]),
    "top": lambda A: A.top(3).weight,
    "received": lambda A: A.column_sums(),
    "map": lambda A: A.pooled((3, 4)).array,
    "largest": lambda A: A.pooled((3, 4), pool="max").array,
    "rows": lambda A: A[:, 1, 2:5],
    "points": lambda A: A[[0, 1, 1], [2, 0, 3], [4, 6, 5], [1, 7, 2]],
    "scores": lambda A: A.capped[..., 3],
    "backflow": lambda A: A.mT @ A.queries,
}


@pytest.mark.parametrize("statistic", STATISTICS)
def test_everything_else_has_gradients_too(statistic: str) -> None:
    queries, keys, _ = given()

    def compute(queries: Any, keys: Any) -> Any:
        return STATISTICS[statistic](regard.Attention(queries, keys, mask=MASK, softcap=2.0, offset=3))

    assert gradcheck(compute, (queries, keys))


def test_statistics_of_strips_have_the_same_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.engines import torch_arrays

    queries, keys, values = given()

    def gradients() -> Any:
        found = regard.Attention(queries, keys, mask=MASK, offset=3).attend(values, ("entropy", "distance"), top=2)
        assert found.entropy is not None and found.distance is not None and found.top is not None
        total = found.output.sum() + found.entropy.sum() + found.distance.sum() + found.top.weight.sum()
        return torch.autograd.grad(total, (queries, keys, values))

    whole = gradients()
    monkeypatch.setattr(torch_arrays, "STRIP", 25)
    torch.testing.assert_close(gradients(), whole, **CLOSE)


def test_rows_that_see_nothing_and_hidden_poison_have_no_part() -> None:
    queries, keys, values = given()
    poisoned = [array.detach().clone() for array in (keys, values)]
    for array in poisoned:
        array[1, :, 5:] = torch.nan
    mask = regard.padding([11, 5]) & regard.causal()
    found = []
    for some_keys, some_values in ((keys, values), poisoned):
        arrays = [array.detach().requires_grad_() for array in (queries, some_keys, some_values)]
        A = regard.Attention(*arrays[:2], mask=mask, offset=-2)
        outputs = A @ arrays[2], A.entropy(), A.column_sums()
        assert not outputs[0][:, :, :2].any()
        found.append(torch.autograd.grad(sum(output.square().sum() for output in outputs), arrays))
    assert found[1][1].isfinite().all()
    torch.testing.assert_close(found[1], found[0], **CLOSE)


# Ours against PyTorch's


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("mask", [None, regard.causal()], ids=["full", "causal"])
def test_gradients_are_those_of_pytorch(mask: Any, kind: str) -> None:
    dtype = getattr(torch, kind)
    arrays = [torch.randn(1, 3, 61, 16).to(dtype).requires_grad_() for _ in range(3)]
    exact = [array.detach().double().requires_grad_() for array in arrays]
    flow = torch.randn(1, 3, 61, 16).to(dtype)
    expected = torch.autograd.grad(
        functional.scaled_dot_product_attention(*exact, is_causal=mask is not None), exact, flow.double()
    )
    found = torch.autograd.grad(regard.Attention(*arrays[:2], mask=mask) @ arrays[2], arrays, flow)
    bound = 16 * torch.finfo(dtype).eps  # inputs are exact; output and gradient are rounded once each
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == dtype
        torch.testing.assert_close(ours.double(), theirs, rtol=bound, atol=bound)


def test_flows_of_any_strides() -> None:
    queries, keys, values = given()
    A = regard.Attention(queries, keys)
    plain = torch.ones(2, 4, 7, 3, dtype=torch.float64)
    expected = torch.autograd.grad(A @ values, (queries, keys, values), plain)
    torch.testing.assert_close(torch.autograd.grad((A @ values).sum(), (queries, keys, values)), expected, **CLOSE)
    turned = torch.ones(2, 4, 3, 7, dtype=torch.float64).mT
    torch.testing.assert_close(torch.autograd.grad(A @ values, (queries, keys, values), turned), expected, **CLOSE)


@pytest.mark.parametrize("needed", ["queries", "keys", "values"])
def test_only_what_needs_a_gradient_gets_one(needed: str) -> None:
    arrays = dict(zip(("queries", "keys", "values"), given(), strict=True))
    expected = torch.autograd.grad(
        (regard.Attention(arrays["queries"], arrays["keys"]) @ arrays["values"]).sum(), arrays[needed]
    )
    for name, array in arrays.items():
        array.requires_grad_(name == needed)
    (regard.Attention(arrays["queries"], arrays["keys"]) @ arrays["values"]).sum().backward()
    torch.testing.assert_close(arrays[needed].grad, expected[0], **CLOSE)
    assert all(array.grad is None for name, array in arrays.items() if name != needed)


# What is remembered is never believed to have gradients


def test_statistics_are_computed_anew_for_gradients() -> None:
    queries, keys, _ = given()
    A = regard.Attention(queries, keys)
    with torch.no_grad():
        remembered = A.entropy(), A[0, 1]
    for _ in range(2):  # a graph is freed by its backward pass, and each statistic has its own
        entropy, rows = A.entropy(), A[0, 1]
        torch.testing.assert_close((entropy, rows), remembered, **CLOSE)
        gradient = torch.autograd.grad(entropy.sum() + rows.square().sum(), queries)[0]
        assert gradient.any()


def test_a_change_between_forward_and_backward_is_noticed() -> None:
    queries, keys, values = given()
    output = regard.Attention(queries, keys) @ values
    with torch.no_grad():
        keys += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


# Twice, forwards, over many at once


def test_second_derivatives_are_refused() -> None:
    queries, keys, values = given()
    output = regard.Attention(queries, keys, softcap=2.0) @ values
    (gradient,) = torch.autograd.grad(output.square().sum(), queries, create_graph=True)
    with pytest.raises(errors.Unsupported, match="twice"):
        gradient.sum().backward()


def test_second_derivatives_of_the_dense_matrix() -> None:
    queries, keys, values = leaf(3, 2), leaf(5, 2), leaf(5, 2)

    def attend(queries: Any, keys: Any, values: Any) -> Any:
        return regard.Attention(queries, keys).dense() @ values

    assert torch.autograd.gradgradcheck(attend, (queries, keys, values))


def test_forward_mode() -> None:
    queries, keys, values = (array.detach() for array in given())
    tangent = torch.randn_like(queries)

    def ours(queries: Any) -> Any:
        return regard.Attention(queries, keys, mask=MASK, offset=3) @ values

    small = 1e-6
    expected = (ours(queries + small * tangent) - ours(queries - small * tangent)) / (2 * small)
    output, found = func.jvp(ours, (queries,), (tangent,))
    torch.testing.assert_close(output, ours(queries), **CLOSE)
    torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-7)  # the error of central differences, ε²
    with torch.autograd.forward_ad.dual_level():
        found = torch.autograd.forward_ad.unpack_dual(ours(torch.autograd.forward_ad.make_dual(queries, tangent)))
        torch.testing.assert_close(found.tangent, expected, rtol=1e-7, atol=1e-7)


def many() -> Any:
    return tuple(
        torch.randn(shape, dtype=torch.float64) for shape in ((3, 2, 4, 7, 5), (3, 2, 2, 11, 5), (3, 2, 2, 11, 3))
    )


OPTIONS: dict[str, Any] = {
    "plain": lambda _: {},
    "intervals": lambda _: {"mask": MASK, "offset": 3},
    "function": lambda _: {"mask": WHERE, "offset": 0},
    "their own lengths": lambda one: {"mask": regard.padding(one) & regard.masks.first(9)},
    "their own offsets": lambda one: {"mask": regard.causal(), "offset": one},
    "their own sinks": lambda one: {"sinks": one.double().repeat(2)},
    "their own bias": lambda one: {"bias": one.double()[:, None, None, None]},
    "their own slopes": lambda one: {"bias": regard.biases.alibi(one.double().repeat(2)), "offset": 0},
}


@pytest.mark.parametrize("options", OPTIONS)
def test_many_at_once(options: str) -> None:
    """`vmap` of outputs, of statistics, of gradients, and gradients of `vmap`, against one after the other."""
    arrays, each = many(), torch.tensor([[3, 7], [5, 6], [1, 2]])

    def attend(queries: Any, keys: Any, values: Any, one: Any) -> Any:
        return regard.Attention(queries, keys, **OPTIONS[options](one)) @ values

    def entropy(queries: Any, keys: Any, values: Any, one: Any) -> Any:
        return regard.Attention(queries, keys, **OPTIONS[options](one)).entropy()

    def loss(*given: Any) -> Any:
        return attend(*given).square().sum()

    gradients = func.grad(loss, argnums=(0, 1, 2))
    for compute in (attend, entropy, gradients):
        one_by_one = [compute(*one) for one in zip(*arrays, each, strict=True)]
        expected = [torch.stack(found) for found in zip(*one_by_one, strict=True)] if compute is gradients else None
        found = func.vmap(compute)(*arrays, each)
        torch.testing.assert_close(list(found) if expected else found, expected or torch.stack(one_by_one), **CLOSE)
    over_all = func.grad(lambda *arrays: func.vmap(loss)(*arrays, each).sum(), argnums=(0, 1, 2))(*arrays)
    torch.testing.assert_close(over_all, func.vmap(gradients)(*arrays, each), **CLOSE)


def test_many_at_once_along_any_axis() -> None:
    queries, keys, values = many()

    def attend(queries: Any, keys: Any, values: Any) -> Any:
        return regard.Attention(queries, keys, mask=regard.causal(), offset=4) @ values

    expected = torch.stack([attend(queries[0], *one) for one in zip(keys, values, strict=True)])
    found = func.vmap(attend, in_dims=(None, 2, 4))(queries[0], keys.movedim(0, 2), values.movedim(0, 4))
    torch.testing.assert_close(found, expected, **CLOSE)
    found = func.vmap(func.vmap(attend))(queries, keys, values)  # (3, 2) of three axes each
    torch.testing.assert_close(found, func.vmap(attend)(queries, keys, values), **CLOSE)
    jacobian = func.jacrev(attend)(queries[0], keys[0], values[0])
    assert jacobian.shape == (*attend(queries[0], keys[0], values[0]).shape, *queries[0].shape)


IDS = {"in one piece": [0, 0, 1, 1, 1, 2, 2], "scattered": [0, 1, 0, 1, 1, 2, 0]}


@pytest.mark.parametrize("ids", IDS)
def test_packed_documents_are_transformed_too(ids: str) -> None:
    mask = regard.masks.documents(torch.tensor(IDS[ids]))
    queries, keys, values = (array[:, :, :7].detach() for array in given())

    def attend(queries: Any) -> Any:
        return regard.Attention(queries, keys, mask=mask) @ values

    def loss(queries: Any) -> Any:
        return attend(queries).square().sum()

    (expected,) = torch.autograd.grad(loss(queries.requires_grad_()), queries)
    queries, tangent = queries.detach(), torch.randn_like(queries)
    torch.testing.assert_close(func.grad(loss)(queries), expected, **CLOSE)
    torch.testing.assert_close(func.jvp(loss, (queries,), (tangent,))[1], (expected * tangent).sum(), **CLOSE)
    torch.testing.assert_close(func.vmap(attend)(queries[None])[0], attend(queries), **CLOSE)


@pytest.mark.parametrize("case", ["plain", "intervals", "array"])
def test_gradients_of_many_flows_at_once(case: str) -> None:
    """`torch.autograd.grad(is_grads_batched=True)`, as `jacobian(vectorize=True)` and batched gradcheck call it."""

    def attend(queries: Any, keys: Any, values: Any) -> Any:
        return regard.Attention(queries, keys, **CASES[case]) @ values

    arrays = given()
    jacobians = (
        torch.autograd.functional.jacobian(attend, tuple(array.detach() for array in arrays), vectorize=vectorize)
        for vectorize in (True, False)
    )
    torch.testing.assert_close(*jacobians, **CLOSE)
    assert gradcheck(attend, arrays, check_batched_grad=True)


# Memory

PEAK = """
import resource, sys, torch, regard
count, options = int(sys.argv[1]), {"mask": regard.causal(), "softcap": 30.0}
arrays = [torch.randn(1, 1, count, 64, requires_grad=True) for _ in range(3)]
small = [array.detach()[:, :, :512].requires_grad_() for array in arrays]
(regard.Attention(*small[:2], **options) @ small[2]).sum().backward()  # what is loaded late
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
(regard.Attention(*arrays[:2], **options) @ arrays[2]).sum().backward()
assert arrays[0].grad.any()
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_memory_grows_with_n_not_with_its_square(tensor_engine: str) -> None:
    """Queries, outputs and gradients of 16,384 tokens are 4 MiB each; their weights would be 1 GiB.

    PyTorch's own engine keeps a strip of 16 MiB in a dozen forms at once, and gets fewer tokens to save time.
    """
    is_native = tensor_engine == "torch_native"
    environment = {**os.environ, "REGARD_ENGINE": str(select.WANTED), "PYTHONPATH": os.pathsep.join(sys.path)}
    count = 16384 if is_native else 4096  # in a dozen forms: 768 MiB
    command = [sys.executable, "-c", PEAK, str(count)]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert int(found.stdout) < (200 if is_native else 500)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_zero_vector_has_no_gradient_by_cosine(dtype: Any) -> None:
    """Its direction is not defined; `F.normalize` divides by 1e-12 there, which gives gradients of 1e11."""
    torch.manual_seed(3)
    q, k, v = (torch.randn(2, count, 5, dtype=dtype) for count in (4, 6, 6))
    q[0, 1] = k[1, 2] = 0
    q, k = q.requires_grad_(), k.requires_grad_()
    (regard.Attention(q, k, similarity="cosine", scale=3.0) @ v).square().sum().backward()
    assert not q.grad[0, 1].any() and not k.grad[1, 2].any()
    found = q.grad.clone(), k.grad.clone()
    q.grad = k.grad = None
    unit = (torch.nn.functional.normalize(array, dim=-1) for array in (q, k))
    weights = torch.softmax(3.0 * torch.einsum("hqd,hkd->hqk", *unit), dim=-1)
    (weights @ v).square().sum().backward()
    for array, ours in zip((q, k), found, strict=True):
        other = array.detach().abs().sum(-1) > 0
        close = 1e-4 if dtype == torch.float32 else 1e-10  # two orders of adding, of numbers up to about 10
        assert torch.allclose(ours[other], array.grad[other], rtol=close, atol=close)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("magnitude", [1e-30, 1e-15, 1.0, 1e15, 1e30])
def test_cosine_does_not_depend_on_magnitude(magnitude: float, dtype: Any) -> None:
    torch.manual_seed(4)
    q, k = torch.randn(5, 7, dtype=dtype), torch.randn(6, 7, dtype=dtype)
    expected = torch.nn.functional.normalize(q.double(), dim=-1) @ torch.nn.functional.normalize(k.double(), dim=-1).mT
    if dtype == torch.float64:
        magnitude **= 9  # to 1e270
    for library in (lambda array: array, lambda array: array.numpy()):
        A = regard.Attention(library(q * magnitude), library(k * magnitude), similarity="cosine")
        found = torch.as_tensor(A.score.dense())
        # A product of two vectors of length 1: their roundings, and those of seven products.
        assert (found - expected).abs().max() < 12 * torch.finfo(dtype).eps

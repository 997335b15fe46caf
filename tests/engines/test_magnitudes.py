"""Weights, outputs, statistics and gradients at any magnitude of the scores, on every engine.

Most arrays here have exact products: few bits each, so that every engine finds the same scores in whatever order it
adds. What is left of the error is then the softmax alone, and that must not grow with the scores.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

import regard

from ..engine_names import ENGINES, TORCH_ENGINES, as_numpy, for_engine, using

Array = NDArray[Any]

QUERIES, KEYS, SIZE, VALUE_SIZE = 19, 37, 3, 5
FEW = 3  # queries that are computed as when decoding
U = {"float32": 2.0**-24, "float64": 2.0**-53}
MOST = float(np.finfo(np.float32).max)
pytestmark = pytest.mark.parametrize("engine", ENGINES)


def softmax(logits: Array) -> Array:
    """In the precision of the logits."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))


def exact_case(kind: str, power: int, level: int, queries: int = QUERIES) -> tuple[Array, Array, Array, Array]:
    """Queries and keys whose products are 2^power · (2^level + w), w whole numbers below 16; values; and the w."""
    rng = np.random.default_rng(queries)
    whole = rng.integers(0, 16, (queries, KEYS)).astype(np.float64)
    # One query sees one of the numbers of each key: as many numbers as there are queries, and one for the level.
    q = np.eye(queries, queries + 1)
    q[:, -1] = 1
    k = np.concatenate([whole.T, np.full((KEYS, 1), 2.0**level)], axis=1)
    half = power // 2
    q, k = q * 2.0**half, k * 2.0 ** (power - half)
    return q.astype(kind), k.astype(kind), rng.normal(size=(KEYS, VALUE_SIZE)).astype(kind), whole


def everything(engine: str, A: regard.Attention, v: Array) -> dict[str, Array]:
    """All that follows from the weights, each from a pass of its own."""
    rows = np.linspace(-1, 1, A.shape[-2] * 2).reshape(-1, 2).astype(v.dtype)
    found = A.attend(for_engine(engine, v), ("entropy", "peak"), top=4)
    assert found.top is not None
    results = {
        "dense": A.dense(),
        "one row": A[A.shape[-2] // 2],
        "output": A @ for_engine(engine, v),
        "output with statistics": found.output,
        "entropy": found.entropy,
        "peak": A.peak(),
        "top": found.top.weight,
        "top index": found.top.index,
        "received": A.column_sums(),
        "pooled": A.pooled((3, 5), pool="sum").array,
        "largest": A.pooled((3, 5), pool="max").array,
        "backflow": A.mT @ for_engine(engine, rows),
    }
    return {name: as_numpy(array).astype(np.float64) for name, array in results.items()} | {
        "rows": rows.astype(np.float64)
    }


def check(found: dict[str, Array], weights: Array, v: Array, bound: float) -> None:
    """Every result is within `bound` of what follows from these weights, relative to its largest possible value."""
    v = v.astype(np.float64)
    assert_allclose(found["dense"], weights, rtol=0, atol=bound)
    assert_allclose(found["dense"].sum(axis=-1), 1, rtol=0, atol=2e-6)
    assert_allclose(found["one row"], weights[len(weights) // 2], rtol=0, atol=bound)
    size = np.abs(v).max(initial=0)
    for name in ("output", "output with statistics"):
        assert_allclose(found[name], weights @ v, rtol=0, atol=2 * bound * size)
    logs = np.where(weights > 0, np.log(np.where(weights > 0, weights, 1)), 0)
    assert_allclose(found["entropy"], -(weights * logs).sum(axis=-1), rtol=0, atol=20 * bound)
    assert (found["peak"] <= 1).all()
    assert_allclose(found["peak"], weights.max(axis=-1), rtol=0, atol=bound)
    assert_allclose(found["top"], -np.sort(-weights, axis=-1)[:, : found["top"].shape[-1]], rtol=0, atol=bound)
    many = len(weights) * bound
    assert_allclose(found["received"], weights.sum(axis=0), rtol=0, atol=many)
    assert_allclose(found["backflow"], weights.T @ found["rows"], rtol=0, atol=many)
    edges = [np.arange(cells + 1) * count // cells for cells, count in zip((3, 5), weights.shape, strict=True)]
    for name, add in (("pooled", np.add), ("largest", np.maximum)):
        cells = add.reduceat(add.reduceat(weights, edges[0][:-1], axis=0), edges[1][:-1], axis=1)
        assert_allclose(found[name], cells, rtol=0, atol=many)


@pytest.mark.parametrize("size", [100, 1e3, 1e4, 1e5, 1e9, 1e15, 1e18])
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_a_word_that_looks_at_itself_gets_the_whole_weight(engine: str, size: float, kind: str) -> None:
    E = (size * np.eye(5)).astype(kind)
    with using(engine):
        found = everything(engine, regard.Attention(for_engine(engine, E), for_engine(engine, E)), E)
    check(found, np.eye(5), E, 0.0)


@pytest.mark.parametrize("queries", [QUERIES, FEW])
@pytest.mark.parametrize(
    ("kind", "power", "level"),
    [("float32", power, level) for power in (-90, 0, 31, 90) for level in (0, 20)]
    + [("float64", power, level) for power in (-900, 0, 201, 900) for level in (0, 48)],
)
def test_weights_do_not_depend_on_the_size_of_the_scores(
    engine: str, kind: str, power: int, level: int, queries: int
) -> None:
    """Scores of 2^20 that differ by whole numbers, times any power of two that the scale takes back."""
    q, k, v, whole = exact_case(kind, power, level, queries)
    with using(engine):
        A = regard.Attention(for_engine(engine, q), for_engine(engine, k), scale=0.375 * 2.0**-power)
        found = everything(engine, A, v)
    check(found, softmax(0.375 * whole), v, 64 * U[kind])


@pytest.mark.parametrize("scale", [-0.375, -3e-8, 0.0, -0.0, 1e-300, -1e-300, 5e-324, 1e-42, 1e25, 1e300, -1e300])
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("causal", [False, True])
def test_any_scale_is_taken(engine: str, scale: float, kind: str, causal: bool) -> None:
    q, k, v, whole = exact_case(kind, 0, 12)
    mask = regard.causal() if causal else None
    with using(engine):
        A = regard.Attention(for_engine(engine, q), for_engine(engine, k), scale=scale, mask=mask, offset=0)
        found = as_numpy(A.dense()), as_numpy(A @ for_engine(engine, v))
    seen = np.tri(*whole.shape) if causal else np.ones_like(whole)
    exact = np.clip(scale, -1e290, 1e290) * (whole - (whole.min() if scale < 0 else whole.max()))
    weights = softmax(np.where(seen > 0, exact, -np.inf))
    assert_allclose(found[0], weights, rtol=0, atol=64 * U[kind])
    assert_allclose(found[1], weights @ v, rtol=0, atol=300 * U[kind])


@pytest.mark.parametrize("cap", [1e-300, 1e-30, 0.25, 30.0, 1e4, 1e20, 1e38, 1e39, 1e300])
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("queries", [QUERIES, FEW])
def test_any_softcap_is_taken(engine: str, cap: float, kind: str, queries: int) -> None:
    q, k, v, whole = exact_case(kind, 0, 0, queries)
    with using(engine):
        A = regard.Attention(for_engine(engine, q), for_engine(engine, k), scale=0.375, softcap=cap)
        found = everything(engine, A, v)
        capped = as_numpy(A.capped.dense())
    scaled = 0.375 * (1 + whole)
    expected = cap * np.tanh(scaled / cap)
    assert_allclose(capped, expected, rtol=8 * U[kind], atol=1e-44 if kind == "float32" else 0)
    check(found, softmax(expected), v, 128 * U[kind])


@pytest.mark.parametrize("largest", [3500.0, 4e6, 1e15, 1e30])
@pytest.mark.parametrize("queries", [QUERIES, FEW])
def test_weights_are_the_softmax_of_the_scores_that_the_engine_shows(engine: str, largest: float, queries: int) -> None:
    """Random vectors: the scores are rounded, and nothing but that rounding may be seen in the weights."""
    rng = np.random.default_rng(3)
    q, k, v = (rng.normal(size=(count, 64)) for count in (queries, KEYS, KEYS))
    q *= largest * 8 / np.abs(q @ k.T).max()
    kind = "float64" if engine == "reference" else "float32"  # it computes in float64, and shows float32 rounded
    q, k, v = (array.astype(kind) for array in (q, k, v))
    with using(engine):
        A = regard.Attention(for_engine(engine, q), for_engine(engine, k))
        found, own = everything(engine, A, v), as_numpy(A.score.dense()).astype(np.float64)
    exact, size = q.astype(np.float64) @ k.T.astype(np.float64), np.abs(q).astype(np.float64) @ np.abs(k).T
    assert (np.abs(own - exact) <= 65 * U[kind] * size).all()
    found["output"] = found["output with statistics"]  # of few queries, another order of adding rounds their scores
    check(found, softmax((own - own.max(axis=-1, keepdims=True)) / 8), v, 64 * U[kind])


def test_float64_scores_up_to_1e300_against_exact_rationals(engine: str) -> None:
    rng = np.random.default_rng(5)
    for magnitude in (1e-140, 1.0, 1e8, 1e149):
        q, k = (rng.normal(size=(count, 6)) * magnitude for count in (7, 11))
        v = rng.normal(size=(11, VALUE_SIZE))
        exact = [
            [sum((Fraction(a) * Fraction(b) for a, b in zip(x, y, strict=True)), Fraction()) for y in k] for x in q
        ]
        scale = float(Fraction(30) / max(abs(score) for row in exact for score in row))
        with using(engine):
            A = regard.Attention(for_engine(engine, q), for_engine(engine, k), scale=scale)
            found = everything(engine, A, v)
        logits = np.array([[float((score - max(row)) * Fraction(scale)) for score in row] for row in exact])
        check(found, softmax(logits.astype(np.longdouble)).astype(np.float64), v, 30 * 16 * U["float64"])


@pytest.mark.parametrize("bias", [-1e6, -1e7, -1e9, -MOST, 1e6])
@pytest.mark.parametrize("queries", [QUERIES, FEW])
def test_a_large_bias_on_every_key_does_what_it_does_in_pytorch(engine: str, bias: float, queries: int) -> None:
    """As additive masks have it. The reference engine adds it in float64, as PyTorch does with float64."""
    torch = pytest.importorskip("torch")
    kind = "float64" if engine == "reference" else "float32"
    rng = np.random.default_rng(7)
    q, k, v, flow = (rng.normal(size=(count, 64)).astype(kind) for count in (queries, KEYS, KEYS, queries))
    added = np.full((queries, KEYS), bias, kind)
    added[0, :3] = 0  # one row is masked as it should be
    tensors = [torch.from_numpy(array).requires_grad_() for array in (q, k, v)]
    theirs = torch.nn.functional.scaled_dot_product_attention(
        *(tensor[None] for tensor in tensors), attn_mask=torch.from_numpy(added)
    )[0]
    theirs.backward(torch.from_numpy(flow))
    with using(engine):
        A = regard.Attention(for_engine(engine, q), for_engine(engine, k), bias=for_engine(engine, added))
        found = everything(engine, A, v)
        if engine in TORCH_ENGINES:
            ours = [for_engine(engine, array).requires_grad_() for array in (q, k, v)]
            output = regard.Attention(*ours[:2], bias=for_engine(engine, added)) @ ours[2]
            output.backward(for_engine(engine, flow))
            for mine, tensor in zip(ours, tensors, strict=True):
                assert_allclose(mine.grad.numpy(), tensor.grad.numpy(), rtol=0, atol=2e-6)
    assert_allclose(found["output"], theirs.detach().numpy(), rtol=0, atol=2e-6)
    assert_allclose(found["dense"].sum(axis=-1), 1, rtol=0, atol=2e-6)
    if bias == -MOST:
        assert_allclose(found["dense"][1:], 1 / KEYS, rtol=0, atol=1e-7)


@pytest.mark.parametrize("bias", [-1e6, -1e9, -MOST])
def test_a_large_sink_or_bias_takes_its_share(engine: str, bias: float) -> None:
    """With a sink, a row whose keys are all but masked gives the sink nearly everything, and never more."""
    q, k, v, whole = exact_case("float32", 0, 0)
    options = {"bias": np.full((1, *whole.shape), bias, np.float32), "sinks": np.zeros(1, np.float32)}
    with using(engine):
        given = {name: for_engine(engine, array) for name, array in options.items()}
        A = regard.Attention(for_engine(engine, q)[None], for_engine(engine, k)[None], **given)
        assert_array_equal(as_numpy(A.dense()), 0)
        assert_array_equal(as_numpy(A @ for_engine(engine, v)[None]), 0)
        given["sinks"] = for_engine(engine, np.full(1, bias, np.float32))
        equal = regard.Attention(for_engine(engine, 0 * q)[None], for_engine(engine, k)[None], **given)
        assert_allclose(as_numpy(equal.dense()), 1 / (KEYS + 1), rtol=0, atol=1e-7)


def test_scores_that_overflow_behave_as_in_pytorch(engine: str) -> None:
    """+inf makes its row NaN, −inf is a key that is not seen; rows without them feel nothing."""
    torch = pytest.importorskip("torch")
    if engine == "reference":
        pytest.skip("float32 scores do not overflow in float64")
    q = np.array([[1e30, 0], [-1e30, 0], [1, 0], [1, 1]], np.float32)
    k = np.array([[1e30, 0], [0, 1], [1, 0]], np.float32)
    v = np.eye(3, dtype=np.float32)
    tensors = [torch.from_numpy(array) for array in (q, k)]
    theirs = torch.softmax(tensors[0] @ tensors[1].T, dim=-1).numpy()
    with using(engine):
        A = regard.Attention(for_engine(engine, q), for_engine(engine, k), scale=1.0)
        assert_allclose(as_numpy(A.dense()), theirs, rtol=0, atol=1e-7)
        assert_allclose(as_numpy(A @ for_engine(engine, v)), theirs, rtol=0, atol=1e-7)
        assert_array_equal(np.isnan(as_numpy(A.peak())), np.isnan(theirs).any(axis=-1))


@pytest.mark.parametrize("power", [-60, 0, 60])
@pytest.mark.parametrize("level", [0, 20])
def test_gradients_do_not_depend_on_the_size_of_the_scores(engine: str, power: int, level: int) -> None:
    """dL/dQ, dL/dK and dL/dV of exact products, against PyTorch's automatic differentiation of the softmax."""
    torch = pytest.importorskip("torch")
    from regard.engines.interface import ROW_STATE, RowState
    from regard.engines.select import engine_for

    q, k, v, whole = exact_case("float32", power, level)
    flow = np.random.default_rng(1).normal(size=(QUERIES, VALUE_SIZE)).astype(np.float32)
    scale = 0.375 * 2.0**-power
    logits = torch.from_numpy(0.375 * whole).requires_grad_()
    values = torch.from_numpy(v).double().requires_grad_()
    (torch.softmax(logits, dim=-1) @ values).backward(torch.from_numpy(flow).double())
    to_scores = logits.grad.numpy()
    with using(engine):
        A = regard.Attention(*(for_engine(engine, array)[None, None] for array in (q, k)), scale=scale)
        scores, given = A.scores, for_engine(engine, v)[None, None]
        compute = engine_for(given)
        output, statistics = compute.forward(scores, given, ROW_STATE)
        found = compute.backward(scores, given, output, RowState.of(statistics), for_engine(engine, flow)[None, None])
    expected = {
        "queries": scale * to_scores @ k.astype(np.float64),
        "keys": scale * to_scores.T @ q.astype(np.float64),
        "values": values.grad.numpy(),
    }
    inner = {"queries": np.abs(k).max() * scale, "keys": np.abs(q).max() * scale, "values": 1.0}
    for name, array in expected.items():
        ours = as_numpy(getattr(found, name))[0, 0].astype(np.float64)
        assert_allclose(ours, array, rtol=0, atol=4e-6 * inner[name], err_msg=name)


@pytest.mark.parametrize("payload", [0x7FC00000, 0x7FC00001, 0x7FC001FF, 0xFFC12345, 0x7F800001])
@pytest.mark.parametrize("queries", [QUERIES, FEW])
def test_nan_of_any_payload_stays_nan(engine: str, payload: int, queries: int) -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(count, 64)).astype(np.float32) for count in (queries, KEYS, KEYS))
    k[5, 7:] = np.array(payload, np.uint32).view(np.float32)
    seen = np.ones((queries, KEYS), bool)
    seen[0, 5] = False
    with using(engine):
        mask = regard.masks.allowed(for_engine(engine, seen))
        A = regard.Attention(for_engine(engine, q), for_engine(engine, k), scale=21.36, mask=mask)
        dense, output = as_numpy(A.dense()), as_numpy(A @ for_engine(engine, v))
    assert np.isnan(dense[1:]).all() and np.isnan(output[1:]).all()
    assert np.isfinite(dense[0]).all() and np.isfinite(output[0]).all() and dense[0, 5] == 0


@pytest.mark.parametrize("queries", [QUERIES, FEW])
@pytest.mark.parametrize("share", [0.4, 1 - 2.0**-10])
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_outputs_are_finite_where_their_weighted_mean_is(engine: str, kind: str, share: float, queries: int) -> None:
    """Values near the largest number of their type: a sum of 1,500 of them overflows, their mean does not."""
    rng = np.random.default_rng(queries)
    most, keys = float(np.finfo(kind).max), 1500
    q, k = rng.normal(size=(queries, SIZE)).astype(kind), rng.normal(size=(keys, SIZE)).astype(kind)
    v = (share * most * rng.uniform(0.5, 1, (keys, VALUE_SIZE)) * rng.choice([1, 1, 1, -1], VALUE_SIZE)).astype(kind)
    visible = np.arange(keys) < keys - 2
    v[-2:] = np.nan  # masked: neither reaches an output nor hides an overflow
    with using(engine):
        A = regard.Attention(*(for_engine(engine, array) for array in (q, k)), mask=regard.masks.padding([keys - 2]))
        plain = as_numpy(A @ for_engine(engine, v))
        attended = A.attend(for_engine(engine, v), ("entropy",))
        weights = as_numpy(A.dense()).astype(np.float64)
    expected = weights[:, visible] @ (v[visible].astype(np.float64) / most)
    for output in (plain, as_numpy(attended.output)):
        assert_allclose(output.astype(np.float64) / most, expected, rtol=64 * U[kind] if kind == "float32" else 1e-13)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("keys", [2, 300])
def test_large_values_as_wide_as_the_keys_have_finite_outputs_and_gradients(
    engine: str, keys: int, causal: bool
) -> None:
    """Fused attention, which takes values of that width, divides by the row sum at the end: its sums overflow."""
    rng = np.random.default_rng(keys)
    q, k = (rng.normal(size=(1, 16, keys, SIZE)).astype(np.float32) for _ in range(2))  # enough to copy the values
    v = (0.9 * MOST * rng.uniform(0.5, 1, q.shape)).astype(np.float32)
    with using(engine):
        given = [for_engine(engine, array) for array in (q, k, v)]
        A = regard.Attention(*given[:2], mask=regard.causal() if causal else None)
        expected = as_numpy(A.dense()).astype(np.float64) @ v.astype(np.float64)
        assert_allclose(as_numpy(A @ given[2]).astype(np.float64), expected, rtol=64 * U["float32"])
        if engine in TORCH_ENGINES:
            for array in given:
                array.requires_grad_()
            output = regard.Attention(*given[:2], mask=regard.causal() if causal else None) @ given[2]
            output.backward(for_engine(engine, np.full(v.shape, 1e-30, np.float32)))
            assert all(bool(array.grad.isfinite().all()) for array in given)


@pytest.mark.parametrize("queries", [QUERIES, FEW])
def test_an_infinite_value_stays_infinite_beside_sums_that_overflow(engine: str, queries: int) -> None:
    rng = np.random.default_rng(1)
    q, k = (rng.normal(size=(count, SIZE)).astype(np.float32) for count in (queries, 300))
    v = np.full((300, 3), MOST / 2, np.float32)
    v[7, 0], v[9, 1] = np.inf, np.nan
    with using(engine):
        output = as_numpy(regard.Attention(for_engine(engine, q), for_engine(engine, k)) @ for_engine(engine, v))
    assert np.isposinf(output[:, 0]).all()
    assert np.isnan(output[:, 1]).all()
    assert_allclose(output[:, 2], MOST / 2, rtol=64 * U["float32"])

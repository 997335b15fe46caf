"""Every step of an attention equals PyTorch, the fused kernel and the worked example."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import regard
from regard import errors
from regard.trace import NAMES

torch = pytest.importorskip("torch")

CAT_SAT = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]]
WORDS = ["The", "cat", "sat"]
HEADS, QUERIES, KEYS, SIZE, VALUE_SIZE = 3, 5, 7, 11, 13


@pytest.fixture
def cat_sat():
    return regard.Attention(CAT_SAT, CAT_SAT).explain(CAT_SAT, words=WORDS)


@pytest.fixture
def given(draw):
    return draw(HEADS, QUERIES, SIZE), draw(HEADS, KEYS, SIZE), draw(HEADS, KEYS, VALUE_SIZE)


def torch_steps(queries, keys, values, *, scale=None, softcap=None, bias=None, seen=None, sinks=None):
    """The steps as PyTorch computes them, each from the one before."""
    steps = {"query": queries, "key": keys, "value": values}
    steps["score"] = stage = torch.einsum("hqs,hks->hqk", queries, keys)
    steps["scaled"] = stage = stage * (queries.shape[-1] ** -0.5 if scale is None else scale)
    if softcap is not None:
        steps["capped"] = stage = softcap * torch.tanh(stage / softcap)
    if bias is not None:
        steps["biased"] = stage = stage + bias
    if seen is not None:
        steps["masked"] = stage = stage.masked_fill(~seen, -torch.inf)
    if sinks is not None:
        with_sink = torch.cat([stage, sinks[:, None, None].expand(*stage.shape[:2], 1)], -1)
        steps["weight"] = torch.softmax(with_sink, -1)[..., :-1]
    else:
        steps["weight"] = torch.softmax(stage, -1)
    steps["weighted_value"] = torch.einsum("hqk,hks->hqks", steps["weight"], values)
    steps["output"] = steps["weighted_value"].sum(2)
    return steps


def test_worked_example_gives_the_numbers_of_the_notes(cat_sat):
    assert cat_sat["score"][0].tolist() == [[2, 0, 2], [0, 2, 2], [2, 2, 4]]
    assert cat_sat["scaled"][0].tolist() == [[1, 0, 1], [0, 1, 1], [1, 1, 2]]
    assert cat_sat["weight"][0, 0].round(2).tolist() == [0.42, 0.16, 0.42]
    assert cat_sat["output"][0].round(2).tolist() == [
        [0.84, 0.58, 0.84, 0.58],
        [0.58, 0.84, 0.58, 0.84],
        [0.79, 0.79, 0.79, 0.79],
    ]


def test_eight_heads_of_512_divide_by_8(draw):
    trace = regard.Attention(draw(8, 2, 64), draw(8, 2, 64)).explain(draw(8, 2, 64))
    np.testing.assert_array_equal(trace["scaled"], trace["score"] / 8)


@pytest.mark.parametrize(
    "options",
    [{}, {"scale": 0.3}, {"softcap": 2.0}, {"bias": True}, {"mask": True}, {"sinks": True},
     {"softcap": 1.5, "bias": True, "mask": True, "sinks": True}],
    ids=lambda options: " ".join(options) or "plain",
)  # fmt: skip
def test_every_step_equals_pytorch(given, draw, options):
    ours, theirs = dict(options), dict(options)
    if options.get("bias"):
        ours["bias"] = draw(HEADS, QUERIES, KEYS)
        theirs["bias"] = torch.from_numpy(ours["bias"])
    if options.get("sinks"):
        ours["sinks"] = draw(HEADS)
        theirs["sinks"] = torch.from_numpy(ours["sinks"])
    if theirs.pop("mask", None):
        seen = draw(HEADS, QUERIES, KEYS) > -0.5
        seen[..., 0] = True
        ours["mask"] = regard.masks.allowed(seen)
        theirs["seen"] = torch.from_numpy(seen)
    expected = torch_steps(*map(torch.from_numpy, given), **theirs)
    trace = regard.Attention(*given[:2], **ours).explain(given[2])
    assert trace.names == tuple(name for name in NAMES if name in expected)
    for name in trace.names:
        np.testing.assert_allclose(trace[name], expected[name].numpy(), rtol=0, atol=1e-12, err_msg=name)
        assert trace[name].ndim == len(trace.step(name).axes)
    for row in range(QUERIES):
        alone = regard.Attention(*given[:2], **ours).explain(given[2], query=row)
        for name in trace.names:
            rows = slice(None) if name in ("key", "value") else slice(row, row + 1)
            np.testing.assert_allclose(alone[name], trace[name][:, rows], rtol=0, atol=1e-12, err_msg=name)


def test_output_equals_the_fused_kernel_in_single_precision(draw, engine_name):
    queries, keys, values = (draw(HEADS, 61, 64, dtype=np.float32) for _ in range(3))
    A = regard.Attention(queries, keys, mask=regard.causal())
    np.testing.assert_allclose(A.explain(values)["output"], A @ values, rtol=0, atol=2e-6)
    assert A.explain(values)["output"].dtype == np.float32


def test_lazy_bias_and_offset_apply_to_one_row_as_to_all(draw):
    queries, keys, values = draw(2, 3, 5), draw(2, 7, 5), draw(2, 7, 5)
    A = regard.Attention(queries, keys, bias=regard.biases.alibi(heads=2), mask=regard.causal(), offset=4)
    words = ["a", "b", "c", "d", "e", "f", "g"]
    whole = A.explain(values, words=words)
    assert whole.query_words == ("e", "f", "g")
    np.testing.assert_allclose(whole["biased"], A.biased.dense(), atol=1e-12)
    np.testing.assert_allclose(whole["weight"], A.dense(), atol=1e-12)
    for row, word in enumerate("efg"):
        alone = A.explain(values, query=word, words=words)
        np.testing.assert_allclose(alone["weight"][:, 0], whole["weight"][:, row], atol=1e-12)
        assert alone.table().highlight == whole.table(word).highlight == 4 + row


def test_shared_key_heads_are_repeated_for_every_query_head(draw):
    queries, keys, values = draw(6, 5, 7), draw(2, 5, 7), draw(2, 5, 3)
    A = regard.Attention(queries, keys)
    trace = A.explain(values)
    assert trace["key"].shape == (6, 5, 7)
    np.testing.assert_allclose(trace["output"], A @ values, atol=1e-12)


def test_cosine_scores_are_products_of_unit_vectors(given):
    A = regard.Attention(*given[:2], similarity="cosine", scale=5.0)
    trace = A.explain(given[2])
    np.testing.assert_allclose(trace["score"], A.score.dense(), atol=1e-12)
    np.testing.assert_array_equal(trace["query"], given[0])


def test_every_step_has_its_gradient(given):
    tensors = [torch.from_numpy(array).requires_grad_() for array in given]
    trace = regard.Attention(*tensors[:2], softcap=3.0).explain(tensors[2])
    assert all(step.gradient is None for step in trace.steps)
    (trace["output"] ** 2).sum().backward()

    again = [torch.from_numpy(array).requires_grad_() for array in given]
    expected = torch_steps(*again, softcap=3.0)
    for name in expected:
        if expected[name].grad_fn is not None:
            expected[name].retain_grad()
    (expected["output"] ** 2).sum().backward()
    for name in trace.names:
        np.testing.assert_allclose(trace.step(name).gradient, expected[name].grad, atol=1e-12, err_msg=name)
    for ours, theirs in zip(tensors, again, strict=True):
        np.testing.assert_allclose(ours.grad, theirs.grad, atol=1e-12)


def test_a_trace_without_gradients_has_none(given):
    tensors = [torch.from_numpy(array).requires_grad_() for array in given]
    with torch.no_grad():
        trace = regard.Attention(*tensors[:2]).explain(tensors[2])
    assert all(step.gradient is None for step in trace.steps)
    assert all(step.gradient is None for step in regard.Attention(*given[:2]).explain(given[2]).steps)


def test_hidden_keys_have_no_influence_even_with_nan(draw):
    queries, keys, values = draw(2, 5, 7), draw(2, 5, 7), draw(2, 5, 3)
    A = regard.Attention(queries, keys, mask=regard.causal())
    clean = A.explain(values)["output"]
    keys[:, 4], values[:, 3], values[:, 4] = np.nan, np.inf, np.nan
    trace = regard.Attention(queries, keys, mask=regard.causal()).explain(values)
    np.testing.assert_allclose(trace["output"][:, :3], clean[:, :3], atol=1e-12)
    assert np.isnan(trace["output"][:, 4]).all()
    assert np.all(trace.weighted_values(query=0)[1:] == 0)
    np.testing.assert_array_equal(trace["weighted_value"][0, 0], trace.weighted_values(query=0))


def test_a_query_without_visible_keys_gets_zeros():
    trace = regard.Attention(CAT_SAT, CAT_SAT, mask=regard.masks.allowed(np.zeros((3, 3), bool))).explain(CAT_SAT)
    assert not trace["weight"].any()
    assert not trace["output"].any()
    assert any("may see no key" in note for note in trace.table(0).notes)


def test_half_precision_is_computed_in_float32(draw):
    queries, keys, values = (draw(5, 7, dtype=np.float16) for _ in range(3))
    trace = regard.Attention(queries, keys).explain(values)
    assert trace["score"].dtype == np.float32
    exact = regard.Attention(*(array.astype(np.float64) for array in (queries, keys))).explain(
        values.astype(np.float64)
    )
    np.testing.assert_allclose(trace["output"], exact["output"], atol=2e-6)


def test_arrays_are_read_only(cat_sat):
    for name in cat_sat.names:
        with pytest.raises(ValueError, match="read-only"):
            cat_sat[name][...] = 0


def test_the_given_arrays_stay_writable(draw):
    queries = draw(3, 5)
    regard.Attention(queries, queries).explain(queries)["query"]
    queries[0] = 0


def test_a_batch_is_refused_with_the_fix(draw):
    queries = draw(2, 3, 5, 7)
    with pytest.raises(errors.ShapeError, match=r"select\(batch=0\)"):
        regard.Attention(queries, queries).explain(queries)
    one = regard.Attention(queries[:1], queries[:1]).explain(queries[:1])
    assert one["score"].shape == (3, 5, 5)


def test_too_many_queries_are_refused_with_the_fix():
    queries = np.zeros((100_000, 2), np.float32)
    with pytest.raises(errors.TooLarge, match="query=0"):
        regard.Attention(queries, queries).explain(queries)


def test_weighted_values_beyond_the_limit_are_refused(draw):
    queries = draw(700, 4, dtype=np.float32)
    trace = regard.Attention(queries, queries).explain(draw(700, 200, dtype=np.float32))
    with pytest.raises(errors.TooLarge, match="weighted_values"):
        trace["weighted_value"]
    assert trace.weighted_values(query=699).shape == (700, 200)


def test_one_query_of_a_long_input_takes_linear_memory(draw):
    """Five arrays of one row, and nothing near n²: 100,000² floats would be 40 GB."""
    queries = draw(100_000, 4, dtype=np.float32)
    A = regard.Attention(queries, queries, mask=regard.causal())
    tracemalloc.start()
    try:
        table = A.explain(queries, query=7).table()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(table) == 100_000
    assert peak < 200 << 20
    assert sum(weight is not None and weight > 0 for weight in table["softmax"]) == 8


def test_a_full_trace_does_not_build_the_weighted_values(draw):
    """They are query × key × value_dim; all other steps together are less than a tenth of them."""
    queries, keys, values = (draw(8, 256, 64, dtype=np.float32) for _ in range(3))
    regard.Attention(queries[:, :2], keys[:, :2]).explain(values[:, :2])
    tracemalloc.start()
    regard.Attention(queries, keys).explain(values)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 * 256 * 256 * 64 * 4 / 4

"""Heads, grouped queries, norms of queries and keys, positions within attention, caches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from regard import errors
from regard.attention import Cache
from regard.layers import Alibi, Linear, MultiHead, RMSNorm, Rotary
from regard.masks import causal, window

Draw = Callable[..., Any]
CLOSE: Any = {"rtol": 0, "atol": 1e-12}  # float64, another order of summation
BATCH, TOKEN, WIDTH = 2, 5, 12


def by_formula(layer: MultiHead, x: Any, weights: Callable[..., Any], **options: Any) -> Any:
    """Head by head, in plain matrix products of one sequence."""

    def projected(part: Linear, heads: int) -> list[Any]:
        return np.split(x @ part.weight.T + (0 if part.bias is None else part.bias), heads, axis=-1)

    queries, keys, values = (
        projected(part, heads)
        for part, heads in ((layer.w_q, layer.heads), (layer.w_k, layer.groups), (layer.w_v, layer.groups))
    )
    outputs = []
    for head, query in enumerate(queries):
        key, value = (of_groups[head * layer.groups // layer.heads] for of_groups in (keys, values))
        if layer.q_norm is not None and layer.k_norm is not None:
            query, key = layer.q_norm(query), layer.k_norm(key)
        outputs.append(weights(query, key, **options) @ value)
    assert layer.w_o is not None
    return np.concatenate(outputs, axis=-1) @ layer.w_o.weight.T + (0 if layer.w_o.bias is None else layer.w_o.bias)


def test_multi_head_equals_its_formula(draw: Draw, weights: Any, engine_name: str) -> None:
    layer = MultiHead.seeded(WIDTH, 3, dtype=np.float64, seed=5)
    x = draw(TOKEN, WIDTH)
    assert_allclose(layer(x), by_formula(layer, x, weights), **CLOSE)
    assert_allclose(layer(x[None])[0], layer(x), **CLOSE)


@pytest.mark.parametrize("kv_heads", [1, 2, 3, 6])
def test_key_heads_are_shared(draw: Draw, weights: Any, kv_heads: int) -> None:
    layer = MultiHead.seeded(WIDTH, 6, kv_heads=kv_heads, head_dim=4, bias=False, dtype=np.float64)
    assert layer.w_q.weight.shape == (24, WIDTH) and layer.w_k.weight.shape == (4 * kv_heads, WIDTH)
    x = draw(TOKEN, WIDTH)
    assert_allclose(layer(x), by_formula(layer, x, weights), **CLOSE)
    attention, values = layer.attention(x)
    assert attention.shape == (6, TOKEN, TOKEN) and values.shape == (kv_heads, TOKEN, 4)


def test_queries_and_keys_of_each_head_are_normed(draw: Draw, weights: Any, engine_name: str) -> None:
    plain = MultiHead.seeded(WIDTH, 3, kv_heads=1, dtype=np.float64)
    layer = replace(plain, q_norm=RMSNorm(draw(4)), k_norm=RMSNorm(draw(4)))
    x = draw(TOKEN, WIDTH)
    assert_allclose(layer(x), by_formula(layer, x, weights), **CLOSE)


def test_value_dim_may_differ_from_head_dim(draw: Draw, weights: Any) -> None:
    layer = MultiHead(Linear(draw(6, 5)), Linear(draw(6, 5)), Linear(draw(9, 5)), Linear(draw(5, 9)), heads=3)
    x = draw(TOKEN, 5)
    assert_allclose(layer(x), by_formula(layer, x, weights), **CLOSE)


def test_alibi_and_masks_are_applied(draw: Draw, weights: Any) -> None:
    plain = MultiHead.seeded(WIDTH, 1, dtype=np.float64)
    x, distance = draw(TOKEN, WIDTH), np.arange(TOKEN)[:, None] - np.arange(TOKEN)
    expected = by_formula(plain, x, weights, bias=-0.5 * abs(distance))
    assert_allclose(replace(plain, alibi=Alibi((0.5,)))(x), expected, **CLOSE)
    expected = by_formula(plain, x, weights, seen=(distance >= 0) & (distance <= 2), scale=0.3, softcap=2.0)
    layer = replace(plain, causal=True, window=2, scale=0.3, softcap=2.0)
    assert_allclose(layer(x), expected, **CLOSE)
    layer = replace(plain, scale=0.3, softcap=2.0)
    assert_allclose(layer(x, mask=causal() & window(2)), expected, **CLOSE)


def test_the_worked_example_is_reproduced() -> None:
    one = np.eye(4)
    layer = MultiHead.from_heads([one], [one], [one])
    found = layer([[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
    assert found.round(2).tolist() == [[0.84, 0.58, 0.84, 0.58], [0.58, 0.84, 0.58, 0.84], [0.79] * 4]


def test_one_matrix_per_head_equals_joined_matrices(draw: Draw, weights: Any) -> None:
    w_q, w_k, w_v, w_o, x = draw(3, 7, 4), draw(3, 7, 4), draw(3, 7, 2), draw(6, 7), draw(TOKEN, 7)
    layer = MultiHead.from_heads(list(w_q), list(w_k), list(w_v), w_o)
    assert_allclose(layer(x), by_formula(layer, x, weights), **CLOSE)
    concatenated = MultiHead.from_heads(list(w_q), list(w_k), list(w_v))(x)
    assert_allclose(concatenated @ w_o, layer(x), **CLOSE)
    assert_allclose(concatenated[:, 2:4], weights(x @ w_q[1], x @ w_k[1]) @ (x @ w_v[1]), **CLOSE)


def test_split_and_concatenate_undo_each_other(draw: Draw) -> None:
    layer, x = MultiHead.seeded(WIDTH, 3), draw(BATCH, TOKEN, WIDTH)
    assert layer.split(x).shape == (BATCH, 3, TOKEN, 4)
    assert_array_equal(layer.split(x)[:, 1], x[..., 4:8])
    assert_array_equal(layer.concatenate(layer.split(x)), x)


@pytest.mark.parametrize("kind", ["rotary", "alibi", "plain"])
def test_token_by_token_equals_all_at_once(draw: Draw, kind: str) -> None:
    places = {"rotary": Rotary(4)} if kind == "rotary" else {"alibi": Alibi.of(3)} if kind == "alibi" else {}
    layer = MultiHead.seeded(WIDTH, 3, causal=True, dtype=np.float64, **places)
    x, cache = draw(BATCH, TOKEN, WIDTH), Cache()
    parts = [layer(x[:, :2], cache=cache), *(layer(x[:, [token]], cache=cache) for token in range(2, TOKEN))]
    assert_allclose(np.concatenate(parts, axis=1), layer(x), **CLOSE)
    assert_allclose(layer(x[:, -2:], x, offset=TOKEN - 2), layer(x)[:, -2:], **CLOSE)
    assert_allclose(layer(x[:, -2:], x, offset=[TOKEN - 2] * BATCH), layer(x)[:, -2:], **CLOSE)


def test_a_residual_is_added(draw: Draw) -> None:
    layer, x = MultiHead.seeded(WIDTH, 3, dtype=np.float64), draw(BATCH, TOKEN, WIDTH)
    assert_allclose(layer(x, residual=x), layer(x) + x, **CLOSE)
    assert_allclose(replace(layer, w_o=None)(x, residual=x), replace(layer, w_o=None)(x) + x, **CLOSE)


def test_shapes_that_do_not_fit_are_refused(draw: Draw) -> None:
    layer = MultiHead.seeded(WIDTH, 3)
    with pytest.raises(errors.ShapeError, match="`x` has width 7, the layer expects 12"):
        layer(draw(TOKEN, 7))
    with pytest.raises(errors.ShapeError, match="axes"):
        layer(draw(2, 2, TOKEN, WIDTH))
    with pytest.raises(errors.ShapeError, match="w_k"):
        replace(layer, kv_heads=1)
    with pytest.raises(errors.OptionError, match="kv_heads"):
        replace(layer, kv_heads=2)
    with pytest.raises(errors.OptionError, match="heads"):
        MultiHead.seeded(WIDTH, 5)
    with pytest.raises(errors.OptionError, match="offset"):
        replace(layer, causal=True)(draw(2, WIDTH), draw(3, WIDTH))
    with pytest.raises(errors.ShapeError, match="w_q"):
        MultiHead.from_heads([draw(2, 3), draw(3, 3)], [draw(2, 3)], [draw(2, 3)])

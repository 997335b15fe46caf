"""Decoding: keys and values that grow, by a cache and by extending an attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import regard
from regard import errors

Draw = Callable[..., Any]
CLOSE: Any = {"rtol": 1e-11, "atol": 1e-12}

pytestmark = pytest.mark.usefixtures("engine_name")


@pytest.mark.parametrize("leading", [(), (3,), (2, 3)])
def test_decoding_token_by_token_equals_all_at_once(draw: Draw, leading: tuple[int, ...]) -> None:
    queries, keys, values = draw(*leading, 9, 5), draw(*leading, 9, 5), draw(*leading, 9, 4)
    expected = regard.Attention(queries, keys, mask=regard.causal()) @ values
    cache, outputs = regard.Cache(), []
    for start, stop in ((0, 4), (4, 5), (5, 6), (6, 9)):
        cache.append(keys[..., start:stop, :], values[..., start:stop, :])
        A = cache.attention(queries[..., start:stop, :], mask=regard.causal())
        assert A.shape == (*leading, stop - start, stop) and A.offset == start
        outputs.append(A @ cache.values)
    assert_allclose(np.concatenate(outputs, axis=-2), expected, **CLOSE)
    assert_array_equal(cache.keys, keys)
    assert len(cache) == 9 and "9 keys" in repr(cache)


def test_grouped_queries_and_an_offset_of_ones_own(draw: Draw) -> None:
    cache = regard.Cache()
    cache.append(draw(2, 2, 7, 5), draw(2, 2, 7, 5))
    A = cache.attention(draw(2, 4, 1, 5), mask=regard.causal(), offset=[2, 6])
    assert_array_equal((A.dense() > 0).sum(axis=-1)[:, 0, 0], [3, 7])


def test_what_was_handed_out_stays_as_it_is(draw: Draw) -> None:
    cache = regard.Cache()
    cache.append(draw(3, 4, 5), draw(3, 4, 5))
    A = cache.attention(draw(3, 4, 5))
    before, entropy = A.dense(), A.entropy()
    for _ in range(20):
        cache.append(draw(3, 1, 5), draw(3, 1, 5))
    assert_array_equal(A.dense(), before)
    assert_array_equal(A.entropy(), entropy)


def test_growing_costs_little(draw: Draw) -> None:
    cache, rooms = regard.Cache(), set()
    for _ in range(1000):
        cache.append(np.ones((1, 3)), np.ones((1, 3)))
        rooms.add(cache.keys.__array_interface__["data"][0])
    assert len(rooms) <= 11  # doubled ten times, not copied a thousand times


BAD: dict[str, tuple[type[Exception], Any, Any]] = {
    "counts": (errors.ShapeError, np.ones((3, 2, 5)), np.ones((3, 1, 5))),
    "heads": (errors.ShapeError, np.ones((3, 1, 5)), np.ones((2, 1, 5))),
    "axes": (errors.ShapeError, np.ones((3, 1, 5)), np.ones((1, 5))),
    "types": (errors.TypeProblem, np.ones((3, 1, 5)), np.ones((3, 1, 5), np.float32)),
    "vector": (errors.ShapeError, np.ones(5), np.ones(5)),
    "another size": (errors.OptionError, np.ones((3, 1, 6)), np.ones((3, 1, 5))),
    "other heads": (errors.OptionError, np.ones((2, 1, 5)), np.ones((2, 1, 5))),
    "another type": (errors.TypeProblem, np.ones((3, 1, 5), np.float32), np.ones((3, 1, 5), np.float32)),
}


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_fit_is_refused_and_changes_nothing(draw: Draw, name: str) -> None:
    error, keys, values = BAD[name]
    cache = regard.Cache()
    cache.append(draw(3, 4, 5), draw(3, 4, 5))
    before = cache.keys.copy()
    with pytest.raises(error):
        cache.append(keys, values)
    assert len(cache) == 4
    assert_array_equal(cache.keys, before)


def test_an_empty_cache_says_so() -> None:
    for act in (lambda: regard.Cache().keys, lambda: regard.Cache().attention(np.ones((1, 5)))):
        with pytest.raises(errors.OptionError, match="Append"):
            act()


def test_an_attention_extended(draw: Draw) -> None:
    queries, keys, values = draw(2, 9, 5), draw(2, 9, 5), draw(2, 9, 4)
    whole = regard.Attention(queries, keys, mask=regard.causal(), bias=regard.biases.alibi(heads=2))
    A = regard.Attention(queries[:, :4], keys[:, :4], mask=regard.causal(), bias=regard.biases.alibi(heads=2))
    then = A.extended(keys[:, 4:6], queries=queries[:, 4:6])
    assert then.offset == 4
    assert_allclose(then @ values[:, :6], (whole @ values)[:, 4:6], **CLOSE)
    last = then.extended(keys[:, 6:], queries=queries[:, 6:])
    assert_allclose(last @ values, (whole @ values)[:, 6:], **CLOSE)
    more = regard.Attention(queries[:, :4], keys[:, :4]).extended(keys[:, 4:])
    assert more.shape == (2, 4, 9) and more.offset == 0
    assert_allclose(more.dense(), regard.Attention(queries[:, :4], keys).dense(), **CLOSE)


def test_unknown_positions_stay_unknown(draw: Draw) -> None:
    A = regard.Attention(draw(2, 5), draw(7, 5)).extended(draw(1, 5), queries=draw(1, 5))
    assert A.offset is None

"""Some sequences and heads of an attention: still lazy, still the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import regard

CLOSE: Any = {"rtol": 1e-11, "atol": 1e-11}  # float64 on both sides, another order of summation
Draw = Callable[..., Any]

pytestmark = pytest.mark.usefixtures("engine_name")


@pytest.mark.parametrize("batch", [None, 0, -1, slice(1, None), [1, 0], slice(None, None, -1)])
@pytest.mark.parametrize("head", [None, 3, slice(1, 4), slice(2, 6), [5, 0, 1], slice(None, None, 2), -1])
def test_selected_parts_are_parts_of_the_matrix(draw: Draw, batch: Any, head: Any) -> None:
    A = regard.Attention(
        draw(2, 6, 5, 7),
        draw(2, 3, 11, 7),
        mask=(regard.causal() & regard.padding([4, 11])) | regard.masks.where(lambda b, h, i, j: (j == b) & (h == 1)),
        bias=draw(2, 6, 1, 11),
        sinks=draw(6),
        offset=[6, 1],
    )
    part, expected = A.select(batch=batch, head=head), A.dense()
    expected = expected[slice(None) if batch is None else batch]
    if head is not None:
        alone = isinstance(head, int) and not isinstance(batch, int)  # a single head keeps its axis behind a batch
        expected = expected[..., [head] if alone else head, :, :]
    assert part.shape == expected.shape
    assert_allclose(part.dense(), expected, **CLOSE)
    assert_allclose(part.entropy(), part.copy().entropy())
    again = part.select(head=[0]) if part.ndim > 2 else part
    assert_allclose(again.dense(), expected[..., :1, :, :] if part.ndim > 2 else expected, **CLOSE)


def test_selection_never_copies_what_a_slice_can_say(draw: Draw) -> None:
    queries, keys = draw(2, 8, 5, 7), draw(2, 4, 5, 7)
    for head in (3, slice(2, 6), slice(0, 8, 2), slice(1, 3)):
        part = regard.Attention(queries, keys).select(head=head)
        assert np.shares_memory(part.queries, queries) and np.shares_memory(part.keys, keys)


def test_selected_lazy_bias_and_extra_masks(draw: Draw) -> None:
    A = regard.Attention(
        draw(2, 4, 5, 7), draw(2, 4, 5, 7), mask=regard.padding([2, 5]), bias=regard.biases.alibi(heads=4)
    )
    part = A.select(batch=0, head=slice(1, 3))
    assert_allclose(part.dense(), A.dense()[0, 1:3], **CLOSE)
    assert part.mask is not None
    narrower = regard.Attention(part.queries, part.keys, mask=part.mask & regard.causal(), bias=part.bias)
    assert_array_equal(narrower.dense()[0] > 0, np.tri(5, dtype=bool) & (np.arange(5) < 2))
    assert "padding" in repr(part.mask)

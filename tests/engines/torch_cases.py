"""Scores with every option at once, as NumPy arrays and as tensors, for the tests of the engines that take tensors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import regard
from regard.engines import generic
from regard.engines.interface import RowState, Scores

torch = pytest.importorskip("torch")


@contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch on one thread: where cores are busy, its barriers take a hundred times as long as small products."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


BATCH, HEAD, KEY_HEAD, QUERY, KEY, SIZE, VALUE_SIZE = 2, 6, 3, 7, 11, 5, 3
OFFSET = np.array([0, 2])
MASKS = {
    "intervals": regard.window(4, 3) & regard.padding([9, 11]),
    "two intervals": regard.masks.first(2) | regard.window(2),
    "array": regard.masks.allowed(np.random.default_rng(7).random((2, 1, QUERY, KEY)) < 0.7),
    "function": regard.masks.where(lambda query, key: (query + 2 * key) % 3 != 1),
    "function and intervals": regard.masks.where(lambda query, key: (query - key) % 3 != 1) & regard.causal(),
    "nothing for some": regard.window(1, 0) & regard.padding([2, 3]),
}


def scores_of(draw: Any, mask: regard.Mask | None, dtype: Any = np.float64, **changes: Any) -> Scores:
    """Everything that can change a score, at once."""
    given: dict[str, Any] = {
        "queries": draw(BATCH, HEAD, QUERY, SIZE, dtype=dtype),
        "keys": draw(BATCH, KEY_HEAD, KEY, SIZE, dtype=dtype),
        "scale": 0.7,
        "softcap": 2.0,
        "bias": draw(1, HEAD, 1, KEY, dtype=dtype),
        "relative": draw(HEAD, QUERY + KEY + 3, dtype=np.float64 if dtype == np.float64 else np.float32),
        "relative_zero": KEY - 1,
        "sinks": draw(HEAD, dtype=dtype),
        "visible": None if mask is None else visible(mask),
        "offset": OFFSET,
    }
    return Scores(**{**given, **changes})


def visible(mask: regard.Mask, xp: Any = np) -> Any:
    return mask.visible(queries=QUERY, keys=KEY, batch=BATCH, heads=HEAD, offset=OFFSET, xp=xp)


def in_tensors(scores: Scores, mask: regard.Mask | None = None) -> Scores:
    """The same scores as tensors; the mask too where it is given."""
    arrays = {name: getattr(scores, name) for name in ("queries", "keys", "bias", "relative", "sinks", "offset")}
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items() if isinstance(array, np.ndarray)}
    return Scores(
        **{**arrays, **tensors},
        scale=scores.scale,
        softcap=scores.softcap,
        relative_zero=scores.relative_zero,
        visible=scores.visible if mask is None else visible(mask, torch),
    )


def everything(engine: Any, scores: Scores, values: Any, flow: Any) -> dict[str, Any]:
    """All that an engine says about scores."""
    wanted = tuple(name for name in ("bias", "relative", "sinks") if getattr(scores, name) is not None)
    output, found = engine.forward(
        scores, values, ("row_max", "row_sum", "logsumexp", "entropy", "peak", "distance"), 4
    )
    state = RowState.of(found)
    gradients = engine.backward(scores, values, output, state, flow, wanted)
    edges = np.array([1, 2, 5, QUERY]), np.array([0, 4, 5, KEY - 1])
    return {
        "output": output,
        "output alone": engine.forward(scores, values)[0],
        **found,
        **{stage: engine.tile(scores, state, stage) for stage in ("score", "scaled", "capped", "biased", "masked")},
        "weight": engine.tile(scores, state, "weight"),
        "received": engine.column_sums(scores, state),
        "backflow": engine.backflow(scores, state, flow),
        "sums": engine.pooled(scores, state, *edges, "sum"),
        "largest": engine.pooled(scores, state, *edges, "max"),
        **{f"gradient of {name}": getattr(gradients, name) for name in ("queries", "keys", "values", *wanted)},
    }


CLOSE: Any = {"rtol": 1e-11, "atol": 1e-12}  # float64 on both sides, another order of summation


def check_against_reference(engine: Any, draw: Any, mask: regard.Mask | None) -> None:
    """All that an engine says about tensors is what the generic engine says about arrays."""
    scores, values = scores_of(draw, mask), draw(BATCH, KEY_HEAD, KEY, VALUE_SIZE)
    flow = draw(BATCH, HEAD, QUERY, VALUE_SIZE)
    expected = everything(generic, scores, values, flow)
    for tensors in (in_tensors(scores), in_tensors(scores, mask)):  # a mask of NumPy arrays, and one of tensors
        found = everything(engine, tensors, torch.from_numpy(values), torch.from_numpy(flow))
        for name, array in expected.items():
            assert found[name].numpy().dtype == array.dtype, name
            assert_allclose(found[name].numpy(), array, err_msg=name, **CLOSE)


def check_narrow_type(engine: Any, draw: Any, dtype: Any) -> dict[str, Any]:
    """All that an engine says about tensors of a narrow type, compared with float64."""
    tensors = in_tensors(scores_of(draw, MASKS["intervals"], np.float32))
    narrow = {name: getattr(tensors, name).to(dtype) for name in ("queries", "keys", "bias", "sinks")}
    shapes = (BATCH, KEY_HEAD, KEY, VALUE_SIZE), (BATCH, HEAD, QUERY, VALUE_SIZE)
    values, flow = (torch.from_numpy(draw(*shape)).to(dtype) for shape in shapes)
    found = everything(engine, replace(tensors, **narrow), values, flow)
    exact = {name: array.double().numpy() for name, array in narrow.items()}
    assert tensors.relative is not None
    exact |= {"relative": tensors.relative.double().numpy(), "offset": np.asarray(tensors.offset)}
    expected = everything(generic, replace(tensors, **exact), values.double().numpy(), flow.double().numpy())
    for name, array in expected.items():
        is_narrow = found[name].dtype == dtype
        # Half a unit in the last place of the type; gradients are of outputs that were rounded before.
        bound = 4 * torch.finfo(dtype).eps if is_narrow or "gradient" in name else 64 * torch.finfo(torch.float32).eps
        assert_allclose(found[name].double().numpy(), array, rtol=bound, atol=bound, err_msg=name)
    return found

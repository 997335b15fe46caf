"""The generic engine on tensors against itself on NumPy arrays, number by number, and against PyTorch's attention."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import regard
from regard import errors
from regard.engines import generic, select

from ..engine_names import using
from . import torch_cases as cases
from .torch_cases import (
    BATCH,
    CLOSE,
    HEAD,
    KEY,
    KEY_HEAD,
    QUERY,
    SIZE,
    VALUE_SIZE,
    check_against_reference,
    check_narrow_type,
    everything,
    in_tensors,
    one_thread,
    scores_of,
)

torch = pytest.importorskip("torch")

torch_engine = pytest.importorskip("regard.engines.torch_engine")
torch_arrays = pytest.importorskip("regard.engines.torch_arrays")

Draw = Callable[..., Any]


@pytest.fixture(autouse=True)
def torch_computes() -> Iterator[None]:
    """CPU tensors stand in for those of other devices."""
    with using("torch"), one_thread():
        yield


def test_it_computes() -> None:
    assert select.engine_for(torch.ones(1)) is torch_engine
    assert regard.engines.engine(torch.ones(1)).name == "torch"


@pytest.mark.parametrize("strip", [1 << 22, 4 * QUERY * KEY, 3 * KEY], ids=["whole", "heads", "rows"])
@pytest.mark.parametrize("mask", [*cases.MASKS, None])
def test_says_what_the_reference_says(draw: Draw, mask: Any, strip: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_arrays, "STRIP", strip)
    check_against_reference(torch_engine, draw, cases.MASKS.get(mask))


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32"])
def test_narrow_types_are_computed_in_single_precision(draw: Draw, kind: str) -> None:
    dtype = getattr(torch, kind)
    found = check_narrow_type(torch_engine, draw, dtype)
    assert found["entropy"].dtype == torch.float32 and found["logsumexp"].dtype == torch.float64


@pytest.mark.parametrize("place", ["keys", "values", "rows"])
@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("mask", ["intervals", "nothing for some", None])
def test_poison_goes_where_the_reference_sends_it(draw: Draw, place: str, poison: float, mask: Any) -> None:
    scores, values = scores_of(draw, cases.MASKS.get(mask)), draw(BATCH, KEY_HEAD, KEY, VALUE_SIZE)
    flow = draw(BATCH, HEAD, QUERY, VALUE_SIZE)
    if place == "rows":
        flow[0, 1, 2, 1] = poison
    else:
        (values if place == "values" else scores.keys)[:, 1, 4, 1] = poison
    expected = everything(generic, scores, values, flow)
    found = everything(torch_engine, in_tensors(scores), torch.from_numpy(values), torch.from_numpy(flow))
    for name, array in expected.items():
        assert_allclose(found[name].numpy(), array, err_msg=name, **CLOSE)


# PyTorch's own fused attention


@pytest.fixture
def fused_calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Counts the calls of PyTorch's fused attention."""
    calls, fused = [], torch_engine._fused_attention

    def recorded(*given: Any) -> Any:
        calls.append(given)
        return fused(*given)

    monkeypatch.setattr(torch_engine, "_fused_attention", recorded)
    return calls


@pytest.mark.parametrize("mask", [None, regard.causal()])
@pytest.mark.parametrize(("query", "key"), [(7, 7), (7, 11), (11, 7)])
def test_fused_where_it_can_express_the_mask(
    draw: Draw, fused_calls: list[Any], mask: Any, query: int, key: int
) -> None:
    queries, keys, values = draw(2, 6, query, SIZE), draw(2, 3, key, SIZE), draw(2, 3, key, SIZE)
    A = regard.Attention(*map(torch.from_numpy, (queries, keys)), mask=mask, offset=0)
    found = A @ torch.from_numpy(values)
    assert len(fused_calls) == 1
    assert_allclose(found.numpy(), regard.Attention(queries, keys, mask=mask, offset=0) @ values, **CLOSE)


@pytest.mark.parametrize(
    "options",
    [
        {"mask": regard.causal(), "offset": 1},
        {"mask": regard.window(3), "offset": 0},
        {"mask": regard.causal() & regard.masks.where(lambda query, key: query != key), "offset": 0},
        {"mask": regard.padding([3, 4])},
        {"scale": -0.5},
        {"scale": 0.0, "mask": regard.causal()},
        {"softcap": 2.0},
        {"sinks": torch.ones(6, dtype=torch.float64)},
        {"bias": torch.ones(7, 7, dtype=torch.float64)},
        {"bias": regard.biases.alibi(heads=6)},
    ],
    ids=str,
)
def test_not_fused_where_it_can_not(draw: Draw, fused_calls: list[Any], options: Any) -> None:
    queries, keys, values = (torch.from_numpy(draw(2, heads, 7, SIZE)) for heads in (6, 3, 3))
    found = regard.Attention(queries, keys, **options) @ values
    assert not fused_calls
    assert_allclose(
        found.numpy(),
        (regard.Attention(queries, keys, **options).dense() @ values.repeat_interleave(2, 1)).numpy(),
        **CLOSE,
    )


def test_not_fused_where_something_odd_is_behind_the_mask(draw: Draw, fused_calls: list[Any]) -> None:
    queries, keys, values = (torch.from_numpy(draw(1, 2, 7, SIZE)) for _ in range(3))
    keys[..., -1, :] = torch.nan
    values[..., -2, :] = torch.inf
    found = regard.Attention(queries, keys, mask=regard.causal()) @ values
    assert not fused_calls
    assert found[..., :5, :].isfinite().all() and found[..., 5, :].isinf().all() and found[..., 6, :].isnan().all()


# Devices and modes


def test_the_meta_device_has_no_numbers() -> None:
    queries = torch.empty(1, 2, 3, 4, device="meta")
    for compute in (lambda A: A @ queries, lambda A: A.entropy(), lambda A: A.dense()):
        with pytest.raises(errors.Unsupported, match="meta"):
            compute(regard.Attention(queries, queries))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_a_trace_is_refused(draw: Draw) -> None:
    """It would hold the memory of one result, not the way to compute the next."""
    arrays = tuple(torch.from_numpy(draw(2, 7, SIZE)) for _ in range(3))
    A = regard.Attention(*arrays[:2])
    for compute in (
        lambda q, k, v: regard.Attention(q, k) @ v,
        lambda q, k, v: regard.Attention(q, k, mask=regard.causal(), softcap=2.0).entropy(),
        lambda q, k, v: A @ v,
    ):
        with pytest.raises(errors.Unsupported, match=r"torch\.jit\.trace is not supported"):
            torch.jit.trace(compute, arrays, check_trace=False)


def test_devices_are_not_mixed() -> None:
    here, there = torch.ones(1, 2, 3, 4), torch.empty(1, 2, 3, 4, device="meta")
    with pytest.raises(errors.OptionError, match="`queries` are on cpu, `keys` are on meta"):
        regard.Attention(here, there)
    with pytest.raises(errors.OptionError, match="`keys` are on cpu, `values` are on meta"):
        regard.Attention(here, here) @ there
    for option in ({"bias": there[0, :, :, :3]}, {"sinks": there[0, :, 0, 0]}):
        with pytest.raises(errors.OptionError, match="meta"):
            regard.Attention(here, here, **option)


def test_automatic_casts_do_not_round_scores(draw: Draw) -> None:
    queries, keys, values = (torch.from_numpy(draw(1, 2, 7, SIZE, dtype=np.float32)) for _ in range(3))
    A = regard.Attention(queries, keys, softcap=3.0)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(A @ values, regard.Attention(queries, keys, softcap=3.0) @ values)
        entropy = A.entropy()
    assert torch.equal(entropy, regard.Attention(queries, keys, softcap=3.0).entropy())

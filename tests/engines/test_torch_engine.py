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
from regard.engines.interface import ACTIVATIONS

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


def test_scores_of_ten_thousand_keep_their_weights(draw: Draw) -> None:
    queries, keys = (torch.from_numpy(draw(1, 1, 31, 4, dtype=np.float32)) * 100 for _ in range(2))
    A = regard.Attention(queries, keys, scale=1.0)
    assert A.scaled.dense().abs().max() > 1e4
    assert_allclose(A.dense().sum(-1).numpy(), 1, rtol=1e-5)  # through the normaliser, which alone has double precision


# PyTorch's own fused attention


@pytest.fixture
def fused_calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Counts the calls of PyTorch's fused attention."""
    calls, fused = [], torch_engine._fused_attention
    monkeypatch.setattr(torch_engine, "_fused_attention", lambda *given: calls.append(given) or fused(*given))
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


# Layers


@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
def test_linear(draw: Draw, activation: str | None) -> None:
    x, weight, bias, residual = draw(2, 5, 7), 3 * draw(11, 7), draw(11), draw(2, 5, 11)
    tensors = [torch.from_numpy(array) for array in (x, weight, bias, residual)]
    found = generic.linear(*tensors[:3], activation, tensors[3])
    assert_allclose(found.numpy(), generic.linear(x, weight, bias, activation, residual), **CLOSE)
    found = generic.linear(*tensors[:2], activation=activation)
    assert_allclose(found.numpy(), generic.linear(x, weight, activation=activation), **CLOSE)


def test_norms(draw: Draw) -> None:
    x, weight, bias = draw(2, 5, 7), draw(7), draw(7)
    tensors = [torch.from_numpy(array) for array in (x, weight, bias)]
    for given in ((*tensors, 1e-5), (*tensors[:2], None, 1e-5)):
        arrays = [array.numpy() if isinstance(array, torch.Tensor) else array for array in given]
        assert_allclose(generic.layer_norm(*given).numpy(), generic.layer_norm(*arrays), **CLOSE)
    assert_allclose(generic.rms_norm(*tensors[:2], 1e-6).numpy(), generic.rms_norm(x, weight, 1e-6), **CLOSE)


@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize("pairs", [2, 3])
def test_rotary(draw: Draw, interleaved: bool, pairs: int) -> None:
    x, angles = draw(2, 3, 5, 7), draw(1, 5, pairs)
    given = x, np.cos(angles), np.sin(angles)
    found = generic.rotary(*map(torch.from_numpy, given), interleaved)
    assert_allclose(found.numpy(), generic.rotary(*given, interleaved), **CLOSE)


def test_layers_of_narrow_types_round_once_at_the_end(draw: Draw) -> None:
    x, weight, bias = (torch.from_numpy(draw(*shape)).bfloat16() for shape in ((5, 7), (11, 7), (11,)))
    found = generic.linear(x, weight, bias, "gelu", residual=torch.ones(5, 11, dtype=torch.bfloat16))
    expected = generic.linear(*(array.double().numpy() for array in (x, weight, bias)), "gelu") + 1
    assert found.dtype == torch.bfloat16
    # The product is rounded by the device and the result by us: two halves of a unit in the last place, 2^-8 each.
    assert_allclose(found.double().numpy(), expected, rtol=2**-7, atol=2**-7)
    wide_weight = generic.linear(x, weight.float(), bias.float(), "silu")
    assert wide_weight.dtype == torch.bfloat16

"""CPU tensors through the native engine: what the reference says, without copies, and with little beyond the kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import regard
from regard import errors
from regard.engines import select

from ..engine_names import using
from . import torch_cases as cases
from .torch_cases import (
    CLOSE,
    check_against_reference,
    check_narrow_type,
    one_thread,
)

torch = pytest.importorskip("torch")
if select.NATIVE_PROBLEM:
    pytest.skip(select.NATIVE_PROBLEM, allow_module_level=True)
from regard.engines import torch_native  # noqa: E402

Draw = Callable[..., Any]


@pytest.fixture(autouse=True)
def native_computes() -> Iterator[None]:
    with using("torch_native"), one_thread():
        yield


def test_it_computes() -> None:
    assert select.engine_for(torch.ones(1)) is torch_native
    assert regard.engines.engine(torch.ones(1)).name == "native"


@pytest.mark.parametrize("mask", [*cases.MASKS, None])
def test_says_what_the_reference_says(draw: Draw, mask: Any) -> None:
    check_against_reference(torch_native, draw, cases.MASKS.get(mask))


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32"])
def test_narrow_types_are_computed_in_single_precision(draw: Draw, kind: str) -> None:
    dtype = getattr(torch, kind)
    found = check_narrow_type(torch_native, draw, dtype)
    assert {found[name].dtype for name in ("output", "backflow", "gradient of keys", "gradient of sinks")} == {dtype}


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_memory_is_shared_not_copied(kind: str) -> None:
    memory = torch.zeros(2, 3, 4, dtype=getattr(torch, kind))
    for given in (memory.transpose(0, 1)[1:], memory.requires_grad_().transpose(0, 1)[1:]):
        seen = torch_native.view(given)
        assert seen.__array_interface__["data"][0] == given.data_ptr()
        assert seen.shape == tuple(given.shape)


def test_any_strides(draw: Draw) -> None:
    queries, keys, values = draw(2, 7, 3, 5), draw(2, 11, 3, 5), draw(2, 3, 4, 11)
    tensors = [torch.from_numpy(array) for array in (queries, keys, values)]
    found = regard.Attention(tensors[0].mT.mT.transpose(1, 2), tensors[1].transpose(1, 2)) @ tensors[2].mT
    expected = regard.Attention(queries.swapaxes(1, 2), keys.swapaxes(1, 2)) @ values.swapaxes(2, 3)
    assert_allclose(found.numpy(), expected, **CLOSE)
    repeated = torch.ones(1, 1, 1, 4).expand(2, 3, 5, 4)
    assert_allclose((regard.Attention(repeated, repeated) @ repeated).numpy(), 1, rtol=1e-6)


def test_numbers_that_are_negated_only_when_read(draw: Draw) -> None:
    queries, keys, values = (torch.from_numpy(draw(2, 3, 7, 5)) for _ in range(3))
    lazily = torch.complex(torch.zeros_like(keys), keys).conj().imag  # what is in memory has the other sign
    assert lazily.is_neg() and torch.equal(lazily, -keys)
    found = regard.Attention(queries, lazily) @ lazily
    assert_allclose(found.numpy(), (regard.Attention(queries, -keys) @ -keys).numpy(), **CLOSE)
    assert torch.equal(regard.Attention(queries, lazily).dense(), regard.Attention(queries, -keys).dense())
    assert values.isfinite().all()


def test_numbers_that_are_not_aligned() -> None:
    memory = bytearray(4 * 24 + 1)
    memory[1:] = np.arange(24, dtype=np.float32).tobytes()
    odd = torch.frombuffer(memory, dtype=torch.uint8)[1:].clone().view(torch.float32).reshape(1, 1, 6, 4)
    unaligned = torch.frombuffer(memory, dtype=torch.float32, offset=1, count=24).reshape(1, 1, 6, 4)
    assert torch.equal(regard.Attention(unaligned, odd) @ unaligned, regard.Attention(odd, odd) @ odd)


def test_a_class_that_is_no_memory_gets_an_error() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        nothing = torch.empty(1, 2, 3, 4)
        with pytest.raises(errors.Unsupported, match="FakeTensor"):
            regard.Attention(nothing, nothing) @ nothing


def test_parameters_and_subclasses(draw: Draw) -> None:
    queries, keys, values = (torch.from_numpy(draw(3, 7, 5)) for _ in range(3))
    parameter = torch.nn.Parameter(queries)
    expected = regard.Attention(queries, keys) @ values
    with torch.no_grad():
        assert torch.equal(regard.Attention(parameter, keys) @ values, expected)
    assert (regard.Attention(parameter, keys) @ values).requires_grad
    buffer = torch.nn.Buffer(queries)
    assert torch.equal(regard.Attention(buffer, keys) @ values, expected)


def test_no_queries_and_no_sequences() -> None:
    keys = torch.ones(2, 3, 5, 4)
    for shape in ((2, 3, 0, 4), (0, 3, 5, 4)):
        queries, some = torch.ones(shape), keys[: shape[0]]
        A = regard.Attention(queries, some, offset=0)
        assert (A @ some).shape == shape
        assert A.entropy().shape == shape[:3] and A.top(2).index.shape == (*shape[:3], 2)


def test_several_threads_at_once(draw: Draw) -> None:
    from concurrent.futures import ThreadPoolExecutor

    A = regard.Attention(*(torch.from_numpy(draw(1, 4, 97, 16)) for _ in range(2)), mask=regard.causal())
    values = torch.from_numpy(draw(1, 4, 97, 8))
    expected = A @ values
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: A @ values, range(32)):
            assert torch.equal(found, expected)

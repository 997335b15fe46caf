"""The number of threads changes nothing: not a bit of outputs, statistics, maps, column sums and gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import regard
from regard.engines.select import NATIVE_PROBLEM

from ..effort import examples
from ..engine_names import BFLOAT16, using
from ..everything import everything
from .cases import Case, cases

pytestmark = pytest.mark.skipif(NATIVE_PROBLEM is not None, reason="threads are the native engine's")

COUNTS = (1, 2, 3, 5)


@pytest.fixture(autouse=True, scope="module")
def _native_with_its_own_threads_afterwards() -> Iterator[None]:
    from regard import _core

    before = _core.threads()
    with using("native"):
        yield
    _core.set_threads(before)


def same_for_every_count(compute: Callable[[], dict[str, Any]]) -> None:
    from regard import _core

    first: dict[str, Any] = {}
    for count in COUNTS:
        _core.set_threads(count)
        assert _core.threads() == count
        found = compute()
        first = first or found
        for name, array in found.items():
            assert array.tobytes() == first[name].tobytes(), f"{name} with {count} threads"


@given(case=cases())
@examples(25)
def test_random_attentions_do_not_depend_on_the_number_of_threads(case: Case) -> None:
    flow = np.random.default_rng(3).normal(size=(*case.shape[:3], case.values.shape[3])).astype(case.queries.dtype)
    same_for_every_count(lambda: everything(case.attention(), case.values, flow))


# Large enough for the work to be shared: less than some 2 million multiplications stay on the thread that calls.
LARGE: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "many heads": ((2, 4, 401, 32), (2, 2, 401, 32), {}),
    "one head, causal": ((1, 1, 1501, 16), (1, 1, 1501, 16), {"mask": regard.causal()}),
    "bias and sinks": ((1, 3, 401, 16), (1, 3, 503, 16), {"bias": (3, 1, 503), "sinks": 3, "offset": 102}),
    "alibi, windows": (
        (1, 2, 701, 16),
        (1, 2, 701, 16),
        {"mask": regard.masks.first(4) | regard.window(100), "bias": regard.biases.alibi(heads=2)},
    ),
    "decoding": ((1, 4, 1, 64), (1, 2, 9001, 64), {"offset": 9000}),
    "decoding, causal": ((2, 2, 3, 64), (2, 2, 5003, 64), {"offset": 5000, "mask": regard.causal()}),
}


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16), BFLOAT16], ids=str)
@pytest.mark.parametrize("name", LARGE)
def test_shared_work_does_not_depend_on_the_number_of_threads(name: str, dtype: Any) -> None:
    queries_shape, keys_shape, options = LARGE[name]
    rng = np.random.default_rng(20)
    queries, keys, values, flow = (
        rng.normal(size=shape).astype(dtype) for shape in (queries_shape, keys_shape, keys_shape, queries_shape)
    )
    given = {
        name: rng.normal(size=option).astype(dtype) if name == "sinks" or isinstance(option, tuple) else option
        for name, option in options.items()
    }
    A = regard.Attention(queries, keys, **given)
    same_for_every_count(lambda: everything(A.copy(), values, flow))

"""What an `Attention` keeps of its rows follows its arrays: whatever changes them, results are those of a new one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import regard
from regard import arrays
from regard.biases import Bias

from ..engine_names import BFLOAT16, ENGINES, NUMPY_ENGINES, as_numpy, for_engine, using

Draw = Callable[..., Any]

ACTS: dict[str, Callable[[regard.Attention], Any]] = {
    "entropy": lambda A: A.entropy(),
    "logsumexp": lambda A: A.logsumexp(),
    "received": lambda A: A.column_sums(),
    "dense": lambda A: A.dense(),
    "pooled": lambda A: A.pooled((2, 2)).array,
    "a row": lambda A: A[..., 0, :],
    "transposed": lambda A: A.mT @ A.queries,
}


def check(A: regard.Attention, new: regard.Attention) -> None:
    """Every result is that of a new attention, which has kept nothing."""
    for name, act in ACTS.items():
        np.testing.assert_allclose(as_numpy(act(A)), as_numpy(act(new)), rtol=1e-5, atol=1e-7, err_msg=name)


@pytest.mark.parametrize("name", ["queries", "keys", "bias", "sinks", "mask", "offset", "slopes"])
@pytest.mark.parametrize("engine", ENGINES)
def test_results_follow_a_change_of_any_array(draw: Draw, engine: str, name: str) -> None:
    given: dict[str, Any] = {
        "queries": draw(2, 3, 5, 7),
        "keys": draw(2, 3, 5, 7),
        "bias": draw(5, 5),
        "sinks": draw(3),
        "mask": np.tri(5, dtype=bool),
        "offset": np.array([0, 1]),
        "slopes": np.ones(3),
    }
    given = {key: for_engine(engine, array) for key, array in given.items()}

    def made() -> regard.Attention:
        options = {key: given[key] for key in ("queries", "keys", "sinks", "offset")}
        options["mask"] = regard.masks.allowed(given["mask"]) & regard.window(3)
        options["bias"] = regard.biases.alibi(given["slopes"]) if name == "slopes" else given["bias"]
        return regard.Attention(**options)

    with using(engine):
        A = made()
        before = as_numpy(A.entropy()).copy()
        if name == "offset":
            A.offset[0] = 3  # integers of 64 bits are taken as they are, others are converted
            given["offset"] = A.offset
        elif name == "mask":
            given["mask"][3, 0] = False
        else:
            given[name][(-1,) * given[name].ndim] += 1
        assert np.abs(as_numpy(A.entropy()) - before).max() > 1e-3
        check(A, made())


@pytest.mark.parametrize("length", [5, 2047, 2048])
@pytest.mark.parametrize("engine", ["native", "torch_native"])
def test_a_change_after_a_product_is_followed_at_every_length(engine: str, length: int) -> None:
    """From 2,048 tokens on a product keeps its row state, which must not be seen in any result."""
    if engine not in ENGINES:
        pytest.skip(f"no {engine} engine")
    rng = np.random.default_rng(1)
    q, k, v = (for_engine(engine, rng.normal(size=(1, length, 4)).astype(np.float32)) for _ in range(3))
    with using(engine):
        A = regard.Attention(q, k)
        A @ v
        q[0, 0, 0] += 1
        new = regard.Attention(q, k)
        assert_array_equal(as_numpy(A.entropy()), as_numpy(new.entropy()))
        A @ v
        k[0, 1] *= 2
        new = regard.Attention(q, k)
        assert_array_equal(as_numpy(A[0, :3]), as_numpy(new[0, :3]))
        np.testing.assert_allclose(as_numpy(A.column_sums()), as_numpy(new.column_sums()), rtol=1e-5)


def test_changes_that_pytorch_does_not_count_are_followed() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(2)

    a = rng.normal(size=(6, 4))
    t = torch.from_numpy(a)
    A = regard.Attention(t, t)
    A.entropy()
    a[2] += 5  # through NumPy
    check(A, regard.Attention(t.clone(), t.clone()))
    t.data[1] -= 3
    check(A, regard.Attention(t.clone(), t.clone()))
    with torch.inference_mode():
        u = t.clone()
        A = regard.Attention(u, u)
        A.entropy()
        u[0, 1] = 2
        check(A, regard.Attention(u.clone(), u.clone()))


@pytest.mark.parametrize("engine", ENGINES)
def test_what_a_function_of_positions_refers_to_may_change(engine: str) -> None:
    rng = np.random.default_rng(3)
    q = for_engine(engine, rng.normal(size=(1, 6, 4)))
    limit = [1]
    mask = regard.masks.where(lambda query, key: key <= query - limit[0])
    with using(engine):
        for combined in (mask, mask & regard.causal(), ~mask):
            limit[0] = 1
            A = regard.Attention(q, q, mask=combined)
            A.entropy()
            limit[0] = 0
            check(A, regard.Attention(q, q, mask=combined))


class Stairs(Bias):
    """A lazy bias from elsewhere, with a state that Regard can't look into."""

    height = 1.0

    def table(self, heads: int, lowest: int, highest: int, xp: Any = np, dtype: Any = None, device: Any = None) -> Any:
        return np.arange(lowest, highest + 1, dtype=np.float64)[None] * self.height


def test_a_bias_from_elsewhere_may_change() -> None:
    q = np.random.default_rng(4).normal(size=(6, 4))
    stairs = Stairs()
    A = regard.Attention(q, q, bias=stairs)
    A.entropy()
    stairs.height = 0.25
    check(A, regard.Attention(q, q, bias=stairs))


@pytest.mark.parametrize("engine", NUMPY_ENGINES)
def test_nothing_is_computed_twice_while_nothing_changes(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.engines import select

    rng = np.random.default_rng(5)
    with using(engine):
        A = regard.Attention(rng.normal(size=(3, 9, 4)), rng.normal(size=(3, 9, 4)), mask=regard.padding([7]))
        module = select.engine_for(A.queries)
        forward, passes = module.forward, []

        def counted(*given: Any) -> Any:
            passes.append(given)
            return forward(*given)

        monkeypatch.setattr(module, "forward", counted)
        for act in ACTS.values():
            act(A)
        assert len(passes) == 1
        A.keys[0, 0, 0] += 1
        for act in ACTS.values():
            act(A)
        assert len(passes) == 2


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda array: array,
    "float16": lambda array: array.astype(np.float16),
    "bfloat16": lambda array: array.astype(BFLOAT16),
    "float32": lambda array: array.astype(np.float32),
    "integers": lambda array: (array * 100).astype(np.int64),
    "short integers": lambda array: (array * 10).astype(np.int8),
    "booleans": lambda array: array > 0,
    "big-endian": lambda array: array.astype(">f4"),
    "fortran": np.asfortranarray,
    "backwards": lambda array: array[::-1, ::-1],
    "every other": lambda array: np.repeat(array, 2, axis=1)[:, ::2],
    "one row": lambda array: array[0],
    "six axes": lambda array: array.reshape(3, 1, 3, 2, 2, 2),
    "misaligned": lambda array: _field(array),
}


def _field(array: Any) -> Any:
    room = np.zeros(array.shape, np.dtype([("before", "u1"), ("here", array.dtype)]))["here"]
    room[...] = array
    return room


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_fingerprint_changes_with_every_number(layout: str, native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not native:
        monkeypatch.setattr(arrays, "_native_fingerprint", lambda: None)
    array = LAYOUTS[layout](np.random.default_rng(6).normal(size=(9, 8)))
    seen = {arrays.fingerprint(array)}
    for place in np.ndindex(array.shape):
        array[place] = ~array[place] if array.dtype == bool else array[place] + array.dtype.type(1)
        assert arrays.fingerprint(array) == arrays.fingerprint(array) is not None
        seen.add(arrays.fingerprint(array))
    assert len(seen) == array.size + 1


def test_a_fingerprint_on_another_device_changes_with_every_number() -> None:
    torch = pytest.importorskip("torch")
    for kind in (torch.float32, torch.bfloat16, torch.float64, torch.bool):
        tensor = torch.randn(9, 8).to(kind)
        seen = {arrays._device_fingerprint(tensor)}
        for row in range(9):
            tensor[row, row % 8] = ~tensor[row, row % 8] if kind == torch.bool else tensor[row, row % 8] + 1
            seen.add(arrays._device_fingerprint(tensor))
        assert len(seen) == 10
    assert arrays._device_fingerprint(torch.zeros(0, 3)) == arrays._device_fingerprint(torch.zeros(0, 3))
    swapped = torch.randn(2, 100)
    assert arrays._device_fingerprint(swapped) != arrays._device_fingerprint(swapped.flip(1))

"""NaN and inf: where they are masked they have no influence, and where they are seen they reach just those rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import regard
from regard.engines.interface import ROW_STATISTICS as STATISTICS

from ..effort import examples
from ..engine_names import ENGINES, NUMPY_ENGINES, as_numpy, for_engine, using
from ..everything import everything, gradients
from .cases import Case, cases
from .gradient_truth import GradientTruth
from .truth import Near, Truth

POISON = (np.nan, np.inf, -np.inf)


def poisoned(array: Any, places: Any, poison: float) -> Any:
    """With poison in one number of each chosen vector."""
    array = array.copy()
    for place in zip(*np.nonzero(places), strict=True):
        array[(*place, sum(place) % array.shape[-1])] = poison
    return array


def some_keys(case: Case, seed: int) -> Any:
    """Booleans (batch, key head, key): a few keys."""
    shape = case.keys.shape[:3]
    return np.random.default_rng(seed).random(shape) < min(0.5, 2 / shape[2])


def reached(truth: Truth, keys: Any) -> Any:
    """Booleans (batch, head, query): rows that see one of these keys."""
    return (truth.seen & truth.for_each_head(keys)[:, :, None].astype(bool)).any(axis=-1)


def check_rows(near: Near, found: Any, hit: Any, what: str) -> None:
    """Rows that were hit are NaN, all others are as if nothing had happened."""
    hit = hit.reshape(hit.shape + (1,) * (near.expected.ndim - hit.ndim))
    Near(np.where(hit, np.nan, near.expected), near.bound).check(found, what)


@pytest.mark.parametrize("engine", ENGINES)
@given(case=cases(), seed=st.integers(0, 999))
@examples(50)
def test_a_nan_in_a_key_reaches_the_rows_that_see_it_and_no_other(engine: str, case: Case, seed: int) -> None:
    truth, keys = Truth(case), some_keys(case, seed)
    hit = reached(truth, keys)
    with using(engine):
        A = replace(case, keys=poisoned(case.keys, keys, np.nan)).attention(engine)
        check_rows(truth.output(), as_numpy(A @ for_engine(engine, case.values)), hit, "output")
        for name in STATISTICS:
            check_rows(truth.statistic(name), as_numpy(getattr(A, name)()), hit, name)
        attended = A.attend(for_engine(engine, case.values), STATISTICS, top=3)
        check_rows(truth.output(), as_numpy(attended.output), hit, "output with statistics")
        weights = truth.weight()
        expected = np.where(hit[..., None] & truth.seen, np.nan, weights.expected)
        Near(expected, weights.bound).check(as_numpy(A.dense()), "weights")
        hit_keys = (hit[..., None] & truth.seen).any(axis=2)
        check_rows(truth.column_sums(), as_numpy(A.column_sums()), hit_keys, "received")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("poison", POISON)
@given(case=cases(), seed=st.integers(0, 999))
@examples(30)
def test_what_no_query_sees_has_no_influence(engine: str, poison: float, case: Case, seed: int) -> None:
    truth = Truth(case)
    unseen = ~truth.for_each_key_head(truth.seen.any(axis=2).astype(int)).astype(bool)  # (batch, key head, key)
    flow = np.random.default_rng(seed).normal(size=(*case.shape[:3], case.values.shape[3])).astype(case.queries.dtype)
    with using(engine):
        A = replace(case, keys=poisoned(case.keys, unseen, poison)).attention(engine)
        values = for_engine(engine, poisoned(case.values, unseen, poison))
        attended = A.attend(values, STATISTICS, top=3)
        truth.output().check(as_numpy(A @ values), "output")
        truth.output().check(as_numpy(attended.output), "output with statistics")
        for name in STATISTICS:
            truth.statistic(name).check(as_numpy(getattr(attended, name)), name)
        truth.column_sums().check(as_numpy(A.column_sums()), "received")
        truth.backflow(flow).check(as_numpy(A.mT @ for_engine(engine, flow)), "backflow")


@pytest.mark.parametrize("engine", ENGINES)
@given(case=cases(), seed=st.integers(0, 999))
@examples(50)
def test_a_poisoned_value_reaches_its_own_column_of_the_rows_that_see_it(engine: str, case: Case, seed: int) -> None:
    truth = Truth(case)
    kinds = np.random.default_rng(seed).integers(0, 3, case.keys.shape[:3])
    chosen = some_keys(case, seed)
    values = case.values
    for kind, poison in enumerate(POISON):
        values = poisoned(values, chosen & (kinds == kind), poison)
    spread = truth.for_each_head(values)
    is_nan, above, below = (
        truth.seen.astype(float) @ where > 0 for where in (np.isnan(spread), spread == np.inf, spread == -np.inf)
    )
    near = truth.output()
    expected = np.where(above, np.inf, near.expected)
    expected = np.where(below, np.where(above, np.nan, -np.inf), expected)
    expected = np.where(is_nan, np.nan, expected)
    # inf · a weight that is too small for the type is NaN, inf · the true weight is inf: either says what happened
    tiny = (truth.weights < 2 * truth.lost).astype(float) @ np.isinf(spread) > 0
    with using(engine):
        A = case.attention(engine)
        for found in (A @ for_engine(engine, values), A.attend(for_engine(engine, values), ("entropy",)).output):
            found = as_numpy(found).astype(np.float64)
            found = np.where(tiny & np.isnan(found) & np.isinf(expected), expected, found)
            Near(expected, near.bound).check(found, "output")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("keys", [1, 2, 40])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_row_that_sees_nothing_but_nan_is_nan(engine: str, keys: int, dtype: str) -> None:
    q, v = (for_engine(engine, np.ones((1, 1, count, 8), dtype)) for count in (2, keys))
    k = for_engine(engine, np.full((1, 1, keys, 8), np.nan, dtype))
    with using(engine):
        assert np.isnan(as_numpy(regard.Attention(q, k) @ v)).all()


HIDING: dict[str, Callable[[int, int], dict[str, Any]]] = {
    "lengths": lambda queries, keys: {"mask": regard.padding(keys - 2)},
    "boolean array": lambda queries, keys: {"mask": regard.masks.allowed(np.arange(keys)[None] < keys - 2)},
    "function": lambda queries, keys: {"mask": regard.masks.where(lambda query, key: key < keys - 2), "offset": 0},
    "bias of -inf": lambda queries, keys: {"bias": np.where(np.arange(keys) < keys - 2, 0, -np.inf)},
}


@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("queries", [1, 2, 17, 64])
@pytest.mark.parametrize("hiding", HIDING)
@pytest.mark.parametrize("engine", NUMPY_ENGINES)
def test_however_a_key_is_hidden_its_nan_stays_there(
    engine: str, hiding: str, queries: int, dtype: str, softcap: Any
) -> None:
    rng, keys = np.random.default_rng(1), 19
    q, k, v, flow = (rng.normal(size=(1, 2, count, 5)).astype(dtype) for count in (queries, keys, keys, queries))
    options = HIDING[hiding](queries, keys)
    if "bias" in options:
        options["bias"] = options["bias"].astype(dtype).reshape(1, 1, 1, keys)
    seen = np.broadcast_to(np.arange(keys) < keys - 2, (1, 2, queries, keys))
    case = Case(q, k, v, 0.4, seen, np.zeros((1, 1, 1, keys)), softcap=softcap, **options)
    k, v = k.copy(), v.copy()
    k[:, :, -2:], v[:, :, -1], v[:, :, -2] = np.nan, np.nan, np.inf
    with using(engine):
        expected, found = (
            everything(one.attention(), one.values, flow) for one in (case, replace(case, keys=k, values=v))
        )
    del expected["masked"], found["masked"]
    for name, array in expected.items():
        # Another path may sum in another order: a few units in the last place of numbers of order one.
        np.testing.assert_allclose(found[name], array, rtol=0, atol=100 * float(np.finfo(dtype).eps), err_msg=name)


@pytest.mark.parametrize("engine", NUMPY_ENGINES)
@given(case=cases(), seed=st.integers(0, 999))
@examples(40)
def test_gradients_do_not_feel_what_no_query_sees(engine: str, case: Case, seed: int) -> None:
    truth = Truth(case)
    unseen = ~truth.for_each_key_head(truth.seen.any(axis=2).astype(int)).astype(bool)
    flow = np.random.default_rng(seed).normal(size=(*case.shape[:3], case.values.shape[3])).astype(case.queries.dtype)
    poison = POISON[seed % 3]
    case = replace(case, keys=poisoned(case.keys, unseen, poison), values=poisoned(case.values, unseen, poison))
    with using(engine):
        found = gradients(case.attention(), case.values, flow)
        found.pop("relative", None)
    expected = GradientTruth(truth, flow.astype(np.float64))
    for name, gradient in found.items():
        getattr(expected, name)().check(gradient, f"gradient of {name}")


@pytest.mark.parametrize("keys", [1, 11, 200])
@pytest.mark.parametrize("queries", [1, 4, 5, 20])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_key_that_hides_itself_has_no_influence(engine: str, queries: int, keys: int) -> None:
    """A score of −inf, from an infinite number in the key, is a weight of 0: its value counts for nothing."""
    rng = np.random.default_rng(11)
    q, k, v = (rng.normal(size=(1, 2, count, 8)) for count in (queries, keys, keys))
    q[..., 0] = -1
    k[:, :, 0, 0], v[:, :, 0] = np.inf, np.inf
    with using(engine):
        A = regard.Attention(for_engine(engine, q), for_engine(engine, k))
        found, flow = A @ for_engine(engine, v), A.mT @ for_engine(engine, np.full((1, 2, queries, 3), np.inf))
    assert not as_numpy(flow)[:, :, 0].any()
    with using("reference"):
        expected = regard.Attention(q, k[:, :, 1:]) @ v[:, :, 1:] if keys > 1 else np.zeros_like(q)
    np.testing.assert_allclose(as_numpy(found), expected, atol=1e-12)


OTHERS = [engine for engine in NUMPY_ENGINES if engine != "reference"]
ARRAYS = ("queries", "keys", "values", "flow")
GENTLE = ("small", "usual", "equal")


def poisoned_somewhere(case: Case, poison: float, seed: int) -> tuple[Case, Any]:
    """Poison in two of the arrays, and what flows back; no weight is too small for the type, for 0 · inf is NaN."""
    truth = Truth(case)
    assume(not (truth.seen & (truth.weights < np.finfo(case.queries.dtype).tiny)).any())
    rng = np.random.default_rng(seed)
    flow = rng.normal(size=(*case.shape[:3], case.values.shape[3])).astype(case.queries.dtype)
    arrays: dict[str, Any] = {"queries": case.queries, "keys": case.keys, "values": case.values, "flow": flow}
    for name in rng.choice(ARRAYS, size=2):
        shape = arrays[name].shape[:3]
        arrays[name] = poisoned(arrays[name], rng.random(shape) < min(0.5, 2 / max(1, shape[2])), poison)
    flow = arrays.pop("flow")
    return replace(case, **arrays), flow


def check_same_kinds(engine: str, case: Case, flow: Any, with_gradients: bool) -> None:
    """NaN, inf and −inf in the same places as the reference has them."""
    results = []
    for name in ("reference", engine):
        with using(name):
            results.append(everything(case.attention(), case.values, flow, with_gradients=with_gradients))
    expected, found = results
    for name in expected.keys() - {"top index", "top weight"}:  # NaN has no rank
        for kind in (np.isnan, np.isposinf, np.isneginf):
            assert_array_equal(kind(found[name]), kind(expected[name]), err_msg=f"{kind.__name__} of {name}")


@pytest.mark.parametrize("engine", OTHERS)
@given(case=cases(kinds=("float32", "float64"), magnitudes=GENTLE), seed=st.integers(0, 999))
@examples(40)
def test_nan_anywhere_reaches_what_it_reaches_in_the_reference(engine: str, case: Case, seed: int) -> None:
    check_same_kinds(engine, *poisoned_somewhere(case, np.nan, seed), with_gradients=True)


@pytest.mark.parametrize("engine", OTHERS)
@given(case=cases(kinds=("float32", "float64"), magnitudes=GENTLE), seed=st.integers(0, 999), negative=st.booleans())
@examples(40)
def test_inf_anywhere_reaches_what_it_reaches_in_the_reference(
    engine: str, case: Case, seed: int, negative: bool
) -> None:
    """An infinite score is NaN for its row, one of −inf hides its key. Gradients of infinite ones are left out."""
    check_same_kinds(engine, *poisoned_somewhere(case, -np.inf if negative else np.inf, seed), with_gradients=False)

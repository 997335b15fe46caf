"""`A[...]` against `dense()[...]`: any index, at any stage, gives what the library of the arrays gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import regard

from ..effort import examples
from ..engine_names import ENGINES, as_numpy, for_engine, using
from .cases import Case, cases
from .truth import Truth

STAGES = ("score", "scaled", "capped", "biased", "masked", "weight")


@st.composite
def indices(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """One item or several: integers, slices, an ellipsis (of no axes, too), new axes, integer arrays."""
    arrays = draw(st.booleans())
    broadcast = draw(st.sampled_from([(), (1,), (3,), (2, 3)]))
    items: list[Any] = []
    covered = draw(st.integers(0, len(shape)))
    from_the_left = draw(st.integers(0, covered))
    axes = [*range(from_the_left), *range(len(shape) - (covered - from_the_left), len(shape))]
    for position, axis in enumerate(axes):
        if position == from_the_left and (covered < len(shape) or draw(st.booleans())):
            items.append(...)
        if draw(st.integers(0, 7)) == 0:
            items.append(None)
        items.append(draw(_item(shape[axis], broadcast if arrays else None)))
    if from_the_left == covered and draw(st.booleans()):
        items.append(...)
    return tuple(items) if len(items) != 1 or draw(st.booleans()) else items[0]


def _item(count: int, broadcast: tuple[int, ...] | None) -> st.SearchStrategy[Any]:
    ends = st.one_of(st.none(), st.integers(-count - 2, count + 2))
    steps = st.sampled_from([None, 1, 2, 3, -1, -2])
    kinds: list[st.SearchStrategy[Any]] = [st.builds(slice, ends, ends, steps), st.just(slice(None))]
    if count:
        kinds.append(st.integers(-count, count - 1))
        if broadcast is not None:
            total = int(np.prod(broadcast))
            numbers = st.lists(st.integers(-count, count - 1), min_size=total, max_size=total)
            kinds.append(numbers.map(lambda some: np.array(some, dtype=np.int64).reshape(broadcast)))
    return st.one_of(kinds)


def taken(engine: str, array: Any, index: Any) -> Any:
    """`array[index]` as the library of this engine's arrays has it."""
    if not engine.startswith("torch"):
        return np.asarray(array[index])
    import torch

    items = list(index) if isinstance(index, tuple) else [index]
    for place, item in enumerate(items):
        if isinstance(item, slice) and (item.step or 1) < 0:  # PyTorch has none: NumPy does these first
            axis = sum(other is not None for other in items[:place])
            if any(other is ... for other in items[:place]):
                axis = array.ndim - sum(other is not None for other in items[place:])
            array, items[place] = array[(slice(None),) * axis + (item,)], slice(None)
        elif isinstance(item, np.ndarray):
            items[place] = torch.from_numpy(item)
    return torch.from_numpy(np.array(array))[tuple(items)].numpy()


@pytest.mark.parametrize("engine", ENGINES)
@given(case=cases(most=12, corners=True), data=st.data(), stage=st.sampled_from(STAGES), axes=st.integers(2, 4))
@examples(120)
def test_any_index_gives_that_part_of_the_matrix(engine: str, case: Case, data: Any, stage: str, axes: int) -> None:
    truth = Truth(case)
    near = truth.weight() if stage == "weight" else truth.stage(stage)
    expected, bound = (np.broadcast_to(array, case.shape) for array in (near.expected, near.bound))
    with using(engine):
        A = case.attention(engine)
        if axes < 4:  # of the first sequence, or of one head of it
            A = A.select(batch=0) if axes == 3 else A.select(batch=0, head=0)
            expected, bound = (array[(0,) * (4 - axes)] for array in (expected, bound))
        index = data.draw(indices(A.shape))
        found = as_numpy(A[index] if stage == "weight" else getattr(A, stage)[index])
    type(near)(taken(engine, expected, index), taken(engine, bound, index)).check(found, f"{stage}[{index}]")


@pytest.mark.parametrize("engine", ENGINES)
@given(case=cases(most=8), data=st.data())
@examples(30)
def test_a_boolean_array_chooses_the_weights_where_it_is_true(engine: str, case: Case, data: Any) -> None:
    axes = data.draw(st.integers(1, 4))
    chosen = np.random.default_rng(data.draw(st.integers(0, 99))).random(case.shape[:axes]) < 0.4
    near = Truth(case).weight()
    with using(engine):
        found = as_numpy(case.attention(engine)[chosen])
    type(near)(near.expected[chosen], near.bound[chosen]).check(found)


@pytest.mark.parametrize("engine", ENGINES)
@given(case=cases(most=10), data=st.data())
@examples(40)
def test_selected_sequences_and_heads_keep_their_outputs_and_statistics(engine: str, case: Case, data: Any) -> None:
    batch, heads = case.shape[:2]
    some = {"batch": data.draw(_some(batch)), "head": data.draw(_some(heads))}
    place = np.ix_(_numbers(some["batch"], batch), _numbers(some["head"], heads))
    truth = Truth(case)
    values = np.repeat(case.values, case.group, axis=1)  # a head of values for each head of queries
    with using(engine):
        part = case.attention(engine).select(**some)
        entropy = as_numpy(part.entropy())
        column = as_numpy(part.column_sums())
        output = as_numpy(part @ for_engine(engine, _values_for(part, values[place])))
    for near, found in ((truth.statistic("entropy"), entropy), (truth.column_sums(), column), (truth.output(), output)):
        shape = (*part.shape[:-2], *near.expected.shape[2:])
        chosen = (array[place].reshape(shape) for array in (near.expected, near.bound))
        type(near)(*chosen).check(found)


def _some(count: int) -> st.SearchStrategy[Any]:
    numbers = st.integers(-count, count - 1)
    slices = st.builds(slice, st.none(), st.none(), st.sampled_from([None, 1, 2, -1]))
    return st.one_of(st.none(), numbers, slices, st.lists(numbers, min_size=1, max_size=4))


def _numbers(some: Any, count: int) -> Any:
    return np.arange(count) if some is None else np.atleast_1d(np.arange(count)[some])


def _values_for(part: regard.Attention, values: Any) -> Any:
    """Values of (sequences, query heads) for the key heads that a part has kept."""
    sequences, heads = (1, 1, *part.queries.shape[:-2])[-2:]
    key_heads = (1, *part.keys.shape[:-2])[-1]
    values = values.reshape(sequences, heads, *values.shape[2:])[:, :: heads // key_heads]
    return values.reshape(*part.keys.shape[:-1], values.shape[-1])

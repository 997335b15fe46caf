"""Pictures of the matrix: every cell is exactly what its weights say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import regard
from regard import errors

Draw = Callable[..., Any]

pytestmark = pytest.mark.usefixtures("engine_name")


@pytest.fixture
def attention(draw: Draw) -> regard.Attention:
    mask = regard.causal() & (regard.masks.first(3) | regard.window(11))
    return regard.Attention(
        draw(2, 4, 29, 5), draw(2, 2, 41, 5), mask=mask, bias=regard.biases.alibi(heads=4), offset=[12, 3]
    )


def test_edges_are_as_even_as_whole_numbers_allow(attention: regard.Attention) -> None:
    found = attention.pooled((7, 4), columns=(1, 11))
    assert found.row_edges.tolist() == [29 * cell // 7 for cell in range(8)]
    assert found.column_edges.tolist() == [1, 3, 6, 8, 11]
    mixed = attention.pooled((4, None), column_edges=[2, 3, 20, 40], pool="max")
    assert mixed.row_edges.tolist() == [0, 7, 14, 21, 29] and mixed.column_edges.tolist() == [2, 3, 20, 40]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_maps_of_narrow_types_have_a_wide_one(draw: Draw, dtype: str) -> None:
    found = regard.Attention(draw(29, 5).astype(dtype), draw(41, 5).astype(dtype)).pooled((5, 6))
    assert found.array.dtype == np.float32 and found.shape == (5, 6)


def test_a_map_is_an_array_for_numpy(attention: regard.Attention) -> None:
    found = attention.pooled((3, 2))
    assert_array_equal(np.asarray(found), found.array)
    assert np.asarray(found, dtype=np.float16).dtype == np.float16


BAD: dict[str, dict[str, Any]] = {
    "no shape": {},
    "one number": {"shape": 5},
    "three numbers": {"shape": (5, 5, 5)},
    "no cells": {"shape": (0, 5)},
    "too many cells": {"shape": (30, 5)},
    "a fraction": {"shape": (2.5, 5)},
    "a word": {"shape": (5, 5), "pool": "average"},
    "an empty region": {"shape": (1, 1), "rows": (5, 5)},
    "a step": {"shape": (1, 1), "rows": slice(0, 10, 2)},
    "no region": {"shape": (1, 1), "columns": "all"},
    "falling edges": {"row_edges": [0, 5, 3], "column_edges": [0, 41]},
    "equal edges": {"row_edges": [0, 5, 5], "column_edges": [0, 41]},
    "edges outside": {"row_edges": [0, 30], "column_edges": [0, 41]},
    "a single edge": {"row_edges": [0], "column_edges": [0, 41]},
    "edges of words": {"row_edges": ["a", "b"], "column_edges": [0, 41]},
    "one kind of edges": {"row_edges": [0, 5]},
    "edges and a shape": {"shape": (2, 2), "row_edges": [0, 5], "column_edges": [0, 41]},
    "edges and a region": {"rows": (0, 5), "row_edges": [0, 5], "column_edges": [0, 41]},
}


@pytest.mark.parametrize("name", BAD)
def test_bad_maps_are_refused_with_words(attention: regard.Attention, name: str) -> None:
    with pytest.raises(errors.OptionError, match="expected"):
        attention.pooled(**BAD[name])

"""Pictures of the matrix: every cell is exactly what its weights say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import regard
from regard import errors

Draw = Callable[..., Any]
CLOSE: Any = {"rtol": 1e-11, "atol": 1e-13}  # float64 on both sides, sums of at most a few hundred terms

pytestmark = pytest.mark.usefixtures("engine_name")
JOIN = {"mean": np.mean, "sum": np.sum, "max": np.max}


@pytest.fixture
def attention(draw: Draw) -> regard.Attention:
    mask = regard.causal() & (regard.masks.first(3) | regard.window(11))
    return regard.Attention(
        draw(2, 4, 29, 5), draw(2, 2, 41, 5), mask=mask, bias=regard.biases.alibi(heads=4), offset=[12, 3]
    )


def cells(weights: Any, row_edges: Any, column_edges: Any, join: Any) -> Any:
    """Every cell, one by one."""
    result = np.empty((*weights.shape[:-2], len(row_edges) - 1, len(column_edges) - 1))
    for r, c in np.ndindex(*result.shape[-2:]):
        cell = weights[..., row_edges[r] : row_edges[r + 1], column_edges[c] : column_edges[c + 1]]
        result[..., r, c] = join(cell, axis=(-2, -1))
    return result


@pytest.mark.parametrize("pool", JOIN)
@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (29, 41), (5, 41)])
@pytest.mark.parametrize(
    ("rows", "columns"), [(None, None), ((3, 17), slice(5, 30)), (slice(-9, None), (30, 41)), ((28, 29), None)]
)
def test_cells_of_any_region(attention: regard.Attention, pool: Any, shape: Any, rows: Any, columns: Any) -> None:
    height = 29 if rows is None else len(range(29)[rows if isinstance(rows, slice) else slice(*rows)])
    width = 41 if columns is None else len(range(41)[columns if isinstance(columns, slice) else slice(*columns)])
    shape = min(shape[0], height), min(shape[1], width)
    found = attention.pooled(shape, rows=rows, columns=columns, pool=pool)
    assert found.shape == (2, 4, *shape) and found.pool == pool
    expected = cells(attention.dense(), found.row_edges, found.column_edges, JOIN[pool])
    assert_allclose(found.array, expected, **CLOSE)
    assert_allclose(attention.pooled(shape, rows=rows, columns=columns, pool=pool).array, expected, **CLOSE)


def test_edges_are_as_even_as_whole_numbers_allow(attention: regard.Attention) -> None:
    found = attention.pooled((7, 4), columns=(1, 11))
    assert found.row_edges.tolist() == [29 * cell // 7 for cell in range(8)]
    assert found.column_edges.tolist() == [1, 3, 6, 8, 11]


def test_given_edges_and_words(attention: regard.Attention) -> None:
    weights, rows, columns = attention.dense(), [0, 1, 5, 29], [2, 3, 20, 40]
    found = attention.pooled(row_edges=rows, column_edges=columns, pool="words")
    assert_allclose(found.array, cells(weights, rows, columns, np.sum) / np.diff(rows)[:, None], **CLOSE)
    whole = attention.pooled(row_edges=rows, column_edges=[0, 10, 41], pool="words")
    assert_allclose(whole.array.sum(axis=-1), cells(weights, rows, [0, 41], np.sum)[..., 0] / np.diff(rows), **CLOSE)
    mixed = attention.pooled((4, None), column_edges=columns, pool="max")
    assert_allclose(mixed.array, cells(weights, mixed.row_edges, columns, np.max), **CLOSE)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_narrow_types(draw: Draw, dtype: str) -> None:
    A = regard.Attention(draw(29, 5).astype(dtype), draw(41, 5).astype(dtype))
    found = A.pooled((5, 6))
    assert found.array.dtype == np.float32 and found.shape == (5, 6)
    expected = cells(A.dense().astype(np.float64), found.row_edges, found.column_edges, np.mean)
    assert_allclose(found.array, expected, rtol=1e-5)  # float32 sums of 42 weights


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

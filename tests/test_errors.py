"""Errors help at once: the argument, what came, what was expected, the likely fix."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import numpy as np
import pytest

from regard import errors
from regard.errors import RegardError

QUERIES, KEYS = (2, 8, 5, 64), (2, 8, 7, 48)

EXAMPLES: list[tuple[RegardError, type[Exception], str]] = [
    (errors.head_dims_differ(QUERIES, KEYS), ValueError, "`keys` have head_dim 48, `queries` have 64"),
    (errors.heads_do_not_divide((8, 5, 4), (3, 7, 4)), ValueError, "8 query heads cannot share 3 key heads evenly"),
    (errors.batch_differs((2, 8, 5, 4), (3, 8, 7, 4)), ValueError, "`keys` hold 3 sequences, `queries` hold 2"),
    (errors.axes_differ((2, 8, 5, 4), (7, 4)), ValueError, "`keys` have 2 axes, `queries` have 4"),
    (errors.wrong_dimensions("queries", (4,)), ValueError, "For a single query, add its axis: queries[None]"),
    (errors.wrong_dimensions("keys", (1, 2, 3, 4, 5)), ValueError, "`keys` have 5 axes, shape (1, 2, 3, 4, 5)"),
    (errors.empty_keys((5, 4), (0, 4)), ValueError, "`keys` hold no key"),
    (errors.empty_head_dim("queries", (5, 0)), ValueError, "`queries` have head_dim 0"),
    (errors.values_count_differs((7, 4), (6, 3)), ValueError, "`values` hold 6 values for 7 keys"),
    (errors.values_do_not_fit((2, 7, 4), (3, 7, 4)), ValueError, "head 3, key 7, value_dim 4"),
    (errors.rows_do_not_fit((2, 5), (5,)), ValueError, "`u` has shape (5,)"),
    (errors.mask_shape((5, 6), (2, 3, 5, 7)), ValueError, "mask[:, None, None, :]"),
    (errors.mask_axes((5,)), ValueError, "`allowed` got shape (5,)"),
    (errors.bias_shape((5, 6), (2, 3, 5, 7)), ValueError, "`bias` of shape (5, 6)"),
    (errors.bias_heads("slopes", 4, 8), ValueError, "`slopes` are for 4 heads, the attention has 8"),
    (errors.sinks_shape((4,), 8), ValueError, "`sinks` have shape (4,); expected (8,)"),
    (errors.unsupported_dtype("queries", np.dtype("complex64")), TypeError, "complex numbers"),
    (errors.unsupported_dtype("keys", np.dtype("object")), TypeError, "rows of unequal length"),
    (errors.unsupported_dtype("keys", np.dtype("int32")), TypeError, "keys.astype('float32')"),
    (errors.unsupported_dtype("keys", "torch.int32"), TypeError, "keys.float()"),
    (errors.dtypes_differ(queries=np.zeros(1), keys=np.zeros(1, "f")), TypeError, "`keys` are float32"),
    (
        errors.families_mixed(queries=np.zeros(1), keys=[1]),
        TypeError,
        "a NumPy array, `keys` are of type list",
    ),
    (errors.not_an_array("queries", [[1]]), TypeError, "`queries` are of type list"),
    (errors.option("k", -1, "a positive number", "Try 8."), ValueError, "`k` is -1; expected a positive number."),
    (errors.scale_not_finite(float("nan")), ValueError, "`scale` is nan; expected a finite number"),
    (errors.bad_softcap(-3), ValueError, "`softcap` is -3"),
    (errors.bad_statistic("entrpy", ("entropy", "peak")), ValueError, "Did you mean 'entropy'?"),
    (errors.not_a_mask(np.zeros(1)), TypeError, "allowed(array)"),
    (errors.mask_has_no_truth(), TypeError, "not `and`, `or`, `not`"),
    (errors.mask_not_boolean(np.dtype("int64")), ValueError, "array != 0"),
    (errors.mask_function_result(np.dtype("int64")), ValueError, "`key <= query`"),
    (errors.not_per_sequence("counts", 3, 2), ValueError, "`counts` are for 3 sequences, the batch holds 2"),
    (errors.ids_too_short((4,), 7, np.arange(2, 5)), ValueError, "7 keys and of queries at positions 2 to 4"),
    (errors.offset_needed(2, 5), ValueError, "offset=3  bottom-right"),
    (errors.bad_offset(1.5, 3), ValueError, "`offset` is 1.5; expected an integer, or integers of shape (3,)"),
    (errors.index_out_of_range("head", 12, 8), IndexError, "head 12 is out of range: there are 8 heads"),
    (errors.too_many_indices(5, 4), IndexError, "5 indices for an attention of 4 axes"),
    (errors.bad_index("one"), IndexError, "'one' is no index"),
    (errors.bad_edges("row_edges", [3, 2], 9), ValueError, "`row_edges` is [3, 2]"),
    (errors.bad_map_shape((9, 9), (5, 7)), ValueError, "up to 5 rows and 7 columns"),
    (errors.too_large_to_build(2**41, 2**30), MemoryError, "would take 2 TiB, the limit is 1 GiB"),
    (errors.unsupported("vmap", "Use the batch axis."), NotImplementedError, "vmap is not supported.\nUse the batch"),
]


@pytest.mark.parametrize(("error", "family", "said"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_errors_say_what_came_and_what_helps(error: RegardError, family: type[Exception], said: str) -> None:
    assert isinstance(error, RegardError)
    assert isinstance(error, family)  # so that code which expects Python's own kinds goes on working
    assert said in str(error)
    assert max(len(line) for line in str(error).splitlines()) <= 160
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # they cross from one process to another


def test_every_error_is_an_example_here() -> None:
    makers = {
        name
        for name, value in inspect.getmembers(errors, inspect.isfunction)
        if value.__module__ == "regard.errors" and not name.startswith("_")
    }
    source = inspect.getsource(inspect.getmodule(test_every_error_is_an_example_here))  # type: ignore[arg-type]
    assert not {name for name in makers if f"errors.{name}(" not in source}


def test_arrays_are_listed_with_their_axes_below_each_other() -> None:
    assert str(errors.head_dims_differ(np.zeros(QUERIES), np.zeros(KEYS))) == (
        "`keys` have head_dim 48, `queries` have 64.\n"
        "  queries  batch 2, head 8, query 5, head_dim 64\n"
        "  keys     batch 2, head 8, key 7,   head_dim 48\n"
        "Both come out of projections of the same width: check W_k."
    )


def test_missing_axes_leave_their_column_empty() -> None:
    lines = str(errors.axes_differ((2, 8, 5, 4), (7, 4))).splitlines()
    assert lines[1] == "  queries  batch 2, head 8, query 5, head_dim 4"
    assert lines[2] == "  keys                      key 7,   head_dim 4"


def test_more_axes_than_names_are_listed_too() -> None:
    assert "axis 1, batch 2, head 3, key 4, head_dim 5" in str(errors.values_do_not_fit((1, 2, 3, 4, 5), (4, 5)))


def test_tensors_on_several_devices_are_named() -> None:
    torch = pytest.importorskip("torch")
    arrays: dict[str, Any] = {"queries": torch.zeros(1), "keys": torch.zeros(1, device="meta")}
    assert "`queries` are on cpu, `keys` are on meta" in str(errors.devices_differ(**arrays))
    assert "`keys` are a PyTorch tensor" in str(errors.families_mixed(queries=np.zeros(1), keys=torch.zeros(1)))


def test_both_readings_of_an_offset_are_explained_even_when_it_is_negative() -> None:
    lines = str(errors.offset_needed(5, 2)).splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["offset=0", "offset=-3"]
    assert lines[1].index("top-left") == lines[2].index("bottom-right")


def test_a_long_value_is_shortened() -> None:
    assert len(str(errors.option("k", list(range(1000)), "a number"))) < 100


def test_a_word_that_resembles_none_gets_no_guess() -> None:
    assert str(errors.bad_name("pool", "xyz", ("mean", "max", "sum"))) == (
        "`pool` is 'xyz'; expected 'mean', 'max' or 'sum'."
    )

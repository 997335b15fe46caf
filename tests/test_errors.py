"""Errors help at once: the argument, what came, what was expected, the likely fix."""

from __future__ import annotations

import pickle
import shlex
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from regard import errors
from regard.attention import Attention
from regard.biases import alibi
from regard.errors import RegardError
from regard.masks import allowed, causal, documents, padding, where

QUERIES, KEYS = (2, 8, 5, 64), (2, 8, 7, 48)


def of(*shapes: tuple[int, ...], **options: Any) -> Attention:
    """An attention of zeros; keys have the shape of the queries where none is given."""
    return Attention(np.zeros(shapes[0]), np.zeros(shapes[-1]), **options)


CASES: list[tuple[Callable[[], object], type[Exception], str]] = [
    # shapes
    (lambda: of(QUERIES, KEYS), ValueError, "`keys` have head_dim 48, `queries` have 64"),
    (lambda: of((8, 5, 4), (3, 7, 4)), ValueError, "8 query heads cannot share 3 key heads evenly"),
    (lambda: of((2, 8, 5, 4), (3, 8, 7, 4)), ValueError, "`keys` hold 3 sequences, `queries` hold 2"),
    (lambda: of((2, 8, 5, 4), (7, 4)), ValueError, "`keys` have 2 axes, `queries` have 4"),
    (lambda: of((4,)), ValueError, "For a single query, add its axis: queries[None]"),
    (lambda: of((2, 4), (1, 2, 3, 4, 5)), ValueError, "`keys` have 5 axes, shape (1, 2, 3, 4, 5)"),
    (lambda: of((5, 4), (0, 4)), ValueError, "`keys` hold no key"),
    (lambda: of((5, 0)), ValueError, "`queries` have head_dim 0"),
    (lambda: of((7, 4)) @ np.zeros((6, 3)), ValueError, "`values` hold 6 values for 7 keys"),
    (lambda: of((2, 7, 4)) @ np.zeros((3, 7, 4)), ValueError, "head 3, key 7, value_dim 4"),
    (lambda: of((2, 5, 4)).mT @ np.zeros((2, 6, 1)), ValueError, "`u` has shape (2, 6, 1)"),
    (lambda: of((5, 4), mask=allowed(np.ones((5, 6), bool))).dense(), ValueError, "mask[:, None, None, :]"),
    (lambda: allowed(np.ones(5, bool)), ValueError, "`allowed` got shape (5,)"),
    (lambda: of((5, 4), bias=np.zeros((5, 6))), ValueError, "`bias` of shape (5, 6)"),
    (lambda: of((8, 5, 4), bias=alibi([1, 2, 3, 4])).dense(), ValueError, "`slopes` are for 4 heads"),
    (lambda: of((8, 5, 4), sinks=np.zeros(4)), ValueError, "`sinks` have shape (4,); expected (8,)"),
    # types
    (lambda: Attention(np.zeros((2, 2), "complex64"), np.zeros((2, 2))), TypeError, "complex numbers"),
    (lambda: Attention(np.zeros((2, 2)), np.zeros((2, 2), object)), TypeError, "rows of unequal length"),
    (lambda: Attention(np.zeros((2, 2)), np.zeros((2, 2), "f")), TypeError, "`keys` are float32"),
    (lambda: Attention("ab", np.zeros((2, 2))), TypeError, "`queries` are of type str"),
    # options
    (lambda: of((5, 4), scale=float("nan")), ValueError, "`scale` is nan; expected a finite number"),
    (lambda: of((5, 4), softcap=-3), ValueError, "`softcap` is -3"),
    (lambda: of((5, 4)).attend(np.zeros((5, 4)), "entrpy"), ValueError, "Did you mean 'entropy'?"),
    (lambda: of((5, 4), mask=np.zeros(1)), TypeError, "allowed(array)"),
    (lambda: of((5, 4), mask=causal), TypeError, "Call it: causal()."),
    (lambda: bool(causal()), TypeError, "not `and`, `or`, `not`"),
    (lambda: allowed(np.zeros((5, 5), int)), ValueError, "array != 0"),
    (lambda: of((5, 4), mask=where(lambda query, key: key - query)).dense(), ValueError, "`key <= query`"),
    (
        lambda: of((2, 1, 5, 4), mask=padding([1, 2, 3])).dense(),
        ValueError,
        "`counts` are for 3 sequences, the batch holds 2",
    ),
    (lambda: of((3, 4), (7, 4), mask=documents([0] * 4), offset=2).dense(), ValueError, "at positions 2 to 4"),
    (lambda: of((2, 4), (5, 4), mask=causal()), ValueError, "offset=3  bottom-right"),
    (lambda: of((3, 1, 2, 4), offset=1.5), ValueError, "`offset` is 1.5; expected an integer, or integers"),
    # parts
    (lambda: of((8, 5, 4))[12], IndexError, "head 12 is out of range: there are 8 heads"),
    (lambda: of(QUERIES)[0, 0, 0, 0, 0], IndexError, "5 indices for an attention of 4 axes"),
    (lambda: of((5, 4))["one"], IndexError, "'one' is not a valid index"),
    (lambda: of((9, 4)).pooled(row_edges=[3, 2], column_edges=[0, 9]), ValueError, "`row_edges` is [3, 2]"),
    (lambda: of((5, 4), (7, 4)).pooled((9, 9)), ValueError, "to 5 rows and 7 columns"),
    (lambda: of((5, 4)).dense(limit=100), MemoryError, "would take 200 bytes, the limit is 100 bytes"),
]


@pytest.mark.parametrize(("wrong", "family", "said"), CASES, ids=[said for _, _, said in CASES])
def test_errors_say_what_came_and_what_helps(wrong: Callable[[], object], family: type[Exception], said: str) -> None:
    with pytest.raises(RegardError) as raised:
        wrong()
    error = raised.value
    assert isinstance(error, family)  # so that code which expects Python's own kinds goes on working
    assert said in str(error)
    assert max(len(line) for line in str(error).splitlines()) <= 160
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # they cross from one process to another


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (errors.unsupported_dtype("keys", np.dtype("int32")), "keys.astype('float32')"),
        (errors.unsupported_dtype("keys", "torch.int32"), "keys.float()"),
        (errors.not_an_array("queries", [[1]]), "`queries` are of type list"),
        (errors.option("k", -1, "a positive number", "Try 8."), "`k` is -1; expected a positive number.\nTry 8."),
        (errors.unsupported("vmap", "Use the batch axis."), "vmap is not supported.\nUse the batch"),
        (errors.missing_package("PNG", "typst"), "-m pip install typst"),
        (errors.missing_package("The studio", "starlette", "uvicorn"), "-m pip install starlette uvicorn"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_shared_wording(error: RegardError, said: str) -> None:
    assert said in str(error)


@pytest.mark.parametrize(
    ("prefix", "settings", "command"),
    [
        ("env", "home = /usr/bin\n", "{python} -m ensurepip && {python} -m pip install typst"),
        ("env", "home = /usr/bin\nuv = 0.9.1\n", "uv pip install --python {python} typst"),
        ("archive-v0/x1", "home = /usr/bin\nuv = 0.9.1\n", "uvx --with=typst regard see 'The cat'"),
    ],
    ids=["no pip", "uv", "uvx"],
)
def test_install_command_fits_an_environment_without_pip(prefix, settings, command, tmp_path, monkeypatch) -> None:
    folder = tmp_path / prefix
    folder.mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text(settings)
    monkeypatch.setattr(errors, "PathFinder", SimpleNamespace(find_spec=lambda name: None))
    monkeypatch.setattr(sys, "prefix", str(folder))
    monkeypatch.setattr(sys, "argv", ["regard", "see", "The cat"])
    assert errors.install_command(["typst"]) == command.format(python=sys.executable)


def test_arrays_are_listed_with_their_axes_below_each_other() -> None:
    with pytest.raises(errors.ShapeError) as raised:
        of(QUERIES, KEYS)
    assert str(raised.value) == (
        "`keys` have head_dim 48, `queries` have 64.\n"
        "  queries  batch 2, head 8, query 5, head_dim 64\n"
        "  keys     batch 2, head 8, key 7,   head_dim 48\n"
        "Both come from projections of the same width: check W_k."
    )


def test_missing_axes_leave_their_column_empty() -> None:
    lines = str(errors.misfit("", "", queries=(2, 8, 5, 4), keys=(7, 4))).splitlines()
    assert lines[1] == "  queries  batch 2, head 8, query 5, head_dim 4"
    assert lines[2] == "  keys                      key 7,   head_dim 4"


def test_more_axes_than_names_are_listed_too() -> None:
    assert "axis 1, batch 2, head 3, key 4, head_dim 5" in str(errors.misfit("", "", keys=(1, 2, 3, 4, 5)))


def test_tensors_on_several_devices_are_named() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(errors.OptionError, match="`queries` are on cpu, `keys` are on meta"):
        Attention(torch.zeros(2, 2), torch.zeros(2, 2, device="meta"))
    with pytest.raises(errors.TypeProblem, match="`keys` are a PyTorch tensor"):
        Attention(np.zeros((2, 2)), torch.zeros(2, 2))


def test_both_readings_of_an_offset_are_explained_even_when_it_is_negative() -> None:
    with pytest.raises(errors.OptionError) as raised:
        of((5, 4), (2, 4), mask=causal())
    lines = str(raised.value).splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["offset=0", "offset=-3"]
    assert lines[1].index("top-left") == lines[2].index("bottom-right")


def test_a_long_value_is_shortened() -> None:
    assert len(str(errors.option("k", list(range(1000)), "a number"))) < 100


def test_a_value_that_cannot_be_printed_is_named_by_its_type() -> None:
    assert "a value of type int" in str(errors.option("k", 10**5000, "a number"))


@pytest.mark.parametrize("has_pip", [True, False])
def test_the_command_for_a_missing_package_can_be_pasted(monkeypatch, has_pip):
    """Brackets are quoted, which zsh would expand; an environment without pip gets it first."""
    monkeypatch.setattr(errors, "PathFinder", SimpleNamespace(find_spec=lambda name: has_pip or None))
    monkeypatch.setattr(sys, "executable", "/with a space/bin/python")
    _, line = str(errors.missing_package("A Dask cluster", "dask[distributed]")).splitlines()
    python, install = ["/with a space/bin/python", "-m"], ["pip", "install", "dask[distributed]"]
    expected = [*python, *install] if has_pip else [*python, "ensurepip", "&&", *python, *install]
    assert shlex.split(line.removeprefix("Install it: ")) == expected
    assert "'dask[distributed]'" in line


def test_an_error_that_names_pip_leaves_setuptools_in_charge_of_distutils() -> None:
    """With pip looked for by importlib.util, setuptools' hook would give up, and `torch.compile` would fail later."""
    pytest.importorskip("setuptools")
    program = (
        "import _distutils_hack as hook; hook.add_shim(); from regard import errors\n"
        "errors.install_command(['typst'])\n"
        "import distutils; print(distutils.__file__)"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert "setuptools" in shown.stdout

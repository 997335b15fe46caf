"""Checks of single arguments: what passes, what is refused, and with which words."""

import math

import numpy as np
import pytest

from regard import validate
from regard.errors import OptionError, OutOfRange


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3), np.array(3)])
def test_integers_of_every_kind_come_back_as_python_integers(value):
    found = validate.integer("n", value)
    assert found == 3 and type(found) is int


def test_an_integer_tensor_is_an_integer():
    torch = pytest.importorskip("torch")
    assert validate.integer("n", torch.tensor(3)) == 3
    assert not validate.is_integer(torch.tensor([1, 2]))
    assert not validate.is_integer(torch.tensor(True))


@pytest.mark.parametrize("value", [True, np.True_, 3.0, np.float32(3), "3", None, [3], np.array([3, 4]), object(), 1j])
def test_what_is_not_an_integer_is_refused(value):
    with pytest.raises(OptionError, match=r"`n` is .*; expected an integer, at least 0\."):
        validate.integer("n", value, 0)
    with pytest.raises(OutOfRange, match=r"`head` is .*; there are 4 heads, counted from 0\."):
        validate.index("head", value, 4)


def test_limits_are_included():
    assert [validate.integer("n", n, 1, 3) for n in (1, 2, 3)] == [1, 2, 3]
    for n in (0, 4, 10**400):
        with pytest.raises(OptionError, match="an integer from 1 to 3"):
            validate.integer("n", n, 1, 3)
    assert validate.number("p", 1, above=0, most=1) == 1.0
    with pytest.raises(OptionError, match="a number above 0 and at most 1"):
        validate.number("p", 0, above=0, most=1)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400, True, "1", None, np.array(1.0), 1j])
def test_what_is_not_a_finite_number_is_refused(value):
    with pytest.raises(OptionError, match=r"`scale` is .*; expected a finite number"):
        validate.number("scale", value)


def test_a_misspelt_name_is_suggested():
    assert validate.choice("pool", "sum", ("mean", "sum")) == "sum"
    with pytest.raises(OptionError, match=r"expected 'mean' or 'sum'\.\nDid you mean 'mean'\?"):
        validate.choice("pool", "meen", ("mean", "sum"))
    for value in (3, None, ["mean"]):
        with pytest.raises(OptionError, match=r"expected 'mean' or 'sum'\.$"):
            validate.choice("pool", value, ("mean", "sum"))

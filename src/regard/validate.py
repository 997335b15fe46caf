"""Checks of single arguments: integers, indices, numbers, names. A good value is returned, a bad one raises.

>>> integer("heads", 8, least=1), index("head", -1, 8), number("temperature", 2, least=0)
(8, 7, 2.0)
>>> integer("heads", 2.5, least=1)
Traceback (most recent call last):
regard.errors.OptionError: `heads` is 2.5; expected an integer, at least 1.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from regard import errors
from regard.errors import OptionError, OutOfRange, did_you_mean, shown, there_are


def is_integer(value: Any) -> bool:
    """Whether this is an integer of Python, NumPy or PyTorch; True and False are not."""
    if type(value) is int:
        return True
    if isinstance(value, (bool, np.bool_)) or "bool" in str(getattr(value, "dtype", "")):
        return False
    try:
        operator.index(value)
    except (TypeError, ValueError, RuntimeError):  # PyTorch: a tensor of several numbers
        return False
    return True


def holds_integers(array: Any) -> bool:
    """Whether an array of NumPy, of either byte order, or of PyTorch has an integer type."""
    return "int" in getattr(array.dtype, "name", str(array.dtype))


def is_number(value: Any) -> bool:
    """Whether this is an integer or a float of Python or NumPy; True, False and arrays are not."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def integer(name: str, value: Any, least: int | None = None, most: int | None = None, *, fix: str = "") -> int:
    """An integer from `least` to `most`, both included.

    >>> integer("top_k", 0, 1, 50)
    Traceback (most recent call last):
    regard.errors.OptionError: `top_k` is 0; expected an integer from 1 to 50.
    """
    if is_integer(value):
        number = operator.index(value)
        if (least is None or number >= least) and (most is None or number <= most):
            return number
    expected = "an integer" + ("" if least is None else f", at least {least}")
    if most is not None:
        expected = f"an integer from {least} to {most}" if least is not None else f"an integer, at most {most}"
    raise errors.option(name, value, expected, fix)


def index(axis: str, value: Any, count: int) -> int:
    """A position along an axis, from 0; negative ones count from the end.

    >>> index("head", 12, 12)
    Traceback (most recent call last):
    regard.errors.OutOfRange: `head` is 12; there are 12 heads, counted from 0.
    """
    if is_integer(value) and -count <= operator.index(value) < count:
        return operator.index(value) % count
    raise OutOfRange(f"`{axis}` is {shown(value)}; there {there_are(count, axis)}, counted from 0.")


def number(
    name: str, value: Any, *, least: float = -math.inf, above: float = -math.inf, most: float = math.inf, fix: str = "",
) -> float:  # fmt: skip
    """A finite number from `least`, or from just above `above`, to `most`.

    >>> number("top_p", 0.0, above=0, most=1)
    Traceback (most recent call last):
    regard.errors.OptionError: `top_p` is 0.0; expected a number above 0 and at most 1.
    """
    if is_number(value):
        try:
            number = float(value)
        except OverflowError:  # an int beyond 1e308
            number = math.inf
        if math.isfinite(number) and least <= number <= most and number > above:
            return number
    limits = [
        *([f"above {above:g}"] if above > -math.inf else []),
        *([f"at least {least:g}"] if least > -math.inf else []),
        *([f"at most {most:g}"] if most < math.inf else []),
    ]
    kind = "number" if most < math.inf else "finite number"
    raise errors.option(name, value, f"a {kind} {' and '.join(limits)}".rstrip(), fix)


def choice(name: str, value: Any, choices: Iterable[str]) -> str:
    """One of a few names.

    >>> choice("statistics", "entrophy", ("entropy", "peak"))
    Traceback (most recent call last):
    regard.errors.OptionError: `statistics` is 'entrophy'; expected 'entropy' or 'peak'.
    Did you mean 'entropy'?
    """
    names = list(choices)
    if isinstance(value, str) and value in names:
        return value
    words = [repr(word) for word in names]
    expected = " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
    suggestion = did_you_mean(value, names).strip() if isinstance(value, str) else ""
    raise OptionError(f"`{name}` is {shown(value)}; expected {expected}." + (f"\n{suggestion}" if suggestion else ""))

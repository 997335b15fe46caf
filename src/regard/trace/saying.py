"""Numbers, vectors and sums as somebody writes them by hand: two decimals at most, long ones shortened."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from regard.arrays import numpy_of
from regard.tables import printed_number

MOST = 8  # numbers of a vector, or terms of a sum, that are written in full
FIRST = 4  # of longer ones: these, …, and the last


def number(value: Any) -> str:
    """A number as by hand.

    >>> number(2.0), number(2.718), number(0.5), number(-0.001234), number(1e-9), number(123456.7)
    ('2', '2.72', '0.5', '−0.0012', '1e−09', '123456.7')
    """
    value = float(value)
    if not math.isfinite(value):
        return printed_number(value, 0)
    if value == 0 or abs(value) >= 0.1:
        if abs(value) >= 1e15:
            return f"{value:.3g}".replace("-", "−")
        text = printed_number(value, 2)
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{value:.2g}".replace("-", "−")


def factor(value: Any) -> str:
    """A number inside a product or behind a plus: negative ones in brackets.

    >>> factor(-2.0), factor(0.25)
    ('(−2)', '0.25')
    """
    text = number(value)
    return f"({text})" if text.startswith("−") else text


def power(exponent: Any) -> str:
    """A power of e.

    >>> power(1.0), power(-0.5)
    ('e^1', 'e^(−0.5)')
    """
    return f"e^{factor(exponent)}"


def vector(values: Any, full: bool = False) -> str:
    """A vector in brackets.

    >>> vector([1.0, 0.5]), vector(range(20))
    ('[1 0.5]', '[0 1 2 3 … 19]')
    """
    return f"[{' '.join(shortened([number(value) for value in numpy_of(values)], full))}]"


def shortened(parts: Sequence[str], full: bool = False) -> list[str]:
    """The first few, …, and the last, where there are many."""
    if full or len(parts) <= MOST:
        return list(parts)
    return [*parts[:FIRST], "…", parts[-1]]


def total(terms: Sequence[str], full: bool = False) -> str:
    """Terms with a plus between them.

    >>> total(["1", "2"]), total([str(term) for term in range(20)])
    ('1 + 2', '0 + 1 + 2 + 3 + … + 19')
    """
    return " + ".join(shortened(terms, full))


def dot(left: Any, right: Any, full: bool = False) -> str:
    """Two vectors, number by number.

    >>> dot([0, 1], [2, -3])
    '0·2 + 1·(−3)'
    """
    return total([f"{factor(a)}·{factor(b)}" for a, b in zip(numpy_of(left), numpy_of(right), strict=True)], full)

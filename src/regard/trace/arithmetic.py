"""Numbers, vectors and sums as in a hand calculation: few decimals, long vectors and sums shortened."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from regard.arrays import numpy_of
from regard.tables import printed_number

Show = Callable[[Any], str]
MOST = 8  # components of a vector, or terms of a sum, that are written in full
FIRST = 4  # of longer ones: the first four, …, and the last
LARGE = 20  # scores beyond this are written with the largest subtracted: e^100 is not a number to calculate with


def number(value: Any) -> str:
    """A number with two decimals at most, small ones with two significant digits.

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


def precise(value: Any) -> str:
    """A number with up to four decimals.

    >>> precise(0.15), precise(0.155362), precise(2.0), precise(-0.00012), precise(float("-inf"))
    ('0.15', '0.1554', '2', '−0.00012', '−∞')
    """
    value = float(value)
    if not math.isfinite(value):
        return printed_number(value, 0)
    if value and (abs(value) < 0.001 or abs(value) >= 1e9):
        return f"{value:.4g}".replace("-", "−")
    text = f"{value:.4f}".rstrip("0").rstrip(".")
    return text.replace("-", "−") if text != "-0" else "0"


def factor(value: Any, show: Show = number) -> str:
    """A number inside a product or after a plus sign: negative numbers in parentheses.

    >>> factor(-2.0), factor(0.25)
    ('(−2)', '0.25')
    """
    text = show(value)
    return f"({text})" if text.startswith("−") else text


def power(exponent: Any, show: Show = number) -> str:
    """A power of e.

    >>> power(1.0), power(-0.5)
    ('e^1', 'e^(−0.5)')
    """
    return f"e^{factor(exponent, show)}"


def vector(values: Any, full: bool = False) -> str:
    """A vector in brackets.

    >>> vector([1.0, 0.5]), vector(range(20))
    ('[1 0.5]', '[0 1 2 3 … 19]')
    """
    return f"[{' '.join(shortened([number(value) for value in numpy_of(values)], full))}]"


def shortened(parts: Sequence[str], full: bool = False) -> list[str]:
    """The first few, …, and the last, if there are many."""
    if full or len(parts) <= MOST:
        return list(parts)
    return [*parts[:FIRST], "…", parts[-1]]


def total(terms: Sequence[str], full: bool = False) -> str:
    """Terms joined by plus signs.

    >>> total(["1", "2"]), total([str(term) for term in range(20)])
    ('1 + 2', '0 + 1 + 2 + 3 + … + 19')
    """
    return " + ".join(shortened(terms, full))


def dot(left: Any, right: Any, full: bool = False, show: Show = number) -> str:
    """A dot product, component by component.

    >>> dot([0, 1], [2, -3])
    '0·2 + 1·(−3)'
    """
    pairs = zip(numpy_of(left), numpy_of(right), strict=True)
    return total([f"{factor(a, show)}·{factor(b, show)}" for a, b in pairs], full)


def softmax_line(
    scores: Any, index: int, sink: float | None = None, full: bool = False, show: Show = number
) -> tuple[str, float]:
    """The softmax of one score among those of its row, up to its result, and what was subtracted from every score.

    Masked scores, −∞, are left out of the sum.

    >>> softmax_line(np.array([1.0, 0.0, -np.inf]), 1)
    ('e^0 / (e^1 + e^0) = 1 / 3.72', 0.0)
    """
    seen = scores[~np.isneginf(scores)]
    logits = seen if sink is None else np.append(seen, sink)
    less = float(logits.max()) if np.abs(logits).max() > LARGE else 0.0
    with np.errstate(all="ignore"):  # a score of ∞ gives NaN, as it does in the weights
        powers = np.exp(logits - less)
        mine = float(scores[index] - less)
        written = shortened([power(score - less, show) for score in seen], full)
        if sink is not None:
            written.append(f"{power(sink - less, show)} of the sink")
        line = f"{power(mine, show)} / ({' + '.join(written)})" if len(written) > 1 else (
            f"{power(mine, show)} / {written[0]}"
        )  # fmt: skip
        return f"{line} = {show(float(np.exp(mine)))} / {show(powers.sum())}", less

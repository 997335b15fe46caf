"""Sums over documents that merge exactly, and the means and confidence intervals that follow from them.

A statistic of a head is a ratio: over all documents, Σ amount / Σ count. Its interval treats documents as the sampling
unit, because the tokens of one document are not independent: the variance of a ratio estimator (Cochran, 1977, §6.3).
Five sums are enough for both. They are kept as integers in units of 10⁻⁹, so that adding them is exact: the order of
the parts, and how a corpus was divided among processes, cannot change a digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

FIELDS = ("documents", "count", "count²", "amount", "amount²", "amount·count")
UNIT = 10**9  # sums are integers in units of 1 / UNIT
Z = 1.959963984540054  # of a two-sided 95% interval


class Estimate(NamedTuple):
    """A mean with its 95% confidence interval; None where no document contributed, or only one for the interval."""

    mean: float | None
    low: float | None
    high: float | None
    documents: int


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums of each statistic for each head: integers of any size, (statistic, field, layer, head)."""

    names: tuple[str, ...]
    integers: NDArray[Any]

    @classmethod
    def of(cls, names: Sequence[str], numbers: Numbers) -> Sums:
        """Float sums of one part, rounded to units."""
        scaled = np.rint(np.asarray(numbers, np.float64) * UNIT)
        integers = np.array([int(number) for number in scaled.flat], dtype=object).reshape(scaled.shape)
        return cls(tuple(names), integers)

    def __add__(self, other: Sums) -> Sums:
        """The sums of both; exact, whatever the order."""
        if self.names != other.names or self.integers.shape != other.integers.shape:
            raise ValueError("Sums of different statistics or of models of different shape cannot be added.")
        return Sums(self.names, self.integers + other.integers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sums) and self.names == other.names and bool((self.integers == other.integers).all())

    __hash__ = None  # type: ignore[assignment]

    @property
    def layers(self) -> int:
        """The number of layers."""
        return int(self.integers.shape[2])

    @property
    def heads(self) -> int:
        """The number of heads per layer."""
        return int(self.integers.shape[3])

    def mean(self, name: str) -> Numbers:
        """Σ amount / Σ count of each head, (layer, head); NaN where nothing was counted."""
        of_name = self.integers[self.names.index(name)]
        return _ratio(of_name[3], of_name[1])

    def estimate(self, name: str, layer: int, head: int) -> Estimate:
        """The mean of one head with its confidence interval."""
        return estimate_mean(*self.integers[self.names.index(name), :, layer, head].tolist())


def estimate_mean(documents: int, count: int, count_2: int, amount: int, amount_2: int, product: int) -> Estimate:
    """The mean and its interval from the sums of `FIELDS`, in units.

    >>> whole = [UNIT * number for number in (3, 6, 14, 3, 3.5, 7)]  # amounts 0.5, 1, 1.5 for counts 1, 2, 3
    >>> estimate_mean(*map(int, whole))
    Estimate(mean=0.5, low=0.5, high=0.5, documents=3)
    """
    number = documents // UNIT
    if count == 0:
        return Estimate(None, None, None, number)
    mean = amount / count  # of integers: correctly rounded
    if number < 2:
        return Estimate(mean, None, None, number)
    # Σ (amount − mean · count)², expanded and computed in integers: in floats the three terms would cancel.
    squares = amount_2 * count * count - 2 * amount * product * count + amount * amount * count_2
    variance = number / (number - 1) * (max(squares, 0) * UNIT / count**4)
    half = Z * float(np.sqrt(variance))
    return Estimate(mean, mean - half, mean + half, number)


def _ratio(amount: NDArray[Any], count: NDArray[Any]) -> Numbers:
    return np.array(
        [[a / c if c else np.nan for a, c in zip(*rows, strict=True)] for rows in zip(amount, count, strict=True)]
    )

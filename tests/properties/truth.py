"""What is right, computed plainly in float64 with all n² weights at once; and how far from it an engine may be.

The bounds follow the rounding errors through the formulas. Engines compute in a type with unit roundoff u (2⁻²⁴ for
float32 and for 16-bit arrays, 2⁻⁵³ for float64) and round results to the type of the arrays, with unit roundoff r.
A sum of n products in any order, fused or not, is off by at most (n + 1) u Σ |products| to first order.

score     e = (size + 8) u · |scale| Σ |q| |k|: the product, and scale · log₂ e multiplied into it
          + 8 u · softcap: tanh by way of exp is off by a few u of its largest value, however small its argument
          + (8 + keys / 32) u · (largest |score| in the row + |L|): bias, subtracting the running maximum, and
            rescaling by it once a tile of keys
weight    exp(score − L), and L is off by at most the row's largest e plus (keys + 16) u of its sum: so the weight is
          off by a factor within 1 ± ρ, ρ = exp(2 max e + (keys + 32) u) − 1, or is zero below the smallest float
the rest  is sums of products with weights: ρ plus (terms + 8) u, times the same sum of absolute values

With scores up to 10⁴ in float32, ρ reaches some percent: that is what rounding 10⁴ to 24 bits means for its
exponential, and no engine that computes scores in float32 can promise more. For float64 all bounds are doubled, because
the truth is no more precise than what it judges.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .cases import Case

Array = NDArray[np.float64]

PRECISION = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}  # bits of the significand
SMALLEST = {"float16": 2.0**-24, "bfloat16": 2.0**-126, "float32": 2.0**-126, "float64": 2.0**-1022}


@dataclass(frozen=True)
class Near:
    """Numbers, and how far from them is near enough."""

    expected: Array
    bound: Array

    def check(self, found: Any, what: str = "") -> None:
        found = np.asarray(found).astype(np.float64)
        assert found.shape == self.expected.shape, what
        same = (found == self.expected) | (np.isnan(found) & np.isnan(self.expected))
        with np.errstate(all="ignore"):
            apart = np.where(same, 0, np.abs(found - self.expected))
        wrong = ~(apart <= self.bound)
        if wrong.any():
            where = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise AssertionError(
                f"{what}{list(where)} is {found[where]}, expected {self.expected[where]} ± {self.bound[where]:.3g}; "
                f"{wrong.sum()} of {wrong.size} are wrong"
            )


def rounded(expected: Array, bound: Array, kind: str) -> Near:
    """Results that are rounded to a type at the end; half of its smallest number is lost where it has no smaller."""
    return Near(expected, bound + 2.0 ** -PRECISION[kind] * (np.abs(expected) + bound) + SMALLEST[kind])


@dataclass(frozen=True)
class Truth:
    """Every number of one attention, and its bound; arrays are (batch, head, query, key) unless they say otherwise."""

    case: Case

    @cached_property
    def kind(self) -> str:
        """The type of the arrays."""
        return self.case.queries.dtype.name

    @cached_property
    def computing(self) -> str:
        return "float64" if self.kind == "float64" else "float32"

    @cached_property
    def u(self) -> float:
        return 2 * 2.0**-53 if self.kind == "float64" else 2.0**-24

    @cached_property
    def queries(self) -> Array:
        return self.unit(self.case.queries.astype(np.float64))

    @cached_property
    def keys(self) -> Array:
        return self.unit(self.for_each_head(self.case.keys))

    @cached_property
    def values(self) -> Array:
        return self.for_each_head(self.case.values)

    def unit(self, vectors: Array) -> Array:
        """By cosine: of length 1, or of length 0 if they were."""
        if self.case.similarity == "dot":
            return vectors
        length = np.sqrt((vectors**2).sum(axis=-1, keepdims=True))
        return vectors / np.where(length == 0, 1, length)

    def for_each_head(self, array: NDArray[Any]) -> Array:
        return np.repeat(array.astype(np.float64), self.case.group, axis=1)

    def for_each_key_head(self, array: Array) -> Array:
        """Summed over the query heads that share a key head."""
        batch, heads, *rest = array.shape
        summed: Array = array.reshape(batch, heads // self.case.group, self.case.group, *rest).sum(axis=2)
        return summed

    # Scores

    @cached_property
    def score(self) -> Array:
        return self.queries @ turned(self.keys)

    @cached_property
    def scaled(self) -> Array:
        return self.score * self.case.scale

    @cached_property
    def capped(self) -> Array:
        cap = self.case.softcap
        return cap * np.tanh(self.scaled / cap) if cap else self.scaled

    @cached_property
    def biased(self) -> Array:
        return self.capped + self.case.dense_bias

    @cached_property
    def seen(self) -> NDArray[np.bool]:
        return self.case.seen & ~np.isneginf(self.biased)

    @cached_property
    def masked(self) -> Array:
        return np.where(self.seen, self.biased, -np.inf)

    @cached_property
    def score_error(self) -> Array:
        """e, for every stage from the scaled score on."""
        size, keys = self.case.keys.shape[3], self.case.keys.shape[2]
        product = abs(self.case.scale) * (np.abs(self.queries) @ turned(np.abs(self.keys)))
        largest = np.where(self.seen, np.abs(self.capped) + np.abs(finite(self.case.dense_bias)), 0)
        largest = largest.max(axis=-1, initial=0) + np.abs(finite(self.logsumexp))
        error: Array = self.u * (
            (size + 8) * product + 8 * (self.case.softcap or 0) + (8 + keys / 32) * (largest + 1)[..., None]
        )
        return error

    def stage(self, name: str) -> Near:
        """One stage of the matrix before the weights."""
        expected = getattr(self, name)
        if name == "score":
            product = np.abs(self.queries) @ turned(np.abs(self.keys))
            return rounded(expected, (self.case.keys.shape[3] + 8) * self.u * product, self.computing)
        error = self.score_error + 4 * self.u * np.abs(finite(expected))
        return Near(expected, np.where(np.isfinite(expected), error, 0))

    # Weights and statistics of rows (batch, head, query)

    @cached_property
    def logsumexp(self) -> Array:
        peak = np.maximum(self.masked.max(axis=-1), self.sink_logits)
        level = finite(peak)
        with np.errstate(divide="ignore"):
            logs: Array = np.log(np.exp(self.masked - level[..., None]).sum(axis=-1) + np.exp(self.sink_logits - level))
        return level + logs

    @cached_property
    def sink_logits(self) -> Array:
        sinks = self.case.sinks
        logits = np.full(self.case.shape[:3], -np.inf)
        return logits if sinks is None else np.zeros_like(logits) + sinks.astype(np.float64)[:, None]

    @cached_property
    def weights(self) -> Array:
        return np.where(self.seen, np.exp(self.masked - finite(self.logsumexp)[..., None]), 0)

    @cached_property
    def row_error(self) -> Array:
        largest: Array = np.where(self.seen, self.score_error, 0).max(axis=-1, initial=0)
        return largest

    @cached_property
    def rho(self) -> Array:
        rho: Array = np.expm1(2 * self.row_error + (self.case.keys.shape[2] + 32) * self.u)
        return rho

    @cached_property
    def weight_error(self) -> Array:
        return self.rho[..., None] * self.weights + self.lost

    @cached_property
    def lost(self) -> float:
        """A weight that has become zero, or that is a multiple of the smallest float."""
        return 4 * SMALLEST[self.computing]

    def weight(self) -> Near:
        return Near(self.weights, self.weight_error)

    def statistic(self, name: str) -> Near:
        keys = self.case.keys.shape[2]
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(self.weights > 0, np.log(self.weights), 0)
        match name:
            case "logsumexp":
                expected, bound = self.logsumexp, self.row_error + (keys + 32) * self.u
                return rounded(expected, np.where(np.isfinite(expected), bound, 0), self.computing)
            case "entropy":  # L − E[score], which cancels: e of both remain
                expected = -(self.weights * logs).sum(axis=-1)
                any_key = self.seen.any(axis=-1)
                bound = self.rho * (expected + 2) + (keys + 8) * self.u * (1 + np.abs(finite(self.logsumexp)))
                return rounded(expected, np.where(any_key, bound, 0) + keys * self.lost, self.computing)
            case "peak":
                return Near(self.weights.max(axis=-1), self.weight_error.max(axis=-1))
            case "distance":
                return self.dot(self.case.distances)
        raise AssertionError(name)

    def dot(self, factors: NDArray[Any]) -> Near:
        """Σ weight · factor over the keys, the factors not negative and not rounded."""
        terms = self.case.keys.shape[2] + 8
        bound = (self.weight_error + terms * self.u * self.weights) * factors
        return rounded((self.weights * factors).sum(axis=-1), bound.sum(axis=-1), self.computing)

    # Products (batch, head, query or key, size)

    def output(self) -> Near:
        terms = self.case.keys.shape[2] + 8
        error = self.weight_error + terms * self.u * self.weights
        return rounded(self.weights @ self.values, error @ np.abs(self.values), self.kind)

    def backflow(self, rows: NDArray[Any]) -> Near:
        rows = rows.astype(np.float64)
        terms = self.case.queries.shape[2] + 8
        error = turned(self.weight_error + terms * self.u * self.weights)
        return rounded(turned(self.weights) @ rows, error @ np.abs(rows), self.kind)

    def column_sums(self) -> Near:
        terms = self.case.queries.shape[2] + 8
        error = self.weight_error + terms * self.u * self.weights
        return rounded(self.weights.sum(axis=2), error.sum(axis=2), self.computing)

    def pooled(self, row_edges: NDArray[np.intp], column_edges: NDArray[np.intp], pool: str) -> Near:
        """Cells of the weights: each is the sum, or the largest, of a block."""
        add = np.maximum if pool == "max" else np.add
        rows, columns = (slice(edges[0], edges[-1]) for edges in (row_edges, column_edges))
        terms = 8 + (len(self.weights[0, 0, rows, columns].reshape(-1)) if self.weights.size else 0)
        error = self.weight_error + terms * self.u * self.weights

        def cells(matrix: Array) -> Array:
            matrix = matrix[:, :, rows, columns]
            matrix = add.reduceat(matrix, row_edges[:-1] - row_edges[0], axis=2)
            return add.reduceat(matrix, column_edges[:-1] - column_edges[0], axis=3)

        expected, bound = cells(self.weights), cells(error)
        height, width = np.diff(row_edges)[:, None], np.diff(column_edges)
        shared = {"mean": height * width, "words": height}.get(pool, 1)
        return rounded(expected / shared, bound / shared, self.computing)


def turned(matrix: Array) -> Array:
    return matrix.swapaxes(-1, -2)


def row_sum(matrix: Array) -> Array:
    """Over the last axis, which stays, of length 1."""
    summed: Array = matrix.sum(axis=-1, keepdims=True)
    return summed


def finite(array: Any) -> Array:
    """With 0 for what is infinite."""
    return np.where(np.isfinite(array), array, 0)

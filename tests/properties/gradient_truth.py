"""Gradients, computed plainly in float64, with the bounds that follow from those of the weights.

With the weights W, flow g (the gradient of the output) and d = g vᵀ, the gradient of the masked scores is
s = W ∘ (d − Σ W ∘ d). Each d is a sum of as many products as values have numbers, each Σ W ∘ d is taken from the output
g · o, which was rounded to the type of the arrays: so s is off by at most (and what is lost below its smallest number)

    W ∘ (|g| |v|ᵀ + Σ W ∘ |g| |v|ᵀ) · (2 ρ + (value size + keys + 16) u + r)

and all gradients are sums of products with s, with W, or with the sink's share.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .truth import PRECISION, SMALLEST, Near, Truth, finite, rounded, row_sum, turned

Array = NDArray[np.float64]


@dataclass(frozen=True)
class GradientTruth:
    """The gradients of one attention, for one flow (batch, head, query, value size)."""

    truth: Truth
    flow: Array

    @cached_property
    def to_weights(self) -> Array:
        return self.flow @ turned(self.truth.values)

    @cached_property
    def to_weights_in_all(self) -> Array:
        """|g| |v|ᵀ."""
        return np.abs(self.flow) @ turned(np.abs(self.truth.values))

    @cached_property
    def weighted(self) -> Array:
        return row_sum(self.truth.weights * self.to_weights)

    @cached_property
    def weighted_in_all(self) -> Array:
        return row_sum(self.truth.weights * self.to_weights_in_all)

    @cached_property
    def share_error(self) -> Array:
        """The factor in the formula above, (batch, head, query, 1)."""
        case, truth = self.truth.case, self.truth
        terms: int = case.values.shape[3] + case.keys.shape[2] + 16
        return (2 * truth.rho + terms * truth.u + 2.0 ** -PRECISION[truth.kind])[..., None]

    @cached_property
    def to_biased(self) -> Array:
        return self.truth.weights * (self.to_weights - self.weighted)

    @cached_property
    def to_biased_error(self) -> Array:
        total = self.to_weights_in_all + self.weighted_in_all
        return (self.truth.weights * self.share_error + self.truth.lost) * total + self.truth.weights * self.output_lost

    @cached_property
    def output_lost(self) -> Array:
        """What Σ W ∘ d loses where numbers of the output are as small as the type's smallest."""
        return row_sum(np.abs(self.flow)) * SMALLEST[self.truth.kind]

    @cached_property
    def slope(self) -> Array:
        """Of the soft cap: 1 − tanh²."""
        cap = self.truth.case.softcap
        return 1 - (self.truth.capped / cap) ** 2 if cap else np.ones((1, 1, 1, 1))

    @cached_property
    def slope_error(self) -> Array:
        """2 |tanh| times the error of tanh, which is that of the score over the cap, and a few u."""
        cap = self.truth.case.softcap
        return 2 * self.truth.score_error / cap + 16 * self.truth.u if cap else np.zeros((1, 1, 1, 1))

    @cached_property
    def to_scores(self) -> Array:
        return self.to_biased * self.slope

    @cached_property
    def to_scores_error(self) -> Array:
        return self.to_biased_error * (self.slope + self.slope_error) + np.abs(self.to_biased) * self.slope_error

    def queries(self) -> Near:
        truth = self.truth
        terms = (truth.case.keys.shape[2] + 8) * truth.u
        error = (self.to_scores_error + terms * np.abs(self.to_scores)) @ np.abs(truth.keys)
        scale = truth.case.scale
        return rounded(scale * (self.to_scores @ truth.keys), abs(scale) * error, truth.kind)

    def keys(self) -> Near:
        truth, scale = self.truth, self.truth.case.scale
        error = turned(self.to_scores_error + self.row_terms * np.abs(self.to_scores)) @ np.abs(truth.queries)
        return self._for_key_heads(scale * (turned(self.to_scores) @ truth.queries), abs(scale) * error)

    def values(self) -> Near:
        truth = self.truth
        error = turned(truth.weight_error + self.row_terms * truth.weights) @ np.abs(self.flow)
        return self._for_key_heads(turned(truth.weights) @ self.flow, error)

    @cached_property
    def row_terms(self) -> float:
        """For sums over all queries that share a key."""
        case = self.truth.case
        queries: int = case.queries.shape[2]
        return (queries * case.group + 8) * self.truth.u

    def _for_key_heads(self, expected: Array, bound: Array) -> Near:
        truth = self.truth
        return rounded(truth.for_each_key_head(expected), truth.for_each_key_head(bound), truth.kind)

    def bias(self) -> Near:
        """Summed over the axes that the bias has only one of."""
        shape = self.truth.case.bias.shape
        axes = tuple(axis for axis in range(4) if shape[axis] == 1)
        terms = (self.to_biased.size // max(1, int(np.prod(shape))) + 8) * self.truth.u
        error = self.to_biased_error + terms * np.abs(self.to_biased)
        expected, bound = (array.sum(axis=axes, keepdims=True) for array in (self.to_biased, error))
        return rounded(expected, bound, self.truth.case.bias.dtype.name)

    def sinks(self) -> Near:
        """−(share of the sink) · Σ W ∘ d, summed over queries and sequences."""
        truth = self.truth
        share = np.exp(truth.sink_logits - finite(truth.logsumexp))
        terms = (self.flow.shape[0] * self.flow.shape[2] + 8) * truth.u
        expected = -(share * self.weighted[..., 0]).sum(axis=(0, 2))
        error = share * self.weighted_in_all[..., 0] * (self.share_error[..., 0] + terms) + truth.lost
        error = error + share * self.output_lost[..., 0]
        return rounded(expected, error.sum(axis=(0, 2)), truth.kind)

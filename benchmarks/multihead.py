"""The layer with its projections: what nn.MultiheadAttention and Regard are both given."""

from __future__ import annotations

import numpy as np

from cases import Case, Floats


def layer_input(case: Case) -> Floats:
    return np.random.default_rng(11).standard_normal((case.queries, case.heads * case.size), dtype=np.float32)


def layer_weights(case: Case) -> dict[str, Floats]:
    """Weights (out, in) and biases: "in" holds the projections of queries, keys and values, one under the other."""
    width = case.heads * case.size
    random = np.random.default_rng(13)

    def normal(*shape: int) -> Floats:
        return random.standard_normal(shape, dtype=np.float32) * np.float32(width**-0.5)

    return {
        "in": normal(3 * width, width),
        "in_bias": normal(3 * width),
        "out": normal(width, width),
        "out_bias": normal(width),
    }

"""What can be shown instead of one head's weights: ‖weight · v · W_O‖, the mean over all layers and heads, rollout.

The formulas live in `regard.reading.weights`. These matrices are computed whole, for short texts alone: see
`regard.viewer.describe.measures_of`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.arrays import numpy_of
from regard.reading import Reading
from regard.reading.weights import mean_over_heads, rollout, value_grams
from regard.viewer.frames import Floats


def grams(reading: Reading, layer: int) -> Floats:
    """Products v · v of the tokens of each word after W_O, (head, products): see `value_grams`."""
    attention, values = reading.seen[layer]
    words = [(word.first, word.last) for word in reading.words]
    return value_grams(values, reading.output_weights(layer), attention.shape[0], words)


def of_head(reading: Reading, layer: int, head: int) -> Floats:
    """‖weight · v · W_O‖ of one head between tokens, (query, key)."""
    attention, values = reading.seen[layer]
    alone = [(index, index + 1) for index in range(len(reading.tokens))]
    norms = np.sqrt(value_grams(values, reading.output_weights(layer), attention.shape[0], alone)[head])
    weighted: Floats = numpy_of(attention.select(head=head).dense(limit=None)) * norms
    return weighted


def over_layers(reading: Reading, measure: str) -> Floats:
    """The mean over all layers and heads, or the rollout through all layers: (token, token)."""
    attentions = reading.word_weights.attentions
    if measure == "rollout":
        return rollout(attentions)
    mean: Floats = np.mean([mean_over_heads(attention) for attention in attentions], axis=0)
    return mean


def pool_matrix(matrix: Floats, rows: Any, columns: Any, pool: str) -> Floats:
    """Cells of a whole matrix, by the edges of their rows and columns."""
    part = matrix[rows[0] : rows[-1], columns[0] : columns[-1]]
    reduce = np.maximum if pool == "max" else np.add
    reduced: Floats = reduce.reduceat(reduce.reduceat(part, rows[:-1] - rows[0], 0), columns[:-1] - columns[0], 1)
    return reduced if pool == "max" else reduced / np.outer(np.diff(rows), np.diff(columns))

"""What can be shown instead of one head's weights: ‖weight · v · W_O‖, the mean over all layers and heads, rollout.

The formulas live in `regard.reading.weights`. These matrices are computed whole, for short texts alone: see
`regard.viewer.subject.measures_of`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from regard.arrays import Array, numpy_of
from regard.reading.weights import mean_over_heads, rollout, value_grams
from regard.viewer.subject import Subject

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]


def grams(subject: Subject, layer: int) -> Floats:
    """Products v · v of the tokens of each word after W_O, (head, products): see `value_grams`."""
    values = subject.values[layer]
    assert values is not None
    heads = subject.attentions[layer].shape[0]
    return value_grams(values, _w_o(subject, layer), heads, subject.words)


def norms(subject: Subject, layer: int) -> Floats:
    """‖v · W_O‖ of every token, (head, key)."""
    values = subject.values[layer]
    assert values is not None
    alone = [(place, place + 1) for place in range(subject.keys)]
    found: Floats = np.sqrt(value_grams(values, _w_o(subject, layer), subject.attentions[layer].shape[0], alone))
    return found


def over_layers(subject: Subject, measure: str) -> Floats:
    """The mean over all layers and heads, or the rollout through all layers: (token, token)."""
    if measure == "rollout":
        return rollout(subject.attentions)
    mean: Floats = np.mean([mean_over_heads(attention) for attention in subject.attentions], axis=0)
    return mean


def of_head(subject: Subject, layer: int, head: int) -> Floats:
    """‖weight · v · W_O‖ of one head between tokens, (query, key)."""
    weights = numpy_of(subject.attentions[layer].select(head=head).dense(limit=None))
    found: Floats = weights * norms(subject, layer)[head]
    return found


def pooled(matrix: Floats, rows: Any, columns: Any, pool: str) -> Floats:
    """Cells of a whole matrix, by the edges of their rows and columns."""
    part = matrix[rows[0] : rows[-1], columns[0] : columns[-1]]
    reduce = np.maximum if pool == "max" else np.add
    found: Floats = reduce.reduceat(reduce.reduceat(part, rows[:-1] - rows[0], 0), columns[:-1] - columns[0], 1)
    return found if pool == "max" else found / np.outer(np.diff(rows), np.diff(columns))


def _w_o(subject: Subject, layer: int) -> Array | None:
    w_o = subject.blocks[layer].attention.w_o if subject.blocks else None
    return None if w_o is None else w_o.weight

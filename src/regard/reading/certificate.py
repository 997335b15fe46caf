"""How exact the numbers of a reading are: row sums, weight on masked keys, outputs against float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regard.arrays import Array, chunks, numpy_of
from regard.attention import Attention
from regard.engines import generic, score_parts
from regard.engines.interface import ROW_STATE
from regard.engines.select import engine_for
from regard.layers import LayerAttention

ROWS = 16  # queries of each head that are recomputed, evenly spaced from the first to the last
AT_ONCE = 1 << 21  # weights


@dataclass(frozen=True, slots=True)
class Certificate:
    """The largest errors among the rows that were checked.

    >>> print(Certificate(2e-7, 0.0, 4e-7, 1152))
    1,152 rows: sums within 2e-07 of 1, weight on masked keys 0, outputs within 4e-07 of float64
    """

    row_sums: float  # largest |row sum + sink − 1| over rows with a visible key
    forbidden: float  # largest weight of a row on masked keys
    output: float  # largest difference between an output the model used and its recomputation in float64
    rows: int  # rows checked, over all layers and heads

    def __str__(self) -> str:
        forbidden = "0" if self.forbidden == 0 else f"{self.forbidden:.0e}"
        return (
            f"{self.rows:,} rows: sums within {self.row_sums:.0e} of 1, weight on masked keys {forbidden}, "
            f"outputs within {self.output:.0e} of float64"
        )


def certify(seen: Sequence[LayerAttention], outputs: Sequence[Array] = ()) -> Certificate:
    """Check some rows of every head against the reference engine; O(n) each.

    outputs   of each layer, as the model used them; where there are none, the engine computes them again
    """
    rows = np.unique(np.linspace(0, seen[0].attention.shape[1] - 1, ROWS).round().astype(np.int64))
    errors = np.zeros(3)
    checked = 0
    for layer, (attention, values) in enumerate(seen):
        used = outputs[layer] if outputs else None
        at_once = max(1, AT_ONCE // (len(rows) * attention.shape[2]))
        for heads in chunks(attention.shape[0], at_once):
            errors_of_heads = _of_heads(attention, values, used, heads, rows)
            errors = np.maximum(errors, errors_of_heads)  # NaN stays NaN
            checked += len(rows) * (heads.stop - heads.start)
    row_sums, forbidden, output = (float(error) for error in errors)
    return Certificate(row_sums, forbidden, output, checked)


def _of_heads(attention: Attention, values: Any, used: Any, heads: slice, rows: Any) -> tuple[float, float, float]:
    """The three errors of some heads."""
    part = attention.select(head=heads)
    key_heads = score_parts.key_heads(heads, attention.shape[0], values.shape[0])
    values = values[key_heads]
    truth = score_parts.lattice(_in_double(part).scores, rows, score_parts.EVERYTHING)
    expected, state = generic.forward(truth, numpy_of(values)[None].astype(np.float64), ROW_STATE)
    assert expected is not None
    forbidden = np.isneginf(generic.tile(truth, None, "masked"))[0]  # (head, row, key)
    weights = numpy_of(part[:, rows, :]).astype(np.float64)
    sums = weights.sum(axis=-1)
    if attention.sinks is not None:
        with np.errstate(all="ignore"):  # a sink of −inf, and no visible key
            sink = np.exp(numpy_of(part.sinks).astype(np.float64)[:, None] - state["row_max"][0]) / state["row_sum"][0]
        sums = sums + sink
    sees = ~forbidden.all(axis=-1)
    if used is None:
        mine = part.scores
        outputs = engine_for(mine.queries).forward(
            score_parts.lattice(mine, rows, score_parts.EVERYTHING), values[None]
        )[0]
        assert outputs is not None
        outputs = numpy_of(outputs)[0]
    else:
        outputs = numpy_of(used[heads])[:, rows]
    return (
        float(np.abs(sums - 1)[sees].max(initial=0.0)),
        float(np.where(forbidden, weights, 0).sum(axis=-1).max(initial=0.0)),
        float(np.abs(outputs.astype(np.float64) - expected[0]).max(initial=0.0)),
    )


def _in_double(attention: Attention) -> Attention:
    """The same attention on NumPy arrays of float64, which the reference engine then computes with."""
    options = {
        name: numpy_of(getattr(attention, name)).astype(np.float64)
        for name in ("queries", "keys", "bias", "sinks")
        if hasattr(getattr(attention, name), "shape")
    }
    return replace(attention, **options)

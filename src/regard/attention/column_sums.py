"""The weight that keys receive from some of the queries."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard import arrays, errors
from regard.arrays import Array
from regard.attention.index import chosen
from regard.attention.row_statistics import RowStatistics, state_of_rows
from regard.engines import score_parts
from regard.engines.interface import RowState, Scores
from regard.engines.select import engine_for


def column_sums_from(scores: Scores, known: RowStatistics, queries: Any) -> Array:
    """Column sums over some queries: any index along the query axis, or booleans (batch, query)."""
    batch, _, count, _ = scores.queries.shape
    if getattr(queries, "ndim", 1) == 2:
        if tuple(queries.shape) not in ((batch, count), (1, count)) or "bool" not in str(queries.dtype):
            raise errors.option("queries", queries, f"an index along the query axis, or booleans ({batch}, {count})")
        return column_sums_by(scores, known.state(scores), score_parts.like(queries, scores.queries))
    rows, _ = chosen(queries, count, "query")
    if score_parts.is_run(rows):
        state = known.state_for(scores, len(range(*rows.indices(count))) / max(count, 1))
        state = state_of_rows(scores, rows) if state is None else state[:, :, rows]
        return engine_for(scores.queries).column_sums(score_parts.of_rows(scores, rows), state)
    counted = np.zeros((1, count), bool)
    counted[0, rows] = True
    return column_sums_by(scores, known.state(scores), score_parts.like(counted, scores.queries))


def column_sums_by(scores: Scores, state: RowState, counted: Array) -> Array:
    """Column sums over the queries of each sequence that count, booleans (batch or 1, query)."""
    ones = arrays.cast(counted[:, None, :, None], arrays.wide_type(scores.queries))
    ones = arrays.library(ones).broadcast_to(ones, (*scores.queries.shape[:3], 1))
    return engine_for(scores.queries).backflow(scores, state, ones)[..., 0]

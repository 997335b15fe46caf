"""Everything that an attention says of its arrays, by name: for tests in which nothing of it may change."""

from __future__ import annotations

from typing import Any

import regard
from regard.engines.interface import ROW_STATE, ROW_STATISTICS, RowState
from regard.engines.select import engine_for

from .engine_names import as_numpy


def everything(A: regard.Attention, values: Any, flow: Any, *, with_gradients: bool = True) -> dict[str, Any]:
    """Outputs, statistics, weights, maps, what `flow` (one row per query) gives back, and gradients, as arrays."""
    found = A.attend(values, ROW_STATISTICS, top=min(5, A.shape[-1]))
    assert found.top is not None
    results = {name: getattr(found, name) for name in ("output", *ROW_STATISTICS)}
    results |= {"top index": found.top.index, "top weight": found.top.weight, "plain output": A @ values}
    results |= {
        "weights": A.dense(),
        "masked": A.masked.dense(),
        "column sums": A.column_sums(),
        "backflow": A.mT @ flow,
    }
    if A.shape[-2]:
        cells = 1 + A.shape[-2] // 3, 1 + A.shape[-1] // 4
        results |= {f"map {pool}": A.pooled(cells, pool=pool).array for pool in ("mean", "max", "sum")}
    if with_gradients:
        results |= {f"gradient of {name}": array for name, array in gradients(A, values, flow).items()}
    return {name: as_numpy(array) for name, array in results.items()}


def gradients(A: regard.Attention, values: Any, flow: Any) -> dict[str, Any]:
    """Those of an engine, for arrays with four axes: also of a dense bias, a bias by distance, and sinks."""
    scores, engine = A.scores, engine_for(values)
    output, statistics = engine.forward(scores, values, ROW_STATE)
    wanted = [name for name in ("bias", "relative", "sinks") if getattr(scores, name) is not None]
    found = engine.backward(scores, values, output, RowState.of(statistics), flow, wanted)
    return {name: getattr(found, name) for name in ("queries", "keys", "values", *wanted)}

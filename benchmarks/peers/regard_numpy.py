"""Regard on NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

import regard
from cases import Case, Floats, inputs, sampled_rows
from multihead import layer_input, layer_weights
from peers import Call, Calls
from regard.engines.select import engine_for
from regard.masks import documents
from truth import Results


def prepare(case: Case) -> Calls:
    return {"statistics": _statistics, "columns": _columns, "multihead": _multihead}.get(case.kind, _forward)(case)


def arrays(case: Case) -> list[Any]:
    given = inputs(case)
    kind: Any = case.storage
    if case.storage == "bfloat16":
        import ml_dtypes

        kind = ml_dtypes.bfloat16
    return [x[None].astype(kind, copy=False) for x in (given.queries, given.keys, given.values)]


def _forward(case: Case) -> Calls:
    if case.shortest:
        return _packed(case)
    queries, keys, values = arrays(case)
    if case.causal:
        return {"run": Call(lambda: regard.Attention(queries, keys, mask=regard.causal()) @ values, _sampler(case))}
    return {"run": Call(lambda: regard.Attention(queries, keys) @ values, _sampler(case))}


def _packed(case: Case) -> Calls:
    """Sequences of different lengths one after the other, and a batch of equal ones with about the same work."""
    queries, keys, values = arrays(case)
    count, length = case.equal_batch
    random = np.random.default_rng(7)
    equal = [random.standard_normal((count, case.heads, length, case.size), dtype=np.float32) for _ in range(3)]

    def packed() -> Any:
        mask = documents(lengths=case.lengths)
        return regard.Attention(queries, keys, mask=mask & regard.causal() if case.causal else mask) @ values

    def batch() -> Any:
        return regard.Attention(equal[0], equal[1], mask=regard.causal() if case.causal else None) @ equal[2]

    return {"run": Call(packed, _sampler(case)), "equal": Call(batch, lambda output: {})}


def _sampler(case: Case) -> Any:
    rows = sampled_rows(case)
    return lambda output: {"output": output[0][:, rows].astype(np.float32)}


def _statistics(case: Case) -> Calls:
    queries, keys, values = arrays(case)
    rows = sampled_rows(case)

    def whole() -> Any:
        return regard.Attention(queries, keys, mask=regard.causal() if case.causal else None)

    def results(found: Any) -> Results:
        results = {"output": found.output[0][:, rows], "entropy": found.entropy[0][:, rows]}
        if found.top is not None:
            results["top_weight"] = found.top.weight[0][:, rows]
        return results

    return {
        "plain": Call(lambda: whole() @ values, _sampler(case)),
        "entropy": Call(lambda: whole().attend(values, statistics=("entropy",)), results),
        "entropy and top 8": Call(lambda: whole().attend(values, statistics=("entropy",), top=8), results),
    }


def _columns(case: Case) -> Calls:
    queries, keys, values = arrays(case)

    def whole() -> Any:
        return regard.Attention(queries, keys, mask=regard.causal() if case.causal else None)

    def with_received() -> tuple[Any, Any]:
        attention = whole()
        return attention @ values, attention.column_sums()

    def with_map() -> tuple[Any, Any]:
        attention = whole()
        return attention @ values, np.asarray(attention.pooled((512, 512)))

    def received_total(found: Any) -> Results:
        return {**_sampler(case)(found[0]), "received_total": found[1][0].sum(axis=-1, dtype=np.float64)}

    def map_total(found: Any) -> Results:
        cell = (case.queries / 512) * (case.keys / 512)  # weights in a cell, whose mean it shows
        return {**_sampler(case)(found[0]), "map_total": found[1][0].sum(axis=(-1, -2), dtype=np.float64) * cell}

    return {
        "plain": Call(lambda: whole() @ values, _sampler(case)),
        "received": Call(with_received, received_total),
        "map": Call(with_map, map_total),
    }


def _multihead(case: Case) -> Calls:
    """The layer of nn.MultiheadAttention: with the mean of the weights as it gives it, and with statistics instead."""
    linear = engine_for(np.zeros(1, dtype=np.float32)).linear
    weights = layer_weights(case)
    x = layer_input(case)
    rows = sampled_rows(case)

    def heads(part: Floats) -> Floats:  # (token, head · size) → (1, head, token, size)
        return part.reshape(1, case.queries, case.heads, case.size).swapaxes(1, 2)

    def attended() -> tuple[Any, Any]:
        projected = linear(x, weights["in"], weights["in_bias"])
        queries, keys, values = (heads(part) for part in np.split(projected, 3, axis=1))
        return regard.Attention(queries, keys), values

    def joined(output: Floats) -> Floats:
        tokens = np.ascontiguousarray(output[0].swapaxes(0, 1)).reshape(case.queries, -1)
        result: Floats = linear(tokens, weights["out"], weights["out_bias"])
        return result

    def with_weights() -> tuple[Floats, Floats]:
        attention, values = attended()
        return joined(attention @ values), attention.dense()[0].mean(axis=0)

    def with_statistics() -> tuple[Floats, Any]:
        attention, values = attended()
        found = attention.attend(values, statistics=("entropy",), top=8)
        return joined(found.output), found

    return {
        "weights": Call(with_weights, lambda found: {"output": found[0][rows], "mean_weight": found[1][rows]}),
        "statistics": Call(with_statistics, lambda found: {"output": found[0][rows]}),
    }

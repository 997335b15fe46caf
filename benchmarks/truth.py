"""What is right: float64 results for some of the rows, which every participant must reach before it is timed."""

from __future__ import annotations

import numpy as np

from cases import Case, Floats, Inputs, sampled_rows

Results = dict[str, Floats]

# Largest error allowed, as a share of the largest number of the result: rounding of the inputs' type, and of what a
# peer keeps in that type on the way (PyTorch rounds weights to 16 bits before they meet the values).
ALLOWED = {"float32": 5e-5, "float16": 4e-3, "bfloat16": 3e-2}


def expected(case: Case, given: Inputs) -> Results:
    """Results for the sampled rows, each (head, row, …); gradients come from a flow through these rows alone."""
    rows = sampled_rows(case)
    queries = given.queries[:, rows].astype(np.float64)
    keys, values = given.keys.astype(np.float64), given.values.astype(np.float64)
    scale = case.size**-0.5
    scores = queries @ keys.swapaxes(1, 2) * scale  # (head, row, key)
    if case.causal:
        scores = np.where(np.arange(case.keys) <= rows[:, None], scores, -np.inf)
    if case.shortest:
        sequence = np.repeat(np.arange(len(case.lengths)), case.lengths)
        scores = np.where(sequence[rows][:, None] == sequence, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    if case.kind == "backward":
        return _gradients(case, given, queries, keys, values, weights)
    results: Results = {"output": weights @ values}
    if case.kind == "statistics":
        results["entropy"] = -np.sum(weights * np.log(np.where(weights > 0, weights, 1)), axis=-1)
        results["top_weight"] = -np.sort(-weights, axis=-1)[..., :8]
    if case.kind == "columns":  # all that columns and cells hold is what the rows gave: one for each query
        results["received_total"] = np.full(case.heads, case.queries, dtype=np.float64)
        results["map_total"] = np.full(case.heads, case.queries, dtype=np.float64)
    return results


def sampled_flow(case: Case, given: Inputs) -> Floats:
    """The flow with nothing outside the sampled rows: its gradients can be had without the whole matrix."""
    rows = sampled_rows(case)
    flow = np.zeros_like(given.flow)
    flow[:, rows] = given.flow[:, rows]
    return flow


def _gradients(case: Case, given: Inputs, queries: Floats, keys: Floats, values: Floats, weights: Floats) -> Results:
    rows = sampled_rows(case)
    flow = given.flow[:, rows].astype(np.float64)
    reaching = flow @ values.swapaxes(1, 2)  # (head, row, key): the gradient of each weight
    mean = np.sum(reaching * weights, axis=-1, keepdims=True)
    scores = weights * (reaching - mean) * case.size**-0.5
    return {
        "queries": scores @ keys,
        "keys": scores.swapaxes(1, 2) @ queries,
        "values": weights.swapaxes(1, 2) @ flow,
    }


def disagreement(case: Case, found: Results, right: Results) -> str | None:
    """What is wrong with the results found, or None."""
    for name, truth in right.items():
        if name not in found:
            continue
        got = found[name].astype(np.float64)
        if got.shape != truth.shape:
            return f"{name} has shape {got.shape}, not {truth.shape}"
        error = float(np.max(np.abs(got - truth)) / max(np.max(np.abs(truth)), 1e-30))
        if not error <= ALLOWED[case.storage]:
            return f"{name} is off by {error:.1e}"
    return None


def multihead_expected(case: Case, x: Floats, weights: dict[str, Floats]) -> Results:
    """The layer of nn.MultiheadAttention in float64: outputs of the sampled rows, and their mean weights over heads."""
    rows = sampled_rows(case)
    x = x.astype(np.float64)
    width = case.heads * case.size
    projected = x @ weights["in"].T.astype(np.float64) + weights["in_bias"]  # (token, 3 · width)
    q, k, v = (part.reshape(-1, case.heads, case.size).swapaxes(0, 1) for part in np.split(projected, 3, axis=1))
    scores = q[:, rows] @ k.swapaxes(1, 2) * case.size**-0.5
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    heads = (shares @ v).swapaxes(0, 1).reshape(len(rows), width)
    return {"output": heads @ weights["out"].T.astype(np.float64) + weights["out_bias"], "mean_weight": shares.mean(0)}

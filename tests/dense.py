"""The plain formula of attention weights, with all n² of them: what engines, readings and pages are compared with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def dense_weights(
    queries: Any,
    keys: Any,
    *,
    scale: float | None = None,
    seen: Any = True,
    bias: Any = 0.0,
    softcap: float | None = None,
    sinks: Any = None,
) -> NDArray[Any]:
    """softmax over the keys, written down as it stands in books; `seen` and `bias` broadcast against the scores."""
    queries, keys = np.asarray(queries, np.float64), np.asarray(keys, np.float64)
    if queries.ndim > 2:
        keys = np.repeat(keys, queries.shape[-3] // keys.shape[-3], axis=-3)
    scores = queries @ keys.swapaxes(-1, -2) * (queries.shape[-1] ** -0.5 if scale is None else scale)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    scores = np.where(seen, scores + bias, -np.inf)
    sink_logits = np.full(scores.shape[:-1], -np.inf)
    if sinks is not None:
        sink_logits = np.zeros(scores.shape[:-1]) + np.asarray(sinks, np.float64)[:, None]
    peak = np.maximum(scores.max(axis=-1), sink_logits)
    peak = np.where(np.isneginf(peak), 0, peak)[..., None]
    exponentials = np.exp(scores - peak)
    total = exponentials.sum(axis=-1, keepdims=True) + np.exp(sink_logits[..., None] - peak)
    return np.asarray(exponentials / np.where(total == 0, 1, total))

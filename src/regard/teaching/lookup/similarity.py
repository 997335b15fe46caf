"""Similarities of queries and keys, and the softmax weights of the keys."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Literal

import numpy as np

from regard import errors, validate
from regard.attention.attention import Attention
from regard.teaching.lookup.key_values import Floats

Named = Literal["dot", "scaled dot", "cosine", "negative distance"]
Similarity = Named | Callable[[Any, Any], float]
NAMES: tuple[Named, ...] = ("dot", "scaled dot", "cosine", "negative distance")
BY_ATTENTION = NAMES[:3]

# Larger scores: the maximum is subtracted before dividing by the temperature, which is exact.
SHARP = 2.0**20


def checked(similarity: Any) -> Similarity:
    """A function, or one of the names."""
    if callable(similarity):
        return similarity  # type: ignore[no-any-return]
    return validate.choice("similarity", similarity, NAMES)  # type: ignore[return-value]


def attention(queries: Floats, keys: Floats, similarity: Similarity, temperature: float) -> Attention | None:
    """The attention with the weights of the soft look-up; None for other similarities or scores above SHARP."""
    if similarity not in BY_ATTENTION or temperature == 0:
        return None
    scale = (keys.shape[1] ** -0.5 if similarity == "scaled dot" else 1.0) / temperature
    longest = 1.0 if similarity == "cosine" else _longest(queries) * _longest(keys)
    if not longest * scale <= SHARP:
        return None
    return Attention(queries, keys, scale=scale, similarity="cosine" if similarity == "cosine" else "dot")


def of_vectors(queries: Floats, keys: Floats, similarity: Named) -> Floats:
    """The similarity of each query to each key, (query, key); the same number for the same key."""
    # Equal keys are compared once: a matrix product may round the same row differently in two places.
    unique, where = np.unique(keys, axis=0, return_inverse=True)
    if similarity == "negative distance":
        found = np.array([-np.linalg.norm(unique - query, axis=1) for query in queries])
    else:
        scale = keys.shape[1] ** -0.5 if similarity == "scaled dot" else 1.0
        how: Literal["dot", "cosine"] = "cosine" if similarity == "cosine" else "dot"
        found = np.asarray(Attention(queries, unique, scale=scale, similarity=how).scaled.dense())
    return found[:, where.reshape(-1)]


def by_function(queries: Iterable[Any], keys: Iterable[Any], function: Callable[[Any, Any], float]) -> Floats:
    """The function's value for each query and key, (query, key); −inf excludes a key."""
    found = np.array([[float(function(query, key)) for key in keys] for query in queries])
    if np.isnan(found).any() or np.isposinf(found).any():
        row, column = np.argwhere(np.isnan(found) | np.isposinf(found))[0]
        raise errors.option(
            "similarity(query, key)", float(found[row, column]), "a number, or −inf to exclude a key",
            f"That came for query {row} and key {column}.",
        )  # fmt: skip
    return found


def shares(scores: Floats, temperature: float) -> Floats:
    """softmax(scores / temperature) over the keys; at temperature 0 its limit, equal weights for the largest."""
    peak = scores.max(axis=1, keepdims=True)
    gap = np.where(np.isneginf(peak), -math.inf, scores - np.where(np.isneginf(peak), 0.0, peak))
    if temperature == 0:
        weights = (gap == 0).astype(np.float64)
    else:
        with np.errstate(over="ignore"):  # a gap that overflows is a weight of 0
            weights = np.exp(gap / temperature)
    total = weights.sum(axis=1, keepdims=True)
    shared: Floats = weights / np.where(total > 0, total, 1.0)
    return shared


def _longest(vectors: Floats) -> float:
    return float(np.linalg.norm(vectors, axis=1).max(initial=0.0))

"""Regard: compute attention, and see it. The attention matrix is an object that is used like a matrix and never built.

>>> import numpy as np
>>> import regard
>>> queries, keys, values = np.random.default_rng(0).normal(size=(3, 2, 8, 100, 64))  # batch, head, token, size
>>> A = regard.Attention(queries, keys, mask=regard.causal())
>>> A
Attention(batch 2, head 8, query 100, key 100; size 64, float64, mask=causal())
>>> (A @ values).shape, A[0, 3, 7].shape, A.entropy().shape
((2, 8, 100, 64), (100,), (2, 8, 100))
"""

from regard import errors
from regard.attention import Attended, Attention, Cache, Map, Stage, Top
from regard.biases import alibi, relative_positions
from regard.kernels.choosing import engine
from regard.masks import Mask, allowed, causal, chunks, documents, first, lengths, prefix, where, window

__all__ = [
    "Attended",
    "Attention",
    "Cache",
    "Map",
    "Mask",
    "Stage",
    "Top",
    "alibi",
    "allowed",
    "causal",
    "chunks",
    "documents",
    "engine",
    "errors",
    "first",
    "lengths",
    "prefix",
    "relative_positions",
    "where",
    "window",
]

"""Layers, written once for NumPy and PyTorch: frozen dataclasses of arrays, called like functions.

Rows are tokens, and a weight is (out, in): y = x @ weightᵀ + bias, as in PyTorch. Tokens are (token, width) or
(batch, token, width); heads come before tokens, (batch, head, token, head_dim).

>>> import numpy as np
>>> encoder = Encoder.seeded(width=8, heads=2, seed=0)
>>> encoder(np.ones((3, 8), np.float32)).shape, encoder.count()
((3, 8), 872)
"""

from regard.layers.codec import load, save
from regard.layers.decoder import Decoder
from regard.layers.encoder import BlockStep, Encoder, Heads
from regard.layers.feed_forward import FeedForward
from regard.layers.layer import Layer
from regard.layers.linear import Embedding, Linear
from regard.layers.multi_head import LayerAttention, MultiHead
from regard.layers.norms import LayerNorm, RMSNorm
from regard.layers.positions import Alibi, Learned, Rotary, Sinusoidal, sinusoidal
from regard.layers.transformer import ForwardPass, Transformer

__all__ = [
    "Alibi",
    "BlockStep",
    "Decoder",
    "Embedding",
    "Encoder",
    "FeedForward",
    "ForwardPass",
    "Heads",
    "Layer",
    "LayerAttention",
    "LayerNorm",
    "Learned",
    "Linear",
    "MultiHead",
    "RMSNorm",
    "Rotary",
    "Sinusoidal",
    "Transformer",
    "load",
    "save",
    "sinusoidal",
]

"""Layers in safetensors files: their arrays by name, and a description of how they make up a layer."""

from __future__ import annotations

import os
from typing import Any

from regard import codec
from regard.arrays import Array
from regard.layers.decoder import Decoder
from regard.layers.encoder import Encoder
from regard.layers.feed_forward import FeedForward
from regard.layers.layer import Layer
from regard.layers.linear import Embedding, Linear
from regard.layers.multi_head import MultiHead
from regard.layers.norms import LayerNorm, RMSNorm
from regard.layers.positions import Alibi, Learned, Rotary, Sinusoidal
from regard.layers.transformer import Transformer

KINDS: dict[str, type[Layer]] = {
    kind.__name__: kind
    for kind in (
        Alibi, Decoder, Embedding, Encoder, FeedForward, LayerNorm, Learned, Linear, MultiHead, RMSNorm, Rotary,
        Sinusoidal, Transformer,
    )
}  # fmt: skip


def save(layer: Layer, path: str | os.PathLike[str]) -> None:
    """Write a layer to a file; an array that is used twice is stored once.

    A write that fails leaves the old file as it was. Tensors of bfloat16 are stored as float32 where `ml_dtypes` is
    not installed.

    >>> from tempfile import TemporaryDirectory
    >>> from regard.layers import Linear
    >>> with TemporaryDirectory() as folder:
    ...     save(Linear([[1, 0], [0, 2]]), f"{folder}/layer.safetensors")
    ...     load(f"{folder}/layer.safetensors").weight.tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    tensors: dict[str, Array] = {}
    described = codec.describe("", layer, tensors, KINDS)
    codec.save(path, tensors, {"layer": described}, kind="layer")


def load(path: str | os.PathLike[str]) -> Any:
    """Read a layer from a file, as NumPy arrays; `.to_torch()` converts them to tensors.

    >>> from tempfile import TemporaryDirectory
    >>> from regard.layers import Embedding
    >>> with TemporaryDirectory() as folder:
    ...     save(Embedding([[1, 2]]), f"{folder}/layer.safetensors")
    ...     load(f"{folder}/layer.safetensors")
    Embedding(weight (1, 2) float64)
    """
    return codec.load_as(path, "layer", _layer)


def _layer(tensors: dict[str, Array], metadata: dict[str, Any]) -> Layer:
    layer = codec.build(metadata["layer"], tensors, KINDS)
    if not isinstance(layer, Layer):
        raise ValueError("it describes no layer")
    return layer

"""Transformers to train, their initial weights, and the bridge to `torch.nn.Module`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor, nn

from regard import errors, validate
from regard.layers import Embedding, Encoder, Layer, LayerNorm, Learned, Linear, Transformer, sinusoidal
from regard.layers.layer import Seed, seed_of

WAVE_BASE = 100.0  # longest wavelength / 2π: sequences are short


def network(
    vocabulary: int,
    *,
    length: int,
    layers: int = 2,
    heads: int = 8,
    width: int = 128,
    hidden: int | None = None,
    tied: bool = False,
    waves: float = 0.0,
    seed: int = 0,
    dtype: Any = np.float32,
) -> Transformer:
    """A causal transformer in the shape of GPT-2, as NumPy arrays.

    vocabulary  how many tokens there are
    length      how many positions are learned
    hidden      width of the feed-forward layers; 4 · width by default
    tied        whether the head shares the embedding's weights
    waves       positions start as sines and cosines this many times as large as tokens, 0 for random numbers: then a
                head learns sooner to look a fixed distance back (relations, one seed: 500 steps instead of 850)

    >>> network(vocabulary=11, length=8, layers=1, heads=2, width=4)([1, 2, 3]).shape
    (3, 11)
    """
    sizes = {"vocabulary": vocabulary, "length": length, "layers": layers, "heads": heads, "width": width}
    for name, size in sizes.items():
        validate.integer(name, size, 1)
    if width % heads:
        raise errors.OptionError(f"`width` is {width}; expected a multiple of `heads`, {heads}.")
    root = seed_of(seed)
    blocks = tuple(
        Encoder.seeded(width, heads, hidden, activation="gelu_tanh", norm_first=True, causal=True, dtype=dtype)
        for _ in range(layers)
    )
    embedding = Embedding(np.zeros((vocabulary, width), dtype))
    head = Linear(embedding.weight if tied else np.zeros((vocabulary, width), dtype))
    shape = Transformer(
        embedding,
        Learned(np.zeros((length, width), dtype)),
        blocks,
        norm=LayerNorm.seeded(width, dtype=dtype),
        head=head,
    )
    names = {id(array): name for name, array in reversed(shape.parameters().items())}
    model = shape.map(lambda array: _start(names[id(array)], array, width, layers, root))
    if not waves:
        return model
    amplitude = waves * math.sqrt(2) * _deviation(width)
    return replace(model, positions=Learned((amplitude * sinusoidal(length, width, WAVE_BASE)).astype(dtype)))


def _deviation(width: int) -> float:
    """GPT-2's deviation of weights, 0.02 at width 768, scaled to keep the size of x @ weightᵀ at other widths."""
    return 0.02 * math.sqrt(768 / width)


def _start(name: str, array: Any, width: int, layers: int, seed: Seed) -> Any:
    """Normal; the deviation is divided by √(2 · layers) where a matrix writes to the residual stream."""
    if array.ndim == 1:
        return array
    deviation = _deviation(width)
    if name.endswith(("w_o.weight", "down.weight")):
        deviation /= math.sqrt(2 * layers)
    return (seed.part(name).normal(array.shape, np.float64) * deviation).astype(array.dtype)


class Module(nn.Module):  # type: ignore[misc]
    """A layer as a `torch.nn.Module`: its arrays are parameters under their own names, for training loops of any kind.

    >>> import torch
    >>> from regard.layers import Linear
    >>> module = Module(Linear.seeded(4, 3))
    >>> [name for name, _ in module.named_parameters()]
    ['weight', 'bias']
    >>> module(torch.ones(2, 4)).shape
    torch.Size([2, 3])
    """

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.layer: Any = layer.to_torch().map(nn.Parameter)
        for name, parameter in self.layer.parameters().items():
            home: nn.Module = self
            *path, last = name.split(".")
            for part in path:
                if part not in home._modules:
                    home.add_module(part, nn.Module())
                home = home.get_submodule(part)
            home.register_parameter(last, parameter)

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """As calling the layer."""
        return self.layer(*inputs, **options)


def hidden(model: Transformer, tokens: Tensor) -> Tensor:
    """Vectors after the last block and its norm, (batch, token, width), before the head."""
    x = model.embed(tokens)
    for block in model.encoders:
        x = block(x)
    return x if model.norm is None else model.norm(x)


def logits_at(model: Transformer, tokens: Tensor, where: Tensor) -> Tensor:
    """Logits of the next token at some positions only, (position, vocabulary): a head over all would cost the most."""
    assert model.head is not None
    return model.head(hidden(model, tokens)[where])


def parameters(model: Transformer) -> Mapping[str, Tensor]:
    """The tensors by name; one that is used twice has one name."""
    found: dict[int, str] = {}
    for name, tensor in model.parameters().items():
        found.setdefault(id(tensor), name)
    given = model.parameters()
    return {name: given[name] for name in found.values()}

"""Transformers to train, their initial weights, and the bridge to `torch.nn.Module`."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.module import _global_forward_hooks, _global_forward_pre_hooks

from regard import errors, validate
from regard.engines import memory
from regard.layers import (
    BlockStep,
    Decoder,
    Embedding,
    Encoder,
    Layer,
    LayerNorm,
    Learned,
    Linear,
    MultiHead,
    Transformer,
    sinusoidal,
)
from regard.layers.layer import Seed, seed_of

WAVE_BASE = 100.0  # longest wavelength / 2π: sequences are short
COPIES = 4  # of each parameter: itself, its gradient and two moments of AdamW


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
    parameters = layers * (4 * width**2 + 2 * width * (hidden or 4 * width)) + (2 * vocabulary + length) * width
    if (size := COPIES * 4 * parameters) > (most := memory.of_machine()):  # refused before its weights are drawn
        needed, room = errors.sizes_apart(size, most)
        raise errors.TooLarge(
            f"The model would have {parameters:,} parameters: {needed} to train; this process may use {room}.\n"
            "Choose a smaller width, or fewer layers or tokens."
        )
    root = seed_of(seed)
    blocks = tuple(
        Encoder.seeded(width, heads, hidden, activation="gelu_tanh", norm_first=True, causal=True, dtype=dtype)
        for _ in range(layers)
    )
    embedding = Embedding(np.zeros((vocabulary, width), dtype))
    head = Linear(embedding.weight if tied else np.zeros((vocabulary, width), dtype))
    positions, norm = Learned(np.zeros((length, width), dtype)), LayerNorm.seeded(width, dtype=dtype)
    shape = Transformer(embedding, positions, blocks, norm=norm, head=head)
    names = {id(array): name for name, array in reversed(shape.parameters().items())}
    model = shape.map(lambda array: _start(names[id(array)], array, width, layers, root))
    if not waves:
        return model
    amplitude = waves * math.sqrt(2) * initial_deviation(width)
    return replace(model, positions=Learned((amplitude * sinusoidal(length, width, WAVE_BASE)).astype(dtype)))


def initial_deviation(width: int) -> float:
    """GPT-2's deviation of weights, 0.02 at width 768, scaled to keep the size of x @ weightᵀ at other widths."""
    return 0.02 * math.sqrt(768 / width)


def _start(name: str, array: Any, width: int, layers: int, seed: Seed) -> Any:
    """Normal; the deviation is divided by √(2 · layers) where a matrix writes to the residual stream."""
    if array.ndim == 1:
        return array
    deviation = initial_deviation(width)
    if name.endswith(("w_o.weight", "down.weight")):
        deviation /= math.sqrt(2 * layers)
    return (seed.part(name).normal(array.shape, np.float64) * deviation).astype(array.dtype)


class Part(nn.Module):  # type: ignore[misc]
    """A part of a layer: it has the part's parameters, and hooks registered on it fire when the part is called."""

    def forward(self, call: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
        """What the part computes."""
        return call(*inputs, **options)


class Module(nn.Module):  # type: ignore[misc]
    """A layer as a `torch.nn.Module`: its arrays are parameters under their own names, for training loops of any kind.

    Forward hooks on its submodules fire with the inputs and the output of the part; those of an attention get the
    concatenated outputs of its heads and a `LayerAttention`. `regard.watch` records it like any other model.

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
                    home.add_module(part, Part())
                home = home.get_submodule(part)
            home.register_parameter(last, parameter)

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """As calling the layer; inside torch.autocast in its type, parameters and gradients staying in their own."""
        device = next((parameter.device.type for parameter in self.parameters()), "cpu")
        if not torch.is_autocast_enabled(device):
            return self._with_hooks(self.layer)(*inputs, **options)
        lower = torch.get_autocast_dtype(device)

        def lower_precision(value: Any) -> Any:
            is_float = isinstance(value, Tensor) and value.is_floating_point() and value.dtype != torch.float64
            return value.to(lower) if is_float else value

        options = {name: lower_precision(value) for name, value in options.items()}
        return self._with_hooks(self.layer.map(lower_precision))(*map(lower_precision, inputs), **options)

    def _with_hooks(self, layer: Layer) -> Any:
        """The layer itself, or one whose parts are called through their modules where anything observes those."""
        watch = sys.modules.get("regard.watch.regard_layers")
        is_watched = watch is not None and watch.is_watched(self)
        hooks = (_global_forward_hooks, _global_forward_pre_hooks)
        parts = [module for module in self.modules() if module is not self]
        has_hooks = any(part._forward_hooks or part._forward_pre_hooks or part._backward_hooks for part in parts)
        return _through_modules(layer, self, is_root=True) if is_watched or any(hooks) or has_hooks else layer


def _through_modules(layer: Any, module: nn.Module, *, is_root: bool = False) -> Any:
    """A copy of a layer that is called, unless it is the root, through its module, and so are its parts."""

    def change(value: Any, name: str) -> Any:
        if isinstance(value, Layer):
            return _through_modules(value, module.get_submodule(name))
        if isinstance(value, tuple) and any(isinstance(part, Layer) for part in value):
            return tuple(change(part, f"{name}.{number}") for number, part in enumerate(value))
        return value

    values = {entry.name: getattr(layer, entry.name) for entry in fields(layer)}
    owners = {name for name, _ in module.named_modules()}
    copy = replace(layer, **{name: change(value, name) for name, value in values.items() if name in owners})
    kind = type(layer)
    methods: dict[str, Any] = {}
    if issubclass(kind, MultiHead):

        def attend(self: MultiHead, *inputs: Any, **options: Any) -> Any:
            rows, seen = kind.attend(self, *inputs, **options)
            watch = sys.modules.get("regard.watch.regard_layers")
            if watch is not None:
                rows = watch.record(module, seen.attention, seen.values, rows)
            return rows, seen

        call = partial(attend, copy)
        methods["attend"] = lambda self, *inputs, **options: (
            call(*inputs, **options) if is_root else module(call, *inputs, **options)
        )
    elif isinstance(layer, (Encoder, Decoder)) and not is_root:

        def observe(self: Any, *inputs: Any, **options: Any) -> Iterator[BlockStep]:
            steps: list[BlockStep] = []

            def result(*inputs: Any, **options: Any) -> Any:
                steps.extend(kind.observe(copy, *inputs, **options))
                return steps[-1].value

            output = module(result, *inputs, **options)
            yield from steps[:-1]
            yield BlockStep(steps[-1].name, output)

        methods["observe"] = observe
    elif not is_root:
        methods["__call__"] = lambda self, *inputs, **options: module(partial(kind.__call__, copy), *inputs, **options)
    object.__setattr__(copy, "__class__", type(kind.__name__, (kind,), methods))
    return copy


def logits_at(model: Transformer, tokens: Tensor, where: Tensor) -> Tensor:
    """Logits of the next token at some positions only, (position, vocabulary): a head over all would cost the most."""
    assert model.head is not None
    x = model.embed(tokens)
    for block in model.encoders:
        x = block(x)
    return model.head((x if model.norm is None else model.norm(x))[where])


def parameters(model: Transformer) -> Mapping[str, Tensor]:
    """The tensors by name; one that is used twice has one name."""
    named: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in model.parameters().items():
        named.setdefault(id(tensor), (name, tensor))
    return dict(named.values())

"""What all layers share: their arrays by name, and the same layer with other arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from importlib import import_module
from typing import Any, Self

import numpy as np

from regard import arrays, errors
from regard.arrays import Array, is_array


class Layer:
    """A frozen dataclass of arrays, other layers and plain numbers, called like a function.

    The engine follows from the arrays: NumPy's are computed by the native one, PyTorch's so that gradients flow.

    >>> from regard.layers import Linear
    >>> layer = Linear.seeded(3, 2)
    >>> layer.count(), list(layer.parameters())
    (8, ['weight', 'bias'])
    """

    def parameters(self) -> dict[str, Array]:
        """All arrays by their dotted names: "attention.w_q.weight", "encoders.0.norm_1.bias"."""
        return dict(_named("", self))

    def count(self) -> int:
        """How many numbers the layer holds; an array that is used twice counts once."""
        different = {id(array): array for array in self.parameters().values()}
        return sum(int(np.prod(tuple(array.shape))) for array in different.values())

    def map(self, function: Callable[[Array], Array]) -> Self:
        """The same layer with `function(array)` in place of every array; one that is used twice stays one."""
        done: dict[int, tuple[Array, Array]] = {}  # beside its result the array itself, so that its id stays its own

        def once(array: Array) -> Array:
            if id(array) not in done:
                done[id(array)] = array, function(array)
            return done[id(array)][1]

        mapped: Self = _mapped(self, once)
        return mapped

    def to_torch(self, device: Any = None, *, gradients: bool = False) -> Self:
        """The layer with PyTorch tensors of its own; with `gradients`, they ask for them."""
        torch = _torch()
        return self.map(lambda array: _tensor(torch, array, device).requires_grad_(gradients))

    def to_numpy(self) -> Self:
        """The layer with NumPy arrays of its own; bfloat16 becomes float32, which NumPy has."""
        return self.map(lambda array: np.array(arrays.numpy_of(array)))

    def __repr__(self) -> str:
        given = [(field.name, getattr(self, field.name)) for field in fields(self)]  # type: ignore[arg-type]
        parts = [_described(name, value) for name, value in given if value is not None and value is not False]
        if not any(isinstance(value, Layer) or _holds_layers(value) for _, value in given):
            return f"{type(self).__name__}({', '.join(parts)})"
        inner = "\n".join(parts).replace("\n", "\n  ")
        return f"{type(self).__name__}(\n  {inner}\n)"


def _holds_layers(thing: object) -> bool:
    return isinstance(thing, tuple) and any(isinstance(part, Layer) for part in thing)


def _named(name: str, value: Any) -> Iterator[tuple[str, Array]]:
    if is_array(value):
        yield name, value
    elif isinstance(value, Layer):
        for field in fields(value):  # type: ignore[arg-type]
            yield from _named(f"{name}.{field.name}" if name else field.name, getattr(value, field.name))
    elif isinstance(value, tuple):
        for place, part in enumerate(value):
            yield from _named(f"{name}.{place}", part)


def _mapped(value: Any, function: Callable[[Array], Array]) -> Any:
    if is_array(value):
        return function(value)
    if isinstance(value, Layer):
        of_fields = {field.name: getattr(value, field.name) for field in fields(value)}  # type: ignore[arg-type]
        changed = {name: _mapped(part, function) for name, part in of_fields.items()}
        return replace(value, **{name: part for name, part in changed.items() if part is not of_fields[name]})  # type: ignore[type-var]
    if _holds_layers(value):
        return tuple(_mapped(part, function) for part in value)
    return value


def _described(name: str, value: Any) -> str:
    if is_array(value):
        return f"{name} {tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
    if _holds_layers(value):
        return "\n".join(f"{name}.{place}: {part!r}" for place, part in enumerate(value))
    return f"{name}: {value!r}" if isinstance(value, Layer) else f"{name}={value!r}"


def _tensor(torch: Any, array: Array, device: Any) -> Array:
    """A copy as a tensor that gradients can end in."""
    if arrays.is_tensor(array):
        return array.detach().clone().to(device)
    array = np.array(array, order="C")
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).to(device)
    return torch.from_numpy(array).to(device)


def _torch() -> Any:
    try:
        return sys.modules.get("torch") or import_module("torch")
    except ImportError as problem:
        raise errors.missing_package("A layer of PyTorch tensors", "torch") from problem

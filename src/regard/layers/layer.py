"""What all layers share: arrays by name, conversion between NumPy and PyTorch, seeded weights.

Weights drawn from a seed are the same for NumPy and PyTorch and on every machine. Projections are Xavier uniform
(Glorot and Bengio): uniform in ±√(6 / (in + out)), which preserves the variance of activations and gradients; biases
are 0, norms 1, embeddings and learned positions normal with variance 1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from importlib import import_module
from typing import Any, Self
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from regard import arrays, errors, validate
from regard.arrays import Array, is_array


class Layer:
    """A frozen dataclass of arrays, other layers and plain numbers, called like a function.

    NumPy arrays are computed by the native engine, PyTorch tensors differentiably.

    >>> from regard.layers import Linear
    >>> layer = Linear.seeded(3, 2)
    >>> layer.count(), list(layer.parameters())
    (8, ['weight', 'bias'])
    """

    def parameters(self) -> dict[str, Array]:
        """All arrays by their dotted names: "attention.w_q.weight", "encoders.0.norm_1.bias"."""
        return dict(_named("", self))

    def count(self) -> int:
        """The number of parameters; an array that is used twice counts once."""
        different = {id(array): array for array in self.parameters().values()}
        return sum(int(np.prod(tuple(array.shape))) for array in different.values())

    def map(self, function: Callable[[Array], Array]) -> Self:
        """The same layer with `function(array)` in place of every array; a shared array stays shared."""
        done: dict[int, tuple[Array, Array]] = {}  # with the array itself, so that its id is not reused

        def once(array: Array) -> Array:
            if id(array) not in done:
                done[id(array)] = array, function(array)
            return done[id(array)][1]

        mapped: Self = _mapped(self, once)
        return mapped

    def to_torch(self, device: Any = None, *, gradients: bool = False) -> Self:
        """A copy of the layer with PyTorch tensors; with `gradients`, they require gradients."""
        torch = _torch()
        return self.map(lambda array: _tensor(torch, array, device).requires_grad_(gradients))

    def to_numpy(self) -> Self:
        """A copy of the layer with NumPy arrays; bfloat16, which NumPy lacks, becomes float32."""
        return self.map(lambda array: np.array(arrays.numpy_of(array)))

    @property
    def _tracer(self) -> Any:
        """`regard.trace.layer_steps`, which the `explain` methods of layers hand over to."""
        from regard.trace import layer_steps

        return layer_steps

    def __repr__(self) -> str:
        values = [(field.name, getattr(self, field.name)) for field in fields(self)]  # type: ignore[arg-type]
        parts = [_described(name, value) for name, value in values if value is not None and value is not False]
        if not any(isinstance(value, Layer) or _holds_layers(value) for _, value in values):
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
        for number, part in enumerate(value):
            yield from _named(f"{name}.{number}", part)


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
        return "\n".join(f"{name}.{number}: {part!r}" for number, part in enumerate(value))
    return f"{name}: {value!r}" if isinstance(value, Layer) else f"{name}={value!r}"


def _tensor(torch: Any, array: Array, device: Any) -> Array:
    """A copy as a leaf tensor."""
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


# Weights from a seed


@dataclass(frozen=True)
class Seed:
    """A seed and the path of one part; the numbers of a part do not depend on other parts.

    >>> [Seed(0).part(name).uniform((2,), 1.0, np.float64).round(3).tolist() for name in ("w_q", "w_k")]
    [[-0.781, -0.049], [0.088, -0.24]]
    """

    number: int
    path: tuple[str, ...] = ()

    def part(self, name: str) -> Seed:
        """The seed of a part."""
        return Seed(self.number, (*self.path, name))

    def uniform(self, shape: tuple[int, ...], bound: float, dtype: Any) -> Array:
        """Uniform numbers from −bound to bound."""
        return typed((2 * self._unit(shape) - 1) * bound, dtype)

    def projection(self, outputs: int, inputs: int, dtype: Any) -> Array:
        """A matrix (out, in), Xavier uniform."""
        return self.uniform((outputs, inputs), float(np.sqrt(6 / (inputs + outputs))), dtype)

    def normal(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Normal numbers of variance 1 (Box–Muller)."""
        radius = np.sqrt(-2 * np.log1p(-self.part("radius")._unit(shape)))
        return typed(radius * np.cos(2 * np.pi * self.part("angle")._unit(shape)), dtype)

    def _unit(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Uniform numbers from [0, 1), from raw bits, which NumPy guarantees never to change."""
        keys = tuple(crc32(name.encode()) for name in self.path)
        bits = np.random.PCG64(np.random.SeedSequence(self.number, spawn_key=keys))
        raw = np.asarray(bits.random_raw(int(np.prod(shape))), np.uint64)
        return np.asarray((raw >> np.uint64(11)) * 2.0**-53, np.float64).reshape(shape)


def seed_of(given: int | Seed) -> Seed:
    """The seed for an integer or a `Seed`."""
    if isinstance(given, Seed):
        return given
    return Seed(validate.integer("seed", given, 0))


def constant(value: float, count: int, dtype: Any) -> Array:
    """An array (count,) of one value."""
    return typed(np.full(count, value), dtype)


def typed(numbers: NDArray[np.float64], dtype: Any) -> Array:
    """As an array of a NumPy dtype, or as a tensor of a PyTorch dtype."""
    if type(dtype).__module__.partition(".")[0] == "torch":
        return import_module("torch").from_numpy(numbers).to(dtype)
    return numbers.astype(dtype)

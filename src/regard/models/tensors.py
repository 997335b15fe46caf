"""The tensors and settings of a checkpoint as layers: every name and shape is checked before numbers are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.arrays import Array
from regard.errors import Unsupported, bad_name, unsupported
from regard.layers import LayerNorm, Linear, RMSNorm
from regard.layers.joining import together
from regard.models.errors import broken
from regard.models.files import Checkpoint

ACTIVATIONS = {
    "relu": "relu", "gelu": "gelu", "gelu_python": "gelu", "gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh", "gelu_python_tanh": "gelu_tanh", "silu": "silu", "swish": "silu", "tanh": "tanh",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Tensors:
    """What an architecture takes from a checkpoint, by the names it has there after the prefix."""

    checkpoint: Checkpoint
    prefix: str = ""

    @classmethod
    def under(cls, checkpoint: Checkpoint, prefixes: Sequence[str], always: str) -> Tensors:
        """With that one of the prefixes under which the tensor `always` is found."""
        found = [prefix for prefix in prefixes if prefix + always in checkpoint.weights.names]
        return cls(checkpoint, found[0] if found else prefixes[0])

    # Settings

    def number(self, *names: str, default: int | None = None) -> int:
        """A whole number from 1 on, under the first of these names that is there."""
        found = self.setting(*names, default=default)
        if isinstance(found, bool) or not isinstance(found, int) or found < 1:
            raise self.fault(f"its setting {names[0]!r} is {found!r}, where a whole number from 1 on is expected")
        return found

    def real(self, name: str, default: float) -> float:
        """A positive number."""
        found = self.setting(name, default=default)
        if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 < found < float("inf"):
            raise self.fault(f"its setting {name!r} is {found!r}, where a positive number is expected")
        return float(found)

    def setting(self, *names: str, default: Any = None) -> Any:
        """What stands under the first of these names that is there."""
        config = self.checkpoint.config
        return next((config[name] for name in names if config.get(name) is not None), default)

    def activation(self, *names: str, default: str) -> str:
        """Our name of the activation."""
        name = self.setting(*names, default=default)
        if not isinstance(name, str) or name not in ACTIVATIONS:
            raise bad_name(names[0], name, tuple(ACTIVATIONS))
        return ACTIVATIONS[name]

    def refuse(self, what: str, fix: str = "") -> Unsupported:
        """Something that the checkpoint asks for and that Regard does not do."""
        return unsupported(f"{what} in {self.checkpoint.path}", fix or "Such a model cannot be read yet.")

    def fault(self, why: str) -> Exception:
        """Something about the checkpoint that cannot be."""
        return broken(self.checkpoint.path, why)

    # Tensors

    def has(self, name: str) -> bool:
        """Whether there is such a tensor."""
        return self.prefix + name in self.checkpoint.weights.names

    def take(self, name: str, *shape: int | None) -> Array:
        """One tensor in float32, of this shape; None: of any size."""
        return self.checkpoint.tensor(self.prefix + name, *shape)

    def bias(self, name: str, outputs: int) -> Array | None:
        """The bias of a map, where it has one."""
        return self.take(f"{name}.bias", outputs) if self.has(f"{name}.bias") else None

    def linear(self, name: str, outputs: int, inputs: int) -> Linear:
        """A map, with a bias where there is one."""
        return Linear(self.take(f"{name}.weight", outputs, inputs), self.bias(name, outputs))

    def query_key_value(
        self, names: Sequence[str], outputs: Sequence[int], inputs: int
    ) -> tuple[Linear, Linear, Linear]:
        """The three maps of attention, their weights behind each other in memory."""
        sizes = list(zip(names, outputs, strict=True))
        weights = [self.take(f"{name}.weight", size, inputs) for name, size in sizes]
        return three(together(weights, [self.bias(name, size) for name, size in sizes]))

    def layer_norm(self, name: str, width: int, epsilon: float) -> LayerNorm:
        """A layer norm; the oldest files call its weight gamma and its bias beta."""
        old = not self.has(f"{name}.weight") and self.has(f"{name}.gamma")
        weight, bias = ("gamma", "beta") if old else ("weight", "bias")
        return LayerNorm(self.take(f"{name}.{weight}", width), self.take(f"{name}.{bias}", width), epsilon)

    def rms_norm(self, name: str, width: int, epsilon: float) -> RMSNorm:
        """A root mean square norm."""
        return RMSNorm(self.take(f"{name}.weight", width), epsilon)

    def transposed(self, name: str, outputs: int, inputs: int) -> tuple[Array, Array | None]:
        """Weight and bias of a map that is stored (in, out), the weight turned to (out, in)."""
        weight = np.ascontiguousarray(self.take(f"{name}.weight", inputs, outputs).T)
        return weight, self.bias(name, outputs)


def three(maps: Sequence[Linear]) -> tuple[Linear, Linear, Linear]:
    """Of queries, keys and values."""
    query, key, value = maps
    return query, key, value

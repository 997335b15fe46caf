"""Tensors of a checkpoint as layers, the shape of each checked before it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from regard.arrays import Array
from regard.errors import Unsupported, unsupported
from regard.layers import LayerNorm, Linear, RMSNorm
from regard.layers.linear import contiguous
from regard.models.errors import BrokenFile, broken
from regard.models.files import Checkpoint
from regard.models.settings import Settings

# Buffers, not weights, that older versions of transformers saved.
BUFFERS = ("rotary_emb.inv_freq", "attn.bias", "attn.masked_bias")


@dataclass(frozen=True, eq=False)
class Tensors:
    """The settings and tensors of a checkpoint; tensors are named without the prefix."""

    checkpoint: Checkpoint
    prefix: str = ""
    taken: set[str] = field(default_factory=set)  # full names of the tensors used so far

    @classmethod
    def under(cls, checkpoint: Checkpoint, prefixes: Sequence[str], always: str) -> Tensors:
        """With the first prefix under which the tensor `always` exists."""
        matching = [prefix for prefix in prefixes if prefix + always in checkpoint.weights.names]
        return cls(checkpoint, matching[0] if matching else prefixes[0])

    @property
    def settings(self) -> Settings:
        """The settings of the checkpoint."""
        return self.checkpoint.settings

    def refuse(self, what: str, fix: str = "Regard does not compute such models.") -> Unsupported:
        """An error about a setting that Regard does not support."""
        return unsupported(f"{what} in {self.checkpoint.path}", fix)

    def fault(self, why: str) -> BrokenFile:
        """An error about invalid content of the checkpoint."""
        return broken(self.checkpoint.path, why)

    def has(self, name: str) -> bool:
        """Whether the tensor exists."""
        return self.prefix + name in self.checkpoint.weights.names

    def check(self, name: str, *shape: int | None) -> None:
        """Refuse a tensor that is missing or of another shape, without reading it."""
        self.checkpoint.check(self.prefix + name, *shape)

    def take(self, name: str, *shape: int | None) -> Array:
        """One tensor in float32, of this shape; None for any size."""
        self.taken.add(self.prefix + name)
        return self.checkpoint.tensor(self.prefix + name, *shape)

    def bias(self, name: str, outputs: int, required: bool | None) -> Array | None:
        """The bias of a linear map: required (True), ignored (False), or used where there is one (None)."""
        is_used = self.has(f"{name}.bias") if required is None else required
        return self.take(f"{name}.bias", outputs) if is_used else None

    def linear(self, name: str, outputs: int, inputs: int, bias: bool | None = True) -> Linear:
        """A linear map."""
        return Linear(self.take(f"{name}.weight", outputs, inputs), self.bias(name, outputs, bias))

    def query_key_value(
        self, names: Sequence[str], outputs: Sequence[int], inputs: int, bias: bool | None = True
    ) -> tuple[Linear, Linear, Linear]:
        """The three projections of attention, their weights contiguous in memory."""
        sizes = list(zip(names, outputs, strict=True))
        weights = [self.take(f"{name}.weight", size, inputs) for name, size in sizes]
        return three(contiguous(weights, [self.bias(name, size, bias) for name, size in sizes]))

    def layer_norm(self, name: str, width: int, epsilon: float) -> LayerNorm:
        """A layer norm; in the oldest files its weight and bias are called gamma and beta."""
        old = not self.has(f"{name}.weight") and self.has(f"{name}.gamma")
        weight, bias = ("gamma", "beta") if old else ("weight", "bias")
        return LayerNorm(self.take(f"{name}.{weight}", width), self.take(f"{name}.{bias}", width), epsilon)

    def rms_norm(self, name: str, width: int, epsilon: float) -> RMSNorm:
        """A root mean square norm."""
        return RMSNorm(self.take(f"{name}.weight", width), epsilon)

    def transposed(self, name: str, outputs: int, inputs: int) -> tuple[Array, Array | None]:
        """Weight and bias of a linear map stored as (in, out), with the weight transposed to (out, in)."""
        weight = np.ascontiguousarray(self.take(f"{name}.weight", inputs, outputs).T)
        return weight, self.bias(name, outputs, True)

    def head(self, width: int, rows: int, tied: bool, embedding: Array) -> Linear | None:
        """The language-model head: `lm_head`, the embedding where it is tied, or None where the file has neither."""
        name = "lm_head.weight"
        if name in self.checkpoint.weights.names and not (tied and self._equal(name, embedding)):
            if tied:
                raise self.refuse("A head that differs from the embedding it is tied to")
            return Linear(self.checkpoint.tensor(name, rows, width))
        return Linear(embedding) if tied else None

    def finish(self, blocks: Sequence[str]) -> None:
        """Refuse unused tensors of these blocks: the architecture would compute something else."""
        starts = tuple(self.prefix + block for block in blocks)
        for name in sorted(self.checkpoint.weights.names - self.taken):
            if name.startswith(starts) and not name.endswith(BUFFERS):
                raise self.refuse(
                    f"The tensor {name[:120]!r} of {self.checkpoint.architecture} with these settings",
                    "The file holds more tensors than its settings describe: check config.json.",
                )

    def _equal(self, name: str, embedding: Array) -> bool:
        array: Any = self.checkpoint.weights[name]
        return array.shape == embedding.shape and np.array_equal(array, embedding)


def three(maps: Sequence[Linear]) -> tuple[Linear, Linear, Linear]:
    """Of queries, keys and values."""
    query, key, value = maps
    return query, key, value

"""A linear map of every row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from regard import errors, validate
from regard.arrays import Array
from regard.engines.select import engine_for
from regard.layers import inputs
from regard.layers.layer import Layer
from regard.layers.seeding import Seed, constant, seed_of


@dataclass(frozen=True, eq=False, repr=False)
class Linear(Layer):
    """x @ weightᵀ + bias: rows are tokens, and the weight is (out, in), as in PyTorch.

    >>> Linear([[1, 0], [0, 2], [1, 1]], bias=[0, 0, 10])([[3, 4]])
    array([[ 3., 8., 17.]])
    """

    weight: Array  # (out, in)
    bias: Array | None = None  # (out,)

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", inputs.weights("weight", self.weight))
        if self.bias is not None:
            object.__setattr__(self, "bias", inputs.weights("bias", self.bias))
        if len(self.weight.shape) != 2 or (self.bias is not None and tuple(self.bias.shape) != (self.outputs,)):
            bias = "" if self.bias is None else f", `bias` {tuple(self.bias.shape)}"
            raise errors.ShapeError(f"`weight` is {tuple(self.weight.shape)}{bias}; expected (out, in) and (out,).")

    @property
    def inputs(self) -> int:
        """The width of what it takes."""
        return int(self.weight.shape[1])

    @property
    def outputs(self) -> int:
        """The width of what it gives."""
        return int(self.weight.shape[0])

    def __call__(
        self, x: Any, *, activation: str | None = None, residual: Array | None = None, times: Array | None = None
    ) -> Array:
        """activation(x @ weightᵀ + bias) · times + residual, in the type of x."""
        x = inputs.rows("x", x, self.weight, self.weight.shape[1])
        return engine_for(x).linear(x, self.weight, self.bias, activation, residual, times)

    @classmethod
    def seeded(
        cls, inputs: int, outputs: int, *, bias: bool = True, seed: int | Seed = 0, dtype: Any = np.float32
    ) -> Self:
        """Weights from a seed, Xavier uniform; biases 0."""
        inputs, outputs = validate.integer("inputs", inputs, 1), validate.integer("outputs", outputs, 1)
        weight = seed_of(seed).projection(outputs, inputs, dtype)
        return cls(weight, constant(0.0, outputs, dtype) if bias else None)

    @classmethod
    def from_torch(cls, module: Any) -> Self:
        """The very weights of an `nn.Linear`: gradients reach the module."""
        return cls(module.weight, module.bias)

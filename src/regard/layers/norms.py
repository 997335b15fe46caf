"""Layer norm and RMS norm, over each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from regard import errors, validate
from regard.arrays import Array
from regard.engines.select import engine_for
from regard.layers.layer import Layer, constant
from regard.layers.token_inputs import float_rows, float_weights


@dataclass(frozen=True, eq=False, repr=False)
class LayerNorm(Layer):
    """(x − mean) / √(variance + ε) · weight + bias, over each row.

    >>> LayerNorm([1, 1, 1])([[1, 2, 3]]).round(3)
    array([[-1.225, 0. , 1.225]])
    """

    weight: Array  # (width,)
    bias: Array | None = None  # (width,)
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", float_weights("weight", self.weight))
        if self.bias is not None:
            object.__setattr__(self, "bias", float_weights("bias", self.bias))
        _check_vectors(self.weight, self.bias)
        object.__setattr__(self, "epsilon", validate.number("epsilon", self.epsilon, least=0))

    def __call__(self, x: Any) -> Array:
        """The rows of x, normed."""
        x = float_rows("x", x, self.weight, self.weight.shape[0])
        return engine_for(x).layer_norm(x, self.weight, self.bias, self.epsilon)

    @classmethod
    def seeded(cls, width: int, *, bias: bool = True, epsilon: float = 1e-5, dtype: Any = np.float32) -> Self:
        """Weights 1 and biases 0, independent of any seed."""
        width = validate.integer("width", width, 1)
        return cls(constant(1.0, width, dtype), constant(0.0, width, dtype) if bias else None, epsilon)

    @classmethod
    def from_torch(cls, module: Any) -> Self:
        """The weights of an `nn.LayerNorm` over the last axis, shared."""
        _check_module(module)
        return cls(module.weight, module.bias, module.eps)


@dataclass(frozen=True, eq=False, repr=False)
class RMSNorm(Layer):
    """x / √(mean of squares + ε) · weight, over each row: a layer norm without mean and bias.

    >>> RMSNorm([1, 1])([[3, 4]]).round(3)
    array([[0.849, 1.131]])
    """

    weight: Array  # (width,)
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", float_weights("weight", self.weight))
        _check_vectors(self.weight, None)
        object.__setattr__(self, "epsilon", validate.number("epsilon", self.epsilon, least=0))

    def __call__(self, x: Any) -> Array:
        """The rows of x, normed."""
        x = float_rows("x", x, self.weight, self.weight.shape[0])
        return engine_for(x).rms_norm(x, self.weight, self.epsilon)

    @classmethod
    def seeded(cls, width: int, *, epsilon: float = 1e-6, dtype: Any = np.float32) -> Self:
        """Weights 1, independent of any seed."""
        return cls(constant(1.0, validate.integer("width", width, 1), dtype), epsilon)

    @classmethod
    def from_torch(cls, module: Any) -> Self:
        """The weights of an `nn.RMSNorm` over the last axis, shared."""
        _check_module(module)
        return cls(module.weight, float(np.finfo(np.float32).eps) if module.eps is None else module.eps)


Norm = LayerNorm | RMSNorm


def _check_module(module: Any) -> None:
    if len(module.normalized_shape) != 1 or module.weight is None:
        kind = type(module).__name__
        raise errors.unsupported(f"An nn.{kind} over several axes or without weights", "Norm the last axis.")


def _check_vectors(weight: Array, bias: Array | None) -> None:
    if len(weight.shape) != 1 or (bias is not None and tuple(bias.shape) != tuple(weight.shape)):
        after = "" if bias is None else f", `bias` {tuple(bias.shape)}"
        raise errors.ShapeError(f"`weight` is {tuple(weight.shape)}{after}; expected (width,) for both.")

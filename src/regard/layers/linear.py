"""Linear maps of rows, several of them as a single product, and embeddings of token ids."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np

from regard import errors, validate
from regard.arrays import Array, is_tensor, library, needs_gradient
from regard.engines.memory import empty
from regard.engines.select import engine_for
from regard.layers.layer import Layer, Seed, constant, seed_of
from regard.layers.token_inputs import float_rows, float_weights, token_ids


@dataclass(frozen=True, eq=False, repr=False)
class Linear(Layer):
    """x @ weightᵀ + bias: rows are tokens, and the weight is (out, in), as in PyTorch.

    >>> Linear([[1, 0], [0, 2], [1, 1]], bias=[0, 0, 10])([[3, 4]])
    array([[ 3., 8., 17.]])
    """

    weight: Array  # (out, in)
    bias: Array | None = None  # (out,)

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", float_weights("weight", self.weight))
        if self.bias is not None:
            object.__setattr__(self, "bias", float_weights("bias", self.bias))
        if len(self.weight.shape) != 2 or (self.bias is not None and tuple(self.bias.shape) != (self.outputs,)):
            bias = "" if self.bias is None else f", `bias` {tuple(self.bias.shape)}"
            raise errors.ShapeError(f"`weight` is {tuple(self.weight.shape)}{bias}; expected (out, in) and (out,).")

    @property
    def matrix(self) -> Array:
        """W as people write it, (in, out): every table, figure and page shows this, not the weight as stored."""
        return self.weight.T

    @property
    def inputs(self) -> int:
        """The width of its input."""
        return int(self.weight.shape[1])

    @property
    def outputs(self) -> int:
        """The width of its output."""
        return int(self.weight.shape[0])

    def __call__(
        self, x: Any, *, activation: str | None = None, residual: Array | None = None, times: Array | None = None
    ) -> Array:
        """activation(x @ weightᵀ + bias) · times + residual, in the dtype of x."""
        x = float_rows("x", x, self.weight, self.weight.shape[1])
        return engine_for(x).linear(x, self.weight, self.bias, activation, residual, times)

    @classmethod
    def from_matrix(cls, matrix: Any, bias: Any = None) -> Self:
        """x · matrix + bias, with the matrix as people write it: (in, out), a row per number of x.

        >>> Linear.from_matrix([[1, 0, 1], [0, 2, 1]])([[3, 4]])
        array([[3., 8., 7.]])
        """
        matrix = float_weights("matrix", matrix)
        if len(matrix.shape) != 2:
            raise errors.ShapeError(f"`matrix` is {tuple(matrix.shape)}; expected (in, out), as in x · W.")
        return cls(matrix.T.contiguous() if is_tensor(matrix) else np.ascontiguousarray(matrix.T), bias)

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
        """The weights of an `nn.Linear`, shared: gradients reach the module."""
        return cls(module.weight, module.bias)


def contiguous(weights: Sequence[Array], biases: Sequence[Array | None]) -> tuple[Linear, ...]:
    """Linear maps whose weights are views of one array, which `joined` finds; missing biases become zeros.

    >>> w_q, w_k = contiguous([np.ones((2, 3)), np.zeros((1, 3))], [None, None])
    >>> w_q.weight.base is w_k.weight.base
    True
    """
    ends = np.cumsum([0, *(len(weight) for weight in weights)])
    weight = np.concatenate(weights)
    bias: Array | None = None
    if any(part_bias is not None for part_bias in biases):
        parts = [
            np.zeros(len(its), its.dtype) if part_bias is None else part_bias
            for part_bias, its in zip(biases, weights, strict=True)
        ]
        bias = np.concatenate(parts)
    slices = [slice(int(start), int(stop)) for start, stop in pairwise(ends)]
    return tuple(Linear(weight[rows], None if bias is None else bias[rows]) for rows in slices)


def joined(*maps: Linear) -> Linear | None:
    """One map with the outputs of all, in order; None where their weights are not contiguous in memory.

    >>> joined(*contiguous([np.ones((2, 3)), np.zeros((1, 3))], [None, None]))
    Linear(weight (3, 3) float64)
    """
    weight = _whole([linear.weight for linear in maps])
    if weight is None:
        return None
    if all(linear.bias is None for linear in maps):
        return Linear(weight)
    bias = _whole([linear.bias for linear in maps])
    return None if bias is None else Linear(weight, bias)


def heads_of(maps: Sequence[Linear], heads: Sequence[int], x: Array) -> tuple[Array, ...] | None:
    """x through maps whose weights are being learned, as one product: for each (…, head, token, head_dim).

    None where the weights are not being learned, or only some of the maps have a bias, or a map is observed: then each
    is called by itself.
    """
    biases = [linear.bias for linear in maps if linear.bias is not None]
    if any(type(linear) is not Linear for linear in maps):
        return None
    if len(biases) not in (0, len(maps)) or not all(needs_gradient(linear.weight) for linear in maps):
        return None
    from regard.engines import torch_autograd

    cat = library(x).cat
    together = Linear(cat([linear.weight for linear in maps]), cat(biases) if biases else None)
    return torch_autograd.split_heads(together(x), [linear.outputs for linear in maps], heads)


def _whole(parts: Sequence[Any]) -> Array | None:
    """The array that consists of exactly these views in order, or None."""
    base = parts[0].base if type(parts[0]) is np.ndarray else None
    if type(base) is not np.ndarray or not base.flags.c_contiguous or base.ndim != parts[0].ndim:
        return None
    if base.shape != (sum(len(part) for part in parts), *parts[0].shape[1:]) or base.dtype != parts[0].dtype:
        return None
    at = base.ctypes.data
    for part in parts:
        if type(part) is not np.ndarray or part.base is not base or part.ctypes.data != at:
            return None
        if not part.flags.c_contiguous:
            return None
        at += part.nbytes
    return base


@dataclass(frozen=True, eq=False, repr=False)
class Embedding(Layer):
    """From token ids to their rows of the weight.

    >>> Embedding([[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])([2, 0])
    array([[1., 1., 1., 1.],
           [1., 0., 1., 0.]])
    """

    weight: Array  # (vocabulary, width)

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", float_weights("weight", self.weight))
        if len(self.weight.shape) != 2:
            raise errors.ShapeError(f"`weight` is {tuple(self.weight.shape)}; expected (vocabulary, width).")

    @property
    def width(self) -> int:
        """The width of its vectors."""
        return int(self.weight.shape[1])

    def __call__(self, tokens: Any) -> Array:
        """(…, token) → (…, token, width)."""
        return rows_of(self.weight, token_ids(tokens, self.weight))

    @classmethod
    def seeded(cls, vocabulary: int, width: int, *, seed: int | Seed = 0, dtype: Any = np.float32) -> Self:
        """Vectors from a seed, normal with variance 1."""
        shape = validate.integer("vocabulary", vocabulary, 1), validate.integer("width", width, 1)
        return cls(seed_of(seed).normal(shape, dtype))

    @classmethod
    def from_torch(cls, module: Any) -> Self:
        """The weights of an `nn.Embedding`, shared."""
        return cls(module.weight)


def rows_of(table: Array, numbers: Array) -> Array:
    """The rows of a table with these indices, which must be in range, as a new array."""
    if not isinstance(table, np.ndarray):
        return sys.modules["torch"].nn.functional.embedding(numbers, table)
    # "clip" avoids a copy of `out`; reused memory avoids page faults.
    room = empty((*numbers.shape, table.shape[1]), table.dtype)
    return table.take(numbers, axis=0, out=room, mode="clip")

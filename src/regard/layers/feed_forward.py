"""The feed-forward layer of a block, applied to each token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from regard import errors, validate
from regard.arrays import Array
from regard.engines.interface import ACTIVATIONS
from regard.layers.layer import Layer, Seed, seed_of
from regard.layers.linear import Linear


@dataclass(frozen=True, eq=False, repr=False)
class FeedForward(Layer):
    """down(activation(up(x))); with a gate, down(activation(gate(x)) · up(x)), which is SwiGLU for "silu".

    Activations: "relu", "gelu", "gelu_tanh", "silu", "tanh", "quick_gelu".

    >>> layer = FeedForward.seeded(width=4)
    >>> layer.width, layer.up.outputs, layer(np.ones((3, 4), np.float32)).shape
    (4, 16, (3, 4))
    """

    up: Linear
    down: Linear
    activation: str = "relu"
    gate: Linear | None = None

    def __post_init__(self) -> None:
        validate.choice("activation", self.activation, ACTIVATIONS)
        if self.up.outputs != self.down.inputs or (self.gate and self.gate.weight.shape != self.up.weight.shape):
            gate = "" if self.gate is None else f", `gate` {tuple(self.gate.weight.shape)}"
            shapes = f"`up` is {tuple(self.up.weight.shape)}, `down` {tuple(self.down.weight.shape)}{gate}"
            raise errors.ShapeError(f"{shapes}; expected (hidden, width), (width, hidden), and a gate like `up`.")

    @property
    def width(self) -> int:
        """The width of its input."""
        return self.up.inputs

    def hidden(self, x: Any) -> Array:
        """The activations, gated where there is a gate: (…, token, hidden)."""
        if self.gate is None:
            return self.up(x, activation=self.activation)
        return self.gate(x, activation=self.activation, times=self.up(x))

    def __call__(self, x: Any, *, residual: Array | None = None) -> Array:
        """Both maps applied to the rows of x, plus a residual."""
        return self.down(self.hidden(x), residual=residual)

    @classmethod
    def seeded(
        cls,
        width: int,
        hidden: int | None = None,
        *,
        activation: str = "relu",
        gated: bool = False,
        bias: bool = True,
        seed: int | Seed = 0,
        dtype: Any = np.float32,
    ) -> Self:
        """Weights from a seed; `hidden` is 4 · width by default."""
        seed, hidden = seed_of(seed), 4 * validate.integer("width", width, 1) if hidden is None else hidden
        options: dict[str, Any] = {"bias": bias, "dtype": dtype}
        return cls(
            Linear.seeded(width, hidden, seed=seed.part("up"), **options),
            Linear.seeded(hidden, width, seed=seed.part("down"), **options),
            activation,
            Linear.seeded(width, hidden, seed=seed.part("gate"), **options) if gated else None,
        )

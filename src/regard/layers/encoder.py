"""One block of an encoder: attention and feed-forward, each with a residual and a norm."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from regard import errors
from regard.arrays import Array
from regard.attention import Cache
from regard.layers import inputs
from regard.layers.block import Attend, Step, attend_all, attention_part, feed_forward_part, result_of
from regard.layers.feed_forward import FeedForward
from regard.layers.layer import Layer
from regard.layers.linear import Linear
from regard.layers.multi_head import MultiHead
from regard.layers.norms import LayerNorm, Norm
from regard.layers.seeding import Seed, seed_of
from regard.masks import Mask


@dataclass(frozen=True, eq=False, repr=False)
class Encoder(Layer):
    """One block. After the paper (post-norm): x ← norm_1(x + attention(x)), x ← norm_2(x + feed_forward(x)).

    With `norm_first` (pre-norm): x ← x + attention(norm_1(x)), x ← x + feed_forward(norm_2(x)).

    >>> Encoder.seeded(width=12, heads=3)(np.ones((2, 5, 12), np.float32)).shape
    (2, 5, 12)
    """

    attention: MultiHead
    feed_forward: FeedForward
    norm_1: Norm
    norm_2: Norm
    norm_first: bool = False

    @property
    def width(self) -> int:
        """The width of its tokens."""
        return self.attention.width

    def __call__(self, x: Any, *, mask: Mask | None = None, offset: Any = None, cache: Cache | None = None) -> Array:
        """Tokens (token, width) or (batch, token, width) in, and out."""
        return result_of(self.observe(x, mask=mask, offset=offset, cache=cache))

    def observe(
        self,
        x: Any,
        *,
        mask: Mask | None = None,
        offset: Any = None,
        cache: Cache | None = None,
        attend: Attend | None = None,
        separate: bool = False,
    ) -> Iterator[Step]:
        """The steps of the block by name, each as soon as it is computed: see `Step`.

        attend     how the heads attend, in place of `mask`, `offset` and `cache`
        separate   yield the results of W_O and of the feed-forward before their residuals are added

        >>> steps = dict(Encoder.seeded(width=12, heads=3).observe(np.ones((5, 12), np.float32)))
        >>> list(steps), steps["heads"].seen.attention.shape
        (['normed', 'heads', 'attended', 'feed_input', 'result'], (3, 5, 5))
        """
        x = inputs.sequence("x", x, self.attention.w_q.weight, self.width)
        attend = attend_all(None, mask, offset, cache) if attend is None else attend
        for step in attention_part(self.attention, self.norm_1, self.norm_first, x, attend, separate=separate):
            yield step
        del x  # the residual of the attention; the feed-forward starts from the step before
        yield from feed_forward_part(self.feed_forward, self.norm_2, self.norm_first, step.value, separate=separate)

    def explain(
        self,
        x: Any,
        *,
        words: Sequence[Any] | None = None,
        query: Any = None,
        mask: Mask | None = None,
        offset: Any = None,
        note: str | None = None,
    ) -> Any:
        """Every step as a `Trace`: of all tokens of one sequence, or in O(n) of one `query`, by word or position."""
        from regard.trace.layer_steps import Asked, of_encoder

        return of_encoder(self, x, Asked(query=query, words=words, mask=mask, offset=offset, note=note))

    @classmethod
    def seeded(
        cls,
        width: int,
        heads: int = 8,
        hidden: int | None = None,
        *,
        activation: str = "relu",
        norm_first: bool = False,
        bias: bool = True,
        seed: int | Seed = 0,
        dtype: Any = np.float32,
        **of_attention: Any,
    ) -> Self:
        """Weights from a seed; further options are those of `MultiHead.seeded`."""
        seed = seed_of(seed)
        options: dict[str, Any] = {"bias": bias, "dtype": dtype}
        return cls(
            MultiHead.seeded(width, heads, seed=seed.part("attention"), **options, **of_attention),
            FeedForward.seeded(width, hidden, activation=activation, seed=seed.part("feed_forward"), **options),
            LayerNorm.seeded(width, **options),
            LayerNorm.seeded(width, **options),
            norm_first,
        )

    @classmethod
    def from_torch(cls, module: Any) -> Self:
        """The very weights of an `nn.TransformerEncoderLayer`: gradients reach the module. Its dropout is left out."""
        return cls(
            MultiHead.from_torch(module.self_attn),
            feed_forward_from_torch(module),
            LayerNorm.from_torch(module.norm1),
            LayerNorm.from_torch(module.norm2),
            module.norm_first,
        )


def feed_forward_from_torch(module: Any) -> FeedForward:
    """The feed-forward part of a layer of `nn.Transformer`."""
    up, down = Linear.from_torch(module.linear1), Linear.from_torch(module.linear2)
    return FeedForward(up, down, activation_from_torch(module.activation))


def activation_from_torch(function: Callable[..., Any]) -> str:
    """Our name of an activation that PyTorch has as a function or as a module."""
    nn = sys.modules["torch"].nn
    if isinstance(function, nn.GELU):
        return "gelu" if function.approximate == "none" else "gelu_tanh"
    functions = {nn.functional.relu: "relu", nn.functional.gelu: "gelu", nn.functional.silu: "silu"}
    modules = {nn.ReLU: "relu", nn.SiLU: "silu", nn.Tanh: "tanh"}
    name = functions.get(function) or modules.get(type(function))
    name = name or {"relu": "relu", "tanh": "tanh"}.get(getattr(function, "__name__", ""))
    if name is None:
        known = "relu, gelu, silu, or a module such as nn.GELU(approximate='tanh')"
        raise errors.option("activation", function, f"one that Regard knows: {known}")
    return name

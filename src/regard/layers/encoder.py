"""The encoder block, and the two parts of any block: attention and feed-forward, each with a residual and a norm.

`Encoder.observe` and `Decoder.observe` consist of these parts. A step is yielded as soon as it is computed; how the
heads attend is an argument, so that a batch, packed texts, one token with a KV cache and a trace share one block.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from regard import errors
from regard.arrays import Array
from regard.attention import Cache
from regard.layers.feed_forward import FeedForward
from regard.layers.layer import Layer, Seed, seed_of
from regard.layers.linear import Linear
from regard.layers.multi_head import MultiHead
from regard.layers.norms import LayerNorm, Norm
from regard.layers.token_inputs import token_rows
from regard.masks import Mask


class BlockStep(NamedTuple):
    """One named step of a block.

    normed       the input of the attention's projections: the tokens, normed first in pre-norm blocks
    heads        `Heads`: the outputs of all heads, and their attention
    projected    the outputs through W_O; only with `separate`
    attended     the tokens after the attention, its residual and its norm
    feed_input   the input of the feed-forward
    fed_forward  its output; only with `separate`
    result       the tokens after the block

    Steps of the cross-attention are named cross_normed, cross_heads, cross_projected and cross_attended.

    >>> import numpy as np
    >>> from regard.layers import Encoder
    >>> [step.name for step in Encoder.seeded(width=12, heads=3).observe(np.ones((5, 12), np.float32))]
    ['normed', 'heads', 'attended', 'feed_input', 'result']
    """

    name: str
    value: Any


class Heads(NamedTuple):
    """The outputs of all heads.

    >>> import numpy as np
    >>> from regard.layers import Encoder
    >>> steps = dict(Encoder.seeded(width=12, heads=3).observe(np.ones((5, 12), np.float32)))
    >>> steps["heads"].outputs.shape
    (5, 12)
    """

    outputs: Array  # (…, token, head · head_dim), concatenated
    seen: Any  # `LayerAttention`, unless a custom `attend` returns something else
    rows: slice | None = None  # the tokens these outputs belong to; None: all


Attend = Callable[[MultiHead, Array], Heads]  # of the layer and its normed tokens


def attend_all(
    context: Array | None = None, mask: Mask | None = None, offset: Any = None, cache: Cache | None = None
) -> Attend:
    """Attention of all tokens, (token, width) or (batch, token, width), to themselves or to a context."""

    def attend(layer: MultiHead, x: Array) -> Heads:
        return Heads(*layer.attend(x, context, mask=mask, offset=offset, cache=cache))

    return attend


def attention_part(
    layer: MultiHead, norm: Norm, norm_first: bool, x: Array, attend: Attend, *, separate: bool = False, cross: str = ""
) -> Iterator[BlockStep]:
    """x ← x + attention(norm(x)), or with the norm last, norm(x + attention(x)).

    separate   yield the result of W_O before the residual is added; otherwise both are one fused operation
    """
    normed = norm(x) if norm_first else x
    yield BlockStep(f"{cross}normed", normed)
    heads = attend(layer, normed)
    del normed
    yield BlockStep(f"{cross}heads", heads)
    residual = x if heads.rows is None else x[heads.rows]
    if separate:
        projected = layer.output(heads.outputs)
        yield BlockStep(f"{cross}projected", projected)
        after = residual + projected
    else:
        after = layer.output(heads.outputs, residual=residual)
    yield BlockStep(f"{cross}attended", after if norm_first else norm(after))


def feed_forward_part(
    layer: FeedForward, norm: Norm, norm_first: bool, x: Array, *, separate: bool = False
) -> Iterator[BlockStep]:
    """x ← x + feed_forward(norm(x)), or with the norm last, norm(x + feed_forward(x))."""
    rows = norm(x) if norm_first else x
    yield BlockStep("feed_input", rows)
    if separate:
        fed = layer(rows)
        yield BlockStep("fed_forward", fed)
        after = x + fed
    else:
        after = layer(rows, residual=x)
    yield BlockStep("result", after if norm_first else norm(after))


def result_of(steps: Iterator[BlockStep]) -> Array:
    """The result of a block; the other steps are dropped."""
    for step in steps:
        if step.name == "result":
            return step.value
    raise AssertionError("a block yields its result last")


@dataclass(frozen=True, eq=False, repr=False)
class Encoder(Layer):
    """One block. As in the paper (post-norm): x ← norm_1(x + attention(x)), x ← norm_2(x + feed_forward(x)).

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
        """Tokens (token, width) or (batch, token, width) to tokens of the same shape."""
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
    ) -> Iterator[BlockStep]:
        """The steps of the block by name, each as soon as it is computed: see `BlockStep`.

        attend     how the heads attend, instead of `mask`, `offset` and `cache`
        separate   yield the results of W_O and of the feed-forward before their residuals are added

        >>> steps = dict(Encoder.seeded(width=12, heads=3).observe(np.ones((5, 12), np.float32)))
        >>> list(steps), steps["heads"].seen.attention.shape
        (['normed', 'heads', 'attended', 'feed_input', 'result'], (3, 5, 5))
        """
        x = token_rows("x", x, self.attention.w_q.weight, self.width)
        attend = attend_all(None, mask, offset, cache) if attend is None else attend
        for step in attention_part(self.attention, self.norm_1, self.norm_first, x, attend, separate=separate):
            yield step
        del x  # the residual of the attention, no longer needed
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
        return self._tracer.of_encoder(
            self, x, self._tracer.ExplainOptions(query=query, words=words, mask=mask, offset=offset, note=note)
        )

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
        """The weights of an `nn.TransformerEncoderLayer`, shared: gradients reach the module. Dropout is ignored."""
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
    """The name of an activation given as a function or a module of PyTorch."""
    nn = sys.modules["torch"].nn
    if isinstance(function, nn.GELU):
        return "gelu" if function.approximate == "none" else "gelu_tanh"
    functions = {nn.functional.relu: "relu", nn.functional.gelu: "gelu", nn.functional.silu: "silu"}
    modules = {nn.ReLU: "relu", nn.SiLU: "silu", nn.Tanh: "tanh"}
    name = functions.get(function) or modules.get(type(function))
    name = name or {"relu": "relu", "tanh": "tanh"}.get(getattr(function, "__name__", ""))
    if name is None:
        expected = "relu, gelu, silu, or a module such as nn.GELU(approximate='tanh')"
        raise errors.option("activation", function, f"one of {expected}")
    return name

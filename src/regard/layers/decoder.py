"""The decoder block: causal self-attention, cross-attention to the output of an encoder, and feed-forward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from regard import errors
from regard.arrays import Array
from regard.attention import Cache
from regard.layers.encoder import (
    Attend,
    BlockStep,
    attend_all,
    attention_part,
    feed_forward_from_torch,
    feed_forward_part,
    result_of,
)
from regard.layers.feed_forward import FeedForward
from regard.layers.layer import Layer, Seed, seed_of
from regard.layers.multi_head import MultiHead
from regard.layers.norms import LayerNorm, Norm
from regard.layers.token_inputs import token_rows
from regard.masks import Mask


@dataclass(frozen=True, eq=False, repr=False)
class Decoder(Layer):
    """One block, each part with a residual and a norm, after it or before it (`norm_first`).

    attention     self-attention; causal if made by `seeded` or `from_torch`
    cross         cross-attention to the memory, the output of an encoder; None, like norm_2, in decoder-only models
    feed_forward  applied to each token

    >>> decoder = Decoder.seeded(width=12, heads=3)
    >>> decoder(np.ones((5, 12), np.float32), memory=np.ones((7, 12), np.float32)).shape
    (5, 12)
    """

    attention: MultiHead
    cross: MultiHead | None
    feed_forward: FeedForward
    norm_1: Norm
    norm_2: Norm | None
    norm_3: Norm
    norm_first: bool = False

    def __post_init__(self) -> None:
        if (self.cross is None) != (self.norm_2 is None):
            came = "no `cross` and a `norm_2`" if self.cross is None else "`cross` and no `norm_2`"
            raise errors.OptionError(f"A decoder with {came}; expected both or neither.")

    @property
    def width(self) -> int:
        """The width of its tokens."""
        return self.attention.width

    def __call__(
        self,
        x: Any,
        memory: Any = None,
        *,
        mask: Mask | None = None,
        memory_mask: Mask | None = None,
        offset: Any = None,
        cache: Cache | None = None,
    ) -> Array:
        """Tokens (token, width) or (batch, token, width) to tokens; `memory_mask` applies to the cross-attention."""
        steps = self.observe(x, memory, mask=mask, memory_mask=memory_mask, offset=offset, cache=cache)
        return result_of(steps)

    def observe(
        self,
        x: Any,
        memory: Any = None,
        *,
        mask: Mask | None = None,
        memory_mask: Mask | None = None,
        offset: Any = None,
        cache: Cache | None = None,
        attend: Attend | None = None,
        separate: bool = False,
    ) -> Iterator[BlockStep]:
        """The steps of the block by name, each as soon as it is computed: see `BlockStep`.

        attend     how the self-attention attends, instead of `mask`, `offset` and `cache`
        separate   yield the results of W_O and of the feed-forward before their residuals are added
        """
        if self.cross is None and memory is not None:
            raise errors.option("memory", memory, "none", "This decoder has no cross-attention.")
        x = token_rows("x", x, self.attention.w_q.weight, self.width)
        attend = attend_all(None, mask, offset, cache) if attend is None else attend
        for step in attention_part(self.attention, self.norm_1, self.norm_first, x, attend, separate=separate):
            yield step
        if self.cross is not None and memory is None:
            raise errors.option("memory", None, "the output of an encoder", "This decoder has cross-attention.")
        yield from self.cross_steps(step.value, attend_all(memory, memory_mask), separate=separate)

    def cross_steps(self, x: Array, attend: Attend, *, separate: bool = False) -> Iterator[BlockStep]:
        """The steps after the self-attention: the cross-attention, if there is one, and the feed-forward."""
        if self.cross is not None and self.norm_2 is not None:
            for step in attention_part(
                self.cross, self.norm_2, self.norm_first, x, attend, separate=separate, cross="cross_"
            ):
                yield step
            x = step.value
        yield from feed_forward_part(self.feed_forward, self.norm_3, self.norm_first, x, separate=separate)

    def explain(
        self,
        x: Any,
        memory: Any = None,
        *,
        which: Literal["self", "cross"] = "self",
        words: Sequence[Any] | None = None,
        memory_words: Sequence[Any] | None = None,
        query: Any = None,
        mask: Mask | None = None,
        memory_mask: Mask | None = None,
        note: str | None = None,
    ) -> Any:
        """Every step as a `Trace`: of the self-attention, or of the cross-attention and the rest of the block."""
        options = self._tracer.ExplainOptions(
            query=query, words=words, context_words=memory_words, mask=mask, note=note
        )
        return self._tracer.of_decoder(self, x, memory, which, options, memory_mask)

    @classmethod
    def seeded(
        cls,
        width: int,
        heads: int = 8,
        hidden: int | None = None,
        *,
        cross: bool = True,
        activation: str = "relu",
        norm_first: bool = False,
        bias: bool = True,
        seed: int | Seed = 0,
        dtype: Any = np.float32,
        **of_attention: Any,
    ) -> Self:
        """Weights from a seed; further options are those of `MultiHead.seeded`, for the self-attention."""
        seed = seed_of(seed)
        options: dict[str, Any] = {"bias": bias, "dtype": dtype}
        return cls(
            MultiHead.seeded(width, heads, seed=seed.part("attention"), **options, **{"causal": True, **of_attention}),
            MultiHead.seeded(width, heads, seed=seed.part("cross"), **options) if cross else None,
            FeedForward.seeded(width, hidden, activation=activation, seed=seed.part("feed_forward"), **options),
            LayerNorm.seeded(width, **options),
            LayerNorm.seeded(width, **options) if cross else None,
            LayerNorm.seeded(width, **options),
            norm_first,
        )

    @classmethod
    def from_torch(cls, module: Any, *, causal: bool = True) -> Self:
        """The weights of an `nn.TransformerDecoderLayer`, shared: gradients reach the module. Dropout is ignored.

        In PyTorch it is causal only with a `tgt_mask`: `causal=False` corresponds to no `tgt_mask`.
        """
        return cls(
            MultiHead.from_torch(module.self_attn, causal=causal),
            MultiHead.from_torch(module.multihead_attn),
            feed_forward_from_torch(module),
            LayerNorm.from_torch(module.norm1),
            LayerNorm.from_torch(module.norm2),
            LayerNorm.from_torch(module.norm3),
            module.norm_first,
        )

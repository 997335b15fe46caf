"""One block of a decoder: attention to what came before, attention to an encoder's result, and feed-forward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from regard import errors
from regard.arrays import Array
from regard.attention import Cache
from regard.layers import inputs
from regard.layers.block import Attend, Step, attend_all, attention_part, feed_forward_part, result_of
from regard.layers.encoder import feed_forward_from_torch
from regard.layers.feed_forward import FeedForward
from regard.layers.layer import Layer
from regard.layers.multi_head import MultiHead
from regard.layers.norms import LayerNorm, Norm
from regard.layers.seeding import Seed, seed_of
from regard.masks import Mask


@dataclass(frozen=True, eq=False, repr=False)
class Decoder(Layer):
    """One block, each part with a residual and a norm, after it or before it (`norm_first`).

    attention     to the tokens themselves: causal where the layer is, as `seeded` and `from_torch` make it
    cross         to the memory that an encoder left; None, with norm_2, in models that are decoders only
    feed_forward  every token for itself

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
        """Tokens (token, width) or (batch, token, width) in, and out; `memory_mask` is that of the cross attention."""
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
    ) -> Iterator[Step]:
        """The steps of the block by name, each as soon as it is computed: see `Step`.

        attend     how the heads attend to the tokens, in place of `mask`, `offset` and `cache`
        separate   yield the results of W_O and of the feed-forward before their residuals are added
        """
        if self.cross is None and memory is not None:
            raise errors.option("memory", memory, "none", "This decoder has no cross attention that could see it.")
        x = inputs.sequence("x", x, self.attention.w_q.weight, self.width)
        attend = attend_all(None, mask, offset, cache) if attend is None else attend
        for step in attention_part(self.attention, self.norm_1, self.norm_first, x, attend, separate=separate):
            yield step
        if self.cross is not None and memory is None:
            raise errors.option("memory", None, "the output of an encoder", "This decoder has cross-attention.")
        yield from self.cross_steps(step.value, attend_all(memory, memory_mask), separate=separate)

    def cross_steps(self, x: Array, attend: Attend, *, separate: bool = False) -> Iterator[Step]:
        """The steps after the attention to the tokens: that to the memory, if there is one, and the feed-forward."""
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
        """Every step as a `Trace`: of the attention to the tokens themselves, or of that to the memory and the rest."""
        from regard.trace.layer_steps import Asked, of_decoder

        asked = Asked(query=query, words=words, context_words=memory_words, mask=mask, note=note)
        return of_decoder(self, x, memory, which, asked, memory_mask)

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
        """Weights from a seed; further options are those of `MultiHead.seeded`, for the attention to itself."""
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
        """The very weights of an `nn.TransformerDecoderLayer`: gradients reach the module. Its dropout is left out.

        PyTorch's own is causal only with a `tgt_mask`: `causal=False` is without one.
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

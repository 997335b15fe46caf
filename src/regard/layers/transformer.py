"""A stack of blocks: from tokens to hidden states, or to logits of the next token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from regard import errors, validate
from regard.arrays import Array
from regard.attention import Cache
from regard.layers.decoder import Decoder
from regard.layers.encoder import BlockStep, Encoder
from regard.layers.layer import Layer, Seed, seed_of
from regard.layers.linear import Embedding, Linear
from regard.layers.multi_head import LayerAttention
from regard.layers.norms import LayerNorm, Norm
from regard.layers.positions import Alibi, Learned, Rotary, Sinusoidal, positions_of
from regard.masks import Mask

Positions = Literal["sinusoidal", "learned", "rotary", "alibi"]


class ForwardPass(NamedTuple):
    """The result and all intermediate states of a forward pass.

    >>> forward = Transformer.seeded(vocabulary=11, width=12, heads=3, encoders=2).run([1, 2, 3])
    >>> forward.result.shape, len(forward.states), len(forward.seen)
    ((3, 12), 3, 2)
    """

    result: Array
    states: tuple[Array, ...]  # embedded, then after each block; those of the targets follow
    seen: tuple[LayerAttention, ...]  # every attention, in order; two per decoder with cross-attention


@dataclass(frozen=True, eq=False, repr=False)
class Transformer(Layer):
    """Encoders only, decoders only, or decoders with cross-attention to encoders.

    embedding         one vector per token
    positions         added to it; None where attention encodes positions (rotary, ALiBi)
    encoders          blocks over the tokens
    decoders          blocks over the targets, or over the tokens where there are no encoders
    norm              after the last block
    head              from hidden states to logits; None leaves the hidden states
    embedding_norm    after the embedding, as in BERT
    memory_norm       after the last encoder, before the decoders
    target_embedding  of the targets, if it differs
    embedding_scale   multiplies the vectors of tokens; √width in the paper

    >>> model = Transformer.seeded(vocabulary=11, width=12, heads=3, encoders=2)
    >>> model([1, 2, 3]).shape
    (3, 12)
    """

    embedding: Embedding
    positions: Sinusoidal | Learned | None = None
    encoders: tuple[Encoder, ...] = ()
    decoders: tuple[Decoder, ...] = ()
    norm: Norm | None = None
    head: Linear | None = None
    embedding_norm: Norm | None = None
    memory_norm: Norm | None = None
    target_embedding: Embedding | None = None
    embedding_scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "encoders", tuple(self.encoders))
        object.__setattr__(self, "decoders", tuple(self.decoders))
        for name in ("encoders", "decoders"):
            for number, block in enumerate(getattr(self, name)):
                if block.width != self.embedding.width:
                    raise errors.ShapeError(
                        f"{name}[{number}] has width {block.width}, the embedding {self.embedding.width}."
                    )

    def __call__(self, tokens: Any, targets: Any = None, **options: Any) -> Array:
        """The result of `run`, with its options."""
        return self.run(tokens, targets, **options).result

    def run(
        self,
        tokens: Any,
        targets: Any = None,
        *,
        mask: Mask | None = None,
        target_mask: Mask | None = None,
        memory_mask: Mask | None = None,
        positions: Any = None,
        caches: Sequence[Cache] | None = None,
        memory: Array | None = None,
    ) -> ForwardPass:
        """The forward pass of tokens, (token,) or (batch, token), and of targets, if there are any.

        mask         of the tokens; target_mask, memory_mask: of the targets' self- and cross-attention
        positions    position of the first token (of the targets, if there are any), one number or one per sequence
        caches       one per block, with the keys and values of earlier tokens
        memory       output of the encoders from an earlier call; they are not run again
        """
        blocks = self.decoders or self.encoders
        if caches is not None and len(caches) != len(blocks):
            raise errors.option("caches", f"{len(caches)} caches", f"{len(blocks)}, one per block")
        states: list[Array] = []
        seen: list[LayerAttention] = []
        both = bool(self.encoders and self.decoders)
        if both != (targets is not None):
            fix = "Decoders that follow encoders read targets; decoders or encoders alone read tokens."
            raise errors.option("targets", targets, "tokens for the decoders" if both else "none", fix)
        if both and memory is None:
            memory = self._through(self.encoders, self.embed(tokens), states, seen, {"mask": mask})
            memory = memory if self.memory_norm is None else self.memory_norm(memory)
        before = len(caches[0]) if caches else 0
        start = before if positions is None else positions
        x = self.embed(targets if both else tokens, start, self.target_embedding if both else None)
        options: dict[str, Any] = {"mask": target_mask if both else mask}
        if both:
            options.update(memory=memory, memory_mask=memory_mask)
        x = self._through(blocks, x, states, seen, options, caches)
        x = x if self.norm is None else self.norm(x)
        return ForwardPass(x if self.head is None else self.head(x), tuple(states), tuple(seen))

    def embed(
        self, tokens: Any, start: Any = 0, embedding: Embedding | None = None, *, positions: Array | None = None
    ) -> Array:
        """Embedded tokens with positions and norm; see `embedding_steps`."""
        *_, (_, x) = self.embedding_steps(tokens, start, embedding, positions=positions)
        return x

    def embedding_steps(
        self,
        tokens: Any,
        start: Any = 0,
        embedding: Embedding | None = None,
        *,
        positions: Array | None = None,
        separate: bool = False,
    ) -> Iterator[BlockStep]:
        """The steps embedding, positioned and normed; the last two only if the model has them.

        start       the position of the first token, one number or one per sequence
        positions   the position of every token, instead
        separate    keep every step; otherwise the next step may overwrite it
        """
        x = (embedding or self.embedding)(tokens)
        x = x if self.embedding_scale == 1.0 else x * self.embedding_scale
        yield BlockStep("embedding", x)
        if self.positions is not None:
            if positions is None and isinstance(self.positions, Learned) and self.positions.padding is not None:
                x = self.positions(x, start, tokens)
            else:
                positions = positions_of(start, x.shape[-2], x) if positions is None else positions
                x = self.positions.at(x, positions, in_place=not separate)
            yield BlockStep("positioned", x)
        if self.embedding_norm is not None:
            yield BlockStep("normed", self.embedding_norm(x))

    def explain(
        self,
        tokens: Any,
        targets: Any = None,
        *,
        block: int = 0,
        which: Literal["self", "cross"] = "self",
        words: Sequence[Any] | None = None,
        target_words: Sequence[Any] | None = None,
        query: Any = None,
        mask: Mask | None = None,
        target_mask: Mask | None = None,
        memory_mask: Mask | None = None,
        note: str | None = None,
    ) -> Any:
        """Every step of one block as a `Trace`, starting at the embedding; encoders count first, then decoders."""
        options = self._tracer.ExplainOptions(
            query=query, words=words, context_words=target_words, mask=mask, note=note
        )
        return self._tracer.of_transformer(self, tokens, targets, block, which, options, (target_mask, memory_mask))

    def caches(self) -> tuple[Cache, ...]:
        """Empty caches, one per block."""
        return tuple(Cache() for _ in self.decoders or self.encoders)

    def _through(
        self,
        blocks: Sequence[Encoder | Decoder],
        x: Array,
        states: list[Array],
        seen: list[LayerAttention],
        options: dict[str, Any],
        caches: Sequence[Cache] | None = None,
    ) -> Array:
        states.append(x)
        for number, block in enumerate(blocks):
            for name, value in block.observe(x, cache=None if caches is None else caches[number], **options):
                if name in ("heads", "cross_heads"):
                    seen.append(value.seen)
                elif name == "result":
                    x = value
            states.append(x)
        return x

    @classmethod
    def seeded(
        cls,
        vocabulary: int,
        width: int,
        heads: int = 8,
        hidden: int | None = None,
        *,
        encoders: int = 0,
        decoders: int = 0,
        positions: Positions | None = "sinusoidal",
        longest: int = 512,
        head: int | None = None,
        activation: str = "relu",
        norm_first: bool = False,
        seed: int | Seed = 0,
        dtype: Any = np.float32,
    ) -> Self:
        """Weights from a seed: so many blocks; `longest` counts learned positions, `head` the scores at the end."""
        kinds = ("sinusoidal", "learned", "rotary", "alibi")
        if positions is not None:
            validate.choice("positions", positions, kinds)
        seed, width = seed_of(seed), validate.integer("width", width, 1)
        options: dict[str, Any] = {"activation": activation, "norm_first": norm_first, "dtype": dtype}
        options["rotary"] = Rotary(width // validate.integer("heads", heads, 1)) if positions == "rotary" else None
        options["alibi"] = Alibi.of(heads) if positions == "alibi" else None
        added: Sinusoidal | Learned | None = Sinusoidal() if positions == "sinusoidal" else None
        if positions == "learned":
            added = Learned.seeded(longest, width, seed=seed.part("positions"), dtype=dtype)
        norm = LayerNorm.seeded(width, dtype=dtype) if norm_first else None
        return cls(
            Embedding.seeded(vocabulary, width, seed=seed.part("embedding"), dtype=dtype),
            added,
            tuple(
                Encoder.seeded(width, heads, hidden, seed=seed.part(f"encoders.{number}"), **options)
                for number in range(encoders)
            ),
            tuple(
                Decoder.seeded(
                    width, heads, hidden, cross=encoders > 0, seed=seed.part(f"decoders.{number}"), **options
                )
                for number in range(decoders)
            ),
            norm,
            None if head is None else Linear.seeded(width, head, seed=seed.part("head"), dtype=dtype),
            memory_norm=norm if encoders and decoders else None,
        )

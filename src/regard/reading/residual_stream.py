"""`ResidualStream`: everything that a model writes to the residual stream while it reads a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from regard import errors
from regard.arrays import Array
from regard.layers import Encoder, LayerNorm, Linear, RMSNorm
from regard.reading.reading import Reading


class NormInput(NamedTuple):
    """A norm on the residual stream, and the rows that it normed, (token, width)."""

    norm: LayerNorm | RMSNorm
    rows: Array


class BlockWrites(NamedTuple):
    """What a block adds besides its heads' outputs, which the reading has."""

    w_o: Linear
    fed_forward: Array  # (token, width)
    norm_1: NormInput | None = None  # after the attention's residual, in post-norm blocks
    norm_2: NormInput | None = None  # after the feed-forward's residual, in post-norm blocks

    @classmethod
    def of(cls, block: Encoder, states: Array, outputs: Array) -> BlockWrites:
        """What a block adds to the states that it gets, (token, width); its feed-forward is computed again."""
        attention = block.attention
        if attention.w_o is None:
            raise errors.unsupported("Contributions of heads without W_O", "Give the layers a W_O.")
        attended = attention.project(outputs, residual=states)
        if block.norm_first:
            return cls(attention.w_o, block.feed_forward(block.norm_2(attended)))
        normed = block.norm_1(attended)
        fed = block.feed_forward(normed)
        return cls(attention.w_o, fed, NormInput(block.norm_1, attended), NormInput(block.norm_2, normed + fed))


@dataclass(frozen=True, eq=False)
class ResidualStream:
    """A reading with the states before and after every block, and what each block adds between them.

    Without norms on the stream (pre-norm blocks), states[l + 1] = states[l] + heads · W_O + bias + fed_forward.
    """

    reading: Reading  # with `states` and `outputs`
    blocks: tuple[BlockWrites, ...]
    norm: LayerNorm | RMSNorm | None  # after the last block
    head: Linear | None  # the unembedding; None where the model has none

    def logits(self, states: Array) -> Array:
        """The logits of the next token, (token, vocabulary), in float64, as if the model ended at these states."""
        assert self.head is not None
        return np.asarray(self.head(states if self.norm is None else self.norm(states)), np.float64)

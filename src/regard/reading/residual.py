"""`ResidualStream`: everything that a model writes to the residual stream while it reads a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from regard.arrays import Array
from regard.layers import LayerNorm, Linear, RMSNorm
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


@dataclass(frozen=True, eq=False)
class ResidualStream:
    """A reading with the states before and after every block, and what each block adds between them.

    Without norms on the stream (pre-norm blocks), states[l + 1] = states[l] + heads · W_O + bias + fed_forward.
    """

    reading: Reading  # with `states` and `outputs`
    blocks: tuple[BlockWrites, ...]
    norm: LayerNorm | RMSNorm | None  # after the last block
    head: Linear | None  # the unembedding; None where the model has none

"""What the blocks of a model write to the residual stream."""

from __future__ import annotations

from regard import errors
from regard.layers import Encoder, Transformer
from regard.reading import Reading
from regard.reading.residual import BlockWrites, NormInput, ResidualStream


def stream_of(transformer: Transformer, reading: Reading) -> ResidualStream:
    """The writes of every block for a text that the model has read; feed-forward parts are computed again."""
    blocks = tuple(_writes(block, reading, layer) for layer, block in enumerate(transformer.encoders))
    return ResidualStream(reading, blocks, transformer.norm, transformer.head)


def _writes(block: Encoder, reading: Reading, layer: int) -> BlockWrites:
    attention = block.attention
    if attention.w_o is None:
        raise errors.unsupported("Contributions of heads without W_O", "Give the layers a W_O.")
    attended = attention.project(reading.outputs[layer], residual=reading.states[layer])
    if block.norm_first:
        return BlockWrites(attention.w_o, block.feed_forward(block.norm_2(attended)))
    normed = block.norm_1(attended)
    fed = block.feed_forward(normed)
    return BlockWrites(attention.w_o, fed, NormInput(block.norm_1, attended), NormInput(block.norm_2, normed + fed))

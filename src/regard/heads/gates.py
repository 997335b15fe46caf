"""One gate per head, a factor of its output: its gradient says what silencing the head does, to first order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.arrays import Array
from regard.layers import Heads, MultiHead, Transformer
from regard.layers.encoder import Attend, attend_all, result_of


def gates_of(model: Transformer) -> list[Any]:
    """Open gates, 1 for every head, of each block of a model of tensors; they collect gradients."""
    ones = model.embedding.weight.new_ones
    return [ones(block.attention.heads).requires_grad_() for block in model.encoders]


def gated_states(model: Transformer, ids: Array, gates: Sequence[Any]) -> Array:
    """The states after the last norm, (token, width), with every head's output multiplied by its gate."""
    x = model.embed(ids)
    for block, gate in zip(model.encoders, gates, strict=True):
        x = result_of(block.observe(x, attend=_attend_gated(gate)))
    return x if model.norm is None else model.norm(x)


def _attend_gated(gate: Any) -> Attend:
    """Attention with every head's output multiplied by its gate, (head,)."""
    plain = attend_all()

    def attend(layer: MultiHead, x: Array) -> Heads:
        heads = plain(layer, x)
        rows = heads.outputs.reshape(*heads.outputs.shape[:-1], layer.heads, -1)
        return heads._replace(outputs=(rows * gate[:, None]).reshape(heads.outputs.shape))

    return attend

"""The weights of one block, so that the page can compute x · W_Q, W_O, the norms and the feed-forward itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from regard import errors
from regard.arrays import numpy_of
from regard.layers import Encoder, LayerNorm, Linear
from regard.layers.norms import Norm
from regard.viewer.frames import Parts

MOST = 24 << 20  # numbers of a block that is sent


def block_weights(block: Encoder, *, feed_forward: bool = True) -> Parts:
    """Everything of a block: a header, and arrays.

    w_q, w_k, w_v (head · head_dim, width), w_o (width, head · value_dim), w_up, w_gate (hidden, width), w_down (width,
    hidden), with b_q … b_down; norm_1, norm_2, q_norm and k_norm with their bias as norm_1_bias …
    """
    layer = block.attention
    linears: dict[str, Linear | None] = {"q": layer.w_q, "k": layer.w_k, "v": layer.w_v, "o": layer.w_o}
    if feed_forward:
        fed = block.feed_forward
        linears |= {"up": fed.up, "gate": fed.gate, "down": fed.down}
    arrays: dict[str, Any] = {}
    for name, linear in linears.items():
        if linear is not None:
            arrays[f"w_{name}"] = numpy_of(linear.weight)
            if linear.bias is not None:
                arrays[f"b_{name}"] = numpy_of(linear.bias)
    norms: dict[str, Norm | None] = {
        "norm_1": block.norm_1, "norm_2": block.norm_2, "q_norm": layer.q_norm, "k_norm": layer.k_norm,
    }  # fmt: skip
    kinds: dict[str, Any] = {}
    for name, norm in norms.items():
        if norm is None:
            continue
        kinds[name] = {"kind": "layer" if isinstance(norm, LayerNorm) else "rms", "epsilon": norm.epsilon}
        arrays[name] = numpy_of(norm.weight)
        if isinstance(norm, LayerNorm) and norm.bias is not None:
            arrays[f"{name}_bias"] = numpy_of(norm.bias)
    header = {
        "heads": layer.heads,
        "key_heads": layer.groups,
        "norm_first": block.norm_first,
        "norms": kinds,
        "activation": block.feed_forward.activation,
        "rotary": None if (rotary := layer.rotary) is None else {  # radians per position of each pair, which are pairs
            "frequencies": rotary.speeds, "long_frequencies": rotary.long_frequencies,
            "long_after": rotary.long_after, "interleaved": rotary.interleaved, "factor": rotary.attention_factor,
        },
    }  # fmt: skip
    return header, {name: np.asarray(array, np.float32) for name, array in arrays.items()}


def size_of(arrays: Mapping[str, Any]) -> int:
    return sum(array.size for array in arrays.values())


def answer(block: Encoder) -> Parts:
    """The weights of a block; without its feed-forward where that is too large."""
    for feed_forward in (True, False):
        header, arrays = block_weights(block, feed_forward=feed_forward)
        if (count := size_of(arrays)) <= MOST:
            return header, arrays
    raise errors.OptionError(f"The weights of this layer are {count:,} numbers; at most {MOST:,} are sent.")

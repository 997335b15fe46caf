"""The two parts of a transformer block, written once: attention and feed-forward, each with a residual and a norm.

`Encoder.observe` and `Decoder.observe` are made of these. A step is yielded as soon as it is computed; how the heads
attend is an argument, so that a batch, packed texts, one token with a KV cache and a trace go through the same block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from regard.arrays import Array
from regard.attention import Cache
from regard.layers.feed_forward import FeedForward
from regard.layers.multi_head import MultiHead
from regard.layers.norms import Norm
from regard.masks import Mask


class Step(NamedTuple):
    """One named step of a block.

    normed       what the projections of the attention get: the tokens, normed first in pre-norm blocks
    heads        `Heads`: the outputs of all heads, and the attention behind them
    projected    the outputs through W_O; only with `separate`
    attended     the tokens after the attention, its residual and its norm
    feed_input   what the feed-forward gets
    fed_forward  what it returns; only with `separate`
    result       the tokens after the block

    Steps of the cross attention are named cross_normed, cross_heads, cross_projected and cross_attended.

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
    seen: Any  # what they came from: `Seen`, unless an `attend` of one's own returns something else
    rows: slice | None = None  # the tokens these outputs belong to; None: all


Attend = Callable[[MultiHead, Array], Heads]  # from the layer and its normed tokens


def attend_all(
    context: Array | None = None, mask: Mask | None = None, offset: Any = None, cache: Cache | None = None
) -> Attend:
    """Attention of all tokens, (token, width) or (batch, token, width), to themselves or to a context."""

    def attend(layer: MultiHead, x: Array) -> Heads:
        seen = layer.attention(x, context, mask=mask, offset=offset, cache=cache)
        return Heads(layer.concatenate(seen.attention @ seen.values), seen)

    return attend


def attention_part(
    layer: MultiHead, norm: Norm, norm_first: bool, x: Array, attend: Attend, *, separate: bool = False, cross: str = ""
) -> Iterator[Step]:
    """x ← x + attention(norm(x)), or with the norm last, norm(x + attention(x)).

    separate   yield W_O's result before the residual is added; otherwise both are one fused operation
    """
    normed = norm(x) if norm_first else x
    yield Step(f"{cross}normed", normed)
    heads = attend(layer, normed)
    del normed
    yield Step(f"{cross}heads", heads)
    residual = x if heads.rows is None else x[heads.rows]
    if separate:
        projected = layer.output(heads.outputs)
        yield Step(f"{cross}projected", projected)
        after = residual + projected
    else:
        after = layer.output(heads.outputs, residual=residual)
    yield Step(f"{cross}attended", after if norm_first else norm(after))


def feed_forward_part(
    layer: FeedForward, norm: Norm, norm_first: bool, x: Array, *, separate: bool = False
) -> Iterator[Step]:
    """x ← x + feed_forward(norm(x)), or with the norm last, norm(x + feed_forward(x))."""
    rows = norm(x) if norm_first else x
    yield Step("feed_input", rows)
    if separate:
        fed = layer(rows)
        yield Step("fed_forward", fed)
        after = x + fed
    else:
        after = layer(rows, residual=x)
    yield Step("result", after if norm_first else norm(after))


def result_of(steps: Iterator[Step]) -> Array:
    """The result of a block; the other steps are dropped as they come."""
    for step in steps:
        if step.name == "result":
            return step.value
    raise AssertionError("a block ends with its result")

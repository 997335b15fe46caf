"""The forward pass of a model over texts of any lengths at once, without padding.

Everything except attention treats tokens independently, so the tokens of all texts are packed into one sequence and
go through every linear map as one product. Attention takes texts of equal length as one batch: no padding is masked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from regard.arrays import Array
from regard.attention import Attention
from regard.attention.row_statistics import LONG
from regard.edits.layer_edits import RunEdits
from regard.layers import Heads, LayerAttention, Learned, MultiHead, Rotary, Transformer
from regard.layers.encoder import Attend
from regard.layers.positions import Turns
from regard.masks import Mask, documents


class TokenSpan(NamedTuple):
    """The tokens of a text, or of several texts of equal length, among all tokens."""

    start: int
    stop: int
    length: int  # of each text

    @property
    def tokens(self) -> slice:
        """All of them, as an index."""
        return slice(self.start, self.stop)


@dataclass(frozen=True, eq=False)
class Packed:
    """Texts as token ids, packed into one sequence, ordered by length."""

    ids: Array  # (token,)
    positions: Array  # (token,): each within its text
    lengths: Array  # (token,): of the text of each token
    groups: tuple[TokenSpan, ...]  # texts of equal length
    spans: tuple[TokenSpan, ...]  # of each text, in the order given


def packed(texts: Sequence[Sequence[int]]) -> Packed:
    """Texts, given as token ids, packed for `run`.

    >>> packed([[7, 8, 9], [4, 5], [1, 2]]).ids.tolist()
    [4, 5, 1, 2, 7, 8, 9]
    """
    order = sorted(range(len(texts)), key=lambda text: len(texts[text]))
    groups, spans, start = [], {}, 0
    for length, of_one_length in groupby(order, key=lambda text: len(texts[text])):
        first = start
        for text in of_one_length:
            spans[text] = TokenSpan(start, start + length, length)
            start += length
        groups.append(TokenSpan(first, start, length))
    ids = np.fromiter((number for text in order for number in texts[text]), np.int64, start)
    positions = np.concatenate([np.arange(len(texts[text])) for text in order])
    lengths = np.repeat([len(texts[text]) for text in order], [len(texts[text]) for text in order])
    return Packed(ids, positions, lengths, tuple(groups), tuple(spans[text] for text in range(len(texts))))


class PackedHeads(NamedTuple):
    """What the heads of one layer computed for all texts."""

    queries: Array  # (head, token, head_dim)
    keys: Array  # (key head, token, head_dim)
    values: Array
    attentions: Mapping[TokenSpan, Attention]  # of long texts, whose row state is worth keeping
    hidden: Callable[[int, int], Mask | None] | None = None  # edges that an edit blocks, by start and length of a text


class LayerRun(NamedTuple):
    """What one block computed for all texts."""

    before: Array  # (token, width): its input
    result: Any  # (token, width)
    outputs: Array  # (token, head · head_dim): the outputs of all heads, concatenated
    heads: PackedHeads

    def seen(self, layer: MultiHead, span: TokenSpan) -> LayerAttention:
        """The attention of one text: views of the arrays of all texts."""
        heads, tokens = self.heads, span.tokens
        mask = None if heads.hidden is None else heads.hidden(span.start, span.length)
        attention = None if mask is not None else heads.attentions.get(span)
        attention = attention or layer.look(heads.queries[:, tokens], heads.keys[:, tokens], mask=mask)
        return LayerAttention(attention, heads.values[:, tokens])

    def outputs_of(self, layer: MultiHead, span: TokenSpan) -> Array:
        """The outputs of the heads for one text, (head, token, head_dim)."""
        return layer.split(self.outputs[span.tokens])


def run(
    model: Transformer,
    texts: Packed,
    layers: int | None = None,
    *,
    first: int = 0,
    states: Array | None = None,
    only_heads: bool = False,
    edit: RunEdits | None = None,
) -> Iterator[LayerRun]:
    """The blocks one after the other, or only the first `layers` of them; or from block `first` on, from its input.

    only_heads   the last block stops after its heads, three quarters of its work earlier; its result is None
    edit         changes what heads compute
    """
    x = model.embed(texts.ids, positions=_rows_of_positions(model, texts)) if states is None else states
    turns: dict[Rotary | None, Turns | None] = {None: None}
    blocks = model.encoders[first:layers]
    for number, block in enumerate(blocks, 1):
        layer = first + number - 1
        x = x if edit is None else edit.edit_states(layer, x)
        editing = (layer, edit) if edit is not None and edit.touches(layer) else None
        rotary = block.attention.rotary
        if rotary is not None and rotary not in turns:  # usually one for all blocks
            turns[rotary] = rotary.at(texts.positions, x, texts.lengths)
        heads: Any = None
        result: Any = None
        for name, value in block.observe(x, attend=attend_packed(turns[rotary], texts.groups, editing)):
            if name == "heads":
                heads = value
                if only_heads and number == len(blocks):
                    break
            elif name == "result":
                result = value
        done = LayerRun(x, result, heads.outputs, heads.seen)
        yield done
        x = done.result


def _rows_of_positions(model: Transformer, texts: Packed) -> Array:
    """Positions, or in RoBERTa, where padding tokens have none, rows of the position embedding."""
    if not isinstance(model.positions, Learned) or model.positions.padding is None:
        return texts.positions
    rows = np.empty_like(texts.positions)
    for span in texts.spans:
        rows[span.tokens] = model.positions.positions(texts.ids[span.tokens])
    return rows


def attend_packed(
    turns: Turns | None, groups: tuple[TokenSpan, ...], editing: tuple[int, RunEdits] | None = None
) -> Attend:
    """Attention within each of several texts whose tokens are packed into one sequence, (token, width).

    editing   the number of the layer, and edits that change it
    """

    def attend(layer: MultiHead, x: Array) -> Heads:
        queries, keys, values = layer.projections(x, turns)
        attentions: dict[TokenSpan, Attention] = {}
        rows = []
        for group in groups:
            tokens = group.tokens
            if group.stop - group.start == group.length >= LONG:  # kept for the reading, with its row state
                attentions[group] = layer.look(queries[:, tokens], keys[:, tokens])
                rows.append(layer.concatenate(attentions[group] @ values[:, tokens]))
            else:
                of_texts = [_by_text(part[:, tokens], group.length) for part in (queries, keys, values)]
                outputs = layer.concatenate(layer.look(of_texts[0], of_texts[1]) @ of_texts[2])
                rows.append(outputs.reshape(-1, outputs.shape[-1]))
        outputs = rows[0] if len(rows) == 1 else np.concatenate(rows)
        heads = PackedHeads(queries, keys, values, attentions)
        return Heads(outputs, heads) if editing is None else edit_packed(layer, heads, outputs, groups, *editing)

    return attend


def edit_packed(
    layer: MultiHead, heads: PackedHeads, outputs: Array, groups: tuple[TokenSpan, ...], number: int, edit: RunEdits
) -> Heads:
    """The outputs of all heads, (token, head · value_dim), changed in place."""
    lengths = [group.length for group in groups for _ in range(group.start, group.stop, group.length)]
    apart = documents(lengths=lengths) if len(lengths) > 1 else None
    attention = layer.look(heads.queries[None], heads.keys[None], mask=apart)
    changed = edit.of_call(number, attention, heads.values[None])
    changed.apply(outputs.reshape(1, len(outputs), layer.heads, -1).swapaxes(1, 2))  # a view
    return Heads(outputs, heads._replace(hidden=changed.mask_within) if changed.edges else heads)


def _by_text(rows: Array, length: int) -> Array:
    """(head, text · token, head_dim) → (text, head, token, head_dim), a view."""
    return rows.reshape(rows.shape[0], -1, length, rows.shape[-1]).swapaxes(0, 1)

"""Tokens through the blocks of a model: texts of any lengths at once, without padding.

Everything but attention treats each token for itself, so the tokens of all texts lie behind each other and go through
every map as one product. Attention takes texts of one length at a time, side by side: no mask hides padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np

from regard.arrays import Array
from regard.attention import Attention
from regard.attention.row_statistics import LONG
from regard.kernels.memory import empty
from regard.layers import Encoder, Learned, MultiHead, Rotary, Seen, Transformer
from regard.layers.encoder import fed_forward
from regard.layers.positions import Turns


class Place(NamedTuple):
    """Where a text, or texts of one length, lie among all tokens."""

    start: int
    stop: int
    length: int  # of each text


@dataclass(frozen=True, eq=False)
class Packed:
    """Texts as numbers, behind each other, ordered by length."""

    ids: Array  # (token,)
    positions: Array  # (token,): each within its text
    lengths: Array  # (token,): of the text of each token
    groups: tuple[Place, ...]  # texts of one length
    places: tuple[Place, ...]  # of each text, in the order they were given


def packed(texts: Sequence[Sequence[int]]) -> Packed:
    """Texts made of numbers of tokens, ready to run.

    >>> packed([[7, 8, 9], [4, 5], [1, 2]]).ids.tolist()
    [4, 5, 1, 2, 7, 8, 9]
    """
    order = sorted(range(len(texts)), key=lambda text: len(texts[text]))
    groups, places, start = [], {}, 0
    for length, of_one_length in groupby(order, key=lambda text: len(texts[text])):
        first = start
        for text in of_one_length:
            places[text] = Place(start, start + length, length)
            start += length
        groups.append(Place(first, start, length))
    ids = np.fromiter((number for text in order for number in texts[text]), np.int64, start)
    positions = np.concatenate([np.arange(len(texts[text])) for text in order])
    lengths = np.repeat([len(texts[text]) for text in order], [len(texts[text]) for text in order])
    return Packed(ids, positions, lengths, tuple(groups), tuple(places[text] for text in range(len(texts))))


class Step(NamedTuple):
    """What one block did to all tokens."""

    given: Array  # (token, width): what it got
    result: Array  # (token, width)
    queries: Array  # (head, token, size)
    keys: Array  # (key head, token, size)
    values: Array
    outputs: Array  # (token, head · size): the heads of each token concatenated
    attentions: Mapping[Place, Attention]  # those that were made of a whole text

    def seen(self, layer: MultiHead, place: Place) -> Seen:
        """The attention of one text: views of what all texts have."""
        tokens = slice(place.start, place.stop)
        attention = self.attentions.get(place) or layer.look(self.queries[:, tokens], self.keys[:, tokens])
        return Seen(attention, self.values[:, tokens])

    def outputs_of(self, layer: MultiHead, place: Place) -> Array:
        """What the heads gave for one text, (head, token, size)."""
        return layer.split(self.outputs[place.start : place.stop])


def run(model: Transformer, texts: Packed, layers: int | None = None) -> Iterator[Step]:
    """What every block does, one after the other; the first `layers` of them alone, if given."""
    x = embedded(model, texts.ids, _rows_of_positions(model, texts))
    turns: dict[Rotary | None, Turns | None] = {None: None}
    for block in model.encoders[:layers]:
        rotary = block.attention.rotary
        if rotary is not None and rotary not in turns:  # mostly one for all blocks
            turns[rotary] = rotary.at(texts.positions, x, texts.lengths)
        step = through(block, x, turns[rotary], texts.groups)
        yield step
        x = step.result


def _rows_of_positions(model: Transformer, texts: Packed) -> Array:
    """Positions, or in RoBERTa, where padding tokens take none, the rows of the table of positions."""
    if not isinstance(model.positions, Learned) or model.positions.padding is None:
        return texts.positions
    of_texts = [texts.ids[place.start : place.stop] for place in texts.places]
    rows = np.empty_like(texts.positions)
    for place, ids in zip(texts.places, of_texts, strict=True):
        rows[place.start : place.stop] = model.positions.positions(ids)
    return rows


def embedded(model: Transformer, ids: Array, positions: Array) -> Array:
    """Vectors of tokens with their positions, (token, width)."""
    x = _rows(model.embedding.weight, ids)
    if isinstance(model.positions, Learned):
        x += _rows(model.positions.weight, positions)
    return x if model.embedding_norm is None else model.embedding_norm(x)


def through(block: Encoder, x: Array, turns: Turns | None, groups: tuple[Place, ...]) -> Step:
    """One block over tokens (token, width) of several texts."""
    layer = block.attention
    queries, keys, values = layer.projections(block.norm_1(x) if block.norm_first else x, turns)
    attentions: dict[Place, Attention] = {}
    rows = []
    for place in groups:
        tokens = slice(place.start, place.stop)
        if place.stop - place.start == place.length >= LONG:  # its row state is kept: the reading gets this very one
            attentions[place] = layer.look(queries[:, tokens], keys[:, tokens])
            rows.append(layer.concatenate(attentions[place] @ values[:, tokens]))
        else:
            of_texts = [_side_by_side(part[:, tokens], place.length) for part in (queries, keys, values)]
            outputs = layer.concatenate(layer.look(of_texts[0], of_texts[1]) @ of_texts[2])
            rows.append(outputs.reshape(-1, outputs.shape[-1]))
    outputs = rows[0] if len(rows) == 1 else np.concatenate(rows)
    return Step(x, finished(block, x, outputs), queries, keys, values, outputs, attentions)


def finished(block: Encoder, x: Array, outputs: Array) -> Array:
    """The rest of a block, from the concatenated outputs of its heads on."""
    after = block.attention.w_o(outputs, residual=x) if block.attention.w_o is not None else outputs + x
    after = after if block.norm_first else block.norm_1(after)
    return fed_forward(block.feed_forward, block.norm_2, block.norm_first, after)


def _rows(table: Array, numbers: Array) -> Array:
    # "clip" saves a copy; the tokeniser's numbers and the positions are known to be in the tables.
    return table.take(numbers, axis=0, out=empty((len(numbers), table.shape[1]), table.dtype), mode="clip")


def _side_by_side(rows: Array, length: int) -> Array:
    """(head, text · token, size) → (text, head, token, size), a view."""
    return rows.reshape(rows.shape[0], -1, length, rows.shape[-1]).swapaxes(0, 1)

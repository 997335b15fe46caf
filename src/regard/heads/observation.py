"""What the heads of each layer compute while a model reads a batch of documents."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from regard.arrays import Array
from regard.attention import Attention
from regard.heads.documents import Document
from regard.models.forward import packed, run

if TYPE_CHECKING:
    from regard.models.model import Model

TILE = 1 << 21  # weights of a tile: 8 MiB
KEPT = 4  # tiles that are kept


class Tile(NamedTuple):
    """Some rows of the attention matrices of some documents."""

    documents: slice
    queries: slice
    weights: Array  # (document, head, query, key)
    entropy: Array  # (document, head, query)
    distance: Array


@dataclass(frozen=True, eq=False)
class Group:
    """The heads of one layer over documents of equal length."""

    layer: int
    places: tuple[int, ...]  # of the documents, in the batch
    attention: Attention  # (document, head, query, key)
    values: Array  # (document, key head, key, head_dim)
    outputs: Array  # (document, query, head, head_dim)

    def tiles(self) -> Iterable[Tile]:
        """All weights in tiles of bounded size: several short documents, or some rows of a long one.

        They are kept where they are few, because statistics and examples both need them.
        """
        if "_kept" in self.__dict__:
            return self.__dict__["_kept"]  # type: ignore[no-any-return]
        if math.prod(self.attention.shape) > KEPT * TILE:
            return self._tiles()
        self.__dict__["_kept"] = kept = list(self._tiles())
        return kept

    def _tiles(self) -> Iterator[Tile]:
        count, heads, queries, keys = self.attention.shape
        documents = max(1, TILE // (heads * queries * keys))
        rows = queries if documents > 1 else max(1, min(queries, TILE // (heads * keys)))
        for first in range(0, count, documents):
            chosen = slice(first, min(first + documents, count))
            part = self.attention.select(batch=chosen)
            distance, entropy = part.distance(), part.entropy()  # one pass for both and for the row state
            for row in range(0, queries, rows):
                asked = slice(row, min(row + rows, queries))
                yield Tile(chosen, asked, part[:, :, asked, :], entropy[:, :, asked], distance[:, :, asked])

    def whole(self) -> Iterator[tuple[slice, Array]]:
        """Documents and all their weights, (document, head, query, key): for sentences, which are short."""
        count, *of_document = self.attention.shape
        if math.prod(of_document) <= TILE:
            for tile in self.tiles():
                yield tile.documents, tile.weights
        else:
            for place in range(count):
                yield slice(place, place + 1), self.attention.select(batch=slice(place, place + 1))[...]


def observe(model: Model, documents: Sequence[Document], layers: int | None = None) -> Iterator[Group]:
    """Every layer's heads for a batch of documents, layer by layer, in groups of equal length."""
    together = packed([document.ids for document in documents])  # type: ignore[misc]
    at = {place.start: number for number, place in enumerate(together.places)}
    for layer, step in enumerate(run(model.transformer, together, layers)):
        multi_head = model.blocks[layer].attention
        for group in together.groups:
            tokens, length = slice(group.start, group.stop), group.length
            queries, keys, values = (
                part[:, tokens].reshape(len(part), -1, length, part.shape[-1]).swapaxes(0, 1)
                for part in (step.heads.queries, step.heads.keys, step.heads.values)
            )
            outputs = step.outputs[tokens].reshape(-1, length, multi_head.heads, values.shape[-1])
            places = tuple(at[start] for start in range(group.start, group.stop, length))
            yield Group(layer, places, multi_head.look(queries, keys), np.asarray(values), outputs)

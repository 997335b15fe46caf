"""What the heads of each layer compute while a model reads a batch of documents."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.arrays import Array, chunks
from regard.attention import Attention
from regard.engines.interface import ROW_STATE, RowState
from regard.engines.select import engine_for
from regard.heads.documents import TokenChunk
from regard.reading.reader import LayerHeads, Reader

TILE = 1 << 20  # weights of a tile: 4 MiB
KEPT = 8  # tiles that are kept


class Tile(NamedTuple):
    """Some rows of the attention matrices of some documents."""

    documents: slice
    queries: slice
    weights: Array  # (document, head, query, key)
    entropy: Array  # (document, head, query)
    distance: Array


@dataclass(frozen=True, eq=False)
class EqualLengths:
    """Documents of equal length; their tokens as arrays (document, token), which `TokenChunk` describes."""

    documents: tuple[TokenChunk, ...]
    indices: tuple[int, ...]  # in the batch
    ids: NDArray[Any]
    word: NDArray[Any]
    content: NDArray[Any]
    special: NDArray[Any]
    punctuation: NDArray[Any]

    @classmethod
    def of(cls, documents: tuple[TokenChunk, ...], indices: tuple[int, ...]) -> EqualLengths:
        """The documents at some indices of a batch."""
        names = ("ids", "word", "content", "special", "punctuation")
        return cls(
            documents, indices, *(np.stack([getattr(document, name) for document in documents]) for name in names)
        )

    @cached_property
    def flags(self) -> NDArray[np.uint8]:
        """1 for content, 2 for special tokens, 4 for punctuation."""
        flags: NDArray[np.uint8] = (self.content + 2 * self.special + 4 * self.punctuation).astype(np.uint8)
        return flags

    @cached_property
    def same_token(self) -> NDArray[np.int32]:
        """The next token with the same id, in a circle."""
        return circles(self.ids)

    @cached_property
    def same_word(self) -> NDArray[np.int32]:
        """The next piece of the same word, in a circle."""
        return circles(self.word)

    @property
    def causal(self) -> bool:
        """Whether the model that reads them is causal."""
        return self.documents[0].causal

    def part(self, some: slice) -> EqualLengths:
        """Some of the documents."""
        return EqualLengths.of(self.documents[some], self.indices[some])


def circles(numbers: NDArray[Any]) -> NDArray[np.int32]:
    """Of each number the column of the next equal one in its row; of the last one that of the first.

    >>> circles(np.array([[7, 5, 7, 7]])).tolist()
    [[2, 1, 3, 0]]
    """
    order = np.argsort(numbers, axis=1, kind="stable")
    ordered = np.take_along_axis(numbers, order, axis=1)
    begins = np.ones(ordered.shape, bool)
    begins[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    columns = np.arange(ordered.shape[1])
    first = np.maximum.accumulate(np.where(begins, columns, 0), axis=1)  # where each run of equal numbers begins
    ends = np.ones(ordered.shape, bool)
    ends[:, :-1] = begins[:, 1:]
    after = np.where(ends, first, columns + 1)
    following = np.empty(numbers.shape, np.int32)
    np.put_along_axis(following, order, np.take_along_axis(order, after, axis=1).astype(np.int32), axis=1)
    return following


@dataclass(frozen=True, eq=False)
class LayerGroup:
    """The heads of one layer over documents of equal length."""

    of_layer: LayerHeads
    texts: EqualLengths
    tokens: slice  # among all of the batch
    attention: Attention  # (document, head, query, key)

    @property
    def layer(self) -> int:
        """The number of the layer."""
        return self.of_layer.layer

    def tiles(self) -> Iterable[Tile]:
        """All weights in tiles of bounded size: several short documents, or some rows of a long one.

        They are kept where they are few, because statistics, relations and examples all need them.
        """
        return self._tiles() if self._kept is None else self._kept

    @cached_property
    def _kept(self) -> list[Tile] | None:
        return list(self._tiles()) if math.prod(self.attention.shape) <= KEPT * TILE else None

    def _tiles(self) -> Iterator[Tile]:
        count, heads, queries, keys = self.attention.shape
        documents = max(1, TILE // (heads * queries * keys))
        rows = queries if documents > 1 else max(1, min(queries, TILE // (heads * keys)))
        engine = engine_for(self.attention.queries)
        for chosen in chunks(count, documents):
            scores = self.attention.select(batch=chosen).scores
            statistics = engine.forward(scores, None, ("entropy", "distance", *ROW_STATE))[1]
            state = RowState.of(statistics)
            for some in chunks(queries, rows):
                weights = engine.tile(scores, state[:, :, some], "weight", some)
                entropy, distance = (statistics[name][:, :, some] for name in ("entropy", "distance"))
                yield Tile(chosen, some, weights, entropy, distance)

    def whole(self) -> Iterator[tuple[slice, Array]]:
        """Documents and all their weights, (document, head, query, key): for sentences, which are short."""
        count, *of_document = self.attention.shape
        if math.prod(of_document) <= TILE:
            for tile in self.tiles():
                yield tile.documents, tile.weights
        else:
            for document in range(count):
                chosen = slice(document, document + 1)
                yield chosen, self.attention.select(batch=chosen)[...]


def observe(model: Reader, documents: Sequence[TokenChunk], layers: int | None = None) -> Iterator[LayerGroup]:
    """Every layer's heads for a batch of documents, in groups of equal length."""
    texts: dict[tuple[int, ...], EqualLengths] = {}  # the same for all layers
    for of_layer, indices, tokens, attention in model.observe([document.ids for document in documents], layers):
        if indices not in texts:
            texts[indices] = EqualLengths.of(tuple(documents[index] for index in indices), indices)
        yield LayerGroup(of_layer, texts[indices], tokens, attention)

"""Weights by word: to a word the sum over its pieces, from a word the mean over them (Clark et al., 2019).

One query takes O(n) memory; all queries are computed in blocks of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard import validate
from regard.arrays import numpy_of
from regard.attention import Attention
from regard.attention.index import LIMIT
from regard.errors import TooLarge, size_in_bytes
from regard.reading.tokens import Word

if TYPE_CHECKING:
    from regard.reading.reading import Reading

Numbers = NDArray[np.float64]
Unit = Literal["word", "token"]
BLOCK = 1 << 20  # weights in a block of rows: 8 MiB of float64


class Block(NamedTuple):
    """Some rows of one layer's weights by word."""

    layer: int
    heads: range  # which heads these are
    first: int  # the first query
    weights: Numbers  # (head, query word, key word)


def edges_of(words: tuple[Word, ...]) -> NDArray[np.int64]:
    """The first token of each word, and the end of the last one."""
    return np.array([*(word.first for word in words), words[-1].last], dtype=np.int64)


def layers_meant(reading: Reading, layer: int | None) -> range:
    """One layer, or all of them."""
    if layer is None:
        return range(reading.layers)
    place = validate.index("layer", layer, reading.layers)
    return range(place, place + 1)


def heads_meant(attention: Attention, head: int | None) -> range:
    """One head, or all of them."""
    if head is None:
        return range(attention.shape[0])
    place = validate.index("head", head, attention.shape[0])
    return range(place, place + 1)


def of_word(reading: Reading, word: Word, layer: int, heads: range) -> Numbers:
    """The weights of one word on every word in some heads of a layer, (head, word); O(n)."""
    attention = reading.seen[layer].attention
    rows = numpy_of(attention[heads.start : heads.stop, word.first : word.last, :])  # (head, piece, key)
    return by_word(reading, rows.mean(axis=1, dtype=np.float64))


def rows_of_word(
    reading: Reading, word: Word, layer: int | None, head: int | None
) -> Iterator[tuple[int, int, Numbers]]:
    """Layer, head, and the weights of one word on every word, (word,), for every head that is meant; O(n) each."""
    for place in layers_meant(reading, layer):
        heads = heads_meant(reading.seen[place].attention, head)
        for number, row in zip(heads, of_word(reading, word, place, heads), strict=True):
            yield place, number, row


def by_word(reading: Reading, of_tokens: Any) -> Numbers:
    """Sums over the tokens of each word, along the last axis."""
    summed: Numbers = np.add.reduceat(np.asarray(of_tokens, np.float64), edges_of(reading.words)[:-1], axis=-1)
    return summed


def averaged(reading: Reading, word: Word, layer: int | None, head: int | None) -> Numbers:
    """The weights of one word, averaged over the heads and layers that are meant: (word,)."""
    found = []
    for place in layers_meant(reading, layer):
        heads = heads_meant(reading.seen[place].attention, head)
        found.append(of_word(reading, word, place, heads).mean(axis=0))
    mean: Numbers = np.mean(found, axis=0)
    return mean


def blocks(reading: Reading, layer: int | None, head: int | None, asking: range | None = None) -> Iterator[Block]:
    """All weights by word, or those of some queries, a few rows at a time, pooled exactly."""
    edges = edges_of(reading.words)
    count = len(reading.words)
    asking = range(count) if asking is None else asking
    for place in layers_meant(reading, layer):
        attention = reading.seen[place].attention
        heads = heads_meant(attention, head)
        part = attention.select(head=slice(heads.start, heads.stop))
        step = max(1, BLOCK // (count * len(heads)))
        for first in range(asking.start, asking.stop, step):
            rows = edges[first : min(first + step, asking.stop) + 1]
            pooled = part.pooled(row_edges=rows, column_edges=edges, pool="words")
            yield Block(place, heads, first, numpy_of(pooled.array).astype(np.float64))


def averaged_blocks(
    reading: Reading, layer: int | None, head: int | None, asking: range | None = None
) -> Iterator[tuple[int, Numbers]]:
    """The same, averaged over the heads and layers that are meant: (first query, (query, key))."""
    asking = range(len(reading.words)) if asking is None else asking
    most = max(seen.attention.shape[0] for seen in reading.seen)
    step = max(1, BLOCK // (len(reading.words) * most))
    for first in range(asking.start, asking.stop, step):
        rows = range(first, min(first + step, asking.stop))
        total, layers = np.zeros((len(rows), len(reading.words))), 0
        for block in blocks(reading, layer, head, rows):
            total += block.weights.mean(axis=0)
            layers += 1
        yield first, total / layers


def matrix(reading: Reading, layer: int | None, head: int | None, by: Unit, limit: int | None = LIMIT) -> Numbers:
    """All weights, averaged over the heads and layers that are meant: (word, word) or (token, token)."""
    validate.choice("by", by, ("word", "token"))
    count = len(reading.words) if by == "word" else len(reading.tokens)
    needed = 8 * count * count
    if limit is not None and needed > limit:
        raise TooLarge(
            f"The weights between {count:,} {by}s would take {size_in_bytes(needed)}, the limit is "
            f"{size_in_bytes(limit)}.\nUse looks(word) for one word, attention(layer).pooled((512, 512)) for a "
            f"picture, or allow it: weights(…, limit={needed})."
        )
    if by == "word":
        return np.concatenate([rows for _, rows in averaged_blocks(reading, layer, head)])
    total, places = np.zeros((count, count)), layers_meant(reading, layer)
    for place in places:
        total += over_heads(reading.seen[place].attention, head)
    return total / len(places)


def over_heads(attention: Attention, head: int | None = None) -> Numbers:
    """The mean over heads of a layer's weights, (token, token), built head by head."""
    heads = heads_meant(attention, head)
    total = np.zeros(attention.shape[1:])
    for place in heads:
        total += numpy_of(attention.select(head=place).dense(limit=None))
    return total / len(heads)

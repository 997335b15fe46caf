"""Examples of what a head attends to, by tenths of the weight, chosen while a corpus streams by.

For each query the strongest link to another content token counts. Of the links in each tenth (0 to 0.1, …, 0.9 to 1)
those with the smallest hashes are kept: a uniform sample that does not depend on the order, so that the samples of
parts merge into the sample of the whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.engines.select import native_engine
from regard.heads.documents import Document
from regard.heads.observation import Group

KEPT = 3  # links for each head and tenth
CONTEXT = 90  # characters around a query or key


class Link(NamedTuple):
    """A query, its most attended key, and the text around them."""

    layer: int
    head: int
    tenth: int  # 0 to 9
    hash: int
    weight: float
    text: str  # an excerpt
    query: tuple[int, int]  # where in the excerpt, in characters
    key: tuple[int, int]


class Exemplars:
    """The links that are kept, and how many there were, for each head and tenth."""

    def __init__(self, layers: int, heads: int, kept: int = KEPT) -> None:
        self.counts = np.zeros((layers, heads, 10), np.int64)
        self.links: dict[tuple[int, int, int], list[Link]] = {}
        self.kept = kept

    def add(self, group: Group, names: Sequence[int]) -> None:
        """Count the links of a group of documents; `names` are numbers that tell documents of a corpus apart."""
        texts = group.texts
        for tile in group.tiles():
            may = texts.content[tile.documents]
            best, weight = strongest(tile.weights, may, tile.queries.start)
            asks = may[:, None, tile.queries] & (weight > 0)
            first = tile.documents.start
            self._keep(group.layer, first, tile.queries.start, weight, best, asks, texts.documents, names)

    def _keep(
        self, layer: int, first: int, row: int, weight: Any, best: Any, asks: Any, documents: Sequence[Document],
        names: Sequence[int],
    ) -> None:  # fmt: skip
        document, head, query = np.nonzero(asks)
        if not len(document):
            return
        weights, keys = weight[document, head, query], best[document, head, query]
        tenth = np.minimum((weights * 10).astype(np.int64), 9)
        self.counts[layer] += np.bincount(head * 10 + tenth, minlength=self.counts[layer].size).reshape(-1, 10)
        name = np.array(names, np.uint64)[first + document]
        hashes = mixed(name, (layer * 4096 + head).astype(np.uint64), (row + query).astype(np.uint64))
        order = np.lexsort((hashes, tenth, head))
        place = head[order] * 10 + tenth[order]
        starts = np.flatnonzero(np.diff(place, prepend=-1))
        rank = np.arange(len(order)) - np.repeat(starts, np.diff([*starts, len(order)]))
        for one in order[rank < self.kept]:
            held = self.links.setdefault((layer, int(head[one]), int(tenth[one])), [])
            if len(held) < self.kept or int(hashes[one]) < held[-1].hash:
                source = documents[first + document[one]]
                text, *spans = excerpt(source, int(row + query[one]), int(keys[one]))
                held.append(
                    Link(layer, int(head[one]), int(tenth[one]), int(hashes[one]), float(weights[one]), text, *spans)
                )
                held.sort(key=lambda link: link.hash)
                del held[self.kept :]

    def merge(self, other: Exemplars) -> None:
        """Add those of another part."""
        self.counts += other.counts
        for place, links in other.links.items():
            together = {link.hash: link for link in [*self.links.get(place, []), *links]}
            self.links[place] = sorted(together.values(), key=lambda link: link.hash)[: self.kept]

    def sorted_links(self) -> list[Link]:
        """All links, by layer, head, tenth and hash."""
        return [link for place in sorted(self.links) for link in self.links[place]]


def strongest(weights: NDArray[Any], may: NDArray[Any], first: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Of every query, from position `first` on, the other key of those that may be chosen with the largest weight.

    weights   (document, head, query, key)
    may       (document, key)

    >>> strongest(np.array([[[[0.5, 0.2, 0.3], [0.1, 0.8, 0.1]]]], np.float32), np.array([[False, True, True]]), 0)[0]
    array([[[2, 2]]], dtype=int32)
    """
    native = native_engine()
    if native is not None and weights.dtype == np.float32:
        found: tuple[NDArray[Any], NDArray[Any]] = native.strongest_links(weights, may, first)
        return found
    rows = np.arange(first, first + weights.shape[2])
    can = may[:, None, None, :] & (rows[:, None] != np.arange(weights.shape[3]))
    chosen = np.where(can, weights, -1)
    best = chosen.argmax(axis=3).astype(np.int32)
    return best, np.take_along_axis(chosen, best[..., None], axis=3)[..., 0]


def mixed(*numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash of several 64-bit numbers (splitmix64), of 63 bits: Parquet's integers are signed."""
    state: Any = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        for number in numbers:
            mixed_in = np.asarray(number, np.uint64) + state * np.uint64(0x9E3779B97F4A7C15)
            mixed_in = (mixed_in ^ (mixed_in >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed_in = (mixed_in ^ (mixed_in >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state = mixed_in ^ (mixed_in >> np.uint64(31))
    found: NDArray[np.uint64] = np.asarray(state >> np.uint64(1))
    return found


def named(*parts: Any) -> int:
    """A number for a document, from what tells it apart."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "big") >> 1


def excerpt(document: Document, query: int, key: int) -> tuple[str, tuple[int, int], tuple[int, int]]:
    """The text around two tokens, and where they stand in it."""
    (a, b), (c, d) = document.spans[query], document.spans[key]
    start, stop = max(min(a, c) - CONTEXT // 2, 0), min(max(b, d) + CONTEXT // 2, len(document.text))
    if stop - start > 4 * CONTEXT:  # far apart: only the surroundings of the query, the key by its text alone
        start, stop = max(a - CONTEXT, 0), min(b + CONTEXT, len(document.text))
        shown = document.text[start:stop]
        tail = f" … {document.text[c:d]}"
        return shown + tail, (a - start, b - start), (len(shown) + 3, len(shown) + len(tail))
    return document.text[start:stop], (a - start, b - start), (c - start, d - start)

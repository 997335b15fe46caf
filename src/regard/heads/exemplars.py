"""Examples of what a head attends to, chosen while a corpus streams by: the strongest links, and links of all weights.

For each query the strongest link to another content token counts. Kept are the strongest of each head, and of the links
in each tenth of the weight (0 to 0.1, …, 0.9 to 1) those with the smallest hashes: a uniform sample that does not
depend on the order. Those of parts merge into those of the whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.engines.select import native_engine
from regard.heads.documents import TokenChunk
from regard.heads.observation import EqualLengths, LayerGroup, Tile

KEPT = 3  # links for each head and tenth, and strongest ones
TENTHS = 10
STRONGEST = TENTHS  # in place of a tenth
CONTEXT = 90  # characters around a query or key

COLUMNS = {"layer": np.int32, "head": np.int32, "tenth": np.int32, "hash": np.int64, "weight": np.float64}

Excerpt = tuple[str, tuple[int, int], tuple[int, int]]  # a text, and where the query and the key stand in it
ExcerptOf = Callable[[int], Excerpt]  # by the number of a link


class Link(NamedTuple):
    """A query, its most attended key, and the text around them."""

    layer: int
    head: int
    tenth: int  # 0 to 9, or STRONGEST
    hash: int
    weight: float
    text: str  # an excerpt
    query: tuple[int, int]  # where in the excerpt, in characters
    key: tuple[int, int]

    @property
    def order(self) -> tuple[float, int]:
        """Smaller ones are kept."""
        return (-self.weight if self.tenth == STRONGEST else 0.0), self.hash


class Exemplars:
    """The links that are kept, and how many there were, for each head and tenth."""

    def __init__(self, layers: int, heads: int, kept: int = KEPT) -> None:
        self.counts = np.zeros((layers, heads, TENTHS), np.int64)
        self.links: dict[tuple[int, int, int], list[Link]] = {}
        self.kept = kept
        # The last that is kept, or what any link comes before: most links are left out without a second look.
        self.last_hash = np.full((layers, heads, TENTHS + 1), np.iinfo(np.int64).max, np.uint64)
        self.last_weight = np.full((layers, heads), -1.0)

    def add(self, group: LayerGroup, names: Sequence[int]) -> None:
        """Count the links of a group of documents; `names` are numbers that tell documents of a corpus apart."""
        for tile in group.tiles():
            self._add_tile(tile, group.texts, group.layer, np.array(names, np.uint64))

    def _add_tile(self, tile: Tile, texts: EqualLengths, layer: int, names: NDArray[np.uint64]) -> None:
        may = texts.content[tile.documents]
        best, weights = strongest(tile.weights, may, tile.queries.start)
        document, head, query = np.nonzero(may[:, None, tile.queries] & (weights > 0))
        weight, key = weights[document, head, query], best[document, head, query]
        document, query = document + tile.documents.start, query + tile.queries.start
        hashes = hash_numbers(names[document], (layer * 4096 + head).astype(np.uint64), query.astype(np.uint64))
        tenth = np.minimum((weight * TENTHS).astype(np.int64), TENTHS - 1)
        counts = np.bincount(head * TENTHS + tenth, minlength=self.counts[layer].size)
        self.counts[layer] += counts.reshape(-1, TENTHS)

        def excerpt_of(link: int) -> Excerpt:
            return excerpt(texts.documents[document[link]], int(query[link]), int(key[link]))

        layers = np.full(len(head), layer)
        for tenths in (tenth, np.full(len(head), STRONGEST)):
            self._keep(layers, head, tenths, hashes, weight, excerpt_of)

    def _keep(self, layer: Any, head: Any, tenth: Any, hashes: Any, weight: Any, excerpt_of: ExcerptOf) -> None:
        """Keep the first of some links, given as arrays."""
        last_weight, last_hash = self.last_weight[layer, head], self.last_hash[layer, head, tenth]
        is_strongest = tenth == STRONGEST
        ahead = np.where(is_strongest, weight > last_weight, False)
        level = np.where(is_strongest, weight == last_weight, True)
        some = np.flatnonzero(ahead | (level & (hashes < last_hash)))
        if not len(some):
            return
        bin_number = (layer[some] * self.counts.shape[1] + head[some]) * (TENTHS + 1) + tenth[some]
        order = np.lexsort((hashes[some], np.where(is_strongest[some], -weight[some], 0), bin_number))
        starts = np.flatnonzero(np.diff(bin_number[order], prepend=-1))
        rank = np.arange(len(order)) - np.repeat(starts, np.diff([*starts, len(order)]))
        for number in some[order[rank < self.kept]].tolist():
            key = int(layer[number]), int(head[number]), int(tenth[number])
            link = Link(*key, int(hashes[number]), float(weight[number]), *excerpt_of(number))
            links = [*(before for before in self.links.get(key, []) if before.hash != link.hash), link]
            self.links[key] = links = sorted(links, key=lambda link: link.order)[: self.kept]
            if len(links) == self.kept:
                self.last_hash[key] = links[-1].hash
                if key[2] == STRONGEST:
                    self.last_weight[key[:2]] = links[-1].weight

    def columns(self) -> dict[str, Any]:
        """All links as columns, by layer, head, tenth and order; `links` counts all that its head has in this tenth."""
        links = self.sorted_links()
        columns: dict[str, Any] = {
            name: np.array([getattr(link, name) for link in links], kind) for name, kind in COLUMNS.items()
        }
        of_head = np.concatenate([self.counts, self.counts.sum(axis=2, keepdims=True)], axis=2)
        columns["text"] = [link.text for link in links]
        columns |= {name: np.array([getattr(link, name) for link in links], np.int32) for name in ("query", "key")}
        columns["links"] = of_head[columns["layer"], columns["head"], columns["tenth"]]
        return columns

    def merge(self, columns: Mapping[str, Any]) -> None:
        """Add those of another part, given as columns."""
        index = columns["layer"], columns["head"], columns["tenth"]
        tenths = np.flatnonzero(index[2] < TENTHS)
        flat = np.ravel_multi_index([array[tenths] for array in index], self.counts.shape)
        different, at = np.unique(flat, return_index=True)
        self.counts.reshape(-1)[different] += columns["links"][tenths[at]]

        def excerpt_of(link: int) -> Excerpt:
            query, key = (tuple(columns[name][link].tolist()) for name in ("query", "key"))
            return columns["text"][link], query, key

        self._keep(*index, columns["hash"].astype(np.uint64), columns["weight"], excerpt_of)

    def sorted_links(self) -> list[Link]:
        """All links, by layer, head, tenth and order."""
        return [link for key in sorted(self.links) for link in self.links[key]]


def strongest(weights: NDArray[Any], may: NDArray[Any], first: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Of every query, from position `first` on, the other key of those that may be chosen with the largest weight.

    weights   (document, head, query, key)
    may       (document, key)

    >>> strongest(np.array([[[[0.5, 0.2, 0.3], [0.1, 0.8, 0.1]]]], np.float32), np.array([[False, True, True]]), 0)[0]
    array([[[2, 2]]], dtype=int32)
    """
    native = native_engine()
    if native is not None and weights.dtype == np.float32:
        keys_and_weights: tuple[NDArray[Any], NDArray[Any]] = native.strongest_links(weights, may, first)
        return keys_and_weights
    rows = np.arange(first, first + weights.shape[2])
    can = may[:, None, None, :] & (rows[:, None] != np.arange(weights.shape[3]))
    chosen = np.where(can, weights, -1)
    best = chosen.argmax(axis=3).astype(np.int32)
    return best, np.take_along_axis(chosen, best[..., None], axis=3)[..., 0]


def hash_numbers(*numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash of several 64-bit numbers (splitmix64), of 63 bits: Parquet's integers are signed."""
    state: Any = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        for number in numbers:
            mixed = np.asarray(number, np.uint64) + state * np.uint64(0x9E3779B97F4A7C15)
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state = mixed ^ (mixed >> np.uint64(31))
    return np.asarray(state >> np.uint64(1))


def document_number(unit: int, document: int) -> int:
    """A number that tells the documents of a corpus apart."""
    return int.from_bytes(hashlib.blake2b(repr((unit, document)).encode(), digest_size=8).digest(), "big") >> 1


def excerpt(document: TokenChunk, query: int, key: int) -> Excerpt:
    """The text around two tokens, and where they stand in it."""
    (a, b), (c, d) = document.spans[query], document.spans[key]
    start, stop = max(min(a, c) - CONTEXT // 2, 0), min(max(b, d) + CONTEXT // 2, len(document.text))
    if stop - start > 4 * CONTEXT:  # far apart: only the surroundings of the query, the key by its text alone
        start, stop = max(a - CONTEXT, 0), min(b + CONTEXT, len(document.text))
        shown = document.text[start:stop]
        tail = f" … {document.text[c:d]}"
        return shown + tail, (a - start, b - start), (len(shown) + 3, len(shown) + len(tail))
    return document.text[start:stop], (a - start, b - start), (c - start, d - start)

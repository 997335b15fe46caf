"""Attention between words, from attention between tokens: weights, contributions ‖weight · v · W_O‖, and rollout.

The weight on a word is the sum over its pieces, the weights of a word are means over its pieces (Clark et al., 2019).
One query takes O(n) memory; all queries are computed in blocks of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard import validate
from regard.arrays import Array, gram_lengths, numpy_of
from regard.attention import Attention
from regard.engines.select import native_engine
from regard.reading.words import Word

Numbers = NDArray[np.float64]
Unit = Literal["word", "token"]
BLOCK = 1 << 20  # weights in a block of rows: 8 MiB of float64
MOST_ROWS = 12  # words that `of_words` computes of layers with more weights than this


class WordRows(NamedTuple):
    """Some rows of one layer's weights by word."""

    layer: int
    heads: range
    first: int  # the first query
    weights: Numbers  # (head, query word, key word)


def _select(axis: str, given: int | None, count: int) -> range:
    """The given layer or head, or all of them for None."""
    if given is None:
        return range(count)
    index = validate.index(axis, given, count)
    return range(index, index + 1)


def pool_words(weights: NDArray[Any], edges: NDArray[np.int64]) -> NDArray[Any]:
    """(…, token, token) → (…, word, word): the sum of the weights to a word, the mean of those from it."""
    to_words = np.add.reduceat(weights, edges[:-1], axis=-1)
    from_words = np.add.reduceat(to_words, edges[:-1], axis=-2)
    pooled: NDArray[Any] = from_words / np.diff(edges).astype(weights.dtype)[:, None]
    return pooled


def most_attended(weights: NDArray[Any], edges: Any, counts: Any, aside: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Of every cell the other cell, not set aside, with the largest weight, (document, head, cell); −1 without any.

    weights   (document, head, token, token)
    edges     (document, cell + 1): the first token of each cell, and the end of the last
    counts    (document,): cells, of which later ones are not used

    >>> weights = np.array([[[[0.1, 0.5, 0.4], [0.6, 0.1, 0.3], [0.2, 0.7, 0.1]]]], np.float32)
    >>> most_attended(weights, np.array([[0, 1, 3]], np.int32), np.array([2], np.int32), np.zeros((1, 2), bool))
    array([[[1, 0]]], dtype=int32)
    """
    native = native_engine()
    if native is not None and weights.dtype == np.float32:
        choices: NDArray[np.int32] = native.word_choices(weights, edges, counts, aside)
        return choices
    best = np.full((*weights.shape[:2], aside.shape[1]), -1, np.int32)
    for row, count in enumerate(counts.tolist()):
        between = pool_words(weights[row].astype(np.float64), edges[row, : count + 1])  # (head, cell, cell)
        between[:, :, aside[row, :count]] = 0
        cells = np.arange(count)
        between[:, cells, cells] = 0
        best[row, :, :count] = np.where(between.max(axis=2) > 0, between.argmax(axis=2), -1)  # the earlier of equals
    return best


@dataclass(frozen=True, eq=False)
class WordWeights:
    """Weights between words, by layer and head; None selects all layers or all heads."""

    attentions: tuple[Attention, ...]  # one per layer, (head, query, key) between tokens
    words: tuple[Word, ...]

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        """The first token of each word, and the end of the last one."""
        return np.array([*(word.first for word in self.words), self.words[-1].last], dtype=np.int64)

    def layers(self, layer: int | None) -> range:
        """The selected layers."""
        return _select("layer", layer, len(self.attentions))

    def heads(self, layer: int, head: int | None) -> range:
        """The selected heads of a layer."""
        return _select("head", head, self.attentions[layer].shape[0])

    def place_of(self, token: int) -> int:
        """The position of the word that a token belongs to."""
        return int(np.searchsorted(self.edges, token, "right")) - 1

    def sum_pieces(self, of_tokens: Any) -> Numbers:
        """Sums over the tokens of each word, along the last axis."""
        sums: Numbers = np.add.reduceat(np.asarray(of_tokens, np.float64), self.edges[:-1], axis=-1)
        return sums

    def row(self, pieces: slice, layer: int, heads: Sequence[int]) -> Numbers:
        """The weights of a word, given by its queries, on every word in some heads of a layer, (head, word); O(n)."""
        return self.sum_pieces(self._mean_rows(pieces, layer, heads))

    def _mean_rows(self, pieces: slice, layer: int, heads: Sequence[int]) -> Numbers:
        """The weights of a word on every token, (head, key): the mean over its pieces."""
        chosen: Any = slice(heads.start, heads.stop) if isinstance(heads, range) else list(heads)
        mean: Numbers = numpy_of(self.attentions[layer][chosen, pieces, :]).mean(axis=1, dtype=np.float64)
        return mean

    def of_words(self, words: Sequence[int], layer: int, heads: range) -> Numbers:
        """The weights of words at some positions on every word, (head, query, word); in long texts zero but for a few.

        These few are evenly spaced: the strongest links of a text are looked for among them.
        """
        attention, chosen = self.attentions[layer], slice(heads.start, heads.stop)
        whole = len(heads) * attention.shape[1] * attention.shape[2] <= BLOCK
        dense = numpy_of(attention[chosen, :, :]) if whole else None
        computed = set(words[:: 1 if whole else -(-len(words) // MOST_ROWS)])
        means = np.zeros((len(heads), len(words), attention.shape[2]))
        for row, index in enumerate(words):
            if index in computed:
                pieces = slice(self.words[index].first, self.words[index].last)
                rows = numpy_of(attention[chosen, pieces, :]) if dense is None else dense[:, pieces]
                means[:, row] = rows.mean(axis=1, dtype=np.float64)
        return self.sum_pieces(means)

    def rows(self, word: Word, layer: int | None, head: int | None) -> Iterator[tuple[int, int, Numbers]]:
        """Layer, head, and the weights of one word on every word, (word,), for every selected head; O(n) each."""
        for position in self.layers(layer):
            heads = self.heads(position, head)
            for number, row in zip(heads, self.row(slice(word.first, word.last), position, heads), strict=True):
                yield position, number, row

    def mean_row(self, word: Word, layer: int | None, head: int | None) -> Numbers:
        """The weights of one word, averaged over the selected heads and layers: (word,)."""
        pieces = slice(word.first, word.last)
        layers = [self.row(pieces, number, self.heads(number, head)).mean(axis=0) for number in self.layers(layer)]
        mean: Numbers = np.mean(layers, axis=0)
        return mean

    def blocks(self, layer: int | None, head: int | None, queries: range | None = None) -> Iterator[WordRows]:
        """The weights of all or some query words, a few rows at a time, pooled exactly."""
        count = len(self.words)
        queries = range(count) if queries is None else queries
        for number in self.layers(layer):
            heads = self.heads(number, head)
            part = self.attentions[number].select(head=slice(heads.start, heads.stop))
            step = max(1, BLOCK // (count * len(heads)))
            for first in range(queries.start, queries.stop, step):
                rows = self.edges[first : min(first + step, queries.stop) + 1]
                pooled = part.pooled(row_edges=rows, column_edges=self.edges, pool="words")
                yield WordRows(number, heads, first, numpy_of(pooled.array).astype(np.float64))

    def mean_blocks(
        self, layer: int | None, head: int | None, queries: range | None = None
    ) -> Iterator[tuple[int, Numbers]]:
        """The same, averaged over the selected heads and layers: (first query, (query, key))."""
        queries = range(len(self.words)) if queries is None else queries
        most = max(attention.shape[0] for attention in self.attentions)
        step = max(1, BLOCK // (len(self.words) * most))
        for first in range(queries.start, queries.stop, step):
            rows = range(first, min(first + step, queries.stop))
            total, layers = np.zeros((len(rows), len(self.words))), 0
            for block in self.blocks(layer, head, rows):
                total += block.weights.mean(axis=0)
                layers += 1
            yield first, total / layers

    def contributions(self, word: Word, layer: int, head: int | None, values: Array, w_o: Array | None) -> Numbers:
        """Weight, ‖v · W_O‖ and ‖weight · v · W_O‖ of every word for one word, (3, word); O(n).

        values   of the layer, (key head, key, value_dim)
        w_o      (width, head · value_dim); without it, the norms are those of the values themselves
        """
        attention, heads, edges = self.attentions[layer], self.heads(layer, head), self.edges
        group = attention.shape[0] // values.shape[0]
        rows = self._mean_rows(slice(word.first, word.last), layer, heads)
        weighted, plain = [], []
        for row, number in zip(rows, heads, strict=True):
            value = numpy_of(values[number // group]).astype(np.float64)  # (key, value_dim)
            weighted.append(np.add.reduceat(np.where(row[:, None] > 0, value * row[:, None], 0), edges[:-1], axis=0))
            plain.append(np.add.reduceat(value, edges[:-1], axis=0) / np.diff(edges)[:, None])
        part: Numbers | None = None
        if w_o is not None:
            dim = values.shape[-1]
            part = numpy_of(w_o)[:, heads.start * dim : heads.stop * dim].astype(np.float64)
        shares = self.sum_pieces(rows).mean(axis=0)
        return np.stack([shares, _lengths(plain, part), _lengths(weighted, part)])


def _lengths(of_heads: list[Numbers], w_o: Numbers | None) -> Numbers:
    """The length of every word's vector, all heads together, after W_O: √(v W_O W_Oᵀ vᵀ), in O(n · head_dim)."""
    vectors = np.concatenate(of_heads, axis=1)  # (word, head · value_dim)
    lengths: Numbers = np.linalg.norm(vectors, axis=1) if w_o is None else gram_lengths(vectors, w_o.T @ w_o)
    return lengths


def value_grams(values: Array, w_o: Array | None, heads: int, words: Sequence[tuple[int, int]]) -> Numbers:
    """v · W_O of one token times that of another, for the tokens of each word, (head, products), word after word.

    The contribution of a word with weights w is √(Σ w_j w_k · product_jk), which is ‖Σ w_j v_j · W_O‖; the product of a
    single token with itself is ‖v · W_O‖².

    values   (key head, key, value_dim)
    w_o      (width, head · value_dim); without it, the products are those of the values themselves
    words    the tokens [first, last) of each word
    """
    dim, group = values.shape[-1], heads // values.shape[0]
    parts = []
    for head in range(heads):
        value = numpy_of(values[head // group]).astype(np.float64)  # (key, value_dim)
        part = None if w_o is None else numpy_of(w_o)[:, head * dim : (head + 1) * dim].astype(np.float64)
        product = value if part is None else value @ (part.T @ part)
        parts.append(np.concatenate([(product[a:b] @ value[a:b].T).ravel() for a, b in words]))
    return np.maximum(np.stack(parts), 0) if all(b - a == 1 for a, b in words) else np.stack(parts)


def mean_over_heads(attention: Attention, heads: Sequence[int] | None = None, queries: Any = None) -> Numbers:
    """The weights of all or some queries, (query, key), averaged over all or some heads; built head by head."""
    heads = range(attention.shape[0]) if heads is None else heads
    total = np.zeros(attention.shape[1:] if queries is None else (len(queries), attention.shape[2]))
    for head in heads:
        of_head = attention.select(head=head).dense(limit=None) if queries is None else attention[head, queries, :]
        total += numpy_of(of_head)
    return total / len(heads)


# Attention rollout (Abnar and Zuidema, 2020): the product over layers of ½ A + ½ I, with rows of sum 1


def rollout(attentions: Sequence[Attention]) -> Numbers:
    """The rollout of all tokens, (token, token): O(n²) memory."""
    count = attentions[0].shape[-1]
    whole = np.eye(count)
    for attention in attentions:
        mixed = mean_over_heads(attention) / 2
        mixed[np.diag_indices(count)] += 0.5
        whole = (mixed / mixed.sum(axis=1, keepdims=True)) @ whole
    return whole


def rollout_row(attentions: Sequence[Attention], row: Numbers) -> Numbers:
    """`row` (token,) times the rollout, by products `u @ A` from the last layer to the first: O(n) memory."""
    u = row
    for attention in reversed(attentions):
        u = u / (0.5 + 0.5 * _mean_row_sums(attention))
        u = 0.5 * u + 0.5 * _times(u, attention)
    return u


def _times(u: Numbers, attention: Attention) -> Numbers:
    """`u @ A`, averaged over heads."""
    rows = np.broadcast_to(u[:, None], (attention.shape[0], len(u), 1))
    queries = attention.queries
    factors: Any = rows.astype(queries.dtype) if isinstance(queries, np.ndarray) else queries.new_tensor(rows.copy())
    back: Numbers = numpy_of(attention.mT @ factors)[..., 0].mean(axis=0, dtype=np.float64)
    return back


def _mean_row_sums(attention: Attention) -> Numbers:
    """The row sums averaged over heads: 1, less the share of a sink logit; 0 for a query without visible keys."""
    if attention.sinks is None:
        sums = ~np.isneginf(numpy_of(attention.logsumexp()))
    else:
        sums = numpy_of(attention.weight_on(slice(None)))  # exact at every magnitude, unlike exp(sink − logsumexp)
    mean: Numbers = sums.mean(axis=0, dtype=np.float64)
    return mean

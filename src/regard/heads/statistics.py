"""Statistics of every head over documents: sums per document, in O(n) memory.

A query is a content token: special tokens, and the first token of a causal model, are sinks and ask nothing of
interest. *Of the rest* means: of the weight that is not on sinks. A statistic counts only queries that could show it:
*previous* those whose previous token is not a sink, *repeated* those whose token occurs again where they can see it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.arrays import gram_lengths
from regard.engines.select import native_engine
from regard.heads.circuits import output_matrices
from regard.heads.documents import TokenChunk, batches
from regard.heads.observation import EqualLengths, LayerGroup, Tile, observe
from regard.heads.sums import FIELDS, Sums

if TYPE_CHECKING:
    from regard.reading.reader import BlockShape, Reader

Numbers = NDArray[np.float64]

WINDOW = 4  # tokens on either side that count as local
LONG_ENOUGH = 4 * WINDOW  # visible content tokens below which a local window means nothing
FEWEST = 4  # visible content tokens below which an even spread means nothing
SEQUENCES, PERIOD, SEED = 16, 48, 1  # random sequences for the induction score: how many, how long before they repeat


class Statistic(NamedTuple):
    """The name of a statistic, and what its mean says."""

    name: str
    meaning: str


STATISTICS = (
    Statistic("entropy", "entropy of a query's weights, in nats"),
    Statistic("evenness", "entropy of the rest, divided by its largest possible value: 1 is uniform"),
    Statistic("distance", "expected distance |i − j| in tokens"),
    Statistic("distance of the rest", "expected distance of the weight that is not on sinks"),
    Statistic("first", "weight on the first token"),
    Statistic("separators", "weight on special tokens after the first, such as [SEP]"),
    Statistic("punctuation", "weight on tokens without letter or digit"),
    Statistic("itself", "weight of a token on itself"),
    Statistic("previous", "weight on the previous token"),
    Statistic("next", "weight on the next token"),
    Statistic("repeated", "weight on other occurrences of the same token"),
    Statistic("same word", "weight on other pieces of the same word"),
    Statistic("window", f"weight on the {WINDOW} tokens on either side"),
    Statistic("received", "share of a text's weight that its most attended content token receives"),
    Statistic("sinks by norm", "share of Σ ‖weight · v · W_O‖ that comes from sinks"),
    Statistic("contribution", "share of the layer's Σ ‖output · W_O‖ that this head writes"),
    Statistic("itself of the rest", "weight on itself, of the weight that is not on sinks"),
    Statistic("previous of the rest", "weight on the previous token, of the weight that is not on sinks"),
    Statistic("next of the rest", "weight on the next token, of the weight that is not on sinks"),
    Statistic("repeated of the rest", "weight on the same token elsewhere, of the weight that is not on sinks"),
    Statistic("same word of the rest", "weight on pieces of the same word, of the weight that is not on sinks"),
    Statistic("window of the rest", f"weight within {WINDOW} tokens, of the weight that is not on sinks"),
    Statistic("induction", "on repeated random tokens: weight on the token after the earlier occurrence, of the rest"),
    Statistic("duplicate", "on repeated random tokens: weight on the earlier occurrence, of the rest"),
)
NAMES = tuple(statistic.name for statistic in STATISTICS)


# Statistics that are sums over the rows of a tile, in the order of `Statistic` in native/problem.h.
OF_ROWS = (
    "entropy", "evenness", "distance", "distance of the rest", "first", "separators", "punctuation",
    "itself", "itself of the rest", "previous", "previous of the rest", "next", "next of the rest",
    "repeated", "repeated of the rest", "same word", "same word of the rest", "window", "window of the rest",
    "sinks by norm",
)  # fmt: skip
COUNTED = (*OF_ROWS, "received", "contribution")
PLACES = [NAMES.index(name) for name in COUNTED]


def measure(model: Reader, documents: Sequence[TokenChunk]) -> Sums:
    """The sums of all statistics over documents, induction and duplicate aside, which `repetition` measures."""
    measurement = Measurement(model)
    for batch in batches(documents):
        for group in observe(model, [documents[index] for index in batch]):
            measurement.add(group)
    return measurement.sums()


class Measurement:
    """Statistics of all heads while documents go by."""

    def __init__(self, model: Reader) -> None:
        self.numbers = np.zeros((len(NAMES), len(FIELDS), len(model.block_shapes), model.heads))
        self.grams = [output_grams(shape) for shape in model.block_shapes]

    def add(self, group: LayerGroup) -> None:
        """Count the documents of a group."""
        amount, count = np.moveaxis(of_group(group, self.grams[group.layer]), (3, 2), (0, 1))
        self.numbers[PLACES, :, group.layer] += np.moveaxis(fields(amount, count, 1), 0, 1)

    def sums(self) -> Sums:
        """What was counted so far."""
        return Sums.of(NAMES, self.numbers)


def fields(amount: Numbers, count: Any, axis: int = 0) -> Numbers:
    """The sums of FIELDS, the first axis, over the amounts and counts of documents along an axis."""
    count = np.broadcast_to(np.asarray(count, np.float64), amount.shape)
    of_documents = (count > 0, count, count * count, amount, amount * amount, amount * count)
    return np.stack([numbers.sum(axis=axis, dtype=np.float64) for numbers in of_documents])


def of_group(group: LayerGroup, grams: NDArray[Any]) -> Numbers:
    """Amount and count of each statistic of COUNTED, (document, head, statistic, 2), of one layer."""
    norms, shares = _of_layer(group, grams)
    texts, (documents, heads, _, keys) = group.texts, group.attention.shape
    received = np.zeros((documents, heads, keys))
    sums = np.zeros((documents, heads, len(COUNTED), 2))
    native = native_engine()
    for tile in group.tiles():
        part, of_rows = tile.documents, slice(len(OF_ROWS))
        if native is not None and tile.weights.dtype == np.float32:
            settings = tile.queries.start, texts.causal, WINDOW, LONG_ENOUGH, FEWEST
            tokens = texts.flags[part], texts.same_token[part], texts.same_word[part]
            sums[part, :, of_rows] += native.head_sums(
                tile.weights, tile.entropy, tile.distance, norms[part], tokens, settings, received[part], len(OF_ROWS)
            )
            continue
        of_tile = texts.part(part)
        received[part] += np.einsum("bhrk,br->bhk", tile.weights, of_tile.content[:, tile.queries].astype(np.float32))
        for name, *ratio in _of_tile(tile, of_tile, norms[part]):
            for part_of_ratio, numbers in enumerate(ratio):
                sums[part, :, OF_ROWS.index(name), part_of_ratio] += numbers
    queries = texts.content.sum(axis=1, dtype=np.float64)[:, None]
    sums[:, :, -2, 0] = np.where(texts.content[:, None], received, 0).max(axis=2)
    sums[:, :, -1, 0] = np.einsum("bhr,br->bh", shares, texts.content.astype(np.float32), dtype=np.float64)
    sums[:, :, -2:, 1] = queries[:, :, None]
    return sums


def _of_layer(group: LayerGroup, grams: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """‖v · W_O‖ of every key, and the share of each head in Σ over heads of ‖output · W_O‖: (document, head, token)."""
    of_layer = group.of_layer
    if "norms" not in of_layer.kept:
        lengths = _lengths(of_layer.outputs.swapaxes(0, 1), grams)
        of_layer.kept["norms"] = _lengths(of_layer.values, grams)
        of_layer.kept["shares"] = lengths / np.maximum(lengths.sum(axis=0), np.finfo(np.float32).tiny)
    shape = len(grams), len(group.texts.documents), -1
    norms, shares = (
        np.ascontiguousarray(of_layer.kept[name][:, group.tokens].reshape(shape).swapaxes(0, 1))
        for name in ("norms", "shares")
    )
    return norms, shares


def _of_tile(tile: Tile, texts: EqualLengths, norms: Numbers) -> Iterator[tuple[str, Numbers, Any]]:
    """Name, amount and count of each statistic for the queries of a tile, (document, head): `head_sums` in NumPy."""
    weights, rows = tile.weights, np.arange(tile.queries.start, tile.queries.stop)
    asks = texts.content[:, tile.queries].astype(np.float32)  # (document, query)
    keys = np.arange(weights.shape[3])
    asking = asks.sum(axis=1, dtype=np.float64)[:, None]
    apart = np.abs(rows[:, None] - keys)  # (query, key)
    may_see = (keys <= rows[:, None]) if texts.causal else np.ones(apart.shape, bool)

    aside = np.flatnonzero(~texts.content.all(axis=0))  # few columns
    on_sinks = weights[..., aside] * ~texts.content[:, None, None, aside]  # (document, head, query, sink)
    rest = np.maximum(1 - on_sinks.sum(axis=3, dtype=np.float64), 0)

    def total(values: Any, who: Any = asks) -> Numbers:
        summed: Numbers = np.einsum("bhr,br->bh", values, who, dtype=np.float64)
        return summed

    yield "entropy", total(tile.entropy), asking
    yield "distance", total(tile.distance), asking
    yield "distance of the rest", total(tile.distance - (on_sinks * apart[:, aside]).sum(axis=3)), total(rest)

    # Entropy of the rest from that of all: −Σ w log w over content keys, renormalised.
    logs = np.log(on_sinks, out=np.zeros_like(on_sinks), where=on_sinks > 0)
    content_terms = tile.entropy + (on_sinks * logs).sum(axis=3)
    of_rest = content_terms / np.maximum(rest, 1e-12) + np.log(np.maximum(rest, 1e-12))
    choices = np.einsum("rk,bk->br", may_see.astype(np.float32), texts.content.astype(np.float32))
    several = asks * (choices >= FEWEST)
    evenness = np.clip(of_rest / np.log(np.maximum(choices, 2))[:, None], 0, 1) * rest  # by how much there is
    yield "evenness", total(evenness, several), total(rest, several)

    separators = texts.special.copy()
    separators[:, 0] = False
    for name, chosen in (("separators", separators), ("punctuation", texts.punctuation)):
        columns = np.flatnonzero(chosen.any(axis=0))
        yield name, total((weights[..., columns] * chosen[:, None, None, columns]).sum(axis=3)), asking
    yield "first", total(weights[..., 0]), asking

    for name, offset in (("itself", 0), ("previous", -1), ("next", 1)):
        neighbours = rows + offset
        inside = (neighbours >= 0) & (neighbours < len(keys)) & (not texts.causal or offset <= 0)
        some = np.flatnonzero(inside)
        who = asks[:, some] * texts.content[:, neighbours[some]]
        amount = total(weights[:, :, some, neighbours[some]], who)
        yield name, amount, who.sum(axis=1, dtype=np.float64)[:, None]
        yield f"{name} of the rest", amount, total(rest[:, :, some], who)

    others = may_see & (apart > 0)
    local = others & (apart <= WINDOW)
    same_token = (texts.ids[:, rows, None] == texts.ids[:, None, :]) & others & texts.content[:, None, :]
    same_word = (texts.word[:, rows, None] == texts.word[:, None, :]) & others & texts.content[:, None, :]
    enough = choices >= LONG_ENOUGH
    for name, chosen, who in (
        ("repeated", same_token, asks * same_token.any(axis=2)),
        ("same word", same_word, asks * same_word.any(axis=2)),
        ("window", local & texts.content[:, None, :], asks * enough),
    ):
        if who.any():
            amount = np.einsum("bhrk,brk,br->bh", weights, chosen, who, dtype=np.float64, optimize=False)
        else:
            amount = np.zeros(weights.shape[:2])
        yield name, amount, who.sum(axis=1, dtype=np.float64)[:, None]
        yield f"{name} of the rest", amount, total(rest, who)

    of_sinks = np.einsum("bhrs,bhs->bhr", on_sinks, norms[..., aside])
    of_all = np.einsum("bhrk,bhk->bhr", weights, norms)
    yield "sinks by norm", total(of_sinks), total(of_all)


def output_grams(shape: BlockShape) -> NDArray[Any]:
    """W_O W_Oᵀ of each head, (head, value_dim, value_dim): ‖x · W_O‖² is x G xᵀ; the identity without W_O."""
    size = shape.value_dim
    if shape.w_o is None:
        return np.broadcast_to(np.eye(size, dtype=np.float32), (shape.heads, size, size))
    columns = output_matrices(np.asarray(shape.w_o), shape.heads)
    grams: NDArray[Any] = np.matmul(columns, columns.swapaxes(1, 2))
    return grams


def _lengths(vectors: Any, grams: NDArray[Any]) -> NDArray[Any]:
    """The length of every vector, (head or key head, token, head_dim), after the W_O of each head: (head, token)."""
    native = native_engine()
    if native is not None and vectors.dtype == grams.dtype == np.float32 and vectors.strides[2] == vectors.itemsize:
        of_native: NDArray[Any] = native.vector_lengths(vectors, grams)
        return of_native
    lengths: NDArray[Any] = gram_lengths(np.repeat(vectors, len(grams) // len(vectors), axis=0), grams)
    return lengths


# Repeated random tokens


def repetition(model: Reader, sequences: int = SEQUENCES, period: int = PERIOD, seed: int = SEED) -> Sums:
    """Sums of *induction* and *duplicate* over random tokens that repeat once: [CLS] r₁ … r_p r₁ … r_p [SEP]."""
    return Sums.of(NAMES, repetition_numbers(model, sequences, period, seed))


def repetition_numbers(model: Reader, sequences: int = SEQUENCES, period: int = PERIOD, seed: int = SEED) -> Numbers:
    """The same before it is rounded to units, (statistic, field, layer, head)."""
    numbers = np.zeros((len(NAMES), len(FIELDS), len(model.block_shapes), model.heads))
    documents, start = random_repeats(model, sequences, period, seed)
    length = (len(documents[0]) - int(documents[0].special.sum())) // 2
    asking = np.arange(start + length, start + 2 * length - 1)
    for batch in batches(documents):
        for group in observe(model, [documents[index] for index in batch]):
            sinks = ~group.texts.content
            for tile in group.tiles():
                here = asking[(asking >= tile.queries.start) & (asking < tile.queries.stop)]
                if not len(here):
                    continue
                rows = tile.weights[:, :, here - tile.queries.start]
                rest = (1 - np.einsum("bhrk,bk->bhr", rows, sinks[tile.documents])).sum(axis=2)
                for name, offset in (("induction", 1 - length), ("duplicate", -length)):
                    amount = rows[:, :, np.arange(len(here)), here + offset].sum(axis=2, dtype=np.float64)
                    numbers[NAMES.index(name), :, group.layer] += fields(amount, rest)
    return numbers


def random_repeats(model: Reader, sequences: int, period: int, seed: int) -> tuple[list[TokenChunk], int]:
    """Documents of random tokens that repeat, and where their first random token stands."""
    ordinary = np.setdiff1d(np.arange(model.vocabulary), sorted(model.tokeniser.specials))
    around = model.tokeniser.encode("a")
    start = around.special.index(False)
    before, after = around.ids[:start], around.ids[start + len(around.ids) - sum(around.special) :]
    before_count = len(before) or 1  # without special tokens, one more random token, which is the sink
    period = max(0, min(period, (model.longest - before_count - len(after)) // 2, len(ordinary) - 1))
    generator = np.random.default_rng(seed)
    documents = []
    for _ in range(sequences):
        drawn = generator.choice(ordinary, size=period + 1, replace=False)
        first = before or [int(drawn[-1])]
        ids = np.array([*first, *drawn[:period], *drawn[:period], *after], np.int64)  # nothing repeats if period is 0
        special = np.array([bool(before)] * before_count + [False] * (2 * period) + [True] * len(after))
        documents.append(TokenChunk(ids, special, model.causal))
    return documents, before_count

"""What reaches a word through all layers, and how much a look carries: rollout, norms, and vectors that move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from regard.arrays import numpy_of
from regard.attention import Attention
from regard.attention.looking import LIMIT
from regard.reading import ranking, weights, wording
from regard.reading.weights import Numbers
from regard.tables import Column, Table

if TYPE_CHECKING:
    from regard.reading.reading import Reading
    from regard.reading.tokens import Word


def rollout(reading: Reading, query: Any = None, limit: int | None = LIMIT) -> Numbers:
    """Attention rollout: the product over layers of ½ A + ½ I, A averaged over heads, rows brought to the sum 1."""
    if query is not None:
        return _rollout_of(reading, reading.word(query))
    count = len(reading.tokens)
    needed = 8 * count * count
    if limit is not None and needed > limit:
        raise wording.rollout_too_large(count, needed, limit)
    whole = np.eye(count)
    for seen in reading.seen:
        mixed = weights.over_heads(seen.attention) / 2
        mixed[np.diag_indices(count)] += 0.5
        whole = (mixed / mixed.sum(axis=1, keepdims=True)) @ whole
    return whole


def _rollout_of(reading: Reading, word: Word) -> Numbers:
    """One word's rows of it, averaged, by products u @ A from the last layer to the first: O(n) memory."""
    u = np.zeros(len(reading.tokens))
    u[word.first : word.last] = 1 / (word.last - word.first)
    for seen in reversed(reading.seen):
        attention = seen.attention
        u = u / (0.5 + 0.5 * _row_sums(attention))
        u = 0.5 * u + 0.5 * _through(attention, u)
    return u


def _through(attention: Attention, u: Numbers) -> Numbers:
    """`u @ A`, averaged over heads."""
    heads = attention.shape[0]
    rows = np.broadcast_to(u[:, None], (heads, len(u), 1))
    queries = attention.queries
    given: Any = rows.astype(queries.dtype) if isinstance(queries, np.ndarray) else queries.new_tensor(rows.copy())
    back: Numbers = numpy_of(attention.mT @ given)[..., 0].mean(axis=0, dtype=np.float64)
    return back


def _row_sums(attention: Attention) -> Numbers:
    """The mean over heads of each row's sum: 1, less what a sink logit takes, and 0 for a query that sees no key."""
    normaliser = numpy_of(attention.logsumexp()).astype(np.float64)  # (head, query)
    sums = np.where(np.isneginf(normaliser), 0.0, 1.0)
    if attention.sinks is not None:
        with np.errstate(over="ignore", invalid="ignore"):
            taken = np.exp(numpy_of(attention.sinks).astype(np.float64)[:, None] - normaliser)
        sums = np.where(sums > 0, 1 - taken, 0.0)
    mean: Numbers = sums.mean(axis=0)
    return mean


def norms(reading: Reading, layer: int, head: int | None, query: Any) -> Table:
    """‖weight · v · W_O‖ of every word that one word looks at, strongest first; O(n)."""
    word = reading.word(query)
    place = weights.whole("layer", layer, reading.layers)
    attention, values = reading.seen[place]
    heads = weights.heads_meant(attention, head)
    group = attention.shape[0] // values.shape[0]
    rows = numpy_of(attention[heads.start : heads.stop, word.first : word.last, :]).mean(axis=1, dtype=np.float64)
    starts = weights.edges_of(reading.words)[:-1]
    carried, plain = [], []
    for row, number in zip(rows, heads, strict=True):
        value = numpy_of(values[number // group]).astype(np.float64)  # (key, size)
        carried.append(np.add.reduceat(np.where(row[:, None] > 0, value * row[:, None], 0), starts, axis=0))
        plain.append(np.add.reduceat(value, starts, axis=0) / np.diff(weights.edges_of(reading.words))[:, None])
    w_o = _output_weights(reading, place, heads, carried[0].shape[1])
    total, alone = _lengths(carried, w_o), _lengths(plain, w_o)
    shares = weights.by_word(reading, rows).mean(axis=0)
    labels, through = reading.labels, "" if w_o is None else " · W_O"
    order = np.argsort(-total, kind="stable")
    columns = (
        Column("Word", "word"), Column("weight", "number", shade=True), Column(f"‖v{through}‖", "number"),
        Column(f"‖weight · v{through}‖", "number"),
    )  # fmt: skip
    cells = ((labels[one], float(shares[one]), float(alone[one]), float(total[one])) for one in order)
    own = reading.words.index(word)
    notes = ranking.sink_notes(reading, shares)
    if w_o is None:
        notes.append("W_O is not known here: lengths are those of the values themselves.")
    title = f"What {labels[own]} takes from each word, {ranking.where(reading, place, head)}"
    return Table(title, columns, tuple(cells), tuple(notes))


def _output_weights(reading: Reading, layer: int, heads: range, size: int) -> Numbers | None:
    """The columns of W_O that these heads go through, (width, head · size)."""
    w_o = reading.blocks[layer].attention.w_o if reading.blocks else None
    if w_o is None:
        return None
    part: Numbers = numpy_of(w_o.weight)[:, heads.start * size : heads.stop * size].astype(np.float64)
    return part


def _lengths(of_heads: list[Numbers], w_o: Numbers | None) -> Numbers:
    """The length of every word's vector, all heads together, after W_O: √(v W_Oᵀ W_O vᵀ), in O(n · size)."""
    vectors = np.concatenate(of_heads, axis=1)  # (word, head · size)
    product = vectors if w_o is None else vectors @ (w_o.T @ w_o)
    lengths: Numbers = np.sqrt(np.maximum(np.einsum("ws,ws->w", product, vectors), 0))
    return lengths


def moved(reading: Reading, word: Any, other: Reading, other_word: Any = None) -> Table:
    """How far a word's vector is from the same word's in another text, after each layer."""
    if not reading.states or not other.states:
        raise wording.no_states()
    if len(reading.states) != len(other.states):
        raise wording.states_differ(len(reading.states), len(other.states))
    here, there = reading.word(word, "word"), other.word(word if other_word is None else other_word, "other_word")
    rows = []
    for place, (one, two) in enumerate(zip(reading.states, other.states, strict=True)):
        first, second = _vector(one, here), _vector(two, there)
        if len(first) != len(second):
            raise wording.states_differ(len(first), len(second))
        apart, lengths = float(np.linalg.norm(first - second)), (np.linalg.norm(first), np.linalg.norm(second))
        cosine = float(first @ second / max(lengths[0] * lengths[1], np.finfo(float).tiny))
        relative = apart / max(float(np.mean(lengths)), float(np.finfo(float).tiny))
        name = "embedded" if place == 0 else f"after layer {place - 1}"
        rows.append((name, cosine, apart, relative))
    columns = (
        Column("State", "text"), Column("cosine", "number"), Column("distance", "number"),
        Column("distance / length", "number"),
    )  # fmt: skip
    title = f"{here.text}: how far its vector moves between two texts"
    notes = (f"Here: {_short(reading.text)}", f"There: {_short(other.text)}")
    return Table(title, columns, tuple(rows), notes)


def _vector(state: Any, word: Word) -> Numbers:
    """The mean over a word's pieces."""
    vector: Numbers = numpy_of(state[word.first : word.last]).mean(axis=0, dtype=np.float64)
    return vector


def _short(text: str) -> str:
    return text if len(text) <= 70 else f"{text[:69]}…"

"""What one word takes from each other word, ‖weight · v · W_O‖, and how far a word's vector moves between two texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from regard import validate
from regard.arrays import numpy_of
from regard.reading import tables, weights, wording
from regard.reading.weights import Numbers
from regard.tables import Column, Table

if TYPE_CHECKING:
    from regard.reading.reading import Reading
    from regard.reading.tokens import Word


def norms(reading: Reading, layer: int, head: int | None, query: Any) -> Table:
    """‖weight · v · W_O‖ of every word that one word looks at, strongest first; O(n)."""
    word = reading.word(query)
    place = validate.index("layer", layer, reading.layers)
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
    notes = tables.sink_notes(reading, shares)
    if w_o is None:
        notes.append("W_O is not known here: lengths are those of the values themselves.")
    title = f"What {labels[own]} takes from each word, {tables.where(reading, place, head)}"
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

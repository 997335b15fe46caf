"""Norms: what each word contributes to one word, ‖weight · v · W_O‖; distances of a word's vectors in two texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from regard.arrays import numpy_of
from regard.errors import OptionError, Unsupported
from regard.reading import weights
from regard.reading.weights import Numbers
from regard.tables import Column, Table

if TYPE_CHECKING:
    from regard.reading.reading import Reading
    from regard.reading.tokens import Word


def contributions(reading: Reading, word: Word, layer: int, head: int | None) -> tuple[Numbers, bool]:
    """Weight, ‖v · W_O‖ and ‖weight · v · W_O‖ of each word for one word, (3, word); and whether W_O is known. O(n)."""
    attention, values = reading.seen[layer]
    heads = weights.heads_meant(attention, head)
    group = attention.shape[0] // values.shape[0]
    rows = numpy_of(attention[heads.start : heads.stop, word.first : word.last, :]).mean(axis=1, dtype=np.float64)
    edges = weights.edges_of(reading.words)
    weighted, plain = [], []
    for row, number in zip(rows, heads, strict=True):
        value = numpy_of(values[number // group]).astype(np.float64)  # (key, head_dim)
        weighted.append(np.add.reduceat(np.where(row[:, None] > 0, value * row[:, None], 0), edges[:-1], axis=0))
        plain.append(np.add.reduceat(value, edges[:-1], axis=0) / np.diff(edges)[:, None])
    w_o = _output_weights(reading, layer, heads, weighted[0].shape[1])
    shares = weights.by_word(reading, rows).mean(axis=0)
    return np.stack([shares, _lengths(plain, w_o), _lengths(weighted, w_o)]), w_o is not None


def _output_weights(reading: Reading, layer: int, heads: range, size: int) -> Numbers | None:
    """The columns of W_O that belong to these heads, (width, head · head_dim)."""
    w_o = reading.blocks[layer].attention.w_o if reading.blocks else None
    if w_o is None:
        return None
    part: Numbers = numpy_of(w_o.weight)[:, heads.start * size : heads.stop * size].astype(np.float64)
    return part


def _lengths(of_heads: list[Numbers], w_o: Numbers | None) -> Numbers:
    """The length of every word's vector, all heads together, after W_O: √(v W_Oᵀ W_O vᵀ), in O(n · head_dim)."""
    vectors = np.concatenate(of_heads, axis=1)  # (word, head · head_dim)
    product = vectors if w_o is None else vectors @ (w_o.T @ w_o)
    lengths: Numbers = np.sqrt(np.maximum(np.einsum("ws,ws->w", product, vectors), 0))
    return lengths


def moved(reading: Reading, word: Any, other: Reading, other_word: Any = None) -> Table:
    """How far a word's vector is from the same word's in another text, after each layer."""
    if not reading.states or not other.states:
        raise Unsupported(
            "This reading holds no hidden states, so a word has no vector to compare.\n"
            "Read the text with a model: regard.model().read(text)."
        )
    if len(reading.states) != len(other.states):
        raise _of_two_models(len(reading.states), len(other.states), "hidden states")
    here, there = reading.word(word, "word"), other.word(word if other_word is None else other_word, "other_word")
    rows = []
    for place, (one, two) in enumerate(zip(reading.states, other.states, strict=True)):
        first, second = _vector(one, here), _vector(two, there)
        if len(first) != len(second):
            raise _of_two_models(len(first), len(second), "numbers per vector")
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


def _of_two_models(here: int, there: int, what: str) -> OptionError:
    return OptionError(f"The two readings have {here} and {there} {what}; expected readings of the same model.")


def _vector(state: Any, word: Word) -> Numbers:
    """The mean over a word's pieces."""
    vector: Numbers = numpy_of(state[word.first : word.last]).mean(axis=0, dtype=np.float64)
    return vector


def _short(text: str) -> str:
    return text if len(text) <= 70 else f"{text[:69]}…"

"""The steps that somebody asked for: which words, with which vectors and weights, seen by how many heads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regard import examples
from regard.attention import Attention
from regard.cli import files, vectors
from regard.cli.vectors import Vectors
from regard.cli.words import words_of
from regard.errors import OptionError, TooLarge
from regard.layers import Linear, MultiHead
from regard.masks import Mask
from regard.trace import Trace

USUAL_SIZE = 2  # numbers of a head's vectors where nobody says how many: as many as 80 columns show whole
USUAL_SEED = 0
MOST_WIDTH = 1 << 14


@dataclass(frozen=True, eq=False, slots=True)
class Traced:
    """Words, and a way to explain all of them or one of them."""

    words: tuple[str, ...]
    heads: int
    note: str | None
    explain: Callable[[Any], Trace]  # of one query, by word or position; of all with None

    def whole(self) -> Trace:
        """All steps of all queries."""
        try:
            return self.explain(None)
        except TooLarge:
            raise OptionError(
                f"All steps of {len(self.words):,} words take too much memory: choose one that asks, with --query WORD."
            ) from None


def traced(
    text: str | None, example: str | None, embeddings: str | None, *, heads: int, width: int | None, seed: int | None,
    mask: Mask | None,
) -> Traced:  # fmt: skip
    """From what was typed to what can be explained."""
    found = _found(text, example, embeddings)
    words = found.words if isinstance(found, Vectors) else found
    if not words:
        raise OptionError('The text holds no word: give one, as in regard steps "The cat sat".')
    if isinstance(found, Vectors):
        if width is not None:
            raise OptionError("--width is for random vectors; these words have vectors of their own.")
        return _of_parts(found, heads, mask) if found.parts else _of_embeddings(found, heads, seed, mask)
    width = USUAL_SIZE * heads if width is None else width
    if width > MOST_WIDTH:
        raise OptionError(f"Vectors of {width:,} numbers are more than {MOST_WIDTH:,}: choose a smaller --width.")
    seed = USUAL_SEED if seed is None else seed
    note = (
        f"Nothing was trained: embeddings and weights are random numbers from seed {seed}, "
        "so they say how attention computes, and nothing about these words."
    )
    return _of_embeddings(vectors.from_seed(words, width, seed), heads, seed, mask, note)


def _found(text: str | None, example: str | None, embeddings: str | None) -> Vectors | tuple[str, ...]:
    """Vectors, or words that have none yet."""
    if example is not None:
        if text is not None or embeddings is not None:
            raise OptionError("--example brings its own text and vectors: leave the others out.")
        chosen = examples.named(example)
        if chosen.kind in ("worked", "vectors"):
            return vectors.from_content(chosen.content, None, example)
        if chosen.kind in ("sentence", "passage"):
            return words_of(chosen.content)
        raise OptionError(
            f"The example {example!r} is of kind {chosen.kind!r}: it has no words that look at each other."
        )
    if text == files.STANDARD:
        if embeddings == files.STANDARD:
            raise OptionError("Text and embeddings cannot both come from standard input.")
        text = files.text_of(files.STANDARD)
    if embeddings is not None:
        return vectors.from_content(files.json_of(embeddings), text, files.called(embeddings))
    if text is None:
        raise OptionError('Give a text, as in regard steps "The cat sat", or --example cat-sat.')
    return words_of(text)


def _of_embeddings(found: Vectors, heads: int, seed: int | None, mask: Mask | None, note: str | None = None) -> Traced:
    assert found.embeddings is not None
    embeddings = found.embeddings
    width = embeddings.shape[1]
    if found.matrices:
        if seed is not None:
            raise OptionError("--seed is for random weights; the file brings its own.")
        layer, note = _given(found, width, heads), "W_q, W_k, W_v and W_O as given, I where there is none."
    elif seed is not None:
        _check_heads(width, heads)
        layer = MultiHead.seeded(width, heads, bias=False, seed=seed, dtype=np.float64)
        layer = replace(layer, w_o=None) if heads == 1 else layer  # W_O mixes heads; one alone has nothing to mix
        matrices = "W_q, W_k and W_v" if heads == 1 else "W_q, W_k, W_v and W_O"
        note = note or f"The weights {matrices} are random numbers from seed {seed}: nothing was trained."
    else:
        _check_heads(width, heads)
        layer = _given(found, width, heads)
        note = "W_q = W_k = W_v = I: queries, keys and values are the embeddings themselves"
        note += "." if heads == 1 else f", shared out among {heads} heads."

    def explain(query: Any) -> Trace:
        trace: Trace = layer.explain(embeddings, words=found.words, query=query, mask=mask, note=note)
        return trace

    return Traced(found.words, heads, note, explain)


def _given(found: Vectors, width: int, heads: int) -> MultiHead:
    """The matrices of a file, I where it has none."""
    parts = {name: found.matrices.get(name, np.eye(width)) for name in ("w_q", "w_k", "w_v")}
    for name, weight in parts.items():
        if weight.shape[1] != width:
            raise OptionError(
                f"{name} is {weight.shape[0]} × {weight.shape[1]}, the embeddings have {width} numbers: "
                "a weight is (out, in), as in q = x · W_qᵀ."
            )
        _check_heads(weight.shape[0], heads)
    w_o = found.matrices.get("w_o")
    w_q, w_k, w_v = (Linear(weight) for weight in parts.values())
    return MultiHead(w_q, w_k, w_v, None if w_o is None else Linear(w_o), heads=heads)


def _of_parts(found: Vectors, heads: int, mask: Mask | None) -> Traced:
    """Queries, keys and values themselves, each head with its share of their numbers."""
    assert found.parts is not None
    for part in found.parts:
        _check_heads(part.shape[1], heads)
    queries, keys, values = (
        part.reshape(len(part), heads, -1).swapaxes(0, 1) for part in found.parts
    )  # each (head, word, size)
    note = "Queries, keys and values as given."
    attention = Attention(queries, keys, mask=mask)
    return Traced(
        found.words,
        heads,
        note,
        lambda query: attention.explain(values, query=query, words=found.words).noted(note),
    )


def _check_heads(width: int, heads: int) -> None:
    if width % heads:
        raise OptionError(f"{width} numbers cannot be shared out evenly among {heads} heads: choose a divisor of them.")

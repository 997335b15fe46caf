"""Queries, keys or values of a head over texts, on their first principal components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from regard import errors, validate
from regard.reading.reader import Observed, Reader
from regard.tables import Column, Table

Numbers = NDArray[np.float64]
Vectors = Literal["queries", "keys", "values"]
KINDS = ("queries", "keys", "values")
COMPONENTS = 3


@dataclass(frozen=True, eq=False, repr=False)
class ProjectedHead:
    """The vectors of one head, one row per token of all texts."""

    model: str
    layer: int
    head: int
    of: Vectors
    words: tuple[str, ...]
    texts: NDArray[np.int64]  # the index of each token's text
    positions: NDArray[np.int64]  # of each token in its text
    weights: Numbers  # see `weight_note`
    points: Numbers  # (token, component)
    explained: Numbers  # (component,): shares of the variance
    count: int  # of texts

    def __repr__(self) -> str:
        return f"ProjectedHead({self.of} of {self.layer}.{self.head}, {len(self.words):,} tokens; {self.model})"

    @property
    def title(self) -> str:
        """What is projected."""
        return f"{self.of.capitalize()} of head {self.layer}.{self.head} on their principal components"

    @property
    def weight_note(self) -> str:
        """What the weight of a token is."""
        if self.of == "queries":
            return "weight: the largest weight in the query's row."
        return "weight: the mean weight that the token receives from the queries that can see it."

    @property
    def notes(self) -> list[str]:
        """What the components are, and of what."""
        shares = ", ".join(f"{share:.0%}" for share in self.explained)
        texts = errors.count(self.count, "text")
        return [
            f"{len(self.words):,} tokens of {texts}; the components explain {shares} of the variance.",
            "Queries and keys as the head compares them, rotary positions included."
            if self.of != "values"
            else "Values before W_O.",
        ]

    def table(self) -> Table:
        """One row per token."""
        names = [f"component {number + 1}" for number in range(self.points.shape[1])]
        columns = (
            Column("text", "number", 0), Column("position", "number", 0), Column("word", "word"),
            Column("weight", "number", 3, shade=True), *(Column(name, "number", 3) for name in names),
        )  # fmt: skip
        parts = zip(self.texts, self.positions, self.words, self.weights, self.points, strict=True)
        rows = tuple((int(text), int(at), word, weight, *point) for text, at, word, weight, point in parts)
        return Table(self.title, columns, rows, (*self.notes, self.weight_note), source=self.model)


def project(
    reader: Reader, texts: Sequence[str], layer: int, head: int, of: Vectors = "keys", *, components: int = COMPONENTS
) -> ProjectedHead:
    """The queries, keys or values of one head over texts, on their first principal components.

    >>> from regard.models.model import model
    >>> project(model("minilm"), ["The cat sat on the mat.", "A dog ran."], 2, 3, "keys")
    ProjectedHead(keys of 2.3, 15 tokens; minilm)
    """
    validate.choice("of", of, KINDS)
    layer = validate.index("layer", layer, len(reader.block_shapes))
    head = validate.index("head", head, reader.heads)
    encoded = reader.tokeniser.encode_many(texts)
    vectors: dict[int, Numbers] = {}
    weights: dict[int, Numbers] = {}
    for group in reader.observe([np.array(entry.ids) for entry in encoded], layer + 1):
        if group.of_layer.layer == layer:
            rows = _vectors(group, head, of)
            for index, of_text, weight in zip(group.texts, rows, _weights(group, head, of, reader.causal), strict=True):
                vectors[index], weights[index] = of_text, weight
    order = range(len(encoded))
    matrix = np.concatenate([vectors[index] for index in order])
    if len(matrix) < 2:
        raise errors.option("texts", f"{len(matrix)} token", "at least two tokens")
    centred = matrix - matrix.mean(0)
    _, singular, directions = np.linalg.svd(centred, full_matrices=False)
    directions = directions[: validate.integer("components", components, 1, matrix.shape[1])]
    largest = directions[np.arange(len(directions)), np.abs(directions).argmax(1)]
    directions = directions * np.sign(largest)[:, None]  # the sign of a component is arbitrary: fixed here
    variance = singular**2
    return ProjectedHead(
        reader.name, layer, head, of, tuple(text for entry in encoded for text in entry.texts),
        np.repeat(np.arange(len(encoded)), [len(entry) for entry in encoded]),
        np.concatenate([np.arange(len(entry)) for entry in encoded]),
        np.concatenate([weights[index] for index in order]), centred @ directions.T,
        variance[: len(directions)] / max(float(variance.sum()), 1e-300), len(encoded),
    )  # fmt: skip


def _vectors(group: Observed, head: int, of: Vectors) -> Numbers:
    """(text, token, head_dim)."""
    texts, heads, length, _ = group.attention.shape
    if of == "queries":
        return np.asarray(group.attention.queries[:, head], np.float64)
    shared = heads // group.of_layer.values.shape[0]
    if of == "keys":
        return np.asarray(group.attention.keys[:, head // shared], np.float64)
    rows = np.asarray(group.of_layer.values[head // shared, group.tokens], np.float64)
    return rows.reshape(texts, length, -1)


def _weights(group: Observed, head: int, of: Vectors, is_causal: bool) -> Numbers:
    """(text, token)."""
    attention = group.attention.select(head=slice(head, head + 1))
    if of == "queries":
        return np.asarray(attention.peak()[:, 0], np.float64)
    received = np.asarray(attention.column_sums()[:, 0], np.float64)
    count = received.shape[1]
    return received / (np.arange(count, 0, -1) if is_causal else count)

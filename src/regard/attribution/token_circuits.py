"""What a head can do, read from its weights through the embedding and the unembedding (Elhage et al., 2021).

W_QK = W_Q W_Kᵀ scores a query token and a key token; W_OV = W_V W_O maps an attended token to changes of the logits.
Both are kept as factors of head_dim columns: no vocabulary × vocabulary matrix is ever built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard import errors, validate
from regard.arrays import Array, chunks
from regard.edits.metrics import token_id
from regard.heads.circuits import matrices
from regard.layers import Encoder, LayerNorm, RMSNorm, Transformer
from regard.reading.reader import Reader
from regard.tables import Column, Table, omitted_rows

Numbers = NDArray[np.float64]
ROWS = 4096  # tokens of the vocabulary that are mapped at once
POSITIONS = 32  # tokens of the sequence whose attention to the previous token is measured
ALONE = "Each token is its embedding alone, normed as the layer norms its input; a layer above the first sees more."
WITHOUT_POSITIONS = "Scores leave out positions: rotary angles, ALiBi and position embeddings."


class ScoredToken(NamedTuple):
    """A token of the vocabulary with its score."""

    text: str
    score: float


class HeadScores(NamedTuple):
    """Scores of all heads from their weights, (layer, head)."""

    copying: Numbers  # NaN without an unembedding
    previous_token: Numbers


@dataclass(frozen=True, eq=False)
class TokenCircuits:
    """The heads of a model, read through its vocabulary.

    >>> from regard.models.model import model
    >>> circuits = TokenCircuits.of(model("smollm2"))
    >>> len(circuits.looks_for(0, 3, " the", 5)), circuits.scores.copying.shape
    (5, (30, 9))
    """

    reader: Reader
    transformer: Transformer

    @classmethod
    def of(cls, reader: Reader) -> TokenCircuits:
        """Those of a model whose weights Regard has."""
        if reader.transformer is None:
            raise errors.unsupported(
                f"Reading the weights of {reader.name}, which transformers runs,",
                "regard.model(path) opens the BERT, GPT-2 and Llama kinds with their weights.",
            )
        return cls(reader, reader.transformer)

    # One head

    def looks_for(self, layer: int, head: int, token: str, count: int = 10) -> list[ScoredToken]:
        """The key tokens with the highest scores for a query token, scaled as before the softmax."""
        block, head = self._head(layer, head)
        attention = replace(block.attention, rotary=None)
        query = attention.queries(self._inputs(block, [token_id(self.reader, token)]))[head, 0]
        scale = attention.head_dim**-0.5 if attention.scale is None else attention.scale
        group = head * attention.groups // attention.heads
        scores = np.empty(self.reader.vocabulary)
        for rows in chunks(self.reader.vocabulary, ROWS):
            keys, _ = attention.keys_and_values(self._inputs(block, rows))
            scores[rows] = np.asarray(keys[group], np.float64) @ query * scale
        return self._largest(scores, count)

    def writes(self, layer: int, head: int, token: str, count: int = 10) -> list[ScoredToken]:
        """The tokens whose logits rise most when the head attends to a token with weight 1.

        The last norm contributes its gain; its scale, which depends on the rest of the residual stream, is left at 1.
        """
        block, head = self._head(layer, head)
        _, values = block.attention.keys_and_values(self._inputs(block, [token_id(self.reader, token)]))
        value = np.asarray(values[head * block.attention.groups // block.attention.heads, 0], np.float64)
        written = value @ matrices(block.attention).outputs[head]  # (width,)
        scores = np.empty(self._unembedding.shape[0])
        for rows in chunks(len(scores), ROWS):
            scores[rows] = self._unembedding_rows(rows) @ written
        return self._largest(scores, count)

    def table(self, layer: int, head: int, tokens: Sequence[str], count: int = 5) -> Table:
        """For each token: which keys a head looks for from it, and what the head writes when it attends to it."""
        _, head = self._head(layer, head)
        notes = [
            f"The {count} largest, with their scores. Copying score {self.scores.copying[layer, head]:.2f}, "
            f"previous-token score {self.scores.previous_token[layer, head]:.2f}.",
            ALONE, WITHOUT_POSITIONS,
        ]  # fmt: skip
        rows = []
        for token in tokens:
            rows.append((token.strip(), "query: looks for", _token_list(self.looks_for(layer, head, token, count))))
            if self.transformer.head is not None:
                rows.append((token.strip(), "key: raises", _token_list(self.writes(layer, head, token, count))))
        if self.transformer.head is None:
            notes.append(f"{self.reader.name} has no unembedding: what a head writes cannot be read as tokens.")
        columns = (Column("token", "word"), Column("as a"), Column("tokens"))
        title = f"Head {layer}.{head} by its weights"
        return Table(title, columns, tuple(rows), tuple(notes), source=self.reader.name)

    # All heads

    @cached_property
    def scores(self) -> HeadScores:
        """Copying and previous-token scores of every head.

        copying          Σ λ / Σ |λ| over the eigenvalues λ of embedding · W_OV · unembedding, from −1 to 1: near 1, the
                         logit of whatever token is attended to rises. The eigenvalues of that vocabulary × vocabulary
                         matrix are those of W_V · (embeddingᵀ · unembedding) · W_O, head_dim × head_dim
        previous_token   the mean weight on the token before, where all tokens are the mean embedding, so that only
                         their positions differ
        """
        blocks = self.transformer.encoders
        copying = np.full((len(blocks), self.reader.heads), np.nan)
        for layer, block in enumerate(blocks if self.transformer.head is not None else ()):
            _, _, values, outputs = matrices(block.attention)
            middle = self._embedding_unembedding(block)
            for head in range(self.reader.heads):
                eigenvalues = np.linalg.eigvals(values[head] @ middle @ outputs[head].T)
                copying[layer, head] = eigenvalues.real.sum() / max(float(np.abs(eigenvalues).sum()), 1e-30)
        return HeadScores(copying, np.stack([self._previous_token(block) for block in blocks]))

    def score_table(self, rows: int | None = None) -> Table:
        """Copying and previous-token scores, the highest first."""
        scores = self.scores
        best = np.fmax(scores.copying, scores.previous_token)
        order = np.argsort(-best, axis=None, kind="stable")[:rows]
        cells = [
            (f"{layer}.{head}", None if np.isnan(scores.copying[layer, head]) else scores.copying[layer, head],
             scores.previous_token[layer, head])
            for layer, head in zip(*np.unravel_index(order, best.shape), strict=True)
        ]  # fmt: skip
        columns = (Column("head", "word"), Column("copying", "number", 3), Column("previous token", "number", 3))
        notes = [
            "copying: Σ λ / Σ |λ| over the eigenvalues of embedding · W_OV · unembedding, from −1 to 1; near 1, the "
            "head raises the logit of whatever it attends to.",
            f"previous token: mean weight on the token before, over {POSITIONS} positions that all hold the mean "
            "embedding.",
            ALONE,
            *omitted_rows(len(order), best.size, " heads"),
        ]
        name = self.reader.name
        return Table(f"Heads of {name} by their weights", columns, tuple(cells), tuple(notes), source=name)

    # Parts

    def _head(self, layer: int, head: int) -> tuple[Encoder, int]:
        block = self.transformer.encoders[validate.index("layer", layer, len(self.transformer.encoders))]
        return block, validate.index("head", head, block.attention.heads)

    def _embeddings(self, rows: Sequence[int] | slice) -> Array:
        embedded = self.transformer.embedding.weight[rows] * np.float32(self.transformer.embedding_scale)
        return embedded if self.transformer.embedding_norm is None else self.transformer.embedding_norm(embedded)

    def _inputs(self, block: Encoder, rows: Sequence[int] | slice) -> Array:
        """Embeddings as the projections of a block get them, (token, width)."""
        embedded = self._embeddings(rows)
        return block.norm_1(embedded) if block.norm_first else embedded

    @property
    def _unembedding(self) -> Array:
        if self.transformer.head is None:
            raise errors.unsupported(
                f"What a head of {self.reader.name}, which has no unembedding, writes", "Use a causal model: smollm2."
            )
        return self.transformer.head.weight

    def _unembedding_rows(self, rows: slice) -> Numbers:
        """Rows of the unembedding with the gain of the last norm, (token, width)."""
        weight, norm = np.asarray(self._unembedding[rows], np.float64), self.transformer.norm
        if norm is None:
            return weight
        weight = weight * np.asarray(norm.weight, np.float64)
        return weight if isinstance(norm, RMSNorm) else weight - weight.mean(1, keepdims=True)

    def _embedding_unembedding(self, block: Encoder) -> Numbers:
        """Σ over the vocabulary of a block's input and the unembedding, (width, width)."""
        if not block.norm_first:
            return self._summed[None]
        gain = np.asarray(block.norm_1.weight, np.float64)[:, None]
        bias = block.norm_1.bias if isinstance(block.norm_1, LayerNorm) else None
        shift = 0.0 if bias is None else np.asarray(bias, np.float64)[:, None] * self._summed_rows
        middle: Numbers = gain * self._summed[type(block.norm_1), block.norm_1.epsilon] + shift
        return middle

    @cached_property
    def _summed(self) -> dict[object, Numbers]:
        """embeddingᵀ · unembedding, the embeddings normed without gain, for every kind of norm in the model."""
        width = self.transformer.embedding.width
        norms: dict[object, LayerNorm | RMSNorm | None] = {}
        for block in self.transformer.encoders:
            kind = type(block.norm_1)
            ones = np.ones(width, np.float32)
            if block.norm_first:
                norms[kind, block.norm_1.epsilon] = kind(ones, epsilon=block.norm_1.epsilon)
            else:
                norms[None] = None
        sums = {key: np.zeros((width, width)) for key in norms}
        for rows in chunks(self.reader.vocabulary, ROWS):
            embedded, unembedded = self._embeddings(rows), self._unembedding_rows(rows)
            for key, norm in norms.items():
                sums[key] += np.asarray(embedded if norm is None else norm(embedded), np.float64).T @ unembedded
        return sums

    @cached_property
    def _summed_rows(self) -> Numbers:
        """The sum of all rows of the unembedding, (width,)."""
        return np.asarray(sum(self._unembedding_rows(rows).sum(0) for rows in chunks(self.reader.vocabulary, ROWS)))

    def _previous_token(self, block: Encoder) -> Numbers:
        """The mean weight of each head on the previous token where all tokens are the mean embedding, (head,)."""
        mean = np.asarray(self.transformer.embedding.weight, np.float64).mean(0) * self.transformer.embedding_scale
        rows: Array = np.repeat(mean[None].astype(np.float32), POSITIONS, 0)
        if self.transformer.positions is not None:
            rows = self.transformer.positions(rows)
        if self.transformer.embedding_norm is not None:
            rows = self.transformer.embedding_norm(rows)
        weights = block.attention.attention(block.norm_1(rows) if block.norm_first else rows).attention.dense()
        on_previous: Numbers = np.asarray(np.diagonal(weights, -1, 1, 2), np.float64)
        return np.asarray(on_previous.mean(1))

    def _largest(self, scores: Numbers, count: int) -> list[ScoredToken]:
        order = np.argsort(-scores, kind="stable")[: validate.integer("count", count, 1)]
        return [ScoredToken(self.reader.tokeniser.piece(int(number))[0], float(scores[number])) for number in order]


def _token_list(tokens: Sequence[ScoredToken]) -> str:
    return ", ".join(f"{token.text} ({token.score:.1f})" for token in tokens)

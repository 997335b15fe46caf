"""The logit lens: what the model would predict if it ended after each layer (nostalgebraist, 2020).

The state of every layer and token goes through the model's last norm and its unembedding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard import validate
from regard.arrays import chunks
from regard.attribution.targets import check_unembedding, quoted_token
from regard.edits.metrics import token_id
from regard.provenance import provenance
from regard.reading.reader import OnLayer, Reader
from regard.tables import Column, Table

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]
ROWS = 256  # tokens whose logits are computed at once
NOTE = "Each state goes through the last norm and the unembedding, as if the model ended there."


@dataclass(frozen=True, eq=False, repr=False)
class LogitLens:
    """The most likely next token at every layer and token; all arrays are (layer + 1, token), the embedding first."""

    model: str
    text: str
    tokens: tuple[str, ...]
    target: str | None  # None: the token that follows in the text
    top: Integers  # the most likely token
    top_texts: tuple[tuple[str, ...], ...]
    probability: Numbers  # of it
    target_texts: tuple[str, ...]  # of each token; empty where none follows
    target_probability: Numbers  # NaN where none follows
    target_rank: Integers  # from 0; −1 where none follows

    def __repr__(self) -> str:
        return f"LogitLens({len(self.tokens)} tokens, {len(self.top) - 1} layers; {self.model})"

    def table(self, position: int | None = None) -> Table:
        """One row per layer and token, or per layer for the token at one position."""
        count = len(self.tokens)
        chosen = range(count) if position is None else (validate.index("position", position, count),)
        rows = []
        for layer in range(len(self.top)):
            after = "embedding" if layer == 0 else f"layer {layer - 1}"
            for token in chosen:
                follows = self.target_rank[layer, token] >= 0
                rows.append((
                    after, token, self.tokens[token], self.top_texts[layer][token],
                    self.probability[layer, token], self.target_texts[token],
                    self.target_probability[layer, token] if follows else None,
                    int(self.target_rank[layer, token]) if follows else None,
                ))  # fmt: skip
        columns = [
            Column("after", "word"), Column("position", "number", 0), Column("token", "word"), Column("top", "word"),
            Column("probability", "number", 3, shade=True), Column("target", "word"),
            Column("of target", "number", 3), Column("rank", "number", 0),
        ]  # fmt: skip
        what = "the token that follows in the text" if self.target is None else quoted_token(self.target)
        notes = [NOTE, f"Target: {what}; rank 0 is the most likely token."]
        if position is None:
            return Table("Logit lens", tuple(columns), tuple(rows), tuple(notes), source=self.source)
        (at,) = chosen
        shown = [0, *range(3, 8)] if self.target_texts[at] else [0, 3, 4]
        cells = tuple(tuple(row[column] for column in shown) for row in rows)
        title = f"Logit lens after {quoted_token(self.tokens[at])}, position {at}"
        return Table(title, tuple(columns[column] for column in shown), cells, tuple(notes), source=self.source)

    @property
    def source(self) -> str:
        """Where the numbers come from."""
        return provenance(self.model, text=self.text)


def logit_lens(reader: Reader, text: str, target: str | None = None, *, on_layer: OnLayer | None = None) -> LogitLens:
    """The logit lens of every layer and token of a text.

    target     a token whose probability and rank are followed; by default the token that follows in the text
    on_layer   called with the number of states done and of all; it may raise to cancel

    >>> from regard.models.model import model
    >>> lens = logit_lens(model("smollm2"), "The capital of France is", " Paris")
    >>> lens.top_texts[-1][-1], int(lens.target_rank[-1, -1])
    ('Paris', 0)
    """
    stream = reader.residual(text)
    check_unembedding(reader, stream, "The logit lens")
    ids = np.array([token.id for token in stream.reading.tokens])
    count, states = len(ids), stream.reading.states
    if target is None:
        followed = np.append(ids[1:], -1)
        target_texts = (*(token.text for token in stream.reading.tokens[1:]), "")
    else:
        followed, target_texts = np.full(count, token_id(reader, target)), (target.strip(),) * count
    shape = len(states), count
    top, rank = np.zeros(shape, np.int64), np.full(shape, -1, np.int64)
    probability, of_target = np.zeros(shape), np.full(shape, np.nan)
    for layer, state in enumerate(states):
        for rows in chunks(count, ROWS):
            logits = stream.logits(state[rows])
            top[layer, rows] = logits.argmax(1)
            logits -= logits.max(1, keepdims=True)
            sums = np.exp(logits).sum(1)
            probability[layer, rows] = 1 / sums
            has_target = followed[rows] >= 0
            target_logits = logits[np.arange(len(logits)), np.maximum(followed[rows], 0)]
            of_target[layer, rows] = np.where(has_target, np.exp(target_logits) / sums, np.nan)
            rank[layer, rows] = np.where(has_target, (logits > target_logits[:, None]).sum(1), -1)
        if on_layer is not None:
            on_layer(layer + 1, len(states))
    pieces = {int(number): reader.tokeniser.piece(int(number))[0] for number in np.unique(top)}
    top_texts = tuple(tuple(pieces[int(number)] for number in row) for row in top)
    names = tuple(token.text for token in stream.reading.tokens)
    return LogitLens(
        reader.name, text, names, target, top, top_texts, probability, target_texts, of_target, rank
    )  # fmt: skip

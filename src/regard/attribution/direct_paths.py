"""Direct contributions to a logit: of every head, of every source token through each head, of everything else.

The logit of a token is linear in what the blocks write, once each norm on the way is held at its actual scale. So it is
a sum: embedding + heads + feed-forward parts + biases. A head's part is a sum over the tokens it attends to,
weight · value · W_O. Only direct paths are counted: what a later layer does with a head's output is that layer's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import validate
from regard.arrays import gram_lengths
from regard.attribution.targets import LinearTarget, target_of
from regard.heads.circuits import output_matrices
from regard.layers import RMSNorm
from regard.provenance import provenance
from regard.reading.reader import Reader
from regard.reading.residual_stream import NormInput, ResidualStream
from regard.tables import Column, Table, omitted_rows

Numbers = NDArray[np.float64]
MEAN = "mean"
NOTES = (
    "Each part is carried through W_O and the norms after it, held at their actual scale; all parts sum to the total.",
    "Direct paths only: what later layers do with a head's output is counted as theirs.",
)


@dataclass(frozen=True, eq=False, repr=False)
class Contributions:
    """The parts of a logit, of a difference of two logits, or of a state along a direction.

    Heads are (layer, head), sources (layer, head, token). `written` and `source_written` are the norms of what a head
    writes to the residual stream, of all tokens together and of each source token.
    """

    model: str
    text: str
    tokens: tuple[str, ...]
    position: int | None  # of the token whose logit it is; None: the mean over all tokens
    target: str
    embedding: float
    heads: Numbers
    sources: Numbers
    fed_forward: Numbers  # (layer,)
    biases: float
    measured: float  # as the model computes it
    written: Numbers
    source_written: Numbers

    @property
    def total(self) -> float:
        """The sum of all parts."""
        return float(self.embedding + self.heads.sum() + self.fed_forward.sum() + self.biases)

    def __repr__(self) -> str:
        return f"Contributions({self.target}, {self.total:.3f}; {self.model})"

    @property
    def source(self) -> str:
        """Where the numbers come from."""
        return provenance(self.model, text=self.text)

    def table(self, rows: int | None = None) -> Table:
        """Every head, with the source token that contributes most through it; the largest first."""
        order = np.argsort(-np.abs(self.heads), axis=None, kind="stable")[:rows]
        cells = []
        for layer, head in zip(*np.unravel_index(order, self.heads.shape), strict=True):
            of_tokens = self.sources[layer, head]
            best = int(np.abs(of_tokens).argmax())
            name = f"{layer}.{head}"
            cells.append((name, self.heads[layer, head], self.written[layer, head], self.tokens[best], of_tokens[best]))
        columns = (
            Column("head", "word"), Column("contribution", "number", 3), Column("‖written‖", "number", 3),
            Column("largest source", "word"), Column("through it", "number", 3),
        )  # fmt: skip
        notes = [self._sum, *NOTES, *omitted_rows(len(order), self.heads.size, " heads")]
        return Table(
            f"Contributions of heads to {self.target}", columns, tuple(cells), tuple(notes), source=self.source
        )

    def part_table(self) -> Table:
        """Embedding, the heads and the feed-forward part of each layer, biases, and the total."""
        rows: list[tuple[Any, ...]] = [("embedding", self.embedding)]
        for layer, (heads, fed) in enumerate(zip(self.heads, self.fed_forward, strict=True)):
            rows += [(f"heads of layer {layer}", heads.sum()), (f"feed-forward of layer {layer}", fed)]
        rows += [("biases", self.biases), ("total", self.total), ("as the model computes it", self.measured)]
        columns = (Column("part", "word"), Column("contribution", "number", 4))
        return Table(f"Parts of {self.target}", columns, tuple(rows), NOTES, source=self.source)

    def source_table(self, rows: int | None = None) -> Table:
        """Every source token through every head; the largest first."""
        order = np.argsort(-np.abs(self.sources), axis=None, kind="stable")[:rows]
        cells = [
            (f"{layer}.{head}", token, self.tokens[token], self.sources[layer, head, token],
             self.source_written[layer, head, token])
            for layer, head, token in zip(*np.unravel_index(order, self.sources.shape), strict=True)
        ]  # fmt: skip
        columns = (
            Column("head", "word"), Column("position", "number", 0), Column("source", "word"),
            Column("contribution", "number", 4), Column("‖written‖", "number", 4),
        )  # fmt: skip
        title = f"Contributions of source tokens to {self.target}"
        return Table(title, columns, tuple(cells), NOTES, source=self.source)

    @property
    def _sum(self) -> str:
        return (
            f"{self.target} is {self.measured:.4f}; its parts sum to {self.total:.4f}: embedding {self.embedding:.3f}, "
            f"heads {self.heads.sum():.3f}, feed-forward {self.fed_forward.sum():.3f}, biases {self.biases:.3f}."
        )


def contributions(reader: Reader, text: str, toward: Any = None, *, position: int | str = -1) -> Contributions:
    """The direct contribution of every part of a model to a logit, to a difference of two, or along a direction.

    toward     a token, as in " Mary", by default the most likely one; two tokens, for the difference of their logits
               (None is the most likely one here too); or a direction (width,) of the states after the last norm, for
               models without an unembedding
    position   of the token whose state it is, the last by default; "mean" is the mean over all tokens, as in sentence
               vectors

    >>> from regard.models.model import model
    >>> parts = contributions(model("smollm2"), "The capital of France is", " Paris")
    >>> bool(abs(parts.total - parts.measured) < 1e-4)
    True
    """
    stream = reader.residual(text)
    reading = stream.reading
    count = len(reading.tokens)
    at = None if position == MEAN else validate.index("position", position, count)
    target = target_of(reader, stream, toward, at)
    tokens = range(count) if at is None else (at,)
    parts = [_at(stream, target, at_token) for at_token in tokens]
    mean = {name: sum(part[name] for part in parts) / len(parts) for name in parts[0]}
    return Contributions(
        reader.name, text, tuple(token.text for token in reading.tokens), at, target.name,
        embedding=float(mean["embedding"]), heads=mean["heads"], sources=mean["sources"],
        fed_forward=mean["fed_forward"], biases=float(mean["biases"]), measured=float(mean["measured"]),
        written=mean["written"], source_written=mean["source_written"],
    )  # fmt: skip


def _at(stream: ResidualStream, target: LinearTarget, position: int) -> dict[str, Any]:
    """All parts for one token, found by walking back from the target: `direction` is its gradient on the stream."""
    reading, direction, constant = stream.reading, target.direction, target.constant
    heads, sources, fed, written, source_written = [], [], [], [], []
    final = np.asarray(reading.states[-1][position], np.float64)
    if stream.norm is not None:
        direction, shift = carry_back(NormInput(stream.norm, reading.states[-1]), position, direction)
        constant += shift
    measured = float(final @ direction) + constant
    for layer in reversed(range(len(stream.blocks))):
        block = stream.blocks[layer]
        if block.norm_2 is not None:
            direction, shift = carry_back(block.norm_2, position, direction)
            constant += shift
        fed.append(float(np.asarray(block.fed_forward[position], np.float64) @ direction))
        if block.norm_1 is not None:
            direction, shift = carry_back(block.norm_1, position, direction)
            constant += shift
        if block.w_o.bias is not None:
            constant += float(np.asarray(block.w_o.bias, np.float64) @ direction)
        attention, values = reading.seen[layer]
        outputs = np.asarray(reading.outputs[layer][:, position], np.float64)  # (head, value_dim)
        count = len(outputs)
        w_o = output_matrices(np.asarray(block.w_o.weight, np.float64), count)
        per_head = w_o @ direction  # (head, value_dim)
        weights = np.asarray(attention[:, position], np.float64)  # (head, key)
        rows = np.repeat(np.asarray(values, np.float64), count // len(values), axis=0)  # (head, key, value_dim)
        heads.append((outputs * per_head).sum(1))
        sources.append(weights * (rows @ per_head[:, :, None])[:, :, 0])
        gram = w_o @ w_o.swapaxes(1, 2)  # (head, value_dim, value_dim): ‖x · W_O‖² = x · gram · x
        written.append(gram_lengths(outputs[:, None], gram)[:, 0])
        source_written.append(weights * gram_lengths(rows, gram))
    embedding = float(np.asarray(reading.states[0][position], np.float64) @ direction)
    lists = {"heads": heads, "sources": sources, "fed_forward": fed, "written": written}
    arrays: dict[str, Any] = {name: np.array(parts[::-1]) for name, parts in lists.items()}
    arrays["source_written"] = np.array(source_written[::-1])
    return arrays | {"embedding": embedding, "biases": constant, "measured": measured}


def carry_back(step: NormInput, position: int, direction: Numbers) -> tuple[Numbers, float]:
    """The gradient before a norm whose scale is held, from the one after it, and what the norm's bias adds."""
    row = np.asarray(step.rows[position], np.float64)
    gained = np.asarray(step.norm.weight, np.float64) * direction
    if isinstance(step.norm, RMSNorm):
        return gained / np.sqrt((row**2).mean() + step.norm.epsilon), 0.0
    scale = np.sqrt(row.var() + step.norm.epsilon)
    bias = 0.0 if step.norm.bias is None else float(np.asarray(step.norm.bias, np.float64) @ direction)
    return (gained - gained.mean()) / scale, bias

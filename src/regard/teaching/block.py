"""A transformer block, stage by stage: attention, add & norm, feed-forward, add & norm; cross-attention too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from regard import errors, validate
from regard.layers import Decoder, Encoder
from regard.layers.layer import Seed
from regard.tables import Column, Table, digits_for
from regard.teaching.words import words_of
from regard.trace import Trace
from regard.trace.labels import place_of

Floats = NDArray[np.float64]
Kind = Literal["encoder", "decoder"]
KINDS: tuple[Kind, ...] = ("encoder", "decoder")
MOST_WORDS, MOST_WIDTH = 64, 256  # of a text


@dataclass(frozen=True, eq=False, slots=True)
class BlockStage:
    """The vectors of all tokens after one part of a block."""

    name: str
    formula: str
    vectors: Floats  # (token, width)
    adds: int | None = None  # the stage that is added here: the residual


@dataclass(frozen=True, eq=False, repr=False)
class BlockLesson:
    """A block of an encoder or decoder with random weights on given words, stage by stage.

    stages  of the tokens, from their embeddings to the result
    traces  every step of each attention: of the tokens to themselves and, in a decoder with a context, to that
    memory  what an encoder block makes of the context, (context token, width); None without a context
    """

    kind: Kind
    words: tuple[str, ...]
    context_words: tuple[str, ...]
    stages: tuple[BlockStage, ...]
    traces: tuple[Trace, ...]
    memory: Floats | None
    note: str

    def table(self, word: Any = 0) -> Table:
        """The vectors of one word, a row per stage."""
        row = place_of("word", word, self.words)
        vectors = [stage.vectors[row] for stage in self.stages]
        columns = Column("Stage", "text"), Column("vector", "vector", max(2, digits_for(np.concatenate(vectors))))
        rows = tuple((stage.name, vector) for stage, vector in zip(self.stages, vectors, strict=True))
        formulas = tuple(f"{stage.name}: {stage.formula}." for stage in self.stages[1:])
        title = f"{self.words[row]}: through {self.title}"
        return Table(title, columns, rows, (*formulas, self.note), source=self.note)

    def tables(self) -> tuple[Table, ...]:
        """One table per word, with the notes below the last."""
        tables = [self.table(index) for index in range(len(self.words))]
        bare = [replace(table, notes=()) for table in tables[:-1]]
        return (*bare, tables[-1])

    @property
    def title(self) -> str:
        if self.kind == "encoder":
            return "an encoder block"
        return "a decoder block" if self.memory is None else "a decoder block with cross-attention"

    def __repr__(self) -> str:
        heads, width = self.traces[0].heads, self.stages[0].vectors.shape[1]
        return f"BlockLesson({self.kind}, {len(self.words)} words of width {width}, {heads} heads)"

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.tables()))

    def _repr_html_(self) -> str:
        from regard.output import figure, notebook_html

        return notebook_html(figure.block(self), *self.tables())


def block_lesson(
    words: str | Sequence[str], context: str | Sequence[str] = (), *, kind: Kind | None = None, heads: int = 2,
    width: int = 8, norm_first: bool = False, seed: int = 0,
) -> BlockLesson:  # fmt: skip
    """A block with random weights and embeddings from a seed, on a text or a list of words.

    context     words that a decoder attends to, after an encoder block has read them
    kind        "encoder", or "decoder" (its tokens see only those before them); by default a decoder with a context
    norm_first  whether norms are applied before each part (pre-norm) instead of after the addition (post-norm)

    >>> lesson = block_lesson(["The", "cat", "sat"])
    >>> [stage.name for stage in lesson.stages]
    ['embeddings', 'self-attention', 'add & norm', 'feed-forward', 'add & norm']
    >>> lesson.stages[-1].vectors.shape
    (3, 8)
    """
    words, context = _words(words), _words(context)
    chosen = kind or ("decoder" if context else "encoder")
    validate.choice("kind", chosen, KINDS)
    if context and chosen == "encoder":
        raise errors.option("context", list(context), "none for an encoder", "A decoder attends to a context.")
    if not words:
        raise errors.option("words", list(words), "at least one word")
    heads, width = validate.integer("heads", heads, 1), validate.integer("width", width, 1)
    if width % heads:
        raise errors.option("width", width, f"a multiple of `heads`, {heads}", "Each head gets an equal share.")
    start = Seed(seed)
    x = _embedded(words, width, start)
    note = f"Random embeddings and weights from seed {seed}: nothing was trained."
    options: dict[str, Any] = {"norm_first": norm_first, "dtype": np.float64, "bias": False}
    block: Any = Encoder.seeded(width, heads, seed=start.part("block"), **options)
    if chosen == "decoder":
        block = Decoder.seeded(width, heads, cross=bool(context), seed=start.part("block"), **options)
    memory = None
    traces: tuple[Trace, ...]
    if context:
        encoder = Encoder.seeded(width, heads, seed=start.part("encoder"), **options)
        memory = np.asarray(encoder(_embedded(context, width, start)))
        traces = (
            block.explain(x, memory, which="self", words=list(words)),
            block.explain(x, memory, which="cross", words=list(words), memory_words=list(context)),
        )
    else:
        traces = (block.explain(x, words=list(words)),)
    return BlockLesson(chosen, tuple(words), tuple(context), _stages(x, traces, norm_first), traces, memory, note)


def _words(text: str | Sequence[str]) -> tuple[str, ...]:
    """The words of a text, or a list as it is."""
    if not isinstance(text, str):
        return tuple(text)
    words = words_of(text)
    if not words:
        raise errors.OptionError('The text contains no word: give one, such as "The cat sat".')
    if len(words) > MOST_WORDS:
        raise errors.OptionError(f"The text has {len(words)} words; a block is shown for {MOST_WORDS} at most.")
    return words


def _embedded(words: Sequence[str], width: int, start: Seed) -> Floats:
    """The same vector for the same word."""
    return np.stack([start.part("embedding").part(word).normal((width,), np.float64) for word in words])


def _stages(x: Floats, traces: tuple[Trace, ...], norm_first: bool) -> tuple[BlockStage, ...]:
    """Self-attention, cross-attention if there is a second trace, feed-forward; each followed by its addition."""
    first, last = traces[0], traces[-1]
    add, norm = ("add", "norm, ") if norm_first else ("add & norm", "")
    masked = "masked " if "masked" in first else ""
    parts = [(f"{norm}{masked}self-attention", first, "projected"), (add, first, "attended")]
    if len(traces) > 1:
        parts += [(f"{norm}cross-attention", last, "projected"), (add, last, "attended")]
    parts += [(f"{norm}feed-forward", last, "fed_forward"), (add, last, "result")]
    stages = [BlockStage("embeddings", "as given", x)]
    for number, (name, trace, step) in enumerate(parts):
        adds = number - 1 if name == add else None
        stages.append(BlockStage(name, trace.step(step).formula, np.asarray(trace[step], np.float64), adds))
    return tuple(stages)

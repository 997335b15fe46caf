"""Documents: texts as tokens, cut to the length that a model reads, and grouped into batches of similar length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from regard.reading.reader import Encoded, Reader

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]

BATCH = 4096  # tokens that are computed at once


@dataclass(frozen=True, eq=False)
class TokenChunk:
    """The tokens of a text, or of a part of a text that is longer than the model reads."""

    ids: Integers  # (token,)
    special: Flags  # added by the tokeniser, as [CLS] is
    causal: bool  # whether the model that reads it is
    pieces: tuple[str, ...] = ()  # the tokens as people read them
    joined: Flags | None = None  # continues the word of the token before
    spans: tuple[tuple[int, int], ...] = ()  # where in the text, in characters
    text: str = ""

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def sinks(self) -> Flags:
        """Special tokens, and the first token of a causal model; the rule of `Reading.sinks`."""
        sinks = self.special.copy()
        sinks[0] |= self.causal and len(self) > 1
        return sinks

    @cached_property
    def content(self) -> Flags:
        """All other tokens: the queries over which statistics are averaged."""
        return ~self.sinks

    @cached_property
    def punctuation(self) -> Flags:
        """Tokens without a letter or digit."""
        signs = [bool(piece) and not any(sign.isalnum() for sign in piece) for piece in self.pieces]
        return np.array(signs or [False] * len(self)) & ~self.special

    @cached_property
    def word(self) -> Integers:
        """The number of the word that each token belongs to."""
        joined = np.zeros(len(self), bool) if self.joined is None else self.joined
        return np.cumsum(~joined) - 1


def documents_of(model: Reader, texts: Iterable[str], longest: int | None = None) -> list[TokenChunk]:
    """Texts as documents of at most `longest` tokens; a longer text gives several, an empty one none."""
    texts = [text for text in texts if text.strip()]
    if not texts:
        return []
    limit = model.longest if longest is None else min(longest, model.longest)
    encodings = zip(texts, model.tokeniser.encode_many(texts), strict=True)
    return [document for text, encoded in encodings for document in cut(encoded, text, limit, model.causal)]


def cut(encoded: Encoded, text: str, limit: int, causal: bool) -> Iterator[TokenChunk]:
    """The document of a text; if it is too long, several, each with the special tokens around it."""
    count = len(encoded.ids)
    if all(encoded.special):
        return
    before, after = encoded.special.index(False), encoded.special[::-1].index(False)
    room = max(1, limit - before - after) if count > limit else count
    for start in range(before, count - after, room):
        content = range(start, min(start + room, count - after))
        chosen = [*range(before), *content, *range(count - after, count)]
        special, joined = (np.array([part[index] for index in chosen]) for part in (encoded.special, encoded.joined))
        ids = np.array([encoded.ids[index] for index in chosen], np.int64)
        texts, spans = tuple(encoded.texts[i] for i in chosen), tuple(encoded.spans[i] for i in chosen)
        yield TokenChunk(ids, special, causal, texts, joined, spans, text)


def batches(documents: Sequence[TokenChunk], tokens: int = BATCH) -> Iterator[list[int]]:
    """The indices of documents in batches of about so many tokens, ordered by length; deterministic."""
    batch: list[int] = []
    size = 0
    for index in sorted(range(len(documents)), key=lambda index: len(documents[index])):
        if batch and size + len(documents[index]) > tokens:
            yield batch
            batch, size = [], 0
        batch.append(index)
        size += len(documents[index])
    if batch:
        yield batch

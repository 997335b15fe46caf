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
        found = self.special.copy()
        found[0] |= self.causal and len(self) > 1
        return found

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
    found: list[TokenChunk] = []
    for text, encoded in zip(texts, model.tokeniser.encode_many(texts), strict=True):
        found += cut(encoded, text, limit, model.causal)
    return found


def cut(encoded: Encoded, text: str, limit: int, causal: bool) -> Iterator[TokenChunk]:
    """The document of a text; if it is too long, several, each with the special tokens around it."""
    count = len(encoded.ids)
    before = next((place for place, special in enumerate(encoded.special) if not special), count)
    after = next((place for place, special in enumerate(reversed(encoded.special)) if not special), 0)
    if before == count:  # nothing but special tokens
        return
    around, room = (list(range(before)), list(range(count - after, count))), limit - before - after
    content = list(range(before, count - after))
    starts = [0] if count <= limit else range(0, len(content), max(1, room))
    for start in starts:
        chosen = [*around[0], *content[start : start + max(1, room) if count > limit else None], *around[1]]
        yield TokenChunk(
            np.array([encoded.ids[place] for place in chosen], np.int64),
            np.array([encoded.special[place] for place in chosen]),
            causal,
            tuple(encoded.texts[place] for place in chosen),
            np.array([encoded.joined[place] for place in chosen]),
            tuple(encoded.spans[place] for place in chosen),
            text,
        )


def batches(documents: Sequence[TokenChunk], tokens: int = BATCH) -> Iterator[list[int]]:
    """The places of documents in batches of about so many tokens, ordered by length; deterministic."""
    order = sorted(range(len(documents)), key=lambda place: len(documents[place]))
    batch: list[int] = []
    held = 0
    for place in order:
        if batch and held + len(documents[place]) > tokens:
            yield batch
            batch, held = [], 0
        batch.append(place)
        held += len(documents[place])
    if batch:
        yield batch

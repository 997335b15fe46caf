"""Tokens as a model reads them, and words as people do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Token:
    """One piece of a text."""

    text: str  # as a person reads it: "##ing" is "ing"
    id: int
    start: int  # where it stands in the text, in characters
    stop: int
    special: bool = False  # put in by the model, as [CLS] is
    joined: bool = False  # goes on with the word before


@dataclass(frozen=True, slots=True)
class Word:
    """A word, or a sign that stands for itself: the tokens from `first` up to `last`."""

    text: str
    first: int
    last: int
    special: bool = False


def words_of(tokens: Sequence[Token], text: str) -> tuple[Word, ...]:
    """Pieces joined into words, as the text writes them.

    >>> pieces = Token("keep", 0, 0, 4), Token("ing", 1, 4, 7, joined=True), Token("watch", 2, 8, 13)
    >>> [(word.text, word.first, word.last) for word in words_of(pieces, "Keeping watch")]
    [('Keeping', 0, 2), ('watch', 2, 3)]
    """
    return tuple(
        Word(_written(tokens[first:last], text), first, last, tokens[first].special) for first, last in _runs(tokens)
    )


def _runs(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    first = 0
    for place in range(1, len(tokens) + 1):
        alone = place == len(tokens) or not tokens[place].joined or tokens[place].special or tokens[first].special
        if alone and place > first:
            yield first, place
            first = place


def _written(pieces: Sequence[Token], text: str) -> str:
    """As it stands in the text, with its capitals; the tokens' own text where it does not stand there."""
    start, stop = pieces[0].start, max(piece.stop for piece in pieces)
    in_text = "" if pieces[0].special else text[start:stop].strip()
    return in_text or "".join(piece.text for piece in pieces)


def piece(token: Token, text: str) -> str:
    """One token as the text writes it."""
    return _written((token,), text)

"""Tokens as a model reads them, and the words that they make up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Token:
    """One piece of a text."""

    text: str  # without the tokeniser's marks: "##ing" is "ing"
    id: int
    start: int  # span in the text, in characters
    stop: int
    special: bool = False  # added by the tokeniser, such as [CLS]
    joined: bool = False  # continues the word of the token before


@dataclass(frozen=True, slots=True)
class Word:
    """A word, a punctuation mark or a special token: the tokens from `first` up to `last`."""

    text: str
    first: int
    last: int
    special: bool = False


def words_of(tokens: Sequence[Token], text: str) -> tuple[Word, ...]:
    """Tokens joined into words, spelled as in the text.

    >>> pieces = Token("keep", 0, 0, 4), Token("ing", 1, 4, 7, joined=True), Token("watch", 2, 8, 13)
    >>> [(word.text, word.first, word.last) for word in words_of(pieces, "Keeping watch")]
    [('Keeping', 0, 2), ('watch', 2, 3)]
    """
    return tuple(
        Word(_spelling(tokens[first:last], text), first, last, tokens[first].special) for first, last in _runs(tokens)
    )


def _runs(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    first = 0
    for index in range(1, len(tokens) + 1):
        alone = index == len(tokens) or not tokens[index].joined or tokens[index].special or tokens[first].special
        if alone and index > first:
            yield first, index
            first = index


def _spelling(pieces: Sequence[Token], text: str) -> str:
    """The characters of the text that the tokens cover, or the tokens' own text where these are none."""
    start, stop = pieces[0].start, max(piece.stop for piece in pieces)
    in_text = "" if pieces[0].special else text[start:stop].strip()
    return in_text or "".join(piece.text for piece in pieces)


def piece(token: Token, text: str) -> str:
    """One token, spelled as in the text."""
    return _spelling((token,), text)


def join_tokens(tokens: Sequence[Token]) -> tuple[str, tuple[Token, ...]]:
    """A text made of these tokens, and the tokens with their positions in it; special ones have empty spans."""
    text, placed = "", []
    for token in tokens:
        if token.special:
            placed.append(replace(token, start=len(text), stop=len(text)))
            continue
        text += "" if token.joined or not text else " "
        placed.append(replace(token, start=len(text), stop=len(text) + len(token.text)))
        text += token.text
    return text, tuple(placed)


def tokens_of(words: Sequence[str], text: str | None) -> tuple[str, tuple[Token, ...]]:
    """One token per word, with its position in the text; without a text, the words are joined by spaces."""
    whole, at = " ".join(words) if text is None else text, 0
    tokens = []
    for index, word in enumerate(words):
        start = whole.find(word, at)
        start, stop = (at, at) if start < 0 else (start, start + len(word))
        tokens.append(Token(word, index, start, stop))
        at = stop
    return whole, tuple(tokens)

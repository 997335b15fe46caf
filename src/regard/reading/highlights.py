"""Where a report or a page opens: the strongest link between content words.

The strongest weight from one content word to another, over all layers and heads. Sinks, the word itself and its direct
neighbours are set aside, because most heads put much weight there whatever the text says. A pronoun comes first: what
it refers to is the example that everyone understands.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.reading.weights import WordWeights

# Pronouns that refer to something in the text.
PRONOUNS = frozenset((
    "they", "he", "she", "them", "him", "it", "her", "his", "hers", "their", "theirs", "its", "themselves", "itself",
    "himself", "herself",
))  # fmt: skip
# Words that say little alone; a link to one of them is rarely worth showing first.
FUNCTION_WORDS = PRONOUNS.union((
    "a", "an", "the", "and", "or", "but", "nor", "so", "yet", "if", "then", "than", "as", "of", "to", "in", "on",
    "at", "by", "for", "from", "with", "without", "into", "onto", "over", "under", "up", "down", "off", "out",
    "about", "after", "before", "between", "during", "through", "until", "while", "because", "although", "though",
    "since", "unless", "be", "is", "are", "was", "were", "been", "being", "am", "do", "does", "did", "have", "has",
    "had", "having", "will", "would", "can", "could", "shall", "should", "may", "might", "must", "not", "no", "n't",
    "'s", "s", "t", "also", "just", "very", "too", "only", "there", "here", "when", "where", "why", "how", "what",
    "who", "whom", "whose", "which", "this", "that", "these", "those", "we", "us", "our", "ours", "i", "me", "my",
    "mine", "you", "your", "yours", "ourselves", "myself", "yourself",
))  # fmt: skip


class Opening(NamedTuple):
    """A link between two words in one head."""

    query: int  # positions of words
    key: int | None  # None if the query sees no other word
    layer: int
    head: int
    weight: float


def opening(
    weights: WordWeights,
    sinks: Collection[int],
    *,
    query: int | None = None,
    layer: int | None = None,
    head: int | None = None,
) -> Opening:
    """The link to show first, by positions; a given query, layer or head is kept.

    sinks   positions of words that are set aside
    """
    words = [word.text for word in weights.words]
    candidates = [query] if query is not None else _queries(words, sinks) or [0]
    keys = np.array([_is_content(word) and index not in sinks for index, word in enumerate(words)])
    layers = weights.layers(layer)
    best: dict[int, Opening] = {}  # by how much had to be allowed
    for index in layers:
        heads = weights.heads(index, head)
        rows = weights.of_words(candidates, index, heads)
        for allowed, mask in enumerate(_allowed(candidates, keys, sinks, len(words))):
            possible = np.where(mask, rows, -1.0)
            at = np.unravel_index(int(np.argmax(possible)), possible.shape)
            weight = float(possible[at])
            if weight > 0 and (allowed not in best or weight > best[allowed].weight):
                best[allowed] = Opening(candidates[at[1]], int(at[2]), index, heads[at[0]], weight)
    return best[min(best)] if best else Opening(candidates[0], None, layers[0], head or 0, 0.0)


def _queries(words: Sequence[str], sinks: Collection[int]) -> list[int]:
    """Words whose attention is worth showing: a pronoun, else all content words, else all words."""
    usual = [index for index in range(len(words)) if index not in sinks and _is_word(words[index])]
    pronouns = [index for index in usual if words[index].casefold() in PRONOUNS]
    return pronouns[:1] or [index for index in usual if _is_content(words[index])] or usual


def _allowed(
    queries: Sequence[int], keys: NDArray[np.bool_], sinks: Collection[int], count: int
) -> list[NDArray[np.bool_]]:
    """Which links may be chosen, (query, word), strictest first: content words apart, any content word, any word."""
    apart = np.abs(np.array(queries)[:, None] - np.arange(count))
    usual = np.array([index not in sinks for index in range(count)])
    return [keys & (apart > 1), keys & (apart > 0), usual & (apart > 0)]


def _is_word(word: str) -> bool:
    return any(letter.isalnum() for letter in word)


def _is_content(word: str) -> bool:
    return _is_word(word) and word.casefold() not in FUNCTION_WORDS

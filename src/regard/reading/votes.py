"""One vote per head: the word that a given word attends to most. web/maths/votes.js is kept equal by fixtures.

Sinks and the word itself are set aside, so every head that sees another word has a choice. A head abstains if its
largest weight of all is on a sink; its vote is then its next choice, and is counted as such. Ties abstain without a
vote, and a word without weight, such as a masked one, gets none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from regard.errors import count
from regard.reading.links import UNRANKED
from regard.reading.weights import Numbers, WordWeights
from regard.reading.words import Word
from regard.tables import Column, Table

TIE = 1e-6  # relative difference that single precision cannot resolve
MOST_NAMED = 6  # words in the one-line summary


class HeadVote(NamedTuple):
    """The choice of one head."""

    layer: int
    head: int
    word: int | None  # position of the word; None for a tie, or if no other word is visible
    weight: float  # on this word
    abstains: bool  # the largest weight of all is on a sink, or there is no vote


@dataclass(frozen=True, eq=False, repr=False)
class Votes:
    """The votes of all heads for one word, by layer and head.

    >>> heads = HeadVote(0, 0, 1, 0.5, False), HeadVote(0, 1, 1, 0.2, True), HeadVote(1, 0, 2, 0.6, False)
    >>> votes = Votes("they", ("[CLS]", "kids", "left", "they"), heads, ("[CLS]",))
    >>> votes
    Votes(they: kids 2, left 1; 1 of 3 heads abstains)
    >>> votes.counts, votes.abstaining
    ({'kids': 2, 'left': 1}, 1)
    >>> print(votes)
    One vote per head, for the word that they attends to most: kids 2, left 1. 1 of 3 heads abstains: its largest weight is on [CLS].
    """  # noqa: E501

    word: str  # whose attention it is
    labels: tuple[str, ...]  # the words that can be voted for, as tables name them
    heads: tuple[HeadVote, ...]
    sinks: tuple[str, ...] = ()  # names of those that were set aside

    @cached_property
    def counts(self) -> dict[str, int]:
        """The votes of each word that has one, most first; equal ones in the order of the text."""
        counts = Counter(vote.word for vote in self.heads if vote.word is not None)
        return {self.labels[word]: votes for word, votes in sorted(counts.items(), key=lambda one: (-one[1], one[0]))}

    @cached_property
    def abstaining(self) -> int:
        """How many heads abstain."""
        return sum(vote.abstains for vote in self.heads)

    def table(self) -> Table:
        """Word, votes, and how many of these are the next choice of a head that abstains.

        >>> heads = HeadVote(0, 0, 1, 0.5, False), HeadVote(0, 1, 1, 0.2, True), HeadVote(1, 0, 2, 0.6, False)
        >>> print(Votes("they", ("[CLS]", "kids", "left", "they"), heads, ("[CLS]",)).table())
        Votes of 3 heads for the word that they attends to most
        Word  votes  of abstaining heads
        kids      2                    1
        left      1                    0
        1 of 3 heads abstains: its largest weight is on [CLS].
        """
        choices = [vote.word for vote in self.heads if vote.abstains and vote.word is not None]
        of_abstaining = Counter(self.labels[word] for word in choices)
        columns = Column("Word", "word"), Column("votes", "number", 0), Column("of abstaining heads", "number", 0)
        rows = tuple((label, votes, of_abstaining[label]) for label, votes in self.counts.items())
        title = f"Votes of {count(len(self.heads), 'head')} for the word that {self.word} attends to most"
        return Table(title, columns, rows, (self._abstentions,))

    @property
    def _abstentions(self) -> str:
        of_all = f"of {count(len(self.heads), 'head')}"
        if not self.abstaining:
            return f"None {of_all} abstains."
        is_one = self.abstaining == 1
        sentence = f"{self.abstaining} {of_all} abstain{'s' * is_one}"
        ties = sum(vote.word is None for vote in self.heads)
        where = " or ".join(self.sinks) if len(self.sinks) <= 2 else "a sink"
        if ties == self.abstaining or not where:
            return f"{sentence}: {'its' if is_one else 'their'} largest weights are equal, or no other word is visible."
        rest = f"; {count(ties, 'tie')}" if ties else ""
        return f"{sentence}: {'its' if is_one else 'their'} largest weight is on {where}{rest}."

    def __str__(self) -> str:
        named = [f"{label} {votes}" for label, votes in self.counts.items()]
        others = sum(list(self.counts.values())[MOST_NAMED:])
        shown = named[:MOST_NAMED] + ([f"others {others}"] if others else [])
        listed = ", ".join(shown) or "none"
        return f"One vote per head, for the word that {self.word} attends to most: {listed}. {self._abstentions}"

    def __repr__(self) -> str:
        named = [f"{label} {votes}" for label, votes in self.counts.items()]
        shown = named if len(named) <= MOST_NAMED else [*named[: MOST_NAMED - 1], "…"]
        verb = "abstains" if self.abstaining == 1 else "abstain"
        return f"Votes({self.word}: {', '.join(shown)}; {self.abstaining} of {count(len(self.heads), 'head')} {verb})"


def vote_of(row: Numbers, sinks: Collection[int] = (), own: int | None = None) -> tuple[int | None, float, bool]:
    """The word that a row of weights votes for, the weight on it, and whether the head abstains.

    sinks   positions that are set aside
    own     position of the word itself; None where queries are not among the keys, as in cross-attention

    >>> vote_of(np.array([0.6, 0.3, 0.1, 0.0]), sinks=[0], own=2)
    (1, 0.3, True)
    >>> vote_of(np.array([0.1, 0.3, 0.3, 0.3]), sinks=[0], own=2)
    (None, 0.0, True)
    """
    usual = np.ones(len(row), bool)
    aside = list(sinks)
    usual[aside] = False
    in_sinks = float(row[aside].max()) if aside else UNRANKED
    if own is not None:
        usual[own] = False
    others = np.where(usual, row, UNRANKED)
    word = int(np.argmax(others))
    weight = float(others[word])
    others[word] = UNRANKED
    if weight <= 0 or others.max() >= weight * (1 - TIE):
        return None, 0.0, True
    largest = weight if own is None else max(weight, float(row[own]))
    return word, weight, in_sinks >= largest * (1 - TIE)


def votes_of(
    weights: WordWeights,
    word: Word,
    labels: Sequence[str],
    *,
    sinks: Collection[int] = (),
    own: int | None = None,
    numbers: Callable[[int, int], tuple[int, int]] = lambda layer, head: (layer, head),
) -> Votes:
    """The votes of all heads for one query word; O(n) memory.

    labels    of the key words
    sinks     positions of key words that are set aside
    own       position of the word among the keys; None for cross-attention
    numbers   of a layer and a head in the model, from their positions
    """
    heads = []
    for layer, head, row in weights.rows(word, None, None):
        choice, weight, abstains = vote_of(row, sinks, own)
        heads.append(HeadVote(*numbers(layer, head), choice, weight, abstains))
    named = tuple(dict.fromkeys(labels[sink] for sink in sorted(sinks)))
    return Votes(word.text if own is None else labels[own], tuple(labels), tuple(heads), named)

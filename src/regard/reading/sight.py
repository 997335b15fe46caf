"""What is worth showing of a reading: a word, the head with its largest weight on another word, and tables of both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from regard.reading.reading import HEAD, LAYER, Reading
from regard.tables import Column, Table

MOST_PAIRS = 24  # rows of the table of pairs
MOST_STRONGEST = 8  # rows of the tables of words and of heads


@dataclass(frozen=True, eq=False, slots=True)
class Sight:
    """What to show of a reading: strongest pairs, the attention of one word, its heads, and one head's map."""

    reading: Reading
    query: int  # position of the query word
    partner: int | None  # position of the word with the largest weight, punctuation aside
    layer: int  # the head whose map is drawn
    head: int
    pairs: Table
    looks: Table
    heads: Table
    answer: Any = None  # a `RelationAnswer` (regard.heads): the relation by which word and head were chosen

    @property
    def word(self) -> str:
        """The query word as tables name it."""
        return self.reading.labels[self.query]


def sight(
    reading: Reading, query: Any = None, layer: int | None = None, head: int | None = None, answer: Any = None
) -> Sight:
    """Choose what to show: the given or an interesting word, and the head with its largest weight on another word.

    answer   a `RelationAnswer`, which chooses layer, head and query: the link that can be what was asked for
    """
    if answer is not None:
        layer, head, query = answer.link.layer, answer.link.head, answer.link.query
    of_layer, of_head = reading._places(layer, head)
    layer = None if of_layer is None else reading.layer_numbers[of_layer]  # −1 is the last one
    head = None if of_head is None else reading.head_numbers[of_head]
    word_index = None if query is None else reading.words.index(reading.word(query))
    first = reading.opening(word_index, layer=layer, head=head)
    word_index, partner = first.query, first.key if answer is None else answer.link.key
    pairs = _pairs(reading, word_index, layer, head)
    looks = reading.strongest(word_index, layer=layer, head=head)
    heads = reading.heads_for(word_index, partner)
    if partner is None:  # no other word except sinks
        looks = reading.strongest(word_index, layer=layer, head=head, sinks=True, itself=True)
    looks = _with_heads(reading, word_index, looks, layer, head)
    return Sight(reading, word_index, partner, first.layer, first.head, pairs, looks, _first(heads), answer)


def _with_heads(reading: Reading, place: int, looks: Table, layer: int | None, head: int | None) -> Table:
    """The first words, each with the head that gives it the largest weight."""
    looks = _first(looks)
    if layer is not None and head is not None:
        return looks
    rows_of_heads = list(reading.word_weights.rows(reading.words[place], *reading._places(layer, head)))
    of_head = LAYER, HEAD, Column("at most", "number", shade=True)
    rows = []
    for row in looks:
        key = reading.labels.index(row[0])
        best = max(rows_of_heads, key=lambda one: float(one[2][key]))
        rows.append((*row, *reading._numbers(best[0], best[1]), float(best[2][key])))
    notes = (*looks.notes, "layer, head, at most: the head that gives this word the largest weight, and that weight.")
    return replace(looks, columns=(*looks.columns, *of_head), rows=tuple(rows), notes=notes)


def _pairs(reading: Reading, place: int, layer: int | None, head: int | None) -> Table:
    """The pairs of all words, or of the words around one in a long text."""
    count = len(reading.words)
    if count <= MOST_PAIRS:
        return reading.pairs(layer=layer, head=head)
    start = min(max(0, place - MOST_PAIRS // 2), count - MOST_PAIRS)
    table = reading.pairs(layer=layer, head=head, words=(start, start + MOST_PAIRS))
    note = f"{MOST_PAIRS} of {count:,} words: those around {reading.labels[place]}."
    return replace(table, notes=(*table.notes, note))


def _first(table: Table) -> Table:
    return replace(table, rows=table.rows[:MOST_STRONGEST])

"""Who looks at whom, ranked: the tables that people ask a reading for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from regard import validate
from regard.reading import weights
from regard.reading.links import UNRANKED, ranked_weights, strongest, strongest_links
from regard.reading.weights import Numbers
from regard.tables import Column, Table, printed_number

if TYPE_CHECKING:
    from regard.reading.reading import Reading
    from regard.reading.tokens import Word

MOST_NAMED = 3  # sinks that a note names


def looks(reading: Reading, query: Any, layer: int | None, head: int | None, sinks: bool, itself: bool) -> Table:
    """The words that one word looks at, strongest first."""
    word = reading.word(query)
    found = weights.averaged(reading, word, layer, head)
    own = reading.words.index(word)
    # The word asked for may be a sink itself: sinks are left out as keys only.
    ranked = ranked_weights(found[None], None, itself=True, sinks=() if sinks else reading.sink_words)[0]
    if not itself:
        ranked[own] = UNRANKED
    order, listed = strongest(ranked), ranked != UNRANKED
    labels, rest = reading.labels, float(found[listed].sum())
    columns = [Column("Word", "word"), Column("weight", "number", shade=True)]
    cells: list[Any] = [[labels[place] for place in order], [float(found[place]) for place in order]]
    if not listed.all():
        columns.append(Column("of the rest", "number"))
        cells.append([float(found[place]) / rest if rest > 0 else 0.0 for place in order])
    notes = [*sink_notes(reading, found)]
    if not itself:
        notes.append(f"It gives {printed_number(found[own], 2)} to itself.")
    if nothing := int(listed.sum()) - len(order):
        notes.append(f"{nothing:,} word{' gets' if nothing == 1 else 's get'} nothing: it may not see them, or hardly.")
    title = f"{labels[own]} looks at, {where(reading, layer, head)}"
    return Table(title, tuple(columns), tuple(zip(*cells, strict=True)), tuple(notes))


def pairs(
    reading: Reading, layer: int | None, head: int | None, sinks: bool, itself: bool, words: range | None = None
) -> Table:
    """For every word, the one that it looks at most; partners are looked for in the rest of the sentence."""
    labels, set_aside = reading.labels, [] if sinks else list(reading.sink_words)
    silent = set(set_aside)
    rows: list[tuple[Any, ...]] = []
    to_sinks, to_itself = [], []
    for first, block in weights.averaged_blocks(reading, layer, head, words):
        for place, row in enumerate(block, first):
            if place in silent:
                continue
            to_sinks.append(row[list(reading.sink_words)].sum())
            to_itself.append(row[place])
            best = strongest_links(row[None], [place], [place], 1, itself=itself, sinks=set_aside)
            partner = (labels[best.key[0]], float(best.weight[0])) if len(best.key) else (None, None)
            rows.append((labels[place], *partner))
    columns = Column("query", "word"), Column("key", "word"), Column("probability", "number", shade=True)
    notes = []
    if rows and not sinks and reading.sink_words:
        share = printed_number(np.mean(to_sinks), 2)
        notes.append(
            f"{_named(reading)} {_take(reading)} {share} of the weight on average, and {_are(reading)} left out."
        )
    if rows and not itself:
        notes.append(f"Words give {printed_number(np.mean(to_itself), 2)} to themselves on average, left out as well.")
    return Table(f"Whom each word looks at most, {where(reading, layer, head)}", columns, tuple(rows), tuple(notes))


def heads_for(reading: Reading, query: Any, key: Any = None) -> Table:
    """All heads, those first that look at the key most, or at any one word of the text; O(n) a head."""
    word = reading.word(query)
    own, labels = reading.words.index(word), reading.labels
    target = None if key is None else reading.words.index(reading.word(key, "key"))
    rows: list[tuple[Any, ...]] = []
    in_sinks = []
    for layer in range(reading.layers):
        heads = weights.heads_meant(reading.seen[layer].attention, None)
        for head, row in zip(heads, weights.of_word(reading, word, layer, heads), strict=True):
            share = float(row[list(reading.sink_words)].sum())
            in_sinks.append(share)
            place = target
            if place is None:
                others = ranked_weights(row[None], None, itself=True, sinks={own, *reading.sink_words})[0]
                first = strongest(others, 1)
                if not len(first):  # no other word is visible
                    continue
                place = int(first[0])
            rows.append((layer, head, labels[place], float(row[place]), share))
    rows.sort(key=lambda row: (-row[3], row[0], row[1]))
    columns = [
        Column("layer", "number", 0), Column("head", "number", 0), Column("key", "word"),
        Column("weight", "number", shade=True), Column("to sinks", "number"),
    ]  # fmt: skip
    notes = sink_notes(reading, None, np.mean(in_sinks))
    title = f"Heads in which {labels[own]} looks most at " + ("one word" if target is None else labels[target])
    if not reading.sink_words:
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    return Table(title, tuple(columns), tuple(rows), tuple(notes))


def top(reading: Reading, k: int, layer: int | None, head: int | None, sinks: bool, itself: bool) -> Table:
    """The k strongest looks of one word at another, over all heads that are meant."""
    best: list[tuple[float, int, int, int, int]] = []  # minus the weight, layer, head, query, key
    set_aside = [] if sinks else list(reading.sink_words)
    in_sinks, asking = 0.0, 0
    for block in weights.blocks(reading, layer, head):
        found = block.weights
        words = np.arange(block.first, block.first + found.shape[1])
        kept = ~np.isin(words, set_aside)
        in_sinks += float(found[:, kept][:, :, list(reading.sink_words)].sum())
        asking += found.shape[0] * int(kept.sum())
        for of_head, rows_of_head in zip(block.heads, found, strict=True):
            links = strongest_links(rows_of_head, words, words, k, itself=itself, sinks=set_aside)
            listed = zip(-links.weight, links.query, links.key, strict=True)
            best += [(float(less), block.layer, of_head, int(query), int(key)) for less, query, key in listed]
        best = sorted(best)[:k]
    labels = reading.labels
    rows = tuple((place, of_head, labels[query], labels[key], -weight) for weight, place, of_head, query, key in best)
    columns = (
        Column("layer", "number", 0), Column("head", "number", 0), Column("query", "word"), Column("key", "word"),
        Column("weight", "number", shade=True),
    )  # fmt: skip
    notes = sink_notes(reading, None, in_sinks / asking if asking else 0.0)
    return Table(f"The strongest looks, {where(reading, layer, head)}", columns, rows, tuple(notes))


def where(reading: Reading, layer: int | None, head: int | None) -> str:
    """Which heads are meant, in words."""
    if layer is None and head is None:
        return "all heads" if reading.layers * reading.heads > 1 else "the only head"
    place = "every layer" if layer is None else f"layer {validate.index('layer', layer, reading.layers)}"
    if head is None:
        return f"{place}, all heads"
    number = validate.index("head", head, reading.heads)
    return f"{place}, head {number}"


def _named(reading: Reading) -> str:
    """The sinks by name: [CLS] and [SEP]."""
    names = [_name(reading.words[place]) for place in reading.sink_words]
    different = list(dict.fromkeys(names))
    if len(different) > MOST_NAMED:
        return f"{different[0]} and {len(names) - 1} other sinks"
    return different[0] if len(different) == 1 else f"{', '.join(different[:-1])} and {different[-1]}"


def _name(word: Word) -> str:
    return word.text if word.special else f"The first word, {word.text},"


def _take(reading: Reading) -> str:
    return "takes" if len(reading.sink_words) == 1 else "take"


def _are(reading: Reading) -> str:
    return "is" if len(reading.sink_words) == 1 else "are"


def sink_notes(reading: Reading, row: Numbers | None, share: Any = None) -> list[str]:
    """How much the sinks took."""
    if not reading.sink_words:
        return []
    taken = row[list(reading.sink_words)].sum() if row is not None else share
    average = "" if row is not None else " on average"
    return [f"{_named(reading)} {_take(reading)} {printed_number(taken, 2)} of the weight{average}."]

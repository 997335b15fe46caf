"""Who looks at whom, ranked: the tables that people ask a reading for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from regard.reading import weights
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
    listed = np.ones(len(found), bool)
    if not sinks:
        listed[list(reading.sink_words)] = False
    listed[own] = itself and (sinks or own not in reading.sink_words)
    order = [place for place in _strongest_first(found) if listed[place] and found[place] > 0]
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
            row[set_aside] = -1.0
            if not itself:
                row[place] = -1.0
            best = int(row.argmax())
            seen = row[best] > 0
            rows.append((labels[place], labels[best] if seen else None, float(row[best]) if seen else None))
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
                others = row.copy()
                others[[own, *reading.sink_words]] = -1.0
                place = int(others.argmax())
                if not others[place] > 0:  # there is no other word that it sees
                    continue
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
        found[:, :, set_aside] = -1.0
        found[:, ~kept] = -1.0
        if not itself:
            found[:, words - block.first, words] = -1.0
        flat = found.reshape(-1)
        for place in np.argsort(-flat, kind="stable")[:k]:
            of_head, row, key = np.unravel_index(place, found.shape)
            if flat[place] > 0:
                best.append((-float(flat[place]), block.layer, block.heads[int(of_head)], int(words[row]), int(key)))
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
    place = "every layer" if layer is None else f"layer {weights.whole('layer', layer, reading.layers)}"
    if head is None:
        return f"{place}, all heads"
    number = weights.whole("head", head, reading.heads)
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


def _strongest_first(row: Numbers) -> Any:
    """Places by weight, the earlier first where two are equal."""
    return np.argsort(-row, kind="stable")

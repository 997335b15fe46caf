"""The report of `regard see`: what to show of a reading, in a terminal, page, figure, notebook or JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from regard import validate
from regard.output import csv_json, html, text
from regard.output.head_grid import MOST_CELLS, Shapes, heads
from regard.output.heat_map import heat_map
from regard.output.printable import printable
from regard.output.svg import Svg
from regard.output.word_map import WordMap, weights_between_words
from regard.reading import Reading
from regard.reading.weights import heads_meant, layers_meant, of_word
from regard.tables import Column, Table

MOST_PAIRS = 24  # rows of the table of pairs
MOST_LOOKS = 8  # rows of the tables of words and of heads
FEW_ROWS = 5  # a narrow table of at least twice as many rows is shown in two halves
APART = 4  # columns between two tables

# Pronouns, those first that almost always refer to something in the text.
PRONOUNS = (
    ("they", "he", "she", "them", "him", "it", "her", "his", "hers", "their", "theirs", "its", "themselves", "itself",
     "himself", "herself"),
    ("who", "whom", "whose", "which", "this", "that", "these", "those"),
    ("we", "us", "our", "ours", "i", "me", "my", "mine", "you", "your", "yours"),
)  # fmt: skip


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

    @property
    def word(self) -> str:
        """The query word as tables name it."""
        return self.reading.labels[self.query]


def sight(reading: Reading, query: Any = None, layer: int | None = None, head: int | None = None) -> Sight:
    """Choose what to show: the given or an interesting word, and the head with its largest weight on another word."""
    layer = None if layer is None else validate.index("layer", layer, reading.layers)
    head = None if head is None else validate.index("head", head, reading.heads)
    place = reading.words.index(reading.word(query)) if query is not None else _pronoun(reading)
    pairs = None
    if place is None:
        pairs = _pairs(reading, 0, layer, head)
        place = _most_focused(reading, pairs)
    if pairs is None or len(reading.words) > MOST_PAIRS:
        pairs = _pairs(reading, place, layer, head)
    looks = reading.looks(place, layer=layer, head=head)
    partner = _partner(reading, looks)
    heads = reading.heads_for(place, partner)
    meant = [(row[0], row[1]) for row in heads if layer in (None, row[0]) and head in (None, row[1])]
    drawn = meant[0] if meant else (layer or 0, head or 0)
    if partner is None:  # no other word except sinks
        looks = reading.looks(place, layer=layer, head=head, sinks=True, itself=True)
    looks = _with_heads(reading, place, looks, layer, head)
    return Sight(reading, place, partner, drawn[0], drawn[1], pairs, looks, _first(heads, MOST_LOOKS))


def _partner(reading: Reading, looks: Table) -> int | None:
    """The first word of the list, punctuation aside."""
    names = [str(word) for word in looks["Word"]]
    worded = [name for name in names if _is_word(name)] or names
    return reading.labels.index(worded[0]) if worded else None


def _is_word(name: str) -> bool:
    return any(letter.isalnum() for letter in name.rpartition(":")[0] or name)


def _with_heads(reading: Reading, place: int, looks: Table, layer: int | None, head: int | None) -> Table:
    """The first words, each with the head that gives it the largest weight."""
    looks = _first(looks, MOST_LOOKS)
    if layer is not None and head is not None:
        return looks
    found = []  # (layer, head, its weights)
    for one in layers_meant(reading, layer):
        heads = heads_meant(reading.seen[one].attention, head)
        found += [(one, *pair) for pair in zip(heads, of_word(reading, reading.words[place], one, heads), strict=True)]
    of_head = Column("layer", "number", 0), Column("head", "number", 0), Column("at most", "number", shade=True)
    rows = []
    for row in looks:
        key = reading.labels.index(row[0])
        best = max(found, key=lambda one: float(one[2][key]))
        rows.append((*row, best[0], best[1], float(best[2][key])))
    notes = (*looks.notes, "layer, head, at most: the head that gives this word most, and how much.")
    return replace(looks, columns=(*looks.columns, *of_head), rows=tuple(rows), notes=notes)


def _pronoun(reading: Reading) -> int | None:
    """The first pronoun, in the order of PRONOUNS."""
    spoken = [word.text.casefold() for word in reading.words]
    for kind in PRONOUNS:
        for place, word in enumerate(spoken):
            if word in kind and place not in reading.sink_words:
                return place
    return None


def _most_focused(reading: Reading, pairs: Table) -> int:
    """The word whose strongest pair is largest relative to uniform weights; words before punctuation."""
    causal = any(not reading.tokens[place].special for place in reading.sinks)
    found: list[tuple[bool, float, int]] = []
    for query, _, probability in pairs:
        place = reading.labels.index(query)
        others = place if causal else len(reading.words)  # words that it may attend to
        if probability is not None:
            found.append((_is_word(query), probability * others, -place))
    usual = [place for place in range(len(reading.words)) if place not in reading.sink_words]
    return -max(found)[2] if found else usual[0] if usual else 0


def _pairs(reading: Reading, place: int, layer: int | None, head: int | None) -> Table:
    """The pairs of all words, or of the words around one in a long text."""
    count = len(reading.words)
    if count <= MOST_PAIRS:
        return reading.pairs(layer=layer, head=head)
    start = min(max(0, place - MOST_PAIRS // 2), count - MOST_PAIRS)
    table = reading.pairs(layer=layer, head=head, words=(start, start + MOST_PAIRS))
    note = f"{MOST_PAIRS} of {count:,} words: those around {reading.labels[place]}."
    return replace(table, notes=(*table.notes, note))


def _first(table: Table, most: int) -> Table:
    return replace(table, rows=table.rows[:most])


# Terminal


def terminal(shown: Sight) -> Iterator[RenderableType]:
    """The parts of the report below the sentence, to be separated by blank lines."""
    yield Group(Text(printable(shown.pairs.title), "bold"), _halves(shown.pairs), *_notes(shown.pairs.notes))
    looks = replace(shown.looks, notes=())
    notes = shown.looks.notes
    if shown.partner is None:
        yield Group(text.render(looks), *_notes(notes))
    else:
        pair = f"{shown.word} → {shown.reading.labels[shown.partner]}"
        kept = [0, 1, 3]
        heads = replace(
            shown.heads,
            title=pair,
            columns=tuple(shown.heads.columns[place] for place in kept),
            rows=tuple(tuple(row[place] for place in kept) for row in shown.heads),
            notes=(),
        )
        yield Group(Beside(looks, heads), *_notes(notes))
    yield WordMap(shown.reading, shown.layer, shown.head, shown.query)


def _notes(notes: Sequence[str]) -> list[Text]:
    return [Text(printable(note), "dim italic") for note in notes]


def _halves(table: Table) -> RenderableType:
    """A long, narrow table as two halves side by side."""
    bare = replace(table, title="", notes=())
    if len(table) < 2 * FEW_ROWS:
        return text.render(bare)
    middle = (len(table) + 1) // 2
    return Beside(replace(bare, rows=table.rows[:middle]), replace(bare, rows=table.rows[middle:]))


def closing(shown: Sight, seconds: float) -> Text:
    """The model, the certificate and the time taken."""
    reading = shown.reading
    took = f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    lines = [f"{_of_model(reading)} Loaded and read in {took}.", f"Certificate: {reading.certificate}.", CAUTION]
    return Text("\n".join(lines), "dim")


@dataclass(frozen=True, eq=False, slots=True)
class Beside:
    """Two tables side by side if they fit, else stacked."""

    left: Table
    right: Table

    def __rich_console__(self, console: Any, options: Any) -> Iterator[RenderableType]:
        widths = [_width(table) for table in (self.left, self.right)]
        shown = [text.render(table) for table in (self.left, self.right)]
        if sum(widths) + APART > options.max_width:
            yield Group(*shown) if not self.right.title else Group(shown[0], Text(), shown[1])
            return
        grid = Grid.grid(padding=(0, APART, 0, 0), pad_edge=False)
        for width in widths:
            grid.add_column(width=width)
        grid.add_row(*shown)
        yield grid


def _width(table: Table) -> int:
    return max(cell_len(line) for line in text.plain(text.render(table, 1000), 1000).split("\n"))


# Figures, pages and notebooks


def figure(shown: Sight) -> Svg:
    """The heat map of one head between words."""
    weights = weights_between_words(shown.reading, shown.layer, shown.head)
    return heat_map(weights, title=f"Layer {shown.layer}, head {shown.head}: attention between words")


def heads_figure(shown: Sight) -> Svg:
    """All heads of one layer between words, on one colour scale."""
    reading, layer = shown.reading, shown.layer
    count = reading.attention(layer).shape[0]
    weights = [weights_between_words(reading, layer, head, MOST_CELLS) for head in range(count)]
    values = reading.seen[layer].values
    shapes = None
    if reading.states and values is not None:
        shapes = Shapes(count, len(reading.tokens), count * values.shape[-1], reading.states[0].shape[-1])
    return heads(weights, title=f"Layer {layer}: {count} heads, each with its own weights", shapes=shapes)


def page(shown: Sight, remarks: tuple[str, ...] = ()) -> str:
    """One file with the tables and the map."""
    reading = shown.reading
    notes = [_of_model(reading), *remarks, f"Certificate: {reading.certificate}.", CAUTION]
    return html.page([shown.looks, shown.heads, shown.pairs], figure(shown), title=reading.text, notes=notes)


CAUTION = (
    "A weight says where a head looks, not why the model says what it says: heads differ, sinks take much, "
    "and a large weight can rest on a small value."
)


def notebook(reading: Reading) -> str:
    """A reading in a notebook: its strongest pairs, and the attention of one word."""
    shown = sight(reading)
    return html.fragment([shown.looks, shown.heads, shown.pairs]) + html.fragment(figure(shown))


def _of_model(reading: Reading) -> str:
    return f"{reading.model}: {reading.layers} layers × {reading.heads} heads, {len(reading.tokens):,} tokens."


# Data


def data(shown: Sight, seconds: float | None = None) -> str:
    """All of it as JSON, with every digit."""
    reading, certificate = shown.reading, shown.reading.certificate
    weights = weights_between_words(reading, shown.layer, shown.head)
    word = reading.words[shown.query]
    content = {
        "text": reading.text,
        "model": reading.model,
        "layers": reading.layers,
        "heads": reading.heads,
        "given": reading.given,
        "tokens": [
            {"text": token.text, "id": token.id, "start": token.start, "stop": token.stop, "special": token.special}
            for token in reading.tokens
        ],
        "words": [{"text": one.text, "first": one.first, "last": one.last} for one in reading.words],
        "sinks": list(reading.sinks),
        "query": {"word": word.text, "place": shown.query},
        "pairs": _rows(shown.pairs),
        "looks": _rows(shown.looks),
        "heads_for": _rows(shown.heads),
        "map": {
            "layer": shown.layer,
            "head": shown.head,
            "words": list(weights.key_words),
            "weights": [[_finite(weight) for weight in row] for row in weights.array.tolist()],
        },
        "notes": [*shown.looks.notes, *shown.pairs.notes],
        "certificate": {
            name: _finite(getattr(certificate, name)) for name in ("row_sums", "forbidden", "output", "rows")
        },
        "seconds": seconds,
    }
    return json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def _rows(table: Table) -> Any:
    return json.loads(csv_json.to_json(table))["rows"]


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None

"""The report of `regard see`: what to show of a reading, in a terminal, page, figure, notebook or JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, zip_longest
from typing import Any

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table as Grid
from rich.text import Text

from regard.arrays import numpy_of
from regard.errors import OptionError
from regard.heads.roles import TREEBANK, known
from regard.heads.sentence_relations import TaggedSentence, answer_in, said_of_answer, said_of_link
from regard.output import html, table_formats, text
from regard.output.characters import printable, printable_lines
from regard.output.files import Format, file_of
from regard.output.svg import Svg
from regard.output.trace_figures import flow
from regard.output.weight_figures import MOST_CELLS, MOST_CELLS_PER_HEAD, Shapes, WeightMatrix, heads, heat_map
from regard.reading import Reading
from regard.reading.layer_numbers import position, sizes_in_words
from regard.reading.sight import Sight, sight
from regard.reading.weights import WordWeights
from regard.tables import Table, printed_number
from regard.teaching.traced_attention import strongest_rows

FEW_ROWS = 5  # a narrow table of at least twice as many rows is shown in two halves
LONGEST_TEXT = 640  # longer texts are shortened
APART = 4  # columns between two tables


def known_head(shown: Sight) -> str | None:
    """What the head is known to do: "layer 2, head 0: object → verb 0.74 of 1,153 …"; None for unknown models."""
    heads = known(shown.reading)
    role = None if shown.answer is None else shown.answer.role
    return None if heads is None else heads.said(shown.layer, shown.head, role)


def link_here(shown: Sight) -> str | None:
    """What the head links in this text: "they → kids 0.81 here"; None for unknown models.

    With the relation that it is known for only if this link can be one.
    """
    heads = known(shown.reading)
    if heads is None:
        return None
    sentence = TaggedSentence.of(shown.reading)
    if shown.answer is not None:
        return said_of_answer(heads, sentence, shown.answer)
    link = sentence.link(shown.layer, shown.head, shown.query)
    return None if link is None else f"{said_of_link(heads, sentence, link)}."


# Terminal


def sentence(reading: Reading) -> Text:
    """The text, shortened in the middle if it is long; generated tokens are in italics."""
    safe = printable_lines(reading.text)
    shown = Text(safe, "bold")
    if reading.given is not None and reading.given < len(reading.tokens):
        shown.stylize("not bold italic", reading.tokens[reading.given].start)
    if len(safe) <= LONGEST_TEXT:
        return shown
    kept = LONGEST_TEXT // 2
    left_out = f" … {len(safe) - 2 * kept:,} characters … "
    return Text.assemble(shown[:kept], (left_out, "dim"), shown[-kept:])


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
            columns=tuple(shown.heads.columns[index] for index in kept),
            rows=tuple(tuple(row[index] for index in kept) for row in shown.heads),
            notes=(),
        )
        yield Group(Beside(looks, heads), *_notes(notes))
    if shown.partner is not None and shown.reading.layers * shown.reading.heads > 1:
        yield Text(printable(str(shown.reading.votes(shown.query))))
    yield WordMap(shown.reading, shown.layer, shown.head, shown.query)
    if (here := link_here(shown)) is not None:
        yield Text(f"Layer {shown.layer}, head {shown.head}: {here.partition(': ')[2] or here}")
    if (general := known_head(shown)) is not None and shown.answer is None:
        yield Text(f"In general, measured on {TREEBANK}: {general.partition(': ')[2]}.")


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
    sizes = sizes_in_words(reading.layer_numbers, reading.head_numbers)
    model = f"{reading.model}: {sizes}, {len(reading.tokens):,} tokens. Loaded and read in {took}."
    certified = f"Certificate: {reading.certificate}. {reading.unverified}".rstrip()
    return Text("\n".join([model, certified, CAUTION]), "dim")


@dataclass(frozen=True, eq=False, slots=True)
class Beside:
    """Two tables side by side if they fit, else stacked."""

    left: Table
    right: Table

    def __rich_console__(self, console: Any, options: Any) -> Iterator[RenderableType]:
        shown = [text.render(table) for table in (self.left, self.right)]
        lines = [text.plain(text.render(table, 1000), 1000).split("\n") for table in (self.left, self.right)]
        widths = [max(map(cell_len, of_table)) for of_table in lines]
        if sum(widths) + APART > options.max_width:
            yield Group(*shown) if not self.right.title else Group(shown[0], Text(), shown[1])
            return
        grid = Grid.grid(padding=(0, APART, 0, 0), pad_edge=False)
        for width in widths:
            grid.add_column(width=width)
        grid.add_row(*shown)
        yield grid


# Figures and notebooks


def figure(shown: Sight) -> Svg:
    """The heat map of one head between words."""
    weights = weights_between_words(shown.reading, shown.layer, shown.head)
    return heat_map(weights, title=f"Layer {shown.layer}, head {shown.head}: attention between words")


def heads_figure(shown: Sight) -> Svg:
    """All heads of one layer between words, on one colour scale."""
    reading, layer = shown.reading, shown.layer
    count = reading.attention(layer).shape[0]
    numbers = reading.head_numbers[:count]
    weights = [weights_between_words(reading, layer, head, MOST_CELLS_PER_HEAD) for head in numbers]
    values = reading.seen[reading._place(layer)].values
    shapes = None
    if reading.states and values is not None:
        shapes = Shapes(count, len(reading.tokens), count * values.shape[-1], reading.states[0].shape[-1])
    return heads(weights, title=f"Layer {layer}: {count} heads, each with its own weights", shapes=shapes)


CAUTION = (
    "A weight shows where a head attends, not why the model gives its answer: heads differ, sinks take much of the "
    "weight, and a large weight can multiply a small value."
)


def notebook(reading: Reading) -> str:
    """A reading in a notebook: its strongest pairs, and the attention of one word."""
    shown = sight(reading)
    return html.fragment(shown.looks, shown.heads, shown.pairs, figure(shown))


def step_table(shown: Sight, full: bool = False) -> Table:
    """Every step of the query in the head; the largest weights only, unless `full`."""
    table = shown.reading.table(shown.query, layer=shown.layer, head=shown.head)
    return table if full else strongest_rows(table)


def step_figure(shown: Sight) -> Svg:
    trace = shown.reading.explain(shown.query, layer=shown.layer)
    return flow(trace, head=shown.reading.head_numbers.index(shown.head))


# Files


@dataclass(frozen=True, eq=False, slots=True)
class SeeReport:
    """What `regard see` shows, in the terminal and as the content of files."""

    shown: Sight
    seconds: float
    all_heads: bool = False  # figures draw all heads of the layer
    more: Sequence[Table] = ()
    kept: Mapping[str, Any] = field(default_factory=dict)  # what an HTML page keeps: `layers`, `heads`, `beside`
    is_place: bool = False  # whether a page opens at the word and head, not with its first screen

    def printed(self) -> list[Any]:
        shown = self.shown
        return [sentence(shown.reading), *terminal(shown), closing(shown, self.seconds), *self.more]

    def content(self, kind: Format) -> str | bytes:
        shown = self.shown
        if kind is Format.JSON:
            return data(shown, self.seconds, self.more)
        if kind is Format.HTML:
            from regard.viewer.page import page as viewer_page

            query = shown.reading.words[shown.query].first
            start = {"layer": shown.layer, "head": shown.head, "query": query} if self.is_place else None
            return viewer_page(shown.reading, **self.kept, start=start)
        if kind is Format.TABLE:
            parts: list[Any] = [*terminal(shown), closing(shown, self.seconds), *self.more]
            return "\n\n".join([shown.reading.text, *map(text.plain, parts)]) + "\n"
        draw = heads_figure if self.all_heads else figure
        return file_of([shown.looks, shown.heads, shown.pairs, *self.more], lambda: draw(shown), kind)


def report(
    reading: Reading, query: Any = None, layer: int | None = None, head: int | None = None, seconds: float = 0.0, *,
    relation: str | None = None, beside: str | None = None, kept: Mapping[str, Any] | None = None,
) -> SeeReport:  # fmt: skip
    """The report on a reading, at a word and head, or where a head has its largest weight.

    seconds   that reading it took
    relation  chooses the head that is known for it, and its link
    beside    another text with the same word, read by the same model: how far the word's vector moves
    kept      what an HTML page keeps, as in `save_html`
    """
    answer = None if relation is None else answer_in(reading, relation, query)
    shown = sight(reading, query, layer, head, answer)
    other, more = None, []
    if beside is not None:
        if reading.reader is None:
            raise OptionError("--beside reads a second text with the same model: leave out hf: in --model.")
        other, spelling = reading.reader.read(beside), reading.words[shown.query].text
        alike = [number for number, word in enumerate(other.words) if word.text.casefold() == spelling.casefold()]
        if not alike:
            raise OptionError(
                f"--beside: the other text has no word {spelling!r}. Choose one that both have, with --query WORD."
            )
        more = [reading.moved(shown.query, other, alike[0])]
    is_place = any(choice is not None for choice in (query, layer, head, relation))
    all_heads = layer is not None and head is None
    return SeeReport(shown, seconds, all_heads, more, {**(kept or {}), "beside": other}, is_place)


def data(shown: Sight, seconds: float | None = None, more: Sequence[Table] = ()) -> str:
    """All of it as JSON, with every digit; further tables by their title."""
    reading, certificate = shown.reading, shown.reading.certificate
    weights = weights_between_words(reading, shown.layer, shown.head)
    word, votes = reading.words[shown.query], reading.votes(shown.query)
    content = {
        "source": reading.source(shown.layer, shown.head),
        "text": reading.text,
        "model": reading.model,
        "layers": reading.layers,
        "heads": reading.heads,
        "layer_numbers": reading.layer_numbers,
        "head_numbers": reading.head_numbers,
        "given": reading.given,
        "tokens": [
            {"text": token.text, "id": token.id, "start": token.start, "stop": token.stop, "special": token.special}
            for token in reading.tokens
        ],
        "words": [{"text": each.text, "first": each.first, "last": each.last} for each in reading.words],
        "sinks": list(reading.sinks),
        "query": {"word": word.text, "place": shown.query},
        "pairs": _rows(shown.pairs),
        "looks": _rows(shown.looks),
        "heads_for": _rows(shown.heads),
        "votes": {"counts": votes.counts, "abstaining": votes.abstaining, "of": len(votes.heads)},
        "map": {
            "layer": shown.layer,
            "head": shown.head,
            "here": link_here(shown),
            "known": known_head(shown),
            "words": list(weights.key_words),
            "weights": [[_finite(weight) for weight in row] for row in weights.array.tolist()],
        },
        "notes": [*shown.looks.notes, *shown.pairs.notes],
        **({"more": {table.title: _rows(table) for table in more}} if more else {}),
        "certificate": {
            name: _finite(getattr(certificate, name)) for name in ("row_sums", "forbidden", "output", "rows")
        },
        "unverified": reading.unverified or None,
        "seconds": seconds,
    }
    return json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def _rows(table: Table) -> Any:
    return json.loads(table_formats.to_json(table))["rows"]


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


# The weights between words


LONGEST_LABEL = 12  # characters of a row label
TALLEST_HEADING = 8  # characters of a column label, set vertically
NUMBER = 4  # width of a cell with a number: " .81"
SHADE = 2  # width of a cell without one
TALLEST, POOLED = 36, 24  # most rows of a map with one row per word, and of a pooled one
FAINT = 0.005  # smaller weights print as 0.00
GROUND = 0.05  # smaller weights have no background: pale cells are too bright in a dark terminal
SHADES = ((0.5, "█"), (0.25, "▓"), (0.1, "▒"), (0.03, "░"))  # in terminals without colour
GOES_ON = " …"  # after the first word of a cell with several
LEGEND = "█ from 0.50, ▓ from 0.25, ▒ from 0.10, ░ from 0.03"


def weights_between_words(reading: Reading, layer: int, head: int, most: int = MOST_CELLS) -> WeightMatrix:
    """One head's weights between words; adjacent words are pooled if there are more than `most`."""
    words = reading.words
    groups = np.unique(np.linspace(0, len(words), min(len(words), most) + 1).astype(np.int64))
    pooled = len(groups) - 1 < len(words)
    edges = WordWeights((reading.attention(layer),), words).edges[groups]
    attention = reading.attention(layer).select(head=position("head", head, reading.head_numbers))
    array = numpy_of(attention.pooled(row_edges=edges, column_edges=edges, pool="words").array).astype(np.float64)
    labels = tuple(
        words[first].text if last - first == 1 else f"{words[first].text}{GOES_ON}" for first, last in pairwise(groups)
    )
    note = ""
    if pooled:
        note = f"{len(words):,} words, pooled: the mean weight of a row's tokens on all words of the column"
    hidden = None
    if not pooled and attention.mask is not None and attention.shape[0] <= 8 * MOST_CELLS:
        # Where all tokens of a key word are masked for all tokens of a query word.
        by_key = np.logical_and.reduceat(np.isneginf(numpy_of(attention.masked[...])), edges[:-1], axis=1)
        hidden = np.logical_and.reduceat(by_key, edges[:-1], axis=0)
    return WeightMatrix(array, labels, labels, hidden, head, reading.heads, note, reading.source(layer))


@dataclass(frozen=True, eq=False, slots=True)
class WordMap:
    """One head in a terminal: one row per query word, one column per key word, as numbers or shades."""

    reading: Reading
    layer: int
    head: int
    marked: int | None = None  # position of the highlighted query word

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        labels = [printable(word.text) for word in self.reading.words]
        beside = min(max(map(cell_len, labels)), LONGEST_LABEL)
        room = max(width - beside - 1, 3 * SHADE)
        fit = room // SHADE
        most = fit if len(labels) <= min(fit, TALLEST) else min(fit, POOLED)
        weights = weights_between_words(self.reading, self.layer, self.head, most)
        numbers = len(weights.key_words) * NUMBER <= room and not weights.pooled
        cell = NUMBER if numbers else SHADE
        yield Text(f"Layer {self.layer}, head {self.head}: rows attend to columns", "bold")
        yield from _headings(weights.key_words, beside + 1, cell)
        coloured = console.color_system is not None and not options.ascii_only
        for index, (word, row) in enumerate(zip(weights.query_words, weights.array, strict=True)):
            label = _cut(printable(word), beside)
            stands_out = index == self.marked and not weights.pooled
            line = Text(label + " " * (beside - cell_len(label) + 1), "bold" if stands_out else "")
            for column, weight in enumerate(row):
                if weights.hidden is not None and weights.hidden[index, column]:
                    line.append(" " * cell)
                else:
                    line.append_text(_number_cell(weight) if numbers else _shade_cell(weight, coloured))
            if numbers or not coloured:
                line.rstrip()
            yield line
        notes = ["· stands for less than 0.005."] if numbers else [] if coloured else [f"{LEGEND}."]
        if weights.hidden is not None and weights.hidden.any():
            notes.append("Blank: words that may not be seen, because they come later or are masked.")
        yield from _notes([*notes, f"{weights.pooled}."] if weights.pooled else notes)


def _headings(words: tuple[str, ...], left: int, cell: int) -> list[Text]:
    """Column labels: horizontal if they fit, else vertical."""
    names = [_cut(printable(word.removesuffix(GOES_ON)), TALLEST_HEADING) for word in words]
    if all(cell_len(name) < cell for name in names):
        return [Text(" " * left + "".join(" " * (cell - cell_len(name)) + name for name in names), "italic")]
    levels = zip_longest(*(reversed(_letters(name)) for name in names), fillvalue=" ")  # aligned at the bottom
    lines = []
    for signs in reversed(list(levels)):
        padded = ((" " * (cell - cell_len(sign)), sign) for sign in signs)
        line = "".join(blanks + sign if cell == NUMBER else sign + blanks for blanks, sign in padded)
        lines.append(Text(" " * left + line.rstrip(), "italic"))
    return lines


def _letters(word: str) -> list[str]:
    """Grapheme clusters, roughly: combining marks stay with their letters, joined emoji together.

    >>> [len(_letters(word)) for word in ("cat", "👩‍👩‍👧")]
    [3, 1]
    """
    signs: list[str] = []
    for letter in word:
        if signs and (cell_len(letter) == 0 or signs[-1].endswith("\u200d")):
            signs[-1] += letter
        else:
            signs.append(letter)
    return signs


def _number_cell(weight: float) -> Text:
    """A weight such as .81 on its background colour."""
    if not weight >= FAINT:
        return Text("NaN".rjust(NUMBER) if weight != weight else "·".rjust(NUMBER), "dim")
    number = printed_number(weight, 2)
    number = "1.0" if number.startswith("1") else number[1:]
    return Text(number.rjust(NUMBER), text.on_ground(weight) if weight >= GROUND else "dim")


def _shade_cell(weight: float, coloured: bool) -> Text:
    if coloured:
        return Text(" " * SHADE, text.on_ground(weight)) if weight >= GROUND else Text("· ", "dim")
    sign = next((sign for least, sign in SHADES if weight >= least), "·")
    return Text(sign * SHADE if sign != "·" else "· ")


def _cut(word: str, most: int) -> str:
    return word if cell_len(word) <= most else set_cell_size(word, most - 1).rstrip() + "…"

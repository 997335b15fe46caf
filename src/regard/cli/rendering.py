"""The steps of a small attention as tables, figures and files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from regard import validate
from regard.arrays import numpy_of
from regard.cli import terminal
from regard.cli.outputs import FIGURES, Format
from regard.cli.tracing import Traced
from regard.errors import OptionError
from regard.output import html, latex, table_formats
from regard.output.figure import Svg, bars, flow, heads, heat_map
from regard.tables import Column, Table, digits_for
from regard.trace import Trace
from regard.trace.steps import query_label

MOST_LINES = 60  # of all tables together, without --query and --full
MOST_ROWS = 16  # of a table
MOST_HEADS = 8  # whose flow a page shows
MOST_WEIGHTS = 250_000  # in a CSV or JSON file without --full: some 60 MB


class Figure(StrEnum):
    """What a figure can show."""

    HEAT_MAP = "heat-map"
    HEADS = "heads"
    FLOW = "flow"
    BARS = "bars"


@dataclass(frozen=True, eq=False, slots=True)
class Wanted:
    """What to show of the steps."""

    query: Any = None  # a word or its position; None for all of them
    key: Any = None
    head: int | None = None  # None for all of them
    figure: Figure | None = None
    full: bool = False


def tables(steps: Traced, wanted: Wanted, *, everything: bool = False, with_inputs: bool = False) -> list[Table]:
    """The tables of one query or of the first ones, of one head or of all, with all notes below the last.

    Before them the embeddings and weights they are computed from, if these fit; with `with_inputs`, all inputs.
    """
    fits = len(steps.words) <= MOST_ROWS or wanted.full
    given = steps.given(whole=with_inputs) if fits or with_inputs else []
    found: list[Table] = []
    notes: dict[str, None] = {}  # in order, each once
    count = len(steps.words)
    queries: Any = range(count) if wanted.query is None else [wanted.query]
    whole, shown = everything or wanted.full, 0
    for query in queries:
        of_query = list(_of_query(steps.explain(query), wanted.head))
        notes |= dict.fromkeys(note for table in of_query for note in table.notes)
        of_query = [replace(table, notes=()) for table in of_query]
        found += of_query if whole else map(shortened, of_query)
        shown += 1
        if not whole and sum(map(len, found)) * (shown + 1) / shown > MOST_LINES:
            break
    if shown < len(queries):
        notes[f"The first {_words(shown)} of {count:,}: --query WORD shows another, --full all."] = None
    if steps.note is not None:  # the source of the numbers comes last, where it is seen
        notes.pop(steps.note, None)
        notes[steps.note] = None
    found[-1] = replace(found[-1], notes=tuple(notes))
    return [*given, *found]


def written(steps: Traced, wanted: Wanted, kind: Format) -> str | bytes:
    """The content of a file."""
    if kind is Format.TABLE:
        return terminal.plain(tables(steps, wanted), wanted.full)
    if kind is Format.MARKDOWN:
        return "\n".join(map(table_formats.to_markdown, tables(steps, wanted, with_inputs=True)))
    if kind is Format.LATEX:
        return latex.document(tables(steps, wanted))
    if kind in (Format.CSV, Format.JSON):
        _check_size(steps, wanted, kind)
    if kind is Format.CSV:
        return table_formats.to_csv(tables(steps, wanted, everything=True, with_inputs=True))
    if kind is Format.JSON:
        return table_formats.trace_to_json(_trace(steps, wanted))
    if kind is Format.HTML:
        return _page(steps, wanted)
    drawn = drawing(steps, wanted)
    return figure_file(drawn, kind)


def file_of(tables: Sequence[Table], draw: Callable[[], Svg], kind: Format, title: str = "") -> str | bytes:
    """Tables and the figure of the same numbers as the content of a file."""
    if kind in FIGURES:
        return figure_file(draw(), kind)
    if kind is Format.HTML:
        drawn = draw()
        return html.page(tables, drawn, title=title or drawn.title)
    if kind is Format.LATEX:
        return latex.document(tables)
    if kind is Format.MARKDOWN:
        return "\n".join(map(table_formats.to_markdown, tables))
    if kind is Format.CSV:
        return table_formats.to_csv(tables)
    return table_formats.to_json(tables) if kind is Format.JSON else terminal.plain(tables)


def figure_file(drawn: Svg, kind: Format) -> str | bytes:
    """A figure as the content of an SVG, PNG or PDF file."""
    return drawn.png() if kind is Format.PNG else drawn.pdf() if kind is Format.PDF else str(drawn)


def drawing(steps: Traced, wanted: Wanted) -> Svg:
    """The figure that was asked for; by default the heat map of one head or of all, or the flow of one query."""
    several = wanted.head is None and steps.heads > 1
    usual = Figure.FLOW if wanted.query is not None else Figure.HEADS if several else Figure.HEAT_MAP
    figure = wanted.figure or usual
    head = wanted.head or 0
    if figure is Figure.HEADS:
        return heads(_trace(steps, wanted))
    if figure is Figure.HEAT_MAP:
        return heat_map(_trace(steps, wanted), head=head)
    if wanted.query is None:
        raise OptionError(f"--figure {figure} shows one query: say which, with --query WORD.")
    trace = steps.explain(wanted.query)
    if figure is Figure.FLOW:
        return flow(trace, head=head)
    if wanted.key is None:
        raise OptionError("--figure bars shows a query and a key, number by number: say which, with --key WORD.")
    return bars(trace, key=wanted.key, head=head)


def _trace(steps: Traced, wanted: Wanted) -> Trace:
    return steps.whole() if wanted.query is None else steps.explain(wanted.query)


def _page(steps: Traced, wanted: Wanted) -> str:
    found = tables(steps, wanted)
    notes, found[-1] = found[-1].notes, replace(found[-1], notes=())
    trace = _trace(steps, wanted)
    bare = trace.noted(None)  # the page shows it once
    if wanted.query is None and wanted.head is None and trace.heads > 1:
        figures = [heads(bare)]
    else:
        chosen: Sequence[int] = range(min(trace.heads, MOST_HEADS))
        if wanted.head is not None:
            chosen = [validate.index("head", wanted.head, trace.heads)]
        draw = heat_map if wanted.query is None else flow
        figures = [draw(bare, head=head) for head in chosen]
    title = " ".join(steps.words[:16]) + (" …" if len(steps.words) > 16 else "")
    return html.page(found, figures, title=f"{title}: attention, step by step", notes=notes)


def _of_query(trace: Trace, head: int | None) -> Iterator[Table]:
    """One table per head, then concatenate and W_O."""
    for place in range(trace.heads) if head is None else [validate.index("head", head, trace.heads)]:
        yield trace.table(head=place)
    if head is None and (trace.heads > 1 or "projected" in trace):
        yield _together(trace)


def _together(trace: Trace) -> Table:
    """The outputs of all heads, concatenated, and multiplied by W_O."""
    rows = [(f"sum, head {head}", numpy_of(trace["output"][head, 0])) for head in range(trace.heads)]
    if trace.heads > 1 and "concatenated" in trace:
        rows.append(("concatenated", numpy_of(trace["concatenated"][0])))
    if "projected" in trace:
        rows.append(("through W_O", numpy_of(trace["projected"][0])))
    title = f"{query_label(trace, 0)}: all heads together" if trace.heads > 1 else f"{query_label(trace, 0)}: after W_O"
    digits = max(2, digits_for(np.concatenate([vector for _, vector in rows])))
    return Table(title, (Column("Step", "word"), Column("vector", "vector", digits)), tuple(rows))


def shortened(table: Table, most: int = MOST_ROWS) -> Table:
    """Of many rows, the largest weights and the query's own; one more row sums up the others."""
    shaded = [place for place, column in enumerate(table.columns) if column.shade]
    if len(table) <= most or not shaded:
        return table
    weight = shaded[0]
    strength = [-1.0 if row[weight] != row[weight] else row[weight] for row in table.rows]
    asking = {place for place, row in enumerate(table.rows) if row[-1] is not None}
    strongest = sorted(range(len(table)), key=lambda place: -strength[place])
    kept = sorted([*asking, *[place for place in strongest if place not in asking]][: most - 1])
    others = [table.rows[place] for place in sorted({*range(len(table))} - {*kept})]
    rest: list[Any] = [None] * len(table.columns)
    rest[0], rest[weight] = f"… {len(others):,} more", sum(row[weight] for row in others)
    rest[weight + 1] = np.sum([row[weight + 1] for row in others], axis=0)
    highlight = kept.index(table.highlight) if table.highlight in kept else None
    return replace(table, rows=(*(table.rows[place] for place in kept), tuple(rest)), highlight=highlight)


def _check_size(steps: Traced, wanted: Wanted, kind: Format) -> None:
    """Files of numbers are never shortened; very large ones need --full."""
    count = steps.heads * len(steps.words) ** 2
    if wanted.query is None and not wanted.full and count > MOST_WEIGHTS:
        raise OptionError(
            f"All steps of {len(steps.words):,} words as {kind} would hold {count:,} weights: "
            "choose one word with --query WORD, or --full for all of them."
        )


def _words(count: int) -> str:
    return "query" if count == 1 else f"{count} queries"

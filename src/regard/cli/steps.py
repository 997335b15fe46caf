"""`regard steps`: every step of attention on a sentence, as tables, figures and files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Any

import numpy as np
import typer

from regard import examples, validate
from regard.arrays import numpy_of
from regard.cli import outputs, terminal
from regard.cli.outputs import FIGURES, USUAL, Format, Full, Out, show_option
from regard.cli.text_input import STANDARD, asked_for, called, json_of, text_of, words_of
from regard.errors import OptionError
from regard.output import html, table_formats
from regard.output.figure import Svg, bars, flow, heads, heat_map
from regard.output.worked_sheet import worked_sheet
from regard.tables import Column, Table, digits_for
from regard.teaching.traced_attention import Traced, traced
from regard.trace import Trace
from regard.trace.steps import query_label

FORMATS = (*USUAL, Format.XLSX)
MOST_LINES = 60  # of all tables together, without --query and --full
MOST_ROWS = 16  # of a table
MOST_HEADS = 8  # whose flow a page shows
MOST_WEIGHTS = 250_000  # in a CSV or JSON file without --full: some 60 MB

EXAMPLES = """Examples:

\b
  regard steps --example cat-sat
  regard steps "The cat sat" --query cat --heads 2
  regard steps "The cat sat" --mask causal --seed 7
  regard steps "The cat sat on it" --mask causal --mask window:2
  regard steps "le chat" --context "The cat sat"
  regard steps "The cat sat" --embeddings vectors.json --show latex
  regard steps "The cat sat" --out cat.svg
  regard steps "The cat sat" --out cat.xlsx --product "x W^T"
  regard steps "The cat sat" --query cat --key sat --figure bars --out cat.png

\b
vectors.json holds {"The": [1, 0, 1, 0], "cat": [0, 1, 0, 1], …}, or a list of
vectors, or "embeddings" with "W_q", "W_k", "W_v", "W_O", "context", "heads",
"mask" and "divisor" beside them, or "q", "k" and "v". W is as in q = x · W_q,
a row per component of x; --product "x W^T" is the other convention. Without
the file, vectors and weights are random. `regard check` reads what --out
writes as .md, .csv or .json; .xlsx has live formulas.
"""


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


def steps(
    text: Annotated[str | None, typer.Argument(help="A sentence; - reads it from standard input.")] = None,
    example: Annotated[
        str | None, typer.Option(metavar="NAME", help="An example instead of a text; `regard examples` lists them.")
    ] = None,
    embeddings: Annotated[
        str | None, typer.Option(metavar="FILE", help="A JSON file with the words' vectors; - for standard input.")
    ] = None,
    context: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Cross-attention: keys and values come from this text.")
    ] = None,
    heads: Annotated[int | None, typer.Option(min=1, max=1024, help="Number of heads; 1 by default.")] = None,
    query: Annotated[
        str | None,
        typer.Option(metavar="WORD", help="Only this word's table; the:2 is the second 'the', 3 a position."),
    ] = None,
    head: Annotated[int | None, typer.Option(help="Only this head, counted from 0.")] = None,
    mask: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MASK",
            help="causal, window:N, prefix:N, length:N (the rest is padding), first:N, chunks:N, documents:0,0,1; "
            "combined with & and |, or given several times for all of them.",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of random numbers; 0 by default.")] = None,
    width: Annotated[int | None, typer.Option(min=1, help="Size of random vectors; 4 per head by default.")] = None,
    product: Annotated[
        str | None, typer.Option(metavar='"x W^T"', help='How W is written: "x W" (the default) or "x W^T".')
    ] = None,
    show: Annotated[Format | None, show_option(FORMATS)] = None,
    figure: Annotated[
        Figure | None, typer.Option(help="What svg, png and pdf draw: heat-map, or flow with --query, by default.")
    ] = None,
    key: Annotated[str | None, typer.Option(metavar="WORD", help="The key of --figure bars.")] = None,
    out: Out = None,
    full: Full = False,
) -> None:
    """Show every step of attention: score, score/√d_k, softmax, softmax × v, sum."""
    targets = outputs.targets(out, show, formats=FORMATS, usual=Format.SVG if figure else Format.TABLE)
    if figure is not None and not any(target.format in FIGURES for target in targets):
        raise OptionError(f"--figure {figure} is drawn as svg, png or pdf, not as {targets[0].format}.")
    words, content, source = _inputs(text, example, embeddings)
    of_context = None if context is None else words_of(context)
    found = traced(
        words, content, source=source, context=of_context, heads=heads, width=width, seed=seed, masks=mask or (),
        product=product,
    )  # fmt: skip
    if head is not None and not 0 <= head < found.heads:
        raise OptionError(f"There is no head {head}: there are {found.heads}, counted from 0.")
    wanted = Wanted(asked_for(query, found.words), asked_for(key, found.key_words), head, figure, full)
    if outputs.is_printed(out, targets):
        terminal.show(tables(found, wanted), full)
        return
    if found.note is not None and all(target.format is Format.CSV for target in targets):
        terminal.remark(found.note)  # CSV has no place for all of it
    outputs.write(targets, lambda kind: written(found, wanted, kind))


def _inputs(text: str | None, example: str | None, embeddings: str | None) -> tuple[tuple[str, ...] | None, Any, str]:
    """The words, the vectors as in a JSON file, and what these are called in errors; None for what is not given."""
    if example is not None:
        if text is not None or embeddings is not None:
            raise OptionError("--example has its own text and vectors: leave out the others.")
        chosen = examples.named(example)
        if chosen.kind in ("worked", "vectors"):
            return None, chosen.content, example
        if chosen.kind in ("sentence", "passage"):
            return words_of(chosen.content), None, example
        raise OptionError(
            f"The example {example!r} is of kind {chosen.kind!r}: it has no words to attend to each other."
        )
    if text == STANDARD and embeddings == STANDARD:
        raise OptionError("Text and embeddings cannot both come from standard input.")
    if text is None and embeddings is None:
        raise OptionError('Give a text, as in regard steps "The cat sat", or --example cat-sat.')
    words = None if text is None else words_of(text_of(STANDARD) if text == STANDARD else text)
    if embeddings is None:
        return words, None, ""
    return words, json_of(embeddings) or {}, called(embeddings)  # null is refused like an empty object


# The steps as tables, figures and files


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
    if kind in (Format.CSV, Format.JSON):
        _check_size(steps, wanted, kind)
    if kind is Format.JSON:
        return table_formats.trace_to_json(_trace(steps, wanted))
    if kind is Format.XLSX:
        return worked_sheet(steps.inputs)
    if kind is Format.HTML:
        return _page(steps, wanted)
    if kind in FIGURES:
        return outputs.figure_file(drawing(steps, wanted), kind)
    with_inputs = kind in (Format.CSV, Format.MARKDOWN)  # what `regard check` reads
    found = tables(steps, wanted, everything=kind is Format.CSV, with_inputs=with_inputs)
    return outputs.tables_file(found, kind, wanted.full)


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
        raise OptionError("--figure bars shows a query and a key, component by component: say which, with --key WORD.")
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
    strength = [-1.0 if row[weight] is None or row[weight] != row[weight] else row[weight] for row in table.rows]
    asking = {place for place, row in enumerate(table.rows) if row[-1] is not None}
    strongest = sorted(range(len(table)), key=lambda place: -strength[place])
    kept = sorted([*asking, *[place for place in strongest if place not in asking]][: most - 1])
    others = [table.rows[place] for place in sorted({*range(len(table))} - {*kept})]
    rest: list[Any] = [None] * len(table.columns)
    rest[0] = f"… {len(others):,} more"
    if any(row[weight] is not None for row in others):
        rest[weight] = sum(row[weight] for row in others if row[weight] is not None)
        rest[weight + 1] = np.sum([row[weight + 1] for row in others if row[weight + 1] is not None], axis=0)
    else:  # all masked: the column before the weights says so
        rest[weight - 1] = others[0][weight - 1]
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

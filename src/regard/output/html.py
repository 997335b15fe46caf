"""HTML pages: tables and figures in one self-contained file without scripts, in light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from html import escape
from typing import Any

from regard.output import family
from regard.output.characters import printable
from regard.output.svg import SUBSCRIPT, Svg
from regard.output.table_formats import parts_of, printed, shortened, sum_below
from regard.output.weight_figures import heads, heat_map, weights_of
from regard.tables import Column, Table

FIGURE_SPACE = "\u2007"  # as wide as a digit
FEW_NUMBERS = 8  # numbers of a vector that is shown whole
SHOWN_NUMBERS = 6  # parts of a longer one: the first four, …, the last
SHORTENED = "… stands for omitted numbers of vectors of up to {}; .csv and .json hold all of them."
LEAST_SCALE = 0.75  # of a figure on a narrow screen, where its labels are still read
FEW_TABLES = 12  # tables of a trace in a notebook
MOST_MAPS, SMALL_CELLS = 12, 16  # small maps of an attention of several heads, and the cells of their sides
FEW_CELLS = 64  # cells per side of an attention in a notebook
MOST_WORK = 1 << 34  # multiplications to draw an attention unasked: 16,384 words of head_dim 64 take a few seconds

# The bar behind a weight is pale enough to keep its number readable in both colour schemes.
_STYLE, _PAGE_STYLE = ("\n" + family.sheet("output", f"{name}.css") for name in ("still", "still_page"))
STILL = "Numbers that Regard computed, as figures and tables; every one of them can be computed again."
LIVE = "See attention move: regard studio opens it on a sentence of yours."


def page(
    tables: Table | Iterable[Table] = (), figures: Svg | Iterable[Svg] = (), *, title: str = "Attention, step by step",
    notes: Iterable[str] = (),
) -> str:  # fmt: skip
    """A whole page with figures and tables."""
    tables = [tables] if isinstance(tables, Table) else list(tables)
    figures = [figures] if isinstance(figures, Svg) else list(figures)
    body = [f"<h1>{_text(title)}</h1>", _note(STILL), *map(_note, notes), *map(_figure, figures), *_tables(tables)]
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            '<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta name="color-scheme" content="light dark"><title>{_text(title)}</title>',
            f"<style>{_STYLE}{_PAGE_STYLE}{family.style()}</style></head>",
            f'<body class="regard-still">{family.header({})}<main>',
            *body,
            f"</main>{family.footer(LIVE)}</body>",
            "</html>\n",
        ]
    )


def fragment(*shown: Table | Svg) -> str:
    """Tables and figures as part of a page: what notebooks show."""
    parts = [_figure(part) if isinstance(part, Svg) else _table(part) for part in shown]
    return _styled([*parts, *_omitted(part for part in shown if isinstance(part, Table))])


def trace(shown: Any) -> str:
    """A Trace in a notebook: the heat map of the first head and the tables of the first queries."""
    parts = [_figure(heat_map(shown))] if len(shown.query_words) > 1 else []
    count = min(len(shown.query_words), FEW_TABLES)
    parts += _tables([shown.table(shown.first_query + row) for row in range(count)])
    if count < len(shown.query_words):
        parts.append(_note(f"{len(shown.query_words) - count} more queries: trace.table(query=…) shows one's table."))
    if shown.heads > 1:
        parts.append(_note(f"Head 0 of {shown.heads}: trace.table(query, head=…) shows another."))
    return _styled(parts)


def attention(shown: Any) -> str:
    """An Attention in a notebook: its heat map, pooled if it is large; its `repr` if that fails."""
    try:
        return _styled(_attention(shown))
    except Exception:  # noqa: BLE001 - a notebook cell must not fail because of its numbers
        return f"<pre>{_text(repr(shown))}</pre>"


def _attention(shown: Any) -> list[str]:
    """The heat map of the first sequence: of its only head, or of its first heads as small multiples."""
    names = {2: (), 3: ("head",), 4: ("batch", "head")}[shown.ndim]
    first = shown.select(**dict.fromkeys(names, 0))
    first = first.select(head=0) if first.ndim == 3 else first
    count = min(shown.shape[-3] if shown.ndim > 2 else 1, MOST_MAPS)
    parts = [_note(repr(shown))]
    queries, keys = first.shape
    work = queries * keys * first.queries.shape[-1]
    if work > MOST_WORK:
        return [*parts, _note("Too large to draw automatically: regard.output.figure.heat_map draws it.")]
    if count > 1 and count * work <= MOST_WORK:
        sequence = shown.select(batch=0) if shown.ndim == 4 else shown
        maps = [replace(weights_of(sequence.select(head=head), most=SMALL_CELLS), head=head) for head in range(count)]
        parts.append(_figure(heads(maps, title=f"{shown.shape[-3]} heads: rows are queries, columns are keys")))
        left = [f"Heads 0 to {count - 1} of {shown.shape[-3]}: A.select(head=…) shows another."]
        parts += map(_note, left if count < shown.shape[-3] else [])
        if shown.ndim == 4 and shown.shape[0] > 1:
            parts.append(_note(f"This is batch 0 of {shown.shape[0]}: A.select(batch=…) shows another."))
        return parts
    parts.append(_figure(heat_map(weights_of(first, most=FEW_CELLS))))
    counts = {name: count for name, count in zip(names, shown.shape, strict=False) if count > 1}
    if counts:
        left_out = " and ".join(f"{name} 0 of {count}" for name, count in counts.items())
        parts.append(_note(f"This is {left_out}: A.select({', '.join(f'{name}=…' for name in counts)}) shows another."))
    return parts


def _styled(parts: Iterable[str]) -> str:
    inner = "\n".join(parts)
    return f'<div class="regard-still"><style>{_STYLE}</style>{inner}</div>'


def _figure(figure: Svg) -> str:
    return f'<figure style="--least:{LEAST_SCALE * figure.width:.0f}px">{figure}</figure>'


def _note(note: str) -> str:
    return f'<p class="note">{_formula(note)}</p>'


def _tables(tables: Sequence[Table]) -> list[str]:
    return [*map(_table, tables), *_omitted(tables)]


def _omitted(tables: Iterable[Table]) -> list[str]:
    """A note below tables whose vectors are shortened."""
    vectors = ((table, at) for table in tables for at, column in enumerate(table.columns) if column.kind == "vector")
    longest = max((len(row[at]) for table, at in vectors for row in table.rows if row[at] is not None), default=0)
    return [_note(SHORTENED.format(longest))] if longest > FEW_NUMBERS else []


def _table(table: Table) -> str:
    """A table with a caption, and row and column headers for screen readers; a sum of vectors is the last row."""
    table, has_sum = sum_below(table)
    # A heading may break after a slash: score/√d_k.
    names = ("/<wbr/>".join(map(_formula, column.name.split("/"))) for column in table.columns)
    heads = "".join(
        f'<th scope="col" class="{column.kind}">{name}</th>' for name, column in zip(names, table.columns, strict=True)
    )
    marks = {table.highlight: ' class="query"'}
    if has_sum:
        marks[len(table.rows) - 1] = ' class="sum"'
    cells = zip(*(_cells(table, index) for index in range(len(table.columns))), strict=True)
    body = "\n".join(f"<tr{marks.get(index, '')}>{''.join(row)}</tr>" for index, row in enumerate(cells))
    caption = f"<caption>{_formula(table.title)}</caption>" if table.title else ""
    name = f' role="region" aria-label="{_text(table.title)}"' if table.title else ""
    notes = "".join(map(_note, table.all_notes))
    return (
        f'<div class="wide" tabindex="0"{name}><table>{caption}<thead><tr>{heads}</tr></thead>\n'
        f"<tbody>{body}</tbody></table>{notes}</div>"
    )


def _cells(table: Table, place: int) -> list[str]:
    """The cells of a column; the components of its vectors are as wide as the longest."""
    column, values = table.columns[place], [row[place] for row in table.rows]
    vectors = [[] if column.kind != "vector" or value is None else _parts(value, column) for value in values]
    width = max((len(part) for parts in vectors for part in parts), default=0)
    cells = []
    for value, parts in zip(values, vectors, strict=True):
        text = _text(printed(value, column))
        if column.kind == "vector" and value is not None:
            text = f"[{' '.join(part if part == '…' else part.rjust(width, FIGURE_SPACE) for part in parts)}]"
        if place == 0 and column.kind in ("word", "text"):
            cells.append(f'<th scope="row">{text}</th>')
        elif column.shade and value is not None:
            share = min(max(float(value), 0.0), 1.0) if float(value) == float(value) else 0.0
            cells.append(f'<td class="number shade" style="--share:{share:.2%}">{text}</td>')
        else:
            cells.append(f'<td class="{column.kind}">{text}</td>')
    return cells


def _parts(vector: Any, column: Column) -> list[str]:
    """The printed numbers of a vector; of a long one the first ones and the last."""
    if len(vector) <= FEW_NUMBERS:
        return parts_of(vector, column.digits)
    ends = [*vector[:SHOWN_NUMBERS], vector[-1]]  # only these are printed
    return shortened(parts_of(ends, column.digits), SHOWN_NUMBERS)


def _formula(content: str) -> str:
    """Text with the indices of d_k, W_q and the like as subscripts."""
    return SUBSCRIPT.sub(r"\1<sub>\2</sub>", _text(content))


def _text(content: object) -> str:
    return escape(printable(content))

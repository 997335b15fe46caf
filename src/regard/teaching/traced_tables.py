"""The steps of attention on some words as tables: of one query or of the first ones, of one head or of all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from regard import validate
from regard.arrays import numpy_of
from regard.tables import Column, Table, digits_for
from regard.teaching.traced_attention import Traced
from regard.trace import Trace
from regard.trace.steps import query_label

MOST_LINES = 60  # of all tables together, without a query and `full`
MOST_ROWS = 16  # of a table


def step_tables(
    steps: Traced, query: Any = None, head: int | None = None, *, full: bool = False, every_query: bool = False,
    with_inputs: bool = False,
) -> list[Table]:  # fmt: skip
    """The tables of one query or of the first ones, of one head or of all, with all notes below the last.

    Before them the embeddings and weights they are computed from, if these fit; with `with_inputs`, all inputs.

    query         a word or its position; None for all of them
    full          shorten nothing
    every_query   the tables of every query, whole

    >>> from regard.teaching.traced_attention import traced
    >>> [table.title for table in step_tables(traced(None, {"The": [1, 0], "cat": [0, 1]}), "cat")]
    ['Query cat: d_k = 2, √d_k = 1.41']
    """
    whole = full or every_query
    inputs = steps.given(whole=with_inputs) if with_inputs or full or len(steps.words) <= MOST_ROWS else []
    tables: list[Table] = []
    notes: dict[str, None] = {}  # in order, each once
    count = len(steps.words)
    queries: Any = range(count) if query is None else [query]
    shown = 0
    for asked_query in queries:
        of_query = list(_of_query(steps.explain(asked_query), head))
        notes |= dict.fromkeys(note for table in of_query for note in table.notes)
        of_query = [replace(table, notes=()) for table in of_query]
        tables += of_query if whole else map(strongest_rows, of_query)
        shown += 1
        if not whole and sum(map(len, tables)) * (shown + 1) / shown > MOST_LINES:
            break
    if shown < len(queries):
        first = "query" if shown == 1 else f"{shown} queries"
        notes[f"The first {first} of {count:,}: --query WORD shows another, --full all."] = None
    if steps.note is not None:  # the source of the numbers comes last, where it is seen
        notes.pop(steps.note, None)
        notes[steps.note] = None
    tables[-1] = replace(tables[-1], notes=tuple(notes))
    return [*inputs, *tables]


def _of_query(trace: Trace, head: int | None) -> Iterator[Table]:
    """One table per head, then concatenate and W_O."""
    for number in range(trace.heads) if head is None else [validate.index("head", head, trace.heads)]:
        yield trace.table(head=number)
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


def strongest_rows(table: Table, most: int = MOST_ROWS) -> Table:
    """Of many rows, the largest weights and the query's own; one more row sums up the others."""
    shaded = [index for index, column in enumerate(table.columns) if column.shade]
    if len(table) <= most or not shaded:
        return table
    weight = shaded[0]
    strength = [-1.0 if row[weight] is None or row[weight] != row[weight] else row[weight] for row in table.rows]
    asking = {index for index, row in enumerate(table.rows) if row[-1] is not None}
    strongest = sorted(range(len(table)), key=lambda place: -strength[place])
    kept = sorted([*asking, *[index for index in strongest if index not in asking]][: most - 1])
    others = [table.rows[index] for index in sorted({*range(len(table))} - {*kept})]
    rest: list[Any] = [None] * len(table.columns)
    rest[0] = f"… {len(others):,} more"
    if any(row[weight] is not None for row in others):
        rest[weight] = sum(row[weight] for row in others if row[weight] is not None)
        rest[weight + 1] = np.sum([row[weight + 1] for row in others if row[weight + 1] is not None], axis=0)
    else:  # all masked: the column before the weights says so
        rest[weight - 1] = others[0][weight - 1]
    highlight = kept.index(table.highlight) if table.highlight in kept else None
    return replace(table, rows=(*(table.rows[index] for index in kept), tuple(rest)), highlight=highlight)

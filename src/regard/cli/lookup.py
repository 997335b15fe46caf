"""`regard lookup`: a dictionary, looked up hard and soft."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from regard.cli import terminal, text_input
from regard.cli.options import Writes
from regard.cli.outputs import Output
from regard.output import figure
from regard.output.files import file_of
from regard.tables import Table
from regard.teaching.lookup import lookup_of, query_of

MOST_KEYS = 24  # of a look-up, in the terminal


def lookup(
    output: Annotated[Output, Writes()],
    file: str,
    query: str,
    temperature: float | None = None,
    similarity: Literal["dot", "scaled-dot", "cosine", "negative-distance"] | None = None,
    embed: Literal["spelling", "model"] | None = None,
    leaves: bool = False,
) -> None:
    """Look a query up: equal keys first, then SELECT value WHERE key ≈ query.

    file         A JSON file with keys and values; - for standard input.
    query        A text, or a vector as in "[1, 0]".
    temperature  Divides the similarities; 0 is the limit: all weight on the most similar key.
    similarity   By default cosine for texts, scaled-dot for vectors.
    embed        How texts become vectors: by spelling (the default), or by a model.
    leaves       Look inside nested values, by paths: address.city.

    Examples:
      regard examples jane > jane.json
      regard lookup jane.json "Date of birth"
      regard lookup jane.json "birth date"
      regard lookup jane.json "birth date" --temperature 1
      regard lookup jane.json "when was she born" --embed model
      regard examples person | regard lookup - city --leaves
      regard examples four-words | regard lookup - "[0.3, 1.2, 4]"
      regard lookup jane.json "birth date" --out birth.svg --out birth.md

    FILE holds a JSON object of keys and values, or "keys" and "values" that are
    lists. If keys are vectors, the query is one too. Texts are compared by their
    spelling (shared letter trigrams); with --embed model by their meaning, as the
    default model has learned it.
    """
    content = text_input.json_of(file)
    how: Any = None if similarity is None else similarity.replace("-", " ")
    dictionary = replace(lookup_of(content, text_input.called(file), how, temperature), embed=embed)
    dictionary = dictionary.leaves() if leaves else dictionary
    search_query = query_of(query, dictionary)
    hard, soft = dictionary.hard(search_query), dictionary.soft(search_query)
    if output.is_printed:
        equal = hard.table() if hard.found else "\n".join(["SELECT value WHERE key = query", *hard.table().notes])
        parts = (equal, soft.table())
        terminal.show([part if isinstance(part, str) else _shortened(part, output.full) for part in parts], output.full)
        return
    tables = [answer.table(with_values=True) for answer in (hard, soft)]
    title = "Hard and soft look-up"
    output.write(lambda kind: file_of(tables, lambda: figure.lookup(dictionary, search_query), kind, title))


def _shortened(table: Table, full: bool) -> Table:
    """Only the most probable keys, which come first."""
    left = len(table) - MOST_KEYS
    if full or left <= 0:
        return table
    note = f"{left:,} less probable keys are omitted: --full shows them."
    return replace(table, rows=table.rows[:MOST_KEYS], notes=(*table.notes, note))

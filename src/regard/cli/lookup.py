"""`regard lookup`: look-up by equality and by similarity."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any

import numpy as np
import typer

from regard.cli import outputs, terminal, text_input
from regard.cli.outputs import Full, Out, Show
from regard.errors import OptionError
from regard.output import figure
from regard.tables import Column, Kind, Table, digits_for
from regard.teaching.lookup import Answer, Lookup
from regard.teaching.lookup import lookup as dictionary
from regard.teaching.lookup_vectors import are_numbers, are_vectors

MOST_KEYS = 24

EXAMPLES = """Examples:

\b
  regard examples jane > jane.json
  regard lookup jane.json "Date of birth"
  regard lookup jane.json "birth date"
  regard lookup jane.json "birth date" --temperature 1
  regard lookup jane.json "when was she born" --embed model
  regard examples person | regard lookup - city --leaves
  regard examples four-words | regard lookup - "[0.3, 1.2, 4]"
  regard lookup jane.json "birth date" --out birth.svg --out birth.md

\b
FILE holds a JSON object of keys and values, or "keys" and "values" that are
lists. If keys are vectors, the query is one too. Texts are compared by their
spelling (shared letter trigrams); with --embed model by their meaning, as the
default model has learned it.
"""


class SimilarityName(StrEnum):
    """Similarities of a query and a key."""

    DOT = "dot"
    SCALED_DOT = "scaled-dot"
    COSINE = "cosine"
    NEGATIVE_DISTANCE = "negative-distance"


class EmbedName(StrEnum):
    """How texts become vectors."""

    SPELLING = "spelling"
    MODEL = "model"


def lookup(
    file: Annotated[str, typer.Argument(help="A JSON file with keys and values; - for standard input.")],
    query: Annotated[str, typer.Argument(help='A text, or a vector as in "[1, 0]".')],
    temperature: Annotated[
        float | None,
        typer.Option(help="Divides the similarities; 0 is the limit: all weight on the most similar key."),
    ] = None,
    similarity: Annotated[
        SimilarityName | None, typer.Option(help="By default cosine for texts, scaled-dot for vectors.")
    ] = None,
    embed: Annotated[
        EmbedName | None, typer.Option(help="How texts become vectors: by spelling (the default), or by a model.")
    ] = None,
    leaves: Annotated[
        bool, typer.Option("--leaves", help="Look inside nested values, by paths: address.city.")
    ] = False,
    show: Show = None,
    out: Out = None,
    full: Full = False,
) -> None:
    """Look a query up: equal keys first, then SELECT value WHERE key ≈ query."""
    targets = outputs.targets(out, show)
    content = text_input.json_of(file)
    how: Any = None if similarity is None else similarity.value.replace("-", " ")
    found = replace(_dictionary(content, text_input.called(file), how, temperature), embed=embed and embed.value)
    found = found.leaves() if leaves else found
    asked = _query(query, found)
    hard, soft = found.hard(asked), found.soft(asked)
    if outputs.is_printed(out, targets):
        equal = hard.table() if hard.found else "\n".join(["SELECT value WHERE key = query", *hard.table().notes])
        parts = (equal, soft.table())
        terminal.show([part if isinstance(part, str) else _shortened(part, full) for part in parts], full)
        return
    tables = [_detailed(found, hard), _detailed(found, soft)]
    title = "Hard and soft look-up"
    outputs.write(targets, lambda kind: outputs.file_of(tables, lambda: figure.lookup(found, asked), kind, title))


def _detailed(found: Lookup, answer: Answer) -> Table:
    """The answer's table with the value of each key."""
    table = answer.table()
    values = [found.values[place] for place in np.argsort(-answer.weights, kind="stable")]
    digits = digits_for(np.hstack(values)) if are_vectors(values) or are_numbers(values) else 0
    kind: Kind = "vector" if are_vectors(values) else "number" if are_numbers(values) else "text"
    rows = tuple((*row, value) for row, value in zip(table.rows, values, strict=True))
    return replace(table, columns=(*table.columns, Column("value", kind, digits)), rows=rows)


def _dictionary(content: Any, source: str, similarity: Any, temperature: float | None) -> Lookup:
    keys, values = content, None
    if isinstance(content, dict) and isinstance(content.get("keys"), list) and isinstance(content.get("values"), list):
        keys, values = content["keys"], content["values"]
    elif not isinstance(content, dict):
        raise OptionError(
            f'{source} holds no dictionary; expected a JSON object, as {{"brand": "Ford"}}, '
            'or one with "keys" and "values".'
        )
    if not keys:
        raise OptionError(f"{source} holds no keys, so there is nothing to look up.")
    return dictionary(keys, values, similarity=similarity, temperature=temperature)


def _query(text: str, found: Lookup) -> Any:
    """The query as a text, a vector or a number, like the keys."""
    if all(isinstance(key, str) for key in found.keys):
        return text
    numbers = ",".join(re.split(r"[,;\s]+", text.strip().strip("[]").strip()))
    try:
        content = json.loads(f"[{numbers}]")
    except json.JSONDecodeError:
        content = None
    if not isinstance(content, list) or not content:
        raise OptionError(f'The keys are vectors, and the query is {text!r}; expected numbers, as in "[0.3, 1.2, 4]".')
    return content[0] if len(content) == 1 and not isinstance(found.keys[0], list) else content


def _shortened(table: Table, full: bool) -> Table:
    """Only the most probable keys, which come first."""
    left = len(table) - MOST_KEYS
    if full or left <= 0:
        return table
    note = f"{left:,} less probable keys are omitted: --full shows them."
    return replace(table, rows=table.rows[:MOST_KEYS], notes=(*table.notes, note))

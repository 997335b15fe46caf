"""A dictionary from JSON, a query as text, and answers with the value of each key."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np

from regard.errors import OptionError
from regard.tables import Column, Kind, Table, digits_for
from regard.teaching.lookup import Answer, Lookup, lookup
from regard.teaching.lookup_vectors import are_numbers, are_vectors


def lookup_of(content: Any, source: str, similarity: Any = None, temperature: float | None = None) -> Lookup:
    """The dictionary of a JSON file: an object, or one with the lists "keys" and "values".

    source   what the content is called in errors
    """
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
    return lookup(keys, values, similarity=similarity, temperature=temperature)


def query_of(text: str, dictionary: Lookup) -> Any:
    """The query as a text, a vector or a number, like the keys."""
    if all(isinstance(key, str) for key in dictionary.keys):
        return text
    numbers = ",".join(re.split(r"[,;\s]+", text.strip().strip("[]").strip()))
    try:
        content = json.loads(f"[{numbers}]")
    except json.JSONDecodeError:
        content = None
    if not isinstance(content, list) or not content:
        raise OptionError(f'The keys are vectors, and the query is {text!r}; expected numbers, as in "[0.3, 1.2, 4]".')
    return content[0] if len(content) == 1 and not isinstance(dictionary.keys[0], list) else content


def table_with_values(dictionary: Lookup, answer: Answer) -> Table:
    """The answer's table with the value of each key."""
    table = answer.table()
    values = [dictionary.values[index] for index in np.argsort(-answer.weights, kind="stable")]
    digits = digits_for(np.hstack(values)) if are_vectors(values) or are_numbers(values) else 0
    kind: Kind = "vector" if are_vectors(values) else "number" if are_numbers(values) else "text"
    rows = tuple((*row, value) for row, value in zip(table.rows, values, strict=True))
    return replace(table, columns=(*table.columns, Column("value", kind, digits)), rows=rows)

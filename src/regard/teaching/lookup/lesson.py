"""The lesson: when soft look-up tends to hard look-up at temperature → 0, and the three cases in which it does not."""

from __future__ import annotations

from typing import Any

from regard.tables import Column, Table
from regard.teaching.lookup.answer import said
from regard.teaching.lookup.dictionary import Lookup, lookup

# From the lecture notes. The last two keys are equal.
QUERIES = ((0.3, 1.2, 2.2), (0.1, 6.2, 2.1), (2.1, 2.5, 5.2), (1.1, 6.6, 4.3))
KEYS = ((0.4, 1.4, 0.0), (0.2, -1.1, 0.0), (0.3, 1.2, 4.0), (0.3, 1.2, 4.0))
VALUES = ((2.3, 1.1, 3.5), (3.0, 1.0, 0.5), (-2.2, 4.1, 2.5), (-2.2, 4.1, 2.5))
TEMPERATURES = (4.0, 2.0, 1.0, 0.5, 0.25, 0.125, 0.0625, 0.0)


def lookup_lesson() -> tuple[Table, ...]:
    """Five tables: the limit; equal keys; no equal key; the dot product; both similarities for each query.

    >>> for table in lookup_lesson():
    ...     print(table.title)
    It tends to the hard look-up: negative distance, unique keys, a key that is there
    It does not, 1: two keys are equal
    It does not, 2: a miss
    It does not, 3: similarity by the dot product
    What the dot product and the negative distance find for each query of the notes as temperature → 0
    """
    unique = lookup(KEYS[:3], VALUES[:3], similarity="negative distance")
    equal = lookup(KEYS, VALUES, similarity="negative distance")
    by_dot = lookup(QUERIES, VALUES, similarity="dot")
    return (
        _cooling(
            "It tends to the hard look-up: negative distance, unique keys, a key that is there", unique, KEYS[0],
            "The key that equals the query is at distance 0, the others further away: in the end it has all weight.",
        ),
        _cooling(
            "It does not, 1: two keys are equal", equal, KEYS[2],
            "Equal keys share the weight, 1/2 each, so the soft look-up gives the mean of their values; the hard one "
            "adds them up.",
        ),
        _cooling(
            "It does not, 2: a miss", unique, QUERIES[0],
            "Weights sum to 1 whether or not a key is there: the soft look-up gives the value of the nearest key, the "
            "hard one 0.",
        ),
        _cooling(
            "It does not, 3: similarity by the dot product", by_dot, QUERIES[0],
            "Here the keys are the notes' four queries. A long key can have a larger product with the query than the "
            "query with itself; that key takes all weight. Cosine finds the equal key, unless another points the "
            "same way.",
        ),
        _two_similarities(),
    )  # fmt: skip


def _cooling(title: str, keys_and_values: Lookup, query: Any, why: str) -> Table:
    """The soft value at falling temperatures, and the hard value."""
    hard = keys_and_values.hard(query).value
    rows: list[tuple[Any, ...]] = []
    for temperature in TEMPERATURES:
        answer = keys_and_values.soft(query, temperature)
        shown = f"{temperature:g}" if temperature else "→ 0"
        rows.append((shown, answer.weights, answer.value, float(abs(answer.value - hard).max())))
    rows.append(("hard", keys_and_values.hard(query).weights, hard, 0.0))
    columns = (
        Column("temperature", "word"),
        Column("weights", "vector"),
        Column("value", "vector"),
        Column("from hard", "number"),
    )
    asked = " ".join(f"{number:g}" for number in query)
    return Table(title, columns, tuple(rows), (f"Query [{asked}], which the hard look-up answers {said(hard)}.", why))


def _two_similarities() -> Table:
    """The limits of both similarities for queries that equal no key."""
    dot, distance = (lookup(KEYS, VALUES, similarity=how) for how in ("dot", "negative distance"))
    rows = tuple(
        (query, dot.hard(query).value, dot.soft(query, 0).value, distance.soft(query, 0).value) for query in QUERIES
    )
    columns = (
        Column("query", "vector", 1),
        Column("hard", "vector", 0),
        Column("soft, dot", "vector", 1),
        Column("soft, distance", "vector", 1),
    )
    notes = (
        "None of them equals a key. Dot product and distance can find different keys: the one rewards length, "
        "the other nearness.",
    )
    return Table(
        "What the dot product and the negative distance find for each query of the notes as temperature → 0",
        columns, rows, notes,
    )  # fmt: skip

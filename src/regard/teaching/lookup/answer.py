"""The result of a look-up: the weight of each key, and the value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from regard.errors import shown
from regard.tables import Column, Table, digits_for, printed_number, printed_vector
from regard.teaching.lookup.key_values import Floats, are_vectors


@dataclass(frozen=True, eq=False, repr=False)
class Answer:
    """The result for one query, or for several.

    value     Σ weight · value for numbers and vectors, otherwise the value of the most probable key; an array or a list
              for several queries
    weights   (key,) or (query, key): softmax weights of the soft look-up; in a hard one, 1 for equal keys
    found     whether any key has weight; a list for several queries
    notes     remarks on the value
    """

    kind: Literal["hard", "soft"]
    queries: tuple[Any, ...]
    keys: tuple[Any, ...]
    value: Any
    weights: Floats
    notes: tuple[str, ...] = ()

    @property
    def found(self) -> Any:
        """Whether any key has weight; a list for several queries."""
        return self.weights.any(axis=-1).tolist()

    def table(self, most: int | None = None) -> Table:
        """*query, key, probability*: the keys of each query, most probable first, at most `most` of them.

        A hard look-up has *equal* instead of *probability*: 1 for equal keys.
        """
        weights = self.weights.reshape(len(self.queries), len(self.keys))
        rows = []
        for query, row in zip(self.queries, weights, strict=True):
            order = np.argsort(-row, kind="stable")[:most]
            rows += [(query, self.keys[key], float(row[key])) for key in order]
        soft = self.kind == "soft"
        columns = (
            _column("query", self.queries),
            _column("key", self.keys),
            Column("probability" if soft else "equal", "number", 2 if soft else 0, shade=True),
        )
        where = "SELECT value WHERE key ≈ query" if soft else "SELECT value WHERE key = query"
        return Table(where, columns, tuple(rows), (self._said(), *self.notes), 0 if rows and rows[0][2] else None)

    def best(self) -> Table:
        """One row per query: its most probable key."""
        return self.table(1)

    def _said(self) -> str:
        if self.weights.ndim == 1:
            return f"value: {said(self.value)}"
        return "values: " + "; ".join(said(value) for value in self.value)

    def __repr__(self) -> str:
        asked = shown(self.queries[0] if self.weights.ndim == 1 else list(self.queries))
        return f"Answer({self.kind}: {asked} → {said(self.value)})"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def said(value: Any) -> str:
    """A value on one short line.

    >>> said(np.array([-4.4, 8.2, 5.0])), said("Ford"), said(None)
    ('[−4.40 8.20 5.00]', "'Ford'", 'None')
    """
    if isinstance(value, np.ndarray) and value.ndim == 1 and len(value) <= 12:
        return f"[{printed_vector(value, max(digits_for(value), 2 if value.any() else 0))}]"
    return printed_number(value, 2) if isinstance(value, (float, np.floating)) else shown(value)


def _column(name: str, cells: Sequence[Any]) -> Column:
    if are_vectors(cells):
        return Column(name, "vector", digits_for([number for cell in cells for number in np.ravel(cell)]))
    return Column(name, "word")

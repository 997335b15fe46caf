"""Combinations of which `make test` tries a part and `make test-all` everything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def rotated(rows: Iterable[Any], columns: Sequence[Any]) -> list[Any]:
    """(row, column): each row with one of the columns in turn; all others are slow.

    >>> [(pair.values, bool(pair.marks)) for pair in rotated(["a", "b"], [1, 2])]
    [(('a', 1), False), (('a', 2), True), (('b', 1), True), (('b', 2), False)]
    """
    pairs = []
    for number, row in enumerate(rows):
        now = (number + number // len(columns)) % len(columns)  # rows that are a cycle themselves meet all columns too
        for place, column in enumerate(columns):
            pairs.append(pytest.param(row, column, marks=[] if place == now else [pytest.mark.slow]))
    return pairs

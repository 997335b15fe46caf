"""Text for terminals: tables that fit 80 columns, and stay plain where there is no colour."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from regard.attention import Attention
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

Numbers = NDArray[np.float64]


def steps(words: Sequence[str], attention: Attention, values: Numbers) -> RenderableType:
    """Every step of one head, as slides show it: a table for each query, a row for each word it looks at.

    `attention` is of shape (query, key), `values` (key, size); both are small: this writes all n² rows.
    """
    size = attention.queries.shape[-1]
    heading = Text.assemble(
        (" ".join(words), "bold"), f": self-attention step by step, d_k = {size}, √d_k = {np.sqrt(size):.3g}"
    )
    outputs = attention @ values
    tables = [_steps_of_one_query(query, words, attention, values, outputs[query]) for query in range(len(words))]
    parts = [(Text(), Text(f"{word} asks:"), table) for word, table in zip(words, tables, strict=True)]
    return Group(heading, *(line for part in parts for line in part))


def _steps_of_one_query(
    query: int, words: Sequence[str], attention: Attention, values: Numbers, output: Numbers
) -> Table:
    queries, keys = np.asarray(attention.queries), np.asarray(attention.keys)
    scores, scaled = np.asarray(attention.score[query]), np.asarray(attention.scaled[query])
    weights = np.asarray(attention[query])
    weighted_values = weights[:, None] * values  # (key, size)

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="italic")
    table.add_column("Word")
    for name in ("q", "k", "v"):
        table.add_column(name, no_wrap=True)
    for name in ("score", "score/√d_k", "softmax"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("softmax × v", justify="right", no_wrap=True)
    for key, word in enumerate(words):
        asks = key == query
        table.add_row(
            Text(word, "bold" if asks else ""),
            Text(_vector(queries[query], queries), "cyan") if asks else "",
            _vector(keys[key], keys),
            _vector(values[key], values),
            _number(scores[key], scores),
            f"{scaled[key]:.2f}",
            Text(f"{weights[key]:.2f}", "bold" if weights[key] == weights.max() else ""),
            _vector(weighted_values[key], output),
        )
    table.add_row("sum", "", "", "", "", "", f"{weights.sum():.2f}", Text(_vector(output, output), "bold green"))
    return table


def _vector(vector: Numbers, like: Numbers) -> str:
    return " ".join(_number(number, like) for number in vector)


def _number(number: float, like: Numbers) -> str:
    """As a whole number where everything `like` it is one, with two decimals elsewhere."""
    return f"{number:.0f}" if np.all(like == np.round(like)) else f"{number:.2f}"

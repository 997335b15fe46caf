"""Traces to show: the worked example, a masked sentence, words that are hard to print."""

from __future__ import annotations

import numpy as np

from regard.attention import Attention
from regard.masks import causal
from regard.tables import Column, Table
from regard.trace import Trace

CAT_SAT = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]]
SENTENCE = (
    "Keys on the table belong to Sarah , who had left them there before incomprehensibilities of internationalisation "
    "kept her away ; she came back , looked under the table , found nothing and asked whose keys these were ."
)
FORTY = (SENTENCE.split() * 2)[:40]
HARD = (
    "50%",
    "R&D_1",
    "$x^2$",
    "{~}",
    "<b>",
    "a|b",
    "日本語",
    "naïve",
    "жук",
    "\x1b[31m",
    "new\nline",
    "👩‍🔬",
    "",
    "[x]",
    "*",
    "\\",
)


def cat_sat() -> Trace:
    trace: Trace = Attention(CAT_SAT, CAT_SAT).explain(CAT_SAT, words=["The", "cat", "sat"])
    return trace


def drawn(words: list[str] | tuple[str, ...], heads: int = 2, size: int = 7, masked: bool = False) -> Trace:
    q, k, v = np.random.default_rng(len(words)).normal(size=(3, heads, len(words), size)) * 2
    trace: Trace = Attention(q, k, mask=causal() if masked else None).explain(v, words=list(words))
    return trace


def hard_table() -> Table:
    columns = (Column("Word", "word"), Column("score/√d_k", "number"), Column("softmax", "number", shade=True),
               Column("v", "vector"))  # fmt: skip
    numbers = [float("nan"), float("-inf"), float("inf"), -0.001, 1e9]
    rows = tuple(
        (word, numbers[place % 5], place / 20, None if place == 3 else [place, -place / 3])
        for place, word in enumerate(HARD)
    )
    return Table("50% of <R&D_1>", columns, rows, notes=("A note: 100% & more_or_less.",), highlight=1)

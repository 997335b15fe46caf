"""Worked examples: sentences with vectors small enough to check by hand."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray


class Example(StrEnum):
    """The names of the examples."""

    CAT_SAT = "cat-sat"


@dataclass(frozen=True, eq=False, slots=True)
class WorkedExample:
    """A sentence and the vectors that its words ask with, are found by, and hand over."""

    words: tuple[str, ...]
    queries: NDArray[np.float64]  # (word, size)
    keys: NDArray[np.float64]  # (word, size)
    values: NDArray[np.float64]  # (word, value size)


def cat_sat() -> WorkedExample:
    """*The cat sat* with W_q = W_k = W_v = I, so that queries, keys and values are the embeddings themselves.

    >>> cat_sat().queries.tolist()
    [[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0]]
    """
    embeddings = np.array([[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]], dtype=np.float64)
    return WorkedExample(("The", "cat", "sat"), embeddings, embeddings, embeddings)


EXAMPLES = {Example.CAT_SAT: cat_sat}

"""Lazy views of an attention (earlier stages, the transpose) and results with several parts (`Top`, `Attended`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from regard import arrays
from regard.arrays import Array, numpy_of
from regard.attention import arguments
from regard.attention.index import LIMIT, look
from regard.attention.row_statistics import row_state
from regard.engines.interface import Stage as StageName
from regard.engines.select import engine_for

if TYPE_CHECKING:
    from regard.attention.attention import Attention


@dataclass(frozen=True, eq=False)
class Stage:
    """The matrix at a stage before the weights, lazy as well: index it, or build it with `dense()`.

    >>> from regard.attention import Attention
    >>> E = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]]
    >>> scores = Attention(E, E).score
    >>> scores.shape, scores[2, :2], scores.dense().tolist()[0]
    ((3, 3), array([2., 2.]), [2.0, 0.0, 2.0])
    """

    attention: Attention
    name: StageName

    __array_ufunc__ = None

    @property
    def shape(self) -> tuple[int, ...]:
        """(batch, head, query, key), with the leading axes of the attention."""
        return self.attention.shape

    def __getitem__(self, index: Any) -> Array:
        return look(self.attention, index, self.name)

    def dense(self, limit: int | None = LIMIT) -> Array:
        """The whole matrix, O(n²) memory; raises `TooLarge` above `limit` bytes."""
        return look(self.attention, ..., self.name, limit)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(numpy_of(self.dense()), dtype=dtype)


@dataclass(frozen=True, eq=False)
class Transposed:
    """The weights with queries and keys exchanged, `A.mT`."""

    attention: Attention

    __array_ufunc__ = None

    @property
    def shape(self) -> tuple[int, ...]:
        """(batch, head, key, query), with the leading axes of the attention."""
        *leading, query, key = self.attention.shape
        return (*leading, key, query)

    @property
    def mT(self) -> Attention:
        """The attention itself."""
        return self.attention

    def __matmul__(self, rows: Any) -> Array:
        """For each key, the sum of the rows of `u` weighted by column; O(n) memory."""
        attention = self.attention
        one_column = arguments.is_vector(rows)
        rows = arguments.rows(arguments.as_column(rows) if one_column else rows, attention.queries)
        scores = attention._scores()
        rows = arrays.cast(arrays.four_axes(rows), scores.queries.dtype)
        result = engine_for(scores.queries).backflow(scores, row_state(attention), rows)
        result = arrays.leading_axes_of(attention.ndim, arrays.cast(result, attention.dtype))
        return result[..., 0] if one_column else result

    def __rmatmul__(self, columns: Any) -> Array:
        return _turned(self.attention @ _turned(columns))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(np.asarray(self.attention).swapaxes(-1, -2), dtype=dtype)


@dataclass(frozen=True, eq=False)
class Top:
    """The keys of largest weight for every query, in descending order; index −1 and weight 0 beyond its visible keys.

    >>> from regard.attention import Attention
    >>> strongest = Attention([[1.0]], [[2.0], [3.0], [1.0]]).top(2)
    >>> strongest.index.tolist(), strongest.weight.round(2).tolist()
    ([[1, 0]], [[0.67, 0.24]])
    """

    index: Array  # (batch, head, query, k)
    weight: Array  # (batch, head, query, k)


@dataclass(frozen=True, eq=False)
class Attended:
    """Outputs and the requested statistics; None for the others.

    >>> from regard.attention import Attention
    >>> found = Attention(np.zeros((2, 3)), np.zeros((4, 3))).attend(np.ones((4, 5)), "peak")
    >>> found.output.shape, found.peak, found.entropy is None
    ((2, 5), array([0.25, 0.25]), True)
    """

    output: Array  # (batch, head, query, value_dim)
    logsumexp: Array | None = None  # (batch, head, query)
    entropy: Array | None = None
    peak: Array | None = None
    distance: Array | None = None
    top: Top | None = None


def _turned(rows: Any) -> Any:
    rows = rows if hasattr(rows, "swapaxes") else np.asarray(rows)
    return rows.swapaxes(-1, -2) if rows.ndim > 1 else rows

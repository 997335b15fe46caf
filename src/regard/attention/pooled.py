"""`Attention.pooled`: the matrix pooled exactly into cells of rows and columns, in one pass over tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from regard import arrays, errors, validate
from regard.arrays import Array
from regard.attention.index import LIMIT, check_size
from regard.attention.row_statistics import RowStatistics, state_of_rows
from regard.engines import score_parts
from regard.engines.interface import Pool, Scores
from regard.engines.select import engine_for

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Edges = NDArray[np.int64]

POOLS = get_args(Pool)


@dataclass(frozen=True, eq=False)
class PooledMap:
    """Pooled weights: cell r, c covers queries row_edges[r] up to row_edges[r + 1], and keys likewise.

    >>> from regard.attention import Attention
    >>> pooled = Attention(np.zeros((6, 3)), np.zeros((8, 3))).pooled((2, 4))
    >>> pooled.shape, pooled.row_edges.tolist(), pooled.column_edges.tolist()
    ((2, 4), [0, 3, 6], [0, 2, 4, 6, 8])
    >>> np.asarray(pooled)[0]
    array([0.125, 0.125, 0.125, 0.125])
    """

    array: Array  # (batch, head, row cell, column cell), with the leading axes of the attention
    row_edges: Edges
    column_edges: Edges
    pool: Pool

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of `array`."""
        return tuple(self.array.shape)

    def __repr__(self) -> str:
        """The cells and the region they cover, after the leading axes."""
        leading = [f"{name} {count}, " for name, count in zip(("head", "batch"), self.shape[-3::-1], strict=False)]
        queries, keys = (int(edges[-1] - edges[0]) for edges in (self.row_edges, self.column_edges))
        cells = f"{self.shape[-2]} × {self.shape[-1]} cells of {queries} queries × {keys} keys"
        return f"PooledMap({''.join(leading[::-1])}{cells}, pool={self.pool!r})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(arrays.numpy_of(self.array), dtype=dtype, copy=copy)


def even_edges(start: int, stop: int, cells: int) -> Edges:
    """Edges of cells of nearly equal size: edge c is start + ⌊c · (stop − start) / cells⌋.

    >>> even_edges(0, 10, 4).tolist()
    [0, 2, 5, 7, 10]
    """
    return start + np.arange(cells + 1, dtype=np.int64) * (stop - start) // cells


def pooled_map(
    scores: Scores, known: RowStatistics, ndim: int, row_edges: Edges, column_edges: Edges, pool: Pool
) -> PooledMap:
    """The map with these edges: one pass over the region, and one over its rows unless their row state is cached."""
    validate.choice("pool", pool, POOLS)
    batch, heads, queries, _ = scores.queries.shape
    check_size((batch, heads, len(row_edges) - 1, len(column_edges) - 1), scores.queries, LIMIT)
    rows = slice(int(row_edges[0]), int(row_edges[-1]))
    state = known.state_for(scores, (rows.stop - rows.start) / queries)
    state = state_of_rows(scores, rows) if state is None else state[:, :, rows]
    region = score_parts.of_rows(scores, rows)
    cells = engine_for(scores.queries).pooled(region, state, row_edges - rows.start, column_edges, pool)
    return PooledMap(arrays.leading_axes_of(ndim, cells), row_edges, column_edges, pool)


def edges(counts: tuple[int, ...], shape: Any, regions: tuple[Any, Any], given: tuple[Any, Any]) -> tuple[Edges, Edges]:
    """The edges along rows and columns: explicit ones, or equal cells over the region."""
    shape = (None, None) if shape is None else shape
    if not isinstance(shape, (tuple, list)) or len(shape) != 2:
        raise _bad_shape(shape, (counts[0], counts[1]))
    spans = region("rows", regions[0], counts[0]), region("columns", regions[1], counts[1])
    blocks = []
    for axis, name in enumerate(("row", "column")):
        start, stop = spans[axis]
        if given[axis] is not None:
            if regions[axis] is not None or shape[axis] is not None:
                raise errors.option(
                    f"{name}_edges", given[axis], f"these alone, without a shape or a region of {name}s"
                )
            blocks.append(_given_edges(f"{name}_edges", given[axis], counts[axis]))
        elif validate.is_integer(shape[axis]) and 1 <= shape[axis] <= stop - start:
            blocks.append(even_edges(start, stop, int(shape[axis])))
        else:
            raise _bad_shape(shape, (spans[0][1] - spans[0][0], spans[1][1] - spans[1][0]))
    return blocks[0], blocks[1]


def region(name: str, given: Any, count: int) -> tuple[int, int]:
    """Neighbours along an axis, from one up to another: a slice or (start, stop); all by default."""
    try:
        part = slice(None) if given is None else given if isinstance(given, slice) else slice(*given)
        start, stop, step = part.indices(count)
    except (TypeError, ValueError):
        start = stop = step = 0
    if step != 1 or start >= stop:
        raise errors.option(name, given, f"a slice or (start, stop) with at least one of {count:,}")
    return start, stop


def _given_edges(name: str, edges: Any, count: int) -> Edges:
    array = arrays.numpy_of(edges)
    if array.ndim != 1 or len(array) < 2 or array.dtype.kind not in "iu":
        raise _bad_edges(name, edges, count)
    rising: Edges = array.astype(np.int64)
    if rising[0] < 0 or rising[-1] > count or (np.diff(rising) < 1).any():
        raise _bad_edges(name, edges, count)
    return rising


def _bad_shape(shape: object, region: tuple[int, int]) -> errors.OptionError:
    fix = "A cell covers at least one weight: ask for a smaller shape or a larger region."
    return errors.option("shape", shape, f"two integers from 1 to {region[0]} rows and {region[1]} columns", fix)


def _bad_edges(name: str, edges: object, count: int) -> errors.OptionError:
    fix = "Cell c covers edges[c] up to edges[c + 1], so n cells have n + 1 edges."
    return errors.option(name, edges, f"increasing integers from 0 to at most {count}, at least two", fix)

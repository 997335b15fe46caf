"""Maps and statistics of long texts from sampled rows, labelled as sampled: every row costs O(n)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.arrays import numpy_of
from regard.attention import Attention
from regard.attention.pooled import even_edges
from regard.viewer.subject import Subject

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]
    Integers = NDArray[np.int64]

BLOCK = 1 << 21  # weights per block
ROWS = 128  # sampled for statistics
PICTURE_ROWS = 512  # at most, per map


@dataclass(frozen=True)
class Asked:
    """A requested map: a region and its cells."""

    rows: tuple[int, int]
    columns: tuple[int, int]
    shape: tuple[int, int]
    pool: str

    @property
    def row_edges(self) -> Integers:
        """Cell r covers rows [row_edges[r], row_edges[r + 1])."""
        return even_edges(*self.rows, self.shape[0])

    @property
    def column_edges(self) -> Integers:
        """Cell c covers columns [column_edges[c], column_edges[c + 1])."""
        return even_edges(*self.columns, self.shape[1])

    @property
    def weights(self) -> int:
        """Number of weights in the region."""
        return (self.rows[1] - self.rows[0]) * (self.columns[1] - self.columns[0])


@dataclass(frozen=True, eq=False)
class Picture:
    """A map, and what it was sampled from; None if all rows were used."""

    array: Floats
    said: str | None


@dataclass(frozen=True, eq=False)
class Sample:
    """Statistics, and what they were sampled from."""

    arrays: dict[str, Floats]
    said: str | None


def picture(attention: Attention, head: int, asked: Asked, stop: Callable[[], None]) -> Picture:
    """One sampled row per row of cells, pooled exactly along the keys; O(cells · n)."""
    edges = asked.row_edges
    rows = (edges[:-1] + edges[1:] - 1) // 2
    shown = len(rows)
    if shown > PICTURE_ROWS:  # several rows of cells share one
        rows = rows[np.arange(PICTURE_ROWS) * shown // PICTURE_ROWS]
    columns = slice(*asked.columns)
    starts = asked.column_edges[:-1] - asked.columns[0]
    found = []
    for block in _blocks(rows, attention.shape[-1]):
        stop()
        weight = numpy_of(attention[head, block, columns])
        if asked.pool == "max":
            found.append(np.maximum.reduceat(weight, starts, axis=1))
        else:
            found.append(np.add.reduceat(weight, starts, axis=1) / np.diff(asked.column_edges))
    array = np.concatenate(found)
    if shown > PICTURE_ROWS:
        array = array[np.arange(shown) * PICTURE_ROWS // shown]
    return Picture(array, _said(asked.rows[1] - asked.rows[0], len(rows)))


def statistics(subject: Subject, attention: Attention, stop: Callable[[], None]) -> Sample:
    """Means over sampled rows that see a key, (head,)."""
    rows, said = _rows(subject.queries)
    found: dict[str, list[float]] = {name: [] for name in ("entropy", "distance", "sinks", "peak")}
    for head in range(attention.shape[0]):
        of_rows = _of_rows(subject, attention, head, rows, stop)
        seeing = of_rows["peak"] > 0
        for name in found:
            found[name].append(float(of_rows[name][seeing].mean()) if seeing.any() else 0.0)
    return Sample({name: np.array(numbers) for name, numbers in found.items()}, said)


def along(subject: Subject, attention: Attention, heads: Sequence[int], stop: Callable[[], None]) -> Sample:
    """Per token: attention received, extrapolated from the sampled rows; the rest from the nearest sampled row."""
    rows, said = _rows(subject.queries)
    nearest = np.searchsorted((rows[:-1] + rows[1:]) / 2, np.arange(subject.queries))
    found: dict[str, list[Floats]] = {name: [] for name in ("received", "entropy", "distance")}
    for head in heads:
        of_rows = _of_rows(subject, attention, head, rows, stop)
        found["received"].append(of_rows["received"] * (subject.queries / len(rows)))
        found["entropy"].append(of_rows["entropy"][nearest])
        found["distance"].append(of_rows["distance"][nearest])
    return Sample({name: np.stack(numbers) for name, numbers in found.items()}, said)


def blocks_of(subject: Subject) -> tuple[list[Integers], str | None]:
    """The sampled queries, in blocks that bound the memory of their weights."""
    rows, said = _rows(subject.queries)
    return list(_blocks(rows, subject.keys)), said


def _of_rows(
    subject: Subject, attention: Attention, head: int, rows: Integers, stop: Callable[[], None]
) -> dict[str, Floats]:
    keys = np.arange(subject.keys, dtype=np.float32)
    found: dict[str, list[Floats]] = {name: [] for name in ("entropy", "peak", "sinks", "distance")}
    received = np.zeros(subject.keys)
    for block in _blocks(rows, subject.keys):
        stop()
        weight = numpy_of(attention[head, block, :]).astype(np.float32)
        received += weight.sum(axis=0)
        found["peak"].append(weight.max(axis=1))
        found["sinks"].append(weight[:, list(subject.sinks)].sum(axis=1))
        logarithm = np.log(np.maximum(weight, np.float32(1e-38)))
        found["entropy"].append(-np.einsum("rk,rk->r", weight, logarithm))
        if subject.first_query is None:
            found["distance"].append(np.full(len(block), np.nan, np.float32))
        else:
            apart = np.abs(keys - (block[:, None] + subject.first_query)).astype(np.float32)
            found["distance"].append(np.einsum("rk,rk->r", weight, apart))
    return {"received": received, **{name: np.concatenate(parts) for name, parts in found.items()}}


def _rows(count: int) -> tuple[Integers, str | None]:
    """Evenly spaced rows, from the middle of their ranges."""
    sampled = min(ROWS, count)
    edges = even_edges(0, count, sampled)
    return (edges[:-1] + edges[1:] - 1) // 2, _said(count, sampled)


def _said(count: int, sampled: int) -> str | None:
    """How rows were sampled, in words.

    >>> _said(100_000, 512), _said(1_000, 700), _said(500, 500)
    ('every 195th row', '700 of 1,000 rows', None)
    """
    if sampled >= count:
        return None
    step = count // sampled
    if step < 3:
        return f"{sampled:,} of {count:,} rows"
    ending = {1: "st", 2: "nd", 3: "rd"}.get(step % 10, "th") if step % 100 not in (11, 12, 13) else "th"
    return f"every {step:,}{ending} row"


def _blocks(rows: Integers, keys: int) -> list[Integers]:
    step = max(1, BLOCK // keys)
    return [rows[start : start + step] for start in range(0, len(rows), step)]

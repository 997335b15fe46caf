"""Maps and statistics of long texts.

Regions of up to 12,000 × 12,000 weights are pooled on demand and always exact. Larger ones are resampled from
2,048 × 2,048 exact cells, computed by one pass over the head; before that pass, maps come from sampled rows, which are
labelled as sampled. Statistics come from sampled rows.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.arrays import numpy_of
from regard.attention import Attention
from regard.attention.pooled import even_edges
from regard.engines import score_parts
from regard.engines.interface import ROW_STATE, RowState, Scores
from regard.engines.select import engine_for
from regard.reading import Reading
from regard.viewer.frames import Floats, Integers

Stop = Callable[[], None]  # called between steps; raises if the query was cancelled
Found = tuple[Any, dict[str, Any]]  # a map, and its part of the header

LONG = 4096  # tokens: a matrix of more than 4096² weights per head is not computed whole unless asked for
NEAR = 12_000**2  # weights: pooled in an eighth of a second on two cores
QUICK = 1 << 28  # weights for which row states may be computed for a first map
CELLS = 2048  # along each side
BLOCK = 1 << 26  # weights between two checks for cancellation: a few hundredths of a second
LEAST = 48 << 20  # bytes of cells always kept: one head, both pools


def is_long(reading: Reading) -> bool:
    """Whether a matrix is too large to be computed whole unless asked for."""
    return len(reading.queries) * len(reading.tokens) > LONG**2


@dataclass(frozen=True)
class MapRequest:
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
        return (self.rows[1] - self.rows[0]) * (self.columns[1] - self.columns[0])


class Pyramids:
    """The heads of a long text that were shown; keeps the cells of the most recent ones."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._limit = max(LEAST, reading.nbytes // 8)
        self._heads: OrderedDict[tuple[int, int], Head] = OrderedDict()
        self._lock = threading.Lock()
        self._turns = Turns()

    def tile(self, layer: int, head: int, request: MapRequest, exact: bool, stop: Stop) -> Found:
        """A pooled map, exact if asked for or cheap, and how it was computed."""
        of_head = self._head(layer, head)
        if request.weights <= NEAR and (exact or of_head.is_quick(request.rows)):
            with self._turns.first():
                return of_head.pooled(request, stop), {}
        if request.weights > NEAR and (exact or request.pool in of_head.cells):
            of_head.make_cells(request.pool, stop, self._turns)
            self._tidy((layer, head))
            return of_head.from_cells(request)
        with self._turns.first():
            array, note = sampled_map(self._reading.seen[layer].attention, head, request, stop)
        return array, {"exact": note is None, "sampled": note}

    def progress(self, layer: int, head: int, pool: str) -> float:
        """The share of the pass over a head that is done; 0 if it has not begun."""
        with self._lock:
            pyramid = self._heads.get((layer, head))
        return 0.0 if pyramid is None else pyramid.progress.get(pool, 0.0)

    def _head(self, layer: int, head: int) -> Head:
        with self._lock:
            pyramid = self._heads.get((layer, head))
            if pyramid is None:
                pyramid = self._heads[layer, head] = Head(self._reading.seen[layer].attention.select(head=head).scores)
            self._heads.move_to_end((layer, head))
            return pyramid

    def _tidy(self, kept: tuple[int, int]) -> None:
        """Evict the least recently used heads."""
        with self._lock:
            while sum(of_head.bytes for of_head in self._heads.values()) > self._limit and len(self._heads) > 1:
                oldest = next(head_key for head_key in self._heads if head_key != kept)
                del self._heads[oldest]


class Head:
    """One head: the row states computed so far, and its cells once requested."""

    def __init__(self, scores: Scores) -> None:
        self._scores = scores
        self._engine = engine_for(scores.queries)
        self.queries, self.keys = int(scores.queries.shape[2]), int(scores.keys.shape[2])
        self._state = np.zeros((2, self.queries))  # row_max and row_sum
        self._known = np.zeros(self.queries, bool)
        self.cells: dict[str, Floats] = {}  # "mean" holds sums
        self.progress: dict[str, float] = {}  # by pool, 0 to 1, of the pass that makes the cells
        self._making = threading.Lock()
        self.row_edges = even_edges(0, self.queries, min(CELLS, self.queries))
        self.column_edges = even_edges(0, self.keys, min(CELLS, self.keys))

    @property
    def bytes(self) -> int:
        return self._state.nbytes + self._known.nbytes + sum(cells.nbytes for cells in self.cells.values())

    def is_quick(self, rows: tuple[int, int]) -> bool:
        """Whether the row states of these rows are known or quick to compute."""
        missing = int((~self._known[slice(*rows)]).sum())
        return missing * self.keys <= QUICK

    def pooled(self, request: MapRequest, stop: Stop) -> Floats:
        """The exact map of a region, from its weights."""
        for first, last in self._unknown(*request.rows):
            stop()
            self._learn(first, last)
        stop()
        sums = self._sums(request.row_edges, request.column_edges, request.pool)
        return sums if request.pool == "max" else _means(sums, request.row_edges, request.column_edges)

    def make_cells(self, pool: str, stop: Stop, turns: Turns) -> None:
        """One pass over all weights, in blocks of rows; concurrent requests for the same cells wait for it."""
        while not self._making.acquire(timeout=0.05):
            stop()
        try:
            if pool in self.cells:
                return
            cells = np.empty((len(self.row_edges) - 1, len(self.column_edges) - 1), np.float32)
            edges, rows, last = self.row_edges, max(1, BLOCK // self.keys), 0
            while last < len(cells):  # runs of cells that cover about so many rows
                first, last = last, max(last + 1, int(np.searchsorted(edges, edges[last] + rows, "right")) - 1)
                stop()
                turns.wait(stop)
                if not self._known[edges[first] : edges[last]].all():
                    self._learn(int(edges[first]), int(edges[last]))
                cells[first:last] = self._sums(edges[first : last + 1], self.column_edges, pool)
                self.progress[pool] = last / len(cells)
            self.cells = {**self.cells, pool: cells}
        finally:
            self._making.release()

    def from_cells(self, request: MapRequest) -> Found:
        """A map from cells, exact where its edges coincide with theirs; a cell across an edge is split by area."""
        edges = [(self.row_edges, request.row_edges), (self.column_edges, request.column_edges)]
        exact = all(np.isin(map_edges, cell_edges).all() for cell_edges, map_edges in edges)
        cells, pool = self.cells[request.pool], _max_cells if request.pool == "max" else _share_cells
        for cell_edges, map_edges in edges:  # along the first axis, then along the other one
            cells = pool(cells, cell_edges, map_edges).T
        size = [-(-self.queries // (len(self.row_edges) - 1)), -(-self.keys // (len(self.column_edges) - 1))]
        cells = cells if request.pool == "max" else _means(cells, request.row_edges, request.column_edges)
        return cells, {"exact": exact, "cell": size}

    def _learn(self, first: int, last: int) -> None:
        """The state of some rows."""
        scores = score_parts.of_rows(self._scores, slice(first, last))
        row_state = self._engine.forward(scores, None, ROW_STATE)[1]
        for kept, name in zip(self._state, ROW_STATE, strict=True):
            kept[first:last] = numpy_of(row_state[name])[0, 0]
        self._known[first:last] = True

    def _sums(self, row_edges: Integers, column_edges: Integers, pool: str) -> Floats:
        rows = slice(int(row_edges[0]), int(row_edges[-1]))
        scores = score_parts.of_rows(self._scores, rows)
        state = RowState(*(score_parts.like(kept[None, None, rows], scores.queries) for kept in self._state))
        how: Any = "max" if pool == "max" else "sum"
        pooled = self._engine.pooled(scores, state, row_edges - rows.start, column_edges, how)
        cells: Floats = numpy_of(pooled)[0, 0]
        return cells

    def _unknown(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Runs of rows whose state is missing, none of them too long."""
        missing = np.flatnonzero(~self._known[start:stop]) + start
        step = max(1, BLOCK // self.keys)
        for run in np.split(missing, np.flatnonzero(np.diff(missing) > 1) + 1) if len(missing) else []:
            for first in range(int(run[0]), int(run[-1]) + 1, step):
                yield first, min(first + step, int(run[-1]) + 1)


class Turns:
    """Priority for interactive requests: a pass over a whole head waits for them between its blocks."""

    def __init__(self) -> None:
        self._looking: set[object] = set()

    @contextmanager
    def first(self) -> Iterator[None]:
        """Held during an interactive request."""
        request = object()
        self._looking.add(request)
        try:
            yield
        finally:
            self._looking.remove(request)

    def wait(self, stop: Stop) -> None:
        """Until no interactive request is running."""
        while self._looking:
            time.sleep(0.005)
            stop()


def _means(sums: Floats, row_edges: Integers, column_edges: Integers) -> Floats:
    means: Floats = sums / np.diff(row_edges)[:, None] / np.diff(column_edges)
    return means


def _share_cells(cells: Floats, cell_edges: Integers, map_edges: Integers) -> Floats:
    """Sums of cells over ranges with other edges, along the first axis; a cell across an edge counts by its share.

    >>> _share_cells(np.array([[2.0], [4.0], [8.0]]), np.array([0, 2, 4, 6]), np.array([1, 4, 6])).tolist()
    [[5.0], [8.0]]
    """
    first, last = _overlaps(cell_edges, map_edges)
    # A loop over a few hundred ranges takes a third of the time of np.add.reduceat along this axis.
    sums = np.stack([cells[start:stop].sum(axis=0) for start, stop in zip(first, last, strict=True)])
    left = (map_edges[:-1] - cell_edges[first]) / (cell_edges[first + 1] - cell_edges[first])
    right = (cell_edges[last] - map_edges[1:]) / (cell_edges[last] - cell_edges[last - 1])
    if left.any() or right.any():
        sums -= (left[:, None] * cells[first] + right[:, None] * cells[last - 1]).astype(sums.dtype)
    return sums


def _max_cells(cells: Floats, cell_edges: Integers, map_edges: Integers) -> Floats:
    """The largest cell that overlaps each range, along the first axis."""
    return np.stack(
        [cells[start:stop].max(axis=0) for start, stop in zip(*_overlaps(cell_edges, map_edges), strict=True)]
    )


def _overlaps(cell_edges: Integers, map_edges: Integers) -> tuple[Integers, Integers]:
    """The cells that overlap each range, [first, last)."""
    return np.searchsorted(cell_edges, map_edges[:-1], "right") - 1, np.searchsorted(cell_edges, map_edges[1:], "left")


# Sampled rows: every row costs O(n)

SAMPLED_BLOCK = 1 << 21  # weights per block
SAMPLED_ROWS = 128  # of statistics
SAMPLED_MAP_ROWS = 512  # at most, per map


def sampled_map(attention: Attention, head: int, request: MapRequest, stop: Stop) -> tuple[Floats, str | None]:
    """One sampled row per row of cells, pooled exactly along the keys, and how it was sampled; O(cells · n)."""
    edges = request.row_edges
    rows = (edges[:-1] + edges[1:] - 1) // 2
    shown = len(rows)
    if shown > SAMPLED_MAP_ROWS:  # several rows of cells share one
        rows = rows[np.arange(SAMPLED_MAP_ROWS) * shown // SAMPLED_MAP_ROWS]
    columns = slice(*request.columns)
    starts = request.column_edges[:-1] - request.columns[0]
    rows_of_head = []
    for block in _blocks(rows, attention.shape[-1]):
        stop()
        weight = numpy_of(attention[head, block, columns])
        if request.pool == "max":
            rows_of_head.append(np.maximum.reduceat(weight, starts, axis=1))
        else:
            rows_of_head.append(np.add.reduceat(weight, starts, axis=1) / np.diff(request.column_edges))
    array = np.concatenate(rows_of_head)
    if shown > SAMPLED_MAP_ROWS:
        array = array[np.arange(shown) * SAMPLED_MAP_ROWS // shown]
    return array, _describe_sample(request.rows[1] - request.rows[0], len(rows))


def sampled_statistics(reading: Reading, attention: Attention, stop: Stop) -> tuple[dict[str, Floats], str | None]:
    """Means over sampled rows that see a key, (head,); and how the rows were sampled, as of the next two functions."""
    rows, note = _rows(len(reading.queries))
    curves: dict[str, list[float]] = {name: [] for name in ("entropy", "distance", "sinks", "peak")}
    for head in range(attention.shape[0]):
        of_rows = _of_rows(reading, attention, head, rows, stop)
        seeing = of_rows["peak"] > 0
        for name in curves:
            curves[name].append(float(of_rows[name][seeing].mean()) if seeing.any() else 0.0)
    return {name: np.array(numbers) for name, numbers in curves.items()}, note


def sampled_along(
    reading: Reading, attention: Attention, heads: Sequence[int], stop: Stop
) -> tuple[dict[str, Floats], str | None]:
    """Per token: attention received, extrapolated from the sampled rows; the rest from the nearest sampled row."""
    rows, note = _rows(len(reading.queries))
    nearest = np.searchsorted((rows[:-1] + rows[1:]) / 2, np.arange(len(reading.queries)))
    of_heads = [_of_rows(reading, attention, head, rows, stop) for head in heads]
    curves = {name: np.stack([of_rows[name][nearest] for of_rows in of_heads]) for name in ("entropy", "distance")}
    received = np.stack([of_rows["received"] * (len(reading.queries) / len(rows)) for of_rows in of_heads])
    return {"received": received, **curves}, note


def sampled_blocks(reading: Reading) -> tuple[list[Integers], str | None]:
    """The sampled queries, in blocks that bound the memory of their weights."""
    rows, note = _rows(len(reading.queries))
    return _blocks(rows, len(reading.tokens)), note


def _of_rows(reading: Reading, attention: Attention, head: int, rows: Integers, stop: Stop) -> dict[str, Floats]:
    keys = np.arange(len(reading.tokens), dtype=np.float32)
    curves: dict[str, list[Floats]] = {name: [] for name in ("entropy", "peak", "sinks", "distance")}
    received = np.zeros(len(reading.tokens))
    for block in _blocks(rows, len(reading.tokens)):
        stop()
        weight = numpy_of(attention[head, block, :]).astype(np.float32)
        received += weight.sum(axis=0)
        curves["peak"].append(weight.max(axis=1))
        curves["sinks"].append(weight[:, list(reading.sinks)].sum(axis=1))
        logarithm = np.log(np.maximum(weight, np.float32(1e-38)))
        curves["entropy"].append(-np.einsum("rk,rk->r", weight, logarithm))
        if not isinstance(reading.queries, range):
            curves["distance"].append(np.full(len(block), np.nan, np.float32))
        else:
            apart = np.abs(keys - (block[:, None] + reading.queries.start)).astype(np.float32)
            curves["distance"].append(np.einsum("rk,rk->r", weight, apart))
    return {"received": received, **{name: np.concatenate(parts) for name, parts in curves.items()}}


def _rows(count: int) -> tuple[Integers, str | None]:
    """Evenly spaced rows, from the middle of their ranges."""
    sampled = min(SAMPLED_ROWS, count)
    edges = even_edges(0, count, sampled)
    return (edges[:-1] + edges[1:] - 1) // 2, _describe_sample(count, sampled)


def _describe_sample(count: int, sampled: int) -> str | None:
    """How rows were sampled, in words.

    >>> _describe_sample(100_000, 512), _describe_sample(1_000, 700), _describe_sample(500, 500)
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
    step = max(1, SAMPLED_BLOCK // keys)
    return [rows[start : start + step] for start in range(0, len(rows), step)]

"""Row statistics, cached with a hash of every array that decides the scores, and recomputed when one has changed."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from types import ModuleType, NoneType
from typing import Any

import numpy as np

from regard import arrays
from regard.arrays import Array
from regard.engines import score_parts
from regard.engines.interface import ROW_STATE, RowState, Scores
from regard.engines.select import engine_for

KEPT = (*ROW_STATE, "logsumexp")  # cached after a long product
TOGETHER = (*KEPT, "entropy", "peak")  # one pass computes all of them at the cost of the first
CHUNK = 1 << 22  # weights of scattered rows at once, whose masks are arrays
LONG = 2048  # queries and keys: from here on hashing takes less than 1% of a pass, so a product caches its row state

Fingerprints = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cached:
    """Statistics of all rows, and the fingerprints of the arrays they were computed from."""

    fingerprints: Fingerprints
    statistics: dict[str, Array]


class RowStatistics:
    """The cached statistics of one attention; every method gets its present `Scores`."""

    __slots__ = ("_cached",)

    def __init__(self) -> None:
        self._cached: Cached | None = None  # replaced as a whole, never changed: threads may share an attention

    def get(self, scores: Scores, *names: str) -> dict[str, Array]:
        """Statistics of every row, (batch, head, query): from the cache unless an array has changed."""
        fingerprints = _fingerprints(scores)
        if fingerprints is None:
            return _computed(scores, names)
        return self._completed(scores, fingerprints, names)

    def state(self, scores: Scores) -> RowState:
        """The state of all rows."""
        return RowState.of(self.get(scores, *ROW_STATE))

    def state_for(self, scores: Scores, share: float) -> RowState | None:
        """The state of all rows if it is cached, or if at least half of them will be used; None otherwise."""
        if _is_traced(scores) or (share < 0.5 and self._cached is None):
            return None
        fingerprints = _fingerprints(scores)
        if fingerprints is None or (share < 0.5 and not self._known(fingerprints)):
            return None
        return RowState.of(self._completed(scores, fingerprints, ROW_STATE))

    def keep(self, scores: Scores, found: dict[str, Array]) -> None:
        """Cache the row state that a product computed."""
        fingerprints = _fingerprints(scores)
        if fingerprints is not None:
            statistics = {**self._known(fingerprints), **{name: found[name] for name in KEPT}}
            self._cached = Cached(fingerprints, statistics)

    def _completed(self, scores: Scores, fingerprints: Fingerprints, names: Sequence[str]) -> dict[str, Array]:
        """The cached statistics, with these names computed and cached if they are missing."""
        statistics = self._known(fingerprints)
        missing = [name for name in dict.fromkeys((*TOGETHER, *names)) if name not in statistics]
        if any(name in missing for name in names):
            statistics = {**statistics, **_computed(scores, missing)}
            self._cached = Cached(fingerprints, statistics)
        return statistics

    def _known(self, fingerprints: Fingerprints) -> dict[str, Array]:
        """The cached statistics, if they were computed from arrays with these fingerprints."""
        cached = self._cached
        return cached.statistics if cached is not None and cached.fingerprints == fingerprints else {}


def is_long(scores: Scores) -> bool:
    """Whether a product caches its row state: queries of packed sequences or narrow windows see too few keys for it."""
    visible = scores.visible
    if scores.queries.shape[2] < LONG or scores.keys.shape[2] < LONG:
        return False
    if visible is None or visible.first is None or visible.second_first is not None:
        return True
    return float(np.mean(visible.last - visible.first)) >= LONG / 2  # a causal mask hides about half


def state_of_rows(scores: Scores, rows: score_parts.Index) -> RowState:
    """The state of some rows, O(rows · keys)."""
    engine = engine_for(scores.queries)
    if score_parts.is_run(rows):
        return RowState.of(engine.forward(score_parts.of_rows(scores, rows), None, ROW_STATE)[1])
    index = np.arange(scores.queries.shape[2])[rows]
    step = max(1, CHUNK // scores.keys.shape[2])
    statistics = [
        engine.forward(score_parts.lattice(scores, index[some], score_parts.EVERYTHING), None, ROW_STATE)[1]
        for some in arrays.chunks(len(index), step)
    ]
    join = arrays.library(scores.queries).concatenate
    return RowState.of({name: join([piece[name] for piece in statistics], -1) for name in ROW_STATE})


def _computed(scores: Scores, names: Sequence[str]) -> dict[str, Array]:
    return engine_for(scores.queries).forward(scores, None, tuple(names))[1]


def _fingerprints(scores: Scores) -> Fingerprints | None:
    """The fingerprint of each array that decides the scores; None if nothing may be cached.

    That is so while PyTorch traces or records gradients, and where a function or an unknown object decides the scores.
    """
    if _is_traced(scores):
        return None
    inputs = _arrays_of(scores)
    if inputs is None or any(arrays.needs_gradient(array) for array in inputs):
        return None
    fingerprints = [arrays.fingerprint(array) for array in inputs]
    return None if None in fingerprints else tuple(fingerprints)  # type: ignore[arg-type]


def _is_traced(scores: Scores) -> bool:
    return arrays.is_tensor(scores.queries) and arrays.tracing()


def _arrays_of(scores: Scores) -> list[Array] | None:
    """All arrays that decide the scores, including those of the evaluated mask; None if a function decides as well."""
    pieces: list[Array] = []
    waiting: list[Any] = [scores]
    while waiting:
        thing = waiting.pop()
        if isinstance(thing, np.ndarray) or arrays.is_tensor(thing):
            pieces.append(thing)
        elif is_dataclass(thing):
            waiting += [getattr(thing, field.name) for field in fields(thing)]
        elif isinstance(thing, tuple):
            waiting += thing
        elif (
            thing in (operator.and_, operator.or_, operator.invert) or type(thing).__module__ == "torch"
        ):  # or a device
            continue
        elif not isinstance(thing, (NoneType, int, float, str, slice, ModuleType)):
            return None
    return pieces

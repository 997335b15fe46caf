"""Row statistics, cached with a hash of every array that decides the scores, and recomputed when one has changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from regard import arrays
from regard.arrays import Array
from regard.attention.scores import offset_known, scores_of
from regard.engines import slicing
from regard.engines.interface import ROW_STATE, RowState, Scores
from regard.engines.select import engine_for

if TYPE_CHECKING:
    from regard.attention.attention import Attention

KEPT = (*ROW_STATE, "logsumexp")  # cached after a long product
TOGETHER = (*KEPT, "entropy", "peak")  # one pass computes all of them at the cost of the first
CHUNK = 1 << 22  # weights of scattered rows at once, whose masks are arrays
LONG = 2048  # from this length on, hashing takes less than 1% of a pass: a product caches its row state

Fingerprints = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cached:
    """Statistics of all rows, and the fingerprints of the arrays they were computed from."""

    fingerprints: Fingerprints
    statistics: dict[str, Array]


def row_statistics(attention: Attention, *names: str) -> dict[str, Array]:
    """Statistics of every row, (batch, head, query): from the cache unless an array has changed."""
    if "distance" in names:
        offset_known(attention)
    fingerprints = _fingerprints(attention)
    if fingerprints is None:
        return _computed(attention, names)
    return _completed(attention, Cached(fingerprints, _cached(attention, fingerprints)), names)


def row_state(attention: Attention) -> RowState:
    """The state of all rows."""
    return RowState.of(row_statistics(attention, *ROW_STATE))


def state_for(attention: Attention, share: float) -> RowState | None:
    """The state of all rows if it is cached, or if at least half of them will be used; None otherwise."""
    if _is_traced(attention) or (share < 0.5 and "_cached" not in attention.__dict__):
        return None
    fingerprints = _fingerprints(attention)
    if fingerprints is None:
        return None
    known = _cached(attention, fingerprints)
    if share < 0.5 and not known:
        return None
    return RowState.of(_completed(attention, Cached(fingerprints, known), ROW_STATE))


def state_of_rows(scores: Scores, rows: slicing.Index) -> RowState:
    """The state of some rows, O(rows · keys)."""
    engine = engine_for(scores.queries)
    if isinstance(rows, slice) and rows.step in (None, 1):
        return RowState.of(engine.forward(slicing.of_rows(scores, rows), None, ROW_STATE)[1])
    index = np.arange(scores.queries.shape[2])[rows]
    step = max(1, CHUNK // scores.keys.shape[2])
    found = [
        engine.forward(slicing.lattice(scores, index[start : start + step], slicing.EVERYTHING), None, ROW_STATE)[1]
        for start in range(0, len(index), step)
    ]
    join = arrays.library(scores.queries).concatenate
    return RowState.of({name: join([piece[name] for piece in found], -1) for name in ROW_STATE})


def is_long(attention: Attention) -> bool:
    """Whether a product caches its row state: a later `received()` or `pooled()` then takes one pass less."""
    queries = attention.queries
    return type(queries) is np.ndarray and queries.shape[-2] >= LONG and attention.keys.shape[-2] >= LONG


def keep_state(attention: Attention, found: dict[str, Array]) -> None:
    """Cache the row state that a product computed."""
    fingerprints = _fingerprints(attention)
    if fingerprints is not None:
        known = {**_cached(attention, fingerprints), **{name: found[name] for name in KEPT}}
        attention.__dict__["_cached"] = Cached(fingerprints, known)


def _completed(attention: Attention, known: Cached, names: Sequence[str]) -> dict[str, Array]:
    """The cached statistics, with these names computed and cached if they are missing."""
    missing = [name for name in dict.fromkeys((*TOGETHER, *names)) if name not in known.statistics]
    if any(name in missing for name in names):
        known = Cached(known.fingerprints, {**known.statistics, **_computed(attention, missing)})
        attention.__dict__["_cached"] = known
    return known.statistics


def _computed(attention: Attention, names: Sequence[str]) -> dict[str, Array]:
    scores = scores_of(attention)
    return engine_for(scores.queries).forward(scores, None, tuple(names))[1]


def _cached(attention: Attention, fingerprints: Fingerprints) -> dict[str, Array]:
    """The cached statistics, if they were computed from arrays with these fingerprints."""
    cached: Cached | None = attention.__dict__.get("_cached")
    return cached.statistics if cached is not None and cached.fingerprints == fingerprints else {}


def _fingerprints(attention: Attention) -> Fingerprints | None:
    """The fingerprint of each array that decides the scores; None if nothing may be cached.

    That is so while PyTorch traces or records gradients, and where a function or an unknown object decides the scores.
    """
    if _is_traced(attention):
        return None
    given = _arrays_of(attention)
    if given is None or any(arrays.needs_gradient(array) for array in given):
        return None
    found = [arrays.fingerprint(array) for array in given]
    return None if None in found else tuple(found)  # type: ignore[arg-type]


def _is_traced(attention: Attention) -> bool:
    return arrays.is_tensor(attention.queries) and arrays.tracing()


def _arrays_of(attention: Attention) -> list[Array] | None:
    """All arrays that decide the scores, including those of masks and lazy biases; None if there may be others."""
    found: list[Array] = []
    waiting: list[Any] = [attention]
    while waiting:
        thing = waiting.pop()
        if isinstance(thing, np.ndarray) or arrays.is_tensor(thing):
            found.append(thing)
        elif is_dataclass(thing):
            waiting += [getattr(thing, field.name) for field in fields(thing)]
        elif isinstance(thing, tuple):
            waiting += thing
        elif not isinstance(thing, (NoneType, int, float, str, slice)):  # a function, or a class of the caller
            return None
    return found

"""Row statistics, remembered together with what they were computed from, so that a change in place is noticed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from regard import arrays
from regard.arrays import Array
from regard.attention.scores import offset_known, scores_of
from regard.kernels import parts
from regard.kernels.choosing import engine_for
from regard.kernels.interface import ROW_STATE, RowState, Scores

if TYPE_CHECKING:
    from regard.attention.attention import Attention

KEPT = (*ROW_STATE, "logsumexp")  # what a long product leaves behind
TOGETHER = (*KEPT, "entropy", "peak")  # one pass gives all of them at the cost of the first
CHUNK = 1 << 22  # weights of scattered rows at once, whose masks are arrays
LONG = 2048  # from here on a fingerprint costs less than a hundredth of a pass: what a product learned is kept


Fingerprints = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Memory:
    """Statistics of all rows, and the fingerprints of the arrays they came from."""

    fingerprints: Fingerprints
    statistics: dict[str, Array]


def row_statistics(attention: Attention, *names: str) -> dict[str, Array]:
    """Statistics of every row, (batch, head, query): remembered ones where nothing has changed since."""
    if "distance" in names:
        offset_known(attention)
    fingerprints = None if _passes_through(attention) else _fingerprints(attention)
    if fingerprints is None:
        return _computed(attention, names)
    memory = _recalled(attention, fingerprints) or Memory(fingerprints, {})
    missing = [name for name in dict.fromkeys((*TOGETHER, *names)) if name not in memory.statistics]
    if any(name in missing for name in names):
        found = {**memory.statistics, **_computed(attention, missing)}
        memory = Memory(memory.fingerprints, found)
        remember(attention, memory)
    return memory.statistics


def is_long(attention: Attention) -> bool:
    """Whether a product should keep its row state: what is asked for later then needs one pass less."""
    queries = attention.queries
    return type(queries) is np.ndarray and queries.shape[-2] >= LONG and attention.keys.shape[-2] >= LONG


def keep_state(attention: Attention, found: dict[str, Array]) -> None:
    """Remember the row state that a product found on its way."""
    fingerprints = _fingerprints(attention)
    if fingerprints is None:
        return
    known = _recalled(attention, fingerprints)
    before = {} if known is None else known.statistics
    remember(attention, Memory(fingerprints, {**before, **{name: found[name] for name in KEPT}}))


def recall(attention: Attention) -> Memory | None:
    """What is remembered of the arrays as they are now."""
    fingerprints = _fingerprints(attention) if "_memory" in attention.__dict__ else None
    return None if fingerprints is None else _recalled(attention, fingerprints)


def _recalled(attention: Attention, fingerprints: Fingerprints) -> Memory | None:
    memory: Memory | None = attention.__dict__.get("_memory")
    return memory if memory is not None and memory.fingerprints == fingerprints else None


def remember(attention: Attention, memory: Memory) -> None:
    """Keep statistics with the attention, which is frozen for everybody else."""
    attention.__dict__["_memory"] = memory


def row_state(attention: Attention) -> RowState:
    """The state of all rows."""
    return RowState.of(row_statistics(attention, *ROW_STATE))


def state_for(attention: Attention, share: float) -> RowState | None:
    """The state of all rows if it is remembered, or if `share` of them, a half or more, will be looked at."""
    if _passes_through(attention):
        return None
    memory = recall(attention)
    if memory is None and share < 0.5:
        return None
    return row_state(attention)


def state_of_rows(scores: Scores, rows: parts.Index) -> RowState:
    """The state of some rows alone, O(rows · keys)."""
    engine = engine_for(scores.queries)
    if isinstance(rows, slice) and rows.step in (None, 1):
        return RowState.of(engine.forward(parts.of_rows(scores, rows), None, ROW_STATE)[1])
    index = np.arange(scores.queries.shape[2])[rows]
    step = max(1, CHUNK // scores.keys.shape[2])
    found = [
        engine.forward(parts.lattice(scores, index[start : start + step], parts.EVERYTHING), None, ROW_STATE)[1]
        for start in range(0, len(index), step)
    ]
    join = arrays.library(scores.queries).concatenate
    return RowState.of({name: join([piece[name] for piece in found], -1) for name in ROW_STATE})


def _passes_through(attention: Attention) -> bool:
    """Whether nothing may be remembered: PyTorch traces this, or gradients are to flow through it, each time anew."""
    if not arrays.is_tensor(attention.queries):
        return False
    return arrays.tracing() or any(arrays.needs_gradient(array) for array in _arrays_of(attention) or ())


def _computed(attention: Attention, names: Sequence[str]) -> dict[str, Array]:
    scores = scores_of(attention)
    return engine_for(scores.queries).forward(scores, None, tuple(names))[1]


def _fingerprints(attention: Attention) -> Fingerprints | None:
    """One of each array that decides the scores; None where a function or an unknown object has a say too."""
    given = _arrays_of(attention)
    found = [] if given is None else [arrays.fingerprint(array) for array in given]
    return None if given is None or None in found else tuple(found)  # type: ignore[arg-type]


def _arrays_of(attention: Attention) -> list[Array] | None:
    """All arrays that decide the scores, those of masks and lazy biases too; None where there may be more."""
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
        elif not isinstance(thing, (NoneType, int, float, str, slice)):  # a function, or a class from elsewhere
            return None
    return found

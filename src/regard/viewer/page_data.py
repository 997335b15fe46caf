"""What a page carries of each layer: queries, keys and values in 16 bits, or the strongest keys alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.arrays import Array, numpy_of
from regard.attention import Attention
from regard.attention.scoring import scores_of
from regard.kernels.interface import Scores
from regard.viewer import frames, vectors
from regard.viewer.queries import Answers
from regard.viewer.subject import Subject
from regard.viewer.weights import along

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]

ACCURATE = 1.5e-3  # how far a weight from rounded vectors may be off; a page promises 2e-3
TRIED = 512  # rows that are computed both ways; all of them where there are no more
TRIED_WEIGHTS = 1 << 21  # at once
LARGEST_HALF = 60_000.0  # in 16 bits, numbers end at 65,504
MOST_STEPS = 2 << 20  # bytes of steps after attention, of all queries and layers
MOST_TOP = 32
NOTHING = {"u2": 65535, "i4": -1}  # in place of a key that is not there


def size_of(subject: Subject) -> int:
    """Bytes of queries, keys and values in 16 bits."""
    arrays = [array for A in subject.attentions for array in (A.queries, A.keys)]
    arrays += [values for values in subject.values if values is not None]
    return sum(2 * int(np.prod(array.shape)) for array in arrays)


def statistics(subject: Subject) -> bytes:
    """The answer to `statistics`."""
    return Answers(subject).answer("statistics")


def thumbnails(subject: Subject, layer: int, cells: int) -> bytes:
    """Small maps of all heads, in 16 bits."""
    attention = subject.attentions[layer]
    shape = (min(cells, attention.shape[1]), min(cells, attention.shape[2]))
    return frames.pack({"sampled": None}, {"weight": numpy_of(attention.pooled(shape).array).astype(np.float16)})


# Everything


def layer(subject: Subject, place: int, values: bool) -> bytes:
    """Queries and keys, values where they are wanted, the normaliser of each row, and what changes the scores."""
    attention = subject.attentions[place]
    scores = scores_of(attention)
    queries, keys = (numpy_of(array[0]) for array in (scores.queries, scores.keys))
    times: dict[str, float] = {}
    arrays: dict[str, Any] = {}
    narrow = _rounded(attention, queries, keys)
    if _is_accurate(attention, narrow):
        arrays["q"], times["q_times"] = _half(queries)
        arrays["k"], times["k_times"] = _half(keys)
    else:
        narrow = attention
        arrays["q"], arrays["k"] = queries.astype(np.float32), keys.astype(np.float32)
    of_layer = subject.values[place]
    if values and of_layer is not None:
        arrays["v"], times["v_times"] = _half(numpy_of(of_layer))
    arrays["normaliser"] = numpy_of(narrow.logsumexp()).astype(np.float32)
    offset = scores.offset if isinstance(scores.offset, int) else int(numpy_of(scores.offset)[0])
    header: dict[str, Any] = {"scale": float(scores.scale), "softcap": attention.softcap, "offset": offset, **times}
    visible, how = _visible(scores)
    header |= {"mask": how, "relative_zero": scores.relative_zero}
    arrays |= visible
    if scores.bias is not None:
        arrays["bias"] = numpy_of(scores.bias[0]).astype(np.float32)
    if scores.relative is not None:
        arrays["relative"] = numpy_of(scores.relative).astype(np.float32)
    return frames.pack(header, arrays)


def _half(array: Floats) -> tuple[Floats, float]:
    """In 16 bits, and what to multiply it by: more than 1 where its numbers are too large for them."""
    largest = float(np.abs(array[np.isfinite(array)]).max(initial=0.0))
    times = max(1.0, largest / LARGEST_HALF)
    return (array / times).astype(np.float16), times


def _rounded(attention: Attention, queries: Floats, keys: Floats) -> Attention:
    """The attention of the vectors as a page gets them."""
    back = []
    for array in (queries, keys):
        half, times = _half(array)
        back.append(half.astype(np.float32) * np.float32(times))
    bias: Any = attention.bias
    if bias is not None and hasattr(bias, "shape"):
        bias = numpy_of(bias).astype(np.float32)
    sinks = None if attention.sinks is None else numpy_of(attention.sinks)
    return replace(attention, queries=back[0], keys=back[1], bias=bias, sinks=sinks, similarity="dot")


def _is_accurate(attention: Attention, narrow: Attention) -> bool:
    heads, count, keys = attention.shape
    step = max(1, TRIED_WEIGHTS // max(1, heads * keys))
    apart = max(1, -(-count // TRIED))
    for start in range(0, count, step * apart):
        rows = slice(start, start + step * apart, apart)
        fault = np.abs(numpy_of(attention[:, rows, :]) - numpy_of(narrow[:, rows, :]))
        if not np.nanmax(fault, initial=0.0) < ACCURATE:
            return False
    return True


def _visible(scores: Scores) -> tuple[dict[str, Any], str]:
    """Which keys each query may see: all, one or two intervals, or an array."""
    visible = scores.visible
    if visible is None:
        return {}, "none"
    if visible.rest is not None:
        return {"visible": numpy_of(visible.tile(slice(None), slice(None)))[0]}, "dense"
    names = ("first", "last", "second_first", "second_last")
    ends = {name: getattr(visible, name) for name in names}
    return {name: numpy_of(end)[0].astype(np.int32) for name, end in ends.items() if end is not None}, "intervals"


def steps(subject: Subject) -> list[bytes]:
    """What becomes of the outputs, of all queries, one frame a layer; nothing where that is too much or not known."""
    if subject.trace is None and (not subject.blocks or not subject.states):
        return []
    found: list[bytes] = []
    left = MOST_STEPS
    for place in range(subject.layers):
        rows = []
        for query in range(subject.queries):
            header, arrays = vectors.steps(subject, place, query)
            rows.append(arrays)
            left -= 2 * sum(array.size for array in arrays.values())
            if left < 0:
                return []
        stacked = {name: np.stack([row[name] for row in rows]) for name in header["names"]}
        found.append(frames.pack(header, {name: _short(array) for name, array in stacked.items()}))
    return found


def _short(array: Array) -> Floats:
    """In 16 bits, unless numbers get lost."""
    kind = np.float32 if np.abs(array).max(initial=0) > LARGEST_HALF else np.float16
    found: Floats = array.astype(kind)
    return found


# The strongest keys


def top_that_fits(subject: Subject, room: int) -> int:
    """How many of the strongest keys of each query there is room for, at least one."""
    rows = sum(A.shape[0] * A.shape[1] for A in subject.attentions)
    columns = sum(A.shape[0] * A.shape[2] for A in subject.attentions)
    each = (2 if subject.keys < NOTHING["u2"] else 4) + 2
    room -= 4 * rows + 2 * columns + 1024 * subject.layers  # what tokens receive, how widely and how far they look
    return max(1, min(MOST_TOP, subject.keys, room // max(1, rows * each)))


def light(subject: Subject, place: int, top: int) -> bytes:
    """The strongest keys of each query, and statistics of each token."""
    attention = subject.attentions[place]
    strongest = attention.top(top)
    index = numpy_of(strongest.index)
    kind = "u2" if subject.keys < NOTHING["u2"] else "i4"
    index = np.where(index < 0, NOTHING[kind], index).astype(frames.DTYPES[kind])
    arrays = {"index": index, "weight": numpy_of(strongest.weight).astype(np.float16)}
    arrays |= {name: array.astype(np.float16) for name, array in along(subject, attention).items()}
    return frames.pack({"top": top}, arrays)

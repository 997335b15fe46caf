"""What a one-file page stores of each layer: queries, keys and values, in 16 bits where that is accurate enough."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from regard import errors, validate
from regard.arrays import Array, numpy_of
from regard.attention import Attention
from regard.attention.scores import scores_of
from regard.engines.interface import Scores
from regard.viewer import frames, vectors
from regard.viewer.queries import Answers
from regard.viewer.subject import Subject

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]

ACCURATE = 1.5e-3  # largest error of a weight from rounded vectors; a page promises 2e-3
TRIED = 512  # rows compared; all of them in shorter texts
TRIED_WEIGHTS = 1 << 21  # at once
LARGEST_HALF = 60_000.0  # the largest float16 is 65,504
MOST_STEPS = 2 << 20  # bytes of the steps after attention, for all queries and layers


@dataclass(frozen=True)
class Kept:
    """The layers and heads that a page holds; None is all of them."""

    layers: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None

    def layers_of(self, subject: Subject) -> tuple[int, ...]:
        """Positions of the kept layers."""
        return tuple(range(subject.layers)) if self.layers is None else self.layers

    def heads_of(self, subject: Subject, place: int) -> tuple[int, ...]:
        """Positions of the kept heads of one layer."""
        count = subject.attentions[place].shape[0]
        return tuple(range(count)) if self.heads is None else tuple(head for head in self.heads if head < count)


def kept_of(subject: Subject, layers: Any, heads: Any) -> Kept:
    """The `layers` and `heads` of a page, checked: each a number or several, counted from 0; None keeps all."""
    most = min((A.shape[0] for A in subject.attentions), default=0)
    return Kept(_positions("layers", layers, subject.layers), _positions("heads", heads, most))


def _positions(name: str, given: Any, count: int) -> tuple[int, ...] | None:
    if given is None:
        return None
    if not count:
        raise errors.option(name, given, "None: there are none to choose from")
    several = given if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    found = {validate.integer(name, one, 0, count - 1) for one in several}
    if not found:
        raise errors.option(name, [], f"at least one integer from 0 to {count - 1}")
    return tuple(sorted(found))


def size_of(subject: Subject, kept: Kept) -> int:
    """Bytes of the kept queries, keys and values in 16 bits."""
    size = 0
    for place in kept.layers_of(subject):
        attention, values = subject.attentions[place], subject.values[place]
        share = len(kept.heads_of(subject, place)) / attention.shape[0]
        arrays = [attention.queries, attention.keys] + ([] if values is None else [values])
        size += sum(int(2 * share * np.prod(array.shape)) for array in arrays)
    return size


def statistics(subject: Subject) -> bytes:
    """The answer to `statistics`, of all layers and heads."""
    return Answers(subject).answer("statistics")


def thumbnails(subject: Subject, layer: int, cells: int, heads: Sequence[int]) -> bytes:
    """Small maps of some heads, in 16 bits."""
    attention = subject.attentions[layer].select(head=list(heads))
    shape = (min(cells, attention.shape[1]), min(cells, attention.shape[2]))
    maps = numpy_of(attention.pooled(shape).array).astype(np.float16)
    return frames.pack({"sampled": None, "heads": heads}, {"weight": maps})


def layer(subject: Subject, place: int, values: bool, heads: Sequence[int]) -> bytes:
    """Queries, keys and what else decides the scores of some heads; values where they are wanted."""
    whole = subject.attentions[place]
    attention = whole if len(heads) == whole.shape[0] else whole.select(head=list(heads))
    scores = scores_of(attention)
    queries, keys = (numpy_of(array[0]) for array in (scores.queries, scores.keys))
    times: dict[str, float] = {}
    arrays: dict[str, Any] = {}
    if _is_accurate(attention, _rounded(attention, queries, keys)):
        arrays["q"], times["q_times"] = _half(queries)
        arrays["k"], times["k_times"] = _half(keys)
    else:
        arrays["q"], arrays["k"] = queries.astype(np.float32), keys.astype(np.float32)
    group = len(queries) // len(keys)
    header: dict[str, Any] = {"heads": heads, "key_heads": [slot // group for slot in range(len(heads))]}
    of_layer = subject.values[place]
    if values and of_layer is not None:
        used = [head * len(of_layer) // whole.shape[0] for head in heads]
        stored = sorted(set(used))
        arrays["v"], times["v_times"] = _half(numpy_of(of_layer)[stored])
        header["value_heads"] = [stored.index(one) for one in used]
    offset = scores.offset if isinstance(scores.offset, int) else int(numpy_of(scores.offset)[0])
    header |= {"scale": float(scores.scale), "softcap": attention.softcap, "offset": offset, **times}
    visible, how = _visible(scores)
    header |= {"mask": how, "relative_zero": scores.relative_zero}
    arrays |= visible
    if scores.bias is not None:
        arrays["bias"] = numpy_of(scores.bias[0]).astype(np.float32)
    if scores.relative is not None:
        arrays["relative"] = numpy_of(scores.relative).astype(np.float32)
    if scores.sinks is not None:
        arrays["sinks"] = numpy_of(scores.sinks).astype(np.float32)
    return frames.pack(header, arrays)


def _half(array: Floats) -> tuple[Floats, float]:
    """As float16, and the factor to multiply by: above 1 if the numbers exceed the range of float16."""
    largest = float(np.abs(array[np.isfinite(array)]).max(initial=0.0))
    times = max(1.0, largest / LARGEST_HALF)
    return (array / times).astype(np.float16), times


def _rounded(attention: Attention, queries: Floats, keys: Floats) -> Attention:
    """The attention of the vectors as rounded for a page."""
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
    """Visible keys of each query: all, one or two intervals, or a dense array."""
    visible = scores.visible
    if visible is None:
        return {}, "none"
    if visible.rest is not None:
        return {"visible": numpy_of(visible.tile(slice(None), slice(None)))[0]}, "dense"
    names = ("first", "last", "second_first", "second_last")
    ends = {name: getattr(visible, name) for name in names}
    return {name: numpy_of(end)[0].astype(np.int32) for name, end in ends.items() if end is not None}, "intervals"


def steps(subject: Subject, kept: Kept) -> dict[int, bytes]:
    """The steps after attention of all queries, one frame per kept layer; empty where too large or not known."""
    if subject.trace is None and (not subject.blocks or not subject.states):
        return {}
    found: dict[int, bytes] = {}
    left = MOST_STEPS
    for place in kept.layers_of(subject):
        rows = []
        for query in range(subject.queries):
            header, arrays = vectors.steps(subject, place, query)
            rows.append(arrays)
            left -= 2 * sum(array.size for array in arrays.values())
            if left < 0:
                return {}
        stacked = {name: np.stack([row[name] for row in rows]) for name in header["names"]}
        found[place] = frames.pack(header, {name: _short(array) for name, array in stacked.items()})
    return found


def _short(array: Array) -> Floats:
    """As float16, or float32 if the numbers exceed its range."""
    kind = np.float32 if np.abs(array).max(initial=0) > LARGEST_HALF else np.float16
    found: Floats = array.astype(kind)
    return found

"""Random attentions: shapes, types, layouts in memory, magnitudes and options, and all of it spelled out."""

from __future__ import annotations

from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import Any, Literal

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

import regard

from ..engine_names import BFLOAT16, for_engine
from .random_masks import Setting, masks

Array = NDArray[Any]

KINDS = {name: np.dtype(name) for name in ("float16", "float32", "float64")} | {"bfloat16": BFLOAT16}
LAYOUTS = (
    "plain",
    "transposed",
    "fortran",
    "backwards",
    "every other",
    "broadcast",
    "read-only",
    "misaligned",
    "memory-mapped",
)
MAGNITUDES = ("small", "usual", "to 1e4", "equal", "one key wins")
BIASES = ("none", "dense", "dense with -inf", "alibi", "relative")


@dataclass(frozen=True)
class Case:
    """One attention: what is handed to `regard.Attention`, and the same written out in full."""

    queries: Array  # (batch, head, query, size)
    keys: Array
    values: Array
    scale: float
    seen: Array  # booleans (batch, head, query, key)
    distances: Array  # |i − j|, (batch, 1, query, key)
    mask: Any = None
    bias: Any = None  # as it is handed over: an array or a lazy one
    dense_bias: Array = field(default_factory=lambda: np.zeros((1, 1, 1, 1)))
    softcap: float | None = None
    sinks: Array | None = None
    offset: Any = 0
    similarity: Literal["dot", "cosine"] = "dot"

    @property
    def group(self) -> int:
        """Query heads to a key head."""
        group: int = self.queries.shape[1] // self.keys.shape[1]
        return group

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.queries.shape[:3], self.keys.shape[2])

    def attention(self, engine: str = "native") -> regard.Attention:
        """The lazy matrix, of arrays that this engine takes."""
        bias, offset = (
            for_engine(engine, option) if isinstance(option, np.ndarray) else option
            for option in (self.bias, self.offset)
        )
        return regard.Attention(
            for_engine(engine, self.queries),
            for_engine(engine, self.keys),
            scale=self.scale,
            mask=self.mask,
            bias=bias,
            softcap=self.softcap,
            sinks=for_engine(engine, self.sinks),
            offset=offset,
            similarity=self.similarity,
        )

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))  # or hypothesis prints every number of a failing example

    def __repr__(self) -> str:
        strides = {name: getattr(self, name).strides for name in ("queries", "keys", "values")}
        mask = None if self.mask is None else self.mask.expression
        return (
            f"Case({self.queries.dtype}, queries {self.queries.shape}, keys {self.keys.shape}, values "
            f"{self.values.shape}, strides {strides}, scale {self.scale:.4g}, mask {mask}, bias "
            f"{getattr(self.bias, 'shape', self.bias)}, softcap {self.softcap}, sinks {self.sinks}, "
            f"offset {self.offset}, {self.similarity})"
        )


def laid_out(array: Array, layout: str) -> Array:
    """The same numbers, or numbers of the same shape where they repeat, laid out in memory in some way."""
    match layout:
        case "transposed":  # as heads that were split out of one projection
            return np.ascontiguousarray(array.swapaxes(1, 2)).swapaxes(1, 2)
        case "fortran":
            return np.asfortranarray(array)
        case "backwards":
            return np.ascontiguousarray(array[..., ::-1, ::-1])[..., ::-1, ::-1]
        case "every other":
            room = np.full((*array.shape[:2], 2 * array.shape[2], 3 * array.shape[3]), np.nan, array.dtype)
            room[..., ::2, 1::3] = array
            return room[..., ::2, 1::3]
        case "broadcast":
            return np.broadcast_to(array[:1, :, :1], array.shape) if array.size else array
        case "read-only":
            array = array.copy()
            array.flags.writeable = False
        case "misaligned":  # as a field of packed records
            room = np.zeros(array.shape, np.dtype([("before", "u1"), ("here", array.dtype)]))["here"]
            room[...] = array
            return room
        case "memory-mapped" if array.size:  # from a place in the file that no float is aligned to
            with TemporaryFile() as file:
                file.write(b"xyz" + np.ascontiguousarray(array).tobytes())
                file.flush()
                return np.memmap(file, array.dtype, "r", offset=3, shape=array.shape)
    return array


@st.composite
def cases(
    draw: st.DrawFn,
    kinds: tuple[str, ...] = tuple(KINDS),
    most: int = 40,
    plain: bool = False,
    magnitudes: tuple[str, ...] = MAGNITUDES,
    corners: bool = False,
) -> Case:
    """An attention; with `plain`, without options that change scores; with `corners`, also by cosine, with vectors of
    zeros, and with values of no numbers.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = KINDS[draw(st.sampled_from(kinds))]
    batch, key_heads, group = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    queries, keys = draw(_counts(0, most)), draw(_counts(1, most))
    if max(queries, keys) > most:
        batch, key_heads, group = 1, 1, draw(st.integers(1, 2))
    size, value_size = draw(st.integers(1, 20) | st.just(64)), draw(st.integers(1 - corners, 20) | st.just(64))
    similarity = draw(st.sampled_from(("dot", "dot", "cosine"))) if corners else "dot"
    heads = key_heads * group
    setting = Setting(batch, heads, queries, keys, draw(_offsets(batch)))
    shapes = (batch, heads, queries, size), (batch, key_heads, keys, size), (batch, key_heads, keys, value_size)
    numbers = [rng.normal(size=shape).astype(kind) for shape in shapes]
    if similarity == "cosine":
        for vectors in numbers[:2]:
            vectors[rng.random(vectors.shape[:3]) < 0.1] = 0
    q, k, v = (laid_out(array, draw(st.sampled_from(LAYOUTS))) for array in numbers)
    magnitude = draw(st.sampled_from(magnitudes))
    if magnitude == "equal":
        k = laid_out(k, "broadcast")
    mask, seen = draw(masks(setting)) if draw(st.booleans()) else (None, np.ones(setting.shape, bool))
    options = {} if plain else _options(draw, rng, setting, kind)
    scale = _scale(magnitude, *((np.ones(1),) * 2 if similarity == "cosine" else (q, k)))
    options |= {"mask": mask, "offset": setting.offset, "similarity": similarity}
    return Case(q, k, v, scale, seen, setting.distances, **options)


def _counts(least: int, most: int) -> st.SearchStrategy[int]:
    """Mostly few; now and then more than a tile of keys or a block of queries holds."""
    return st.one_of(st.integers(least, most), st.integers(least, 3), st.sampled_from((most, 129, 200, 401)))


def _offsets(batch: int) -> st.SearchStrategy[Any]:
    each = st.lists(st.integers(0, 30), min_size=batch, max_size=batch).map(np.array)
    return st.one_of(st.integers(0, 30), each)


def _scale(magnitude: str, queries: Array, keys: Array) -> float:
    """Such that the largest score is about what the magnitude says."""
    q, k = (
        np.abs(array.astype(np.float64)).reshape(-1, array.shape[-1]).max(axis=0, initial=1e-3)
        for array in (queries, keys)
    )
    largest = {"small": 0.01, "to 1e4": 1e4, "one key wins": 300.0}.get(magnitude, 8.0)
    return float(largest / (q @ k))


def _options(draw: st.DrawFn, rng: Any, setting: Setting, kind: np.dtype[Any]) -> dict[str, Any]:
    softcap = draw(st.sampled_from((None, None, 0.5, 20.0)))
    sinks = rng.normal(scale=3, size=setting.heads).astype(kind) if draw(st.booleans()) else None
    bias, dense = _bias(draw(st.sampled_from(BIASES)), draw, rng, setting, kind)
    return {"softcap": softcap, "sinks": sinks, "bias": bias, "dense_bias": dense}


def _bias(which: str, draw: st.DrawFn, rng: Any, setting: Setting, kind: np.dtype[Any]) -> tuple[Any, Array]:
    """The bias as it is handed over, and written out, broadcastable to the scores."""
    heads = setting.heads
    if which == "alibi":
        slopes = rng.uniform(0, 1, heads)
        return regard.biases.alibi(slopes), -slopes[:, None, None] * setting.distances
    if which == "relative":
        table = rng.normal(size=(16, heads))
        lazy = regard.biases.relative_positions(table, buckets=16, max_distance=40)
        apart = setting.apart
        by_distance = lazy.table(heads, -500, 500)  # the buckets have tests of their own
        return lazy, by_distance[:, apart[:, 0] + 500].swapaxes(0, 1)
    if which.startswith("dense"):
        shape = tuple(full if draw(st.booleans()) else 1 for full in setting.shape)
        bias = rng.normal(size=shape).astype(kind)
        if which == "dense with -inf":
            bias[rng.random(shape) < 0.2] = -np.inf
        return bias, bias.astype(np.float64)
    return None, np.zeros((1, 1, 1, 1))

"""The steps of one attention, in order: each an array with its axes, its formula and what it was computed from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from regard import arrays
from regard.arrays import Array, numpy_of
from regard.errors import OptionError, OutOfRange, did_you_mean
from regard.provenance import Source
from regard.trace.labels import listed, numbered, place_of

if TYPE_CHECKING:
    from regard.layers import FeedForward, LayerNorm, Linear, RMSNorm

STAGES = ("score", "scaled", "capped", "biased", "masked", "weight")
BEFORE, AFTER = ("embedding", "positioned", "query", "key", "value"), ("weighted_value", "output", "concatenated")
NAMES = (*BEFORE, *STAGES, *AFTER, "projected", "attended", "fed_forward", "result")


@dataclass(frozen=True, eq=False, repr=False)
class Step:
    """One step: its array, the names of its axes, and its formula."""

    name: str
    source: Array | Callable[[], Array]  # a function for large arrays: called on access
    axes: tuple[str, ...]
    formula: str
    flow: Callable[[], Array | None] | None = None  # the gradient, if the array itself is not in the graph

    @property
    def array(self) -> Array:
        """The numbers: a read-only NumPy array, or a PyTorch tensor."""
        return read_only(self.source() if callable(self.source) else self.source)

    @property
    def gradient(self) -> Array | None:
        """The gradient after a backward pass, of the shape of the array; None before it, and for NumPy arrays."""
        if self.flow is not None:
            return self.flow()
        tensor: Any = self.source
        return tensor.grad if arrays.is_tensor(tensor) and tensor.requires_grad else None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(arrays.numpy_of(self.array), dtype=dtype)

    def __repr__(self) -> str:
        return f"Step({self.name}: {self.formula}; {', '.join(self.axes)})"


# What each step of a layer was computed from


@dataclass(frozen=True, eq=False)
class Taken:
    """Vectors given as input, or looked up in a table."""

    how: str  # "as given"


@dataclass(frozen=True, eq=False)
class Projection:
    """Rows through a linear map, split into heads."""

    rows: Array  # (token, in)
    linear: Linear
    letter: str  # the q of W_q and b_q
    heads: int = 1  # each with its share of the columns of W
    shared_by: int = 1  # query heads per head
    then: str = ""  # what follows the product: "normed", "rotated by its position"

    @property
    def matrices(self) -> Any:
        """W of each head as in x · W, (head, in, out)."""
        matrix = numpy_of(self.linear.matrix)
        return matrix.reshape(len(matrix), self.heads, -1).swapaxes(0, 1)


@dataclass(frozen=True, eq=False)
class Sum:
    """Two vectors added, then normalised if there is a norm."""

    left: Array  # (token, width)
    right: Array  # (token, width)
    norm: LayerNorm | RMSNorm | None = None


@dataclass(frozen=True, eq=False)
class Fed:
    """Rows through a feed-forward layer."""

    rows: Array  # (token, width)
    layer: FeedForward


Provenance = Taken | Projection | Sum | Fed


@dataclass(frozen=True, eq=False)
class Origin:
    """The settings that the steps were computed with."""

    scale: float = 1.0
    is_root: bool = False  # whether the scale is 1 / √d_k
    softcap: float = 0.0
    is_cosine: bool = False
    sinks: Array | None = None  # (head,)
    parts: Mapping[str, Any] = field(default_factory=dict)  # provenance of each step of a layer
    model: Any = None  # the `Transformer` that the layer belongs to
    place: tuple[int, str] | None = None  # its block there, encoders first, and "self" or "cross"
    product: Literal["x W", "x W^T"] = "x W"  # how files and headings write W


@dataclass(frozen=True, eq=False, repr=False)
class Steps:
    """All steps of one attention over one sequence, and the words of its queries and keys."""

    words: tuple[str, ...]  # of the keys
    query_words: tuple[str, ...]
    steps: tuple[Step, ...]  # in the order of NAMES
    note: str | None = None
    first_query: int = 0  # position of the first query of this trace among all queries
    own_key: int | None = 0  # key of the first query; None if queries are not among the keys
    origin: Origin = field(default_factory=Origin)
    source: Source = field(default_factory=Source)

    def __getitem__(self, name: str) -> Array:
        """The numbers of one step."""
        return self.step(name).array

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def step(self, name: str) -> Step:
        """One step, by name.

        >>> step = trace.step("scaled")
        >>> step.formula, step.axes
        ('scaled = score / √d_k', ('head', 'query', 'key'))
        """
        for step in self.steps:
            if step.name == name:
                return step
        there = f"The steps: {', '.join(self.names)}."
        if name in NAMES:
            raise OptionError(f"There is no {name!r} in this trace: nothing of that kind was computed.\n{there}")
        raise OptionError(f"There is no step {name!r}.{did_you_mean(name, self.names)}\n{there}")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the steps, in order.

        >>> trace.names
        ('query', 'key', 'value', 'score', 'scaled', 'weight', 'weighted_value', 'output')
        """
        return tuple(step.name for step in self.steps)

    @property
    def heads(self) -> int:
        """The number of heads.

        >>> trace.heads
        1
        """
        return int(self["weight"].shape[0])

    @property
    def head_dim(self) -> int:
        """The number of components of queries and keys, d_k.

        >>> trace.head_dim
        4
        """
        return int(self["query"].shape[-1])


# Queries and keys by word or position


def row_of(trace: Steps, query: Any, step: str = "table") -> int:
    """The row of a query in a trace, by word, by word and occurrence, or by its position among all queries."""
    count = len(trace.query_words)
    if query is None:
        if count == 1:
            return 0
        raise _several("query", step, trace.query_words)
    if trace.first_query and not isinstance(query, (str, tuple, list)):
        position = place_of("query", query, range(trace.first_query + count))  # type: ignore[arg-type]
        if position < trace.first_query:
            raise OutOfRange(
                f"`query` is {position}, but this trace holds only query {trace.first_query}, "
                f"{trace.query_words[0]!r}.\n"
                "Explain that query instead, or leave `query` out of explain(...) for all of them."
            )
        return position - trace.first_query
    return place_of("query", query, trace.query_words)


def key_of(trace: Steps, key: Any, step: str) -> int:
    """The position of a key."""
    if key is None and len(trace.words) > 1:
        raise _several("key", step, trace.words)
    return place_of("key", 0 if key is None else key, trace.words)


def own_key_of(trace: Steps, row: int) -> int | None:
    """The position of a query's own key, or None if it has none."""
    own_key = None if trace.own_key is None else trace.own_key + row
    return own_key if own_key is not None and own_key < len(trace.words) else None


def query_label(trace: Steps, row: int) -> str:
    """The word of a query, with its occurrence if the same word occurs before it: `the:2`."""
    if trace.own_key is not None:
        return numbered(trace.words)[trace.own_key + row]
    return numbered(trace.query_words)[row]


def _several(name: str, step: str, words: Sequence[str]) -> OptionError:
    return OptionError(f"Which `{name}`? The trace's {step} has several: {listed(words)}.")


# Weighted values: zero for masked keys even if their values are NaN


def last_stage(trace: Steps) -> str:
    """The name of the input of the softmax: scaled, capped, biased or masked scores."""
    return trace.names[trace.names.index("weight") - 1]


def weighted_values_of(trace: Steps, row: int, head: int) -> Array:
    """Weight × value of one query, by its row in the trace, for every key: (key, value_dim)."""
    scores = trace[last_stage(trace)][head, row]
    hidden = arrays.library(scores).isneginf(scores)
    return weigh(trace["weight"][head, row], hidden, trace["value"][head])


def weigh(weights: Array, hidden: Array, values: Array) -> Array:
    """Weight × value for every key, (..., key), (..., key, value_dim) → (..., key, value_dim); zero for hidden keys."""
    xp = arrays.library(values)
    with np.errstate(all="ignore"):
        return weights[..., None] * xp.where(hidden[..., None], xp.zeros_like(values), values)


# For export


def setup(trace: Steps) -> dict[str, Any]:
    """Matrices and settings from which the steps can be recomputed. Matrices are as `product` says: (in, out) for x W.

    W_q, W_k, W_v are left out if a bias, a norm or rotary positions come between x · W and q, k, v.
    """
    origin, parts = trace.origin, trace.origin.parts
    fields: dict[str, Any] = {"heads": trace.heads}
    if not origin.is_root:
        fields["divisor"] = 1 / origin.scale if origin.scale else 0.0
    if origin.is_cosine:
        fields["similarity"] = "cosine"
    if origin.sinks is not None:
        fields["sinks"] = origin.sinks
    if "masked" in trace:
        hidden = np.isneginf(numpy_of(trace["masked"]))  # (head, query, key)
        same = bool((hidden == hidden[:1]).all())
        fields["mask"] = (~(hidden[0] if same else hidden)).astype(int)
    projections = [parts.get(name) for name in ("query", "key", "value")]
    if all(isinstance(part, Projection) and _is_plain(part) for part in projections):
        fields["product"] = origin.product
        fields |= {f"W_{part.letter}": numpy_of(part.linear.matrix) for part in projections if part is not None}
        if trace.own_key is None:
            fields["context"] = parts["key"].rows
        if isinstance(added := parts.get("positioned"), Sum) and added.norm is None:
            fields["positions"] = added.right
    through = parts.get("projected")
    if isinstance(through, Projection) and through.linear.bias is None:
        fields["W_O"] = numpy_of(through.linear.matrix)
    if origin.product == "x W^T":
        fields |= {name: part.T for name, part in fields.items() if name.startswith("W_")} | {"product": origin.product}
    return fields


def _is_plain(part: Projection) -> bool:
    """Whether vectors are x · W and nothing else, for every query head."""
    return part.linear.bias is None and not part.then and part.shared_by == 1


def read_only(array: Array) -> Array:
    """A read-only view; tensors, which cannot be read-only, are returned unchanged."""
    if arrays.is_tensor(array):
        return array
    view = array.view()
    view.flags.writeable = False
    return view

"""The interface of every engine.

An engine is a module with the functions of `Engine`. Its arrays have four axes (batch, head, query or key, head_dim);
`Attention` adds the leading ones and removes them again.

A weight is exp(factor · (score − row_max)) / row_sum, and the subtraction comes before the scaling: exp(score −
logsumexp) would cancel at large scores. `softmax_units` gives the units of `score` and `row_max` for all engines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from regard.arrays import Array, four_axes
from regard.masks import Mask, Visible

Pool = Literal["mean", "max", "sum", "words"]  # words: the mean over queries of the sum over keys
Stage = Literal["score", "scaled", "capped", "biased", "masked", "weight"]
STAGES: tuple[Stage, ...] = ("score", "scaled", "capped", "biased", "masked", "weight")
ROW_STATISTICS = ("logsumexp", "entropy", "peak", "distance")
ROW_STATE = ("row_max", "row_sum")  # what `forward` returns beside ROW_STATISTICS, the fields of `RowState`


@dataclass(eq=False, slots=True)  # never changed, but not frozen either: that would add 2 µs to calls of 5 µs
class Scores:
    """What to compute: everything that decides the scores of every query and key, and no result."""

    queries: Array  # (batch, head, query, head_dim)
    keys: Array  # (batch, key head, key, head_dim); head is a multiple of key head
    scale: float
    softcap: float = 0.0  # 0: none
    bias: Array | None = None  # dense, four axes, each of full size or 1
    relative: Array | None = None  # (head or 1, span): adds relative[h, i - j + relative_zero], i and j positions
    relative_zero: int = 0
    sinks: Array | None = None  # (head,): an extra softmax logit with no value (attention sink)
    visible: Visible | None = None  # None: every query sees every key
    offset: Array | int = 0  # position of the first query: one number, or integers (batch,)

    @classmethod
    def of(cls, queries: Array, keys: Array, visible: Visible | None = None) -> Scores:
        """The scores of arrays with two to four axes, with no option but the mask."""
        return cls(four_axes(queries), four_axes(keys), queries.shape[-1] ** -0.5, visible=visible)


def softmax_units(scores: Scores) -> tuple[float, float]:
    """(before, factor): products are multiplied by `before`, ahead of softcap, bias and mask; differences by `factor`.

    If q · k is only scaled, the softmax compares the products themselves, times the sign of the scale, and its factor
    is |scale|: equal products are ties, and nothing is rounded before row_max is subtracted. With a softcap, a bias or
    sinks, or a scale of 0 or nearly 0, it compares scores in natural units: `before` is the scale, the factor is 1, and
    row_max is the largest biased score or sink.
    """
    scale = scores.scale
    only_scaled = not scores.softcap and scores.bias is None and scores.relative is None and scores.sinks is None
    # A smaller |scale| is multiplied into the scores, because −inf times it must stay −inf. The bound is a literal:
    # Dynamo makes a module's float an input of the graph and then starts its analysis again.
    if only_scaled and abs(scale) >= 2.0**-100:
        return (1.0 if scale > 0 else -1.0), abs(scale)
    return scale, 1.0


@dataclass(frozen=True, eq=False, slots=True)
class RowState:
    """The normaliser of every row, from which its weights are recomputed: (batch, head, query), in the computing type.

    row_max is the largest visible score, or the sink if that is larger, in the units of `softmax_units`; row_sum is
    the sum of exp(factor · (score − row_max)), sink included. A row that sees no key and has no sink: −inf and 0. A NaN
    among the visible scores: row_sum is NaN, and so are all visible weights; masked keys keep weight 0.
    """

    row_max: Array
    row_sum: Array

    @classmethod
    def of(cls, statistics: Mapping[str, Array]) -> RowState:
        """The state among the statistics that `forward` returned."""
        return cls(statistics["row_max"], statistics["row_sum"])

    def __getitem__(self, index: Any) -> RowState:
        """Some rows: both arrays indexed."""
        return RowState(self.row_max[index], self.row_sum[index])


@dataclass(frozen=True, eq=False, slots=True)
class Gradients:
    """Gradients of the loss; None for those that were not requested or do not exist."""

    queries: Array
    keys: Array
    values: Array
    bias: Array | None = None
    relative: Array | None = None
    sinks: Array | None = None

    def named(self, names: Sequence[str]) -> tuple[Any, ...]:
        """Some of them, in this order."""
        return tuple(getattr(self, name) for name in names)


class Engine(Protocol):
    """The functions of an engine module. `state` comes from `forward` of the same engine with the same scores."""

    def forward(
        self, scores: Scores, values: Array | None, statistics: Sequence[str] = (), top: int = 0
    ) -> tuple[Array | None, dict[str, Array]]:
        """Outputs (batch, head, query, value_dim), or None without values, and the statistics asked for, in one pass.

        Statistics are (batch, head, query): of ROW_STATE, and of ROW_STATISTICS, where "logsumexp" is in double
        precision. With `top` > 0 also "top_index" (integers, −1 if a query sees fewer keys) and "top_weight", both
        (batch, head, query, top), strongest first, ties to the lower index.
        """

    def product(self, queries: Array, keys: Array, values: Array, mask: Mask | None, /) -> Array | None:
        """`Attention(queries, keys, mask=mask) @ values` with minimal overhead; arrays keep their two to four axes.

        For a few tokens, the Python around the kernel takes longer than the kernel. None if `forward` is needed: a
        mask with arrays or several intervals per query, values of another kind or shape, gradients, transforms. Not
        called while PyTorch compiles.
        """

    def backflow(self, scores: Scores, state: RowState, rows: Array) -> Array:
        """Weights transposed times `rows` (batch, head, query, size): (batch, head, key, size)."""

    def column_sums(self, scores: Scores, state: RowState) -> Array:
        """Column sums of the weights: (batch, head, key)."""

    def pooled(self, scores: Scores, state: RowState, row_edges: Array, column_edges: Array, pool: Pool) -> Array:
        """Sum or largest weight of every cell: cell r, c covers rows row_edges[r]:row_edges[r+1], columns likewise.

        Edges are strictly increasing int64 NumPy arrays, for tensors too.
        """

    def tile(
        self, scores: Scores, state: RowState | None, stage: Stage, rows: Any = slice(None), columns: Any = slice(None)
    ) -> Array:
        """Some queries and keys of the matrix at one stage; "weight" needs the state.

        Rows and columns are slices with a positive step or NumPy integers, none negative; `state` is that of the rows.
        """

    def backward(
        self, scores: Scores, values: Array, output: Array, state: RowState, flow: Array, wanted: Sequence[str] = ()
    ) -> Gradients:
        """Gradients of q, k, v and of those `wanted` of "bias", "relative", "sinks"; `flow` is that of the output."""

    def linear(
        self,
        x: Array,
        weight: Array,
        bias: Array | None = None,
        activation: str | None = None,
        residual: Array | None = None,
        times: Array | None = None,
    ) -> Array:
        """activation(x @ weightᵀ + bias) · times + residual; weight is (out, in); activation of ACTIVATIONS."""

    def layer_norm(self, x: Array, weight: Array, bias: Array | None, epsilon: float) -> Array:
        """(x − mean) / √(variance + ε) · weight + bias over the last axis."""

    def rms_norm(self, x: Array, weight: Array, epsilon: float) -> Array:
        """x / √(mean of squares + ε) · weight over the last axis."""

    def rotary(self, x: Array, cosines: Array, sines: Array, interleaved: bool, in_place: bool = False) -> Array:
        """Rotate pairs of the last axis of (batch, head, token, size) by angles (batch or 1, token, pairs).

        `in_place`: x is not shared, and its memory may hold the result.
        """


ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu", "tanh", "quick_gelu")

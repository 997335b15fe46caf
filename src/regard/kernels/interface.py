"""What every engine offers: one small interface, said once.

An engine is a module with the functions of `Engine`. All arrays that travel through it have their four axes
(batch, head, query or key, head_dim); `Attention` adds the leading ones and takes them away again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from regard.masks import Visible

Array = Any  # a NumPy array or a PyTorch tensor: this floor never asks which
Pool = Literal["sum", "max"]
Stage = Literal["score", "scaled", "capped", "biased", "masked", "weight"]
STAGES: tuple[Stage, ...] = ("score", "scaled", "capped", "biased", "masked", "weight")
ROW_STATISTICS = ("logsumexp", "entropy", "peak", "distance")


@dataclass(eq=False, slots=True)  # not frozen, yet never changed: freezing costs 2 µs of the 5 that a call may take
class Scores:
    """All that decides the scores of every query and key, and nothing that was computed from it."""

    queries: Array  # (batch, head, query, head_dim)
    keys: Array  # (batch, key head, key, head_dim); head is a multiple of key head
    scale: float
    softcap: float = 0.0  # 0 is none
    bias: Array | None = None  # dense, four axes, each of full size or 1
    relative: Array | None = None  # (head or 1, span): adds relative[h, i - j + relative_zero], i and j positions
    relative_zero: int = 0
    sinks: Array | None = None  # (head,): a logit that takes its share and gives nothing
    visible: Visible | None = None  # None: every query sees every key
    offset: Array | int = 0  # position of the first query: one number, or integers (batch,)


@dataclass(frozen=True, eq=False, slots=True)
class Gradients:
    """What flows back; None for what was not asked for or is not there."""

    queries: Array
    keys: Array
    values: Array
    bias: Array | None = None
    relative: Array | None = None
    sinks: Array | None = None


class Engine(Protocol):
    """The functions of an engine module. A normaliser is `logsumexp` of a row, sink included, natural logarithm."""

    def forward(
        self, scores: Scores, values: Array | None, statistics: Sequence[str] = (), top: int = 0
    ) -> tuple[Array | None, dict[str, Array]]:
        """Outputs (batch, head, query, value_dim), or None without values, and the statistics asked for, in one pass.

        Statistics are (batch, head, query): of ROW_STATISTICS; with `top` > 0 also "top_index" (integers, -1 where a
        query sees fewer keys) and "top_weight", (batch, head, query, top), strongest first, ties to the lower index.
        """

    def short_product(self, queries: Array, keys: Array, values: Array, visible: Visible | None = None) -> Array | None:
        """`Attention(queries, keys) @ values` of a few words with as little around it as can be, arrays as they came.

        None where there is no short way: `forward` then does it.
        """

    def backflow(self, scores: Scores, normaliser: Array, rows: Array) -> Array:
        """Weights transposed times `rows` (batch, head, query, size): (batch, head, key, size)."""

    def received(self, scores: Scores, normaliser: Array) -> Array:
        """Column sums of the weights: (batch, head, key)."""

    def pooled(self, scores: Scores, normaliser: Array, row_edges: Array, column_edges: Array, pool: Pool) -> Array:
        """Sum or largest weight of every cell: cell r, c covers rows row_edges[r]:row_edges[r+1], columns likewise.

        Edges are NumPy integers of 64 bits that rise strictly, whatever the library of the scores.
        """

    def tile(self, scores: Scores, normaliser: Array | None, stage: Stage) -> Array:
        """The whole matrix of (small) `scores` at one stage; "weight" needs the normaliser."""

    def backward(
        self, scores: Scores, values: Array, output: Array, normaliser: Array, flow: Array, wanted: Sequence[str] = ()
    ) -> Gradients:
        """Gradients, given `flow`, that of the output; `wanted` of "bias", "relative", "sinks" besides q, k, v."""

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

        `in_place`: nobody else has x, and its memory may hold the result.
        """

    def fingerprint(self, array: Array) -> int:
        """A number that changes when the array's content is changed in place."""


ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu", "tanh", "quick_gelu")

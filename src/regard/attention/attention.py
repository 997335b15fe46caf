"""`Attention`: the attention matrix, used like a matrix and never built."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from regard import arrays, errors, validate
from regard.arrays import Array, compiling, four_axes
from regard.attention import arguments
from regard.attention.column_sums import column_sums_from
from regard.attention.index import LIMIT, chosen, look
from regard.attention.pooled import PooledMap, edges, pooled_map
from regard.attention.row_statistics import KEPT, LONG, RowStatistics, is_long
from regard.biases import Bias, PartOfBias
from regard.engines import score_parts
from regard.engines.interface import ROW_STATISTICS, Pool, Scores
from regard.engines.interface import Stage as StageName
from regard.engines.select import are_usual, eager_engine_for, engine_for
from regard.masks import Mask
from regard.masks.mask import SelectedMask, checked_mask
from regard.notebook import InNotebooks

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Attention(InNotebooks):
    """The attention matrix softmax(queries keysᵀ · scale), computed lazily in O(n) memory.

    Queries and keys are (query, head_dim), (head, query, head_dim) or (batch, head, query, head_dim): NumPy arrays,
    PyTorch tensors or lists. With fewer key heads than query heads, each key head is shared by a group of query heads.
    The arrays are not copied: results reflect in-place changes; `copy()` takes a snapshot.

    scale       multiplies the scores; 1 / √head_dim by default
    mask        which keys each query may see, such as `causal() & window(128)`
    bias        added to the scores: an array that broadcasts to them, or `alibi(...)`, `relative_positions(...)`
    softcap     bounds the scaled scores s smoothly: softcap · tanh(s / softcap)
    sinks       one extra softmax logit per head, with no value (attention sink)
    similarity  "dot", or "cosine" to normalise queries and keys to length 1
    offset      position of the first query, one integer or one per sequence; 0 if there are as many queries as keys

    >>> A = Attention([[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]], [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
    >>> A
    Attention(query 3, key 3; head_dim 4, float64)
    >>> A[0].round(2)
    array([0.42, 0.16, 0.42])
    >>> (A @ [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]]).round(2)[0]
    array([0.84, 0.58, 0.84, 0.58])
    """

    queries: Array
    keys: Array
    _: KW_ONLY
    scale: float | None = None
    mask: Mask | None = None
    bias: Any = None
    softcap: float | None = None
    sinks: Array | None = None
    similarity: Literal["dot", "cosine"] = "dot"
    offset: Any = None

    __array_ufunc__ = None  # makes NumPy call A.__rmatmul__ for `array @ A`
    _is_direct = True  # whether a product needs nothing but the kernel: usual arrays, and no option but a mask
    _statistics = None  # RowStatistics, from first use on

    def __init__(
        self,
        queries: Any,
        keys: Any,
        *,
        scale: float | None = None,
        mask: Mask | None = None,
        bias: Any = None,
        softcap: float | None = None,
        sinks: Any = None,
        similarity: Literal["dot", "cosine"] = "dot",
        offset: Any = None,
    ) -> None:
        # Only the options that were given are set: setting all nine fields takes longer than a short product.
        is_eager = type(queries) is np.ndarray or not compiling()
        need_no_conversion = is_eager and are_usual(queries, keys)
        placeholder = not need_no_conversion and arrays.is_placeholder(queries)
        if not need_no_conversion:
            object.__setattr__(self, "_is_direct", False)
            if not placeholder:
                queries, keys = arguments.queries_and_keys(queries, keys)
        object.__setattr__(self, "queries", queries)
        object.__setattr__(self, "keys", keys)
        if mask is not None:
            object.__setattr__(self, "mask", mask)
        is_dot = isinstance(similarity, str) and similarity == "dot"  # an array has no truth value
        if scale is None and bias is None and softcap is None and sinks is None and offset is None and is_dot:
            if mask is not None and not placeholder:
                self._check_mask()
            return
        object.__setattr__(self, "_is_direct", False)
        options = {"scale": scale, "bias": bias, "softcap": softcap, "sinks": sinks, "offset": offset}
        for name, value in options.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "similarity", similarity)
        if not placeholder:
            self._settle_options()

    def _settle_options(self) -> None:
        """Check and convert every option."""
        self._settle("scale", arguments.scale(self.scale))
        self._settle("bias", arguments.bias(self.bias, self.queries, self.shape))
        self._settle("softcap", arguments.softcap(self.softcap))
        self._settle("sinks", arguments.sinks(self.sinks, self.queries))
        self._settle("similarity", arguments.similarity(self.similarity))
        self._settle("offset", arguments.offset(self.offset, self.queries))
        if self.mask is not None:
            self._check_mask()
        elif isinstance(self.bias, Bias):
            _ = self.scores  # raises here, not at first use

    def _check_mask(self) -> None:
        mask = self.mask if isinstance(self.mask, Mask) else checked_mask(self.mask)
        if self.queries.shape[-2] != self.keys.shape[-2] and mask.needs_position:
            self._offset_known()
        if not mask._only_numbers or isinstance(self.bias, Bias):
            _ = self.scores

    def _settle(self, name: str, value: Any) -> None:
        if value is not getattr(self, name):
            object.__setattr__(self, name, value)

    # What engines and the modules beside this one take

    @property
    def scores(self) -> Scores:
        """All that decides the scores, as engines take it: arrays with four axes, the mask as intervals.

        Evaluated at each use, so that results reflect in-place changes of every array, those of masks and biases
        included; O(n) memory beyond the given arrays.

        >>> from regard.masks import causal
        >>> scores = Attention(np.zeros((5, 16)), np.zeros((5, 16)), mask=causal()).scores
        >>> scores.queries.shape, scores.scale, scores.visible.last
        ((1, 1, 5, 16), 0.25, array([[1, 2, 3, 4, 5]], dtype=int32))
        """
        queries, keys, mask = four_axes(self.queries), four_axes(self.keys), self.mask
        if self.similarity == "cosine":
            queries, keys = (arrays.unit_length(arrays.wide(vectors)) for vectors in (queries, keys))
        visible = None if mask is None else arguments.visible(mask, self.offset, queries, keys)
        scale = queries.shape[3] ** -0.5 if self.scale is None else self.scale
        if self._is_direct:
            return Scores(queries, keys, scale, visible=visible)
        bias, relative, relative_zero = self.bias, None, 0
        if isinstance(bias, Bias):
            relative, relative_zero = arguments.relative(bias, self.offset, queries, keys)
            bias = None
        return Scores(
            queries,
            keys,
            scale,
            arguments.effective_softcap(self.softcap, queries),
            None if bias is None else four_axes(bias),
            relative,
            relative_zero,
            self.sinks,
            visible,
            0 if self.offset is None else self.offset,
        )

    @property
    def _row_statistics(self) -> RowStatistics:
        if self._statistics is None:
            object.__setattr__(self, "_statistics", RowStatistics())
        statistics: RowStatistics = self._statistics  # type: ignore[assignment]
        return statistics

    def _offset_known(self) -> Any:
        return arguments.offset_known(self.offset, self.queries.shape[-2], self.keys.shape[-2])

    # Shape and presentation

    @property
    def shape(self) -> tuple[int, ...]:
        """(batch, head, query, key), with the leading axes of the queries.

        >>> Attention(np.zeros((2, 8, 5, 16)), np.zeros((2, 4, 7, 16))).shape
        (2, 8, 5, 7)
        """
        return (*self.queries.shape[:-1], self.keys.shape[-2])

    @property
    def ndim(self) -> int:
        """The number of axes.

        >>> Attention(np.zeros((8, 5, 16)), np.zeros((8, 5, 16))).ndim
        3
        """
        return int(self.queries.ndim)

    @property
    def dtype(self) -> Any:
        """The dtype of queries, keys and outputs; weights and statistics are at least float32.

        >>> Attention(np.zeros((5, 16), np.float32), np.zeros((5, 16), np.float32)).dtype
        dtype('float32')
        """
        return self.queries.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        names = ("batch", "head", "query", "key")[4 - self.ndim :]
        axes = ", ".join(f"{name} {count}" for name, count in zip(names, self.shape, strict=True))
        what = [f"head_dim {self.queries.shape[-1]}", str(self.dtype).removeprefix("torch.")]
        options = {name: getattr(self, name) for name in ("scale", "softcap", "offset")}
        what += [f"{name}={value}" for name, value in options.items() if value is not None]
        what += [f"mask={self.mask.expression}"] if self.mask is not None else []
        what += [name for name in ("bias", "sinks") if getattr(self, name) is not None]
        what += [self.similarity] if self.similarity != "dot" else []
        return f"Attention({axes}; {', '.join(what)})"

    # Products

    @overload
    def __matmul__(self, values: NDArray[Any] | Sequence[Any]) -> NDArray[Any]: ...
    @overload
    def __matmul__(self, values: Tensor) -> Tensor: ...
    def __matmul__(self, values: Any) -> Any:
        """The outputs: for each query, the values averaged by weight."""
        queries, keys, mask = self.queries, self.keys, self.mask
        # A long product also caches its row state; a compiled one becomes nodes of a graph.
        is_numpy = type(keys) is np.ndarray
        needs_more = queries.shape[-2] >= LONG <= keys.shape[-2] if is_numpy else compiling()
        if self._is_direct and not needs_more:
            output = eager_engine_for(keys).product(queries, keys, values, mask)
            if output is not None:
                return output
        return self._outputs(values)[0]

    def _outputs(self, values: Any, statistics: Sequence[str] = (), top: int = 0) -> tuple[Array, dict[str, Array]]:
        one_column = arguments.is_vector(values)
        values = arguments.values(arguments.as_column(values) if one_column else values, self.keys)
        scores = self.scores
        values = arrays.cast(four_axes(values), scores.queries.dtype)
        long = type(self.keys) is np.ndarray and is_long(scores)
        kept = tuple(dict.fromkeys((*statistics, *KEPT))) if long else statistics
        output, results = engine_for(scores.queries).forward(scores, values, kept, top)
        if long:
            self._row_statistics.keep(scores, results)
        output = arrays.leading_axes_of(self.ndim, arrays.cast(output, self.dtype))
        return (output[..., 0] if one_column else output), results

    def attend(self, values: Any, statistics: Sequence[str] = (), top: int = 0) -> Attended:
        """Outputs and row statistics in one pass: any of "logsumexp", "entropy", "peak", "distance".

        >>> A = Attention(np.zeros((2, 3)), np.zeros((4, 3)))
        >>> found = A.attend(np.ones((4, 5)), statistics=["entropy", "peak"], top=1)
        >>> found.output.shape, found.peak, found.top.index.tolist()
        ((2, 5), array([0.25, 0.25]), [[0], [0]])
        """
        names = tuple(statistics) if isinstance(statistics, (list, tuple, set, frozenset)) else (statistics,)
        for name in names:
            validate.choice("statistics", name, ROW_STATISTICS)
        if "distance" in names:
            self._offset_known()
        top = min(validate.integer("top", top, 0), self.shape[-1])
        output, results = self._outputs(values, names, top)
        strongest = self._top(results) if top else None
        return Attended(output, **{name: self._presented(results[name]) for name in names}, top=strongest)

    def __rmatmul__(self, rows: Any) -> Array:
        """`u @ A`, which is `(A.mT @ u.mT).mT`: (..., m, query) → (..., m, key)."""
        if arguments.is_vector(rows):
            return self.mT @ rows
        rows = rows if hasattr(rows, "swapaxes") else arrays.floats("u", rows, self.queries)
        return (self.mT @ rows.swapaxes(-1, -2)).swapaxes(-1, -2)

    @property
    def mT(self) -> Transposed:
        """The transpose, with the last two axes swapped; `A.mT @ u` takes O(n) memory.

        >>> A = Attention(np.zeros((2, 3)), np.zeros((4, 3)))
        >>> A.mT.shape, A.mT @ [1, 1]
        ((4, 2), array([0.5, 0.5, 0.5, 0.5]))
        """
        return Transposed(self)

    # Parts

    def __getitem__(self, index: Any) -> Array:
        """The weights `dense()[index]`, computing only that part."""
        return self._look(index, "weight")

    def dense(self, limit: int | None = LIMIT) -> Array:
        """All weights, O(n²) memory; raises `TooLarge` above `limit` bytes (None: no limit).

        >>> Attention(np.zeros((2, 3)), np.zeros((4, 3))).dense()
        array([[0.25, 0.25, 0.25, 0.25],
               [0.25, 0.25, 0.25, 0.25]])
        """
        return self._look(..., "weight", limit)

    def _look(self, index: Any, stage: StageName, limit: int | None = LIMIT) -> Array:
        return look(self.scores, self._row_statistics, self.ndim, index, stage, limit)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(arrays.numpy_of(self.dense()), dtype=dtype)

    def __dlpack__(self, **options: Any) -> Any:
        return _exported(self, options)

    def __dlpack_device__(self) -> Any:
        return self.queries.__dlpack_device__()

    @property
    def score(self) -> Stage:
        """The dot products q · k.

        >>> Attention(E, E).score[1]
        array([0., 2., 2.])
        """
        return Stage(self, "score")

    @property
    def scaled(self) -> Stage:
        """The scores multiplied by the scale.

        >>> Attention(E, E).scaled[1]
        array([0., 1., 1.])
        """
        return Stage(self, "scaled")

    @property
    def capped(self) -> Stage:
        """The scaled scores after the soft cap.

        >>> Attention(E, E, softcap=1).capped[1].round(2)
        array([0. , 0.76, 0.76])
        """
        return Stage(self, "capped")

    @property
    def biased(self) -> Stage:
        """The capped scores plus the bias.

        >>> Attention(E, E, bias=[[0, 0, -1]]).biased[1]
        array([0., 1., 0.])
        """
        return Stage(self, "biased")

    @property
    def masked(self) -> Stage:
        """The biased scores, −inf at masked keys: the input of the softmax.

        >>> Attention(E, E, mask=causal()).masked[1]
        array([  0.,   1., -inf])
        """
        return Stage(self, "masked")

    def select(self, batch: Any = None, head: Any = None) -> Attention:
        """The attention of some sequences and heads, given as an integer, a slice or a list.

        An integer drops the axis; for `head`, only if there is no batch axis before it.

        >>> A = Attention(np.zeros((2, 8, 5, 16)), np.zeros((2, 8, 5, 16)))
        >>> A.select(batch=0).shape, A.select(head=[1, 3]).shape, A.select(batch=1, head=7).shape
        ((8, 5, 5), (2, 2, 5, 5), (5, 5))
        """
        for name, index, axes in (("batch", batch, 4), ("head", head, 3)):
            if index is not None and self.ndim < axes:
                raise errors.option(name, index, f"None for an attention of shape {self.shape}")
        sequences, heads = (1, 1, *self.shape[:-2])[-2:]
        batches, one_sequence = chosen(batch, sequences, "batch")
        some_heads, one_head = chosen(head, heads, "head")
        key_heads = score_parts.key_heads(some_heads, heads, four_axes(self.keys).shape[1])
        dropped = 4 - self.ndim + one_sequence  # leading axes that the result does not have
        dropped += one_head and dropped == 1

        def part(array: Array, heads: score_parts.Index) -> Array:
            return score_parts.taken(score_parts.taken(four_axes(array), batches, 0), heads, 1)[(0,) * dropped]

        mask, bias, offset = self.mask, self.bias, self.offset
        if isinstance(bias, Bias):
            bias = PartOfBias(bias, heads, some_heads)
        elif bias is not None:
            bias = score_parts.shared(score_parts.shared(four_axes(bias), batches, 0), some_heads, 1)[(0,) * dropped]
        return replace(
            self,
            queries=part(self.queries, some_heads),
            keys=part(self.keys, key_heads),
            mask=None if mask is None else SelectedMask.of(mask, sequences, heads, batches, some_heads),
            bias=bias,
            sinks=None if self.sinks is None else score_parts.taken(self.sinks, some_heads, 0),
            offset=score_parts.taken(offset, batches, 0) if hasattr(offset, "shape") else offset,
        )

    def copy(self) -> Attention:
        """A snapshot with its own copies of all arrays.

        >>> keys = np.zeros((4, 3))
        >>> A = Attention(np.ones((1, 3)), keys).copy()
        >>> keys[0] = 100
        >>> A.dense()
        array([[0.25, 0.25, 0.25, 0.25]])
        """
        bias = self.bias
        return replace(
            self,
            queries=arrays.copied(self.queries),
            keys=arrays.copied(self.keys),
            mask=deepcopy(self.mask),
            bias=arrays.copied(bias) if hasattr(bias, "shape") else deepcopy(bias),
            sinks=arrays.copied(self.sinks),
            offset=arrays.copied(self.offset),
        )

    def extended(self, keys: Any, queries: Any = None) -> Attention:
        """The attention with `keys` appended; `queries` replace the present ones, at the positions that follow them.

        >>> from regard.masks import causal
        >>> A = Attention(np.ones((3, 2)), np.ones((3, 2)), mask=causal())
        >>> A.extended(np.ones((1, 2)), queries=np.ones((1, 2))).shape
        (1, 4)
        """
        more = arrays.floats("keys", keys, self.keys)
        arguments.same_kind(keys=self.keys, more=more)
        if more.ndim != self.ndim:
            raise arguments.axes_differ(self.keys, more)
        if more.shape[-1] != self.keys.shape[-1]:
            raise arguments.head_dims_differ(self.keys, more)
        if tuple(more.shape[:-2]) != tuple(self.keys.shape[:-2]):
            raise arguments.values_do_not_fit(self.keys, more)
        offset = self.offset
        if offset is None and self.queries.shape[-2] == self.keys.shape[-2]:
            offset = 0
        if queries is not None and offset is not None:
            offset = offset + self.queries.shape[-2]
        return replace(
            self,
            queries=self.queries if queries is None else queries,
            keys=arrays.library(more).concatenate([self.keys, more], -2),
            offset=offset,
        )

    # Statistics of rows and columns

    def logsumexp(self) -> Array:
        """The logarithm of every row's sum of exponentials, sink included; (batch, head, query).

        >>> Attention(np.zeros((1, 3)), np.zeros((4, 3))).logsumexp().round(3)  # log 4
        array([1.386])
        """
        return self._row_statistic("logsumexp")

    def entropy(self) -> Array:
        """The entropy of every row in nats: 0 for a single key, log n for n equal weights; (batch, head, query).

        >>> Attention([[0.0], [100.0]], [[0.0], [1.0]]).entropy().round(3)  # log 2, and one key alone
        array([0.693, 0. ])
        """
        return self._row_statistic("entropy")

    def peak(self) -> Array:
        """The largest weight of every row; (batch, head, query).

        >>> Attention([[0.0], [100.0]], [[0.0], [1.0]]).peak()
        array([0.5, 1. ])
        """
        return self._row_statistic("peak")

    def distance(self) -> Array:
        """The expected distance of every row, Σ weight · |i − j| over positions; (batch, head, query).

        >>> Attention([[0.0], [100.0]], [[0.0], [1.0]]).distance().round(3)
        array([0.5, 0. ])
        """
        self._offset_known()
        return self._row_statistic("distance")

    def top(self, k: int) -> Top:
        """The k keys of largest weight for every query, ties to the lower index; O(n · k) memory.

        `k` is limited to the number of keys.

        >>> strongest = Attention(E, E).top(2)
        >>> strongest.index.tolist(), strongest.weight.round(2).tolist()
        ([[0, 2], [1, 2], [2, 0]], [[0.42, 0.42], [0.42, 0.42], [0.58, 0.21]])
        """
        scores = self.scores
        k = min(validate.integer("k", k, 1), self.shape[-1])
        results = engine_for(scores.queries).forward(scores, None, (), k)[1]
        return self._top(results)

    def _top(self, found: dict[str, Array]) -> Top:
        index, weight = (arrays.leading_axes_of(self.ndim, found[name]) for name in ("top_index", "top_weight"))
        return Top(index, weight)

    def weight_on(self, keys: Any) -> Array:
        """The total weight on some keys, given by any index along the key axis; (batch, head, query).

        >>> A = Attention(np.zeros((2, 3)), np.zeros((4, 3)))
        >>> A.weight_on([0, 1]), A.weight_on(slice(1, None))
        (array([0.5, 0.5]), array([0.75, 0.75]))
        """
        scores = self.scores
        scores = replace(scores, queries=arrays.wide(scores.queries), keys=arrays.wide(scores.keys))
        ones = arrays.indicator(chosen(keys, self.shape[-1])[0], self.shape[-1], scores.queries)
        values = arrays.library(ones).broadcast_to(ones[:, None], (*scores.keys.shape[:3], 1))
        output, _ = engine_for(values).forward(scores, values)
        return arrays.leading_axes_of(self.ndim, output)[..., 0]

    def column_sums(self, queries: Any = None) -> Array:
        """The column sums: the total weight that every key receives; (batch, head, key).

        queries  that count, by any index along the query axis, or as booleans (batch, query); all by default

        >>> Attention(E, E).column_sums().round(2), Attention(E, E).column_sums(queries=slice(-1, None)).round(2)
        (array([0.79, 0.79, 1.42]), array([0.21, 0.21, 0.58]))
        """
        scores = self.scores
        if queries is None:
            sums = engine_for(scores.queries).column_sums(scores, self._row_statistics.state(scores))
        else:
            sums = column_sums_from(scores, self._row_statistics, queries)
        return arrays.leading_axes_of(self.ndim, sums)

    def _row_statistic(self, name: str) -> Array:
        numbers = self._row_statistics.get(self.scores, name)[name]
        return self._presented(arrays.copied(numbers))  # the cached array stays private

    def _presented(self, statistic: Array) -> Array:
        """In the dtype of statistics: engines return log-sum-exp in float64."""
        return arrays.leading_axes_of(self.ndim, arrays.cast(statistic, arrays.wide_type(self.queries)))

    # Pooling and tracing

    def pooled(
        self,
        shape: tuple[int | None, int | None] | None = None,
        *,
        rows: Any = None,
        columns: Any = None,
        row_edges: Any = None,
        column_edges: Any = None,
        pool: Pool = "mean",
    ) -> PooledMap:
        """The matrix or a region of it, pooled exactly into `shape` cells in O(n) memory.

        rows, columns            the region, as slices or (start, stop); everything by default
        shape                    cells along rows and columns; edge c is at start + ⌊c · (stop − start) / cells⌋
        row_edges, column_edges  explicit edges instead: cell c covers edges[c] up to edges[c + 1]
        pool                     "mean", "max" or "sum" of each cell; "words": mean over its rows, sum over its columns,
                                 the weight between words of several tokens

        >>> A = Attention(np.zeros((4, 3)), np.zeros((4, 3)))
        >>> A.pooled((2, 2), pool="sum")
        PooledMap(2 × 2 cells of 4 queries × 4 keys, pool='sum')
        >>> A.pooled((2, 2), pool="sum").array
        array([[1., 1.],
               [1., 1.]])
        >>> A.pooled(row_edges=[0, 1, 4], column_edges=[0, 3, 4], pool="words").array
        array([[0.75, 0.25],
               [0.75, 0.25]])
        """
        row_edges, column_edges = edges(self.shape[-2:], shape, (rows, columns), (row_edges, column_edges))
        return pooled_map(self.scores, self._row_statistics, self.ndim, row_edges, column_edges, pool)

    def explain(self, values: Any, query: Any = None, words: Any = None, *, query_words: Any = None) -> Any:
        """Every step as a `Trace`: for all queries of a small matrix, or for one query (word or position) in O(n).

        >>> Attention(E, E).explain(E, query="cat", words=["The", "cat", "sat"])
        Trace(The cat sat, query cat; 1 head: query, key, value, score, scaled, weight, weighted_value, output)
        """
        from regard.trace.attention_steps import explain

        return explain(
            self.scores,
            (self.queries, self.keys),
            values,
            query,
            words,
            query_words=query_words,
            is_cosine=self.similarity == "cosine",
            has_offset=self.offset is not None,
        )


# Lazy views of an attention, and results with several parts


@dataclass(frozen=True, eq=False)
class Stage:
    """The matrix at a stage before the weights, lazy as well: index it, or build it with `dense()`.

    >>> scores = Attention(E, E).score
    >>> scores.shape, scores[2, :2], scores.dense().tolist()[0]
    ((3, 3), array([2., 2.]), [2.0, 0.0, 2.0])
    """

    attention: Attention
    name: StageName

    __array_ufunc__ = None

    @property
    def shape(self) -> tuple[int, ...]:
        """(batch, head, query, key), with the leading axes of the attention."""
        return self.attention.shape

    def __getitem__(self, index: Any) -> Array:
        return self.attention._look(index, self.name)

    def dense(self, limit: int | None = LIMIT) -> Array:
        """The whole matrix, O(n²) memory; raises `TooLarge` above `limit` bytes."""
        return self.attention._look(..., self.name, limit)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(arrays.numpy_of(self.dense()), dtype=dtype)

    def __dlpack__(self, **options: Any) -> Any:
        return _exported(self, options)

    def __dlpack_device__(self) -> Any:
        return self.attention.queries.__dlpack_device__()


@dataclass(frozen=True, eq=False)
class Transposed:
    """The weights with queries and keys exchanged, `A.mT`."""

    attention: Attention

    __array_ufunc__ = None

    @property
    def shape(self) -> tuple[int, ...]:
        """(batch, head, key, query), with the leading axes of the attention."""
        *leading, query, key = self.attention.shape
        return (*leading, key, query)

    @property
    def mT(self) -> Attention:
        """The attention itself."""
        return self.attention

    def __matmul__(self, rows: Any) -> Array:
        """For each key, the sum of the rows of `u` weighted by column; O(n) memory."""
        attention = self.attention
        one_column = arguments.is_vector(rows)
        rows = arguments.rows(arguments.as_column(rows) if one_column else rows, attention.queries)
        scores = attention.scores
        rows = arrays.cast(four_axes(rows), scores.queries.dtype)
        state = attention._row_statistics.state(scores)
        result = engine_for(scores.queries).backflow(scores, state, rows)
        result = arrays.leading_axes_of(attention.ndim, arrays.cast(result, attention.dtype))
        return result[..., 0] if one_column else result

    def __rmatmul__(self, columns: Any) -> Array:
        return _turned(self.attention @ _turned(columns))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(np.asarray(self.attention).swapaxes(-1, -2), dtype=dtype)


@dataclass(frozen=True, eq=False)
class Top:
    """The keys of largest weight for every query, in descending order; index −1 and weight 0 beyond its visible keys.

    >>> strongest = Attention([[1.0]], [[2.0], [3.0], [1.0]]).top(2)
    >>> strongest.index.tolist(), strongest.weight.round(2).tolist()
    ([[1, 0]], [[0.67, 0.24]])
    """

    index: Array  # (batch, head, query, k)
    weight: Array  # (batch, head, query, k)


@dataclass(frozen=True, eq=False)
class Attended:
    """Outputs and the requested statistics; None for the others.

    >>> found = Attention(np.zeros((2, 3)), np.zeros((4, 3))).attend(np.ones((4, 5)), "peak")
    >>> found.output.shape, found.peak, found.entropy is None
    ((2, 5), array([0.25, 0.25]), True)
    """

    output: Array  # (batch, head, query, value_dim)
    logsumexp: Array | None = None  # (batch, head, query)
    entropy: Array | None = None
    peak: Array | None = None
    distance: Array | None = None
    top: Top | None = None


def _exported(matrix: Attention | Stage, options: dict[str, Any]) -> Any:
    """As `torch.as_tensor` takes it, through DLPack, which has no gradients."""
    array = matrix.dense()
    if arrays.is_tensor(array) and array.requires_grad:
        raise errors.unsupported("An export of weights that have gradients", "A.dense() keeps their gradients.")
    return array.__dlpack__(**options)


def _turned(rows: Any) -> Any:
    rows = rows if hasattr(rows, "swapaxes") else np.asarray(rows)
    return rows.swapaxes(-1, -2) if rows.ndim > 1 else rows

"""Multi-head attention: projections per head, the lazy matrix, concatenation, W_O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any, NamedTuple, Self

import numpy as np

from regard import arrays, errors, validate
from regard.arrays import Array
from regard.attention import Attention, Cache
from regard.layers.layer import Layer, Seed, seed_of
from regard.layers.linear import Linear, heads_of, joined
from regard.layers.norms import Norm
from regard.layers.positions import Alibi, Rotary, Turns
from regard.layers.token_inputs import float_weights, token_rows
from regard.masks import Mask, causal, window


class LayerAttention(NamedTuple):
    """The attention of a layer: the lazy matrix and its values; `attention @ values` are the outputs.

    >>> attention, values = MultiHead.seeded(width=12, heads=3).attention(np.ones((5, 12), np.float32))
    >>> (attention @ values).shape
    (3, 5, 4)
    """

    attention: Attention
    values: Array


@dataclass(frozen=True, eq=False, repr=False)
class MultiHead(Layer):
    """Several heads over the same tokens, each with its own projections; concatenated and multiplied by W_O.

    w_q, w_k, w_v   width → head · head_dim: the columns of head 0 first, then those of head 1 and so on
    w_o             head · value_dim → width; None leaves the concatenation unchanged
    heads           their number; fewer `kv_heads` share keys and values among query heads
    rotary, alibi   positions within attention
    q_norm, k_norm  norms of each head's queries and keys, before rotation
    causal, window  visible keys: up to the query's own position, and `window` keys before it
    scale, softcap  as for `Attention`

    >>> layer = MultiHead.seeded(width=12, heads=3)
    >>> layer(np.ones((5, 12), np.float32)).shape
    (5, 12)
    >>> attention, values = layer.attention(np.ones((5, 12), np.float32))
    >>> attention
    Attention(head 3, query 5, key 5; head_dim 4, float32)
    """

    w_q: Linear
    w_k: Linear
    w_v: Linear
    w_o: Linear | None
    heads: int = 8
    kv_heads: int | None = None
    rotary: Rotary | None = None
    alibi: Alibi | None = None
    q_norm: Norm | None = None
    k_norm: Norm | None = None
    causal: bool = False
    window: int | None = None
    scale: float | None = None
    softcap: float | None = None

    def __post_init__(self) -> None:
        if self.kv_heads is None:
            object.__setattr__(self, "kv_heads", self.heads)
        _check(self)
        # Not a field: where the weights of all three are contiguous in memory, one product gives all.
        object.__setattr__(self, "_all_three", joined(self.w_q, self.w_k, self.w_v))

    @property
    def width(self) -> int:
        """The width of its tokens."""
        return self.w_q.inputs

    @property
    def head_dim(self) -> int:
        """The number of components of each head's queries and keys, d_k."""
        return self.w_q.outputs // self.heads

    @property
    def groups(self) -> int:
        """The number of key heads."""
        return self.heads if self.kv_heads is None else self.kv_heads

    # From tokens to outputs

    def __call__(
        self,
        x: Any,
        context: Any = None,
        *,
        mask: Mask | None = None,
        offset: Any = None,
        cache: Cache | None = None,
        residual: Array | None = None,
    ) -> Array:
        """Attention of tokens, (token, width) or (batch, token, width), to themselves or to the tokens of a context.

        mask      which keys each query may see, in addition to the layer's own mask
        offset    position of the first query if it is not 0: `layer(x[-1:], x, offset=len(x) - 1)`
        cache     keys and values of earlier tokens; those of x are appended
        residual  added at the end
        """
        rows, _ = self.attend(x, context, mask=mask, offset=offset, cache=cache)
        return self.output(rows, residual=residual)

    def attend(
        self, x: Any, context: Any = None, *, mask: Mask | None = None, offset: Any = None, cache: Cache | None = None
    ) -> tuple[Array, LayerAttention]:
        """The outputs of all heads, concatenated, (…, token, head · value_dim), and their attention."""
        seen = self.attention(x, context, mask=mask, offset=offset, cache=cache)
        return self.concatenate(seen.attention @ seen.values), seen

    def attention(
        self, x: Any, context: Any = None, *, mask: Mask | None = None, offset: Any = None, cache: Cache | None = None
    ) -> LayerAttention:
        """The lazy matrix, (…, head, query, key), and the values, (…, key head, key, value_dim)."""
        before = 0 if cache is None else len(cache)
        if cache is not None and offset is None:
            offset = before
        first = 0 if offset is None else offset
        if context is None and type(first) is int and first == before:
            x = token_rows("x", x, self.w_q.weight, self.w_q.inputs)
            queries, keys, values = self.projections(x, self.turns(first, x))
        else:
            queries = self.queries(x, first)
            keys, values = self.keys_and_values(x if context is None else context, before)
        if cache is not None:
            cache.append(keys, values)
            keys, values = cache.keys, cache.values
        return LayerAttention(self.look(queries, keys, mask=mask, offset=offset), values)

    def look(
        self, queries: Array, keys: Array, *, mask: Mask | None = None, offset: Any = None, visible: bool = False
    ) -> Attention:
        """The lazy matrix of projected queries and keys; with `visible`, every query may see every key."""
        return Attention(
            queries,
            keys,
            scale=self.scale,
            mask=None if visible else self.mask(mask),
            bias=None if self.alibi is None else self.alibi.bias,
            softcap=self.softcap,
            offset=offset,
        )

    def queries(self, x: Any, offset: Any = 0) -> Array:
        """(…, head, token, head_dim), the first token at `offset`."""
        x = token_rows("x", x, self.w_q.weight, self.w_q.inputs)
        return self._turned(self._normed(self.w_q(x), self.heads, self.q_norm), offset)

    def keys_and_values(self, context: Any, offset: Any = 0) -> tuple[Array, Array]:
        """Each (…, key head, token, head_dim), the first token at `offset`."""
        context = token_rows("context", context, self.w_k.weight, self.w_k.inputs)
        keys = self._normed(self.w_k(context), self.groups, self.k_norm)
        return self._turned(keys, offset), self.split(self.w_v(context), self.groups)

    def turns(self, offset: Any, x: Array) -> Turns | None:
        """Cosines and sines for these tokens, the first at `offset`; None without rotary positions."""
        return None if self.rotary is None else self.rotary.cosines_and_sines(offset, x.shape[-2], x)

    def projections(self, x: Array, turns: Turns | None = None) -> tuple[Array, Array, Array]:
        """Queries, keys and values of the same tokens, each (…, head, token, head_dim), rotated with `turns`."""
        joined: Linear | None = self._all_three  # type: ignore[attr-defined]
        maps = self.w_q, self.w_k, self.w_v
        learned = None
        if self.q_norm is None is self.k_norm:
            learned = heads_of(maps, (self.heads, self.groups, self.groups), x)
        if learned is not None:
            queries, keys, values = learned
            if turns is not None:
                queries, keys = self.turned(queries, turns), self.turned(keys, turns)
            return queries, keys, values
        if joined is None:
            queries, keys, values = (linear(x) for linear in maps)
        else:
            rows = joined(x)  # (…, token, (head + 2 · key head) · head_dim)
            ends = self.w_q.outputs, self.w_q.outputs + self.w_k.outputs
            if self.q_norm is None is self.k_norm and turns is not None:
                both = self.turned(self.split(rows[..., : ends[1]], self.heads + self.groups), turns)
                queries, keys = both[..., : self.heads, :, :], both[..., self.heads :, :, :]
                return queries, keys, self.split(rows[..., ends[1] :], self.groups)
            queries, keys, values = rows[..., : ends[0]], rows[..., ends[0] : ends[1]], rows[..., ends[1] :]
        queries, keys = self._normed(queries, self.heads, self.q_norm), self._normed(keys, self.groups, self.k_norm)
        if turns is not None:
            queries, keys = self.turned(queries, turns), self.turned(keys, turns)
        return queries, keys, self.split(values, self.groups)

    def turned(self, x: Array, turns: Turns) -> Array:
        """Rows that are not shared, (…, head, token, head_dim), rotated in place where the engine can."""
        return x if self.rotary is None else self.rotary.turned(x, turns, in_place=True)

    def mask(self, more: Mask | None = None) -> Mask | None:
        """The layer's own mask combined with `more`."""
        masks = [causal()] if self.causal else []
        masks += [window(self.window)] if self.window is not None else []
        masks += [more] if more is not None else []
        return reduce(and_, masks) if masks else None

    def split(self, x: Array, heads: int | None = None) -> Array:
        """(…, token, head · head_dim) → (…, head, token, head_dim), a view."""
        heads = self.heads if heads is None else heads
        return x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads).swapaxes(-3, -2)

    def concatenate(self, outputs: Array) -> Array:
        """(…, head, token, head_dim) → (…, token, head · head_dim)."""
        rows = outputs.swapaxes(-3, -2)
        return rows.reshape(*rows.shape[:-2], rows.shape[-2] * rows.shape[-1])

    def project(self, outputs: Array, *, residual: Array | None = None) -> Array:
        """The outputs of all heads, (…, head, token, value_dim), concatenated and multiplied by W_O, plus residual."""
        return self.output(self.concatenate(outputs), residual=residual)

    def output(self, rows: Array, *, residual: Array | None = None) -> Array:
        """Concatenated outputs, (…, token, head · value_dim), multiplied by W_O, plus a residual."""
        if self.w_o is not None:
            return self.w_o(rows, residual=residual)
        return rows if residual is None else rows + residual

    def _normed(self, x: Array, heads: int, norm: Norm | None) -> Array:
        if norm is None:
            return self.split(x, heads)
        # The norm comes before the swap, while the rows of each head are still contiguous.
        return norm(x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads)).swapaxes(-3, -2)

    def _turned(self, x: Array, offset: Any) -> Array:
        return x if self.rotary is None else self.rotary(x, offset)

    def explain(
        self,
        x: Any,
        context: Any = None,
        *,
        words: Sequence[Any] | None = None,
        context_words: Sequence[Any] | None = None,
        query: Any = None,
        mask: Mask | None = None,
        offset: Any = None,
        note: str | None = None,
    ) -> Any:
        """Every step as a `Trace`: of all tokens of one sequence, or in O(n) of one `query`, by word or position."""
        options = self._tracer.ExplainOptions(
            query=query, words=words, context_words=context_words, mask=mask, offset=offset, note=note
        )
        return self._tracer.of_multi_head(self, x, context, options)

    # Constructors

    @classmethod
    def seeded(
        cls,
        width: int,
        heads: int = 8,
        *,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        context_width: int | None = None,
        bias: bool = True,
        rotary: Rotary | None = None,
        alibi: Alibi | None = None,
        causal: bool = False,
        seed: int | Seed = 0,
        dtype: Any = np.float32,
    ) -> Self:
        """Weights from a seed, independent for each projection; `head_dim` is width / heads by default."""
        width, heads, seed = validate.integer("width", width, 1), validate.integer("heads", heads, 1), seed_of(seed)
        if head_dim is None and width % heads:
            raise errors.option("heads", heads, f"a divisor of the width {width}", "Or give `head_dim`.")
        groups = heads if kv_heads is None else kv_heads
        head_dim = width // heads if head_dim is None else head_dim
        of_context = width if context_width is None else context_width
        options: dict[str, Any] = {"bias": bias, "dtype": dtype}
        return cls(
            Linear.seeded(width, heads * head_dim, seed=seed.part("w_q"), **options),
            Linear.seeded(of_context, groups * head_dim, seed=seed.part("w_k"), **options),
            Linear.seeded(of_context, groups * head_dim, seed=seed.part("w_v"), **options),
            Linear.seeded(heads * head_dim, width, seed=seed.part("w_o"), **options),
            heads=heads,
            kv_heads=groups,
            rotary=rotary,
            alibi=alibi,
            causal=causal,
        )

    @classmethod
    def from_heads(cls, w_q: Sequence[Any], w_k: Sequence[Any], w_v: Sequence[Any], w_o: Any = None) -> Self:
        """From matrices as in q = x · W_q: one (width, head_dim) per head in each list; W_O (head · value_dim, width).

        >>> W_q, W_k = [[1.0], [0.0], [2.0]], [[0.0], [1.0], [1.0]]  # 3 × 1
        >>> layer = MultiHead.from_heads([W_q, W_k], [W_k, W_k], [W_q, W_q])
        >>> layer.explain([[1.0, 5.0, 1.0]])["query"].tolist()  # of both heads: x · W_q, x · W_k
        [[[3.0]], [[6.0]]]
        """
        if w_o is not None and not isinstance(w_o, Linear):
            w_o = Linear.from_matrix(w_o)
        queries, keys, values = _joined("w_q", w_q), _joined("w_k", w_k), _joined("w_v", w_v)
        return cls(queries, keys, values, w_o, heads=len(w_q), kv_heads=len(w_k))

    @classmethod
    def from_torch(cls, module: Any, *, causal: bool = False) -> Self:
        """The weights of an `nn.MultiheadAttention`, shared: gradients reach the module. Dropout is ignored.

        Tokens are (batch, token, width) whatever the module's `batch_first`.
        """
        if module.bias_k is not None or module.add_zero_attn:
            raise errors.unsupported("nn.MultiheadAttention with add_bias_kv or add_zero_attn", "Leave them off.")
        if module.kdim != module.vdim:
            raise errors.unsupported("nn.MultiheadAttention with kdim ≠ vdim", "Keys and values have one context here.")
        width = module.embed_dim
        if module.in_proj_weight is not None:
            weights = [module.in_proj_weight[part * width : (part + 1) * width] for part in range(3)]
        else:
            weights = [module.q_proj_weight, module.k_proj_weight, module.v_proj_weight]
        shifts: list[Any] = [None] * 3
        if module.in_proj_bias is not None:
            shifts = [module.in_proj_bias[part * width : (part + 1) * width] for part in range(3)]
        w_q, w_k, w_v = (Linear(weight, bias) for weight, bias in zip(weights, shifts, strict=True))
        return cls(w_q, w_k, w_v, Linear.from_torch(module.out_proj), heads=module.num_heads, causal=causal)


def _joined(name: str, of_heads: Sequence[Any]) -> Linear:
    matrices = [float_weights(name, matrix) for matrix in of_heads]
    if not matrices or len({tuple(matrix.shape) for matrix in matrices}) > 1:
        shapes = ", ".join(str(tuple(matrix.shape)) for matrix in matrices) or "no matrix"
        raise errors.ShapeError(f"`{name}` holds {shapes}; expected one (width, head_dim) per head, all equal.")
    return Linear.from_matrix(arrays.library(matrices[0]).concatenate(matrices, 1))


def _check(layer: MultiHead) -> None:
    heads, groups = validate.integer("heads", layer.heads, 1), validate.integer("kv_heads", layer.groups, 1)
    if heads % groups:
        raise errors.option("kv_heads", groups, f"a divisor of the {heads} heads", "Key heads are shared evenly.")
    query, key, value = (part.outputs for part in (layer.w_q, layer.w_k, layer.w_v))
    after = None if layer.w_o is None else layer.w_o.inputs
    fits = query % heads == 0 and key * heads == query * groups and value % groups == 0
    if not fits or (after is not None and after * groups != value * heads):
        names = ("w_q", "w_k", "w_v", "w_o")
        parts = [(name, getattr(layer, name)) for name in names if getattr(layer, name) is not None]
        shapes = "".join(f"\n  {name}  {part.inputs} → {part.outputs}" for name, part in parts)
        raise errors.ShapeError(
            f"The projections do not fit {heads} query heads and {groups} key heads.{shapes}\n"
            "Outputs: head · head_dim of w_q, kv_head · head_dim of w_k and w_v; w_o takes head · value_dim."
        )
    if layer.w_k.inputs != layer.w_v.inputs:
        raise errors.ShapeError(
            f"`w_k` takes width {layer.w_k.inputs}, `w_v` {layer.w_v.inputs}: both get the same context."
        )
    if layer.window is not None:
        validate.integer("window", layer.window, 0)

"""One call of an attention function, in the words of `Attention`: what was given, whoever called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard import errors, masks
from regard.attention import Attention, Top
from regard.attention.column_sums import column_sums_by
from regard.biases import Bias, RelativePositions
from regard.engines.interface import ROW_STATE, RowState
from regard.engines.select import engine_for
from regard.masks import Mask
from regard.watch.lazy_mask import MaskCall, bidirectional_mask_function

HIDDEN = -1e4  # an additive mask at or below this hides a key: models use the smallest float, −inf or −10,000


@dataclass(frozen=True, eq=False)
class TensorMask:
    """A mask that came as a tensor: booleans, or numbers to be added to the scores; axes of full size or 1."""

    tensor: Tensor  # (batch or 1, head or 1, query or 1, key or 1)

    def parts(self) -> tuple[Mask | None, Tensor | None]:
        """Visible keys, and what is added to the scores; None for all keys and for nothing."""
        tensor = self.tensor
        if tensor.dtype == torch.bool:
            return masks.allowed(tensor), None
        visible = tensor > HIDDEN
        added = torch.where(visible, tensor, torch.zeros((), dtype=tensor.dtype, device=tensor.device))
        return masks.allowed(visible), added if bool(added.detach().any()) else None

    def real(self) -> Tensor:
        """Which keys are real, (batch or 1, key): those that any query sees."""
        tensor = self.tensor
        return (tensor if tensor.dtype == torch.bool else tensor > HIDDEN).any(1).any(1)


@dataclass(frozen=True, eq=False)
class Call:
    """Queries, keys and values of one call of an attention function, and all that decides the weights."""

    queries: Tensor  # (batch, head, query, head_dim)
    keys: Tensor  # (batch, key head, key, head_dim)
    values: Tensor  # (batch, key head, key, value_dim)
    rule: MaskCall | TensorMask
    scale: float | None = None
    softcap: float | None = None
    sinks: Tensor | None = None
    bias: Tensor | Bias | None = None
    static: bool = False  # the keys live in a buffer that later calls write to
    cross: bool = False
    position: int | None = None  # of the first query, where neither the mask nor the number of keys says it
    guessed: bool = False  # nothing says whether the call continues a text with a KV cache

    @property
    def query_offset(self) -> int:
        """The position of the first query."""
        if self.position is not None:
            return self.position
        if isinstance(self.rule, MaskCall):
            return self.rule.query_offset
        return 0 if self.cross else max(self.keys.shape[2] - self.queries.shape[2], 0)

    @property
    def key_offset(self) -> int:
        """The position of the first key."""
        return self.rule.key_offset if isinstance(self.rule, MaskCall) else 0

    @property
    def batch(self) -> int:
        """The number of sequences."""
        return int(self.queries.shape[0])

    def trimmed(self) -> Call:
        """Without the part of a static buffer that is not written yet."""
        end = self.query_offset - self.key_offset + self.queries.shape[2]
        if self.cross or end >= self.keys.shape[2] or not self.static:
            return self
        bias, rule = self.bias, self.rule
        if isinstance(bias, Tensor) and bias.shape[-1] > end:
            bias = bias[..., :end]
        if isinstance(rule, MaskCall):
            rule = replace(rule, keys=end)
        return replace(self, keys=self.keys[:, :, :end], values=self.values[:, :, :end], bias=bias, rule=rule)

    def of_heads(self, heads: list[int] | None) -> Call:
        """Some of the heads, copied; keys and values of the groups that they belong to are repeated for each."""
        if heads is None:
            return self
        count = self.queries.shape[1]
        if max(heads) >= count:
            raise errors.index_out_of_range("head", max(heads), count)
        group = count // self.keys.shape[1]
        chosen = torch.tensor(heads, device=self.queries.device)
        bias, rule = self.bias, self.rule
        if isinstance(bias, Tensor) and bias.ndim == 4 and bias.shape[1] != 1:
            bias = bias[:, chosen]
        if isinstance(bias, RelativePositions):
            bias = replace(bias, learned=bias.learned[:, chosen])
        if isinstance(rule, TensorMask) and rule.tensor.shape[1] != 1:
            rule = TensorMask(rule.tensor[:, chosen])
        return replace(
            self,
            queries=self.queries[:, chosen],
            keys=self.keys[:, chosen // group],
            values=self.values[:, chosen // group],
            sinks=None if self.sinks is None else self.sinks[chosen],
            bias=bias,
            rule=rule,
        )

    def attention(self) -> Attention:
        """The attention of this call."""
        mask, bias = mask_and_bias(self.rule, self.bias)
        return Attention(
            self.queries,
            self.keys,
            scale=self.scale,
            mask=mask,
            bias=bias,
            softcap=self.softcap,
            sinks=self.sinks,
            offset=self.query_offset - self.key_offset,
        )

    def computed(self, values: Tensor, rows: Sequence[str] = (), top: int = 0, column_sums: bool = False) -> Computed:
        """The outputs for some values, with statistics that the same pass gives; `column_sums` take half a pass more.

        Queries that are padding do not count in `column_sums`.
        """
        scores = self.attention().scores
        engine = engine_for(scores.queries)
        names = (*rows, *ROW_STATE) if column_sums else tuple(rows)
        output, found = engine.forward(scores, values.to(scores.queries.dtype), names, top)
        wide = torch.float64 if scores.queries.dtype == torch.float64 else torch.float32
        sums = None
        if column_sums:
            state, real = RowState.of(found), self.real_queries()
            sums = engine.column_sums(scores, state) if real is None else column_sums_by(scores, state, real)
        return Computed(
            output,
            {name: found[name].to(wide) for name in rows},
            Top(found["top_index"], found["top_weight"]) if top else None,
            sums,
        )

    def real_queries(self) -> Tensor | None:
        """Which queries are real tokens, (batch, query); None if all are, or if that is not known."""
        count, rule = self.queries.shape[2], self.rule
        if self.cross or (isinstance(rule, MaskCall) and rule.padding is None):
            return None
        if isinstance(rule, MaskCall):
            real = rule.over(self.query_offset, count, self.query_offset, count).real(rule.padding)
        else:
            real = rule.real()
        if real.shape[1] != count or bool(real.all()):
            return None
        return real.expand(self.batch, -1)


@dataclass(frozen=True, eq=False)
class Computed:
    """The outputs of a call and the statistics that were asked for."""

    output: Any  # (batch, head, query, value_dim)
    rows: dict[str, Tensor]  # each (batch, head, query)
    top: Top | None
    column_sums: Tensor | None  # (batch, head, key)


def mask_and_bias(rule: MaskCall | TensorMask, bias: Any) -> tuple[Mask | None, Any]:
    """The mask and the bias of an `Attention`; an additive mask may be both."""
    if isinstance(rule, MaskCall):
        return rule.mask(), bias
    mask, added = rule.parts()
    if added is None:
        return mask, bias
    return mask, added if bias is None else bias + added


def everything(queries: int, keys: int) -> MaskCall:
    """No mask."""
    return MaskCall(queries, keys, 0, 0, bidirectional_mask_function)

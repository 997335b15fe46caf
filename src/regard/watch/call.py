"""One call of an attention function, in the words of `Attention`: what was given, whoever called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from regard import errors, masks
from regard.attention import Attention, Top
from regard.attention.column_sums import column_sums_by
from regard.biases import Bias, RelativePositions
from regard.engines import score_parts
from regard.engines.interface import ROW_STATE, RowState
from regard.engines.select import engine_for
from regard.masks import Mask
from regard.masks.kinds import Edges
from regard.watch.lazy_mask import MaskCall

HIDDEN = -1e4  # an additive mask at or below this hides a key: models use the smallest float, −inf or −10,000


@dataclass(frozen=True, eq=False)
class TensorMask:
    """A mask that came as a tensor: booleans, or numbers to be added to the scores; axes of full size or 1."""

    tensor: Tensor  # (batch or 1, head or 1, query or 1, key or 1)

    def parts(self) -> tuple[Mask | None, Tensor | None]:
        """Visible keys, and what is added to the scores; None for all keys and for nothing."""
        tensor, visible = self.tensor, self.visible
        if tensor.dtype == torch.bool:
            return masks.allowed(tensor), None
        added = torch.where(visible, tensor, torch.zeros((), dtype=tensor.dtype, device=tensor.device))
        return masks.allowed(visible), added if bool(added.detach().any()) else None

    @property
    def visible(self) -> Tensor:
        """Which keys are seen, with the axes of the tensor."""
        return self.tensor if self.tensor.dtype == torch.bool else self.tensor > HIDDEN

    def real(self) -> Tensor:
        """Which keys are real, (batch or 1, key): those that any query sees."""
        return self.visible.any(1).any(1)


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
    edges: tuple[Edges, ...] = ()  # that an edit blocks, positions counted from the first key

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

    def trim(self) -> Call:
        """Without the part of a static buffer that is not written yet."""
        end = self.query_offset - self.key_offset + self.queries.shape[2]
        if self.cross or end >= self.keys.shape[2] or not self.static:
            return self
        rule = replace(self.rule, keys=end) if isinstance(self.rule, MaskCall) else self.rule
        bias, keys, values = part_of(self.bias, slice(end), 3), self.keys[:, :, :end], self.values[:, :, :end]
        return replace(self, keys=keys, values=values, bias=bias, rule=rule)

    def of_heads(self, heads: list[int] | None) -> Call:
        """Some of the heads, copied; keys and values of the groups that they belong to are repeated for each."""
        if heads is None:
            return self
        count = self.queries.shape[1]
        if max(heads) >= count:
            raise errors.index_out_of_range("head", max(heads), count)
        group = count // self.keys.shape[1]
        chosen = torch.tensor(heads, device=self.queries.device)
        bias = part_of(self.bias, chosen, 1)
        if isinstance(bias, RelativePositions):
            bias = replace(bias, learned=bias.learned[:, chosen])
        return replace(
            self, queries=self.queries[:, chosen], keys=self.keys[:, chosen // group],
            values=self.values[:, chosen // group], sinks=None if self.sinks is None else self.sinks[chosen],
            bias=bias, rule=part_of(self.rule, chosen, 1), edges=tuple(_of_heads(edge, heads) for edge in self.edges),
        )  # fmt: skip

    def of_sequences(self, rows: Tensor) -> Call:
        """Some sequences of the batch."""
        rule = part_of(self.rule, rows, 0)
        if isinstance(rule, MaskCall) and rule.padding is not None:
            rule = replace(rule, padding=rule.padding[rows])
        queries, keys, values = self.queries[rows], self.keys[rows], self.values[rows]
        edges = tuple(_of_sequences(edge, rows.tolist()) for edge in self.edges)
        bias = part_of(self.bias, rows, 0)
        return replace(self, queries=queries, keys=keys, values=values, rule=rule, bias=bias, edges=edges)

    def attention(self) -> Attention:
        """The attention of this call."""
        mask, bias = mask_and_bias(self.rule, self.bias)
        for edges in self.edges:
            mask = ~edges if mask is None else mask & ~edges
        offset = self.query_offset - self.key_offset
        return Attention(
            self.queries, self.keys, scale=self.scale, mask=mask, bias=bias, softcap=self.softcap, sinks=self.sinks,
            offset=offset,
        )  # fmt: skip

    def compute(self, values: Tensor, rows: Sequence[str] = (), top: int = 0, column_sums: bool = False) -> Computed:
        """The outputs for some values, with statistics that the same pass gives; `column_sums` take half a pass more.

        Queries that are padding do not count in `column_sums`.
        """
        scores = self.attention().scores
        engine = engine_for(scores.queries)
        names = (*rows, *ROW_STATE) if column_sums else tuple(rows)
        output, statistics = engine.forward(scores, values.to(scores.queries.dtype), names, top)
        wide = torch.float64 if scores.queries.dtype == torch.float64 else torch.float32
        sums = None
        if column_sums:
            state, real = RowState.of(statistics), self.real_queries()
            sums = engine.column_sums(scores, state) if real is None else column_sums_by(scores, state, real)
        strongest = Top(statistics["top_index"], statistics["top_weight"]) if top else None
        return Computed(output, {name: statistics[name].to(wide) for name in rows}, strongest, sums)

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


def _of_heads(edges: Edges, heads: list[int]) -> Edges:
    """The edges of some heads, numbered anew."""
    if edges.heads is None:
        return edges
    several = [(new, edges.heads == head) for new, head in enumerate(heads)]
    return _picked(edges, [chosen for _, chosen in several], heads=[new for new, _ in several])


def _of_sequences(edges: Edges, rows: list[int]) -> Edges:
    """The edges of some sequences, numbered anew."""
    return _picked(edges, [edges.sequences == row for row in rows], sequences=range(len(rows)))


def _picked(edges: Edges, several: list[Any], **numbers: Any) -> Edges:
    """The edges of several selections one after the other, each with a new number of its head or sequence."""
    fields = {
        name: None if getattr(edges, name) is None else np.concatenate([getattr(edges, name)[some] for some in several])
        for name in ("queries", "keys", "sequences", "heads")
    }
    for name, new in numbers.items():
        fields[name] = np.repeat(list(new), [int(some.sum()) for some in several])
    return Edges(**fields)


P = TypeVar("P")


def part_of(whole: P, index: Any, axis: int) -> P:
    """A part of a tensor or mask (batch, head, query, key) along an axis of full size; all else as it is."""
    if isinstance(whole, TensorMask):
        return cast("P", TensorMask(part_of(whole.tensor, index, axis)))
    return score_parts.shared(whole, index, axis) if isinstance(whole, Tensor) and whole.ndim == 4 else whole


def mask_and_bias(rule: MaskCall | TensorMask, bias: Any) -> tuple[Mask | None, Any]:
    """The mask and the bias of an `Attention`; an additive mask may be both."""
    if isinstance(rule, MaskCall):
        return rule.mask(), bias
    mask, added = rule.parts()
    if added is None:
        return mask, bias
    return mask, added if bias is None else bias + added

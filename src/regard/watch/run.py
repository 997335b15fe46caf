"""`Run`: the calls of one attention layer that belong together, from the prompt to the last generated token.

A KV cache hands the keys of all tokens to every call. A run keeps each token's key once: the keys of the first call,
then those of the new tokens. Beam search reorders the sequences of a cache between calls; `_parents` finds out how, by
comparing the last key that is known with the one that the cache returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from regard import errors, masks
from regard.attention import Attention
from regard.biases import Bias
from regard.watch.call import Call, TensorMask, mask_and_bias
from regard.watch.lazy_mask import MaskCall, packed_sequence_mask_function

ROW_STATISTICS = ("entropy", "peak", "logsumexp", "distance")


@dataclass(eq=False)
class Run:
    """One forward pass of a layer, and the passes that continued it with a KV cache."""

    calls: list[Call] = field(default_factory=list)  # later ones hold the keys and values of new tokens only
    outputs: list[Tensor] = field(default_factory=list)  # (batch, query, head, value_dim), as the model used them
    parents: list[Tensor | None] = field(default_factory=list)  # per call: the sequence of the call before; None: same
    statistics: list[dict[str, Tensor]] = field(default_factory=list)  # per call, each (batch, head, query)
    top: list[tuple[Tensor, Tensor]] = field(default_factory=list)  # per call: index and weight
    received: Tensor | None = None  # (batch, head, key), summed over all calls
    pooled: Any = None
    problem: str | None = None  # why the calls cannot be joined
    parts: list[int] = field(default_factory=list)  # lengths of the parts that the first call was made in
    _joined: Call | None = None

    # Recording

    def add(self, call: Call, output: Tensor | None, keep_vectors: bool, parents: Tensor | None = None) -> None:
        """The first call of the run, or the next one; `parents` are given for cross-attention."""
        self._joined = None
        call = call.trimmed()
        if not self.calls:
            kept = _snapshot(call) if call.static else call
            self.parents.append(None)
            self.parts = [int(call.queries.shape[2])]
        else:
            self.parents.append(parents if call.cross else self._parents(call))
            kept = self._new_tokens(call)
        if output is not None and keep_vectors:
            self.outputs.append(output)
        self.calls.append(kept if keep_vectors else _without_vectors(kept))

    def add_part(self, call: Call, output: Tensor, part: Run, keep_vectors: bool) -> None:
        """A further part of the same sequence, which attends only to itself: one image, or one window, of several.

        `part` holds its statistics.
        """
        first = self.calls[-1]
        if first.batch != 1 or call.batch != 1 or self.pooled is not None:
            self.problem = "this layer computes its sequence in parts, which cannot be joined into one batch or map"
            return
        if not keep_vectors:
            self._add_part_statistics(part)
            shape = (1, first.queries.shape[1], self.parts[0] + call.queries.shape[2], first.queries.shape[3])
            self.calls[-1] = replace(first, queries=first.queries.new_empty((1,)).expand(shape))
            self.parts = [shape[2]]
            return
        sizes = [int(count) for count in (*self.parts, call.queries.shape[2])]
        ids = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))[None].to(call.queries.device)
        queries, keys, values = (
            torch.cat([getattr(first, name), getattr(call, name)], 2) for name in ("queries", "keys", "values")
        )
        function = packed_sequence_mask_function(ids)
        rule = MaskCall(ids.shape[1], ids.shape[1], 0, 0, function)
        self.calls[-1] = replace(first, queries=queries, keys=keys, values=values, rule=rule)
        self.outputs[-1] = torch.cat([self.outputs[-1], output], 1)
        self.parts = sizes
        self._joined = None

    def _add_part_statistics(self, part: Run) -> None:
        self.statistics[-1] = {
            name: torch.cat([rows, part.statistics[0][name]], 2) for name, rows in self.statistics[-1].items()
        }
        if self.top:
            (index, weight), (more, more_weight) = self.top[-1], part.top[0]
            width = max(index.shape[-1], more.shape[-1])
            more = torch.where(more >= 0, more.int() + self.parts[0], more)  # from the first key of all parts on
            self.top[-1] = (
                torch.cat([widened(index.int(), width, -1), widened(more, width, -1)], 2),
                torch.cat([widened(weight, width, 0), widened(more_weight, width, 0)], 2),
            )
        if self.received is not None and part.received is not None:
            self.received = torch.cat([self.received, part.received], 2)

    def continues(self, call: Call) -> bool:
        """Whether a call of self-attention goes on from the last token of this run."""
        return bool(self.calls) and 0 < call.query_offset == self.end

    @property
    def end(self) -> int:
        """The position after the last token."""
        last = self.calls[-1]
        return int(last.query_offset + last.queries.shape[2])

    def _new_tokens(self, call: Call) -> Call:
        """The call with the keys and values of its own tokens only, copied: they are views of the whole cache."""
        if call.cross:
            none = call.keys[:, :, :0]
            return replace(call, keys=none, values=call.values[:, :, :0])
        first = call.query_offset - call.key_offset
        tokens = slice(first, first + call.queries.shape[2])
        return replace(call, keys=call.keys[:, :, tokens].clone(), values=call.values[:, :, tokens].clone())

    def _parents(self, call: Call) -> Tensor | None:
        """For each sequence of this call, the sequence of the call before whose keys it continues."""
        place = self.end - 1 - call.key_offset
        known, given = self.calls[-1].keys[:, :, -1].detach(), call.keys[:, :, place].detach()
        if known.shape[0] == 1 == given.shape[0]:
            if not _equal(known, given):
                self._lose_track()
            return None
        same = (known[None] == given[:, None]).flatten(2).all(-1)  # (batch now, batch before)
        found = []
        for row, candidates in enumerate(same):
            rows = candidates.nonzero().flatten().tolist()
            if len(rows) > 1:  # the same last token: compare what came before
                rows = sorted(rows, key=lambda other, row=row: other != row)  # type: ignore[misc]
                rows = [other for other in rows if self._same_past(call, row, other)][:1]
            if not rows:
                self._lose_track()
                return None
            found.append(rows[0])
        if found == list(range(known.shape[0])):
            return None
        return torch.tensor(found, device=known.device)

    def _same_past(self, call: Call, row: int, other: int) -> bool:
        past = self._gathered([one.keys for one in self.calls], torch.tensor([other]))  # (1, head, key, head_dim)
        origin = self.calls[0].key_offset
        shared = slice(max(call.key_offset, origin) - origin, None)
        past = past[:, :, shared]
        start = max(call.key_offset, origin) - call.key_offset
        return _equal(past, call.keys[row : row + 1, :, start : start + past.shape[2]])

    def _lose_track(self) -> None:
        self.problem = (
            "the cache returned other keys than the layer computed before, as quantised caches do, so the steps of "
            "this generation cannot be joined"
        )

    # Joining the calls

    def _gathered(self, parts: Sequence[Tensor], rows: Tensor | None, axis: int = 2) -> Tensor:
        """The parts of all calls along the token axis, following each sequence back through its parents."""
        if len(parts) == 1 and rows is None:
            return parts[0]
        found = []
        for part, parent in zip(reversed(parts), reversed(self.parents[: len(parts)]), strict=True):
            found.append(part if rows is None else part[rows.to(part.device)])
            if parent is not None:
                rows = parent if rows is None else parent[rows.to(parent.device)]
        return torch.cat(found[::-1], axis)

    def check(self) -> None:
        """Raise if the calls cannot be joined."""
        if self.problem is not None:
            raise errors.Unsupported(
                f"The attention of this layer is not available as one matrix: {self.problem}.\n"
                "Generate with the default cache, or run the model once over the finished text or on one image."
            )

    def joined(self) -> Call:
        """All calls as one, over the prompt and all generated tokens."""
        self.check()
        if self._joined is not None:
            return self._joined
        first, last = self.calls[0], self.calls[-1]
        if len(self.calls) == 1:
            self._joined = first
            return first
        queries = self._gathered([call.queries for call in self.calls], None)
        keys, values = (self._of_all([getattr(call, name) for call in self.calls]) for name in ("keys", "values"))
        rule = self._joined_rule(queries.shape[2], keys.shape[2])
        bias = self._joined_bias(keys.shape[2])
        self._joined = replace(last, queries=queries, keys=keys, values=values, rule=rule, bias=bias, static=False)
        return self._joined

    def _of_all(self, parts: Sequence[Tensor]) -> Tensor:
        """Keys or values of all calls; those of cross-attention come with the first call, in the order of the last."""
        if not self.calls[0].cross:
            return self._gathered(parts, None)
        rows: Tensor | None = None
        for parent in reversed(self.parents):
            if parent is not None:
                rows = parent if rows is None else parent[rows]
        return parts[0] if rows is None else parts[0][rows]

    def _joined_rule(self, queries: int, keys: int) -> MaskCall | TensorMask:
        first, last = self.calls[0], self.calls[-1]
        rules = [call.rule for call in self.calls]
        if isinstance(last.rule, MaskCall) and all(
            isinstance(rule, MaskCall) and rule.same_kind(last.rule) for rule in rules
        ):
            return last.rule.over(first.query_offset, queries, first.key_offset, keys)
        if all(isinstance(rule, TensorMask) and rule.tensor.shape[2] == 1 for rule in rules):
            return rules[-1]
        return TensorMask(torch.cat([_dense(call, keys) for call in self.calls], 2))

    def _joined_bias(self, keys: int) -> Any:
        biases: list[Any] = [call.bias for call in self.calls]
        if biases[0] is None or isinstance(biases[0], Bias):
            return biases[0]
        return torch.cat([torch.nn.functional.pad(bias, (0, keys - bias.shape[-1])) for bias in biases], 2)

    def real_queries(self) -> Tensor | None:
        """Which queries are real tokens, (batch, query); None if all are."""
        return self.joined().real_queries()

    def attention(self) -> Attention:
        """The attention over the prompt and all generated tokens."""
        return self.joined().attention()

    def along(self, rows: Tensor) -> Run:
        """The sequences of a table (sequence, call): the row of the batch that each call computed them in; −1 after
        the end of a sequence.

        `beam_indices`, which a finished beam search returns, are this table.
        """
        count = min(rows.shape[1], len(self.calls))
        lengths = (rows[:, :count] >= 0).sum(-1)
        chosen = rows[:, :count].clamp(min=0)
        calls = [_of_rows(call, chosen[:, place]) for place, call in enumerate(self.calls[:count])]
        last = calls[-1]
        if isinstance(last.rule, MaskCall) and not last.cross:  # queries after the end of a sequence are padding
            tokens = last.query_offset + last.queries.shape[2]
            real = torch.arange(tokens, device=rows.device) < (tokens - count + lengths)[:, None]
            known = last.rule.padding
            padding = real if known is None else real & known[:, :tokens]
            calls[-1] = replace(last, rule=replace(last.rule, padding=padding))
        statistics = [
            {name: rows[chosen[:, place]] for name, rows in one.items()}
            for place, one in enumerate(self.statistics[:count])
        ]
        top = [(index[chosen[:, at]], weight[chosen[:, at]]) for at, (index, weight) in enumerate(self.top[:count])]
        outputs = [output[chosen[:, place]] for place, output in enumerate(self.outputs[:count])]
        return Run(calls, outputs, [None] * count, statistics, top, problem=self.problem)

    def row_statistic(self, name: str) -> Tensor:
        """One statistic of every query, (batch, head, query)."""
        return self._gathered([one[name] for one in self.statistics], None)


def _of_rows(call: Call, rows: Tensor) -> Call:
    """Some sequences of a call."""
    rule = call.rule
    if isinstance(rule, MaskCall) and rule.padding is not None:
        rule = replace(rule, padding=rule.padding[rows])
    elif isinstance(rule, TensorMask) and rule.tensor.shape[0] != 1:
        rule = TensorMask(rule.tensor[rows])
    bias = call.bias
    if isinstance(bias, Tensor) and bias.shape[0] != 1:
        bias = bias[rows]
    return replace(
        call, queries=call.queries[rows], keys=call.keys[rows], values=call.values[rows], rule=rule, bias=bias
    )


def widened(part: Tensor, width: int, fill: int) -> Tensor:
    """With so many columns, the further ones filled."""
    return torch.nn.functional.pad(part, (0, width - part.shape[-1]), value=fill)


def _equal(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one, other) or bool(((one == other) | (one.isnan() & other.isnan())).all())


def _snapshot(call: Call) -> Call:
    return replace(call, keys=call.keys.clone(), values=call.values.clone())


def _without_vectors(call: Call) -> Call:
    """The call with its shapes, mask and last key only: O(1) memory beside the mask."""
    queries = torch.empty((0,), dtype=call.queries.dtype, device=call.queries.device).expand(0)
    shape = call.queries.shape
    return replace(
        call,
        queries=queries.new_empty((1,)).expand(shape),
        keys=call.keys[:, :, -1:].clone(),
        values=call.values[:, :, -1:, :1].clone(),
        bias=None,
    )


def _dense(call: Call, keys: int) -> Tensor:
    """The mask of one call as booleans (batch or 1, head or 1, query, all keys)."""
    mask = mask_and_bias(call.rule, None)[0] or masks.allowed(torch.ones(1, 1, dtype=torch.bool))
    count = call.queries.shape[2]
    width = call.rule.keys if isinstance(call.rule, MaskCall) else call.rule.tensor.shape[3]
    width = min(width, keys)
    visible = mask.visible(
        queries=count, keys=width, batch=call.batch, heads=call.queries.shape[1],
        offset=call.query_offset - call.key_offset, xp=torch, device=call.queries.device,
    )  # fmt: skip
    tile = visible.tile(slice(0, count), slice(0, width))
    tile = tile.expand(call.batch, -1, count, width)
    return torch.nn.functional.pad(tile, (call.key_offset, keys - width - call.key_offset))

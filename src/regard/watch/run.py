"""`Run`: the calls of one attention layer that belong together, from the prompt to the last generated token.

A KV cache hands the keys of all tokens to every call. A run keeps each token's key once: the keys of the first call,
then those of the new tokens. Beam search reorders the sequences of a cache between calls, and assisted generation takes
tokens back: both are found out by comparing checksums of the last keys with those of the keys that the cache returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from regard import errors
from regard.attention import Attention
from regard.biases import Bias
from regard.watch.call import Call, TensorMask, part_of
from regard.watch.lazy_mask import MaskCall, packed_sequence_mask_function
from regard.watch.tokens_seen import Texts

CHECKED = 64  # tokens of the prompt whose keys have checksums; generated tokens all have one


@dataclass(eq=False)
class Run:
    """One forward pass of a layer, and the passes that continued it with a KV cache."""

    owner: tuple[int, int] = (0, 0)  # thread and task that ran the model
    forward: int = 0  # number of the forward pass that the last call belongs to
    calls: list[Call] = field(default_factory=list)  # later ones hold the keys and values of new tokens only
    outputs: list[Tensor] = field(default_factory=list)  # (batch, query, head, value_dim), as the model used them
    parents: list[Tensor | None] = field(default_factory=list)  # per call: the sequence of the call before; None: same
    statistics: list[dict[str, Tensor]] = field(default_factory=list)  # per call, each (batch, head, query)
    top: list[tuple[Tensor, Tensor]] = field(default_factory=list)  # per call: index and weight
    column_sums: Tensor | None = None  # (batch, head, key), summed over all calls
    pooled: Any = None
    problem: str | None = None  # why the calls cannot be joined
    column_sums_problem: str | None = None  # why column sums are not known
    parts: list[int] = field(default_factory=list)  # lengths of the parts that the first call was made in
    texts: Texts = field(default_factory=dict)  # that the models around the layer were called with
    deviation: float | None = None  # largest error of an output among sampled rows, where it is known
    checksums: Tensor | None = None  # (batch, token) of the last keys, sequences in the order of the last call
    _joined: Call | None = None

    # Recording

    def add(self, call: Call, output: Tensor | None, keep_vectors: bool, parents: Tensor | None = None) -> None:
        """The first call of the run, or the next one; `parents` are given for cross-attention."""
        self._joined = None
        call = call.trim()
        if not self.calls:
            kept = replace(call, keys=call.keys.clone(), values=call.values.clone()) if call.static else call
            self.parents.append(None)
            self.parts = [int(call.queries.shape[2])]
        else:
            self.parents.append(parents if call.cross else self._parents(call))
            kept = self._new_tokens(call)
        if not call.cross:
            self._add_checksums(call)
        if output is not None and keep_vectors:
            self.outputs.append(output)
        self.calls.append(kept if keep_vectors else _without_vectors(kept))

    def _add_checksums(self, call: Call) -> None:
        count = call.queries.shape[2]
        end = call.query_offset - call.key_offset + count
        new = checksums(call.keys[:, :, max(end - min(count, CHECKED), 0) : end])
        if self.checksums is None or count > CHECKED:
            self.checksums = new
            return
        before = self.checksums if self.parents[-1] is None else self.checksums[self.parents[-1]]
        self.checksums = torch.cat([before, new], 1)

    def add_part(self, call: Call, output: Tensor, statistics: Run, keep_vectors: bool) -> None:
        """A further part of the same sequence, which attends only to itself: one image, or one window, of several.

        statistics   of the part
        """
        first = self.calls[-1]
        if first.batch != 1 or call.batch != 1 or self.pooled is not None:
            self.problem = "this layer computes its sequence in parts, which cannot be joined into one batch or map"
            return
        if not keep_vectors:
            self._add_part_statistics(statistics)
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

    def _add_part_statistics(self, more_rows: Run) -> None:
        self.statistics[-1] = {
            name: torch.cat([rows, more_rows.statistics[0][name]], 2) for name, rows in self.statistics[-1].items()
        }
        if self.top:
            (index, weight), (more, more_weight) = self.top[-1], more_rows.top[0]
            width = max(index.shape[-1], more.shape[-1])
            more = torch.where(more >= 0, more.int() + self.parts[0], more)  # from the first key of all parts on
            self.top[-1] = (
                torch.cat([widen(index.int(), width, -1), widen(more, width, -1)], 2),
                torch.cat([widen(weight, width, 0), widen(more_weight, width, 0)], 2),
            )
        if self.column_sums is not None and more_rows.column_sums is not None:
            self.column_sums = torch.cat([self.column_sums, more_rows.column_sums], 2)

    def continues(self, call: Call) -> bool:
        """Whether a call of self-attention goes on from the last token of this run, or from one before it.

        In the second case, the tokens that were taken back are forgotten.
        """
        position = call.query_offset
        if not self.calls or not 0 < position <= self.end or position <= self.calls[0].query_offset:
            return False
        if position == self.end and not call.guessed:
            return True
        if not self.has_keys_of(call):
            return False
        back = self.end - position
        if back:
            self.take_back(back)
            self.checksums = None if self.checksums is None else self.checksums[:, :-back]
        return True

    def has_keys_of(self, call: Call) -> bool:
        """Whether the key before the first query of a call is the one that was recorded at that position."""
        call, marks = call.trim(), self.checksums
        seen = 0 if marks is None else marks.shape[1] - (self.end - call.query_offset)
        if marks is None or marks.shape[0] != call.batch or not 0 < seen <= marks.shape[1]:
            return False
        at = call.query_offset - 1 - call.key_offset
        return at >= 0 and torch.equal(checksums(call.keys[:, :, at : at + 1]), marks[:, seen - 1 : seen])

    def take_back(self, count: int) -> None:
        """Forget the last tokens."""
        self._joined = None
        while len(self.calls) > 1 and self.calls[-1].queries.shape[2] <= count:
            count -= self.calls[-1].queries.shape[2]
            for parts in (self.calls, self.outputs, self.parents, self.statistics, self.top):
                del parts[-1:]
        self._shorten(self.calls[-1].queries.shape[2] - count)
        if self.column_sums is not None:
            self.column_sums = None
            self.column_sums_problem = "tokens were taken back, whose weights are already in the sums"

    def _shorten(self, count: int) -> None:
        """Keep so many queries of the last call."""
        call = self.calls[-1]
        taken = call.queries.shape[2] - count
        if not taken:
            return
        lost = 0 if call.cross else taken
        end = call.keys.shape[2] - lost
        rule = part_of(call.rule, slice(count), 2)
        if isinstance(rule, MaskCall):
            rule = replace(rule, queries=count, keys=rule.keys - lost)
        queries, keys, values = call.queries[:, :, :count], call.keys[:, :, :end], call.values[:, :, :end]
        bias = part_of(call.bias, slice(count), 2)
        self.calls[-1] = replace(call, queries=queries, keys=keys, values=values, rule=rule, bias=bias)
        if self.outputs:
            self.outputs[-1] = self.outputs[-1][:, :count]
        if self.statistics:
            self.statistics[-1] = {name: rows[:, :, :count] for name, rows in self.statistics[-1].items()}
        if self.top:
            index, weight = self.top[-1]
            self.top[-1] = index[:, :, :count], weight[:, :, :count]

    @property
    def tokens(self) -> int:
        """The number of queries of all calls."""
        return sum(int(call.queries.shape[2]) for call in self.calls)

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
        keys, values = call.keys[:, :, tokens].clone(), call.values[:, :, tokens].clone()
        return replace(call, keys=keys, values=values, position=call.query_offset)

    def _parents(self, call: Call) -> Tensor | None:
        """For each sequence of this call, the sequence of the call before whose keys it continues."""
        assert self.checksums is not None
        at = self.end - 1 - call.key_offset
        before, now = self.checksums, checksums(call.keys[:, :, at : at + 1])
        if before.shape[0] == 1 == now.shape[0]:
            if not torch.equal(before[:, -1:], now):
                self._lose_track()
            return None
        same = before[None, :, -1] == now  # (batch now, batch before)
        if bool((same.sum(1) > 1).any()):  # equal last tokens: compare what came before as well
            length = min(before.shape[1], at + 1)
            now = checksums(call.keys[:, :, at + 1 - length : at + 1])
            same = (before[None, :, -length:] == now[:, None]).all(-1)
        count = min(same.shape)
        parents = torch.where(same.any(1), same.int().argmax(1), -1)
        same_row = torch.arange(count, device=parents.device)
        parents[:count] = torch.where(
            same[same_row, same_row], same_row, parents[:count]
        )  # of equal sequences, the same place
        if bool((parents < 0).any()):
            self._lose_track()
            return None
        is_same = before.shape[0] == len(parents) and torch.equal(parents, same_row)
        return None if is_same else parents

    def _lose_track(self) -> None:
        self.problem = (
            "the cache returned other keys than the layer computed before, as quantised caches do, so the steps of "
            "this generation cannot be joined"
        )

    # Joining the calls

    def gather(self, parts: Sequence[Tensor], rows: Tensor | None, axis: int = 2) -> Tensor:
        """The parts of all calls along the token axis, following each sequence back through its parents."""
        if len(parts) == 1 and rows is None:
            return parts[0]
        gathered = []
        for part, parent in zip(reversed(parts), reversed(self.parents[: len(parts)]), strict=True):
            gathered.append(part if rows is None else part[rows.to(part.device)])
            if parent is not None:
                rows = parent if rows is None else parent[rows.to(parent.device)]
        return _concatenated(gathered[::-1], axis)

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
        queries = self.gather([call.queries for call in self.calls], None)
        keys, values = (self._of_all([getattr(call, name) for call in self.calls]) for name in ("keys", "values"))
        rule = self._joined_rule(queries.shape[2], keys.shape[2])
        bias = self._joined_bias(keys.shape[2])
        edges = tuple(edges for call in self.calls for edges in call.edges)
        made = replace(last, queries=queries, keys=keys, values=values, rule=rule, bias=bias, static=False, edges=edges)
        self._joined = replace(made, position=first.query_offset)
        if self._joined.batch == 1 and not self.statistics:  # no beams: the steps are not needed any more
            self.outputs = [torch.cat(self.outputs, 1)] if self.outputs else []
            self.calls, self.parents = [self._joined], [None]
        return self._joined

    def _of_all(self, parts: Sequence[Tensor]) -> Tensor:
        """Keys or values of all calls; those of cross-attention come with the first call, in the order of the last."""
        if not self.calls[0].cross:
            return self.gather(parts, None)
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
        if last.cross and all(isinstance(rule, TensorMask) and rule.tensor.shape[2] == 1 for rule in rules):
            return last.rule
        rows = [dense_mask(call, keys) for call in self.calls]
        kind = next((part.dtype for part in rows if part.dtype != torch.bool), None)
        if kind is not None:  # numbers that are added to the scores
            zero, hidden = torch.tensor([0, -torch.inf], dtype=kind, device=rows[0].device)
            rows = [torch.where(part, zero, hidden) if part.dtype == torch.bool else part for part in rows]
        heads = max(part.shape[1] for part in rows)
        return TensorMask(self.gather([part.expand(-1, heads, -1, -1) for part in rows], None))

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
        calls = [call.of_sequences(chosen[:, step]) for step, call in enumerate(self.calls[:count])]
        last = calls[-1]
        if isinstance(last.rule, MaskCall) and not last.cross:  # queries after the end of a sequence are padding
            tokens = last.query_offset + last.queries.shape[2]
            real = torch.arange(tokens, device=rows.device) < (tokens - count + lengths)[:, None]
            before = last.rule.padding
            padding = real if before is None else real & before[:, :tokens]
            calls[-1] = replace(last, rule=replace(last.rule, padding=padding))
        statistics = [
            {name: rows[chosen[:, step]] for name, rows in of_call.items()}
            for step, of_call in enumerate(self.statistics[:count])
        ]
        top = [(index[chosen[:, at]], weight[chosen[:, at]]) for at, (index, weight) in enumerate(self.top[:count])]
        outputs = [output[chosen[:, step]] for step, output in enumerate(self.outputs[:count])]
        return Run(self.owner, self.forward, calls, outputs, [None] * count, statistics, top, problem=self.problem)

    def row_statistic(self, name: str) -> Tensor:
        """One statistic of every query, (batch, head, query)."""
        return self.gather([of_call[name] for of_call in self.statistics], None)

    def strongest(self) -> tuple[Tensor, Tensor]:
        """Index and weight of the strongest keys of all queries."""
        width = max(index.shape[-1] for index, _ in self.top)
        index = self.gather([widen(part, width, -1) for part, _ in self.top], None)
        return index, self.gather([widen(part, width, 0) for _, part in self.top], None)


def widen(part: Tensor, width: int, fill: int) -> Tensor:
    """With so many columns, the further ones filled."""
    return torch.nn.functional.pad(part, (0, width - part.shape[-1]), value=fill)


def checksums(keys: Tensor) -> Tensor:
    """One number for the bits of each token's keys (batch, head, token, head_dim): int64 (batch, token)."""
    bits = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.int8}[keys.dtype.itemsize]
    numbers = keys.detach().contiguous().view(bits).long()
    return (numbers * _multipliers(keys.shape[1], keys.shape[3], keys.device)).sum((1, 3))


@lru_cache(maxsize=16)
def _multipliers(heads: int, size: int, device: torch.device) -> Tensor:
    made = torch.randint(-(1 << 62), 1 << 62, (heads, 1, size), generator=torch.Generator().manual_seed(1))
    return made.to(device)


def _without_vectors(call: Call) -> Call:
    """The call with its shapes and mask only."""
    queries, keys, values = (_placeholder(part, part.shape) for part in (call.queries, call.keys, call.values))
    return replace(call, queries=queries, keys=keys, values=values, bias=None)


def _placeholder(like: Tensor, shape: Sequence[int]) -> Tensor:
    """A tensor of a shape, without its memory."""
    return like.new_empty((1,)).expand(tuple(shape))


def _concatenated(parts: Sequence[Tensor], axis: int) -> Tensor:
    if all(part.untyped_storage().nbytes() < part.numel() for part in parts):  # placeholders
        shape = list(parts[0].shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        return _placeholder(parts[0], shape)
    return torch.cat(list(parts), axis)


def dense_mask(call: Call, keys: int) -> Tensor:
    """The mask of one call as a tensor (batch, head or 1, query, all keys): booleans, or numbers that are added."""
    count, rule = call.queries.shape[2], call.rule
    if isinstance(rule, TensorMask):
        tile = rule.tensor.expand(call.batch, -1, count, -1)
    else:
        mask = rule.mask()
        if mask is None:
            tile = torch.ones((call.batch, 1, count, rule.keys), dtype=torch.bool, device=call.queries.device)
        else:
            visible = mask.visible(
                queries=count, keys=rule.keys, batch=call.batch, heads=call.queries.shape[1],
                offset=rule.offset, xp=torch, device=call.queries.device,
            )  # fmt: skip
            tile = visible.tile(slice(0, count), slice(0, rule.keys)).expand(call.batch, -1, count, -1)
    before = call.key_offset
    after = keys - tile.shape[3] - before
    hidden = False if tile.dtype == torch.bool else -torch.inf
    return torch.nn.functional.pad(tile[..., : keys - before], (before, max(after, 0)), value=hidden)

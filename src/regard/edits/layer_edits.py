"""What edits do to one call of an attention layer: its mask, its patterns and values, the outputs of its heads.

The outputs come as the layer computed them, at its own speed. Only what an edit changes is computed again: rows with
blocked edges, in strips of at most `STRIP` booleans, and single heads with another run's queries, keys or values. So
nothing of size query × key is built. The same code serves NumPy arrays and PyTorch tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import Any

import numpy as np

from regard import arrays, errors
from regard.arrays import Array
from regard.attention import Attention
from regard.edits.edit import BlockEdit, HeadEdit, PatchEdit, ScaleEdit, SilenceEdit
from regard.edits.sources import Means
from regard.edits.texts import Indices, TextSpan
from regard.engines import score_parts
from regard.engines.interface import Scores
from regard.engines.select import engine_for
from regard.masks import Mask
from regard.masks.kinds import Edges
from regard.reading.edit import Edit

STRIP = 1 << 23  # booleans of a mask that are evaluated at once: 8 MiB
STRIP_ROWS = 128  # rows that are computed at once, against the keys that any of them sees: few, so that these are few


@dataclass(frozen=True, eq=False)
class Site:
    """One call of an attention layer: which tokens its queries and keys are."""

    layer: int
    texts: tuple[TextSpan, ...]  # of the queries
    key_texts: tuple[TextSpan, ...]  # of the keys: the same ones, except in cross-attention
    first_query: int = 0  # the token that query 0 is, among those of a row
    first_key: int = 0


@dataclass(frozen=True, eq=False)
class RunEdits:
    """The edits of one run, and its texts."""

    parts: tuple[Edit, ...]
    texts: tuple[TextSpan, ...]

    def touches(self, layer: int) -> bool:
        """Whether the attention of a layer is changed."""
        return any(part.touches(layer) and getattr(part, "what", "") != "residual" for part in self.parts)

    def of_call(
        self, layer: int, attention: Attention, values: Array, first_query: int = 0, first_key: int = 0
    ) -> LayerEdits:
        """The edits of one call of a layer; see `LayerEdits`."""
        parts = [part for part in self.parts if part.touches(layer)]
        return LayerEdits(parts, Site(layer, self.texts, self.texts, first_query, first_key), attention, values)

    def edit_states(self, layer: int, states: Array) -> Array:
        """The hidden states before a layer, (token, width), with those of other runs in their place."""
        return edit_states(self.parts, layer, states[None], self.texts)[0]


class LayerEdits:
    """The edits of one call of a layer."""

    def __init__(self, parts: Sequence[Edit], site: Site, attention: Attention, values: Array) -> None:
        """`attention` has the axes (batch, head, query, key), `values` (batch, key head, key, value_dim)."""
        self.parts, self.site, self.values = tuple(parts), site, values
        self.batch, self.heads, self.queries, self.keys = attention.shape
        self.start = attention.offset if isinstance(attention.offset, int) else 0  # position of query 0, for masks
        self.blocks = [part for part in parts if isinstance(part, BlockEdit)]
        masks = [self._edges(part) for part in self.blocks if not part.after_softmax]
        self.edges: list[Edges] = [edges for edges in masks if edges is not None]
        self.attention = self.hidden(attention)

    def hidden(self, attention: Attention) -> Attention:
        """An attention with the blocked edges hidden."""
        if not self.edges:
            return attention
        mask: Mask = reduce(and_, [~edges for edges in self.edges])
        both = mask if attention.mask is None else attention.mask & mask
        # Masks of edges are evaluated for positions: where the attention has no offset, query 0 is key 0.
        return replace(attention, mask=both, offset=0 if attention.offset is None else attention.offset)

    def mask_within(self, start: int, length: int) -> Mask | None:
        """The mask for the tokens of one text among those of a packed row, positions counted from its first."""
        masks: list[Mask] = []
        for edges in self.edges:
            inside = (edges.queries >= start) & (edges.queries < start + length)
            if inside.any():
                heads = None if edges.heads is None else edges.heads[inside]
                masks.append(~Edges(edges.queries[inside] - start, edges.keys[inside] - start, heads=heads))
        return reduce(and_, masks) if masks else None

    def apply(self, outputs: Array) -> Array:
        """The outputs of all heads, (batch, head, query, value_dim), changed; in place unless they need gradients."""
        outputs = outputs.clone() if arrays.needs_gradient(outputs) else outputs
        for edges in self._rows_of_edges():
            self._attend_rows(outputs, *edges)
        for part in self.parts:
            if isinstance(part, BlockEdit) and part.after_softmax:
                self._subtract(part, outputs)
            elif isinstance(part, PatchEdit):
                self._patch(part, outputs)
            elif isinstance(part, HeadEdit):
                self._set_heads(part, outputs)
        return outputs

    # Edges

    def _edges(self, part: BlockEdit) -> Edges | None:
        """The blocked pairs of a call; None where it has none of them. Positions count from the first key."""
        sequences, queries, keys = [], [], []
        heads = part.heads_in(self.site.layer, self.heads)
        for text, of_keys in zip(self.site.texts, self.site.key_texts, strict=True):
            for rows, columns in self._pairs(part, text, of_keys):
                queries.append(rows)
                keys.append(columns)
                sequences.append(np.full(len(rows), text.row))
        sequence, row, column = (np.concatenate(parts) for parts in (sequences, queries, keys))
        if not len(row):
            return None
        every = len(heads) == self.heads
        if every:
            return Edges(row + self.start, column, sequence)
        count = len(heads)
        return Edges(
            np.tile(row + self.start, count),
            np.tile(column, count),
            np.tile(sequence, count),
            np.repeat(heads, len(row)),
        )

    def _pairs(self, part: BlockEdit, text: TextSpan, of_keys: TextSpan) -> Iterator[tuple[Indices, Indices]]:
        """The blocked pairs of one text, as indices into the queries and keys of this call."""
        first, first_key = self.site.first_query, self.site.first_key
        if part.index_pairs is not None:
            lengths, starts = np.array([[text.length, of_keys.length], [text.start - first, of_keys.start - first_key]])
            rows, columns = (np.where(part.index_pairs < 0, part.index_pairs + lengths, part.index_pairs) + starts).T
            inside = (rows >= 0) & (rows < self.queries) & (columns >= 0) & (columns < self.keys)
            yield rows[inside], columns[inside]
            return
        for query, key in part.pairs or [(part.queries, part.keys)]:
            rows = self._local(text.tokens("queries", query), text, first, self.queries)
            columns = self._local(of_keys.tokens("keys", key), of_keys, first_key, self.keys)
            yield np.repeat(rows, len(columns)), np.tile(columns, len(rows))

    def _local(self, tokens: Indices | None, text: TextSpan, first: int, count: int) -> Indices:
        """Tokens of a row as indices into the queries or keys of this call, those outside left out."""
        if tokens is None:  # of this text, generated ones included
            several = sum(other.row == text.row for other in self.site.texts) > 1
            end = text.start + text.length if several else first + count
            tokens = np.arange(text.start, end)
        local = tokens - first
        return local[(local >= 0) & (local < count)]

    def _rows_of_edges(self) -> Iterator[tuple[int, list[int], Indices]]:
        """Sequence, heads and queries whose rows must be computed again because edges are blocked."""
        if not self.edges:
            return
        every = any(edges.heads is None for edges in self.edges)
        heads = range(self.heads) if every else sorted({int(h) for edges in self.edges for h in np.unique(edges.heads)})
        pairs = (np.stack([edges.sequences, edges.queries], axis=1) for edges in self.edges)
        rows = [(int(sequence), int(query)) for both in pairs for sequence, query in np.unique(both, axis=0)]
        for sequence in sorted({sequence for sequence, _ in rows}):
            queries = np.unique([query for of, query in rows if of == sequence]) - self.start
            yield sequence, list(heads), queries

    def _attend_rows(self, outputs: Array, sequence: int, heads: list[int], rows: Indices) -> None:
        """Compute some queries of one sequence again, with the blocked edges hidden."""
        chosen = slice(None) if len(heads) == self.heads else np.array(heads)
        scores = score_parts.selected(self.attention.scores, slice(sequence, sequence + 1), chosen)
        values = self.values[sequence : sequence + 1]
        values = score_parts.taken(values, score_parts.key_heads(chosen, self.heads, values.shape[1]), 1)
        engine = engine_for(scores.queries)
        step = max(1, STRIP // (self.keys * (len(heads) if len(heads) < self.heads else 1)))
        for some in arrays.chunks(len(rows), min(step, STRIP_ROWS)):
            strip = rows[some]
            keys = _reach(scores, strip)
            part, _ = engine.forward(
                score_parts.lattice(scores, strip, keys), _like(values[:, :, keys], scores.queries)
            )  # fmt: skip
            assert part is not None
            _assign(outputs, sequence, heads, strip, part[0])

    def _subtract(self, part: BlockEdit, outputs: Array) -> None:
        """Weights of blocked pairs set to zero after the softmax: what they carried is subtracted."""
        edges = self._edges(part)
        if edges is None:
            return
        group = self.heads // self.values.shape[1]
        heads = part.heads_in(self.site.layer, self.heads)
        plain = replace(edges, heads=None)
        count = len(edges.queries) if edges.heads is None else len(edges.queries) // len(heads)
        triples = [array[:count] for array in (plain.sequences, plain.queries, plain.keys)]
        step = max(1, STRIP // 32 // max(1, self.values.shape[-1]))
        for head in heads:
            for some in arrays.chunks(count, step):
                sequences, queries, keys = (array[some] for array in triples)
                queries = queries - self.start
                weights = self.attention[sequences, head, queries, keys]
                carried = weights[:, None] * self.values[sequences, head // group, keys]
                _subtract_at(outputs, (sequences, head, queries), carried)

    # Heads

    def _set_heads(self, part: HeadEdit, outputs: Array) -> None:
        heads = part.heads_in(self.site.layer, self.heads)
        if isinstance(part, SilenceEdit) and part.to == "resample":
            self._resample(part, heads, outputs)
            return
        for row, queries in self._rows(part):
            if isinstance(part, ScaleEdit):
                if queries is None:
                    outputs[row, heads] = outputs[row, heads] * part.factor
                else:
                    _assign(outputs, row, heads, queries, _taken(outputs, row, heads, queries) * part.factor)
            elif isinstance(part, SilenceEdit):
                value: Any = 0.0
                if isinstance(part.to, Means):
                    value = _array_like(self._means(part.to)[heads][:, None], outputs)  # (head, 1, value_dim)
                if queries is None:
                    outputs[row, heads] = value
                else:
                    _assign(outputs, row, heads, queries, value)

    def _means(self, means: Means) -> Any:
        if self.site.layer not in means.of_layers:
            raise errors.OptionError(f"The means have no layer {self.site.layer}: compute them with the same model.")
        of_layer = means.of_layers[self.site.layer]
        shape = (self.heads, self.values.shape[-1])
        if of_layer.shape != shape:
            raise errors.ShapeError(
                f"The means of layer {self.site.layer} have shape {of_layer.shape}; its heads have {shape}.\n"
                "Compute them with the same model."
            )
        return of_layer

    def _rows(self, part: HeadEdit | PatchEdit) -> list[tuple[int, Indices | None]]:
        """The queries of this call that an edit selects, per row of the batch; None: all."""
        if part.positions is None:
            return [(row, None) for row in range(self.batch)]
        of_rows: dict[int, list[Indices]] = {}
        for text in self.site.texts:
            tokens = text.tokens("positions", part.positions)
            of_rows.setdefault(text.row, []).append(self._local(tokens, text, self.site.first_query, self.queries))
        return [(row, np.unique(np.concatenate(several))) for row, several in of_rows.items()]

    def _resample(self, part: SilenceEdit, heads: list[int], outputs: Array) -> None:
        """Each text gets the outputs of another one, by a permutation without fixed points."""
        texts = self.site.texts
        if len(texts) < 2:
            raise errors.OptionError(
                "`resample` takes a head's output from another example of the batch, and this one has a single text.\n"
                "Give several texts, or silence to zero or to a mean."
            )
        order = np.random.default_rng(part.seed).permutation(len(texts))
        other_of = dict(zip(order, np.roll(order, -1), strict=True))
        by_index = {text.index: text for text in texts}
        before = arrays.copied(outputs[:, heads])
        for index, text in by_index.items():
            other = by_index[int(other_of[index])]
            rows = self._local(text.tokens("positions", part.positions), text, self.site.first_query, self.queries)
            tokens = rows + self.site.first_query - text.start
            there = other.start + np.minimum(tokens, other.length - 1) - self.site.first_query
            if self.site.first_query:  # with a KV cache, all texts are at the same token
                there = np.clip(there, 0, self.queries - 1)
            moved = before[other.row][:, there]
            _assign(outputs, text.row, heads, rows, moved)

    # Another run

    def _patch(self, part: PatchEdit, outputs: Array) -> None:
        if part.what == "residual":
            return
        heads = part.heads_in(self.site.layer, self.heads)
        for text, of_keys in zip(self.site.texts, self.site.key_texts, strict=True):
            index = source_index(part, text, len(self.site.texts))
            source = part.source.layer(index, self.site.layer, part.stack)
            if part.what == "outputs":
                here, there = self._aligned(part, text, self.site.first_query, self.queries, source.outputs.shape[1])
                _assign(outputs, text.row, heads, here, _array_like(source.outputs[heads][:, there], outputs))
            else:
                self._attend_with(part, text, of_keys, heads, source, outputs)

    def _aligned(self, part: PatchEdit, text: TextSpan, first: int, count: int, length: int) -> tuple[Indices, Indices]:
        """Queries or keys of this call, and the tokens of the other run that stand for them."""
        here, there = aligned_tokens(part, text, length, has_begun=bool(self.site.first_query))
        local = here - first
        inside = (local >= 0) & (local < count)
        return local[inside], there[inside]

    def _attend_with(
        self, part: PatchEdit, text: TextSpan, of_keys: TextSpan, heads: list[int], source: Any, outputs: Array
    ) -> None:
        """Outputs of some heads with the queries and keys, or the values, of another run."""
        group = self.heads // self.values.shape[1]
        sequence = slice(text.row, text.row + 1)
        chosen = np.array(heads)
        scores = score_parts.selected(self.attention.scores, sequence, chosen)
        values = self.values[sequence][:, chosen // group]
        if scores.keys.shape[1] != len(heads):  # heads of one group share keys
            scores = replace(scores, keys=self.attention.scores.keys[sequence][:, chosen // group])
        if part.what == "values":
            keys, there = self._aligned(part, of_keys, self.site.first_key, self.keys, source.values.shape[1])
            values = arrays.copied(values)
            values[:, :, keys] = _array_like(source.values[chosen // group][:, there], values)[None]
            rows: Indices = self._local(None, text, self.site.first_query, self.queries)
        else:
            rows, there = self._aligned(part, text, self.site.first_query, self.queries, source.queries.shape[1])
            if not len(rows):
                return
            count = source.keys.shape[1]
            if count != of_keys.length:
                raise _other_length(part, count, of_keys.length)
            # Padding and other texts in the same row keep their own keys: the mask hides them from these queries.
            keys = np.arange(count) + of_keys.start - self.site.first_key
            queries, of_source = arrays.copied(scores.queries), arrays.copied(scores.keys)
            queries[:, :, rows] = _array_like(source.queries[chosen][:, there], queries)[None]
            group_there = self.heads // source.keys.shape[0]
            of_source[:, :, keys] = _array_like(source.keys[chosen // group_there], of_source)[None]
            scores = replace(scores, queries=queries, keys=of_source)
        if not len(rows):
            return
        part_scores = _consecutive(scores, rows)
        computed, _ = engine_for(scores.queries).forward(part_scores, _like(values, scores.queries))
        assert computed is not None
        _assign(outputs, text.row, heads, rows, computed[0])


def source_index(part: PatchEdit, text: TextSpan, texts: int) -> int:
    """Which text of the other run stands for a text of this one."""
    count = part.source.texts()
    if count not in (1, texts):
        raise errors.OptionError(
            f"The other run has {errors.count(count, 'text')}, this one {texts}: give one for each, or one for all."
        )
    return 0 if count == 1 else text.index


def aligned_tokens(part: PatchEdit, text: TextSpan, length: int, *, has_begun: bool = False) -> tuple[Indices, Indices]:
    """Tokens of a row that are patched, and the tokens of the other run that stand for them."""
    if part.align is not None:
        pairs = np.array(part.align, np.int64).reshape(-1, 2)
        for name, tokens, most in (("this run", pairs[:, 0], text.length), ("the other run", pairs[:, 1], length)):
            if len(tokens) and tokens.max() >= most:
                raise errors.OutOfRange(
                    f"`align` names token {tokens.max()} of {name}, which has {errors.count(most, 'token')}, counted "
                    "from 0."
                )
        here, there = pairs[:, 0] + text.start, pairs[:, 1]
    else:
        if length != text.length and not has_begun:
            raise _other_length(part, length, text.length)
        there = np.arange(min(length, text.length))
        here = there + text.start
    chosen = text.tokens("positions", part.positions)
    if chosen is not None:
        inside = np.isin(here, chosen)
        here, there = here[inside], there[inside]
    return here, there


def _other_length(part: PatchEdit, there: int, here: int) -> errors.OptionError:
    counts = f"The other run has {errors.count(there, 'token')}, this one {here}"
    if part.what == "pattern":
        return errors.OptionError(f"{counts}: a pattern is taken whole, so both runs need equally many tokens.")
    return errors.OptionError(f"{counts}: say which token stands for which, align={{token here: token there}}.")


def edit_states(parts: Sequence[Edit], layer: int, states: Array, texts: Sequence[TextSpan], first: int = 0) -> Array:
    """The hidden states before a layer, (row, token, width), with those of other runs in their place."""
    patches = [
        part for part in parts if isinstance(part, PatchEdit) and part.what == "residual" and part.touches(layer)
    ]
    if not patches:
        return states
    states = arrays.copied(states)
    for part in patches:
        for text in texts:
            source = part.source.state(source_index(part, text, len(texts)), layer, part.stack)
            here, there = aligned_tokens(part, text, source.shape[0], has_begun=bool(first))
            local = here - first
            inside = (local >= 0) & (local < states.shape[1])
            states[text.row, local[inside]] = _array_like(source[there[inside]], states)
    return states


# Arrays of either library


def _reach(scores: Scores, rows: Indices) -> slice:
    """The keys that any of some queries may see, as far as intervals say."""
    visible = scores.visible
    if visible is None or visible.first is None or visible.last is None or visible.second_first is not None:
        return slice(None)
    first, last = int(visible.first[:, rows].min()), int(visible.last[:, rows].max())
    return slice(first, last) if first < last else slice(0, 1)


def _consecutive(scores: Scores, rows: Indices) -> Scores:
    """The scores of some queries, as a slice where they are consecutive."""
    if len(rows) == scores.queries.shape[2]:
        return scores
    if rows[-1] - rows[0] + 1 == len(rows):
        return score_parts.of_rows(scores, slice(int(rows[0]), int(rows[-1]) + 1))
    return score_parts.lattice(scores, rows, slice(None))


def _assign(outputs: Array, row: int, heads: Sequence[int], queries: Indices, value: Any) -> None:
    """outputs[row, heads, queries] = value, (head, query, value_dim)."""
    outputs[row, np.array(heads)[:, None], queries[None]] = value


def _taken(outputs: Array, row: int, heads: Sequence[int], queries: Indices) -> Array:
    return outputs[row, np.array(heads)[:, None], queries[None]]


def _subtract_at(outputs: Array, index: tuple[Any, Any, Any], rows: Array) -> None:
    """outputs[index] −= rows, where the same index may occur several times."""
    if isinstance(outputs, np.ndarray):
        np.subtract.at(outputs, index, rows)
        return
    sequences, head, queries = index
    of_head: Any = outputs[:, head]
    cells = tuple(score_parts.like(index, outputs) for index in (sequences, queries))
    of_head.index_put_(cells, -rows.to(of_head.dtype), accumulate=True)


def _array_like(array: Any, like: Array) -> Any:
    """Numbers of either library as an array of the library, type and device of `like`."""
    if isinstance(like, np.ndarray):
        return arrays.numpy_of(array).astype(like.dtype, copy=False)
    if hasattr(array, "detach"):
        return array.to(like.device, like.dtype)
    return like.new_tensor(array)


def _like(values: Array, queries: Array) -> Array:
    return values if values.dtype == queries.dtype else _array_like(values, queries)

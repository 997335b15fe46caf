"""Generation token by token with a KV cache, which keeps all that a `Reading` of the text needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from regard import errors, validate
from regard.arrays import Array
from regard.edits.layer_edits import RunEdits
from regard.layers import Heads, LayerAttention, MultiHead, Transformer
from regard.layers.encoder import Attend, result_of
from regard.models.forward import LayerRun, packed, run
from regard.models.tokens import Tokeniser


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen from the logits."""

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        validate.number("temperature", self.temperature, least=0)
        if self.top_p is not None:
            validate.number("top_p", self.top_p, above=0, most=1)
        if self.top_k is not None:
            validate.integer("top_k", self.top_k, 1)
        validate.integer("seed", self.seed, 0)

    def sampler(self) -> Callable[[Array], int]:
        """A function from logits (vocabulary,) to a token id; each call draws the next random number."""
        if self.temperature == 0:
            return lambda logits: int(logits.argmax())
        bits = np.random.PCG64(np.random.SeedSequence(self.seed))  # its raw bits are the same on every machine
        return lambda logits: self._sample(logits, (int(bits.random_raw()) >> 11) * 2.0**-53)

    def probabilities(self, logits: Array) -> tuple[Array, Array]:
        """The tokens that can be sampled, most likely first, and the probability of each.

        >>> tokens, probabilities = Sampling(temperature=1.0, top_k=2).probabilities(np.log([0.1, 0.6, 0.3]))
        >>> tokens.tolist(), probabilities.round(2).tolist()
        ([1, 2], [0.67, 0.33])
        """
        if self.temperature == 0:
            return logits.argmax()[None], np.ones(1)
        order, cumulative = self._cumulative(logits)
        return order, np.diff(cumulative, prepend=0.0)

    def _sample(self, logits: Array, uniform: float) -> int:
        """The token at which the cumulative probability, largest first, exceeds a uniform number from [0, 1)."""
        order, cumulative = self._cumulative(logits)
        return int(order[min(int(np.searchsorted(cumulative, uniform, side="right")), len(cumulative) - 1)])

    def _cumulative(self, logits: Array) -> tuple[Array, Array]:
        """The tokens that can be sampled, most likely first, and their cumulative probabilities."""
        order = np.argsort(-logits, kind="stable")[: self.top_k]
        scaled = logits[order].astype(np.float64) / self.temperature
        likely = np.exp(scaled - scaled[0])
        cumulative = np.cumsum(likely) / likely.sum()
        if self.top_p is not None:
            count = min(int(np.searchsorted(cumulative, self.top_p)) + 1, len(cumulative))
            order, cumulative = order[:count], cumulative[:count] / cumulative[count - 1]
        return order, cumulative


@dataclass(frozen=True, eq=False)
class LayerCache:
    """The KV cache of one layer, with the queries, outputs and states that a reading needs; allocated once."""

    queries: Array  # (head, token, head_dim)
    keys: Array  # (key head, token, head_dim)
    values: Array
    outputs: Array  # (token, head · head_dim)
    states: Array  # (token, width)

    @classmethod
    def after(cls, done: LayerRun, capacity: int) -> LayerCache:
        """The cache after the prompt, with room for `capacity` tokens in all."""
        queries, keys, values = (_with_capacity(part, capacity, 1) for part in done.heads[:3])
        outputs, states = (_with_capacity(part, capacity, 0) for part in (done.outputs, done.result))
        return cls(queries, keys, values, outputs, states)

    def attend(self, place: int, editing: tuple[int, RunEdits] | None = None) -> Attend:
        """Attention of the token at `place`: it sees all cached tokens within the window, so no mask is needed."""

        def attend(layer: MultiHead, x: Array) -> Heads:
            queries, keys, values = layer.projections(x, layer.turns(place, x))
            self.queries[:, place] = queries[:, 0]
            self.keys[:, place] = keys[:, 0]
            self.values[:, place] = values[:, 0]
            first = 0 if layer.window is None else max(0, place - layer.window)
            seen = slice(first, place + 1)
            offset = None if layer.alibi is None else place - first
            attention = layer.look(queries[None], self.keys[None, :, seen], offset=offset, visible=True)
            of_heads = attention @ self.values[None, :, seen]
            if editing is not None:
                number, edit = editing
                of_heads = edit.of_call(number, attention, self.values[None, :, seen], place, first).apply(of_heads)
            outputs = layer.concatenate(of_heads)[0]  # (1, head · head_dim)
            self.outputs[place] = outputs[0]
            return Heads(outputs, attention)

        return attend


class Generation:
    """The tokens so far, and what every layer computed for them."""

    def __init__(self, transformer: Transformer, ids: Sequence[int], tokens: int, edit: RunEdits | None = None) -> None:
        self.transformer = transformer
        self.edit = edit
        self.ids = list(ids)
        capacity = len(ids) + tokens
        steps = list(run(transformer, packed([ids]), edit=edit))
        self.embedded = _with_capacity(steps[0].before, capacity, 0)
        self.last = steps[-1].result[-1:]
        self.caches = [LayerCache.after(step, capacity) for step in steps]

    def logits(self) -> Array:
        """The logits of the next token, (vocabulary,)."""
        model = self.transformer
        assert model.head is not None
        x = self.last if model.norm is None else model.norm(self.last)
        logits: Array = model.head(x)[0]
        return logits

    def append(self, number: int) -> None:
        """Compute all blocks for one more token."""
        position = len(self.ids)
        self.ids.append(number)
        x = self.transformer.embed(np.array([number]), position)
        self.embedded[position] = x[0]
        for number, (block, cache) in enumerate(zip(self.transformer.encoders, self.caches, strict=True)):
            editing = (number, self.edit) if self.edit is not None and self.edit.touches(number) else None
            x = result_of(block.observe(x, attend=cache.attend(position, editing)))
            cache.states[position] = x[0]
        self.last = x

    def tokens(self, count: int, sampling: Sampling) -> Iterator[int]:
        """Up to `count` further tokens, each appended before it is yielded."""
        sample = sampling.sampler()
        for _ in range(count):
            number = sample(self.logits())
            self.append(number)
            yield number

    def seen(self) -> tuple[LayerAttention, ...]:
        """The attention and values of every layer over all tokens."""
        written = slice(0, len(self.ids))
        layers = []
        for number, (block, cache) in enumerate(zip(self.transformer.encoders, self.caches, strict=True)):
            values = cache.values[:, written]
            attention = block.attention.look(cache.queries[:, written], cache.keys[:, written])
            if self.edit is not None and self.edit.touches(number):
                whole = block.attention.look(cache.queries[None, :, written], cache.keys[None, :, written])
                attention = self.edit.of_call(number, whole, values[None]).attention.select(batch=0)
            layers.append(LayerAttention(attention, values))
        return tuple(layers)

    def outputs(self) -> tuple[Array, ...]:
        """The outputs of the heads of every layer, (head, token, head_dim)."""
        layers = zip(self.transformer.encoders, self.caches, strict=True)
        return tuple(block.attention.split(cache.outputs[: len(self.ids)]) for block, cache in layers)

    def states(self) -> tuple[Array, ...]:
        """The hidden states, (token, width): embedded, then after each block."""
        count = len(self.ids)
        return (self.embedded[:count], *(cache.states[:count] for cache in self.caches))


@dataclass(eq=False)
class TextStream:
    """The text of the generated tokens, passed on whenever it ends in a complete character, and stop texts in it."""

    tokeniser: Tokeniser
    stops: tuple[str, ...]
    on_token: Callable[[str], None] | None
    ids: list[int] = field(default_factory=list)
    passed: str = ""

    def ends_with(self, number: int) -> bool:
        """Add a token; whether the text now contains a stop text."""
        if not self.stops and self.on_token is None:
            return False
        self.ids.append(number)
        text = self.tokeniser.decode(self.ids)
        if self.on_token is not None and not text.endswith("�") and len(text) > len(self.passed):
            self.on_token(text[len(self.passed) :])
            self.passed = text
        return any(stop in text for stop in self.stops)


def stop_texts(stop: str | Sequence[str] | None) -> tuple[str, ...]:
    """The argument `stop` as a tuple of texts."""
    texts = () if stop is None else (stop,) if isinstance(stop, str) else tuple(stop)
    if not all(isinstance(text, str) and text for text in texts):
        raise errors.option("stop", stop, "a text, or a list of texts, none of them empty")
    return texts


def check_rotary(transformer: Transformer, name: str, count: int, more: int) -> None:
    """Refuse to generate across the length at which LongRoPE changes its frequencies: cached keys would be wrong."""
    for block in transformer.encoders:
        after = None if block.attention.rotary is None else block.attention.rotary.long_after
        if after is not None and count <= after < count + more:
            raise errors.unsupported(
                f"Generating tokens {count} to {count + more} with {name}, whose RoPE frequencies change at {after},",
                f"Generate at most {after - count} tokens, or give a longer prompt.",
            )


def _with_capacity(rows: Array, capacity: int, axis: int) -> Array:
    """A copy with room for more along one axis."""
    shape = list(rows.shape)
    count, shape[axis] = shape[axis], capacity
    copy = np.empty(shape, rows.dtype)
    copy[(slice(None),) * axis + (slice(0, count),)] = rows
    return copy

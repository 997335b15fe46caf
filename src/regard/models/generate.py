"""A model writes: token by token, each seeing all before it; what every layer saw on the way becomes the reading."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from regard import errors, validate
from regard.arrays import Array
from regard.layers import Heads, MultiHead, Seen, Transformer
from regard.layers.block import Attend, result_of
from regard.models.forward import LayerRun, packed, run
from regard.reading import Reading, Token

if TYPE_CHECKING:
    from regard.models.model import Model


@dataclass(frozen=True)
class Drawing:
    """How the next token is chosen from the scores of all."""

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

    def choices(self) -> Callable[[Array], int]:
        """A function that chooses from scores (vocabulary,), drawing on from where it was."""
        if self.temperature == 0:
            return lambda scores: int(scores.argmax())
        bits = np.random.PCG64(np.random.SeedSequence(self.seed))  # its raw bits are the same on every machine
        return lambda scores: self._drawn(scores, (int(bits.random_raw()) >> 11) * 2.0**-53)

    def _drawn(self, scores: Array, share: float) -> int:
        """The token at this share of all probability, the likeliest first."""
        order = np.argsort(-scores, kind="stable")[: self.top_k]
        scaled = scores[order].astype(np.float64) / self.temperature
        likely = np.exp(scaled - scaled[0])
        rising = np.cumsum(likely) / likely.sum()
        if self.top_p is not None:
            count = int(np.searchsorted(rising, self.top_p)) + 1
            rising = rising[:count] / rising[min(count, len(rising)) - 1]
        return int(order[min(int(np.searchsorted(rising, share, side="right")), len(rising) - 1)])


@dataclass(frozen=True, eq=False)
class Memory:
    """The KV cache of one layer, with the queries, outputs and states that the reading needs; allocated once."""

    queries: Array  # (head, token, size)
    keys: Array  # (key head, token, size)
    values: Array
    outputs: Array  # (token, head · size)
    states: Array  # (token, width)

    @classmethod
    def after(cls, done: LayerRun, room: int) -> Memory:
        """Of the prompt, with room for so many tokens in all."""
        queries, keys, values = (_roomy(part, room, 1) for part in done.heads[:3])
        return cls(queries, keys, values, _roomy(done.outputs, room, 0), _roomy(done.result, room, 0))


    def attend(self, place: int) -> Attend:
        """Attention of the token at `place`, which sees all before it within the window: no mask is needed."""

        def attend(layer: MultiHead, x: Array) -> Heads:
            queries, keys, values = layer.projections(x, layer.turns(place, x))
            self.queries[:, place] = queries[:, 0]
            self.keys[:, place] = keys[:, 0]
            self.values[:, place] = values[:, 0]
            first = 0 if layer.window is None else max(0, place - layer.window)
            seen = slice(first, place + 1)
            offset = None if layer.alibi is None else place - first
            attention = layer.look(queries[None], self.keys[None, :, seen], offset=offset, visible=True)
            outputs = layer.concatenate(attention @ self.values[None, :, seen])[0]  # (1, head · head_dim)
            self.outputs[place] = outputs[0]
            return Heads(outputs, attention)

        return attend


def generate(
    model: Model,
    prompt: str,
    tokens: int,
    drawing: Drawing,
    stop: str | Sequence[str] | None,
    on_token: Callable[[str], None] | None,
) -> Reading:
    """The prompt and what the model writes after it."""
    from regard.models.model import check_length

    if not model.causal or model.transformer.head is None:
        raise errors.unsupported(
            f"Generating text with {model.name}",
            "It is bidirectional, or has no language-model head: take a causal model such as smollm2.",
        )
    if not isinstance(prompt, str):
        raise errors.option("prompt", prompt, 'a text, such as "Once upon a time"')
    tokens, stops = validate.integer("tokens", tokens, 1), _texts(stop)
    ids = model.tokeniser.encode(prompt).ids
    check_length(model, len(ids), tokens)
    _check_long_positions(model, len(ids), tokens)
    writing = _Writing(model, ids, tokens)
    choose, listener = drawing.choices(), _Listener(model, stops, on_token)
    for _ in range(tokens):
        number = choose(writing.scores())
        writing.add(number)
        if number in model.ends or listener.hears(number):
            break
    return _reading(model, prompt, len(ids), writing)


def _check_long_positions(model: Model, count: int, more: int) -> None:
    """LongRoPE has other frequencies for long texts: those of cached keys would be wrong once a text becomes long."""
    for block in model.blocks:
        after = None if block.attention.rotary is None else block.attention.rotary.long_after
        if after is not None and count <= after < count + more:
            raise errors.unsupported(
                f"Generating tokens {count} to {count + more} with {model.name}, whose positions change at {after},",
                f"Generate at most {after - count} tokens, or give a longer prompt.",
            )


class _Writing:
    """The tokens so far, and what every layer has seen of them."""

    def __init__(self, model: Model, ids: Sequence[int], tokens: int) -> None:
        self.transformer: Transformer = model.transformer
        self.ids = list(ids)
        room = len(ids) + tokens
        steps = list(run(self.transformer, packed([ids])))
        self.first = _roomy(steps[0].given, room, 0)  # the embedded tokens
        self.last = steps[-1].result[-1:]
        self.memories = [Memory.after(step, room) for step in steps]

    def scores(self) -> Array:
        """How well each token of the vocabulary would follow."""
        model = self.transformer
        assert model.head is not None
        x = self.last if model.norm is None else model.norm(self.last)
        scores: Array = model.head(x)[0]
        return scores

    def add(self, number: int) -> None:
        """One more token through all blocks."""
        place = len(self.ids)
        self.ids.append(number)
        x = self.transformer.embed(np.array([number]), place)
        self.first[place] = x[0]
        for block, memory in zip(self.transformer.encoders, self.memories, strict=True):
            x = result_of(block.observe(x, attend=memory.attend(place)))
            memory.states[place] = x[0]
        self.last = x


def _reading(model: Model, prompt: str, count: int, writing: _Writing) -> Reading:
    written = slice(0, len(writing.ids))
    text, tokens = _placed(model, prompt, writing.ids, count)
    seen, outputs = [], []
    for block, memory in zip(model.blocks, writing.memories, strict=True):
        attention = block.attention.look(memory.queries[:, written], memory.keys[:, written])
        seen.append(Seen(attention, memory.values[:, written]))
        outputs.append(block.attention.split(memory.outputs[written]))
    states = (writing.first[written], *(memory.states[written] for memory in writing.memories))
    return Reading(text, tokens, tuple(seen), tuple(outputs), states, model.blocks, model.name, count)


def _placed(model: Model, prompt: str, ids: Sequence[int], count: int) -> tuple[str, tuple[Token, ...]]:
    """The prompt as it was given, what was written behind it, and the tokens of both."""
    from regard.models.model import tokens_of

    before = tokens_of(model.tokeniser.encode(prompt))
    spelled, encoded = model.tokeniser.spell(ids)
    end = encoded.spans[count - 1][1]  # of the prompt, as the tokens spell it
    shift = len(prompt) - end
    after = tuple(
        Token(token.text, token.id, token.start + shift, token.stop + shift, token.special, token.joined)
        for token in tokens_of(encoded)[count:]
    )
    return prompt + spelled[end:], before + after


@dataclass(eq=False)
class _Listener:
    """Hands on what is written as soon as it is whole letters, and notices where it is to stop."""

    model: Model
    stops: tuple[str, ...]
    on_token: Callable[[str], None] | None

    def __post_init__(self) -> None:
        self.ids: list[int] = []
        self.told = ""

    def hears(self, number: int) -> bool:
        """Whether the text so far holds one of the texts that end it."""
        if not self.stops and self.on_token is None:
            return False
        self.ids.append(number)
        text = self.model.tokeniser.decode(self.ids)
        if self.on_token is not None and not text.endswith("�") and len(text) > len(self.told):
            self.on_token(text[len(self.told) :])
            self.told = text
        return any(one in text for one in self.stops)


def _texts(stop: str | Sequence[str] | None) -> tuple[str, ...]:
    texts = () if stop is None else (stop,) if isinstance(stop, str) else tuple(stop)
    if not all(isinstance(text, str) and text for text in texts):
        raise errors.option("stop", stop, "a text, or a list of texts, none of them empty")
    return texts


def _roomy(rows: Array, room: int, axis: int) -> Array:
    """A copy with room for more along one axis."""
    shape = list(rows.shape)
    count, shape[axis] = shape[axis], room
    roomy = np.empty(shape, rows.dtype)
    roomy[(slice(None),) * axis + (slice(0, count),)] = rows
    return roomy

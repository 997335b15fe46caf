"""A model that reads texts: tokens in, a `Reading` out; opened by name, from a folder or from a GGUF file."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, overload

import numpy as np

from regard import errors, validate
from regard.arrays import Array, chunks, unit_length
from regard.edits.layer_edits import RunEdits
from regard.edits.texts import TextSpan, check_tokens
from regard.layers import Encoder, Learned, Transformer
from regard.models import progress
from regard.models.errors import check_length
from regard.models.files import Checkpoint, open_checkpoint
from regard.models.forward import Packed, packed, run
from regard.models.generate import Generation, Sampling, TextStream, check_rotary, stop_texts
from regard.models.outcomes import outcomes
from regard.models.regular_file import object_in
from regard.models.settings import FAMILIES, Kind
from regard.models.tokens import Tokeniser
from regard.reading import Reading, Token
from regard.reading.edit import Edit, EditArgument, Edits, edited_name, edits_of
from regard.reading.reader import (
    BlockShape,
    Encoded,
    LayerHeads,
    Observed,
    OnLayer,
    Outcome,
    Reader,
    Task,
    check_can,
    edits_with,
)
from regard.reading.residual_stream import BlockWrites, ResidualStream
from regard.reading.words import Word, words_of

NO_WRITING = "It is bidirectional, or has no language-model head: use a causal model such as smollm2."


def model(name: str | os.PathLike[str] = "minilm") -> Model:
    """A model by its name in the catalogue, by the path of a folder or GGUF file, or by its id on the hub.

    >>> model("minilm")
    Model(minilm: bert, 6 layers × 12 heads, width 384, up to 512 tokens, Apache-2.0)
    """
    from regard.models import store

    entry: Any = store.CATALOGUE.get(name) if isinstance(name, str) else None
    return opened(store.find(name), str(name), None if entry is None else entry.licence)


def opened(path: str | os.PathLike[str], name: str | None = None, licence: str | None = None) -> Model:
    """The model that a folder or a GGUF file holds."""
    checkpoint = open_checkpoint(path)
    _, kind = FAMILIES[checkpoint.family]
    transformer: Transformer
    transformer, longest = import_module(f"regard.models.{kind}").transformer(checkpoint)
    name = name or Path(path).stem
    ends = _end_tokens(checkpoint)
    return Model(name, kind, transformer, checkpoint.tokeniser, checkpoint.config, longest, licence, ends)


def _end_tokens(checkpoint: Checkpoint) -> frozenset[int]:
    """Tokens that end a text, by the settings and by generation_config.json, which chat models have."""
    stated = [checkpoint.config.get("eos_token_id")]
    if (beside := checkpoint.path / "generation_config.json").is_file():
        stated.append(object_in(beside, "settings for generation").get("eos_token_id"))
    numbers: list[Any] = [number for ids in stated for number in (ids if isinstance(ids, list) else [ids])]
    return frozenset(number for number in numbers if validate.is_integer(number))


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A tokeniser and a transformer with real weights, computed by the engine for NumPy arrays.

    name         the name or path it was opened by
    kind         "bert" (bidirectional), "llama" or "gpt2" (causal)
    transformer  its layers
    tokeniser    from text to tokens and back
    config       its settings, named as in config.json
    longest      the largest number of tokens it reads
    licence      of its weights, where it is known
    ends         tokens that end generated text

    >>> minilm = model("minilm")
    >>> len(minilm.blocks), minilm.heads, minilm.width, minilm.causal
    (6, 12, 384, False)
    >>> minilm.read("The cat sat")
    Reading(The cat sat; 5 tokens, 6 layers × 12 heads, minilm)
    >>> minilm.embed(["The cat sat", "A dog ran"]).shape
    (2, 384)
    """

    name: str
    kind: Kind
    transformer: Transformer
    tokeniser: Tokeniser
    config: Mapping[str, Any] = field(default_factory=dict)
    longest: int = 512
    licence: str | None = None
    ends: frozenset[int] = frozenset()
    edit: Edit | None = None  # an intervention that holds for everything it reads

    @property
    def blocks(self) -> tuple[Encoder, ...]:
        """One per layer."""
        return self.transformer.encoders

    @property
    def heads(self) -> int:
        """The number of heads per layer."""
        return self.blocks[0].attention.heads

    @property
    def width(self) -> int:
        """The width of the hidden states."""
        return self.transformer.embedding.width

    @property
    def vocabulary(self) -> int:
        """The number of tokens that it has a vector for.

        >>> model("minilm").vocabulary
        30522
        """
        return int(self.transformer.embedding.weight.shape[0])

    @property
    def learned_positions(self) -> Array:
        """The learned vectors of its positions, (position, width); an error if it has none.

        >>> model("minilm").learned_positions.shape
        (512, 384)
        """
        positions = self.transformer.positions
        if not isinstance(positions, Learned):
            raise errors.OptionError(
                f"The model {self.name!r} has no learned positions; `regard positions rotary` draws rotary ones."
            )
        return positions.weight

    @property
    def causal(self) -> bool:
        """Whether each token sees only itself and earlier tokens; only such a model can generate text."""
        return self.blocks[0].attention.causal

    @property
    def writes(self) -> bool:
        """Whether it gives probabilities of the next token, and so can generate text.

        >>> model("minilm").writes
        False
        """
        return self.causal and self.transformer.head is not None

    @property
    def cannot(self) -> Mapping[Task, str]:
        """What it cannot do, with the reason and what to do instead.

        >>> list(model("minilm").cannot)
        ['generate', 'next_tokens']
        """
        return {} if self.writes else {"generate": NO_WRITING, "next_tokens": NO_WRITING}

    @property
    def block_shapes(self) -> tuple[BlockShape, ...]:
        """The sizes of each layer's attention, and its W_O.

        >>> model("smollm2").block_shapes[0]
        BlockShape(heads=9, key_heads=3, head_dim=64, value_dim=64)
        """
        layers = [block.attention for block in self.blocks]
        return tuple(
            BlockShape(
                layer.heads, layer.groups, layer.head_dim, layer.w_v.outputs // layer.groups,
                None if layer.w_o is None else layer.w_o.weight,
            )
            for layer in layers
        )  # fmt: skip

    def __repr__(self) -> str:
        sizes = f"{len(self.blocks)} layers × {self.heads} heads, width {self.width}"
        licence = f", {self.licence}" if self.licence else ""
        return f"Model({self.name}: {self.kind}, {sizes}, up to {self.longest} tokens{licence})"

    # Reading

    @overload
    def read(  # type: ignore[overload-overlap]
        self, text: str, *, layers: int | None = None, on_layer: OnLayer | None = None, edit: EditArgument = None
    ) -> Reading: ...
    @overload
    def read(
        self,
        text: Sequence[str],
        *,
        layers: int | None = None,
        on_layer: OnLayer | None = None,
        edit: EditArgument = None,
    ) -> tuple[Reading, ...]: ...
    def read(
        self,
        text: str | Sequence[str],
        *,
        layers: int | None = None,
        on_layer: OnLayer | None = None,
        edit: EditArgument = None,
    ) -> Reading | tuple[Reading, ...]:
        """One text as a `Reading`, or several texts, computed together, as one `Reading` each.

        layers     compute only this many layers, from the first; all by default
        on_layer   called after each layer with the number done and the total; it may raise to cancel. Without it, long
                   texts show a progress bar in a terminal
        edit       interventions, such as `regard.edits.silence((5, 2))`; see `regard.edits`

        Time is O(n²) and memory O(n) in the number of tokens.

        >>> from regard.edits import silence
        >>> model("minilm").read("The cat sat", edit=silence((5, 2)))
        Reading(The cat sat; 5 tokens, 6 layers × 12 heads, minilm with silence((5, 2)))
        """
        count, parts = len(self.blocks), edits_with(self, edit)
        depth = count if layers is None else validate.integer("layers", layers, 1, count)
        texts = texts_of(text)
        encoded = self._encoded(texts)
        together = packed([tokens.ids for tokens in encoded])
        edits = self._run_edits(parts, [tokens.ids for tokens in encoded], together, texts) if parts else None
        if edits is not None:
            check_tokens(edits_of(edit), edits.texts)
        steps = []
        with progress.steps(f"{self.name} reads", depth) as advance:
            for step in run(self.transformer, together, depth, edit=edits):
                steps.append(step)
                advance(len(steps)) if on_layer is None else on_layer(len(steps), depth)
        layers_of = [block.attention for block in self.blocks[:depth]]
        readings = []
        for typed, tokens, span in zip(texts, encoded, together.spans, strict=True):
            readings.append(
                Reading(
                    typed,
                    tokens_of(tokens),
                    tuple(step.seen(layer, span) for step, layer in zip(steps, layers_of, strict=True)),
                    tuple(step.outputs_of(layer, span) for step, layer in zip(steps, layers_of, strict=True)),
                    (steps[0].before[span.tokens], *(step.result[span.tokens] for step in steps)),
                    self.blocks[:depth],
                    edited_name(self.name, parts),
                    reader=self,
                    is_edited=bool(parts),
                )
            )
        return readings[0] if isinstance(text, str) else tuple(readings)

    def residual(self, text: str) -> ResidualStream:
        """A text with everything that is written to the residual stream.

        >>> stream = model("smollm2").residual("The cat sat")
        >>> len(stream.blocks), stream.blocks[0].fed_forward.shape
        (30, (3, 576))
        """
        reading = self.read(text)
        of_blocks = zip(self.blocks, reading.states, reading.outputs, strict=False)  # the last state enters no block
        writes = tuple(BlockWrites.of(*of_block) for of_block in of_blocks)
        return ResidualStream(reading, writes, self.transformer.norm, self.transformer.head)

    def edited(self, edit: EditArgument, *, name: str | None = None) -> Model:
        """The same model with an intervention that holds for everything it reads.

        >>> from regard.edits import silence
        >>> model("minilm").edited(silence((5, 2))).embed("The cat sat").shape
        (384,)
        """
        parts = edits_with(self, edit)
        return replace(self, edit=Edits(parts) if parts else None, name=self.name if name is None else name)

    def _run_edits(
        self,
        parts: tuple[Edit, ...],
        ids: Sequence[Sequence[int]],
        together: Packed,
        texts: Sequence[str] | None = None,
    ) -> RunEdits:
        """Edits of a run over packed texts."""
        spans = tuple(
            TextSpan(
                index, 0, span.start, span.length,
                partial(self._words, of_text, None if texts is None else texts[index]),
            )
            for index, (of_text, span) in enumerate(zip(ids, together.spans, strict=True))
        )  # fmt: skip
        return RunEdits(parts, spans)

    def _words(self, ids: Sequence[int], text: str | None) -> tuple[Word, ...]:
        """The words of a text, as typed or as its tokens spell it."""
        if text is None:
            text, encoded = self.tokeniser.spell(list(ids))
        else:
            encoded = self.tokeniser.encode(text)
        return words_of(tokens_of(encoded), text)

    def outcomes(
        self, texts: Sequence[str | Sequence[int]], edits: Sequence[Edit], *, all_logits: bool = False
    ) -> Iterator[tuple[int, Outcome]]:
        """What the model computes at its end for some texts: unchanged (−1), then with each edit, by its index.

        Layers before the first one that an edit changes are not computed again.

        >>> from regard.edits import silence
        >>> [index for index, outcome in model("minilm").outcomes(["The cat sat"], [silence((5, 2))])]
        [-1, 0]
        """
        ids = [self.tokeniser.encode(text).ids if isinstance(text, str) else list(text) for text in texts]
        for of_text in ids:
            check_length(self.name, self.longest, len(of_text))
        for edit in edits:
            edits_with(self, edit)
        together, mine = packed(ids), edits_of(self.edit)
        typed = [text for text in texts if isinstance(text, str)]
        words = typed if len(typed) == len(texts) else None  # otherwise words are spelled by their tokens
        base = self._run_edits(mine, ids, together, words) if mine else None
        all_edits = [self._run_edits((*mine, *edit.parts), ids, together, words) for edit in edits]
        for edit, run_edits in zip(edits, all_edits, strict=True):
            check_tokens(edit.parts, run_edits.texts)
        return outcomes(self.transformer, ids, together, base, edits, all_edits)

    def observe(self, texts: Sequence[Array], layers: int | None = None) -> Iterator[Observed]:
        """What the heads of every layer, or of the first `layers`, compute for texts given as token ids.

        Layer by layer, in groups of texts of equal length.

        >>> minilm = model("minilm")
        >>> ids = [minilm.tokeniser.encode(text).ids for text in ("The cat sat", "A dog ran")]
        >>> next(minilm.observe(ids)).attention.shape
        (2, 12, 5, 5)
        """
        together = packed(texts)
        edits = None if self.edit is None else self._run_edits(self.edit.parts, texts, together)
        index_at = {span.start: index for index, span in enumerate(together.spans)}
        for layer, step in enumerate(run(self.transformer, together, layers, only_heads=True, edit=edits)):
            multi_head, values = self.blocks[layer].attention, step.heads.values
            outputs = step.outputs.reshape(len(step.outputs), multi_head.heads, values.shape[-1])
            of_layer = LayerHeads(layer, values, outputs)
            for group in together.groups:
                tokens, length = group.tokens, group.length
                queries, keys = (
                    part[:, tokens].reshape(len(part), -1, length, part.shape[-1]).swapaxes(0, 1)
                    for part in (step.heads.queries, step.heads.keys)
                )
                indices = tuple(index_at[start] for start in range(group.start, group.stop, length))
                yield Observed(of_layer, indices, tokens, multi_head.look(queries, keys))

    def untrained(self, seed: int = 0) -> Model:
        """A model of the same shape with random weights, as BERT begins: deviation 0.02, biases 0, norms 1.

        >>> model("minilm").untrained()
        Model(minilm, untrained: bert, 6 layers × 12 heads, width 384, up to 512 tokens, Apache-2.0)
        """
        names = {id(array): name for name, array in self.transformer.parameters().items()}
        generator = np.random.default_rng(seed)

        def drawn(array: Array) -> Array:
            if array.ndim > 1:
                return generator.standard_normal(array.shape, np.float32) * np.float32(0.02)
            is_norm = "norm" in names[id(array)] and names[id(array)].endswith("weight")
            return np.ones(array.shape, np.float32) if is_norm else np.zeros(array.shape, np.float32)

        return replace(self, name=f"{self.name}, untrained", transformer=self.transformer.map(drawn))

    def beginning(self, text: str) -> str:
        """The text, cut after the last word that the model still reads; whole if it has at most `longest` tokens.

        >>> minilm = model("minilm")
        >>> minilm.longest, len(minilm.beginning("one " * 1000).split())
        (512, 510)
        """
        return self.tokeniser.beginning(text, self.longest)

    def embed(self, texts: str | Sequence[str], *, batch: int = 32, normalise: bool = True) -> Array:
        """One vector per text, (text, width): the mean over its tokens, of length 1 unless `normalise` is False.

        A single string gives a single vector. `batch` is the number of texts computed at once.
        """
        batch = validate.integer("batch", batch, 1)
        ids = [encoding.ids for encoding in self.tokeniser.engine.encode_batch(texts_of(texts))]  # one list per text
        for of_text in ids:
            check_length(self.name, self.longest, len(of_text))
        order = sorted(range(len(ids)), key=lambda text: len(ids[text]))  # texts of equal length are one batch
        vectors = np.empty((len(ids), self.width), np.float32)
        for of_batch in chunks(len(order), batch):
            some = order[of_batch]
            together = packed([ids[text] for text in some])
            edits = (
                None if self.edit is None else self._run_edits(self.edit.parts, [ids[text] for text in some], together)
            )
            (last,) = deque(run(self.transformer, together, edit=edits), maxlen=1)
            x = last.result if self.transformer.norm is None else self.transformer.norm(last.result)
            vectors[some] = np.stack([x[span.tokens].mean(axis=0) for span in together.spans])
        vectors = unit_length(vectors) if normalise else vectors
        return vectors[0] if isinstance(texts, str) else vectors

    def generate(
        self,
        prompt: str,
        tokens: int = 64,
        *,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 0,
        stop: str | Sequence[str] | None = None,
        on_token: Callable[[str], None] | None = None,
        edit: EditArgument = None,
    ) -> Reading:
        """The prompt and up to `tokens` generated tokens as one `Reading`; `given` is the number of prompt tokens.

        temperature   0 takes the most likely token; 1 samples from the model's probabilities, larger values flatten
                      them
        top_k, top_p  sample among the k most likely tokens, or among the most likely of total probability p
        seed          the same seed gives the same tokens
        stop          texts that end generation; the model's end-of-text token always does
        on_token      called with each new piece of text
        edit          interventions, for the prompt and all generated tokens; see `regard.edits`

        >>> print(model("smollm2").generate("Once upon a time", tokens=3).text)
        Once upon a time, the city
        """
        check_can(self, "generate")
        if not isinstance(prompt, str):
            raise errors.option("prompt", prompt, 'a text, such as "Once upon a time"')
        tokens, stops = validate.integer("tokens", tokens, 1), stop_texts(stop)
        sampling = Sampling(temperature, top_k, top_p, seed)
        encoded = self.tokeniser.encode(prompt)
        count = len(encoded.ids)
        check_length(self.name, self.longest, count, tokens)
        check_rotary(self.transformer, self.name, count, tokens)
        parts = edits_with(self, edit)
        edits = self._run_edits(parts, [encoded.ids], packed([encoded.ids]), [prompt]) if parts else None
        generation = Generation(self.transformer, encoded.ids, tokens, edits)
        stream = TextStream(self.tokeniser, stops, on_token)
        for number in generation.tokens(tokens, sampling):
            if number in self.ends or stream.ends_with(number):
                break
        spelled, all_tokens = self.tokeniser.spell(generation.ids)
        end = all_tokens.spans[count - 1][1]  # of the prompt, as its tokens spell it
        shift = len(prompt) - end
        new = (
            replace(token, start=token.start + shift, stop=token.stop + shift)
            for token in tokens_of(all_tokens)[count:]
        )
        return Reading(
            prompt + spelled[end:],
            (*tokens_of(encoded), *new),
            generation.seen(),
            generation.outputs(),
            generation.states(),
            self.blocks,
            edited_name(self.name, parts),
            count,
            self,
            is_edited=bool(parts),
        )

    def next_logits(self, states: Array) -> Array:
        """The logits of the next token, (token, vocabulary), from states after the last block, (token, width).

        >>> smollm2 = model("smollm2")
        >>> smollm2.next_logits(smollm2.read("Once upon a time").states[-1]).shape
        (4, 49152)
        """
        check_can(self, "next_tokens")
        norm, head = self.transformer.norm, self.transformer.head
        assert head is not None
        return head(states if norm is None else norm(states))

    def next_tokens(
        self,
        states: Array,
        count: int = 10,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
    ) -> list[tuple[str, float]]:
        """The most likely next tokens after a token's state, (width,), each with its probability.

        >>> smollm2 = model("smollm2")
        >>> token, _ = smollm2.next_tokens(smollm2.read("Once upon a time").states[-1][-1], 1)[0]
        >>> token
        ','
        """
        count, sampling = validate.integer("count", count, 1), Sampling(temperature, top_k, top_p)
        order, probabilities = sampling.probabilities(self.next_logits(states[None])[0])
        likely = zip(order[:count].tolist(), probabilities[:count].tolist(), strict=True)
        return [(self.tokeniser.piece(number)[0], probability) for number, probability in likely]

    def _encoded(self, texts: Sequence[str]) -> list[Encoded]:
        """The tokens of each text; a text that is too long is refused."""
        encodings = self.tokeniser.encode_many(texts) if len(texts) > 1 else [self.tokeniser.encode(texts[0])]
        for encoded in encodings:
            check_length(self.name, self.longest, len(encoded.ids))
        return encodings


_READER: type[Reader] = Model  # for mypy


def texts_of(given: Any) -> list[str]:
    """One text or several, as a list."""
    if isinstance(given, str):
        return [given]
    texts = list(given) if isinstance(given, Sequence) or hasattr(given, "__iter__") else [given]
    for text in texts:
        if not isinstance(text, str):
            raise errors.option("text", text, "a text, or a list of texts")
    if not texts:
        raise errors.option("texts", given, "at least one text")
    return texts


def tokens_of(encoded: Encoded) -> tuple[Token, ...]:
    """Encoded text as the tokens of a reading."""
    parts = zip(encoded.texts, encoded.ids, encoded.spans, encoded.special, encoded.joined, strict=True)
    return tuple(Token(text, number, *span, special, joined) for text, number, span, special, joined in parts)

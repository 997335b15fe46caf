"""A model that reads texts: tokens in, a `Reading` out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

from regard import errors, validate
from regard.arrays import Array
from regard.layers import Encoder, Transformer
from regard.models import progress
from regard.models.families import Kind
from regard.models.forward import packed, run
from regard.reading import Reading, Token

if TYPE_CHECKING:
    from regard.models.tokens import Encoded, Tokeniser

OnLayer = Callable[[int, int], None]


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A tokeniser and a transformer with real weights, computed by the engine for NumPy arrays.

    name         what it was asked for by
    kind         "bert", which sees everything at once, or "llama" and "gpt2", which see what came before
    transformer  its layers
    tokeniser    from text to tokens and back
    config       its settings, in the words of config.json
    longest      how many tokens it can read
    licence      of its weights, where it is known
    ends         tokens that end what it writes

    >>> from regard.models.architectures import model
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

    @property
    def blocks(self) -> tuple[Encoder, ...]:
        """One for each layer."""
        return self.transformer.encoders

    @property
    def heads(self) -> int:
        """How many heads each layer has."""
        return self.blocks[0].attention.heads

    @property
    def width(self) -> int:
        """How many numbers a token's vector has."""
        return self.transformer.embedding.width

    @property
    def causal(self) -> bool:
        """Whether every token sees only itself and what came before: only such a model can write."""
        return self.blocks[0].attention.causal

    def __repr__(self) -> str:
        sizes = f"{len(self.blocks)} layers × {self.heads} heads, width {self.width}"
        licence = f", {self.licence}" if self.licence else ""
        return f"Model({self.name}: {self.kind}, {sizes}, up to {self.longest} tokens{licence})"

    # Reading

    @overload
    def read(  # type: ignore[overload-overlap]
        self, text: str, *, layers: int | None = None, on_layer: OnLayer | None = None
    ) -> Reading: ...
    @overload
    def read(
        self, text: Sequence[str], *, layers: int | None = None, on_layer: OnLayer | None = None
    ) -> tuple[Reading, ...]: ...
    def read(
        self, text: str | Sequence[str], *, layers: int | None = None, on_layer: OnLayer | None = None
    ) -> Reading | tuple[Reading, ...]:
        """One text as a `Reading`, or several, read at once, as one each: with every layer's attention and vectors.

        layers     compute only this many layers, from the first; all by default
        on_layer   called after each layer with the number done and the total; it may raise to cancel. Without it, long
                   texts show a progress bar in a terminal

        Time is O(n²) and memory O(n) in the number of tokens.
        """
        depth = self._depth(layers)
        texts = texts_of(text)
        encoded = self._encoded(texts)
        together = packed([one.ids for one in encoded])
        steps = []
        with progress.steps(f"{self.name} reads", depth) as advance:
            for step in run(self.transformer, together, depth):
                steps.append(step)
                advance(len(steps)) if on_layer is None else on_layer(len(steps), depth)
        layers_of = [block.attention for block in self.blocks[:depth]]
        readings = []
        for one, its, place in zip(texts, encoded, together.places, strict=True):
            tokens = slice(place.start, place.stop)
            readings.append(
                Reading(
                    one,
                    tokens_of(its),
                    tuple(step.seen(layer, place) for step, layer in zip(steps, layers_of, strict=True)),
                    tuple(step.outputs_of(layer, place) for step, layer in zip(steps, layers_of, strict=True)),
                    (steps[0].given[tokens], *(step.result[tokens] for step in steps)),
                    self.blocks[:depth],
                    self.name,
                )
            )
        return readings[0] if isinstance(text, str) else tuple(readings)

    def embed(self, texts: str | Sequence[str], *, batch: int = 32, normalise: bool = True) -> Array:
        """One vector for each text, (text, width): the mean of its tokens' vectors, of length 1 unless told otherwise.

        A single string gives a single vector. `batch` counts the texts that are computed at once.
        """
        from regard.models.text_vectors import embed

        vectors = embed(self, texts_of(texts), batch, normalise)
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
    ) -> Reading:
        """The prompt and up to `tokens` more that the model writes, as one `Reading`; `given` counts the prompt's.

        temperature   0 takes the likeliest token; 1 draws by the model's own probabilities, more draws more evenly
        top_k, top_p  draw among the k likeliest, or among the likeliest that together have probability p
        seed          the same seed draws the same tokens
        stop          texts that end it; the model's own end of text always does
        on_token      called with each new piece of text

        >>> from regard.models.architectures import model
        >>> print(model("smollm2").generate("Once upon a time", tokens=3).text)
        Once upon a time, the city
        """
        from regard.models.generate import Drawing, generate

        return generate(self, prompt, tokens, Drawing(temperature, top_k, top_p, seed), stop, on_token)

    def _encoded(self, texts: Sequence[str]) -> list[Encoded]:
        """The tokens of each text, as many as the model can read."""
        found = self.tokeniser.encode_many(texts) if len(texts) > 1 else [self.tokeniser.encode(texts[0])]
        for encoded in found:
            check_length(self, len(encoded.ids))
        return found

    def _depth(self, layers: int | None) -> int:
        count = len(self.blocks)
        if layers is None:
            return count
        return validate.integer("layers", layers, 1, count)


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
    """What the tokeniser found, as a reading has it."""
    parts = zip(encoded.texts, encoded.ids, encoded.spans, encoded.special, encoded.joined, strict=True)
    return tuple(Token(text, number, *span, special, joined) for text, number, span, special, joined in parts)


def check_length(model: Model, count: int, more: int = 0) -> None:
    """Refuse what is longer than the model can read, and what has no token at all."""
    if count == 0:
        raise errors.option("text", "", "a text with at least one token")
    if count + more > model.longest:
        asked = f"The text has {count} tokens" + (f", and {more} more are to be written" if more else "")
        fix = "Write fewer tokens, or shorten the text" if more else "Read it in parts"
        raise errors.OptionError(
            f"{asked}; {model.name} reads at most {model.longest}.\n{fix}, or take a model that reads more."
        )

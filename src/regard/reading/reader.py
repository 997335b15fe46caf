"""`Reader`: what a model is to everything that reads with it.

Regard's own models (`regard.models.model.Model`) and models that transformers runs
(`regard.watch.pretrained.Pretrained`) implement it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, Self

from regard import errors
from regard.arrays import Array
from regard.attention import Attention
from regard.reading.edit import Edit, EditArgument, Head, edits_of

if TYPE_CHECKING:
    from regard.layers import Transformer
    from regard.reading.reading import Reading
    from regard.reading.residual_stream import ResidualStream

OnLayer = Callable[[int, int], None]  # called with the number of layers done, and of all; it may raise to cancel
Task = Literal["generate", "next_tokens"]  # what some readers cannot do
TASKS: dict[Task, str] = {"generate": "Generating text", "next_tokens": "Probabilities of the next token"}


@dataclass(frozen=True)
class Encoded:
    """A text as tokens: every list has one entry per token."""

    ids: list[int]
    texts: list[str]  # readable: ing for ##ing, the for Ġthe
    spans: list[tuple[int, int]]  # in characters, without leading white space; empty for added tokens
    special: list[bool]  # [CLS], <|im_start|> and the like, added or in the text
    joined: list[bool]  # continues the word of the token before

    def __len__(self) -> int:
        return len(self.ids)


class TokenCodec(Protocol):
    """Text to tokens and back; implemented by `regard.models.tokens.Tokeniser`."""

    @property
    def specials(self) -> frozenset[int]:
        """The ids of special tokens."""

    def encode(self, text: str, *, special: bool = True) -> Encoded:
        """The tokens of a text, with the special tokens that the model adds unless `special` is False."""

    def encode_many(self, texts: Sequence[str], *, special: bool = True) -> list[Encoded]:
        """The tokens of several texts."""

    def piece(self, number: int) -> tuple[str, bool]:
        """A token as people read it, and whether it begins a word."""


@dataclass(frozen=True, eq=False)
class BlockShape:
    """The attention of one layer: its sizes, and the projection after its heads."""

    heads: int
    key_heads: int  # fewer than `heads` where query heads share keys and values
    head_dim: int  # of queries and keys
    value_dim: int
    w_o: Array | None = field(repr=False)  # (width, head · value_dim), NumPy; None where none is found


@dataclass(frozen=True, eq=False)
class LayerHeads:
    """The heads of one layer over several texts, their tokens one after the other."""

    layer: int
    values: Array  # (key head, token, value_dim)
    outputs: Array  # (token, head, value_dim)
    kept: dict[str, Any] = field(default_factory=dict)  # what measurements of several groups share


class Observed(NamedTuple):
    """The heads of one layer over texts of equal length."""

    of_layer: LayerHeads
    texts: tuple[int, ...]  # their indices among the texts
    tokens: slice  # among those of `of_layer`
    attention: Attention  # (text, head, query, key)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a model computed at its end for some texts."""

    ids: tuple[Sequence[int], ...]  # the tokens of each text
    states: tuple[Array, ...]  # of each text after the last norm, (token, width)
    last_logits: Callable[[], Array] | None  # of the token after each text, (text, vocabulary); None without a head
    logits: Callable[[int, slice], Array] | None = None  # of some tokens of one text, (token, vocabulary)


class Reader(Protocol):
    """A model that reads texts."""

    @property
    def name(self) -> str:
        """The name or path it was opened by."""

    @property
    def config(self) -> Mapping[str, Any]:
        """Its settings, named as in config.json."""

    @property
    def tokeniser(self) -> TokenCodec:
        """From text to tokens and back."""

    @property
    def vocabulary(self) -> int:
        """The number of tokens that it has a vector for."""

    @property
    def ends(self) -> frozenset[int]:
        """The tokens that end generated text."""

    @property
    def longest(self) -> int:
        """The largest number of tokens it reads."""

    @property
    def causal(self) -> bool:
        """Whether each token sees only itself and earlier tokens."""

    @property
    def heads(self) -> int:
        """The number of heads per layer."""

    @property
    def block_shapes(self) -> tuple[BlockShape, ...]:
        """One per layer."""

    @property
    def transformer(self) -> Transformer | None:
        """Its layers with all weights; None where Regard does not compute it itself."""

    @property
    def edit(self) -> Edit | None:
        """An intervention that holds for everything it reads."""

    @property
    def writes(self) -> bool:
        """Whether it can generate text."""

    @property
    def cannot(self) -> Mapping[Task, str]:
        """What it cannot do, with the reason and what to do instead; `check_can` raises it."""

    def beginning(self, text: str) -> str:
        """The text, cut after the last word that the model still reads."""

    def read(self, text: str, *, on_layer: OnLayer | None = None, edit: EditArgument = None) -> Reading:
        """One text as a `Reading`; `edit` is an intervention of `regard.edits`."""

    def residual(self, text: str) -> ResidualStream:
        """One text with everything that its blocks write to the residual stream."""

    def generate(
        self,
        prompt: str,
        tokens: int = 64,
        *,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 0,
        on_token: Callable[[str], None] | None = None,
        edit: EditArgument = None,
    ) -> Reading:
        """The prompt and up to `tokens` generated tokens as one `Reading`."""

    def embed(self, texts: str | Sequence[str], *, batch: int = 32, normalise: bool = True) -> Array:
        """One vector per text, (text, width), or one for a single text: the mean over its tokens."""

    def next_logits(self, states: Array) -> Array:
        """The logits of the next token, (token, vocabulary), from states after the last block, (token, width)."""

    def next_tokens(
        self,
        states: Array,
        count: int = 10,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
    ) -> list[tuple[str, float]]:
        """The most likely next tokens after a token's state, (width,), each with its probability."""

    def observe(self, texts: Sequence[Array], layers: int | None = None) -> Iterator[Observed]:
        """What the heads of every layer, or of the first `layers`, compute for texts given as token ids."""

    def outcomes(
        self, texts: Sequence[str | Sequence[int]], edits: Sequence[Edit], *, all_logits: bool = False
    ) -> Iterator[tuple[int, Outcome]]:
        """What it computes at its end for some texts, or token ids: unchanged (−1), then with each edit, by its index.

        all_logits   whether the logits of every token are needed
        """

    def edited(self, edit: EditArgument, *, name: str | None = None) -> Self:
        """The same model with an intervention of `regard.edits` that holds for everything it reads."""

    def untrained(self) -> Self:
        """A model of the same shape with random weights."""


def edits_with(reader: Reader, edit: EditArgument) -> tuple[Edit, ...]:
    """The edits that hold for everything a reader reads, and further ones; layers and heads it lacks are refused."""
    parts = (*edits_of(reader.edit), *edits_of(edit))
    for part in parts:
        part.check([shape.heads for shape in reader.block_shapes], reader.name)
    return parts


def all_heads(reader: Reader) -> list[Head]:
    """Every head of a reader, layer by layer."""
    return [(layer, head) for layer, shape in enumerate(reader.block_shapes) for head in range(shape.heads)]


def check_can(reader: Reader, task: Task) -> None:
    """Refuse what a reader cannot do, with its reason."""
    if task in reader.cannot:
        raise errors.unsupported(f"{TASKS[task]} with {reader.name}", reader.cannot[task])

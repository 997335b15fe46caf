"""`regard scaling`, `regard positions` and `regard block`: lessons on random or computed vectors."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from regard.cli import outputs, text_input
from regard.cli.outputs import Aspect, FontSize, Full, NoCaption, Out, Show
from regard.cli.text_input import asked_for
from regard.errors import OptionError
from regard.output import figure
from regard.teaching.block import block_lesson
from regard.teaching.positions import LONGEST, WIDEST, position_lesson
from regard.teaching.scaled_scores import SIZES, USUAL, scaling_lesson
from regard.teaching.words import words_of

MOST_SIZE = 1 << 14  # d_k of `regard scaling`
MOST_WORDS, MOST_WIDTH = 64, 256  # of `regard block`

SCALING_EXAMPLES = """Examples:

\b
  regard scaling
  regard scaling --divisor 1 --divisor sqrt
  regard scaling --divisor 8 --size 16 --size 64 --size 256
  regard scaling --out scaling.svg
"""


def scaling(
    divisor: Annotated[
        list[str] | None,
        typer.Option(help="A number, sqrt for √d_k, or d_k; may be repeated. By default 1, √d_k and d_k."),
    ] = None,
    size: Annotated[
        list[int] | None, typer.Option(min=1, help="A d_k; may be repeated. By default 1 to 1,024.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random tokens and weights.")] = 0,
    show: Show = None,
    out: Out = None,
    aspect: Aspect = None,
    font_size: FontSize = None,
    no_caption: NoCaption = False,
) -> None:
    """Show weights and gradients as d_k grows, with and without the division by √d_k."""
    targets = outputs.targets(out, show, layout=outputs.layout(aspect, font_size, no_caption))
    if size and max(size) > MOST_SIZE:
        raise OptionError(f"--size {max(size)} is more than {MOST_SIZE:,}.")
    lesson = scaling_lesson(divisor or USUAL, sizes=size or SIZES, seed=seed)
    outputs.publish(out, targets, lesson.tables(), lambda: figure.scaling(lesson))


# Positional encodings

POSITIONS_EXAMPLES = """Examples:

\b
  regard positions sinusoidal
  regard positions sinusoidal --length 64 --width 32 --out pe.svg --out pe.tex
  regard positions rotary --width 8 --out rope.pdf
  regard positions learned --model minilm --width 384 --out bert.svg
"""


class PositionKind(StrEnum):
    """Ways to tell a model where a word is."""

    SINUSOIDAL = "sinusoidal"
    LEARNED = "learned"
    ROTARY = "rotary"


def positions(
    kind: Annotated[PositionKind, typer.Argument(help="sinusoidal, learned or rotary.")] = PositionKind.SINUSOIDAL,
    length: Annotated[int, typer.Option(min=1, max=LONGEST, help="Number of positions.")] = 32,
    width: Annotated[int, typer.Option(min=1, max=WIDEST, help="Width of the vectors; even for rotary.")] = 16,
    base: Annotated[float, typer.Option(help="Base of the wavelengths (sinusoidal, rotary).")] = 10000.0,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="learned: the positions of this model, such as minilm.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="learned, without --model: seed of random vectors.")] = 0,
    show: Show = None,
    out: Out = None,
    full: Full = False,
    aspect: Aspect = None,
    font_size: FontSize = None,
    no_caption: NoCaption = False,
) -> None:
    """Show positional encodings: the vector of each position, and how similar two positions are."""
    targets = outputs.targets(out, show, layout=outputs.layout(aspect, font_size, no_caption))
    if model is not None and kind is not PositionKind.LEARNED:
        raise OptionError(f"--model is for learned positions; {kind} ones are computed from a formula.")
    weights = None if model is None else _learned(model)
    lesson = position_lesson(
        kind.value, length=length, width=width, base=base, weights=weights, source=f"learned by {model}", seed=seed
    )
    outputs.publish(out, targets, [lesson.table()], lambda: figure.positions(lesson), full=full)


def _learned(name: str) -> Any:
    from regard.layers import Learned
    from regard.models.model import model

    positions = model(name).transformer.positions
    if not isinstance(positions, Learned):
        raise OptionError(f"The model {name!r} has no learned positions; `regard positions rotary` draws rotary ones.")
    return positions.weight


# A transformer block

BLOCK_EXAMPLES = """Examples:

\b
  regard block "The cat sat"
  regard block "The cat sat" --query cat --out block.svg --out block.md
  regard block "Once upon a time" --kind decoder --norm-first
  regard block "le chat" --context "The cat sat" --out decoder.svg

\b
Embeddings and weights are random numbers from --seed: the command shows how a
block computes, and nothing about the words.
"""


class BlockKind(StrEnum):
    """What a block is part of."""

    ENCODER = "encoder"
    DECODER = "decoder"


def block(
    text: Annotated[str, typer.Argument(help="A sentence; - reads it from standard input.")],
    context: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A text that an encoder reads and the decoder attends to.")
    ] = None,
    kind: Annotated[
        BlockKind | None,
        typer.Option(help="encoder, or decoder (a word sees only those before it); default: by --context."),
    ] = None,
    heads: Annotated[int, typer.Option(min=1, max=64, help="Number of heads.")] = 2,
    width: Annotated[int, typer.Option(min=1, max=MOST_WIDTH, help="Width of the vectors.")] = 8,
    norm_first: Annotated[
        bool, typer.Option("--norm-first", help="Norms before each part (pre-norm), as in GPT-2 and Llama.")
    ] = False,
    query: Annotated[str | None, typer.Option(metavar="WORD", help="Only this word's table.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")] = 0,
    show: Show = None,
    out: Out = None,
    full: Full = False,
    aspect: Aspect = None,
    font_size: FontSize = None,
    no_caption: NoCaption = False,
) -> None:
    """Show a transformer block: attention, add & norm, feed-forward, add & norm, with every vector."""
    targets = outputs.targets(out, show, layout=outputs.layout(aspect, font_size, no_caption))
    words = _words(text_input.text_given(text))
    if width % heads:
        raise OptionError(f"--width {width} is not a multiple of --heads {heads}: each head gets an equal share.")
    lesson = block_lesson(
        words, () if context is None else _words(context), kind=None if kind is None else kind.value, heads=heads,
        width=width, norm_first=norm_first, seed=seed,
    )  # fmt: skip
    tables = lesson.tables() if query is None else (lesson.table(asked_for(query, words)),)
    outputs.publish(out, targets, tables, lambda: figure.block(lesson), full=full)


def _words(text: str) -> tuple[str, ...]:
    words = words_of(text)
    if not words:
        raise OptionError('The text contains no word: give one, as in regard block "The cat sat".')
    if len(words) > MOST_WORDS:
        raise OptionError(f"The text has {len(words)} words; a block is shown for {MOST_WORDS} at most.")
    return words

"""`regard block`: words through an encoder or decoder block, stage by stage."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from regard.cli import files, outputs, rendering, terminal
from regard.cli.outputs import Format, Out
from regard.cli.words import asked_for, words_of
from regard.errors import OptionError
from regard.output import figure
from regard.teaching.block import block_lesson

MOST_WORDS, MOST_WIDTH = 64, 256

EXAMPLES = """Examples:

\b
  regard block "The cat sat"
  regard block "The cat sat" --query cat --out block.svg --out block.md
  regard block "Once upon a time" --kind decoder --norm-first
  regard block "le chat" --context "The cat sat" --out decoder.svg

\b
Embeddings and weights are random numbers from --seed: the command shows how a
block computes, and nothing about the words.
"""


class Kind(StrEnum):
    """What a block is part of."""

    ENCODER = "encoder"
    DECODER = "decoder"


def block(
    text: Annotated[str, typer.Argument(help="A sentence; - reads it from standard input.")],
    context: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A text that a decoder attends to, once an encoder read it.")
    ] = None,
    kind: Annotated[
        Kind | None, typer.Option(help="encoder, or decoder (a word sees only those before it); default: by --context.")
    ] = None,
    heads: Annotated[int, typer.Option(min=1, max=64, help="Number of heads.")] = 2,
    width: Annotated[int, typer.Option(min=1, max=MOST_WIDTH, help="Numbers of a vector.")] = 8,
    norm_first: Annotated[
        bool, typer.Option("--norm-first", help="Norms before each part (pre-norm), as in GPT-2 and Llama.")
    ] = False,
    query: Annotated[str | None, typer.Option(metavar="WORD", help="Only this word's table.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")] = 0,
    show: Annotated[Format | None, typer.Option(help="What to show it as; by default as --out ends.")] = None,
    out: Out = None,
    full: Annotated[bool, typer.Option("--full", help="Do not shorten vectors.")] = False,
) -> None:
    """Show a transformer block: attention, add & norm, feed-forward, add & norm, with every vector."""
    targets = outputs.targets(out, show)
    words = _words(files.text_of(files.STANDARD) if text == files.STANDARD else text)
    if width % heads:
        raise OptionError(f"--width {width} is not a multiple of --heads {heads}: each head gets an equal share.")
    lesson = block_lesson(
        words, () if context is None else _words(context), kind=None if kind is None else kind.value, heads=heads,
        width=width, norm_first=norm_first, seed=seed,
    )  # fmt: skip
    tables = lesson.tables() if query is None else (lesson.table(asked_for(query, words)),)
    if out is None and targets[0].format is Format.TABLE:
        terminal.show(tables, full)
        return
    outputs.write(targets, lambda wanted: rendering.file_of(tables, lambda: figure.block(lesson), wanted))


def _words(text: str) -> tuple[str, ...]:
    words = words_of(text)
    if not words:
        raise OptionError('The text contains no word: give one, as in regard block "The cat sat".')
    if len(words) > MOST_WORDS:
        raise OptionError(f"The text has {len(words)} words; a block is shown for {MOST_WORDS} at most.")
    return words

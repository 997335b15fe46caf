"""`regard block`: a transformer block on a sentence, stage by stage."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from regard.cli import text_input
from regard.cli.output_options import writes
from regard.cli.outputs import Output
from regard.output import figure
from regard.teaching.block import MOST_WIDTH, Kind, block_lesson

BlockKind = Literal["encoder", "decoder", "pre-norm-encoder", "pre-norm-decoder"]
KINDS: dict[BlockKind | None, tuple[Kind | None, bool]] = {
    None: (None, False), "encoder": ("encoder", False), "decoder": ("decoder", False),
    "pre-norm-encoder": ("encoder", True), "pre-norm-decoder": ("decoder", True),
}  # the kind, and whether norms come first  # fmt: skip

EXAMPLES = """Examples:

\b
  regard block "The cat sat"
  regard block "The cat sat" --query cat --out block.svg --out block.md
  regard block "Once upon a time" --kind pre-norm-decoder
  regard block "le chat" --context "The cat sat" --out decoder.svg

\b
Embeddings and weights are random numbers from --seed: the command shows how a
block computes, and nothing about the words.
"""


@writes()
def block(
    output: Output,
    text: Annotated[str, typer.Argument(help="A sentence; - reads it from standard input.")],
    context: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A text that an encoder reads and the decoder attends to.")
    ] = None,
    kind: Annotated[
        BlockKind | None,
        typer.Option(
            help="In a decoder a word sees only those before it; pre-norm has the norms before each part, as in GPT-2 "
            "and Llama. Default: by --context."
        ),
    ] = None,
    heads: Annotated[int, typer.Option(min=1, max=64, help="Number of heads.")] = 2,
    width: Annotated[int, typer.Option(min=1, max=MOST_WIDTH, help="Width of the vectors.")] = 8,
    query: Annotated[str | None, typer.Option(metavar="WORD", help="Only this word's table.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")] = 0,
) -> None:
    """Show a transformer block: attention, add & norm, feed-forward, add & norm, with every vector."""
    lesson = block_lesson(
        text_input.text_given(text), context or (), kind=KINDS[kind][0], norm_first=KINDS[kind][1], heads=heads,
        width=width, seed=seed,
    )  # fmt: skip
    word = text_input.word_position("--query", query, lesson.words)
    tables = lesson.tables() if word is None else (lesson.table(word),)
    output.publish(tables, lambda: figure.block(lesson))

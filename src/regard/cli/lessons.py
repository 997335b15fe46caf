"""`regard lookup`, `block`, `positions` and `scaling`: lessons on one part of a transformer each."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from regard.cli import text_input
from regard.cli.options import Seed, Writes
from regard.cli.outputs import Output
from regard.errors import OptionError, did_you_mean
from regard.output import figure
from regard.teaching.block import MOST_WIDTH, Kind, block_lesson
from regard.teaching.positions import KINDS, LONGEST, WIDEST, position_lesson
from regard.teaching.scaled_scores import SIZES, USUAL, scaling_lesson

BlockKind = Literal["encoder", "decoder", "pre-norm-encoder", "pre-norm-decoder"]

BLOCKS: dict[BlockKind | None, tuple[Kind | None, bool]] = {
    None: (None, False), "encoder": ("encoder", False), "decoder": ("decoder", False),
    "pre-norm-encoder": ("encoder", True), "pre-norm-decoder": ("decoder", True),
}  # the kind, and whether norms come first  # fmt: skip


def block(
    output: Annotated[Output, Writes()],
    text: str,
    context: str | None = None,
    kind: BlockKind | None = None,
    heads: Annotated[int, typer.Option(min=1, max=64)] = 2,
    width: Annotated[int, typer.Option(min=1, max=MOST_WIDTH)] = 8,
    query: str | None = None,
    seed: Seed = 0,
) -> None:
    """Show a transformer block: attention, add & norm, feed-forward, add & norm, with every vector.

    text          A sentence; - reads it from standard input.
    context TEXT  A text that an encoder reads and the decoder attends to.
    kind          In a decoder a word sees only those before it; pre-norm has the norms before each part, as in GPT-2
                  and Llama. Default: by --context.
    heads         Number of heads.
    width         Width of the vectors.
    query WORD    Only this word's table.
    seed          Seed of the random numbers.

    Examples:
      regard block "The cat sat"
      regard block "The cat sat" --query cat --out block.svg --out block.md
      regard block "Once upon a time" --kind pre-norm-decoder
      regard block "le chat" --context "The cat sat" --out decoder.svg

    Embeddings and weights are random numbers from --seed: the command shows how a
    block computes, and nothing about the words.
    """
    lesson = block_lesson(
        text_input.text_given(text), context or (), kind=BLOCKS[kind][0], norm_first=BLOCKS[kind][1], heads=heads,
        width=width, seed=seed,
    )  # fmt: skip
    word = text_input.word_position("--query", query, lesson.words)
    tables = lesson.tables() if word is None else (lesson.table(word),)
    output.publish(tables, lambda: figure.block(lesson))


def positions(
    output: Annotated[Output, Writes()],
    kind: Annotated[str, typer.Argument()] = "sinusoidal",
    length: Annotated[int, typer.Option(min=1, max=LONGEST)] = 32,
    width: Annotated[int, typer.Option(min=1, max=WIDEST)] = 16,
    base: float = 10000.0,
    seed: Seed = 0,
) -> None:
    """Show positional encodings: the vector of each position, and how similar two positions are.

    kind    sinusoidal, rotary, learned (random, before training), or a model such as minilm.
    length  Number of positions.
    width   Width of the vectors; even for rotary.
    base    Base of the wavelengths (sinusoidal, rotary).
    seed    Seed of the random numbers.

    Examples:
      regard positions sinusoidal
      regard positions sinusoidal --length 64 --width 32 --out pe.svg --out pe.tex
      regard positions rotary --width 8 --out rope.pdf
      regard positions minilm --width 384 --out bert.svg
    """
    options: dict[str, Any] = {"length": length, "width": width, "base": base, "seed": seed}
    if kind not in KINDS:
        options |= {"weights": _weights(kind), "source": f"learned by {kind}"}
    lesson = position_lesson(kind if kind in KINDS else "learned", **options)
    output.publish([lesson.table()], lambda: figure.positions(lesson))


def _weights(name: str) -> Any:
    if hint := did_you_mean(name, KINDS):
        raise OptionError(f"There are no positions {name!r}; expected {', '.join(KINDS)} or a model.{hint}")
    from regard.models.model import model

    return model(name).learned_positions


def scaling(
    output: Annotated[Output, Writes(full=False)],
    divisor: list[str] | None = None,
    size: Annotated[list[int] | None, typer.Option(min=1)] = None,
    seed: Seed = 0,
) -> None:
    """Show weights and gradients as d_k grows, with and without the division by √d_k.

    divisor  A number, sqrt for √d_k, or d_k; may be repeated. By default 1, √d_k and d_k.
    size     A d_k; may be repeated. By default 1 to 1,024.
    seed     Seed of the random numbers.

    Examples:
      regard scaling
      regard scaling --divisor 1 --divisor sqrt
      regard scaling --divisor 8 --size 16 --size 64 --size 256
      regard scaling --out scaling.svg
    """
    lesson = scaling_lesson(divisor or USUAL, sizes=size or SIZES, seed=seed)
    output.publish(lesson.tables(), lambda: figure.scaling(lesson))

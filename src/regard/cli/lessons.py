"""`regard lookup`, `block`, `positions` and `scaling`: lessons on one part of a transformer each."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

import typer

from regard.cli import terminal, text_input
from regard.cli.commands import Writes
from regard.cli.options import Seed
from regard.cli.outputs import Output
from regard.errors import OptionError, did_you_mean
from regard.output import figure
from regard.output.files import file_of
from regard.tables import Table
from regard.teaching.block import MOST_WIDTH, Kind, block_lesson
from regard.teaching.lookup import lookup_of, query_of
from regard.teaching.positions import KINDS, LONGEST, WIDEST, position_lesson
from regard.teaching.scaled_scores import SIZES, USUAL, scaling_lesson

MOST_KEYS = 24  # of a look-up, in the terminal
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
    """The learned positions of a model."""
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


def lookup(
    output: Annotated[Output, Writes()],
    file: str,
    query: str,
    temperature: float | None = None,
    similarity: Literal["dot", "scaled-dot", "cosine", "negative-distance"] | None = None,
    embed: Literal["spelling", "model"] | None = None,
    leaves: bool = False,
) -> None:
    """Look a query up: equal keys first, then SELECT value WHERE key ≈ query.

    file         A JSON file with keys and values; - for standard input.
    query        A text, or a vector as in "[1, 0]".
    temperature  Divides the similarities; 0 is the limit: all weight on the most similar key.
    similarity   By default cosine for texts, scaled-dot for vectors.
    embed        How texts become vectors: by spelling (the default), or by a model.
    leaves       Look inside nested values, by paths: address.city.

    Examples:
      regard examples jane > jane.json
      regard lookup jane.json "Date of birth"
      regard lookup jane.json "birth date"
      regard lookup jane.json "birth date" --temperature 1
      regard lookup jane.json "when was she born" --embed model
      regard examples person | regard lookup - city --leaves
      regard examples four-words | regard lookup - "[0.3, 1.2, 4]"
      regard lookup jane.json "birth date" --out birth.svg --out birth.md

    FILE holds a JSON object of keys and values, or "keys" and "values" that are
    lists. If keys are vectors, the query is one too. Texts are compared by their
    spelling (shared letter trigrams); with --embed model by their meaning, as the
    default model has learned it.
    """
    content = text_input.json_of(file)
    how: Any = None if similarity is None else similarity.replace("-", " ")
    dictionary = replace(lookup_of(content, text_input.called(file), how, temperature), embed=embed)
    dictionary = dictionary.leaves() if leaves else dictionary
    search_query = query_of(query, dictionary)
    hard, soft = dictionary.hard(search_query), dictionary.soft(search_query)
    if output.is_printed:
        equal = hard.table() if hard.found else "\n".join(["SELECT value WHERE key = query", *hard.table().notes])
        parts = (equal, soft.table())
        terminal.show([part if isinstance(part, str) else _shortened(part, output.full) for part in parts], output.full)
        return
    tables = [answer.table(with_values=True) for answer in (hard, soft)]
    title = "Hard and soft look-up"
    output.write(lambda kind: file_of(tables, lambda: figure.lookup(dictionary, search_query), kind, title))


def _shortened(table: Table, full: bool) -> Table:
    """Only the most probable keys, which come first."""
    left = len(table) - MOST_KEYS
    if full or left <= 0:
        return table
    note = f"{left:,} less probable keys are omitted: --full shows them."
    return replace(table, rows=table.rows[:MOST_KEYS], notes=(*table.notes, note))

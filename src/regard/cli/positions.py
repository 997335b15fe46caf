"""`regard positions`: positional encodings as a figure and a table."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from regard.cli import outputs, rendering, terminal
from regard.cli.outputs import Format, Out
from regard.errors import OptionError
from regard.output import figure
from regard.teaching.positions import LONGEST, WIDEST, position_lesson

EXAMPLES = """Examples:

\b
  regard positions sinusoidal
  regard positions sinusoidal --length 64 --width 32 --out pe.svg --out pe.tex
  regard positions rotary --width 8 --out rope.pdf
  regard positions learned --model minilm --width 384 --out bert.svg
"""


class Kind(StrEnum):
    """Ways to tell a model where a word is."""

    SINUSOIDAL = "sinusoidal"
    LEARNED = "learned"
    ROTARY = "rotary"


def positions(
    kind: Annotated[Kind, typer.Argument(help="sinusoidal, learned or rotary.")] = Kind.SINUSOIDAL,
    length: Annotated[int, typer.Option(min=1, max=LONGEST, help="Number of positions.")] = 32,
    width: Annotated[int, typer.Option(min=1, max=WIDEST, help="Numbers of a vector; even for rotary.")] = 16,
    base: Annotated[float, typer.Option(help="Base of the wavelengths (sinusoidal, rotary).")] = 10000.0,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="learned: the positions of this model, such as minilm.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="learned, without --model: seed of random vectors.")] = 0,
    show: Annotated[Format | None, typer.Option(help="What to show it as; by default as --out ends.")] = None,
    out: Out = None,
    full: Annotated[bool, typer.Option("--full", help="Do not shorten vectors.")] = False,
) -> None:
    """Show positional encodings: the vector of each position, and how similar two positions are."""
    targets = outputs.targets(out, show)
    if model is not None and kind is not Kind.LEARNED:
        raise OptionError(f"--model is for learned positions; {kind} ones are computed from a formula.")
    weights = None if model is None else _learned(model)
    lesson = position_lesson(
        kind.value, length=length, width=width, base=base, weights=weights, source=f"learned by {model}", seed=seed
    )
    if out is None and targets[0].format is Format.TABLE:
        terminal.show([lesson.table()], full)
        return
    outputs.write(targets, lambda wanted: rendering.file_of([lesson.table()], lambda: figure.positions(lesson), wanted))


def _learned(name: str) -> Any:
    from regard.layers import Learned
    from regard.models.architectures import model

    positions = model(name).transformer.positions
    if not isinstance(positions, Learned):
        raise OptionError(f"The model {name!r} has no learned positions; `regard positions rotary` draws rotary ones.")
    return positions.weight

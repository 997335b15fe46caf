"""`regard positions`: the positional encodings of a formula or of a model."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from regard.cli.output_options import writes
from regard.cli.outputs import Output
from regard.errors import OptionError, did_you_mean
from regard.output import figure
from regard.teaching.positions import KINDS, LONGEST, WIDEST, position_lesson

EXAMPLES = """Examples:

\b
  regard positions sinusoidal
  regard positions sinusoidal --length 64 --width 32 --out pe.svg --out pe.tex
  regard positions rotary --width 8 --out rope.pdf
  regard positions minilm --width 384 --out bert.svg
"""


@writes()
def positions(
    output: Output,
    kind: Annotated[
        str, typer.Argument(help="sinusoidal, rotary, learned (random, before training), or a model such as minilm.")
    ] = "sinusoidal",
    length: Annotated[int, typer.Option(min=1, max=LONGEST, help="Number of positions.")] = 32,
    width: Annotated[int, typer.Option(min=1, max=WIDEST, help="Width of the vectors; even for rotary.")] = 16,
    base: Annotated[float, typer.Option(help="Base of the wavelengths (sinusoidal, rotary).")] = 10000.0,
    seed: Annotated[int, typer.Option(min=0, help="learned: seed of the random vectors.")] = 0,
) -> None:
    """Show positional encodings: the vector of each position, and how similar two positions are."""
    options: dict[str, Any] = {"length": length, "width": width, "base": base, "seed": seed}
    if kind in KINDS:
        lesson = position_lesson(kind, **options)
    else:
        lesson = position_lesson("learned", weights=_weights(kind), source=f"learned by {kind}", **options)
    output.publish([lesson.table()], lambda: figure.positions(lesson))


def _weights(name: str) -> Any:
    """The learned positions of a model."""
    if hint := did_you_mean(name, KINDS):
        raise OptionError(f"There are no positions {name!r}; expected {', '.join(KINDS)} or a model.{hint}")
    from regard.models.model import model

    return model(name).learned_positions

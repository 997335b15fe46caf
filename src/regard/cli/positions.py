"""`regard positions`: the positional encodings of a formula or of a model."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from regard.cli import outputs
from regard.cli.output_options import Aspect, FontSize, Full, NoCaption, Out, Show, layout
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


def positions(
    kind: Annotated[
        str, typer.Argument(help="sinusoidal, rotary, learned (random, before training), or a model such as minilm.")
    ] = "sinusoidal",
    length: Annotated[int, typer.Option(min=1, max=LONGEST, help="Number of positions.")] = 32,
    width: Annotated[int, typer.Option(min=1, max=WIDEST, help="Width of the vectors; even for rotary.")] = 16,
    base: Annotated[float, typer.Option(help="Base of the wavelengths (sinusoidal, rotary).")] = 10000.0,
    seed: Annotated[int, typer.Option(min=0, help="learned: seed of the random vectors.")] = 0,
    show: Show = None,
    out: Out = None,
    full: Full = False,
    aspect: Aspect = None,
    font_size: FontSize = None,
    no_caption: NoCaption = False,
) -> None:
    """Show positional encodings: the vector of each position, and how similar two positions are."""
    targets = outputs.targets(out, show, layout=layout(aspect, font_size, no_caption))
    options: dict[str, Any] = {"length": length, "width": width, "base": base, "seed": seed}
    if kind in KINDS:
        lesson = position_lesson(kind, **options)
    else:
        lesson = position_lesson("learned", weights=_weights(kind), source=f"learned by {kind}", **options)
    outputs.publish(out, targets, [lesson.table()], lambda: figure.positions(lesson), full=full)


def _weights(name: str) -> Any:
    """The learned positions of a model."""
    if hint := did_you_mean(name, KINDS):
        raise OptionError(f"There are no positions {name!r}; expected {', '.join(KINDS)} or a model.{hint}")
    from regard.models.model import model

    return model(name).learned_positions

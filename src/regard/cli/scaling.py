"""`regard scaling`: why scores are divided by √d_k."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from regard.cli import printing, rendering
from regard.errors import OptionError
from regard.scaling import SIZES, USUAL, scaling_lesson
from regard.show import figure

MOST_SIZE = 1 << 14

EXAMPLES = """Examples:

\b
  regard scaling
  regard scaling --divisor 1 --divisor sqrt
  regard scaling --divisor 8 --size 16 --size 64 --size 256
  regard scaling --out scaling.svg
"""


class Medium(StrEnum):
    """What the lesson can be shown as."""

    TABLE = "table"
    SVG = "svg"
    PNG = "png"


def scaling(
    divisor: Annotated[
        list[str] | None,
        typer.Option(help="A number, sqrt for √d_k, or d_k; may be repeated. By default 1, √d_k and d_k."),
    ] = None,
    size: Annotated[
        list[int] | None, typer.Option(min=1, help="A d_k; may be repeated. By default 1 to 1,024.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random tokens and weights.")] = 0,
    show: Annotated[
        Medium | None, typer.Option(help="Tables, or a figure with a line a divisor; by default as --out ends.")
    ] = None,
    out: Annotated[str | None, typer.Option(metavar="FILE", help="Write to this file.")] = None,
) -> None:
    """Show what weights and gradients become as d_k grows, with and without the division by √d_k."""
    medium = show or _medium_for(out)
    if size and max(size) > MOST_SIZE:
        raise OptionError(f"--size {max(size)} is more than {MOST_SIZE:,}.")
    lesson = scaling_lesson(divisor or USUAL, sizes=size or SIZES, seed=seed)
    if medium is Medium.TABLE and out is None:
        printing.show(lesson.tables())
    elif medium is Medium.TABLE:
        printing.deliver(printing.plain(lesson.tables()), out)
    else:
        drawn = figure.scaling(lesson)
        printing.deliver(drawn.png() if medium is Medium.PNG else str(drawn), out)


def _medium_for(out: str | None) -> Medium:
    """The medium that a file's name asks for."""
    named = rendering.medium_for(out).value
    if named not in list(Medium):
        raise OptionError(f"regard scaling writes {', '.join(Medium)}, not {named}: end {out!r} in .txt, .svg or .png.")
    return Medium(named)

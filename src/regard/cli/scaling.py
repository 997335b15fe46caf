"""`regard scaling`: why scores are divided by √d_k."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli import outputs, rendering, terminal
from regard.cli.outputs import Format, Out
from regard.errors import OptionError
from regard.output import figure
from regard.teaching.scaling import SIZES, USUAL, scaling_lesson

MOST_SIZE = 1 << 14

EXAMPLES = """Examples:

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
    show: Annotated[
        Format | None, typer.Option(help="What to show it as; by default as --out ends.")
    ] = None,
    out: Out = None,
) -> None:
    """Show weights and gradients as d_k grows, with and without the division by √d_k."""
    targets = outputs.targets(out, show)
    if size and max(size) > MOST_SIZE:
        raise OptionError(f"--size {max(size)} is more than {MOST_SIZE:,}.")
    lesson = scaling_lesson(divisor or USUAL, sizes=size or SIZES, seed=seed)
    if out is None and targets[0].format is Format.TABLE:
        terminal.show(lesson.tables())
        return
    outputs.write(targets, lambda kind: rendering.file_of(lesson.tables(), lambda: figure.scaling(lesson), kind))

"""`regard scaling`: weights and gradients as d_k grows."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli.output_options import writes
from regard.cli.outputs import Output
from regard.output import figure
from regard.teaching.scaled_scores import SIZES, USUAL, scaling_lesson

EXAMPLES = """Examples:

\b
  regard scaling
  regard scaling --divisor 1 --divisor sqrt
  regard scaling --divisor 8 --size 16 --size 64 --size 256
  regard scaling --out scaling.svg
"""


@writes(full=False)
def scaling(
    output: Output,
    divisor: Annotated[
        list[str] | None,
        typer.Option(help="A number, sqrt for √d_k, or d_k; may be repeated. By default 1, √d_k and d_k."),
    ] = None,
    size: Annotated[
        list[int] | None, typer.Option(min=1, help="A d_k; may be repeated. By default 1 to 1,024.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random tokens and weights.")] = 0,
) -> None:
    """Show weights and gradients as d_k grows, with and without the division by √d_k."""
    lesson = scaling_lesson(divisor or USUAL, sizes=size or SIZES, seed=seed)
    output.publish(lesson.tables(), lambda: figure.scaling(lesson))

"""`regard explain`: every step of one word and head of a real model."""

from __future__ import annotations

from typing import Annotated

from regard.cli import terminal
from regard.cli.options import USUAL, AnyModel, File, Head, Layer, Query, Sentence, Writes, open_model
from regard.cli.outputs import Output
from regard.cli.see import query_position
from regard.cli.text_input import text_argument


def explain(
    output: Annotated[Output, Writes()],
    text: Sentence = None,
    file: File = None,
    model: AnyModel = None,
    query: Query = None,
    layer: Layer = None,
    head: Head = None,
) -> None:
    """Show every step of a model's attention for one word in one head: q, k, v, score, softmax, sum.

    Examples:
      regard explain "The cat sat"
      regard explain "The cat sat" --query cat --layer 4 --head 7
      regard explain "The cat sat" --query cat --full --out cat.csv
      regard explain "The cat sat" --query cat --out cat.svg

    The steps are those of `regard steps`, on the vectors of a model.
    """
    from regard.output import see_report
    from regard.reading.sight import sight

    reading = open_model(model or USUAL).read(text_argument("explain", text, file))
    shown = sight(reading, query_position(query, reading), layer, head)
    if output.is_printed:
        terminal.show([see_report.sentence(reading), ""])
    table = see_report.step_table(shown, output.full)
    output.publish([table], lambda: see_report.step_figure(shown))

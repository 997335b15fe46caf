"""`regard explain`: every step of one head of a real model, for one word."""

from __future__ import annotations

from regard.cli import terminal
from regard.cli.model_option import USUAL, AnyModel, open_model
from regard.cli.output_options import writes
from regard.cli.outputs import Output
from regard.cli.see import File, Head, Layer, Query, Text
from regard.cli.text_input import text_argument, word_position

EXAMPLES = """Examples:

\b
  regard explain "The cat sat"
  regard explain "The cat sat" --query cat --layer 4 --head 7
  regard explain "The cat sat" --query cat --full --out cat.csv
  regard explain "The cat sat" --query cat --out cat.svg

\b
The steps are those of `regard steps`, on the vectors of a model.
"""


@writes()
def explain(
    output: Output,
    text: Text = None,
    file: File = None,
    model: AnyModel = None,
    query: Query = None,
    layer: Layer = None,
    head: Head = None,
) -> None:
    """Show every step of a model's attention for one word in one head: q, k, v, score, softmax, sum."""
    from regard.output import see_report
    from regard.reading.sight import sight

    reading = open_model(model or USUAL).read(text_argument("explain", text, file))
    shown = sight(reading, word_position("--query", query, [word.text for word in reading.words]), layer, head)
    if output.is_printed:
        terminal.show([see_report.sentence(reading), ""])
    table = see_report.step_table(shown, output.full)
    output.publish([table], lambda: see_report.step_figure(shown))

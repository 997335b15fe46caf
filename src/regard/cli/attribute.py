"""`regard attribute`: which heads and tokens an answer comes from, and what a head can do by its weights."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from regard.cli import head_vectors, terminal, text_input
from regard.cli.head_vectors import FORMATS, MOST_ROWS, Text
from regard.cli.model_option import CAUSAL, AnyModel, open_model
from regard.cli.output_options import writes
from regard.cli.outputs import Output

EXAMPLES = """Examples:

\b
  regard attribute lens "The capital of France is" --target " Paris"
  regard attribute logit "When Mary and John went to the store, John gave a drink to" \\
      --toward " Mary" --against " John"
  regard attribute weights 23.3 --token " Mary"
  regard attribute project 2.3 "The kids were scared of the lions." --of keys

`regard attribute COMMAND --help` says more about each.
"""
LENS_EXAMPLES = """Examples:

\b
  regard attribute lens "The capital of France is" --target " Paris"
  regard attribute lens "The capital of France is" --out lens.svg --out lens.csv
"""
LOGIT_EXAMPLES = """Examples:

\b
  regard attribute logit "The capital of France is"
  regard attribute logit "When Mary and John met, John gave a drink to" \\
      --toward " Mary" --against " John" --out heads.svg --out heads.csv
"""
app = terminal.group(
    "Which heads and tokens an answer comes from, and what a head can do by its weights.",
    EXAMPLES,
    no_args_is_help=True,
)


@app.command(cls=terminal.Command, epilog=LENS_EXAMPLES)
@writes(FORMATS)
def lens(
    output: Output,
    text: Text,
    target: Annotated[str | None, typer.Option(help="Follow this token; by default the one that follows.")] = None,
    model: AnyModel = None,
) -> None:
    """The logit lens: what the model would predict if it ended after each layer."""
    from regard.attribution import logit_lens
    from regard.output import figure

    result = logit_lens(open_model(model or CAUSAL), text_input.text_given(text), target)
    output.publish([result.table(output.most(-1))], partial(figure.logit_lens, result))


@app.command(cls=terminal.Command, epilog=LOGIT_EXAMPLES)
@writes(FORMATS)
def logit(
    output: Output,
    text: Text,
    toward: Annotated[
        str | None, typer.Option(help="The next token whose logit is explained; by default the most likely one.")
    ] = None,
    against: Annotated[str | None, typer.Option(help="Subtract the logit of this token.")] = None,
    model: AnyModel = None,
) -> None:
    """The direct contribution of every head, and of every token through each head, to the logit of the next token."""
    from regard.attribution import contributions
    from regard.output import figure

    chosen = toward if against is None else (toward, against)
    parts = contributions(open_model(model or CAUSAL), text_input.text_given(text), chosen)
    tables = [parts.table(output.most(MOST_ROWS))]
    tables += [] if output.is_printed else [parts.source_table(), parts.part_table()]
    draw = partial(
        figure.effect_map, parts.heads, list(map(str, range(parts.heads.shape[1]))), what="logits",
        title=f"Contributions of heads to {parts.target}", notes=[parts.source],
    )  # fmt: skip
    output.publish(tables, draw)


for _command, _epilog in (
    (head_vectors.weights, head_vectors.WEIGHTS_EXAMPLES),
    (head_vectors.project, head_vectors.PROJECT_EXAMPLES),
):
    app.command(cls=terminal.Command, epilog=_epilog)(_command)

"""`regard attribute weights` and `project`: a head's weights, and its queries, keys and values."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, Literal

import typer

from regard.cli import text_input
from regard.cli.model_option import CAUSAL, USUAL, AnyModel, ComputedModel, open_computed, open_model
from regard.cli.output_options import writes
from regard.cli.outputs import Output
from regard.errors import OptionError
from regard.output.files import USUAL as USUAL_FORMATS
from regard.output.files import Format

FORMATS = (*USUAL_FORMATS, Format.PARQUET)
MOST_ROWS = 12  # of a table in the terminal

WEIGHTS_EXAMPLES = """Examples:

\b
  regard attribute weights
  regard attribute weights 23.3 --token " Mary" --token " cat"
  regard attribute weights --out copying.svg
"""
PROJECT_EXAMPLES = """Examples:

\b
  regard attribute project 2.3 "The kids were scared of the lions." --of keys
  regard attribute project 2.3 --colour weight --out keys.svg - < letter.txt
"""

Text = Annotated[str, typer.Argument(help="A text; - reads it from standard input.")]


@writes(FORMATS)
def weights(
    output: Output,
    head: Annotated[
        str | None, typer.Argument(metavar="[LAYER.HEAD]", help="A head; scores of all without it.")
    ] = None,
    token: Annotated[list[str] | None, typer.Option(help="Read the head through this token; may be repeated.")] = None,
    model: ComputedModel = None,
) -> None:
    """What a head looks for and writes, by W_QK and W_OV; copying and previous-token scores of all heads."""
    from regard.attribution import TokenCircuits
    from regard.output import figure

    if (head is None) != (not token):
        raise OptionError(
            "A head is read through tokens: give both, as in regard attribute weights 23.3 --token ' Mary'."
        )
    chosen = None if head is None else head_named(head)
    circuits = TokenCircuits.of(open_computed(model or CAUSAL, "Reading weights"))
    table = circuits.score_table(output.most(MOST_ROWS)) if chosen is None else circuits.table(*chosen, token or [])
    output.publish([table], partial(figure.weight_scores, circuits.scores, circuits.reader.name))


@writes(FORMATS)
def project(
    output: Output,
    head: Annotated[str, typer.Argument(metavar="LAYER.HEAD", help="The head.")],
    text: Text,
    of: Annotated[Literal["queries", "keys", "values"], typer.Option(help="The vectors.")] = "keys",
    colour: Annotated[Literal["word", "position", "weight"], typer.Option(help="The colour of a point.")] = "word",
    model: AnyModel = None,
) -> None:
    """The queries, keys or values of a head on their principal components; every line of the text is one text."""
    from regard.attribution import project as project_head
    from regard.output import figure

    chosen = head_named(head)
    texts = text_input.lines_given(text)
    projected = project_head(open_model(model or USUAL), texts, *chosen, of)
    output.publish([projected.table()], partial(figure.projection, projected, colour=colour))


def head_named(name: str) -> tuple[int, int]:
    """A head by its name, 23.3: layer and head."""
    if not re.fullmatch(r"\d{1,4}\.\d{1,4}", name, re.ASCII):
        raise OptionError(f"{name!r} is not a head; expected layer.head, such as 23.3.")
    layer, _, head = name.partition(".")
    return int(layer), int(head)

"""`regard recipe`: questions about a model, answered by silencing heads or blocking edges, with controls."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli import outputs, terminal, text_input
from regard.cli.head_vectors import FORMATS, Show
from regard.cli.model_option import CAUSAL, USUAL, AnyModel, open_model
from regard.cli.output_options import Full, Out
from regard.cli.recipe_prompts import CIRCUIT_EXAMPLES, QUESTION_EXAMPLES, circuit, publish, question

EXAMPLES = """Examples:

\b
  regard recipe question indirect-objects --prompts 20
  regard recipe edge "The kids were scared of the lions, so they left." they kids
"""
SINKS_EXAMPLES = """Examples:

\b
  regard recipe sinks "The cat sat on the mat because it was tired."
  regard recipe sinks - --model smollm2 --out sinks.svg < lines.txt
"""
EDGE_EXAMPLES = """Examples:

\b
  regard recipe edge "The kids were scared of the lions, so they left." they kids
"""
PATCH_EXAMPLES = """Examples:

\b
  regard recipe patch "When Mary and John met, John gave a drink to" \\
      "When Mary and John met, Mary gave a drink to" " Mary" " John" --out patch.svg
"""

app = typer.Typer(
    cls=terminal.Group,
    help="Questions about a model, answered by silencing heads or blocking edges, with controls.",
    epilog=EXAMPLES,
    no_args_is_help=True,
    rich_markup_mode=None,  # keeps the lines of the examples as they are
    add_completion=False,
)
app.command(cls=terminal.Command, epilog=QUESTION_EXAMPLES)(question)
app.command(cls=terminal.Command, epilog=CIRCUIT_EXAMPLES)(circuit)


@app.command(cls=terminal.Command, epilog=SINKS_EXAMPLES)
def sinks(
    text: Annotated[str, typer.Argument(help="A text, or one per line; - reads them from standard input.")],
    model: AnyModel = None,
    show: Show = None,
    full: Full = False,
    out: Out = None,
) -> None:
    """Cut off the first token, which takes most of the weight in many heads, in each layer and in all."""
    from regard.attribution import sinks as block_sinks

    targets = outputs.targets(out, show, formats=FORMATS)
    texts = [line for line in text_input.text_given(text).splitlines() if line.strip()]
    publish(block_sinks(open_model(model or USUAL), texts), targets, out, full)


@app.command(cls=terminal.Command, epilog=EDGE_EXAMPLES)
def edge(
    text: Annotated[str, typer.Argument(help="A text; - reads it from standard input.")],
    query: Annotated[str, typer.Argument(help="The word that attends.")],
    key: Annotated[str, typer.Argument(help="The word that it attends to.")],
    model: AnyModel = None,
    show: Show = None,
    full: Full = False,
    out: Out = None,
) -> None:
    """Block one edge in each head in turn, and measure how far the text's vector moves."""
    from regard.attribution import sentence_vector

    targets = outputs.targets(out, show, formats=FORMATS)
    publish(sentence_vector(open_model(model or USUAL), text_input.text_given(text), query, key), targets, out, full)


@app.command(cls=terminal.Command, epilog=PATCH_EXAMPLES)
def patch(
    text: Annotated[str, typer.Argument(help="A prompt.")],
    other: Annotated[str, typer.Argument(help="Another prompt of equally many tokens.")],
    toward: Annotated[str, typer.Argument(help="The next token whose logit is measured.")],
    against: Annotated[str, typer.Argument(help="The token whose logit is subtracted.")],
    model: AnyModel = None,
    show: Show = None,
    full: Full = False,
    out: Out = None,
) -> None:
    """Put another prompt's residual stream into this one's, at every layer and token, and measure the answer."""
    from regard.attribution import patching

    targets = outputs.targets(out, show, formats=FORMATS)
    publish(patching(open_model(model or CAUSAL), text, other, toward, against), targets, out, full)

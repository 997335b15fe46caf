"""`regard recipe`: questions about a model, answered by silencing heads or blocking edges, with controls."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli import terminal, text_input
from regard.cli.head_vectors import FORMATS
from regard.cli.model_option import CAUSAL, USUAL, AnyModel, open_model
from regard.cli.output_options import writes
from regard.cli.outputs import Output
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
PATCH_HEADS_EXAMPLES = """Examples:

\b
  regard recipe patch-heads "When Mary and John met, John gave a drink to" \\
      "When Mary and John met, Mary gave a drink to" " Mary" " John" --out heads.svg
  regard recipe patch-heads "The kids were scared of the lions, so they left." \\
      "The lions were scared of the kids, so they left." --out heads.csv
"""

app = terminal.group(
    "Questions about a model, answered by silencing heads or blocking edges, with controls.",
    EXAMPLES,
    no_args_is_help=True,
)
app.command(cls=terminal.Command, epilog=QUESTION_EXAMPLES)(question)
app.command(cls=terminal.Command, epilog=CIRCUIT_EXAMPLES)(circuit)


@app.command(cls=terminal.Command, epilog=SINKS_EXAMPLES)
@writes(FORMATS)
def sinks(
    output: Output,
    text: Annotated[str, typer.Argument(help="A text, or one per line; - reads them from standard input.")],
    model: AnyModel = None,
) -> None:
    """Cut off the first token, which takes most of the weight in many heads, in each layer and in all."""
    from regard.attribution import sinks as block_sinks

    texts = text_input.lines_given(text)
    publish(block_sinks(open_model(model or USUAL), texts), output)


@app.command(cls=terminal.Command, epilog=EDGE_EXAMPLES)
@writes(FORMATS)
def edge(
    output: Output,
    text: Annotated[str, typer.Argument(help="A text; - reads it from standard input.")],
    query: Annotated[str, typer.Argument(help="The word that attends.")],
    key: Annotated[str, typer.Argument(help="The word that it attends to.")],
    model: AnyModel = None,
) -> None:
    """Block one edge in each head in turn, and measure how far the text's vector moves."""
    from regard.attribution import sentence_vector

    publish(sentence_vector(open_model(model or USUAL), text_input.text_given(text), query, key), output)


@app.command(cls=terminal.Command, epilog=PATCH_EXAMPLES)
@writes(FORMATS)
def patch(
    output: Output,
    text: Annotated[str, typer.Argument(help="A prompt.")],
    other: Annotated[str, typer.Argument(help="Another prompt of equally many tokens.")],
    toward: Annotated[str, typer.Argument(help="The next token whose logit is measured.")],
    against: Annotated[str, typer.Argument(help="The token whose logit is subtracted.")],
    model: AnyModel = None,
) -> None:
    """Put another prompt's residual stream into this one's, at every layer and token, and measure the answer."""
    from regard.attribution import patching

    publish(patching(open_model(model or CAUSAL), text, other, toward, against), output)


@app.command("patch-heads", cls=terminal.Command, epilog=PATCH_HEADS_EXAMPLES)
@writes(FORMATS)
def patch_heads(
    output: Output,
    text: Annotated[str, typer.Argument(help="A prompt.")],
    other: Annotated[str, typer.Argument(help="Another prompt of equally many tokens.")],
    toward: Annotated[str | None, typer.Argument(help="The next token whose logit is measured.")] = None,
    against: Annotated[str | None, typer.Argument(help="The token whose logit is subtracted.")] = None,
    model: AnyModel = None,
) -> None:
    """Put each head's output for another prompt into this one, and measure the answer, or the text's vector."""
    from regard.attribution.head_patching import head_patching

    reader = open_model(model or (USUAL if toward is None else CAUSAL))
    publish(head_patching(reader, text, other, toward, against), output)

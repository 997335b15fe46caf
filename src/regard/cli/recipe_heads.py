"""`regard recipe patch-heads`: which heads carry an answer from one prompt to another."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from regard.cli import outputs, recipe, terminal
from regard.cli.head_vectors import FORMATS, MOST_ROWS, Show
from regard.cli.model_option import CAUSAL, USUAL, AnyModel, open_model
from regard.cli.output_options import Full, Out

EXAMPLES = """Examples:

\b
  regard recipe patch-heads "When Mary and John met, John gave a drink to" \\
      "When Mary and John met, Mary gave a drink to" " Mary" " John" --out heads.svg
  regard recipe patch-heads "The kids were scared of the lions, so they left." \\
      "The lions were scared of the kids, so they left." --out heads.csv
"""
app = recipe.app  # with this command


@app.command("patch-heads", cls=terminal.Command, epilog=EXAMPLES)
def patch_heads(
    text: Annotated[str, typer.Argument(help="A prompt.")],
    other: Annotated[str, typer.Argument(help="Another prompt of equally many tokens.")],
    toward: Annotated[str | None, typer.Argument(help="The next token whose logit is measured.")] = None,
    against: Annotated[str | None, typer.Argument(help="The token whose logit is subtracted.")] = None,
    model: AnyModel = None,
    show: Show = None,
    full: Full = False,
    out: Out = None,
) -> None:
    """Put each head's output for another prompt into this one, and measure the answer, or the text's vector."""
    from regard.attribution.head_patching import head_patching
    from regard.output import figure

    targets = outputs.targets(out, show, formats=FORMATS)
    reader = open_model(model or (USUAL if toward is None else CAUSAL))
    study = head_patching(reader, text, other, toward, against)
    rows = MOST_ROWS if outputs.is_printed(out, targets) and not full else None
    outputs.publish(out, targets, [study.table(rows)], partial(figure.recipe, study), full=full)

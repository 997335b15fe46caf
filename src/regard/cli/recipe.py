"""`regard recipe`: studies of heads over generated prompts, with intervals and controls."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli import text_input
from regard.cli.attribute import Written
from regard.cli.commands import group
from regard.cli.options import CAUSAL, MOST_ROWS, USUAL, AnyModel, Seed, Text, open_model
from regard.cli.outputs import Output

if TYPE_CHECKING:
    from regard.attribution.recipes import GridStudy, HeadStudy

Prompts = Annotated[int, typer.Option(min=2, help="How many prompts are generated.")]


def question(
    output: Written,
    name: str,
    prompts: Prompts = 100,
    heads: Annotated[int | None, typer.Option(min=2)] = None,
    seed: Seed = 0,
    model: AnyModel = None,
) -> None:
    """Silence every head in turn and measure the answer to generated prompts; minutes with all 100.

    name   indirect-objects, induction, pronouns or agreement.
    heads  Silence this many: half by their first-order estimates, half at random.
    seed   Decides which prompts.

    Examples:
      regard recipe question indirect-objects --prompts 20
      regard recipe question agreement --out agreement.svg --out agreement.csv

    indirect-objects   "When Mary and John went to the store, John gave a drink to"
    induction          "... river house ... river": house again
    pronouns           "My friend Mary lives near the park, and": she, not he
    agreement          "The key near the doors": is, not are
    """
    from regard.attribution import answer_question, recipes

    recipes.check_name(name)
    publish(answer_question(open_model(model or CAUSAL), name, prompts, seed=seed, heads=heads), output)


def circuit(output: Written, prompts: Prompts = 100, seed: Seed = 0, model: AnyModel = None) -> None:
    """Patch the previous-token heads from corrupted texts: without them, induction heads find nothing.

    seed  Decides which prompts.

    Examples:
      regard train induction --heads 1 --out trained/induction
      regard recipe circuit --model trained/induction
    """
    from regard.attribution import induction_circuit

    publish(induction_circuit(open_model(model or CAUSAL), prompts, seed=seed), output)


def sinks(output: Written, text: str, model: AnyModel = None) -> None:
    """Cut off the first token, which takes most of the weight in many heads, in each layer and in all.

    text  A text, or one per line; - reads them from standard input.

    Examples:
      regard recipe sinks "The cat sat on the mat because it was tired."
      regard recipe sinks - --model smollm2 --out sinks.svg < lines.txt
    """
    from regard.attribution import sinks as block_sinks

    texts = text_input.lines_given(text)
    publish(block_sinks(open_model(model or USUAL), texts), output)


def edge(output: Written, text: Text, query: str, key: str, model: AnyModel = None) -> None:
    """Block one edge in each head in turn, and measure how far the text's vector moves.

    query  The word that attends.
    key    The word that it attends to.

    Examples:
      regard recipe edge "The kids were scared of the lions, so they left." they kids
    """
    from regard.attribution import sentence_vector

    publish(sentence_vector(open_model(model or USUAL), text_input.text_given(text), query, key), output)


def patch(output: Written, text: str, other: str, toward: str, against: str, model: AnyModel = None) -> None:
    r"""Put another prompt's residual stream into this one's, at every layer and token, and measure the answer.

    text     A prompt.
    other    Another prompt of equally many tokens.
    toward   The next token whose logit is measured.
    against  The token whose logit is subtracted.

    Examples:
      regard recipe patch "When Mary and John met, John gave a drink to" \
          "When Mary and John met, Mary gave a drink to" " Mary" " John" --out patch.svg
    """
    from regard.attribution import patching

    publish(patching(open_model(model or CAUSAL), text, other, toward, against), output)


def patch_heads(
    output: Written,
    text: str,
    other: str,
    toward: Annotated[str | None, typer.Argument()] = None,
    against: Annotated[str | None, typer.Argument()] = None,
    model: AnyModel = None,
) -> None:
    r"""Put each head's output for another prompt into this one, and measure the answer, or the text's vector.

    text     A prompt.
    other    Another prompt of equally many tokens.
    toward   The next token whose logit is measured.
    against  The token whose logit is subtracted.

    Examples:
      regard recipe patch-heads "When Mary and John met, John gave a drink to" \
          "When Mary and John met, Mary gave a drink to" " Mary" " John" --out heads.svg
      regard recipe patch-heads "The kids were scared of the lions, so they left." \
          "The lions were scared of the kids, so they left." --out heads.csv
    """
    from regard.attribution.recipes import head_patching

    reader = open_model(model or (USUAL if toward is None else CAUSAL))
    publish(head_patching(reader, text, other, toward, against), output)


def publish(study: HeadStudy | GridStudy, output: Output) -> None:
    """Print and write the table and figure of a study."""
    from regard.output import figure

    output.publish([study.table(output.most(MOST_ROWS))], partial(figure.recipe, study))


app = group(
    "Questions about a model, answered by silencing heads or blocking edges, with controls.",
    """  regard recipe question indirect-objects --prompts 20
  regard recipe edge "The kids were scared of the lions, so they left." they kids""",
    (question, circuit, sinks, edge, patch, patch_heads),
)

"""The commands of `regard recipe` that generate their prompts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.head_vectors import FORMATS, MOST_ROWS
from regard.cli.model_option import CAUSAL, AnyModel, open_model
from regard.cli.output_options import writes
from regard.cli.outputs import Output

if TYPE_CHECKING:
    from regard.attribution.recipes import GridStudy, HeadStudy

QUESTION_EXAMPLES = """Examples:

\b
  regard recipe question indirect-objects --prompts 20
  regard recipe question agreement --out agreement.svg --out agreement.csv

\b
indirect-objects   "When Mary and John went to the store, John gave a drink to"
induction          "... river house ... river": house again
pronouns           "My friend Mary lives near the park, and": she, not he
agreement          "The key near the doors": is, not are
"""
CIRCUIT_EXAMPLES = """Examples:

\b
  regard train induction --heads 1 --out trained/induction
  regard recipe circuit --model trained/induction
"""

Prompts = Annotated[int, typer.Option(min=2, help="How many prompts are generated.")]
Seed = Annotated[int, typer.Option(min=0, help="Decides which prompts.")]


@writes(FORMATS)
def question(
    output: Output,
    name: Annotated[str, typer.Argument(help="indirect-objects, induction, pronouns or agreement.")],
    prompts: Prompts = 100,
    heads: Annotated[
        int | None,
        typer.Option(min=2, help="Silence only so many: half by their first-order estimates, half at random."),
    ] = None,
    seed: Seed = 0,
    model: AnyModel = None,
) -> None:
    """Silence every head in turn and measure the answer to generated prompts; minutes with all 100."""
    from regard.attribution import answer_question
    from regard.attribution.recipes import check_name

    check_name(name)
    publish(answer_question(open_model(model or CAUSAL), name, prompts, seed=seed, heads=heads), output)


@writes(FORMATS)
def circuit(output: Output, prompts: Prompts = 100, seed: Seed = 0, model: AnyModel = None) -> None:
    """Patch the previous-token heads from corrupted texts: without them, induction heads find nothing."""
    from regard.attribution import induction_circuit

    publish(induction_circuit(open_model(model or CAUSAL), prompts, seed=seed), output)


def publish(study: HeadStudy | GridStudy, output: Output) -> None:
    """Print and write the table and figure of a study."""
    from regard.output import figure

    output.publish([study.table(output.most(MOST_ROWS))], partial(figure.recipe, study))

"""The commands of `regard recipe` that generate their prompts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli import outputs
from regard.cli.head_vectors import FORMATS, MOST_ROWS, Show
from regard.cli.model_option import CAUSAL, AnyModel, open_model
from regard.cli.output_options import Aspect, FontSize, Full, NoCaption, Out, layout

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


def question(
    name: Annotated[str, typer.Argument(help="indirect-objects, induction, pronouns or agreement.")],
    prompts: Prompts = 100,
    heads: Annotated[
        int | None,
        typer.Option(min=2, help="Silence only so many: half by their first-order estimates, half at random."),
    ] = None,
    seed: Seed = 0,
    model: AnyModel = None,
    show: Show = None,
    full: Full = False,
    out: Out = None,
    aspect: Aspect = None,
    font_size: FontSize = None,
    no_caption: NoCaption = False,
) -> None:
    """Silence every head in turn and measure the answer to generated prompts; minutes with all 100."""
    from regard.attribution import answer_question
    from regard.attribution.recipes import check_name

    targets = outputs.targets(out, show, formats=FORMATS, layout=layout(aspect, font_size, no_caption))
    check_name(name)
    publish(answer_question(open_model(model or CAUSAL), name, prompts, seed=seed, heads=heads), targets, out, full)


def circuit(
    prompts: Prompts = 100,
    seed: Seed = 0,
    model: AnyModel = None,
    show: Show = None,
    full: Full = False,
    out: Out = None,
) -> None:
    """Patch the previous-token heads from corrupted texts: without them, induction heads find nothing."""
    from regard.attribution import induction_circuit

    targets = outputs.targets(out, show, formats=FORMATS)
    publish(induction_circuit(open_model(model or CAUSAL), prompts, seed=seed), targets, out, full)


def publish(
    study: HeadStudy | GridStudy, targets: tuple[outputs.Target, ...], out: list[str] | None, full: bool
) -> None:
    """Print and write the table and figure of a study."""
    from regard.output import figure

    rows = MOST_ROWS if outputs.is_printed(out, targets) and not full else None
    outputs.publish(out, targets, [study.table(rows)], partial(figure.recipe, study), full=full)

"""`regard compare`: one task for attention, convolutions and a feed-forward network of the same size."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from regard.cli import outputs, terminal
from regard.cli.outputs import Aspect, FontSize, NoCaption, Out, Show
from regard.cli.train import given, library
from regard.errors import OptionError

EXAMPLES = """Examples:

\b
  regard compare lookup
  regard compare lookup --pairs 32 --steps 3000 --out compare.svg --out compare.json
  regard compare lookup --zoology --length 64
  regard compare copy --network convolution --network "eight heads" --seeds 1
"""


def compare(
    task: Annotated[str, typer.Argument(help="lookup, relations, facts, induction, copy, sort or text.")],
    network: Annotated[
        list[str] | None,
        typer.Option(
            help="feed-forward, convolution, dilated, gated convolution, one head or eight heads; may be repeated. "
            "By default all."
        ),
    ] = None,
    text: Annotated[str | None, typer.Option(metavar="FILE", help="For the task text: a UTF-8 text file.")] = None,
    pairs: Annotated[int | None, typer.Option(help="For the task lookup: pairs of key and value.")] = None,
    length: Annotated[int | None, typer.Option(help="Tokens per sequence.")] = None,
    vocabulary: Annotated[int | None, typer.Option(help="Number of different tokens.")] = None,
    width: Annotated[int, typer.Option(min=8, help="Width of the network with eight heads, a multiple of 8.")] = 64,
    steps: Annotated[int | None, typer.Option(help="Updates of the weights.")] = None,
    batch: Annotated[int | None, typer.Option(help="Sequences per update.")] = None,
    rate: Annotated[float | None, typer.Option(help="Largest learning rate.")] = None,
    zoology: Annotated[
        bool,
        typer.Option(
            "--zoology",
            help="For lookup: the setting of Arora et al. (2023): same width instead of same number of parameters, "
            "mixers without feed-forward parts, a vocabulary of 8,192, one pair per 16 tokens.",
        ),
    ] = False,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 3,
    show: Show = None,
    out: Out = None,
    aspect: Aspect = None,
    font_size: FontSize = None,
    no_caption: NoCaption = False,
) -> None:
    """Train networks of the same size on one task, and compare their accuracy by distance and number of pairs."""
    targets = outputs.targets(out, show, layout=outputs.layout(aspect, font_size, no_caption))
    training = library()
    from regard.output import figure
    from regard.training import compare as comparison

    if width % 8:
        raise OptionError(f"--width is {width}; expected a multiple of 8, the number of heads.")
    if zoology and task != "lookup":
        raise OptionError(f"--zoology is a setting of the task lookup, not of {task}.")
    if zoology:
        length = 64 if length is None else length
        pairs = max(1, length // comparison.ZOOLOGY_TOKENS_PER_PAIR) if pairs is None else pairs
        vocabulary = comparison.ZOOLOGY_VOCABULARY if vocabulary is None else vocabulary
    chosen = training.task(task, **given(path=text, length=length, pairs=pairs, vocabulary=vocabulary))
    recipe = comparison.ZOOLOGY_RECIPE if zoology else training.preset(chosen).recipe
    recipe = replace(recipe, **given(steps=steps, batch=batch, rate=rate))
    names = network or list(comparison.ZOOLOGY if zoology else comparison.NETWORKS)
    with terminal.progress("Training", len(names) * seeds * recipe.steps) as advance:
        found = comparison.compare(
            chosen, recipe, networks=names, seeds=range(seeds), width=width, zoology=zoology, on_step=advance
        )
    outputs.publish(out, targets, found.tables(), lambda: figure.comparison(found))

"""`regard compare`: one task for attention, convolutions and a feed-forward network of the same size."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from regard.cli import outputs, terminal
from regard.cli.outputs import Out, Show
from regard.cli.train import given, library
from regard.errors import OptionError

EXAMPLES = """Examples:

\b
  regard compare lookup
  regard compare lookup --pairs 32 --steps 3000 --out compare.svg --out compare.json
  regard compare copy --network convolution --network "eight heads" --seeds 1
"""


def compare(
    task: Annotated[str, typer.Argument(help="lookup, relations, induction, copy, sort or text.")],
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
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 3,
    show: Show = None,
    out: Out = None,
) -> None:
    """Train networks of the same size on one task, and compare their accuracy by distance and number of pairs."""
    targets = outputs.targets(out, show)
    training = library()
    from regard.output import figure
    from regard.training.compare import NETWORKS
    from regard.training.compare import compare as compared

    if width % 8:
        raise OptionError(f"--width is {width}; expected a multiple of 8, the number of heads.")
    chosen = training.task(task, **given(path=text, length=length, pairs=pairs, vocabulary=vocabulary))
    recipe = replace(training.preset(chosen).recipe, **given(steps=steps, batch=batch, rate=rate))
    names = network or list(NETWORKS)
    with terminal.progress("Training", len(names) * seeds * recipe.steps) as advance:
        found = compared(chosen, recipe, networks=names, seeds=range(seeds), width=width, on_step=advance)
    outputs.publish(out, targets, found.tables(), lambda: figure.comparison(found))

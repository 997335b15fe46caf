"""`regard compare`: networks of the same size on one task."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Annotated

import typer

from regard.cli import terminal
from regard.cli.options import Settings, Writes
from regard.cli.outputs import Output
from regard.cli.training import Task, library, task_settings
from regard.errors import count

SAYS_EVERY = 10.0  # seconds: how far a comparison is, and how long it will take


def compare(
    output: Annotated[Output, Writes(full=False)],
    task: Task,
    network: list[str] | None = None,
    steps: int | None = None,
    changes: Settings = None,
    zoology: bool = False,
    seeds: Annotated[int, typer.Option(min=1)] = 3,
) -> None:
    """Train networks of the same size on one task, and compare their accuracy by distance and number of pairs.

    network  feed-forward, convolution, dilated, gated convolution, one head or eight heads; may be repeated. By
             default all.
    steps    Updates of the weights.
    changes  Of the task: length (tokens per sequence), vocabulary, pairs (lookup); of the training: batch (sequences
             per update), rate (largest learning rate); width of the network with eight heads. May be repeated.
    zoology  For lookup: the setting of Arora et al. (2023): same width instead of same number of parameters, mixers
             without feed-forward parts, a vocabulary of 8,192, one pair per 16 tokens.
    seeds    How many seeds.

    Examples:
      regard compare lookup
      regard compare lookup --steps 3000 --set pairs=32 --out compare.svg
      regard compare lookup --zoology --set length=64
      regard compare copy --network convolution --network "eight heads" --seeds 1
    """
    of_task, of_recipe = task_settings(changes, ("batch", "rate", "width"), steps)
    library()
    from regard.models import progress
    from regard.output import figure
    from regard.training import compare as comparison

    width = of_recipe.pop("width", comparison.WIDTH)
    chosen, recipe, every = comparison.setting(task, zoology=zoology, **of_task)
    recipe = replace(recipe, **of_recipe)
    names = network or every
    terminal.remark(f"Training {count(len(names), 'network')}, {count(seeds, 'seed')} each, {recipe.steps:,} steps.")
    done = itertools.count(1)
    with progress.steps("Training", len(names) * seeds * recipe.steps, every=SAYS_EVERY) as advance:
        compared = comparison.compare(
            chosen, recipe, networks=names, seeds=range(seeds), width=width, zoology=zoology,
            on_step=lambda: advance(next(done)),
        )  # fmt: skip
    output.publish(compared.tables(), lambda: figure.comparison(compared))

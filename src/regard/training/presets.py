"""For each task, a model and a recipe that learn it on two cores in minutes."""

from __future__ import annotations

from dataclasses import dataclass

from regard.training.loop import Recipe
from regard.training.tasks import Task


@dataclass(frozen=True)
class Preset:
    """A shape of model, and how to train it."""

    layers: int
    heads: int
    width: int
    recipe: Recipe
    tied: bool = False


PRESETS = {
    "lookup": Preset(2, 8, 64, Recipe(steps=1500, batch=64, rate=3e-3, curriculum=0.5)),
    "relations": Preset(2, 8, 128, Recipe(steps=2000, batch=64, rate=1e-3)),
    "induction": Preset(2, 8, 64, Recipe(steps=2000, batch=64, rate=1e-3)),
    "copy": Preset(2, 8, 64, Recipe(steps=1500, batch=64, rate=1e-3)),
    "sort": Preset(2, 8, 64, Recipe(steps=1500, batch=64, rate=1e-3)),
    "text": Preset(4, 4, 128, Recipe(steps=2000, batch=12, rate=1e-3, betas=(0.9, 0.99), warmup=100), tied=True),
}


def preset(task: Task) -> Preset:
    """The one for a task."""
    return PRESETS[task.name]

"""For each task, a model and a recipe that learn it on two cores within minutes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regard.layers import Transformer
from regard.training.loop import Recipe
from regard.training.network import network
from regard.training.tasks import Task


@dataclass(frozen=True)
class Preset:
    """The shape of a model, and how to train it."""

    layers: int
    heads: int
    width: int
    recipe: Recipe
    hidden: int | None = None
    tied: bool = False
    waves: float = 1.0

    def network(self, task: Task, **changes: Any) -> Transformer:
        """A transformer for a task; `changes` are options of `network`, None for those that stay."""
        options: dict[str, Any] = {"layers": self.layers, "heads": self.heads, "width": self.width}
        options |= {"hidden": self.hidden, "tied": self.tied, "waves": self.waves}
        options |= {name: value for name, value in changes.items() if value is not None}
        return network(task.vocabulary, length=task.length, **options)


# Few sequences per step and a large rate: on two cores, steps are what these tasks need, not batches.
SMALL: dict[str, Any] = {"rate": 3e-3, "betas": (0.9, 0.95)}
PRESETS = {
    "lookup": Preset(2, 8, 64, Recipe(steps=2000, batch=4, weight_decay=0.01, **SMALL), hidden=64),
    # Narrow: with width 64 or 128, layer 1 reads the subject from words that copied it, not from the subject itself.
    # A large rate: with 4e-3 the subject of a verb is spread over several heads (best head 0.88 with one of six seeds).
    "relations": Preset(2, 8, 48, Recipe(steps=800, batch=16, rate=5e-3, betas=(0.9, 0.95)), hidden=64, tied=True),
    "facts": Preset(1, 8, 64, Recipe(steps=800, batch=16, **SMALL), hidden=64),
    "induction": Preset(2, 8, 64, Recipe(steps=3000, batch=8, weight_decay=0.01, **SMALL), hidden=64),
    "copy": Preset(2, 8, 64, Recipe(steps=1500, batch=16, **SMALL), hidden=64),
    "sort": Preset(2, 8, 64, Recipe(steps=1500, batch=16, **SMALL), hidden=64),
    # nanoGPT's recipe for a CPU
    "text": Preset(
        4, 4, 128, Recipe(steps=2000, batch=12, rate=1e-3, betas=(0.9, 0.99), warmup=100), tied=True, waves=0.0
    ),
}


def preset(task: Task | str) -> Preset:
    """The model and recipe for a task.

    >>> preset("text").width
    128
    """
    return PRESETS[task if isinstance(task, str) else task.name]

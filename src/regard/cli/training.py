"""`regard train` and `compare`: learn the weights of small networks, and what each head learns."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli import terminal, text_input
from regard.cli.options import Settings
from regard.errors import require

if TYPE_CHECKING:
    from regard.training import Progress

# How long PyTorch's threads spin while they wait for work; 300,000 turns where it is not set. nanoGPT's step on two
# cores with 10,000: 8% longer on an idle machine, but 0.34 s instead of 1.7 s beside six busy programs.
BUSY_SPINS = {"GOMP_SPINCOUNT": "10000"}

Task = Annotated[
    str, typer.Argument(metavar="TASK", help="lookup, relations, facts, induction, copy, sort, or a UTF-8 text file.")
]


def train(
    task: Task,
    out: Annotated[str, typer.Option("--out", metavar="DIR")],
    layers: int | None = None,
    heads: int | None = None,
    width: int | None = None,
    steps: int | None = None,
    changes: Settings = None,
    sentence: list[str] | None = None,
    seed: int = 0,
) -> None:
    """Train a transformer on a task; an interrupted run continues from its last checkpoint.

    out            Folder for checkpoints, the record and the model.
    layers         Blocks; every task has its own default.
    heads          Heads per block.
    width          Width of a token's vector.
    steps          Updates of the weights.
    changes        Of the task: length (tokens per sequence), vocabulary, pairs (lookup); of the recipe: batch
                   (sequences per update), rate (largest learning rate), accumulate (parts of a batch). May be
                   repeated.
    sentence TEXT  A text whose attention is recorded; may be repeated.
    seed           Seed of the initial weights and the batches.

    Examples:
      regard train lookup --out trained/lookup
      regard train relations --heads 8 --layers 2 --out trained/relations
      regard train induction --steps 2000 --seed 1 --out trained/induction
      regard train input.txt --set batch=16 --out trained/text
      regard see --model trained/relations "The keys on the table belong to Sarah."
    """
    of_task, of_recipe = task_settings(changes, ("batch", "rate", "accumulate"), steps)
    training = library()
    from regard.viewer import training_page

    chosen = training.task(task, **of_task)
    preset = training.preset(chosen)
    recipe = replace(preset.recipe, seed=seed, **of_recipe)
    model = preset.network(chosen, layers=layers, heads=heads, width=width, seed=seed)
    training.limit_threads(model, chosen, recipe)
    with _bar(recipe.steps) as on_step:
        trained = training.train(model, chosen, recipe, out=out, sentences=sentence or (), on_step=on_step)
    page = training_page.save(trained.record, Path(out) / "training.html")
    lines = [*trained.record.summary(recipe.steps, preset.recipe.steps)]
    lines.append(f"How the heads learned, step by step: open {page} in a browser.")
    lines.append(f'The model is in {out}. Look at it: regard see --model {out} "…"')
    terminal.show(["\n".join(lines)])


def task_settings(
    changes: Sequence[str] | None, of_recipe: Sequence[str], steps: int | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What `--set` changes of a task, and what it and `--steps` change of a recipe."""
    of_task = ("length", "pairs", "vocabulary")
    kinds = {name: float if name == "rate" else int for name in (*of_task, *of_recipe)}
    values = text_input.settings("--set", changes, kinds)
    changed = {name: values.pop(name) for name in of_task if name in values}
    return changed, values if steps is None else {**values, "steps": steps}


def library() -> Any:
    """The package `regard.training`, or an error that says what to install."""
    # Whether other programs have kept half of the cores or more busy during the last minute.
    if hasattr(os, "getloadavg") and os.getloadavg()[0] > (os.cpu_count() or 1) / 2:
        for name, value in BUSY_SPINS.items():
            os.environ.setdefault(name, value)
    require("Training", "torch", "safetensors")
    from regard import training

    return training


@contextmanager
def _bar(steps: int) -> Iterator[Callable[[Progress], None]]:
    """A progress bar with loss, accuracy and attention accuracy; ten lines where standard error is not a terminal."""
    from rich import progress as bars
    from rich.console import Console

    console = Console(stderr=True)
    columns = (
        bars.TextColumn("{task.description}"), bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeRemainingColumn(),
    )  # fmt: skip
    with bars.Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        line = bar.add_task("", total=steps)
        measured = ""

        def on_step(done: Progress) -> None:
            nonlocal measured
            if done.snapshot is not None:
                attention = done.snapshot.attention_accuracy
                measured = f", accuracy {done.snapshot.accuracy:.3f}"
                measured += "" if math.isnan(attention) else f", attention accuracy {attention:.3f}"
            bar.update(line, completed=done.step, description=f"loss {done.loss:.3f}{measured}")
            if not console.is_terminal and (done.step % max(1, steps // 10) == 0 or done.step == steps):
                terminal.remark(f"Step {done.step:,} of {steps:,}: loss {done.loss:.3f}{measured}.")

        yield on_step

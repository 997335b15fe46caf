"""`regard train`: learn the weights of a small transformer on a task, and record what each head learns."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard import errors
from regard.cli import terminal

if TYPE_CHECKING:
    from regard.training import Progress, Trained

EXAMPLES = """Examples:

\b
  regard train lookup --out trained/lookup
  regard train relations --heads 8 --layers 2 --out trained/relations
  regard train induction --steps 2000 --seed 1 --out trained/induction
  regard train text --text input.txt --out trained/text
  regard see --model trained/relations "The keys on the table belong to Sarah."
"""

# How long PyTorch's threads spin while they wait for work; 300,000 turns where it is not set. nanoGPT's step on two
# cores with 10,000: 8% longer on an idle machine, but 0.34 s instead of 1.7 s beside six busy programs.
BUSY_SPINS = {"GOMP_SPINCOUNT": "10000"}


def train(
    task: Annotated[str, typer.Argument(help="lookup, relations, facts, induction, copy, sort or text.")],
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Folder for checkpoints, the record and the model.")],
    text: Annotated[str | None, typer.Option(metavar="FILE", help="For the task text: a UTF-8 text file.")] = None,
    layers: Annotated[int | None, typer.Option(help="Blocks; every task has its own default.")] = None,
    heads: Annotated[int | None, typer.Option(help="Heads per block.")] = None,
    width: Annotated[int | None, typer.Option(help="Width of a token's vector.")] = None,
    steps: Annotated[int | None, typer.Option(help="Updates of the weights.")] = None,
    batch: Annotated[int | None, typer.Option(help="Sequences per update.")] = None,
    rate: Annotated[float | None, typer.Option(help="Largest learning rate.")] = None,
    accumulate: Annotated[int | None, typer.Option(help="Parts in which a batch is computed.")] = None,
    length: Annotated[int | None, typer.Option(help="Tokens per sequence.")] = None,
    pairs: Annotated[int | None, typer.Option(help="For the task lookup: pairs of key and value.")] = None,
    vocabulary: Annotated[int | None, typer.Option(help="Number of different tokens.")] = None,
    sentence: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="A text whose attention is recorded; may be repeated.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the initial weights and the batches.")] = 0,
) -> None:
    """Train a transformer on a task; an interrupted run continues from its last checkpoint."""
    training = library()
    from regard.viewer import training_page

    options = given(path=text, length=length, pairs=pairs, vocabulary=vocabulary)
    if task == "text" and text is None:
        raise errors.OptionError("The task text needs a file: regard train text --text FILE --out DIR.")
    chosen = training.task(task, **options)
    preset = training.preset(chosen)
    recipe = replace(preset.recipe, seed=seed, **given(steps=steps, batch=batch, rate=rate, accumulate=accumulate))
    model = preset.network(chosen, layers=layers, heads=heads, width=width, seed=seed)
    training.limit_threads(model, chosen, recipe)
    with _bar(recipe.steps) as on_step:
        trained = training.train(model, chosen, recipe, out=out, sentences=sentence or (), on_step=on_step)
    page = training_page.save(trained.record, Path(out) / "training.html")
    _report(trained, out, page)


def given(**options: Any) -> dict[str, Any]:
    """The options that are not None."""
    return {name: value for name, value in options.items() if value is not None}


def library() -> Any:
    """The package `regard.training`, or an error that says what to install."""
    if _is_busy():
        for name, value in BUSY_SPINS.items():
            os.environ.setdefault(name, value)
    try:
        from regard import training
    except ImportError:
        raise errors.missing_package("Training", "torch", "safetensors") from None
    return training


def _is_busy() -> bool:
    """Whether other programs have kept half of the cores or more busy during the last minute."""
    return hasattr(os, "getloadavg") and os.getloadavg()[0] > (os.cpu_count() or 1) / 2


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


def _report(trained: Trained, out: str, page: Path) -> None:
    first, last = trained.record.snapshots[0], trained.record.snapshots[-1]
    lines = [
        f"Test loss {first.test_loss:.3f} → {last.test_loss:.3f}, "
        f"accuracy {first.accuracy:.3f} → {last.accuracy:.3f} on sequences that training never showed."
    ]
    before = [accuracy for _, _, accuracy in first.best_heads()]
    for relation, untrained, (layer, head, accuracy) in zip(
        trained.record.relations, before, last.best_heads(), strict=True
    ):
        lines.append(
            f"{relation}: layer {layer}, head {head} has its largest weight on the right token for {accuracy:.0%} of "
            f"the queries (untrained: {untrained:.0%} at best)."
        )
    lines.append(f"How the heads learned, step by step: open {page} in a browser.")
    lines.append(f'The model is in {out}. Look at it: regard see --model {out} "…"')
    terminal.show(["\n".join(lines)])

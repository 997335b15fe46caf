"""`regard train`: learn the weights of a small transformer on a task, and record what each head learns."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli import terminal
from regard.errors import OptionError, Unsupported

if TYPE_CHECKING:
    from regard.training import Progress, Trained

EXAMPLES = """Examples:

\b
  regard train lookup --out trained/lookup
  regard train relations --heads 8 --layers 2 --out trained/relations
  regard train induction --layers 2 --steps 2000 --seed 1 --out trained/induction
  regard train text --text input.txt --layers 4 --heads 4 --width 128 --out trained/text
  regard see --model trained/relations "keys on the table belong to Sarah . whose keys ?"
"""


def train(
    task: Annotated[str, typer.Argument(help="lookup, relations, induction, copy, sort or text.")],
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Folder of the checkpoints and of the model.")],
    text: Annotated[str | None, typer.Option(metavar="FILE", help="For the task text: a UTF-8 text file.")] = None,
    layers: Annotated[int | None, typer.Option(min=1, help="Blocks; each task has its own default.")] = None,
    heads: Annotated[int | None, typer.Option(min=1, help="Heads in each block.")] = None,
    width: Annotated[int | None, typer.Option(min=1, help="Numbers in the vector of a token.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Updates of the weights.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Sequences in one update.")] = None,
    rate: Annotated[float | None, typer.Option(help="The largest learning rate.")] = None,
    accumulate: Annotated[int, typer.Option(min=1, help="Parts in which a batch is computed.")] = 1,
    length: Annotated[int | None, typer.Option(min=2, help="Tokens in a sequence.")] = None,
    pairs: Annotated[int | None, typer.Option(min=1, help="For the task lookup: pairs of key and value.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the start values and the batches.")] = 0,
) -> None:
    """Train a transformer on a task; a run that was interrupted goes on where its last checkpoint is."""
    training = _library()
    given: dict[str, Any] = {"path": text, "length": length, "pairs": pairs}
    options = {name: value for name, value in given.items() if value is not None}
    if task == "text" and text is None:
        raise OptionError("The task text needs a file: regard train text --text FILE --out DIR.")
    chosen = training.task(task, **options)
    preset = training.preset(chosen)
    changed = {"steps": steps, "batch": batch, "rate": rate}
    recipe = replace(preset.recipe, seed=seed, accumulate=accumulate, **{k: v for k, v in changed.items() if v is not None})
    model = training.network(
        chosen.vocabulary,
        length=chosen.length,
        layers=layers or preset.layers,
        heads=heads or preset.heads,
        width=width or preset.width,
        tied=preset.tied,
        seed=seed,
    )
    with _bar(recipe.steps) as told:
        trained = training.train(model, chosen, recipe, out=out, on_step=told)
    _report(trained, out)


def _library() -> Any:
    try:
        from regard import training
    except ImportError as problem:
        raise Unsupported(f"Training needs PyTorch and safetensors: pip install torch safetensors ({problem}).") from None
    return training


@contextmanager
def _bar(steps: int) -> Iterator[Any]:
    """A progress bar with loss, accuracy and attention accuracy; a line per tenth where there is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar
    from rich.progress import TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console, disable=not console.is_terminal) as bar:
        line = bar.add_task("Training", total=steps)
        latest = ""

        def told(progress: Progress) -> None:
            nonlocal latest
            found = progress.snapshot
            if found is not None:
                attention = found.attention_accuracy
                latest = f"accuracy {found.accuracy:.3f}"
                latest += "" if math.isnan(attention) else f"  attention accuracy {attention:.3f}"
                if not console.is_terminal and progress.step % max(1, steps // 10) == 0:
                    terminal.remark(f"step {progress.step:,} of {steps:,}: loss {progress.loss:.3f}, {latest}")
            bar.update(line, completed=progress.step, description=f"loss {progress.loss:.3f}  {latest}")

        yield told


def _report(trained: Trained, out: str) -> None:
    first, last = trained.record.snapshots[0], trained.record.snapshots[-1]
    lines = [f"Test loss {first.test_loss:.3f} → {last.test_loss:.3f}, accuracy {first.accuracy:.3f} → {last.accuracy:.3f}."]
    for relation, (layer, head, accuracy) in zip(trained.task.relations, last.best_heads, strict=True):
        before = float(first.head_accuracy[:, :, trained.task.relations.index(relation)].max())
        lines.append(
            f"{relation}: layer {layer}, head {head} has its largest weight on the right token in {accuracy:.0%} of the "
            f"cases (before training the best head: {before:.0%})."
        )
    lines.append(f'The model is in {out}: regard see --model {out} "…"')
    terminal.show(["\n".join(lines)])

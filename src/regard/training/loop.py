"""The training loop: AdamW with warm-up and cosine decay, clipping, accumulation, checkpoints and a record."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from regard import errors
from regard.layers import Transformer
from regard.training import checkpoint, scores
from regard.training.network import logits_at, network, parameters
from regard.training.record import Record, Snapshot
from regard.training.tasks import Batch, Task


class Diverged(errors.RegardError):
    """The loss or a parameter is no longer finite."""


@dataclass(frozen=True)
class Recipe:
    """How to train.

    steps         updates of the parameters
    batch         sequences in one update
    rate          the largest learning rate
    warmup        steps over which the rate rises from 0; a twentieth of `steps` by default
    final         the share of `rate` that a cosine falls to at the end
    weight_decay  of matrices; vectors (norms and biases) have none
    clip          largest norm of all gradients together; None for no limit
    accumulate    in how many parts a batch is computed
    curriculum    share of `steps` over which the difficulty rises to the whole; 0 for none
    record_every  steps between two snapshots of the record; a fiftieth of `steps` by default
    save_every    steps between two checkpoints; a tenth of `steps` by default
    seed          of the start values and of the batches
    """

    steps: int = 1000
    batch: int = 64
    rate: float = 1e-3
    warmup: int | None = None
    final: float = 0.1
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.1
    clip: float | None = 1.0
    accumulate: int = 1
    curriculum: float = 0.0
    record_every: int | None = None
    save_every: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "accumulate"):
            if getattr(self, name) < 1:
                raise errors.OptionError(f"`{name}` is {getattr(self, name)}; expected 1 or more.")
        if self.batch % self.accumulate:
            raise errors.OptionError(f"`accumulate` is {self.accumulate}, which does not divide the batch {self.batch}.")
        if not 0 < self.rate < math.inf:
            raise errors.OptionError(f"`rate` is {self.rate}; expected a positive number.")

    def rate_at(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        warmup = max(1, self.steps // 20) if self.warmup is None else self.warmup
        if step < warmup:
            return self.rate * (step + 1) / warmup
        share = (step - warmup) / max(1, self.steps - warmup)
        return self.rate * (self.final + (1 - self.final) * 0.5 * (1 + math.cos(math.pi * share)))

    def level_at(self, step: int) -> float:
        """The difficulty of a step, up to 1."""
        rising = self.curriculum * self.steps
        return 1.0 if step >= rising else 0.125 + 0.875 * step / rising


@dataclass(frozen=True)
class Progress:
    """What a caller of `train` is told after each step."""

    step: int  # updates done
    steps: int
    loss: float
    snapshot: Snapshot | None  # measured after this step, where it was due


@dataclass(frozen=True, eq=False)
class Trained:
    """The result: a transformer of NumPy arrays, and what was recorded on the way."""

    model: Transformer
    task: Task
    recipe: Recipe
    record: Record

    def __repr__(self) -> str:
        last = self.record.snapshots[-1]
        return f"Trained({self.task.name}, {self.recipe.steps:,} steps: {last})"


def train(
    model: Transformer | None,
    task: Task,
    recipe: Recipe | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    on_step: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Trained:
    """Train a transformer on a task; without a model, one of two layers and eight heads.

    out      a folder for checkpoints. A run that was interrupted there goes on where its last checkpoint is, and ends
             with the same bits as an uninterrupted one with the same number of threads.
    on_step  called after every step; it may raise, to stop
    options  fields of `Recipe`, in place of or besides a `recipe`
    """
    recipe = replace(recipe or Recipe(), **options)
    if model is None:
        model = network(task.vocabulary, length=task.length, seed=recipe.seed)
    _check(model, task)
    run = _Run(model, task, recipe, None if out is None else Path(out))
    return run.finish(on_step)


def _check(model: Transformer, task: Task) -> None:
    if model.head is None or model.head.outputs != task.vocabulary:
        got = "no head" if model.head is None else f"a head for {model.head.outputs} tokens"
        raise errors.ShapeError(f"`model` has {got}; the task {task.name} has {task.vocabulary}.")
    if model.embedding.weight.shape[0] != task.vocabulary:
        raise errors.ShapeError(
            f"`model` embeds {model.embedding.weight.shape[0]} tokens; the task {task.name} has {task.vocabulary}."
        )


class _Run:
    """One training run: tensors, the optimiser, and how far it is."""

    def __init__(self, model: Transformer, task: Task, recipe: Recipe, out: Path | None) -> None:
        self.task, self.recipe, self.out = task, recipe, out
        self.model = model.to_torch(gradients=True)
        self.tensors = parameters(self.model)
        decayed = [tensor for tensor in self.tensors.values() if tensor.ndim > 1]
        rest = [tensor for tensor in self.tensors.values() if tensor.ndim < 2]
        groups = [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": rest, "weight_decay": 0.0}]
        self.optimiser = torch.optim.AdamW(groups, lr=recipe.rate, betas=recipe.betas, fused=True)
        self.record = Record(task.name, task.words, task.relations)
        self.probes = scores.probes(task, recipe.seed)
        self.step = 0
        if out is not None:
            checkpoint.prepare(out)
            if (found := checkpoint.latest(out)) is not None:
                self._resume(found)

    def finish(self, on_step: Callable[[Progress], None] | None) -> Trained:
        recipe = self.recipe
        record_every = recipe.record_every or max(1, recipe.steps // 50)
        save_every = recipe.save_every or max(1, recipe.steps // 10)
        if not self.record.snapshots:
            self._measure(math.nan)
        while self.step < recipe.steps:
            loss = self._update()
            self.step += 1
            due = self.step % record_every == 0 or self.step == recipe.steps
            snapshot = self._measure(loss) if due else None
            if self.out is not None and (self.step % save_every == 0 or self.step == recipe.steps):
                self._save()
            if on_step is not None:
                on_step(Progress(self.step, recipe.steps, loss, snapshot))
        return Trained(self.model.to_numpy(), self.task, recipe, self.record)

    def _update(self) -> float:
        """One update of the parameters; the mean loss of its batch."""
        recipe, step = self.recipe, self.step
        batch = self.task.batch(recipe.batch, seed=recipe.seed, step=step, level=recipe.level_at(step))
        for group in self.optimiser.param_groups:
            group["lr"] = recipe.rate_at(step)
        self.optimiser.zero_grad(set_to_none=True)
        total = 0.0
        for part in _parts(batch, recipe.accumulate):
            loss = batch_loss(self.model, part) / recipe.accumulate
            loss.backward()
            total += float(loss.detach())
        norm = torch.nn.utils.clip_grad_norm_(self.tensors.values(), recipe.clip or math.inf)
        if not math.isfinite(total) or not bool(torch.isfinite(norm)):
            self._diverged(total, float(norm))
        self.optimiser.step()
        return total

    def _diverged(self, loss: float, norm: float) -> None:
        what = f"the loss is {loss}" if not math.isfinite(loss) else f"the norm of the gradients is {norm}"
        kept = "" if self.out is None else f" The checkpoint in {self.out} is from before."
        raise Diverged(
            f"Training diverged at step {self.step + 1}: {what}.{kept} A smaller `rate` than {self.recipe.rate} or a"
            " longer `warmup` usually helps."
        )

    def _measure(self, loss: float) -> Snapshot:
        with torch.no_grad():
            snapshot = scores.snapshot(self.model, self.task, self.probes, self.step, loss)
        self.record.add(snapshot)
        return snapshot

    def _state(self) -> dict[str, Tensor]:
        """Parameters and both moments of the optimiser, by name."""
        found = {f"model.{name}": tensor.detach() for name, tensor in self.tensors.items()}
        for name, tensor in self.tensors.items():
            state = self.optimiser.state[tensor]
            found |= {f"{moment}.{name}": state[moment] for moment in ("exp_avg", "exp_avg_sq")}
        return found

    def _save(self) -> None:
        assert self.out is not None
        checkpoint.write(self.out, self._state(), self.record, self._settings(), self.step)
        checkpoint.export(self.out, self.model, self.task)

    def _settings(self) -> Mapping[str, Any]:
        """All that must agree for a run to be resumed."""
        shapes = {name: list(tensor.shape) for name, tensor in self.tensors.items()}
        return {"task": self.task.name, "words": len(self.task.words), "recipe": asdict(self.recipe), "shapes": shapes}

    def _resume(self, path: Path) -> None:
        found = checkpoint.read(path, self._settings())
        with torch.no_grad():
            for name, tensor in self.tensors.items():
                tensor.copy_(found.tensors[f"model.{name}"])
                self.optimiser.state[tensor] = {
                    "step": torch.tensor(float(found.step)),
                    "exp_avg": found.tensors[f"exp_avg.{name}"],
                    "exp_avg_sq": found.tensors[f"exp_avg_sq.{name}"],
                }
        self.step, self.record = found.step, found.record


def batch_loss(model: Transformer, batch: Batch) -> Tensor:
    """The mean cross-entropy of the positions that are scored."""
    tokens, targets = torch.from_numpy(batch.tokens), torch.from_numpy(batch.targets)
    if bool((targets >= 0).all()):
        return functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
    where = targets >= 0
    return functional.cross_entropy(logits_at(model, tokens, where), targets[where])


def _parts(batch: Batch, count: int) -> list[Batch]:
    size = len(batch) // count
    rows = [slice(place * size, (place + 1) * size) for place in range(count)]
    return [Batch(batch.tokens[r], batch.targets[r], batch.keys[r], batch.relations[r]) for r in rows]

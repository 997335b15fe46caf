"""The training loop: AdamW with warm-up and cosine decay, clipping, accumulation, curriculum, checkpoints, a record."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from regard import errors, validate
from regard.engines import select
from regard.layers import Transformer
from regard.training import checkpoint, measurement
from regard.training.network import logits_at, network, parameters
from regard.training.optimiser import AdamW
from regard.training.record import Record, Snapshot
from regard.training.tasks import Batch, Task

# Floating-point operations of a step up to which one thread is as fast as two. With lookup's 0.14e9, two took 27 to
# 103 s on two cores, depending on what else ran; one takes 28 s. nanoGPT's step has 3.8e9.
SMALL_STEP = 1e9
MEMORY = 0.9  # of the running accuracy: about the last ten batches
MOST = 10**12  # steps, or sequences of a batch: beyond it, NumPy's own limits


class Diverged(errors.RegardError):
    """The loss, a gradient or a weight is not finite."""


@dataclass(frozen=True)
class Recipe:
    """How to train.

    steps         updates of the parameters
    batch         sequences per update, at full difficulty; easier sequences are shorter, and there are more of them
    rate          largest learning rate
    warmup        steps of linear warm-up; a twentieth of `steps` by default
    final         fraction of `rate` that the cosine decays to
    betas         decay of AdamW's two moments
    weight_decay  of matrices; norms and biases have none
    clip          largest norm of all gradients together; None for no limit
    accumulate    parts in which a batch is computed
    curriculum    accuracy on recent batches at which a task with `levels` moves on to the next one; None starts at
                  full difficulty
    record_every  steps between snapshots; a fiftieth of `steps` by default
    save_every    steps between checkpoints; a tenth of `steps` by default
    seed          of the initial weights and the batches

    >>> recipe = Recipe(steps=100, rate=1e-3, warmup=10)
    >>> recipe.rate_at(0), recipe.rate_at(9), round(recipe.rate_at(99), 6)
    (0.0001, 0.001, 0.0001)
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
    curriculum: float | None = 0.9
    record_every: int | None = None
    save_every: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "accumulate"):
            validate.integer(name, getattr(self, name), 1, MOST)
        validate.integer("seed", self.seed, 0)
        if self.batch % self.accumulate:
            raise errors.OptionError(f"`accumulate` is {self.accumulate}; expected a divisor of `batch`, {self.batch}.")
        if not 0 < self.rate < math.inf:
            raise errors.OptionError(f"`rate` is {self.rate}; expected a positive number.")

    def batch_at(self, level: float, task: Task) -> int:
        """Sequences per update of a level: as many tokens as at full difficulty."""
        times = task.length / task.length_at(level)
        return round(self.batch / self.accumulate * times) * self.accumulate

    def rate_at(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        warmup = max(1, self.steps // 20) if self.warmup is None else self.warmup
        if step < warmup:
            return self.rate * (step + 1) / warmup
        share = (step - warmup) / max(1, self.steps - warmup)
        return self.rate * (self.final + (1 - self.final) * 0.5 * (1 + math.cos(math.pi * share)))


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
        return f"Trained({self.task.name}, {self.record.snapshots[-1]})"


def train(
    model: Transformer | None,
    task: Task,
    recipe: Recipe | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    sentences: Sequence[str] = (),
    on_step: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Trained:
    """Train a transformer on a task; without a model, `network` with its defaults.

    out        a folder for checkpoints and the model in GPT-2's format. A run that was interrupted continues from its
               last checkpoint, and ends with the same bits as an uninterrupted one with the same number of threads.
    sentences  texts whose attention is recorded; by default two sequences of the test split
    on_step    called after every step; it may raise, which stops the run
    options    fields of `Recipe`, instead of or besides a `recipe`

    >>> from regard.training import task
    >>> trained = train(None, task("copy", length=8), steps=3, batch=4)
    >>> trained.model([1, 2, 3, 4, 0]).shape, len(trained.record.snapshots)
    ((5, 32), 4)
    """
    recipe = replace(recipe or Recipe(), **options)
    if model is None:
        model = network(task.vocabulary, length=task.length, seed=recipe.seed)
    embedded, head = model.embedding.weight.shape[0], None if model.head is None else model.head.outputs
    if head != task.vocabulary or embedded != task.vocabulary:
        raise errors.ShapeError(
            f"`model` embeds {embedded} tokens and has {'no head' if head is None else f'a head for {head}'}; the task "
            f"{task.name} has {task.vocabulary} tokens. network({task.vocabulary}, length={task.length}) fits."
        )
    run = TrainingRun(model, task, recipe, measurement.new_record(task, recipe.seed, sentences))
    with checkpoint.held(Path(out)) if out is not None else nullcontext():
        return run.finish(None if out is None else Path(out), on_step)


class TrainingRun:
    """One training run: tensors, the optimiser, and how far it is."""

    def __init__(self, model: Transformer, task: Task, recipe: Recipe, record: Record) -> None:
        self.task, self.recipe, self.record = task, recipe, record
        self.model = model.to_torch(gradients=True)
        self.tensors = parameters(self.model)
        self.optimiser = AdamW(self.tensors.values(), betas=recipe.betas, weight_decay=recipe.weight_decay)
        self.test = measurement.held_out_batch(task)
        self.data, self.initial = task.digest(), _digest(self.tensors)
        self.step, self.level, self.running = 0, 0, 0.0  # level: an index of the task's levels
        if recipe.curriculum is None:
            self.level = len(task.levels) - 1
        self.losses: list[float] = []  # since the last snapshot

    def finish(self, out: Path | None, on_step: Callable[[Progress], None] | None) -> Trained:
        recipe = self.recipe
        record_every = recipe.record_every or max(1, recipe.steps // 50)
        save_every = recipe.save_every or max(1, recipe.steps // 10)
        if out is not None:
            self._resume(out)
        if not self.record.snapshots:
            self._measure()
        while self.step < recipe.steps:
            loss = self.update(out)
            self.losses.append(loss)
            self.step += 1
            is_last = self.step == recipe.steps
            measures = is_last or self.step % record_every == 0
            saves = out is not None and (is_last or self.step % save_every == 0)
            # A loss or a gradient that is not finite is found at every step, weights before they are measured or saved.
            if (measures or saves) and not all(bool(torch.isfinite(tensor).all()) for tensor in self.tensors.values()):
                raise self._divergence("weights are no longer finite", self.step, out)
            snapshot = self._measure() if measures else None
            if out is not None and saves:
                count = len(self.record.snapshots)
                state = checkpoint.State(self.step, self.level, self.running, self.losses, count)
                checkpoint.write(out, self._tensors(), state, self._settings(), self.record)
            if on_step is not None:
                on_step(Progress(self.step, recipe.steps, loss, snapshot))
        trained = Trained(self.model.to_numpy(), self.task, recipe, self.record)
        if out is not None:
            checkpoint.export(out, trained.model, self.task)
        return trained

    def update(self, out: Path | None = None) -> float:
        """One update of the parameters; the mean loss of its batch."""
        recipe, step = self.recipe, self.step
        level = self.task.levels[self.level]
        batch = self.task.batch(recipe.batch_at(level, self.task), seed=recipe.seed, step=step, level=level)
        scored = int((batch.targets >= 0).sum())
        self.optimiser.clear()
        loss, right = 0.0, 0
        threshold = math.inf if recipe.curriculum is None else recipe.curriculum
        climbs = threshold < math.inf and self.level + 1 < len(self.task.levels)
        arrays = (batch.tokens, batch.targets, batch.keys, batch.relations)
        for part in zip(*(np.split(array, recipe.accumulate) for array in arrays), strict=True):
            logits, targets = scored_logits(self.model, Batch(*part))
            of_part = functional.cross_entropy(logits, targets, reduction="sum") / scored
            of_part.backward()
            loss += float(of_part.detach())
            if climbs:
                right += int((logits.detach().argmax(dim=-1) == targets).sum())
        norm = self.optimiser.step(recipe.rate_at(step), recipe.clip) if math.isfinite(loss) else math.nan
        if not math.isfinite(loss) or not math.isfinite(norm):
            what = f"the gradient norm is {norm}" if math.isfinite(loss) else f"the loss is {loss}"
            raise self._divergence(what, step + 1, out)
        if climbs:
            self.running = MEMORY * self.running + (1 - MEMORY) * right / scored
            if self.running > threshold:
                self.level, self.running = self.level + 1, 0.0
        return loss

    def _divergence(self, what: str, step: int, out: Path | None) -> Diverged:
        kept = f" {out} keeps the last good checkpoint." if out and (out / checkpoint.RUN).exists() else ""
        return Diverged(
            f"Training diverged at step {step:,}: {what}.{kept} Try a `rate` below {self.recipe.rate:g} or a"
            " longer `warmup`."
        )

    def _measure(self) -> Snapshot:
        loss = sum(self.losses) / len(self.losses) if self.losses else math.nan
        with torch.no_grad():
            snapshot = measurement.snapshot(self.model, self.record, self.test, self.step, loss)
        self.record.snapshots.append(snapshot)
        self.losses = []
        return snapshot

    def _tensors(self) -> dict[str, Tensor]:
        """Parameters and both moments of the optimiser, by name."""
        named = {f"model.{name}": tensor.detach() for name, tensor in self.tensors.items()}
        for name, moments in zip(self.tensors, self.optimiser.moments, strict=True):
            named |= {f"exp_avg.{name}": moments.exp_avg, f"exp_avg_sq.{name}": moments.exp_avg_sq}
        return named

    def _settings(self) -> Mapping[str, Any]:
        """All that must be the same for a run to be resumed, causes before what follows from them."""
        shapes = {name: list(tensor.shape) for name, tensor in self.tensors.items()}
        probes = self.record.probes.tolist()
        return {
            "task": self.task.name, "length": self.task.length, "data": self.data, "shapes": shapes,
            "heads": [block.attention.heads for block in self.model.encoders], "recipe": asdict(self.recipe),
            "sentences": probes, "weights": self.initial,
        }  # fmt: skip

    def _resume(self, out: Path) -> None:
        saved = checkpoint.read(out, self._tensors(), self._settings(), len(self.task.levels))
        if saved is None:
            return
        tensors, state, self.record = saved
        for name, tensor in self._tensors().items():
            tensor.copy_(torch.from_numpy(tensors[name]))
        for moments in self.optimiser.moments:
            moments.step.fill_(state.step)
        self.step, self.level, self.running, self.losses = state.step, state.level, state.running, state.losses


def _digest(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for tensor in tensors.values():
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def limit_threads(model: Transformer, task: Task, recipe: Recipe) -> bool:
    """Use one thread, in all of this process, where a step is too small for several; whether it is."""
    numbers = sum(array.size for array in model.parameters().values())
    is_small = bool(6 * numbers * recipe.batch * task.length < SMALL_STEP)
    if is_small and not {"OMP_NUM_THREADS", "REGARD_THREADS"} & set(os.environ):
        torch.set_num_threads(1)
        if select.NATIVE_PROBLEM is None:
            from regard import _core

            _core.set_threads(1)
    return is_small


def scored_logits(model: Transformer, batch: Batch) -> tuple[Tensor, Tensor]:
    """Logits (position, vocabulary) and targets (position,) of the positions that have a target."""
    tokens, targets = torch.from_numpy(batch.tokens), torch.from_numpy(batch.targets)
    where = targets >= 0
    if bool(where.all()):
        return model(tokens).flatten(0, 1), targets.flatten()
    return logits_at(model, tokens, where), targets[where]

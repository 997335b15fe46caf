"""What a training run leaves behind for people to look at: every so many steps, how good the model and each head is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.tables import Column, Table

Floats = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The model after some steps, measured on test sequences."""

    step: int
    loss: float  # of the last training batch; NaN before the first
    test_loss: float
    accuracy: float  # share of the scored positions whose likeliest token is right
    entropy: Floats  # (layer, head): mean over the queries, in nats
    head_accuracy: Floats  # (layer, head, relation): how often the largest weight is on the right key; NaN without cases
    weights: Floats  # (probe, layer, head, query, key), float16

    @property
    def attention_accuracy(self) -> float:
        """For each relation the best head, averaged; NaN where the task has no right key."""
        best = self.best_heads
        return float(np.mean([accuracy for _, _, accuracy in best])) if best else float("nan")

    @property
    def best_heads(self) -> list[tuple[int, int, float]]:
        """For each relation: layer, head and accuracy of the head that answers it best."""
        found = []
        for relation in range(self.head_accuracy.shape[2]):
            scores = self.head_accuracy[:, :, relation]
            if not np.isnan(scores).all():
                layer, head = np.unravel_index(int(np.nanargmax(scores)), scores.shape)
                found.append((int(layer), int(head), float(scores[layer, head])))
        return found

    def __repr__(self) -> str:
        attention = "" if np.isnan(self.attention_accuracy) else f", attention accuracy {self.attention_accuracy:.3f}"
        return f"step {self.step:,}: test loss {self.test_loss:.3f}, accuracy {self.accuracy:.3f}{attention}"


NUMBERS = ("step", "loss", "test_loss", "accuracy")
ARRAYS = ("entropy", "head_accuracy", "weights")


@dataclass(eq=False)
class Record:
    """Snapshots of one run, in the order of their steps."""

    task: str
    words: tuple[str, ...]
    relations: tuple[str, ...]
    probes: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 0), np.int64))  # (probe, token)
    snapshots: list[Snapshot] = field(default_factory=list)

    def add(self, snapshot: Snapshot) -> None:
        """Append what was measured."""
        self.snapshots.append(snapshot)

    def arrays(self) -> dict[str, Floats]:
        """All of it as arrays, one row per snapshot."""
        found: dict[str, Floats] = {
            name: np.array([getattr(one, name) for one in self.snapshots], np.float64) for name in NUMBERS
        }
        found |= {name: np.stack([getattr(one, name) for one in self.snapshots]) for name in ARRAYS}
        return {**found, "probes": self.probes}

    @classmethod
    def of(cls, task: str, words: Sequence[str], relations: Sequence[str], arrays: Mapping[str, Floats]) -> Record:
        """From what `arrays` gave."""
        snapshots = [
            Snapshot(int(arrays["step"][row]), *(float(arrays[name][row]) for name in NUMBERS[1:]),
                     *(arrays[name][row] for name in ARRAYS))
            for row in range(len(arrays["step"]))
        ]  # fmt: skip
        return cls(task, tuple(words), tuple(relations), np.asarray(arrays["probes"], np.int64), snapshots)

    def table(self) -> Table:
        """Loss, accuracy and, for each relation, the best head, by step."""
        columns = [Column("Step"), Column("Loss"), Column("Test loss"), Column("Accuracy")]
        columns += [Column(relation) for relation in self.relations]
        rows = []
        for one in self.snapshots:
            best = [f"{layer}.{head} {accuracy:.2f}" for layer, head, accuracy in one.best_heads]
            rows.append((one.step, one.loss, one.test_loss, one.accuracy, *best))
        return Table(f"Training on {self.task}", tuple(columns), tuple(rows))

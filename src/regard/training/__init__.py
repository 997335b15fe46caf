"""Learned weights: tasks, the training loop, what each head learns, and comparisons with other networks."""

from regard.training.loop import Diverged, Progress, Recipe, Trained, train
from regard.training.network import Module, network
from regard.training.record import Record, Snapshot
from regard.training.tasks import Batch, Task, task

__all__ = [
    "Batch",
    "Diverged",
    "Module",
    "Progress",
    "Recipe",
    "Record",
    "Snapshot",
    "Task",
    "Trained",
    "network",
    "task",
    "train",
]

"""Learned weights: tasks with a known right key for every query, a training loop, and what each head learns.

tasks.py        sequences to learn, each a function of a seed; grammar.py has the sentences of `relations`
network.py      transformers to train, and layers as `torch.nn.Module`
loop.py         `train`
measurement.py  accuracy of a model and of each head
record.py       what is kept of a run for people to look at
checkpoint.py   a run on disk
presets.py      a model and a recipe for each task
"""

from regard.training import compare
from regard.training.loop import Diverged, Progress, Recipe, Trained, limit_threads, train
from regard.training.network import Module, network
from regard.training.presets import Preset, preset
from regard.training.record import Record, Snapshot
from regard.training.tasks import Batch, Task, task

__all__ = [
    "Batch",
    "Diverged",
    "Module",
    "Preset",
    "Progress",
    "Recipe",
    "Record",
    "Snapshot",
    "Task",
    "Trained",
    "compare",
    "limit_threads",
    "network",
    "preset",
    "task",
    "train",
]

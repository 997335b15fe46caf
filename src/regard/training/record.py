"""What a training run records: at regular steps, how well the model and each of its heads do.

The file record.safetensors holds one row per snapshot in every array:

step           (snapshot,) updates done; the first row is the untrained model
loss           (snapshot,) mean training loss since the row before; NaN in the first
test_loss      (snapshot,) on sequences that training never shows
accuracy       (snapshot,) share of their scored positions whose most likely token is the target
entropy        (snapshot, layer, head) mean entropy of the rows of the attention, in nats
head_accuracy  (snapshot, layer, head, relation) how often the largest weight of a query is on its right key; NaN where
               the test sequences have no such query
weights        (snapshot, probe, layer, head, query, key) attention of the probes, uint8: weight = value / 255
w_q, w_k       (snapshot, layer, head, row, column) the projections of each head, (head_dim, width), float16, averaged
               over blocks where they are larger than 16 × 32

and once: probes (probe, token), the token ids of the sentences shown, padded with −1 at the end; probe_keys and
probe_relations (probe, token), the right key and relation of each query, −1 where there is none. The metadata of the
file (kind "training_record") has task, words (the text of each token), relations (their names) and run (a digest of the
settings of the run that it belongs to).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import codec, errors
from regard.tables import Column, Table

Numbers = NDArray[Any]
FILE = "record.safetensors"
KIND = "training_record"
LEARNED = 0.5  # of the first test loss: a run that stays above it has not learned its task
VERSION = 2
LARGEST_WEIGHT = 255


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The model after some steps, measured on test sequences; the arrays are those of the module's docstring."""

    step: int
    loss: float
    test_loss: float
    accuracy: float
    entropy: Numbers
    head_accuracy: Numbers
    weights: Numbers
    w_q: Numbers
    w_k: Numbers

    @property
    def attention_accuracy(self) -> float:
        """The mean over the relations of the best head's accuracy; NaN where the task has no right key."""
        best = [accuracy for _, _, accuracy in self.best_heads() if accuracy == accuracy]
        return float(np.mean(best)) if best else float("nan")

    def best_heads(self) -> list[tuple[int, int, float]]:
        """For each relation the best head: layer, head, and how often its largest weight is on the right key.

        That is NaN where the test sequences have no query of the relation.
        """
        best = []
        for relation in range(self.head_accuracy.shape[2]):
            scores = np.nan_to_num(self.head_accuracy[:, :, relation], nan=-1.0)
            layer, head = (int(index) for index in np.unravel_index(int(scores.argmax()), scores.shape))
            best.append((layer, head, float(self.head_accuracy[layer, head, relation])))
        return best

    def __str__(self) -> str:
        attention = "" if np.isnan(self.attention_accuracy) else f", attention accuracy {self.attention_accuracy:.3f}"
        return f"step {self.step:,}: test loss {self.test_loss:.3f}, accuracy {self.accuracy:.3f}{attention}"


NUMBERS = ("step", "loss", "test_loss", "accuracy")
ARRAYS = ("entropy", "head_accuracy", "weights", "w_q", "w_k")


@dataclass(eq=False)
class Record:
    """Snapshots of one run, in the order of their steps."""

    task: str
    words: tuple[str, ...]
    relations: tuple[str, ...]
    probes: Numbers  # (probe, token), −1 after the end
    probe_keys: Numbers
    probe_relations: Numbers
    snapshots: list[Snapshot] = field(default_factory=list)
    run: str = ""  # a digest of the settings of the run, where it is saved with a checkpoint

    def __repr__(self) -> str:
        last = f", the last at {self.snapshots[-1]}" if self.snapshots else ""
        return f"Record({self.task}: {errors.count(len(self.snapshots), 'snapshot')}{last})"

    def probe_words(self, probe: int) -> list[str]:
        return [self.words[token] for token in self.probes[probe] if token >= 0]

    def summary(self, steps: int, usual: int) -> Iterator[str]:
        """What was learned, in sentences: the loss, whether `steps` were too few beside the `usual` ones, the heads."""
        first, last = self.snapshots[0], self.snapshots[-1]
        yield (
            f"Test loss {first.test_loss:.3f} → {last.test_loss:.3f}, "
            f"accuracy {first.accuracy:.3f} → {last.accuracy:.3f} on sequences that training never showed."
        )
        if last.test_loss > LEARNED * first.test_loss:
            fewer = f" The usual number is {usual:,}: leave out --steps." if steps < usual else " Try more --steps."
            yield f"{steps:,} steps are too few to learn this task: the loss is still {last.test_loss:.2f}.{fewer}"
        heads = zip(self.relations, first.best_heads(), last.best_heads(), strict=True)
        for relation, (_, _, untrained), (layer, head, accuracy) in heads:
            yield (
                f"{relation}: layer {layer}, head {head} has its largest weight on the right token for {accuracy:.0%} "
                f"of the queries (untrained: {untrained:.0%} at best)."
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file, all of it or nothing."""
        arrays: dict[str, Numbers] = {
            name: np.array(
                [getattr(snapshot, name) for snapshot in self.snapshots], np.int64 if name == "step" else np.float64
            )
            for name in NUMBERS
        }
        arrays |= {name: np.stack([getattr(snapshot, name) for snapshot in self.snapshots]) for name in ARRAYS}
        arrays |= {name: getattr(self, name) for name in ("probes", "probe_keys", "probe_relations")}
        metadata = {"task": self.task, "words": self.words, "relations": self.relations, "run": self.run}
        codec.save(path, arrays, metadata, kind=KIND, version=VERSION, sealed=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Record:
        """Read the file, or the one in a folder of `regard train`."""
        path = Path(path)
        return codec.load_as(path / FILE if path.is_dir() else path, KIND, cls._of, version=VERSION, sealed=True)

    @classmethod
    def _of(cls, arrays: Mapping[str, Numbers], metadata: Mapping[str, Any]) -> Record:
        snapshots = []
        for row in range(len(arrays["step"])):
            numbers = {name: arrays[name][row].item() for name in NUMBERS}
            snapshots.append(Snapshot(**numbers, **{name: arrays[name][row] for name in ARRAYS}))
        probes = {name: arrays[name] for name in ("probes", "probe_keys", "probe_relations")}
        words, relations = tuple(metadata["words"]), tuple(metadata["relations"])
        return cls(metadata["task"], words, relations, **probes, snapshots=snapshots, run=metadata["run"])

    def table(self) -> Table:
        """Loss, accuracy and the best head for each relation, by step."""
        columns = (
            Column("Step", "number", 0),
            *(Column(name, "number", 3) for name in ("Loss", "Test loss", "Accuracy")),
            *(Column(relation) for relation in self.relations),
        )
        rows = []
        for snapshot in self.snapshots:
            best = (f"{accuracy:.2f} (layer {layer}, head {head})" for layer, head, accuracy in snapshot.best_heads())
            rows.append(
                (
                    snapshot.step,
                    None if snapshot.loss != snapshot.loss else snapshot.loss,
                    snapshot.test_loss,
                    snapshot.accuracy,
                    *best,
                )
            )
        return Table(f"Training on {self.task}", columns, tuple(rows))

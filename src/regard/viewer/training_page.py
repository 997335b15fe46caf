"""The page of a training run: loss and accuracy over its steps, and every head's attention at each of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard import atomic_file, errors
from regard.viewer import frames
from regard.viewer.description import Probe, TrainingHeader
from regard.viewer.page import document
from regard.viewer.page_parts import block

if TYPE_CHECKING:
    from regard.training.record import Record  # with PyTorch, which the page of a recorded film does not need

ENTRY = "hosts/training.js"
LARGEST = 96 << 20  # bytes of attention weights in the page
MOST_SNAPSHOTS = 400

SHORT_FIRST = " Training begins with short sequences; the test has long ones from the start."  # see Task.levels
ABOUT = {
    "lookup": "Pairs of a key and a value, then keys alone: the model gives the value that came after each key."
    + SHORT_FIRST,
    "relations": "Words of a sentence name their partner: where, whose, who does what, when, what “they” refers to.",
    "facts": "News about the keys, word by word: what holds now? Where, whose, what, when: four questions at once.",
    "induction": "A B … A: the model gives B, the token that came after A before." + SHORT_FIRST,
    "copy": "A sequence, then the same sequence again: the model repeats it.",
    "sort": "A sequence, then its tokens in order: the model sorts.",
    "text": "A text: the model gives the next character.",
}


def save(record: Record, path: str | os.PathLike[str], links: Mapping[str, str] | None = None) -> Path:
    """Write the page of a run; an existing file is replaced only when all is written."""
    return atomic_file.write(path, pieces(record, links))


def pieces(record: Record, links: Mapping[str, str] | None = None) -> Iterator[str]:
    title = f"Training on {record.task}"
    yield from film_page(title, frames.pack(*film(record, title)), links)


def film_page(title: str, packed: bytes, links: Mapping[str, str] | None = None) -> Iterator[str]:
    """The page of a film that is packed already."""
    then = "What the heads of a trained language model do:", "regard heads page", "Heads"
    yield from document(title, ENTRY, [block("training", packed)], links=links, current="Learning", then=then)


def film(record: Record, title: str) -> tuple[TrainingHeader, dict[str, Any]]:
    """What the page shows: a header, and arrays with one row per snapshot."""
    from regard.training.record import LARGEST_WEIGHT

    if not record.snapshots:
        raise errors.OptionError("`record` has no snapshot: nothing was measured yet.")
    # All snapshots, or as many of them as a page can hold; the first and the last are always among them.
    most = min(MOST_SNAPSHOTS, max(2, LARGEST // max(1, record.snapshots[0].weights.size)), len(record.snapshots))
    shown = [record.snapshots[index] for index in np.linspace(0, len(record.snapshots) - 1, most).round().astype(int)]
    layers, heads = shown[0].entropy.shape
    probes = [_probe(record, probe) for probe in range(len(record.probes))]
    header: TrainingHeader = {
        "title": title,
        "about": ABOUT.get(record.task, ""),
        "steps": [snapshot.step for snapshot in shown],
        "loss": [snapshot.loss for snapshot in shown],
        "test_loss": [snapshot.test_loss for snapshot in shown],
        "answers": [snapshot.accuracy for snapshot in shown],
        "layers": layers,
        "heads": heads,
        "relations": record.relations,
        "probes": probes,
        "causal": True,
        "largest_weight": LARGEST_WEIGHT,  # weights are stored in 8 bits
    }
    arrays: dict[str, Any] = {
        "head_accuracy": np.stack([snapshot.head_accuracy for snapshot in shown]).astype(np.float32),
        "entropy": np.stack([snapshot.entropy for snapshot in shown]).astype(np.float32),
        "wq": np.stack([snapshot.w_q for snapshot in shown]).swapaxes(-1, -2),  # (width, head_dim), as in x · W_Q
        "wk": np.stack([snapshot.w_k for snapshot in shown]).swapaxes(-1, -2),
    }
    for number, probe in enumerate(probes):
        count = len(probe["tokens"])
        arrays[f"weights_{number}"] = np.stack([snapshot.weights[number, :, :, :count, :count] for snapshot in shown])
    return header, arrays


def _probe(record: Record, probe: int) -> Probe:
    words = record.probe_words(probe)
    return {
        "text": " ".join(words),
        "tokens": words,
        "keys": record.probe_keys[probe][: len(words)].tolist(),
        "relations": record.probe_relations[probe][: len(words)].tolist(),
    }

"""How well a model and each of its heads do a task."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from regard.layers import LayerAttention, Transformer
from regard.training.record import LARGEST_WEIGHT, Record, Snapshot
from regard.training.tasks import NONE, Batch, Task, Text

TEST_SEQUENCES, TEST_TOKENS = 128, 4608  # measured at every snapshot; fewer sequences where they are long
LONGEST_PROBE = 128  # tokens of a sequence whose attention is recorded: 16 KiB per head and snapshot at most
SHORT_PROBE = 64  # up to this many tokens, two sequences are recorded, else one
LARGEST = 65504  # of float16
MOST_ROWS, MOST_COLUMNS = 16, 32  # of a recorded projection


def new_record(task: Task, seed: int, sentences: Sequence[str] = ()) -> Record:
    """An empty record that follows the attention of some sentences, by default of one or two from the test split."""
    if sentences:
        encoded = [task.encode(text)[:LONGEST_PROBE] for text in sentences]
        probes = np.full((len(encoded), max(map(len, encoded))), NONE)
        for row, tokens in zip(probes, encoded, strict=True):
            row[: len(tokens)] = tokens
        keys = relations = np.full_like(probes, NONE)
    else:
        drawn = task.batch(2 if task.length <= SHORT_PROBE else 1, seed=seed + 1, split="test")
        probes, keys, relations = (array[:, :LONGEST_PROBE] for array in (drawn.tokens, drawn.keys, drawn.relations))
        if task.padding is not None:
            probes = np.where(probes == task.number_of[task.padding], NONE, probes)
    return Record(task.name, task.words, task.relations, probes, keys, relations)


def held_out_batch(task: Task, count: int | None = None, seed: int = 0) -> Batch:
    """Sequences that training never shows, the same at every measurement."""
    if count is None:
        count = min(TEST_SEQUENCES, max(1, TEST_TOKENS // task.length))
    if isinstance(task, Text):
        whole = task.windows(count)
        none = np.full_like(whole[:, 1:], NONE)
        return Batch(np.ascontiguousarray(whole[:, :-1]), np.ascontiguousarray(whole[:, 1:]), none, none)
    return task.batch(count, seed=seed, split="test")


def snapshot(model: Transformer, record: Record, batch: Batch, step: int, loss: float) -> Snapshot:
    """Measure a model on test sequences, and the attention of the record's probes; call it without gradients."""
    run = model.run(torch.from_numpy(batch.tokens))
    where = torch.from_numpy(batch.targets >= 0)
    targets = torch.from_numpy(batch.targets)[where]
    scored = run.result[where]
    entropy = np.stack([seen.attention.entropy().mean(dim=(0, 2)).numpy() for seen in run.seen])
    probes = model.run(torch.from_numpy(record.probes.clip(0)))
    weights = np.stack([seen.attention.dense().numpy() for seen in probes.seen], axis=1)
    return Snapshot(
        step,
        loss,
        float(functional.cross_entropy(scored, targets)),
        float((scored.argmax(dim=-1) == targets).double().mean()),
        entropy.astype(np.float32),
        head_accuracy(run.seen, batch, len(record.relations)),
        np.round(np.nan_to_num(weights) * LARGEST_WEIGHT).astype(np.uint8),
        *(_projections(model, name) for name in ("w_q", "w_k")),
    )


def head_accuracy(seen: Sequence[LayerAttention], batch: Batch, relations: int) -> NDArray[np.float32]:
    """(layer, head, relation): the share of queries whose largest weight is on the right key; NaN without a query."""
    heads = max(layer.attention.shape[1] for layer in seen)
    accuracy = np.full((len(seen), heads, relations), np.nan, np.float32)
    for number, layer in enumerate(seen):
        strongest = np.asarray(layer.attention.top(1).index)[..., 0]  # (batch, head, query)
        for relation in range(relations):
            rows, queries = np.nonzero(batch.relations == relation)
            if len(rows):
                right = strongest[rows, :, queries] == batch.keys[rows, queries][:, None]  # (query, head)
                accuracy[number, : right.shape[1], relation] = right.mean(axis=0)
    return accuracy


def _projections(model: Transformer, name: str) -> NDArray[np.float16]:
    """(layer, head, row, column) of W_Q or W_K, averaged over blocks where a head's matrix is large."""
    maps = []
    for block in model.encoders:
        weight: Tensor = getattr(block.attention, name).weight
        by_head = weight.unflatten(0, (block.attention.heads, -1))  # (head, head_dim, width)
        shape = min(by_head.shape[1], MOST_ROWS), min(by_head.shape[2], MOST_COLUMNS)
        maps.append(functional.adaptive_avg_pool2d(by_head, shape))
    return np.asarray(torch.stack(maps).clamp(-LARGEST, LARGEST).numpy(), np.float16)

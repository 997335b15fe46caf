"""How good a model and each of its heads is at a task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from regard.layers import Transformer
from regard.training.record import Snapshot
from regard.training.tasks import Batch, Task, Text

if TYPE_CHECKING:
    from regard.layers import Seen

TEST_SEQUENCES = 128
PROBES, LONGEST_PROBE = 2, 64  # sequences whose attention is recorded: a quarter of a megabyte at most per head


def probes(task: Task, seed: int) -> NDArray[np.int64]:
    """Sequences whose attention a record shows at every snapshot."""
    return task.batch(PROBES, seed=seed + 1, split="test").tokens[:, -LONGEST_PROBE:]


def test_batch(task: Task, count: int = TEST_SEQUENCES, seed: int = 0) -> Batch:
    """Sequences that training never sees, the same at every measurement."""
    if isinstance(task, Text):
        whole = task.windows(count)
        none = np.full_like(whole[:, 1:], -1)
        return Batch(np.ascontiguousarray(whole[:, :-1]), np.ascontiguousarray(whole[:, 1:]), none, none)
    return task.batch(count, seed=seed, split="test")


def observed(model: Transformer, tokens: Tensor) -> tuple[Tensor, list[Seen]]:
    """Logits (batch, token, vocabulary) and the attention of every layer."""
    run = model.run(tokens)
    return run.result, list(run.seen)


@torch.no_grad()
def snapshot(
    model: Transformer, task: Task, shown: NDArray[np.int64], step: int, loss: float, batch: Batch | None = None
) -> Snapshot:
    """Everything a record keeps of one moment."""
    batch = test_batch(task) if batch is None else batch
    logits, seen = observed(model, torch.from_numpy(batch.tokens))
    where = torch.from_numpy(batch.targets >= 0)
    targets = torch.from_numpy(batch.targets)[where]
    scored = logits[where]
    accuracy = float((scored.argmax(dim=-1) == targets).double().mean())
    entropy = np.stack([layer.attention.entropy().mean(dim=(0, 2)).numpy() for layer in seen])
    _, seen_probes = observed(model, torch.from_numpy(shown))
    weights = np.stack([layer.attention.dense().numpy().astype(np.float16) for layer in seen_probes], axis=1)
    return Snapshot(
        step,
        loss,
        float(functional.cross_entropy(scored, targets)),
        accuracy,
        entropy.astype(np.float32),
        head_accuracy(seen, batch, len(task.relations)),
        weights,
    )


def head_accuracy(seen: list[Seen], batch: Batch, relations: int) -> NDArray[np.float32]:
    """(layer, head, relation): the share of queries whose largest weight is on the right key; NaN without a query."""
    heads = max(layer.attention.shape[1] for layer in seen)
    found = np.full((len(seen), heads, relations), np.nan, np.float32)
    for place, layer in enumerate(seen):
        strongest = np.asarray(layer.attention.top(1).index)[..., 0]  # (batch, head, query)
        for relation in range(relations):
            rows, queries = np.nonzero(batch.relations == relation)
            if len(rows):
                right = strongest[rows, :, queries] == batch.keys[rows, queries][:, None]  # (query, head)
                found[place, : right.shape[1], relation] = right.mean(axis=0)
    return found

"""What `regard train` and `regard compare` learn: commands as users run them, then measurements of their models."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import regard
from regard.heads.ablation_effects import silenced
from regard.training import Record, preset, task
from regard.training.compare import ZOOLOGY_RECIPE, ZOOLOGY_VOCABULARY, Comparison, TrainedNetwork, compare
from regard.training.measurement import head_accuracy, held_out_batch

SEQUENCES = 1024  # of the test split
A_ROLE = 0.5  # a head with at least this attention accuracy counts as a head of that kind
PAIRS, VOCABULARY, STEPS, BATCH = 8, 64, 1200, 16  # of the comparison of networks with the same number of parameters


def trained(name: str, seed: int, text: str | None) -> dict[str, Any]:
    """`regard train NAME --seed SEED`, then its accuracy, its heads and the time it took."""
    options = {"path": text} if name == "text" else {}
    corpus = text if name == "text" else None
    with tempfile.TemporaryDirectory() as folder:
        command = [
            str(Path(sys.executable).with_name("regard")),
            "train",
            corpus or name,
            "--seed",
            str(seed),
            "--out",
            folder,
        ]
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        one = task(name, **options)
        found: dict[str, Any] = {"wall": wall, "cpu": sum(after[:2]) - sum(before[:2])}
        if name == "text":
            return found | {"loss": _loss_of_all(regard.model(folder).transformer, one)}
        untrained = preset(one).network(one, seed=seed)
        found |= _measured(one, untrained, regard.model(folder))
        found["snapshots"] = [[shot.step, shot.accuracy] for shot in Record.load(folder).snapshots]
        return found


def _loss_of_all(model: Any, one: Any) -> float:
    """The mean loss of every character of the validation part but the first, in windows one after the other."""
    text = one.parts["test"]
    count = (len(text) - 1) // one.length
    tokens = text[: count * one.length].reshape(count, -1)
    targets = text[1 : count * one.length + 1].reshape(count, -1)
    losses = []
    for start in range(0, count, 64):
        logits = model(tokens[start : start + 64]).astype(np.float64)
        logits -= logits.max(axis=-1, keepdims=True)
        right = np.take_along_axis(logits, targets[start : start + 64, :, None], axis=-1)[..., 0]
        losses.append((np.log(np.exp(logits).sum(axis=-1)) - right).ravel())
    return float(np.concatenate(losses).mean())


def _measured(one: Any, untrained: Any, model: Any) -> dict[str, Any]:
    batch = held_out_batch(one, SEQUENCES, seed=1)  # seed 0 is shown during the training
    runs = untrained.run(batch.tokens), model.transformer.run(batch.tokens)
    heads = [head_accuracy(run.seen, batch, len(one.relations)) for run in runs]
    found: dict[str, Any] = {"accuracy": _accuracy(runs[1].result, batch)}
    for name, of_heads in zip(("untrained", "trained"), heads, strict=True):
        found[name] = {relation: float(np.nanmax(of_heads[..., place])) for place, relation in enumerate(one.relations)}
    if one.name == "induction":
        feeding = np.argwhere(heads[1][0, :, 1] >= A_ROLE)[:, 0].tolist()
        answering = np.argwhere(heads[1][1, :, 0] >= A_ROLE)[:, 0].tolist()
        every = range(model.transformer.encoders[0].attention.heads)
        groups = {
            "previous": [(0, head) for head in feeding], "induction": [(1, head) for head in answering],
            "others": [(0, head) for head in every if head not in feeding]
            + [(1, head) for head in every if head not in answering],
        }  # fmt: skip
        found["groups"] = {name: len(group) for name, group in groups.items()}
        found["without"] = {
            name: _accuracy(silenced(model, group).transformer(batch.tokens), batch) if group else None
            for name, group in groups.items()
        }
    return found


def _accuracy(logits: Any, batch: Any) -> float:
    return float((logits.argmax(-1) == batch.targets)[batch.targets >= 0].mean())


def compared(network: str, seed: int) -> dict[str, Any]:
    """One network of `regard compare lookup --steps 1200 --set pairs=8,vocabulary=64,batch=16` with one seed."""
    from dataclasses import replace

    one = task("lookup", pairs=PAIRS, vocabulary=VOCABULARY)
    recipe = replace(preset(one).recipe, steps=STEPS, batch=BATCH)
    return _result(compare(one, recipe, networks=[network], seeds=[seed]))


def zoology(network: str, length: int, seed: int) -> dict[str, Any]:
    """One network of `regard compare lookup --zoology --set length=LENGTH` with one seed."""
    one = task("lookup", pairs=length // 16, length=length, vocabulary=ZOOLOGY_VOCABULARY)
    start = time.process_time()
    found = _result(compare(one, ZOOLOGY_RECIPE, networks=[network], seeds=[seed], zoology=True))
    return found | {"cpu": time.process_time() - start}


def _result(found: Comparison) -> dict[str, Any]:
    (only,) = found.results
    assert isinstance(only, TrainedNetwork)
    return asdict(only)

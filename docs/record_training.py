"""Runs the trainings whose results lessons and slides show, and writes them into regard/teaching/recorded.

python docs/record_training.py [heads] [networks] [relations] [film], all by default: about ten minutes on two cores.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from regard import training
from regard.training import compare
from regard.training.record import Record

FOLDER = Path(__file__).parents[1] / "src" / "regard" / "teaching" / "recorded"
HEADS, SEEDS = (1, 2, 4, 8), (0, 1, 2)
LOOKUP = {"pairs": 8, "vocabulary": 64}
FRAMES = (0, 48, 96, 144, 256, 800)


def train_task(name: str, heads: int | None, seed: int) -> Record:
    """As `regard train NAME --heads H --seed S` does."""
    task = training.task(name)
    preset = training.preset(task)
    model = preset.network(task, layers=None, heads=heads, width=None, seed=seed)
    recipe = training.Recipe(**{**vars(preset.recipe), "seed": seed})
    training.limit_threads(model, task, recipe)
    with tempfile.TemporaryDirectory() as folder:
        return training.train(model, task, recipe, out=folder).record


def facts_run(heads: int, seed: int) -> dict[str, Any]:
    """The numbers of one run."""
    last = train_task("facts", heads, seed).snapshots[-1]
    return {"seed": seed, "accuracy": round(last.accuracy, 4),
            "best_heads": [round(accuracy, 4) for _, _, accuracy in last.best_heads()]}  # fmt: skip


def record_heads() -> Any:
    """Every number of heads with every seed."""
    return {"command": "regard train facts --heads H --seed S --out DIR",
            "runs": {str(heads): [facts_run(heads, seed) for seed in SEEDS] for heads in HEADS}}  # fmt: skip


def network_runs(network: str, seeds: tuple[int, ...] = SEEDS) -> list[float]:
    """The accuracy of one network after training with each seed."""
    task = training.task("lookup", **LOOKUP)
    recipe = replace(training.preset(task).recipe, steps=1200, batch=16)
    comparison = compare.compare(task, recipe, networks=[network], seeds=seeds)
    return [round(result.accuracy, 4) for result in comparison.results]


def record_networks() -> Any:
    """Every network with every seed."""
    return {"command": "regard compare lookup --steps 1200 --set pairs=8,vocabulary=64,batch=16", "seeds": list(SEEDS),
            "runs": {network: network_runs(network) for network in compare.NETWORKS}}  # fmt: skip


def relations_run(seed: int) -> dict[str, Any]:
    """Right words, and the best head of each relation, before and after training."""
    record = train_task("relations", None, seed)
    first, last = (
        {"accuracy": round(shot.accuracy, 4),
         "best_heads": dict(zip(record.relations, (round(best, 4) for *_, best in shot.best_heads()), strict=True))}
        for shot in (record.snapshots[0], record.snapshots[-1])
    )  # fmt: skip
    return {"seed": seed, "untrained": first, "trained": last}


def record_relations() -> Any:
    """Every seed."""
    return {"command": "regard train relations --seed S --out DIR", "runs": [relations_run(seed) for seed in SEEDS]}


def record_film() -> Any:
    """One run with four heads."""
    return film_of(train_task("facts", 4, 0))


def film_of(record: Record) -> Any:
    """The weights of four heads on one test sequence, in 255ths, with what each head is best at in the end."""
    frames = [snapshot for snapshot in record.snapshots if snapshot.step in FRAMES]
    count = len(record.probe_words(0))
    best = {head: relation for relation, (_, head, _) in zip(record.relations, frames[-1].best_heads(), strict=True)}
    return {
        "command": "regard train facts --heads 4 --out trained/facts", "words": list(record.probe_words(0)),
        "steps": [frame.step for frame in frames],
        "test_loss": [round(frame.test_loss, 4) for frame in frames],
        "accuracy": [round(frame.accuracy, 4) for frame in frames],
        "best_at": [best[head] for head in range(4)],
        "head_accuracy": [
            [round(float(frame.head_accuracy[0, head, record.relations.index(best[head])]), 4) for head in range(4)]
            for frame in frames
        ],
        "weights": [frame.weights[0, 0, :, :count, :count].astype(int).tolist() for frame in frames],
    }  # fmt: skip


RECORDS = {"heads": record_heads, "networks": record_networks, "relations": record_relations, "film": record_film}

if __name__ == "__main__":
    torch.set_num_threads(1)  # steps are too small for several
    for name in sys.argv[1:] or RECORDS:
        text = json.dumps(RECORDS[name](), separators=(",", ":"))
        (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")

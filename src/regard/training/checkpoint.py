"""A training run on disk: one file to resume from, and the model in GPT-2's format for everything else.

run.safetensors    parameters, both moments of AdamW, the record, and the settings; replaced whole
model.safetensors, config.json, tokenizer.json    the model as `regard.model(folder)` and transformers read it
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from regard import atomic_file, errors
from regard.layers import Transformer
from regard.models import gpt2
from regard.training.record import Record
from regard.training.tasks import Task

FILE = "run.safetensors"
VERSION = 1


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What a run needs to go on."""

    tensors: Mapping[str, Tensor]
    record: Record
    step: int


def prepare(folder: Path) -> None:
    """Make the folder; an error where that cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise errors.OptionError(f"The folder {str(folder)!r} cannot be made: {problem.strerror}.") from None


def latest(folder: Path) -> Path | None:
    """The file to resume from, if there is one."""
    path = folder / FILE
    return path if path.is_file() else None


def write(folder: Path, state: Mapping[str, Tensor], record: Record, settings: Mapping[str, Any], step: int) -> None:
    """Replace the checkpoint, all of it or nothing."""
    arrays = {f"record.{name}": torch.from_numpy(np.ascontiguousarray(array)) for name, array in record.arrays().items()}
    tensors = {name: tensor.contiguous() for name, tensor in {**state, **arrays}.items()}
    about = {
        "version": VERSION, "step": step, "settings": settings, "words": record.words, "relations": record.relations,
    }  # fmt: skip
    atomic_file.write(folder / FILE, safetensors.torch.save(tensors, {"regard.training": json.dumps(about)}))


def read(path: Path, settings: Mapping[str, Any] | None = None) -> Checkpoint:
    """Read a checkpoint; with `settings`, refuse one of another run."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            header = (file.metadata() or {}).get("regard.training")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
        about = json.loads(header or "null")
        version, step, words, relations = (about[name] for name in ("version", "step", "words", "relations"))
    except (safetensors.SafetensorError, OSError, ValueError, TypeError, KeyError) as problem:
        raise errors.OptionError(f"{path} is not a training checkpoint of Regard: {problem}.") from problem
    if version != VERSION:
        raise errors.OptionError(f"{path} has version {version}; this Regard reads {VERSION}.")
    if settings is not None:
        _compare(path, about["settings"], json.loads(json.dumps(settings)))
    arrays = {name.removeprefix("record."): tensor.numpy() for name, tensor in tensors.items() if "record." in name}
    record = Record.of(about["settings"]["task"], words, relations, arrays)
    return Checkpoint(tensors, record, int(step))


def _compare(path: Path, saved: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse to go on with other settings: the result would be of neither run."""
    for name in ("task", "words", "shapes"):
        if saved.get(name) != given[name]:
            what = "another shape" if name == "shapes" else f"{name} {saved.get(name)!r}, not {given[name]!r}"
            raise errors.OptionError(f"{path} is of a run with {what}. Choose another folder, or delete it.")
    before, now = saved["recipe"], given["recipe"]
    different = [f"{name} {before.get(name)} → {now[name]}" for name in now if before.get(name) != now[name]]
    if different:
        raise errors.OptionError(
            f"{path} is of a run with other settings ({', '.join(different)}). Choose another folder, or delete it."
        )


def export(folder: Path, model: Transformer, task: Task) -> None:
    """The model in GPT-2's format, with a tokeniser for the task's words."""
    tensors, config = gpt2.checkpoint_of(model.to_numpy())
    described = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in tensors.items()}
    atomic_file.write(folder / "model.safetensors", safetensors.torch.save(described, {"format": "pt"}))
    atomic_file.write(folder / "tokenizer.json", json.dumps(tokeniser_of(task), ensure_ascii=False))
    atomic_file.write(folder / "config.json", json.dumps(config, indent=1))


def tokeniser_of(task: Task) -> dict[str, Any]:
    """A tokenizer.json for the words of a task: whole words, or single characters."""
    split: dict[str, Any] = {"type": "WhitespaceSplit"}
    if not task.separator:
        split = {"type": "Split", "pattern": {"Regex": "(?s)."}, "behavior": "Isolated", "invert": False}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": split, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": task.number_of, "unk_token": task.words[0]},
    }  # fmt: skip

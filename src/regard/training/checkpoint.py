"""A training run on disk, in one folder; every file is replaced in one step, so that a kill leaves whole files.

run.safetensors     what the run goes on from: parameters, both moments of AdamW, and the state of the curriculum
record.safetensors  what was measured so far: see `record`
model.safetensors, config.json, tokenizer.json    the model in GPT-2's format, for `regard.model` and transformers
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save as safetensors_bytes

from regard import atomic_file, codec, errors, lock_file
from regard.arrays import Array
from regard.layers import Transformer
from regard.models import gpt2
from regard.training.record import FILE as RECORD
from regard.training.record import Record
from regard.training.tasks import Task

RUN = "run.safetensors"
LOCK = ".lock"
KIND = "training_checkpoint"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state of a run after some steps."""

    tensors: Mapping[str, Array]
    state: Mapping[str, Any]  # step, level and running accuracy of the curriculum
    record: Record


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Create the folder and keep other runs out of it; temporary files that a killed run left there are removed."""

    def refuse() -> None:
        raise errors.OptionError(
            f"Another process trains in {str(folder)!r}. Wait until it ends, or choose another folder."
        )

    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(lock_file.held(folder / LOCK, refuse))
            for left in folder.glob(".regard-*"):
                left.unlink()
        except OSError as problem:
            raise errors.OptionError(f"The folder {str(folder)!r} cannot be used: {problem.strerror}.") from None
        yield


def write(
    folder: Path, tensors: Mapping[str, Array], state: Mapping[str, Any], settings: Mapping[str, Any], record: Record
) -> None:
    """Replace the checkpoint. The record goes first: one that is ahead of the run is cut when it is read."""
    record.save(folder / RECORD)
    codec.save(folder / RUN, tensors, {"state": state, "settings": settings}, kind=KIND)


def read(folder: Path, settings: Mapping[str, Any]) -> Checkpoint | None:
    """The checkpoint of a folder, None where there is none; one of a run with other settings is refused."""
    path = folder / RUN
    if not path.exists():
        return None
    tensors, metadata = codec.load(path, KIND)
    try:
        state, saved = metadata["state"], metadata["settings"]
        _check_same(path, saved, json.loads(json.dumps(settings)))
        step = state["step"]
    except (KeyError, TypeError, AttributeError) as problem:
        raise errors.OptionError(f"{path} cannot be read as a {KIND}: its metadata is invalid ({problem}).") from None
    record = Record.load(folder / RECORD)
    record.snapshots = [one for one in record.snapshots if one.step <= step]
    return Checkpoint(tensors, state, record)


def _check_same(path: Path, saved: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse to resume with other settings: the result would belong to neither run."""
    for name, value in given.items():
        if name != "recipe" and saved[name] != value:
            came = "another shape of model" if name == "shapes" else f"{name} {errors.shown(saved[name])}"
            wanted = "" if name == "shapes" else f", not {errors.shown(value)}"
            raise errors.OptionError(f"{path} is of a run with {came}{wanted}. Choose another folder, or delete it.")
    before, now = saved["recipe"], given["recipe"]
    different = [f"{name} {before.get(name)}, not {value}" for name, value in now.items() if before.get(name) != value]
    if different:
        raise errors.OptionError(
            f"{path} is of a run with {'; '.join(different)}. Choose another folder, or delete it."
        )


def export(folder: Path, model: Transformer, task: Task) -> None:
    """Write a model of NumPy arrays in GPT-2's format, with a tokeniser for the words of a task."""
    tensors, config = gpt2.checkpoint_of(model)
    contiguous = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    atomic_file.write(folder / "model.safetensors", safetensors_bytes(contiguous, {"format": "pt"}))
    atomic_file.write(folder / "tokenizer.json", json.dumps(tokeniser_of(task), ensure_ascii=False))
    atomic_file.write(folder / "config.json", json.dumps(config, indent=1))


def tokeniser_of(task: Task) -> dict[str, Any]:
    """A tokenizer.json for the words of a task: whole words in small letters, or single characters."""
    by_word = bool(task.separator)
    split: dict[str, Any] = {"type": "Whitespace"}
    if not by_word:
        split = {"type": "Split", "pattern": {"Regex": r"[\s\S]"}, "behavior": "Isolated", "invert": False}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": {"type": "Lowercase"} if by_word else None,
        "pre_tokenizer": split, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": task.number_of, "unk_token": task.words[0]},
    }  # fmt: skip

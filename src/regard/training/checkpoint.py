"""A training run on disk, in one folder; every file is replaced in one step, so that a kill leaves whole files.

run.safetensors     what a run resumes from: parameters, both moments of AdamW, and the state of the curriculum
record.safetensors  what was measured so far: see `record`
model.safetensors, config.json, tokenizer.json, tokenizer_config.json
                    the model in GPT-2's format, for `regard.model` and transformers
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
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
OTHERS = {
    "shapes": "another shape of model",
    "data": "other data: the text or an option of the task has changed",
    "weights": "other initial weights",
}  # settings that a message does not print
KIND = "training_checkpoint"
VERSION = 2


@dataclass(frozen=True)
class State:
    """The progress of a run."""

    step: int
    level: int  # of the curriculum, an index of the task's levels
    running: float  # accuracy on recent batches
    losses: list[float]  # since the last snapshot
    snapshots: int  # in the record


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
    folder: Path, tensors: Mapping[str, Array], state: State, settings: Mapping[str, Any], record: Record
) -> None:
    """Replace the checkpoint. The record is written first: one that is ahead of the run is cut when it is read."""
    record.run = _identity(settings)
    record.save(folder / RECORD)
    metadata = {"state": asdict(state), "settings": settings}
    codec.save(folder / RUN, tensors, metadata, kind=KIND, version=VERSION, sealed=True)


def read(
    folder: Path, tensors: Mapping[str, Array], settings: Mapping[str, Any], levels: int
) -> tuple[Mapping[str, Array], State, Record] | None:
    """The checkpoint of a folder, None where there is none; one of a run with other settings is refused.

    `tensors` have the names, shapes and types that are expected.
    """
    path = folder / RUN
    if not path.exists():
        return None
    saved, metadata = codec.load(path, KIND, version=VERSION, sealed=True)
    try:
        _check_same(path, metadata["settings"], json.loads(json.dumps(settings)))
        state = State(**metadata["state"])
        is_valid = 0 <= state.step <= settings["recipe"]["steps"] and 0 <= state.level < levels
    except (KeyError, TypeError, AttributeError):
        is_valid = False
    if not is_valid:
        raise errors.OptionError(
            f"{path} cannot be read as a training checkpoint: its state is invalid. Delete it to start anew."
        )
    for name in sorted({*saved, *tensors}):  # none may be missing, be broadcast or be converted
        came, expected = (
            f"{errors.type_name(array.dtype)} {tuple(array.shape)}" if array is not None else "no such tensor"
            for array in (saved.get(name), tensors.get(name))
        )
        if came != expected:
            raise errors.OptionError(f"{path} cannot be used: its tensor {name!r} is {came}, expected {expected}.")
    record = Record.load(folder / RECORD) if (folder / RECORD).exists() else None
    if record is None or record.run != _identity(settings):
        came = "is missing" if record is None else "is the record of another run"
        raise errors.OptionError(f"{folder / RECORD} {came}. Restore it, or delete {path}.")
    record.snapshots = [snapshot for snapshot in record.snapshots if snapshot.step <= state.step]
    if len(record.snapshots) != state.snapshots:
        raise errors.OptionError(
            f"{folder / RECORD} has {len(record.snapshots)} snapshots up to step {state.step:,}, expected "
            f"{state.snapshots}: it is older than {path}. Restore it, or delete both."
        )
    return saved, state, record


def _identity(settings: Mapping[str, Any]) -> str:
    """Tells runs apart."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def _check_same(path: Path, saved: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Refuse to resume with other settings: the result would belong to neither run."""
    for name, value in settings.items():  # in their order: the first difference is the cause of others
        if saved[name] == value:
            continue
        if name == "recipe":
            before = saved[name]
            different = [key for key in value if before.get(key) != value[key]]
            came = "; ".join(f"{key} {before.get(key)}, not {value[key]}" for key in different)
        else:
            came = OTHERS.get(name, f"{name} {errors.shown(saved[name])}, not {errors.shown(value)}")
        raise errors.OptionError(f"{path} is of a run with {came}. Choose another folder, or delete it.")


def export(folder: Path, model: Transformer, task: Task) -> None:
    """Write a model of NumPy arrays in GPT-2's format, with a tokeniser for the words of a task."""
    tensors, config = gpt2.checkpoint_of(model)
    contiguous = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    atomic_file.write(folder / "model.safetensors", safetensors_bytes(contiguous, {"format": "pt"}))
    atomic_file.write(folder / "tokenizer.json", json.dumps(tokeniser_of(task), ensure_ascii=False))
    # Without it, transformers looks for the byte pairs of GPT-2, which the model's format names.
    settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    settings["model_max_length"] = task.length
    atomic_file.write(folder / "tokenizer_config.json", json.dumps(settings, ensure_ascii=False, indent=1))
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
        "pre_tokenizer": split, "post_processor": None, "decoder": None if by_word else {"type": "Fuse"},
        "model": {"type": "WordLevel", "vocab": task.number_of, "unk_token": task.words[0]},
    }  # fmt: skip

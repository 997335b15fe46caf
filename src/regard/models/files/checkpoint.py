"""A model on disk before its architecture is known: settings, tensors and tokeniser, from a folder or a GGUF file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.errors import ShapeError
from regard.models import tokens
from regard.models.errors import BrokenFile, broken, missing
from regard.models.files import gguf_config, quantised
from regard.models.files.gguf import open_gguf
from regard.models.files.safetensors_file import Array, Stored, StoredTensors, TensorFile, open_safetensors
from regard.models.regular_file import object_in
from regard.models.settings import Settings, family_of

ONE, INDEX = "model.safetensors", "model.safetensors.index.json"
LONGEST_NAME = 255  # bytes; no file name is longer
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
EMBEDDINGS = ("word_embeddings.weight", "embed_tokens.weight", "wte.weight")  # how the names of token embeddings end


class TensorMisfit(BrokenFile, ShapeError):
    """A tensor whose shape contradicts the settings."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Settings, tensors and tokeniser. Every header has been checked; the rest is read on access."""

    path: Path
    architecture: str  # the class, such as BertModel; for GGUF files general.architecture, such as llama
    config: dict[str, Any]  # named as in config.json
    weights: TensorFile  # named as on the hub
    make_tokeniser: Callable[[], tokens.Tokeniser]
    is_gguf: bool = False

    @cached_property
    def settings(self) -> Settings:
        """The settings, checked when read."""
        return Settings(self.config, self.path if self.is_gguf else self.path / "config.json")

    @cached_property
    def family(self) -> str:
        """The family of architectures, named by model_type of transformers; unknown ones are refused."""
        return family_of(self.architecture, self.config, self.path)

    @cached_property
    def tokeniser(self) -> tokens.Tokeniser:
        """The tokeniser, made on first access; one with more tokens than the model is refused."""
        made = self.make_tokeniser()
        for name, rows in self._vocabularies():
            if made.size > rows:
                why = f"its tokeniser has {made.size} tokens, {name} has {rows}"
                raise broken(self.path, why, "The tokeniser belongs to another model.")
        return made

    def check(self, name: str, *shape: int | None) -> None:
        """Refuse a tensor that is missing or of another shape; None for any size. Nothing is read."""
        came = self.weights.shape(name)
        if len(came) != len(shape) or any(want not in (None, size) for want, size in zip(shape, came, strict=True)):
            expected = ", ".join("any" if size is None else str(size) for size in shape)
            raise TensorMisfit(
                f"{self.path} is broken: tensor {name!r} has shape {came}; its settings require ({expected})."
            )

    def tensor(self, name: str, *shape: int | None) -> Array:
        """A tensor of this shape in float32; None for any size."""
        self.check(name, *shape)
        return self.weights[name]

    def _vocabularies(self) -> list[tuple[str, int]]:
        """All sizes of the vocabulary that the files state, with their sources."""
        embeddings = [(name, self.weights.shape(name)[0]) for name in self.weights.names if name.endswith(EMBEDDINGS)]
        stated = self.config.get("vocab_size")
        return [*embeddings, *([("vocab_size in its settings", stated)] if isinstance(stated, int) else [])]


def open_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Open a folder (config.json, *.safetensors, tokenizer.json) or a GGUF file, and check every header."""
    path = Path(path)
    if path.is_dir():
        config = object_in(path / "config.json", "the settings of a model")
        architecture = _architecture_of(config, path)
        weights = quantised.dequantise(_weights_of(path), config, path)
        return Checkpoint(path, architecture, config, weights, lambda: tokens.from_file(path / "tokenizer.json"))
    if not path.exists():
        raise missing(path, "a folder with config.json and *.safetensors, or a GGUF file")
    if path.suffix == ".safetensors":
        raise broken(path, "weights alone do not describe a model", f"Open the folder with config.json: {path.parent}")
    file = open_gguf(path)
    architecture = gguf_config.architecture_of(file.metadata, path)
    config = gguf_config.config_of(file.metadata, architecture, file.names, path)
    if "vocab_size" not in config and "model.embed_tokens.weight" in file.names:
        config["vocab_size"] = file.shape("model.embed_tokens.weight")[0]
    return Checkpoint(path, architecture, config, file, lambda: gguf_config.tokeniser(file.metadata, path), True)


# Folders as the hub has them: config.json, tokenizer.json, and one safetensors file or several


def _architecture_of(config: Mapping[str, Any], folder: Path) -> str:
    """The class that the settings name, or else model_type."""
    named = config.get("architectures")
    if isinstance(named, list) and named and isinstance(named[0], str):
        return named[0]
    if isinstance(kind := config.get("model_type"), str):
        return kind
    raise broken(folder / "config.json", "it has neither `architectures` nor `model_type`")


def _weights_of(folder: Path) -> StoredTensors:
    """The tensors of a folder."""
    if (folder / ONE).exists():
        return open_safetensors(folder / ONE)
    if (folder / INDEX).exists():
        return _by_index(folder)
    if files := sorted(folder.glob("*.safetensors")):
        return _join(folder, files)
    pickles = sorted(path.name for pattern in PICKLES for path in folder.glob(pattern))
    fix = "{} is a pickle, which can run arbitrary code and is never opened: convert it to safetensors."
    raise missing(folder / ONE, "the weights as *.safetensors", fix.format(pickles[0]) if pickles else "")


def _by_index(folder: Path) -> StoredTensors:
    index = folder / INDEX
    file_of = object_in(index, "an index of tensors").get("weight_map")
    if not isinstance(file_of, dict) or not all(isinstance(file, str) for file in file_of.values()):
        raise broken(index, "it has no weight_map, an object from tensor names to file names")
    opened: dict[str, StoredTensors] = {}
    for file in sorted(set(file_of.values())):
        if Path(file).name != file or "\\" in file or ":" in file or "\0" in file or len(file.encode()) > LONGEST_NAME:
            raise broken(index, f"it names {file[:80]!r}, which is not a file in the same folder")
        if not (folder / file).is_file():
            raise missing(folder / file, f"a part of the model, named in {index.name}", "Download the rest.")
        opened[file] = open_safetensors(folder / file)
    for name, file in file_of.items():
        if name not in opened[file].tensors:
            raise broken(index, f"it places tensor {name[:80]!r} in {file}, which does not have it")
    return StoredTensors(folder, {name: opened[file].tensors[name] for name, file in file_of.items()})


def _join(folder: Path, files: list[Path]) -> StoredTensors:
    tensors: dict[str, Stored] = {}
    for path in files:
        opened = open_safetensors(path)
        if double := next((name for name in opened.tensors if name in tensors), None):
            raise broken(path, f"tensor {double[:80]!r} is also in {tensors[double].path.name}")
        tensors |= opened.tensors
    return StoredTensors(folder, tensors)

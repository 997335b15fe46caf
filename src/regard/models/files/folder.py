"""Folders as the hub has them: config.json, tokenizer.json, and one safetensors file or several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.models.errors import broken, missing
from regard.models.files.json_file import object_in
from regard.models.files.safetensors_file import SafetensorsFile, open_safetensors
from regard.models.files.weights import Array, StoredWeights

ONE, INDEX = "model.safetensors", "model.safetensors.index.json"
LONGEST_NAME = 255  # bytes of a file name; more is not a file
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")


@dataclass(frozen=True, eq=False)
class Shards:
    """Several safetensors files that hold one model."""

    path: Path
    files: Mapping[str, SafetensorsFile]  # by the name of the tensor

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of all tensors."""
        return frozenset(self.files)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of one tensor."""
        return self._file(name).shape(name)

    def __getitem__(self, name: str) -> Array:
        """One tensor of floats in float32."""
        return self._file(name)[name]

    def kind(self, name: str) -> str:
        """The type a tensor is stored in."""
        return self._file(name).kind(name)

    def stored(self, name: str) -> Array:
        """One tensor in the type it is stored in."""
        return self._file(name).stored(name)

    def _file(self, name: str) -> SafetensorsFile:
        if name not in self.files:
            raise missing(f"tensor {name!r} in {self.path}", f"it among the {len(self.files)} there")
        return self.files[name]


def config_of(folder: Path) -> dict[str, Any]:
    """What config.json says."""
    return object_in(folder / "config.json", "the settings of a model")


def architecture_of(config: Mapping[str, Any], folder: Path) -> str:
    """The class that the settings name, or the kind of model where they name none."""
    named = config.get("architectures")
    if isinstance(named, list) and named and isinstance(named[0], str):
        return named[0]
    if isinstance(kind := config.get("model_type"), str):
        return kind
    raise broken(folder / "config.json", "it names no architecture: neither `architectures` nor `model_type`")


def weights_of(folder: Path) -> StoredWeights:
    """The tensors of a folder."""
    if (folder / ONE).exists():
        return open_safetensors(folder / ONE)
    if (folder / INDEX).exists():
        return _by_index(folder)
    files = sorted(folder.glob("*.safetensors"))
    if len(files) == 1:
        return open_safetensors(files[0])
    if files:
        return _joined(folder, files)
    pickles = sorted(path.name for pattern in PICKLES for path in folder.glob(pattern))
    fix = f"{pickles[0]} is a pickle, which may run any code: Regard never opens one. Convert it." if pickles else ""
    raise missing(folder / ONE, "the weights as *.safetensors", fix)


def _by_index(folder: Path) -> Shards:
    index = folder / INDEX
    places = object_in(index, "an index of tensors").get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
        raise broken(index, "it has no weight_map, an object that names a file for each tensor")
    opened: dict[str, SafetensorsFile] = {}
    for file in sorted(set(places.values())):
        if Path(file).name != file or "\\" in file or ":" in file or "\0" in file or len(file.encode()) > LONGEST_NAME:
            raise broken(index, f"it names {file[:80]!r}, which is not a file beside it")
        if not (folder / file).is_file():
            raise missing(folder / file, f"a part of the model, as {index.name} says", "Get the rest of the model.")
        opened[file] = open_safetensors(folder / file)
    for name, file in places.items():
        if name not in opened[file].tensors:
            raise broken(index, f"it says that tensor {name[:80]!r} is in {file}, which does not have it")
    return Shards(folder, {name: opened[file] for name, file in places.items()})


def _joined(folder: Path, files: list[Path]) -> Shards:
    found: dict[str, SafetensorsFile] = {}
    for path in files:
        opened = open_safetensors(path)
        if double := next((name for name in opened.tensors if name in found), None):
            raise broken(path, f"tensor {double[:80]!r} is also in {found[double].path.name}")
        found |= dict.fromkeys(opened.tensors, opened)
    return Shards(folder, found)

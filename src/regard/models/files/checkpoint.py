"""A model on disk before its architecture is known: settings, tensors and tokeniser, whichever files hold them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.errors import ShapeError
from regard.models import tokens
from regard.models.errors import BrokenFile, broken, missing
from regard.models.families import family_of
from regard.models.files import folder, gguf_names, gguf_tokens, quantised
from regard.models.files.gguf_file import open_gguf
from regard.models.files.weights import Array, Weights
from regard.models.settings import Settings

EMBEDDINGS = ("word_embeddings.weight", "embed_tokens.weight", "wte.weight")  # how the names of tables of tokens end


class Misfit(BrokenFile, ShapeError):
    """A tensor of another shape than the settings ask for."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Settings, tensors and tokeniser; nothing is read before it is asked for, but every header was checked."""

    path: Path
    architecture: str  # the hub's class, such as BertModel; of a GGUF file its general.architecture, such as llama
    config: dict[str, Any]  # in the words of config.json
    weights: Weights  # under the hub's names
    make_tokeniser: Callable[[], tokens.Tokeniser]
    is_gguf: bool = False

    @cached_property
    def settings(self) -> Settings:
        """The settings, checked as they are read."""
        return Settings(self.config, self.path if self.is_gguf else self.path / "config.json")

    @cached_property
    def family(self) -> str:
        """The family of architectures, by transformers' model_type; unknown ones are refused."""
        return family_of(self.architecture, self.config, self.path)

    @cached_property
    def tokeniser(self) -> tokens.Tokeniser:
        """The tokeniser, made when first asked for; one with more tokens than the model knows is refused."""
        made = self.make_tokeniser()
        for name, rows in self._vocabularies():
            if made.size > rows:
                why = f"its tokeniser has {made.size} tokens, {name} has {rows}"
                raise broken(self.path, why, "The tokeniser belongs to another model.")
        return made

    def check(self, name: str, *shape: int | None) -> None:
        """Refuse a tensor that is missing or of another shape; None is any size. Nothing is read."""
        came = self.weights.shape(name)
        if len(came) != len(shape) or any(want not in (None, size) for want, size in zip(shape, came, strict=True)):
            expected = ", ".join("any" if size is None else str(size) for size in shape)
            raise Misfit(f"{self.path} is broken: tensor {name!r} has shape {came}; its settings ask for ({expected}).")

    def tensor(self, name: str, *shape: int | None) -> Array:
        """A tensor of exactly this shape in float32, or an error that names the file; None is any size."""
        self.check(name, *shape)
        return self.weights[name]

    def _vocabularies(self) -> list[tuple[str, int]]:
        """Each statement in the files about the size of the vocabulary."""
        found = [(name, self.weights.shape(name)[0]) for name in self.weights.names if name.endswith(EMBEDDINGS)]
        stated = self.config.get("vocab_size")
        return [*found, *([("vocab_size in its settings", stated)] if isinstance(stated, int) else [])]


def open_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Open a folder (config.json, *.safetensors, tokenizer.json) or a GGUF file, and check every header."""
    path = Path(path)
    if path.is_dir():
        config = folder.config_of(path)
        architecture = folder.architecture_of(config, path)
        weights = quantised.dequantised(folder.weights_of(path), config, path)
        return Checkpoint(path, architecture, config, weights, lambda: tokens.from_file(path / "tokenizer.json"))
    if not path.exists():
        raise missing(path, "a folder with config.json and *.safetensors, or a GGUF file")
    if path.suffix == ".safetensors":
        raise broken(
            path, "weights alone say nothing about the model", f"Give the folder with config.json: {path.parent}"
        )
    file = open_gguf(path)
    architecture = gguf_names.architecture_of(file.metadata, path)
    config = gguf_names.config(file.metadata, architecture, file.names, path)
    if "vocab_size" not in config and "model.embed_tokens.weight" in file.names:
        config["vocab_size"] = file.shape("model.embed_tokens.weight")[0]
    return Checkpoint(path, architecture, config, file, lambda: gguf_tokens.build(file.metadata, path), True)

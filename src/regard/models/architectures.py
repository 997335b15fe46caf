"""From a name or a path to a model: the architecture is chosen by what the checkpoint says it is."""

from __future__ import annotations

import os
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from regard.errors import unsupported
from regard.layers import Learned, Transformer
from regard.models.files import Checkpoint, open_checkpoint
from regard.models.files.json_file import object_in
from regard.models.model import Kind, Model

# The hub's classes, such as BertModel or BertForMaskedLM, and the words that config.json and GGUF files use.
KNOWN: dict[Kind, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "bert": (
        ("Bert", "Roberta", "XLMRoberta", "Camembert", "DistilBert"),
        ("bert", "roberta", "xlm-roberta", "camembert", "distilbert"),
    ),
    "llama": (("Llama", "Mistral", "Qwen2", "Qwen3"), ("llama", "mistral", "qwen2", "qwen3")),
    "gpt2": (("GPT2",), ("gpt2",)),
}


def model(name: str | os.PathLike[str] = "minilm") -> Model:
    """A model by its name in the catalogue, by the path of a folder or GGUF file, or by its id on the hub."""
    from regard.models import store

    known: Any = store.CATALOGUE.get(name) if isinstance(name, str) else None
    return opened(store.find(name), str(name), None if known is None else known.licence)


def opened(path: str | os.PathLike[str], name: str | None = None, licence: str | None = None) -> Model:
    """The model that a folder or a GGUF file holds."""
    checkpoint = open_checkpoint(path)
    kind = kind_of(checkpoint)
    transformer: Transformer = import_module(f"regard.models.{kind}").transformer(checkpoint)
    longest = _longest(checkpoint, transformer)
    name = name or Path(path).stem
    ends = _ends(checkpoint)
    return Model(name, kind, transformer, checkpoint.tokeniser, checkpoint.config, longest, licence, ends)


def kind_of(checkpoint: Checkpoint) -> Kind:
    """Which of the architectures this is."""
    for kind, (classes, words) in KNOWN.items():
        of_hub = rf"({'|'.join(classes)})(Model|LMHeadModel|For[A-Z]\w*)"
        if re.fullmatch(of_hub, checkpoint.architecture) or checkpoint.architecture.lower() in words:
            return kind
    known = ", ".join(name for classes, _ in KNOWN.values() for name in classes)
    raise unsupported(
        f"The architecture {checkpoint.architecture} of {checkpoint.path}", f"Regard reads these: {known}."
    )


def _longest(checkpoint: Checkpoint, transformer: Transformer) -> int:
    """How many tokens the model can read: as many as it has learned positions, or was trained for."""
    if isinstance(transformer.positions, Learned):
        return int(transformer.positions.weight.shape[0])
    stated = checkpoint.config.get("max_position_embeddings")
    return stated if isinstance(stated, int) and stated > 0 else 2048


def _ends(checkpoint: Checkpoint) -> frozenset[int]:
    """Tokens that end a text: what the settings say, and those for writing, which models that chat have."""
    stated = [checkpoint.config.get("eos_token_id")]
    if (beside := checkpoint.path / "generation_config.json").is_file():
        stated.append(object_in(beside, "settings for writing").get("eos_token_id"))
    numbers = [number for one in stated for number in (one if isinstance(one, list) else [one])]
    return frozenset(number for number in numbers if isinstance(number, int))

"""Which family of architectures a checkpoint belongs to: the names that config.json and GGUF files use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from regard.errors import unsupported

Kind = Literal["bert", "llama", "gpt2"]

# By family (transformers' model_type): the prefix of its classes, such as BertModel, and the module that reads it.
FAMILIES: dict[str, tuple[str, Kind]] = {
    "bert": ("Bert", "bert"),
    "roberta": ("Roberta", "bert"),
    "xlm-roberta": ("XLMRoberta", "bert"),
    "camembert": ("Camembert", "bert"),
    "distilbert": ("DistilBert", "bert"),
    "llama": ("Llama", "llama"),
    "mistral": ("Mistral", "llama"),
    "qwen2": ("Qwen2", "llama"),
    "qwen3": ("Qwen3", "llama"),
    "gpt2": ("GPT2", "gpt2"),
}


def family_of(architecture: str, config: Mapping[str, Any], path: Path) -> str:
    """The family that the class and the model_type of the settings name; they must agree."""
    named = architecture.lower() if architecture.lower() in FAMILIES else None
    for family, (prefix, _) in FAMILIES.items():
        if re.fullmatch(rf"{prefix}(Model|LMHeadModel|For[A-Z]\w*)", architecture):
            named = family
    if named is None:
        known = ", ".join(prefix for prefix, _ in FAMILIES.values())
        raise unsupported(f"The architecture {architecture[:80]} of {path}", f"Regard reads these: {known}.")
    stated = config.get("model_type", named)
    if stated != named:
        raise unsupported(
            f"A {architecture[:80]} whose model_type is {str(stated)[:80]!r} in {path}",
            "The two decide how the model is computed and must agree: check config.json.",
        )
    return named

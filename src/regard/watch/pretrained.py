"""Texts read by a model of transformers: from a folder or the hub to a `Reading`, for `regard see --hf`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from regard import errors
from regard.watch.session import watch

if TYPE_CHECKING:
    from regard.reading import Reading


def read(name: str, text: str, generate: int | None = None) -> Reading:
    """A text as a model of transformers reads it, or with so many tokens that it writes after it.

    name   a folder with config.json, weights and a tokenizer, or the id of a model on the hub
    """
    tokenizer, model = _loaded(name, writes=generate is not None)
    inputs = tokenizer(text, return_tensors="pt")
    with watch(model) as seen, torch.inference_mode():
        if generate is None:
            _forward(model, inputs)
            given: Any = text
        else:
            given = model.generate(**inputs, max_new_tokens=generate, do_sample=False)
    return seen.reading(tokenizer, given)


def _forward(model: Any, inputs: Any) -> None:
    """One pass; only the encoder of a model that has a decoder too."""
    body = model.get_encoder() if model.config.is_encoder_decoder else model
    body(**{name: inputs[name] for name in ("input_ids", "attention_mask") if name in inputs})


def _loaded(name: str, writes: bool) -> tuple[Any, Any]:
    try:
        import transformers
    except ImportError:
        raise errors.missing_package("--hf", "transformers") from None
    kind = transformers.AutoModelForCausalLM if writes else transformers.AutoModel
    try:
        return transformers.AutoTokenizer.from_pretrained(name), kind.from_pretrained(name).eval()
    except (OSError, ValueError, ImportError) as problem:
        first = " ".join(str(problem).split())
        shortened = first if len(first) <= 300 else first[:297] + "..."
        raise errors.OptionError(
            f"transformers cannot open {name!r}: {shortened}\n"
            "Give a folder that holds config.json, weights and a tokenizer, or the id of a model on the hub."
        ) from problem

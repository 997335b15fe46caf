"""`--model NAME`: a model that Regard computes itself, or `hf:PATH`, one that transformers runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from regard.errors import OptionError, require

if TYPE_CHECKING:
    from regard.models.model import Model
    from regard.reading.reader import Reader

HF = "hf:"
USUAL, CAUSAL = "minilm", "smollm2"  # the default model, and the one where a next token is needed
HELP = "A model by name, path or hub id; `regard models` lists names."

AnyModel = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help=f"{HELP} hf:PATH is a folder or hub id for transformers.")
]
ComputedModel = Annotated[str | None, typer.Option("--model", metavar="NAME", help=HELP)]


def open_model(name: str) -> Reader:
    """The model of `--model`."""
    if name.startswith(HF):
        require(f"--model {HF}", "torch", "transformers")
        from regard.watch.pretrained import Pretrained

        return Pretrained.open(name.removeprefix(HF))
    from regard.models.model import model

    return model(name)


def open_computed(name: str, what: str) -> Model:
    """The model of `--model` for `what`, which needs one that Regard computes itself."""
    check_computed(name, what)
    from regard.models.model import model

    return model(name)


def check_computed(name: str, what: str) -> None:
    """Refuse a model that transformers runs."""
    if name.startswith(HF):
        raise OptionError(
            f"{what} needs a model that Regard computes itself, not --model {name}: leave out {HF}, which opens the "
            "BERT, GPT-2 and Llama kinds from their folders as well."
        )

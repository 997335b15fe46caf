"""Arguments and options that several commands have, and the model that `--model` names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from regard.errors import OptionError, require
from regard.output.files import USUAL as USUAL_FORMATS
from regard.output.files import Format

if TYPE_CHECKING:
    from regard.models.model import Model
    from regard.reading.reader import Reader

HF = "hf:"
USUAL, CAUSAL = "minilm", "smollm2"  # the default model, and the one where a next token is needed
MODEL = "A model by name, path or hub id; `regard models` lists names."
WITH_PARQUET = (*USUAL_FORMATS, Format.PARQUET)
MOST_ROWS = 12  # of a table in the terminal

AnyModel = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help=f"{MODEL} hf:PATH is a folder or hub id for transformers.")
]
ComputedModel = Annotated[str | None, typer.Option("--model", metavar="NAME", help=MODEL)]
Sentence = Annotated[str | None, typer.Argument(help="A sentence; - reads it from standard input.")]
Text = Annotated[str, typer.Argument(help="A text; - reads it from standard input.")]
File = Annotated[str | None, typer.Option(metavar="FILE", help="Read the text from this file.")]
Query = Annotated[
    str | None, typer.Option(metavar="WORD", help="The query word; the:2 is the second 'the', 3 a position.")
]
Layer = Annotated[int | None, typer.Option(help="Only this layer, counted from 0.")]
Head = Annotated[int | None, typer.Option(help="Only this head, counted from 0.")]
Settings = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE")]
Folder = Annotated[str, typer.Option("--out", metavar="FOLDER")]
Count = Annotated[int | None, typer.Option(min=1)]
Seed = Annotated[int, typer.Option(min=0)]


def open_model(name: str) -> Reader:
    """The model of `--model`: one that Regard computes itself, or after `hf:` one that transformers runs."""
    if name.startswith(HF):
        require(f"--model {HF}", "torch", "transformers")
        from regard.watch.pretrained import Pretrained

        return Pretrained.open(name.removeprefix(HF))
    from regard.models.model import model

    return model(name)


def open_computed(name: str, what: str) -> Model:
    """The model of `--model` for `what`, which needs one that Regard computes itself."""
    if name.startswith(HF):
        raise OptionError(
            f"{what} needs a model that Regard computes itself, not --model {name}: leave out {HF}, which opens the "
            "BERT, GPT-2 and Llama kinds from their folders as well."
        )
    from regard.models.model import model

    return model(name)

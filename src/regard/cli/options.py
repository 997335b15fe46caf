"""Arguments and options that several commands have, what commands write, and the model that `--model` names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.errors import OptionError, require
from regard.output.files import FIGURES, Format
from regard.output.files import USUAL as USUAL_FORMATS

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
Seed = Annotated[int, typer.Option(min=0)]

# What a command writes

Full = Annotated[bool, typer.Option("--full", help="Shorten nothing: all rows, all numbers.")]
Out = Annotated[
    list[str] | None,
    typer.Option(
        "--out", metavar="FILE", help="Write to this file in the format of its ending; may be repeated. - is stdout."
    ),
]
Aspect = Annotated[str | None, typer.Option("--aspect", metavar="16:9", help="The shape of a figure, for slides.")]
FontSize = Annotated[
    float | None,
    typer.Option("--font-size", metavar="PT", min=1, max=200, help="Smallest type of a figure that fills a slide."),
]
NoCaption = Annotated[bool, typer.Option("--no-caption", help="Leave out the title and notes of a figure.")]
FIGURE_OPTIONS = {"aspect": (Aspect, None), "font_size": (FontSize, None), "no_caption": (NoCaption, False)}


def show_option(formats: Sequence[Format]) -> Any:
    """`--show`, with the formats that a command writes."""
    names = [str(kind) for kind in formats]

    def parse(name: str) -> Format:
        if name not in names:
            expected = f"{', '.join(names[:-1])} or {names[-1]}"
            raise typer.BadParameter(f"--show is {name!r}; expected {expected}.")
        return Format(name)

    text = "The format of standard output, or of --out FILE without an ending."
    return typer.Option("--show", metavar=f"[{'|'.join(names)}]", parser=parse, help=text)


@dataclass(frozen=True, slots=True)
class Writes:
    """The options of what a command writes, as an annotation of its parameter `output`.

    formats   those that the command writes; with figures among them, it has the options of figures
    full      whether the command has --full
    """

    formats: Sequence[Format] = USUAL_FORMATS
    full: bool = True

    @property
    def options(self) -> dict[str, tuple[Any, Any]]:
        """The type and the default of each option, by the names of `Output.of`."""
        options: dict[str, tuple[Any, Any]] = {"show": (Annotated[Format | None, show_option(self.formats)], None)}
        options |= {"full": (Full, False)} if self.full else {}
        return options | {"out": (Out, None)} | (FIGURE_OPTIONS if FIGURES & set(self.formats) else {})


# The model


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

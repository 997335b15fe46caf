"""The options of what a command writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from regard.output.files import FIGURES, USUAL, Format


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

    formats: Sequence[Format] = USUAL
    full: bool = True

    @property
    def options(self) -> dict[str, tuple[Any, Any]]:
        """The type and the default of each option, by the names of `Output.of`."""
        options: dict[str, tuple[Any, Any]] = {"show": (Annotated[Format | None, show_option(self.formats)], None)}
        options |= {"full": (Full, False)} if self.full else {}
        return options | {"out": (Out, None)} | (FIGURE_OPTIONS if FIGURES & set(self.formats) else {})


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

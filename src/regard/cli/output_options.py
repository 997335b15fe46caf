"""The options of what a command writes: `--out`, `--show`, `--full`, and the layout of figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from regard.output.files import USUAL, Format
from regard.output.svg import Layout, aspect_ratio


def show_option(formats: Sequence[Format]) -> Any:
    """`--show`, with the formats that a command writes."""
    names = [str(kind) for kind in formats]

    def parse(name: str) -> Format:
        if name not in names:
            expected = f"{', '.join(names[:-1])} or {names[-1]}"
            raise typer.BadParameter(f"--show is {name!r}; expected {expected}.")
        return Format(name)

    return typer.Option(
        "--show",
        metavar=f"[{'|'.join(names)}]",
        parser=parse,
        help="The format of standard output, or of --out FILE without an ending.",
    )


Show = Annotated[Format | None, show_option(USUAL)]
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


def layout(aspect: str | None, font_size: float | None, no_caption: bool) -> Layout:
    """The options of figures."""
    if aspect is not None:
        aspect_ratio(aspect)  # refused before anything is computed
    return {"aspect": aspect, "font_size": font_size, "caption": not no_caption}

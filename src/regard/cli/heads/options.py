"""What the commands under `regard heads` share: the text, the formats, and heads to silence."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from regard.cli.text_input import text_argument
from regard.output.files import Format

FORMATS = (Format.TABLE, Format.MARKDOWN, Format.LATEX, Format.CSV, Format.JSON, Format.HTML, Format.PARQUET)

Text = Annotated[str | None, typer.Argument(help="A text; - reads it from standard input.")]
File = Annotated[str | None, typer.Option(metavar="FILE", help="Read the text from this file.")]
Silence = Annotated[str | None, typer.Option(metavar="2.0,3.1", help="Silence these heads; 2 is all of layer 2.")]


def paragraphs(command: str, text: str | None, file: str | None) -> list[str]:
    """The paragraphs of the text that a command is given."""
    return [part for part in re.split(r"\n\s*\n", text_argument(command, text, file)) if part.strip()]

"""What the commands about heads share: their texts, formats, and how a profile is printed or written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli import terminal
from regard.cli.options import Writes
from regard.cli.outputs import Output
from regard.cli.text_input import text_argument
from regard.output.files import Format, tables_file

if TYPE_CHECKING:
    from regard.heads.profile import Profile
    from regard.reading import Reading
    from regard.tables import Table

FORMATS = (Format.TABLE, Format.MARKDOWN, Format.LATEX, Format.CSV, Format.JSON, Format.HTML, Format.PARQUET)

Written = Annotated[Output, Writes(FORMATS)]

Text = Annotated[str | None, typer.Argument(help="A text; - reads it from standard input.")]

Silence = Annotated[str | None, typer.Option(metavar="2.0,3.1", help="Silence these heads; 2 is all of layer 2.")]


def paragraphs(command: str, text: str | None, file: str | None) -> list[str]:
    """The paragraphs of the text that a command is given."""
    return [part for part in re.split(r"\n\s*\n", text_argument(command, text, file)) if part.strip()]


def publish(profile: Profile, tables: Sequence[Table], output: Output, maps: Callable[[], list[Reading]]) -> None:
    """Print the tables of a profile, or write them as the options say; a page also holds `maps`."""
    if output.is_printed:
        shown = {note for table in tables for note in table.notes}
        terminal.show([*tables, *(note for note in profile.notes if note not in shown)], output.full)
    else:
        output.write(lambda kind: profile_file(profile, tables, kind, output.full, maps))


def profile_file(
    profile: Profile, tables: Sequence[Table], kind: Format, full: bool, maps: Callable[[], list[Reading]] = list
) -> str | bytes:
    if kind is Format.HTML:
        from regard.viewer import heads_page

        return "".join(heads_page.pieces([profile.data()], [maps()]))
    if kind is Format.JSON:
        return json.dumps(profile.data(), ensure_ascii=False, indent=1) + "\n"
    return tables_file(tables, kind, full)

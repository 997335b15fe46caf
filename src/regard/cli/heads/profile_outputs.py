"""What the commands under `regard heads` print and write of a profile."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from regard.cli import terminal
from regard.cli.outputs import Output
from regard.output.files import Format, tables_file

if TYPE_CHECKING:
    from regard.heads.profile import Profile
    from regard.reading import Reading
    from regard.tables import Table


def show_atlas(profile: Profile, folder: str | None, show: Format | None, full: bool) -> None:
    """Print an atlas that was written to a folder, or its numbers in another format."""
    tables = [profile.pattern_table(every=full), *[profile.table()] * full]
    if show in (None, Format.TABLE):
        written = [f"Wrote {folder}."] if folder else []
        terminal.show([*tables, *([] if full else profile.notes), *written], full)
    else:
        terminal.raw(_content(profile, [profile.table(every=True)], show, full))


def publish(
    profile: Profile, tables: Sequence[Table], output: Output, maps: Callable[[], list[Reading]] = list
) -> None:
    """Print the tables of a profile, or write them as the options say; a page also holds `maps`."""
    if output.is_printed:
        shown = {note for table in tables for note in table.notes}
        terminal.show([*tables, *(note for note in profile.notes if note not in shown)], output.full)
    else:
        output.write(lambda kind: _content(profile, tables, kind, output.full, maps))


def _content(
    profile: Profile, tables: Sequence[Table], kind: Format, full: bool, maps: Callable[[], list[Reading]] = list
) -> str | bytes:
    if kind is Format.HTML:
        from regard.viewer import heads_page

        return "".join(heads_page.pieces([profile.data()], [maps()]))
    if kind is Format.JSON:
        return json.dumps(profile.data(), ensure_ascii=False, indent=1) + "\n"
    return tables_file(tables, kind, full)

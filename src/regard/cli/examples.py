"""`regard examples`: sentences, dictionaries, vectors and worked examples."""

from __future__ import annotations

from typing import Annotated

import typer

from regard import examples as stored
from regard.cli import terminal
from regard.tables import Column, Table

EXAMPLES = """Examples:

\b
  regard examples
  regard examples kids
  regard examples cat-sat > vectors.json
  regard examples jane | regard lookup - "birth date"
"""


def examples(
    name: Annotated[str | None, typer.Argument(help="The example to print.")] = None,
) -> None:
    """List the examples, or print one of them."""
    if name is None:
        rows = tuple((example.name, example.kind, example.about) for example in stored.EXAMPLES.values())
        columns = (Column("Name", "word"), Column("Kind", "text"), Column("Description", "text"))
        terminal.show([Table("Examples", columns, rows, ("`regard examples NAME` prints one of them.",))])
        return
    chosen = stored.named(name)
    if terminal.is_terminal():  # a file or a pipe gets only the content
        tries = [f"  {command}" for command in chosen.commands]
        terminal.show([f"{chosen.about}.", str(chosen), *(["\n".join(["Try:", *tries])] if tries else [])])
    else:
        terminal.raw(str(chosen))

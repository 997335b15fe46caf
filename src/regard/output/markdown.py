"""Tables in Markdown, as GitHub, notebooks and most editors read them."""

from __future__ import annotations

import re
from typing import Any

from regard.output.cells import printed, strongest
from regard.output.printable import printable
from regard.tables import Column, Table

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$&])")


def render(table: Table) -> str:
    r"""The table with its title above and its notes below; the query word and the largest weight are bold.

    >>> columns = Column("Word", "word"), Column("softmax", "number", shade=True)
    >>> table = Table("Weights", columns, (("The", 0.42), ("a|b", 0.1)))
    >>> print(render(table), end="")
    **Weights**
    <BLANKLINE>
    | Word | softmax |
    | :--- | ---: |
    | The | **0.42** |
    | a\|b | 0.10 |
    """
    lines = [f"**{escaped(table.title)}**", ""] if table.title else []
    lines += [_line(escaped(column.name) for column in table.columns)]
    lines += [_line("---:" if column.kind in ("number", "vector") else ":---" for column in table.columns)]
    largest = [strongest(table, place) for place in range(len(table.columns))]
    for place, row in enumerate(table.rows):
        cells = zip(row, table.columns, largest, strict=True)
        lines.append(_line(_cell(cell, column, place == table.highlight, most) for cell, column, most in cells))
    lines += [line for note in table.notes for line in ("", f"*{escaped(note)}*")]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    r"""Text with Markdown's special characters escaped.

    >>> escaped("*a*|b\nc")
    '\\*a\\*\\|b↵c'
    """
    return _SPECIAL.sub(r"\\\1", printable(text))


def _cell(cell: Any, column: Column, highlighted: bool, largest: float | None) -> str:
    text = printed(cell, column)
    if column.kind == "vector":
        return f"[{text}]" if text else ""
    bold = (highlighted and column.kind == "word") or (largest is not None and cell == largest)
    return f"**{escaped(text)}**" if bold and text.strip() else escaped(text)


def _line(cells: Any) -> str:
    return "| " + " | ".join(cells) + " |"

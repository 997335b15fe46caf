"""The text of objects in a REPL and their HTML in a notebook.

Classes call these from `__str__` and `_repr_html_`; the modules that draw are imported on first use.
"""

from __future__ import annotations

from typing import Any


def text(table: Any) -> str:
    """A table as text of at most 80 columns."""
    from regard.output.text import plain

    return plain(table)


def html(shown: Any) -> str:
    """A table, a figure, a trace, or several tables."""
    from regard.output.html import fragment

    return fragment(shown)


def attention_html(attention: Any) -> str:
    """The heat map of an attention; its `repr` if it cannot be drawn."""
    from regard.output.html import attention as drawn

    return drawn(attention)


def reading_html(reading: Any) -> str:
    """The tables and the heat map of a reading."""
    from regard.output.see_report import notebook

    return notebook(reading)


def scaling_html(lesson: Any) -> str:
    """The figure and the tables of the lesson on √d_k."""
    from regard.output.figure import scaling

    return html(scaling(lesson)) + html(lesson.tables())


def positions_html(lesson: Any) -> str:
    """The figure and the table of a positional encoding."""
    from regard.output.figure import positions

    return html(positions(lesson)) + html(lesson.table())


def block_html(lesson: Any) -> str:
    """The figure and the tables of a transformer block."""
    from regard.output.figure import block

    return html(block(lesson)) + html(lesson.tables())

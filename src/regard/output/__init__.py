"""Tables, figures and reports for terminals, notebooks, pages, slides and files.

The functions here are what `__str__` and `_repr_html_` of tables, traces, attentions, readings and lessons return. They
import the modules that draw on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from regard.lazy_names import lazy_names

if TYPE_CHECKING:
    from regard.output import figure, html, latex, table_formats, text
else:
    __getattr__, __dir__ = lazy_names(__name__, {}, ("figure", "html", "latex", "table_formats", "text"))

__all__ = ["figure", "html", "latex", "table_formats", "text"]


def table_text(table: Any) -> str:
    """A table as text of at most 80 columns."""
    from regard.output.text import plain

    return plain(table)


def notebook_html(*shown: Any) -> str:
    """Tables and figures, one below the other."""
    from regard.output.html import fragment

    return fragment(*shown)


def trace_html(trace: Any) -> str:
    """The heat map of the first head of a trace, and the tables of its first queries."""
    from regard.output.html import trace as drawn

    return drawn(trace)


def attention_html(attention: Any) -> str:
    """The heat map of an attention; its `repr` if it cannot be drawn."""
    from regard.output.html import attention as drawn

    return drawn(attention)


def reading_html(reading: Any) -> str:
    """The tables and the heat map of a reading."""
    from regard.output.see_report import notebook

    return notebook(reading)

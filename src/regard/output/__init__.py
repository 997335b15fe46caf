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
    """Tables and figures, one below the other; or one trace, attention or reading."""
    from regard.attention import Attention
    from regard.output import html
    from regard.reading import Reading
    from regard.trace import Trace

    if isinstance(shown[0], Reading):
        from regard.output import see_report

        return see_report.notebook(shown[0])
    draw = html.trace if isinstance(shown[0], Trace) else html.attention if isinstance(shown[0], Attention) else None
    return html.fragment(*shown) if draw is None else draw(shown[0])

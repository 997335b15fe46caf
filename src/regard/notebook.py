"""How notebooks show an object: the viewer where anywidget is installed, otherwise a page without scripts."""

from __future__ import annotations

from typing import Any


class InNotebooks:
    """What notebooks call to show attentions, traces and readings."""

    def _repr_html_(self) -> str:
        from regard.output import notebook_html

        return notebook_html(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        from regard.viewer.widget import mimebundle

        return mimebundle(self)

    def _display_(self) -> Any:  # marimo's protocol
        from regard.viewer.widget import display

        return display(self)

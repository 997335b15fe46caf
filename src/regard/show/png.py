"""Figures as pixels, through `resvg-py`: one self-contained wheel for Linux, macOS and Windows."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any
from xml.sax.saxutils import quoteattr

from regard import errors
from regard.show.svg import FONT


def rendered(svg: str, scale: float = 2.0) -> bytes:
    """The picture of an SVG text as the bytes of a PNG file, `scale` pixels a unit."""
    if not 0 < scale <= 16:
        raise errors.option("scale", scale, "a number above 0 and up to 16: pixels for each unit of the figure")
    try:
        renderer = import_module("resvg_py")
    except ImportError as problem:
        raise errors.Unsupported(
            "PNG needs the package `resvg-py`, which is not installed.\n"
            'Run pip install "regard[figures]", or save the figure as .svg: slides and browsers take that too.'
        ) from problem
    if "<text" in svg and not _has_fonts(renderer):
        raise errors.Unsupported(
            f"PNG needs a font to draw words and numbers with, and none of these is installed: {FONT}.\n"
            "Install one, as in apt-get install fonts-dejavu-core, or save the figure as .svg."
        )
    return bytes(renderer.svg_to_bytes(svg_string=svg, zoom=scale))


@cache
def _has_fonts(renderer: Any) -> bool:
    """Whether a letter leaves a mark: without fonts, text is left out without a word."""
    frame = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20">{}</svg>'
    letter = f'<text x="2" y="16" font-size="16" font-family={quoteattr(FONT)}>H</text>'
    blank, written = (bytes(renderer.svg_to_bytes(svg_string=frame.format(part))) for part in ("", letter))
    return blank != written

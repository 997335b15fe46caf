"""Figures as pixels, through `resvg-py`: one self-contained wheel for Linux, macOS and Windows."""

from __future__ import annotations

from regard import errors


def rendered(svg: str, scale: float = 2.0) -> bytes:
    """The picture of an SVG text as the bytes of a PNG file, `scale` pixels a unit."""
    if not 0 < scale <= 16:
        raise errors.option("scale", scale, "a number above 0 and up to 16: pixels for each unit of the figure")
    try:
        from resvg_py import svg_to_bytes
    except ImportError as problem:
        raise errors.Unsupported(
            "PNG needs the package `resvg-py`, which is not installed.\n"
            'Run pip install "regard[figures]", or save the figure as .svg: slides and browsers take that too.'
        ) from problem
    return bytes(svg_to_bytes(svg_string=svg, zoom=scale))

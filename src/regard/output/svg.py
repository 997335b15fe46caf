"""SVG elements as strings, and the figure that contains them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import wraps
from hashlib import sha256
from pathlib import Path
from typing import Any, ParamSpec, TypedDict, TypeVar
from xml.sax.saxutils import escape, quoteattr

from regard import atomic_file, errors
from regard.output.characters import printable, text_width, wrapped
from regard.output.colours import INK, MUTED
from regard.output.typst_pages import typeset

# Renderers without a default for `sans-serif` need the name of an installed font.
FONT = (
    "'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', 'Noto Sans', 'DejaVu Sans', 'Nimbus Sans', FreeSans, "
    "Roboto, Ubuntu, Cantarell, sans-serif"
)
SUBSCRIPT = re.compile(r"(?<![^\W∂])(∂?[adehkpqvxzAEKNQVWZ])_([A-Za-z]{1,5}|\d{1,3})(?![^\Wᵀ])")  # d_k, W_qᵀ, ∂W_q
LOWERED, SMALLER = 0.22, 0.74  # an index: how far below the line, and its size, in font sizes
MARGIN = 28.0  # around a figure
UNITS_PER_INCH = 96  # as in browsers
SLIDE = 540.0  # height of a slide in points; 16:9 is 960 wide
SLIDE_TYPE, LEAST_TYPE = 18.0, 12.0  # smallest type on a slide in points, and in a figure that is laid out for one
ROOMS = (1.0, 0.85, 0.7, 0.6, 0.5, 0.42, 0.35, 0.28, 0.2)  # how much of their usual room plots and gaps are given
FONT_SIZE = re.compile(r'font-size="([\d.]+)"')
MIDDLE = 0.36  # from the middle of a line of text down to its baseline, in font sizes


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Svg:
    """A figure in SVG, with a title and a description for screen readers."""

    width: float
    height: float
    title: str
    description: str
    parts: tuple[str, ...]
    scale: float = 1.0  # of the figure on a page; 1 is 96 units per inch

    @property
    def smallest_type(self) -> float:
        """The smallest font size, in units of the figure."""
        return min((float(size) for part in self.parts for size in FONT_SIZE.findall(part)), default=math.inf)

    def __str__(self) -> str:
        words = f"{self.title}\n{self.description}\n{self.width}\n{len(self.parts)}"
        name = "figure-" + sha256(words.encode("utf-8", "replace")).hexdigest()[:10]
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_short(self.width)} {_short(self.height)}" '
                f'width="{_short(self.width * self.scale)}" height="{_short(self.height * self.scale)}" '
                f"font-family={quoteattr(FONT)} "
                f'role="img" aria-labelledby="{name}-title {name}-description">',
                f'<title id="{name}-title">{escape(printable(self.title))}</title>',
                f'<desc id="{name}-description">{escape(printable(self.description))}</desc>',
                '<rect width="100%" height="100%" fill="#ffffff"/>',
                *self.parts,
                "</svg>\n",
            ]
        )

    def __repr__(self) -> str:
        return f"Svg({self.title!r}, {self.width:.0f} × {self.height:.0f})"

    def save(self, path: str | Path, scale: float = 2.0) -> Path:
        """Write the figure in the format of its ending: .svg, .pdf, or .png with `scale` pixels per unit."""
        ending = Path(path).suffix.lower()
        if ending == ".svg":
            return atomic_file.write(path, str(self))
        if ending == ".pdf":
            return atomic_file.write(path, self.pdf())
        if ending == ".png":
            return atomic_file.write(path, self.png(scale))
        raise errors.option("path", str(path), "a name that ends in .svg, .png or .pdf")

    def pdf(self) -> bytes:
        """The figure as a PDF page of its size, with selectable text; needs the package typst."""
        return self._typeset("PDF", format="pdf")

    def png(self, scale: float = 2.0) -> bytes:
        """The figure as PNG with `scale` pixels per unit; needs the package typst."""
        if not 0 < scale <= 16:
            raise errors.option("scale", scale, "a number above 0 and up to 16: pixels for each unit of the figure")
        return self._typeset("PNG", format="png", ppi=UNITS_PER_INCH * scale)

    def _typeset(self, what: str, **options: Any) -> bytes:
        """The figure on a page of its own, by typst, which brings fonts of its own where the system has none."""
        instead = "Or save the figure as .svg, which slides and browsers take as well."
        inputs = {"figure": str(self), "title": printable(self.title), "description": printable(self.description)}
        width, height = (length * self.scale / UNITS_PER_INCH for length in (self.width, self.height))
        inputs |= {"width": f"{width}in", "height": f"{height}in"}
        return typeset(what, "figure", inputs, instead, **options)

    def _repr_svg_(self) -> str:
        return str(self)


@dataclass(frozen=True, eq=False, slots=True)
class Drawing:
    """A part of a figure and its size, relative to its top left corner."""

    width: float
    height: float
    parts: tuple[str, ...]

    def at(self, x: float, y: float) -> str:
        return group(self.parts, x, y)


def text(
    content: str, x: float, y: float, size: float, *, anchor: str = "start", fill: str = INK,
    bold: bool = False, italic: bool = False, turn: float = 0,
) -> str:  # fmt: skip
    """A line of text, vertically centred on y, rotated by `turn` degrees about (x, y)."""
    size = least_type(size)
    extra = f' text-anchor="{anchor}"' if anchor != "start" else ""
    extra += ' font-weight="bold"' if bold else ""
    extra += ' font-style="italic"' if italic else ""
    extra += f' transform="rotate({_short(turn)} {_short(x)} {_short(y)})"' if turn else ""
    baseline = y + size * MIDDLE
    where = f'x="{_short(x)}" y="{_short(baseline)}" font-size="{_short(size)}"'
    return f'<text {where} fill="{fill}"{extra}>{_with_subscripts(printable(content), size)}</text>'


def _with_subscripts(content: str, size: float) -> str:
    """Text with the indices of d_k, W_q and the like as subscripts."""
    down, small = _short(size * LOWERED), _short(least_type(size * SMALLER))
    parts, start = [], 0
    for match in [*SUBSCRIPT.finditer(content), None]:
        on_line = escape(content[start : match.end(1) if match else None])
        parts.append(f'<tspan dy="-{down}">{on_line}</tspan>' if start and on_line else on_line)
        if match:
            parts.append(f'<tspan dy="{down}" font-size="{small}">{escape(match[2])}</tspan>')
            start = match.end()
    return "".join(parts)


def rectangle(
    x: float, y: float, width: float, height: float, fill: str, *, stroke: str = "", radius: float = 0, hint: str = ""
) -> str:
    """A rectangle; `hint` is its tooltip."""
    extra = f' stroke="{stroke}"' if stroke else ""
    extra += f' rx="{_short(radius)}"' if radius else ""
    box = f'x="{_short(x)}" y="{_short(y)}" width="{_short(width)}" height="{_short(height)}"'
    if not hint:
        return f'<rect {box} fill="{fill}"{extra}/>'
    return f'<rect {box} fill="{fill}"{extra}><title>{escape(printable(hint))}</title></rect>'


def line(x1: float, y1: float, x2: float, y2: float, stroke: str, width: float = 1, dashes: str = "") -> str:
    return path(f"M{_short(x1)} {_short(y1)}L{_short(x2)} {_short(y2)}", stroke, width, dashes=dashes)


def path(
    d: str, stroke: str = "none", width: float = 1, *, fill: str = "none", opacity: float = 1, dashes: str = ""
) -> str:
    """A path in SVG's syntax."""
    extra = f' stroke="{stroke}" stroke-width="{_short(width)}"' if stroke != "none" else ""
    extra += f' opacity="{_short(opacity)}"' if opacity != 1 else ""
    extra += f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<path d="{d}" fill="{fill}"{extra}/>'


def curve(x1: float, y1: float, x2: float, y2: float, stroke: str, width: float = 1, opacity: float = 1) -> str:
    """A curve with horizontal ends."""
    half = (x1 + x2) / 2
    numbers = " ".join(map(_short, (half, y1, half, y2, x2, y2)))
    return path(f"M{_short(x1)} {_short(y1)}C{numbers}", stroke, width, opacity=opacity)


def arrow_head(x: float, y: float, fill: str) -> str:
    """An arrow head with its tip at (x, y), pointing right."""
    return path(f"M{_short(x)} {_short(y)}l-6 -3.6v7.2z", fill=fill)


def group(parts: Iterable[str], x: float = 0, y: float = 0) -> str:
    """Several elements, translated together."""
    return f'<g transform="translate({_short(x)} {_short(y)})">' + "\n".join(parts) + "</g>"


def titled(title: str, notes: Sequence[str], width: float, size: float = 18) -> Drawing:
    """A title with notes below it, wrapped to the width."""
    parts, y = [], size * 0.6
    for content in wrapped(printable(title), width, size, bold=True):
        parts.append(text(content, 0, y, size, bold=True))
        y += size * 1.25
    for note in notes:
        for content in wrapped(printable(note), width, 12):
            parts.append(text(content, 0, y - 2, 12, fill=MUTED))
            y += 17
    return Drawing(width, y + 6, tuple(parts))


def framed(title: str, notes: Sequence[str], body: Drawing, description: str, gap: float = 0, least: float = 0) -> Svg:
    """A figure of a title, notes and a drawing below them, at least so wide, with a margin around."""
    sizes, margin = _SIZES.get(), max(8.0, room(MARGIN))
    title = sizes.title or title
    if sizes.caption:
        body = below([titled(title, notes if sizes.notes else (), max(body.width, room(least))), body], gap)
    return Svg(body.width + 2 * margin, body.height + 2 * margin, title, description, (body.at(margin, margin),))


# Figures for slides


class Layout(TypedDict, total=False):
    """How a figure is laid out.

    aspect      the shape of the figure, such as "16:9"
    font_size   the smallest type in points, where the figure fills a slide of this shape; 18 by default
    caption     whether title and notes are drawn
    """

    aspect: str | None
    font_size: float | None
    caption: bool


class FigureOptions(Layout, total=False):
    """Options of every figure function; the title stands instead of the usual one."""

    title: str | None


@dataclass(frozen=True, slots=True)
class _Sizes:
    room: float = 1.0
    least: float = 0.0
    caption: bool = True  # title and notes
    notes: bool = True
    title: str | None = None


_USUAL, _NO_LAYOUT = _Sizes(), Layout()
_SIZES: ContextVar[_Sizes] = ContextVar("sizes", default=_USUAL)
_LAYOUT: ContextVar[Layout] = ContextVar("layout", default=_NO_LAYOUT)
T = TypeVar("T")
P = ParamSpec("P")


def room(length: float) -> float:
    """The length of a plot, a cell or a gap, shorter where type has to be large."""
    return length * _SIZES.get().room


def least_type(size: float) -> float:
    """A font size, or the smallest one that the figure may have."""
    return max(size, _SIZES.get().least)


@contextmanager
def _using(variable: ContextVar[T], value: T) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def usual_layout(layout: Layout) -> AbstractContextManager[None]:
    """Options for all figures that are drawn inside the block."""
    return _using(_LAYOUT, layout)


def least_size(points: float) -> AbstractContextManager[None]:
    """No text that is drawn inside the block is smaller, indices included."""
    return _using(_SIZES, replace(_SIZES.get(), least=points))


def sized(draw: Callable[P, Svg]) -> Callable[P, Svg]:
    """A figure function with `FigureOptions`."""

    @wraps(draw)
    def draw_sized(*args: P.args, **options: P.kwargs) -> Svg:
        usual = {"title": None, "aspect": None, "font_size": None, "caption": True, **_LAYOUT.get()}
        chosen: dict[str, Any] = {name: options.pop(name, value) for name, value in usual.items()}

        def draw_here() -> Svg:
            caption = chosen["caption"] and _SIZES.get().caption
            with _using(_SIZES, replace(_SIZES.get(), caption=caption, title=chosen["title"])):
                return draw(*args, **options)

        if chosen["aspect"] is None and chosen["font_size"] is None:
            return draw_here()
        return _fitted(draw_here, chosen["aspect"], chosen["font_size"], chosen["caption"])

    return draw_sized


def _fitted(draw: Callable[[], Svg], aspect: str | None, font_size: float | None, caption: bool) -> Svg:
    """The figure with as much room as its type leaves; enlarged, without a shape, until its type is large enough."""
    if font_size is not None and not 1 <= font_size <= 200:
        raise errors.option("font_size", font_size, "points from 1 to 200")
    if aspect is None:
        with _using(_SIZES, _USUAL):
            figure = draw()
        return replace(figure, scale=(font_size or SLIDE_TYPE) * UNITS_PER_INCH / 72 / figure.smallest_type)
    best = fit_box(draw, SLIDE * aspect_ratio(aspect), SLIDE, font_size or SLIDE_TYPE, caption)
    size = best.smallest_type * SLIDE / best.height
    if font_size is not None and size < font_size:
        raise errors.OptionError(
            f"The smallest type of this figure would be {size:.0f} pt on a slide of {aspect}, not {font_size:g} pt: "
            "draw fewer words or one head, leave out the caption, or take a smaller --font-size."
        )
    return replace(best, scale=SLIDE * UNITS_PER_INCH / 72 / best.height)


def fit_box(
    draw: Callable[[], Svg], width: float, height: float, least: float = SLIDE_TYPE, caption: bool = False
) -> Svg:
    """A figure for a rectangle of so many points, with the most room that leaves its type at least so large.

    Where none does, it goes without notes, then without a title; then it is the one with the largest type.
    """
    best, size = None, -1.0
    captions = ((True, True, 0.42), (True, False, 0.28), (False, False, 0.0))  # title, notes, the least room
    for has_caption, has_notes, least_room in captions if caption else captions[2:]:
        for share in (share for share in ROOMS if share >= least_room):
            with _using(_SIZES, _Sizes(share, LEAST_TYPE, has_caption, has_notes)):
                figure = _padded(draw(), width / height)
            points = figure.smallest_type * height / figure.height
            if points > size:
                best, size = figure, points
            if points >= least:
                return figure
    assert best is not None
    return best


def aspect_ratio(aspect: str) -> float:
    """Width by height.

    >>> aspect_ratio("4:3")
    1.3333333333333333
    """
    match = re.fullmatch(r"(\d{1,4}(?:\.\d{1,4})?):(\d{1,4}(?:\.\d{1,4})?)", str(aspect), re.ASCII)
    if match is None or not 0.1 <= float(match[1]) / max(float(match[2]), 1e-9) <= 10:
        raise errors.option("aspect", aspect, "width:height, such as 16:9 or 4:3")
    return float(match[1]) / float(match[2])


def _padded(figure: Svg, ratio: float) -> Svg:
    """The figure in the middle of a page of this shape."""
    height = max(figure.height, figure.width / ratio)
    width = height * ratio
    parts = (group(figure.parts, (width - figure.width) / 2, (height - figure.height) / 2),)
    return replace(figure, width=width, height=height, parts=parts)


# Drawings put together


def below(drawings: Sequence[Drawing], gap: float = 0) -> Drawing:
    return grid(drawings, 1, gap)


def beside(drawings: Sequence[Drawing], gap: float = 0, drops: Sequence[float] | None = None) -> Drawing:
    """Drawings side by side, each moved down by its part of `drops`."""
    parts, x, height = [], 0.0, 0.0
    for drawing, drop in zip(drawings, drops or [0.0] * len(drawings), strict=True):
        parts.append(drawing.at(x, drop))
        x, height = x + drawing.width + gap, max(height, drop + drawing.height)
    return Drawing(x - gap, height, tuple(parts))


def grid(drawings: Sequence[Drawing], across: int, gap: float = 0) -> Drawing:
    """Drawings in rows of `across`, in columns as wide as their widest."""
    widths = [max(drawing.width for drawing in drawings[index::across]) for index in range(min(across, len(drawings)))]
    parts, y = [], 0.0
    for start in range(0, len(drawings), across):
        row = drawings[start : start + across]
        for index, drawing in enumerate(row):
            parts.append(drawing.at(sum(widths[:index]) + gap * index, y))
        y += max(drawing.height for drawing in row) + gap
    return Drawing(sum(widths) + gap * (len(widths) - 1), y - gap, tuple(parts))


def named(drawing: Drawing, name: str, size: float = 13, room: float = 24) -> Drawing:
    width = max(drawing.width, widest([name], size, bold=True))
    return Drawing(width, drawing.height + room, (text(name, 0, 8, size, bold=True), drawing.at(0, room)))


def widest(texts: Sequence[str], size: float, bold: bool = False) -> float:
    return max((text_width(printable(content), least_type(size), bold) for content in texts), default=0.0)


def _short(number: float) -> str:
    """At most two decimals: 12, 12.5, 12.25."""
    shown = f"{number:.2f}".rstrip("0").rstrip(".")
    return "0" if shown in ("-0", "") else shown

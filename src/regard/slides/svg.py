"""A slide as a figure: title, text, tables and pictures in one SVG of 960 × 540; and a deck of them as PDF."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from regard.output import colours
from regard.output.characters import printable
from regard.output.svg import Svg, group, least_size, line, rectangle, text
from regard.output.typst_pages import typeset
from regard.slides.deck import (
    HEIGHT,
    INNER,
    LEAST,
    LEFT,
    PADDING,
    TITLE,
    WIDTH,
    Deck,
    Placed,
    Slide,
    SlideText,
    cells,
    place,
)

# typst sets a whole line in the font that has its rarest character, so indices and ᵀ are drawn as small letters.
INDEX, SUBSCRIPTS = re.compile("(?<=[A-Za-z])[₀-₉]+"), str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
TRANSPOSED = re.compile(r'(<text[^>]* font-size="([\d.]+)"[^>]*>[^ᵀ]*?)(?:<tspan dy="(-?[\d.]+)">)?ᵀ(.*?)</text>')


def slide_svg(slide: Slide) -> Svg:
    """The slide as every renderer of figures takes it: .svg, .png, and one page of a .pdf."""
    with least_size(LEAST):
        parts = [
            _line(slide.title, LEFT, 54, TITLE, bold=True),
            line(LEFT, 86, LEFT + INNER, 86, colours.RULE),
            *(part for placed in place(slide) for part in _element(placed)),
        ]
    return Svg(WIDTH, HEIGHT, slide.title, _described(slide), tuple(parts))


def pdf(deck: Deck) -> bytes:
    """The deck as the content of a PDF file, one page per slide; needs the package typst."""
    drawn = [slide_svg(slide) for slide in deck.slides]
    content = {"title": deck.title, "slides": [{"svg": str(figure), "alt": figure.description} for figure in drawn]}
    instead = "Or write the deck as .html, which needs no further package."
    return typeset("PDF", "deck", {"deck": json.dumps(content)}, instead, format="pdf")


def _line(content: str, x: float, y: float, size: float, **options: Any) -> str:
    content = INDEX.sub(lambda match: "_" + match[0].translate(SUBSCRIPTS), printable(content))
    return _raise_t(text(content, x, y, size, **options))


def _raise_t(part: str) -> str:
    """ᵀ as a raised T, in a part with lines of text."""

    def raised(match: re.Match[str]) -> str:
        size, after_index = float(match[2]), match[3]
        up = float(after_index or 0) - size * 0.3  # of two dy for one character only the inner one counts
        rest = f'<tspan dy="{size * 0.3:.2f}">{match[4]}{"" if after_index else "</tspan>"}'
        small = max(size * 0.7, LEAST if size >= LEAST else 0.0)
        return f'{match[1]}<tspan dy="{up:.2f}" font-size="{small:.2f}">T</tspan>{rest}</text>'

    while (changed := TRANSPOSED.sub(raised, part)) != part:
        part = changed
    return part


def _element(placed: Placed) -> Iterator[str]:
    element = placed.element
    if isinstance(element, Svg):
        scale = placed.width / element.width
        inner = "\n".join(map(_raise_t, element.parts))
        yield f'<g transform="translate({placed.x:.2f} {placed.y:.2f}) scale({scale:.5f})">{inner}</g>'
    elif isinstance(element, SlideText):
        pitch = placed.height / max(len(placed.lines), 1)
        ink = colours.MUTED if element.muted else colours.INK
        for number, content in enumerate(placed.lines):
            y = placed.y + pitch * (number + 0.5)
            yield _line(content, placed.x, y, placed.size, fill=ink, bold=element.bold)
    else:
        yield group(_table(placed), placed.x, placed.y)


def _table(placed: Placed) -> Iterator[str]:
    element = placed.element
    assert not isinstance(element, Svg | SlideText)
    high = placed.height / (len(element.rows) + 1)
    for number, row in enumerate(cells(element)):
        x, y = 0.0, high * number
        for column, (cell, width) in enumerate(zip(row, placed.columns, strict=True)):
            if cell.fill:
                yield rectangle(x, y, width, high, cell.fill)
            is_left = element.is_left(column)
            at = x + PADDING if is_left else x + width - PADDING
            anchor = "start" if is_left else "end"
            yield _line(cell.text, at, y + high / 2, placed.size, anchor=anchor, fill=cell.ink, bold=cell.bold)
            x += width
        yield line(0, y + high, x, y + high, colours.RULE, 1.5 if row[0].heavy else 0.5)


def _described(slide: Slide) -> str:
    """What is on the slide, for screen readers."""
    sentences = [slide.title]
    for element in slide.elements:
        if isinstance(element, SlideText):
            sentences += element.paragraphs
        elif isinstance(element, Svg):
            sentences.append(element.description)
        else:
            sentences += [", ".join(row) for row in (element.headings, *element.rows)]
    return ". ".join(sentences)

"""A deck as one HTML file: arrow keys, a pointer, notes, live numbers, and one page per slide when printed."""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from string import Template

from regard.output import colours
from regard.output.characters import printable
from regard.output.svg import Svg
from regard.slides.deck import (
    HEIGHT,
    LEFT,
    LINE,
    PADDING,
    ROW,
    TITLE,
    WIDTH,
    Deck,
    Placed,
    Slide,
    SlideText,
    cells,
    place,
    runs,
)

IN_CSS: dict[str, object] = {
    "WIDTH": WIDTH, "HEIGHT": HEIGHT, "LEFT": LEFT, "TITLE": TITLE, "PADDING": PADDING,
    "INK": colours.INK, "RULE": colours.RULE, "MUTED": colours.MUTED, "ACCENT": colours.ACCENT,
}  # what deck.css is filled in with  # fmt: skip


def html(deck: Deck) -> str:
    """The deck as one page; arrow keys and clicks turn it, n shows notes, p the pointer, f fills the screen."""
    body = "\n".join(map(_section, deck.slides))
    notes = "\n".join(f"<aside>{escape(printable(chr(10).join(slide.notes)))}</aside>" for slide in deck.slides)
    notes = notes.replace("↵", "\n")
    script, style = _file("deck.js"), Template(_file("deck.css")).substitute(IN_CSS)
    if deck.live is not None:
        script += f"const live = {json.dumps(deck.live, separators=(',', ':'))};\n{_file('live.js')}"
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(printable(deck.title))}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>\n{style}</style></head>\n<body>\n{body}\n{notes}\n"
        f'<div id="pointer"></div><script>{script}</script></body></html>\n'
    )


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _section(slide: Slide) -> str:
    parts = "\n".join(map(_part, place(slide)))
    attributes = f'data-part="{slide.part}" aria-label="{escape(printable(slide.title))}"'
    return f"<section {attributes}><h1>{_text(slide.title)}</h1><hr>{parts}</section>"


def _part(placed: Placed) -> str:
    element = placed.element
    where = f"left:{placed.x:.1f}px;top:{placed.y:.1f}px;width:{placed.width:.1f}px"
    if isinstance(element, Svg):
        return f'<div class="part" style="{where};height:{placed.height:.1f}px">{element}</div>'
    where += f";font-size:{placed.size:g}px"
    if isinstance(element, SlideText):
        where += f";line-height:{LINE};color:{colours.MUTED if element.muted else colours.INK}"
        bold = " bold" if element.bold else ""
        return f'<p class="part{bold}" style="{where}">{chr(10).join(map(_text, placed.lines))}</p>'
    columns = "".join(f'<col style="width:{width:.1f}px">' for width in placed.columns)
    rows = []
    for number, row in enumerate(cells(element)):
        tag = "td" if number else "th"
        line = []
        for column, cell in enumerate(row):
            names = ["left"] * element.is_left(column) + ["bold"] * cell.bold + ["heavy"] * cell.heavy
            style = f' style="background:{cell.fill};color:{cell.ink}"' if cell.fill else ""
            style += f' data-live="{cell.live}"' if cell.live else ""
            content = _components(cell.text) if cell.live.startswith("x ") else _text(cell.text)
            line.append(f'<{tag} class="{" ".join(names)}"{style}>{content}</{tag}>')
        rows.append(f'<tr style="height:{ROW * placed.size:.1f}px">{"".join(line)}</tr>')
    return f'<table class="part" style="{where}"><colgroup>{columns}</colgroup>{"".join(rows)}</table>'


def _components(vector: str) -> str:
    """The numbers of an embedding, which can be changed."""
    numbers = [part for part in vector.split() if part != "…"]
    shown = [
        f'<span contenteditable="true" role="textbox" aria-label="component {index + 1}" data-component="{index}">'
        f"{escape(number)}</span>"
        for index, number in enumerate(numbers)
    ]
    return " ".join([*shown, *(["…"] if vector.endswith("…") else [])])


def _text(content: str) -> str:
    return "".join(
        f"<sub>{escape(run['text'])}</sub>" if run["below"] else escape(run["text"]) for run in runs(content)
    )

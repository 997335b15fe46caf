"""A deck as PDF, one page per slide, typeset by typst."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

from regard import errors
from regard.output import colours
from regard.output.svg import Svg
from regard.slides.deck import LEAST, LEFT, TITLE, Deck, Placed, SlideText, place
from regard.slides.runs import cells, runs

# The deck comes as data: nothing of a sentence is read as typst's own syntax.
TEMPLATE = """
#let deck = json(bytes(sys.inputs.deck))
#set document(title: deck.title, date: none)
#set page(width: 960pt, height: 540pt, margin: 0pt)
#set text(font: deck.fonts, fill: rgb(deck.ink))
#let said(runs, size) = for run in runs {
  if run.below { text(size: calc.max(deck.least, size * 0.75) * 1pt, baseline: 0.18em, run.text) } else { run.text }
}
#let at(x, y, body) = place(top + left, dx: x * 1pt, dy: y * 1pt, body)
#for (number, slide) in deck.slides.enumerate() {
  if number > 0 { pagebreak() }
  at(deck.left, 36, text(size: deck.title_size * 1pt, weight: "bold", said(slide.title, deck.title_size)))
  at(deck.left, 86, line(length: 864pt, stroke: 1pt + rgb(deck.rule)))
  for part in slide.parts {
    if part.kind == "text" {
      at(part.x, part.y, block(width: 900pt, for (index, one) in part.lines.enumerate() {
        place(top + left, dy: index * part.pitch * 1pt,
          text(size: part.size * 1pt, fill: rgb(part.ink), weight: part.weight, said(one, part.size)))
      }))
    } else if part.kind == "table" {
      at(part.x, part.y, table(
        columns: part.columns.map(width => width * 1pt), rows: part.row * 1pt, stroke: none, inset: (x: 9pt, y: 0pt),
        align: (column, row) => (if part.left.at(column) { left } else { right }) + horizon,
        ..part.cells.map(cell => table.cell(fill: if cell.fill == none { none } else { rgb(cell.fill) },
          stroke: (bottom: (if cell.heavy { 1.5pt } else { 0.5pt }) + rgb(deck.rule)),
          text(size: part.size * 1pt, weight: cell.weight, fill: rgb(cell.ink), said(cell.runs, part.size)))),
      ))
    } else {
      at(part.x, part.y, image(bytes(part.svg), format: "svg", width: part.width * 1pt, alt: part.alt))
    }
  }
}
"""
FONTS = ("Helvetica Neue", "Helvetica", "Arial", "Liberation Sans", "Noto Sans", "DejaVu Sans")


def pdf(deck: Deck) -> bytes:
    """The deck as the content of a PDF file; needs the package typst."""
    try:
        typst = import_module("typst")
    except ImportError as problem:
        instead = "Or write the deck as .html, which needs no further package."
        raise errors.missing_package("PDF", "typst", instead=instead) from problem
    content = {
        "title": deck.title,
        "fonts": FONTS,
        "ink": colours.INK,
        "rule": colours.RULE,
        "least": LEAST,
        "left": LEFT,
        "title_size": TITLE,
        "slides": [
            {"title": runs(slide.title), "parts": [_part(placed) for placed in place(slide)]} for slide in deck.slides
        ],
    }
    return bytes(typst.compile(TEMPLATE.encode(), sys_inputs={"deck": json.dumps(content)}, format="pdf"))


def _part(placed: Placed) -> dict[str, Any]:
    element = placed.element
    part: dict[str, Any] = {"x": placed.x, "y": placed.y, "size": placed.size}
    if isinstance(element, SlideText):
        return part | {
            "kind": "text",
            "lines": [runs(line) for line in placed.lines],
            "pitch": placed.height / max(len(placed.lines), 1),
            "ink": colours.MUTED if element.muted else colours.INK,
            "weight": "bold" if element.bold else "regular",
        }
    if isinstance(element, Svg):
        return part | {"kind": "figure", "svg": str(element), "width": placed.width, "alt": element.description}
    return part | {
        "kind": "table",
        "columns": placed.columns,
        "row": placed.height / (len(element.rows) + 1),
        "left": [element.is_left(column) for column in range(len(element.headings))],
        "cells": [
            {
                "runs": runs(cell.text),
                "fill": cell.fill,
                "ink": cell.ink,
                "weight": "bold" if cell.bold else "regular",
                "heavy": cell.heavy,
            }
            for row in cells(element)
            for cell in row
        ],
    }

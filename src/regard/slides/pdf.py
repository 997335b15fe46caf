"""A deck as PDF, one page per slide, typeset by typst."""

from __future__ import annotations

import json
from importlib import import_module

from regard import errors
from regard.slides.deck import Deck
from regard.slides.svg import slide_svg

# The slides come as data: nothing of a sentence is read as typst's own syntax.
TEMPLATE = """
#let deck = json(bytes(sys.inputs.deck))
#set document(title: deck.title, date: none)
#set page(width: 960pt, height: 540pt, margin: 0pt)
#for (number, slide) in deck.slides.enumerate() {
  if number > 0 { pagebreak() }
  image(bytes(slide.svg), format: "svg", width: 100%, alt: slide.alt)
}
"""


def pdf(deck: Deck) -> bytes:
    """The deck as the content of a PDF file; needs the package typst."""
    try:
        typst = import_module("typst")
    except ImportError as problem:
        instead = "Or write the deck as .html, which needs no further package."
        raise errors.missing_package("PDF", "typst", instead=instead) from problem
    drawn = [slide_svg(slide) for slide in deck.slides]
    content = {"title": deck.title, "slides": [{"svg": str(figure), "alt": figure.description} for figure in drawn]}
    return bytes(typst.compile(TEMPLATE.encode(), sys_inputs={"deck": json.dumps(content)}, format="pdf"))

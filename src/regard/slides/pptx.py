"""A deck as a PowerPoint file with editable text and tables; figures are pictures."""

from __future__ import annotations

import io
from importlib import import_module
from typing import Any

from regard import errors
from regard.output import colours
from regard.output.svg import Svg
from regard.slides.deck import (
    HEIGHT,
    INNER,
    LEFT,
    LINE,
    PADDING,
    TITLE,
    WIDTH,
    Deck,
    Placed,
    SlideCell,
    SlideText,
    cells,
    place,
    runs,
)

FONT = "Arial"
PIXELS = 2.0  # of a figure, per point of the slide
BELOW = "-25000"  # thousandths of a percent of the font size


def pptx(deck: Deck) -> bytes:
    """The deck as the content of a .pptx file; needs the packages python-pptx and typst."""
    instead = "Or write the deck as .html, which needs no further package."
    errors.require("PowerPoint", "python-pptx", "typst", instead=instead)  # typst draws figures as PNG
    package = import_module("pptx")
    writer = _Writer()
    presentation = package.Presentation()
    presentation.slide_width, presentation.slide_height = writer.points(WIDTH), writer.points(HEIGHT)
    presentation.core_properties.title = deck.title[:255]  # the limit of the format
    title_only = presentation.slide_layouts[5]
    for slide in deck.slides:
        page = presentation.slides.add_slide(title_only)
        writer.title(page.shapes.title, slide.title)
        for placed in place(slide):
            writer.element(page.shapes, placed)
        page.notes_slide.notes_text_frame.text = "\n".join(slide.notes)
    stream = io.BytesIO()
    presentation.save(stream)
    return stream.getvalue()


class _Writer:
    """Draws elements on a slide with python-pptx, which is imported on first use."""

    def __init__(self) -> None:
        self.points: Any = import_module("pptx.util").Pt
        self.colour: Any = import_module("pptx.dml.color").RGBColor
        self.text: Any = import_module("pptx.enum.text")

    def title(self, shape: Any, content: str) -> None:
        """The title in the placeholder of the layout, so that outlines and screen readers find it."""
        shape.left, shape.top = self.points(LEFT), self.points(28)
        shape.width, shape.height = self.points(INNER), self.points(56)
        frame = self.bare(shape.text_frame)
        frame.vertical_anchor = self.text.MSO_ANCHOR.MIDDLE
        self.write(frame.paragraphs[0], content, TITLE, colours.INK, bold=True)

    def element(self, shapes: Any, placed: Placed) -> None:
        """Text as a text box, a table as a table, a figure as a picture with its description."""
        box = [self.points(number) for number in (placed.x, placed.y, placed.width, placed.height)]
        element = placed.element
        if isinstance(element, Svg):
            scale = min(16.0, PIXELS * placed.width / element.width)
            picture = shapes.add_picture(io.BytesIO(element.png(scale)), *box)
            picture._element.nvPicPr.cNvPr.set("descr", element.description)
        elif isinstance(element, SlideText):
            frame = self.bare(shapes.add_textbox(*box).text_frame)
            for number, line in enumerate(placed.lines):
                paragraph = frame.paragraphs[0] if number == 0 else frame.add_paragraph()
                paragraph.line_spacing = self.points(LINE * placed.size)
                ink = colours.MUTED if element.muted else colours.INK
                self.write(paragraph, line, placed.size, ink, element.bold)
        else:
            self.table(shapes, placed, box)

    def table(self, shapes: Any, placed: Placed, box: list[Any]) -> None:
        element: Any = placed.element
        rows = list(cells(element))
        table = shapes.add_table(len(rows), len(placed.columns), *box).table
        table.horz_banding = False
        for column, width in enumerate(placed.columns):
            table.columns[column].width = self.points(width)
        for number, row in enumerate(rows):
            table.rows[number].height = self.points(placed.height / len(rows))
            for column, cell in enumerate(row):
                self.cell(table.cell(number, column), cell, placed.size, element.is_left(column))

    def cell(self, target: Any, cell: SlideCell, size: float, is_left: bool) -> None:
        target.margin_left = target.margin_right = self.points(PADDING - 2)
        target.margin_top = target.margin_bottom = 0
        target.vertical_anchor = self.text.MSO_ANCHOR.MIDDLE
        target.fill.solid()
        target.fill.fore_color.rgb = self.colour.from_string((cell.fill or "#ffffff")[1:].upper())
        paragraph = target.text_frame.paragraphs[0]
        paragraph.alignment = self.text.PP_ALIGN.LEFT if is_left else self.text.PP_ALIGN.RIGHT
        self.write(paragraph, cell.text, size, cell.ink, cell.bold)

    def bare(self, frame: Any) -> Any:
        """A text frame without margins; its lines are broken here, and PowerPoint's wrapping keeps them at the left."""
        frame.margin_left = frame.margin_right = frame.margin_top = frame.margin_bottom = 0
        frame.word_wrap = True
        frame.paragraphs[0].alignment = self.text.PP_ALIGN.LEFT
        return frame

    def write(self, paragraph: Any, content: str, size: float, ink: str, bold: bool = False) -> None:
        """Text in runs; an index is set below the line."""
        for piece in runs(content):
            run = paragraph.add_run()
            run.text = piece["text"]
            run.font.size, run.font.bold, run.font.name = self.points(size), bold, FONT
            run.font.color.rgb = self.colour.from_string(ink[1:].upper())
            if piece["below"]:
                run.font._element.set("baseline", BELOW)

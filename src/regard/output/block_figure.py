"""A transformer block drawn as the vectors of all words after each stage, with the residual connections."""

from __future__ import annotations

import numpy as np

from regard.output import colours
from regard.output.heat_map import MARGIN, titled
from regard.output.panel import LINE, Panel, Scale, colour_bar, panel, scale_for
from regard.output.printable import printable
from regard.output.svg import Svg, arrow_head, line, path, text
from regard.output.text_width import text_width
from regard.teaching.block import BlockLesson, Stage

STRIP = 104.0  # width of a stage
BETWEEN = 58.0
NAME = 13.0
LABEL = 12.0
ROW = 19.0  # height of a word


def block(lesson: BlockLesson, *, title: str | None = None) -> Svg:
    """From left to right: the embeddings, the output of each part of the block, and the result."""
    arrays = [stage.vectors for stage in lesson.stages] + ([lesson.memory] if lesson.memory is not None else [])
    scale = scale_for(np.concatenate([array.ravel() for array in arrays]), signed=True)
    panels = [_strip(stage.vectors, lesson.words, scale, place == 0) for place, stage in enumerate(lesson.stages)]
    left, tall = panels[0].left, panels[0].height
    pitch = STRIP + BETWEEN
    has_memory = lesson.memory is not None
    above = 40.0 + (ROW * len(lesson.context_words) + 84 if has_memory else 0.0)  # names, and the memory
    parts: list[str] = []
    for place, (stage, one) in enumerate(zip(lesson.stages, panels, strict=True)):
        x = left + pitch * place
        parts.append(one.drawing.at(x - one.left, above))
        parts += _name(stage.name, x + STRIP / 2, above)
        if place:
            middle = above + tall / 2
            parts.append(line(x - BETWEEN + 6, middle, x - 8, middle, colours.MUTED, 1.2))
            parts.append(arrow_head(x - 4, middle, colours.MUTED))
    parts += _residuals(lesson.stages, left, above + tall, pitch)
    if has_memory:
        parts += _memory(lesson, scale, left, pitch, above)
    bar = colour_bar(scale, min(max(tall, 80.0), 150.0), "number")
    right = left + pitch * len(panels) - BETWEEN
    parts.append(bar.at(right + 30, above - 22))
    width = right + 30 + bar.width
    height = above + max(tall + 62, bar.height - 22)
    name = title or f"Through {lesson.title}"
    heading = titled(name, _notes(lesson), width)
    moved = f'<g transform="translate({MARGIN:g} {MARGIN + heading.height:.2f})">' + "\n".join(parts) + "</g>"
    return Svg(
        width + 2 * MARGIN, height + heading.height + 2 * MARGIN, name, _described(lesson),
        (heading.at(MARGIN, MARGIN), moved),
    )  # fmt: skip


def _notes(lesson: BlockLesson) -> list[str]:
    count, width = lesson.stages[0].vectors.shape
    notes = [
        f"Each strip holds the vectors of all words, {count} × {width}: one row per word. "
        "Curves below: the input of a part is added to its output (residual connection)."
    ]
    if lesson.kind == "decoder":
        notes.append("Masked self-attention: a word sees only itself and the words before it.")
    if lesson.memory is not None:
        notes.append("Cross-attention: queries come from these words, keys and values from the encoded context.")
    return [*notes, lesson.note]


def _strip(array: np.ndarray, words: tuple[str, ...], scale: Scale, labelled: bool) -> Panel:
    columns = [str(place + 1) for place in range(array.shape[1])]
    return panel(
        array, words, columns, scale, (STRIP / array.shape[1], ROW), label_size=LABEL, numbers=False,
        labelled=(labelled, False), hint="{row}, number {column}: {number}", apart=LINE,
    )  # fmt: skip


def _name(name: str, x: float, above: float) -> list[str]:
    """The name of a stage, on two lines if it is wider than its strip."""
    if text_width(name, NAME, bold=True) <= STRIP + 20:
        return [text(name, x, above - 14, NAME, anchor="middle", bold=True)]
    first, _, second = name.rpartition(" ") if " " in name else name.partition("-")
    return [
        text(first, x, above - 29, NAME, anchor="middle", bold=True),
        text(second, x, above - 13, NAME, anchor="middle", bold=True),
    ]


def _residuals(stages: tuple[Stage, ...], left: float, below: float, pitch: float) -> list[str]:
    """Residual connections: curves from the input of a part to where its output is added."""
    parts = []
    for place, stage in enumerate(stages):
        if stage.adds is None:
            continue
        start, end = left + pitch * stage.adds + STRIP / 2, left + pitch * place + STRIP / 2
        depth = below + 34
        d = (
            f"M{start:.2f} {below + 4:.2f}"
            f"C{start:.2f} {depth:.2f} {start + 20:.2f} {depth:.2f} {start + 40:.2f} {depth:.2f}"
            f"L{end - 40:.2f} {depth:.2f}C{end - 20:.2f} {depth:.2f} {end:.2f} {depth:.2f} {end:.2f} {below + 10:.2f}"
        )
        parts.append(path(d, colours.ACCENT, 1.4))
        tip = f"M{end:.2f} {below + 3:.2f}l-4 8h8z"
        parts.append(path(tip, fill=colours.ACCENT))
        parts.append(text("+ residual", (start + end) / 2, depth + 13, 11, anchor="middle", fill=colours.ACCENT))
    return parts


def _memory(lesson: BlockLesson, scale: Scale, left: float, pitch: float, above: float) -> list[str]:
    """The encoded context, above the cross-attention that reads it."""
    assert lesson.memory is not None
    place = next(place for place, stage in enumerate(lesson.stages) if stage.name.endswith("cross-attention"))
    one = _strip(lesson.memory, lesson.context_words, scale, True)
    x, top = left + pitch * place, 26.0
    end = above - 26
    return [
        text("context, encoded", x + STRIP / 2, 8, NAME, anchor="middle", bold=True),
        one.drawing.at(x - one.left, top),
        line(x + STRIP / 2, top + one.height + 4, x + STRIP / 2, end - 6, colours.MUTED, 1.2),
        path(f"M{x + STRIP / 2:.2f} {end:.2f}l-4 -8h8z", fill=colours.MUTED),
        text("keys, values", x + STRIP / 2 + 10, (top + one.height + end) / 2, 11, fill=colours.MUTED),
    ]


def _described(lesson: BlockLesson) -> str:
    stages = ", ".join(stage.name for stage in lesson.stages)
    words = " ".join(map(printable, lesson.words))
    context = f" The context is: {' '.join(map(printable, lesson.context_words))}." if lesson.context_words else ""
    return f"The vectors of the words {words} through {lesson.title}: {stages}.{context} {lesson.note}"

"""Positional encodings as a figure: the encoding of each position, and the similarity of two positions."""

from __future__ import annotations

import math

import numpy as np

from regard.output import colours
from regard.output.heat_map import MARGIN, titled
from regard.output.panel import Scale, cell_size, colour_bar, label_size_for, panel, scale_for
from regard.output.svg import Drawing, Svg, path, text
from regard.teaching.positions import PositionLesson

SIDE = 330.0  # of a matrix
BETWEEN = 54.0
MOST_ROWS, MOST_COLUMNS = 128, 256  # positions and numbers that are drawn
RADIUS, MOST_ARROWS = 62.0, 8


def positions(lesson: PositionLesson, *, title: str | None = None) -> Svg:
    """The encoding of each position (for rotary, the rotation of some pairs) beside the similarities of positions."""
    left = _turns(lesson) if lesson.kind == "rotary" else _encoding(lesson)
    right = _similarity(lesson)
    width = left.width + BETWEEN + right.width
    name = title or lesson.title
    notes = list(lesson.notes)
    if lesson.length > MOST_ROWS or (lesson.kind != "rotary" and lesson.encoding.shape[1] > MOST_COLUMNS):
        notes.append(f"Drawn: the first {MOST_ROWS} positions and {MOST_COLUMNS} numbers at most.")
    heading = titled(name, notes, width)
    y = MARGIN + heading.height + 8
    parts = heading.at(MARGIN, MARGIN), left.at(MARGIN, y), right.at(MARGIN + left.width + BETWEEN, y)
    height = y + max(left.height, right.height) + MARGIN
    return Svg(width + 2 * MARGIN, height, name, _described(lesson), parts)


def _encoding(lesson: PositionLesson) -> Drawing:
    """A row per position, a column per component."""
    array = lesson.encoding[:MOST_ROWS, :MOST_COLUMNS]
    rows, columns = array.shape
    cell = cell_size(columns, SIDE * 1.2, 26.0), cell_size(rows, SIDE, 26.0)
    size = label_size_for(min(cell))
    usual = None if lesson.kind == "sinusoidal" else scale_for(np.quantile(np.abs(array), [0.995])).top
    scale = scale_for(array, signed=True, top=usual)  # a few numbers of learned positions dwarf all others
    drawn = panel(
        array, _counted(rows), _counted(columns), scale, cell, label_size=min(size, 11.0),
        row_title="position", column_title="component", numbers=False, apart=1.6 if cell[0] > 9 else 4,
        hint="position {row}, number {column}: {number}",
    )  # fmt: skip
    return _with_bar("What is added to a word's vector", drawn.drawing, drawn.top, scale, SIDE)


def _similarity(lesson: PositionLesson) -> Drawing:
    array = lesson.similarity[:MOST_ROWS, :MOST_ROWS]
    count = len(array)
    side = cell_size(count, SIDE, 26.0)
    scale = scale_for(array, signed=True, top=1.0)
    drawn = panel(
        array, _counted(count), _counted(count), scale, (side, side), label_size=min(label_size_for(side), 11.0),
        row_title="position", column_title="position", numbers=False, apart=1.6,
        hint="positions {row} and {column}: {number}",
    )  # fmt: skip
    name = (
        "Score of equal vectors, once turned" if lesson.kind == "rotary" else "How similar two positions are (cosine)"
    )
    return _with_bar(name, drawn.drawing, drawn.top, scale, SIDE)


def _with_bar(name: str, drawn: Drawing, top: float, scale: Scale, height: float) -> Drawing:
    bar = colour_bar(scale, min(height, drawn.height - top), "")
    parts = (
        text(name, 0, 8, 14, bold=True),
        drawn.at(0, 28),
        bar.at(drawn.width + 16, 28 + top - 22),
    )
    return Drawing(max(drawn.width + 16 + bar.width, 300.0), 28 + drawn.height, parts)


def _turns(lesson: PositionLesson) -> Drawing:
    """The direction of some pairs at the first positions."""
    pairs = lesson.encoding.shape[1]
    chosen = sorted({round(place * (pairs - 1) / 3) for place in range(min(pairs, 4))})
    count = min(lesson.length, MOST_ARROWS)
    pitch = 2 * RADIUS + 84
    parts = [text("Where a pair of numbers points at positions 0, 1, 2 …", 0, 8, 14, bold=True)]
    for place, pair in enumerate(chosen):
        x, y = RADIUS + 42 + pitch * (place % 2), 44 + RADIUS + (pitch - 18) * (place // 2)
        step = math.degrees(lesson.encoding[1, pair]) if lesson.length > 1 else 0.0
        r = f"{RADIUS:.1f}"
        circle = f"M{x - RADIUS:.2f} {y:.2f}a{r} {r} 0 1 0 {2 * RADIUS:.1f} 0a{r} {r} 0 1 0 {-2 * RADIUS:.1f} 0z"
        parts.append(path(circle, colours.RULE, 1, fill="#ffffff"))
        for position in reversed(range(count)):
            angle = lesson.encoding[position, pair]
            shade = colours.sequential(0.95 - 0.6 * position / max(count - 1, 1))
            parts.append(_arrow(x, y, angle, shade))
        for position, angle in enumerate(_apart([lesson.encoding[place, pair] for place in range(count)])):
            if angle is not None:
                at = x + (RADIUS + 12) * math.cos(angle), y - (RADIUS + 12) * math.sin(angle)
                parts.append(text(str(position), *at, 11, anchor="middle", fill=colours.MUTED))
        below = f"pair {pair}: {step:.3g}° per position"
        parts.append(text(below, x, y + RADIUS + 32, 12, anchor="middle"))
    rows = math.ceil(len(chosen) / 2)
    return Drawing(max(pitch * min(len(chosen), 2), 400.0), 44 + rows * (pitch - 18), tuple(parts))


def _apart(angles: list[float]) -> list[float | None]:
    """The angles of labels around a circle; None for a label that would overlap another."""
    kept: list[float] = []
    found: list[float | None] = []
    for angle in angles:
        near = any(math.cos(angle - other) > math.cos(0.22) for other in kept)
        found.append(None if near else angle)
        kept += [] if near else [angle]
    return found


def _arrow(x: float, y: float, angle: float, colour: str) -> str:
    """From the centre of a circle almost to its edge; angles grow counterclockwise, as in mathematics."""
    cos, sin = math.cos(angle), -math.sin(angle)
    tip = x + (RADIUS - 2) * cos, y + (RADIUS - 2) * sin
    base = x + (RADIUS - 11) * cos, y + (RADIUS - 11) * sin
    side = 4.5
    head = (
        f"M{tip[0]:.2f} {tip[1]:.2f}L{base[0] - side * sin:.2f} {base[1] + side * cos:.2f}"
        f"L{base[0] + side * sin:.2f} {base[1] - side * cos:.2f}z"
    )
    return path(f"M{x:.2f} {y:.2f}L{base[0]:.2f} {base[1]:.2f}", colour, 2) + path(head, fill=colour)


def _counted(count: int) -> list[str]:
    return [str(place) for place in range(count)]


def _described(lesson: PositionLesson) -> str:
    size = lesson.encoding.shape
    near = np.diagonal(lesson.similarity, 1)
    said = f"{lesson.title}: {size[0]} positions of {size[1]} {'pairs' if lesson.kind == 'rotary' else 'numbers'}."
    beside = f" Neighbouring positions have a similarity of {near.mean():.2f} on average." if near.size else ""
    return " ".join([said + beside, *lesson.notes])

"""Figures of attribution: effects by layer and head or position, the logit lens, and projected vectors of a head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Unpack

import numpy as np

from regard.output import colours, svg
from regard.output.characters import fitted, printable
from regard.output.chart import COLOURS
from regard.output.panel import (
    Labels,
    Numbers,
    Scale,
    cell_size,
    colour_bar,
    label_size_for,
    panel,
    scale_for,
    with_bar,
)
from regard.output.svg import Drawing, FigureOptions, Svg, framed, least_type, room, sized, text
from regard.tables import printed_number

if TYPE_CHECKING:
    from regard.attribution.lens import LogitLens
    from regard.attribution.projection import ProjectedHead
    from regard.attribution.recipes import GridStudy, HeadStudy
    from regard.attribution.token_circuits import HeadScores

MOST_TOKENS = 24  # columns of a logit lens: the last ones of a longer text
CELL_WIDTH, CELL_HEIGHT = 64.0, 19.0  # of a token in the lens
TYPE = 11.0
PLOT = 420.0  # side of a plot of points
MOST_LABELS = 60  # points with their word beside them
LIGHTER = ("#7fa8dd", "#e39a5f", "#79c2a0", "#c08fd1")  # after the colours of lines
MOST_WORDS = 8  # that have a colour of their own


@sized
def effect_map(
    effects: Numbers, columns: Sequence[str], *, what: str, notes: Sequence[str] = (), along: str = "head",
    marked: Sequence[tuple[int, int]] = (), **_options: Unpack[FigureOptions],
) -> Svg:  # fmt: skip
    """Signed effects of every layer (rows, the first on top) and head or position (columns).

    columns   their labels
    what      the effect is called so beside the colour bar
    marked    cells, (layer, column), with a frame
    """
    body = _layer_map(effects, columns, what, along, marked)
    row, column = np.unravel_index(np.abs(np.nan_to_num(effects)).argmax(), effects.shape)
    largest = f"{printed_number(effects[row, column], 3)} at layer {row}, {along} {columns[int(column)]}"
    described = f"Heat map of {what} by layer and {along}. The largest is {largest}. {' '.join(notes)}"
    return framed(f"{what} by layer and {along}", notes, body, described, least=360.0)


def _layer_map(
    effects: Numbers, columns: Sequence[str], what: str, along: str, marked: Sequence[tuple[int, int]] = ()
) -> Drawing:
    """Layers as rows, with a colour bar."""
    scale = scale_for(effects, signed=True)
    rows = [str(layer) for layer in range(len(effects))]
    side = max(cell_size(max(effects.shape), 520.0, 34.0), room(13.0))
    few = svg.widest(list(columns), label_size_for(side)) + 12 if len(columns) < 4 else 26.0
    cell = max(side, few if along != "position" else side), side
    hint = f"layer {{row}}, {along} {{column}}: {{number}}"
    labels = Labels(label_size_for(side), ("layer", along))
    matrix = panel(effects, rows, columns, scale, cell, labels, hint=hint, digits=None, hidden=np.isnan(effects))
    return with_bar(
        matrix, scale, what, over=[
            svg.rectangle(matrix.left + cell[0] * column - 0.5, matrix.top + cell[1] * row - 0.5, *cell, "none",
                      stroke=colours.INK)
            for row, column in marked
        ],
    )  # fmt: skip


@sized
def recipe(study: HeadStudy | GridStudy, **_options: Unpack[FigureOptions]) -> Svg:
    """The effects of a recipe by layer and head; heads that are silenced together are framed."""
    body = _layer_map(study.effects, study.columns, "effect", study.along, study.marked)
    largest = study.table(1)[0]
    described = f"Heat map of effects by layer and {study.along}. The largest: {largest[0]}, {largest[1]:.3f}."
    return framed(study.title, study.notes, body, described, least=420.0)


@sized
def weight_scores(scores: HeadScores, model: str, **_options: Unpack[FigureOptions]) -> Svg:
    """Copying and previous-token scores of every head, from their weights."""
    named = {"copying": scores.copying, "previous token": scores.previous_token}
    shown = {name: numbers for name, numbers in named.items() if not np.isnan(numbers).any()}
    columns = [str(head) for head in range(scores.copying.shape[1])]
    notes = ["From weights alone: eigenvalues of embedding · W_OV · unembedding; attention between equal tokens."]
    body = svg.beside([_layer_map(numbers, columns, name, "head") for name, numbers in shown.items()], 28)
    best = [np.unravel_index(numbers.argmax(), numbers.shape) for numbers in shown.values()]
    ends = [f"{name} is highest in {layer}.{head}" for name, (layer, head) in zip(shown, best, strict=True)]
    described = f"Heat maps by layer and head: {', '.join(ends)}."
    return framed(f"Heads of {printable(model)} by their weights", notes, body, described, least=360.0)


@sized
def logit_lens(lens: LogitLens, **_options: Unpack[FigureOptions]) -> Svg:
    """The most likely next token after every layer (rows, the last on top) and token, coloured by its probability."""
    count = len(lens.tokens)
    first = max(0, count - MOST_TOKENS)
    probability = lens.probability[::-1, first:]
    words, right = lens.top_texts[::-1], lens.target_rank[::-1] == 0
    layers = len(lens.top) - 1
    rows = [str(layer) for layer in range(layers - 1, -1, -1)] + ["embedding"]
    size, scale = least_type(TYPE), Scale(1.0)
    longest = svg.widest([word for row in words for word in row[first:]], size)
    cell = (max(min(CELL_WIDTH, longest + 10), 30.0), max(CELL_HEIGHT, size * 1.5))
    labels, hint = Labels(TYPE, ("after layer", "token")), "after layer {row}, {column}: probability {number}"
    matrix = panel(probability, rows, lens.tokens[first:], scale, cell, labels, digits=None, hint=hint)
    parts = []
    for row, of_layer in enumerate(words):
        for column, word in enumerate(of_layer[first:]):
            fill = colours.ink_on(scale.colour(float(probability[row, column])))
            x, y = matrix.left + cell[0] * (column + 0.5), matrix.top + cell[1] * (row + 0.5) - 0.5
            is_right = bool(right[row, first + column])
            shown = fitted(printable(word), cell[0] - 4, size, bold=is_right)
            parts.append(text(shown, x, y, size, anchor="middle", fill=fill, bold=is_right))
    target = "the token that follows in the text" if lens.target is None else f"“{lens.target}”"
    notes = [
        "Each cell: the most likely next token if the model ended after this layer (last norm and unembedding).",
        f"Bold: it is {target}. {lens.source}",
    ]
    if first:
        notes.append(f"The last {count - first} of {count} tokens.")
    body = with_bar(matrix, scale, "probability", over=parts)
    ends = [f"{token}: {words[0][index]}" for index, token in enumerate(lens.tokens)][first:]
    described = f"Logit lens of {lens.model}. After the last layer: {'; '.join(ends)}."
    return framed(f"Logit lens of {printable(lens.model)}", notes, body, described)


@sized
def projection(
    projected: ProjectedHead,
    *,
    colour: Literal["word", "position", "weight"] = "word",
    **_options: Unpack[FigureOptions],
) -> Svg:
    """Tokens at their first two components, coloured by word, by position or by weight."""
    points = projected.points[:, :2] if projected.points.shape[1] > 1 else np.pad(projected.points, ((0, 0), (0, 1)))
    side, size = room(PLOT), least_type(TYPE)
    low = points.min(0)
    span = np.maximum(points.max(0) - low, 1e-12)
    points_drawn = 14 + (points - low) / span * (side - 28)
    points_drawn[:, 1] = side - points_drawn[:, 1]
    words = [printable(word) for word in projected.words]
    fills, legend = _colours(projected, colour)
    across, up = 14 - low / span * (side - 28)  # where 0 is
    parts = [
        svg.rectangle(0, 0, side, side, "none", stroke=colours.RULE),
        svg.line(across, 0, across, side, colours.RULE, 1, dashes="2 3"),
        svg.line(0, side - up, side, side - up, colours.RULE, 1, dashes="2 3"),
    ]
    for word, position, weight, (x, y), fill in zip(
        words, projected.positions, projected.weights, points_drawn, fills, strict=True
    ):
        hint = f"{word}, position {position}, weight {printed_number(weight, 3)}"
        parts.append(svg.rectangle(x - 3.5, y - 3.5, 7, 7, fill, stroke=colours.MUTED, radius=3.5, hint=hint))
    labels: list[tuple[float, float, float]] = []  # left, right, y
    apart = np.linalg.norm(points_drawn - points_drawn.mean(0), axis=1)  # the outermost points get their word first
    for index in np.argsort(-apart, kind="stable")[: min(len(words), MOST_LABELS)]:
        x, y = points_drawn[index]
        shown = fitted(words[index], 90, size)
        wide = svg.widest([shown], size)
        left = x + 7 if x + 7 + wide <= side else x - 7 - wide
        others = [*labels, *((at - 4, at + 4, height) for at, height in np.delete(points_drawn, index, 0))]
        if all(abs(y - other) > size or left > end or left + wide < start for start, end, other in others):
            labels.append((left, left + wide, y))
            parts.append(text(shown, left, y, size))
    axes = [f"component {number + 1} ({projected.explained[number]:.0%})" for number in range(min(2, len(low)))
            if number < len(projected.explained)]  # fmt: skip
    parts.append(text(axes[0], side / 2, side + size, size, anchor="middle", fill=colours.MUTED, italic=True))
    if len(axes) > 1:
        parts.append(text(axes[1], -size, side / 2, size, anchor="middle", fill=colours.MUTED, italic=True, turn=-90))
    plot = Drawing(side + size * 2, side + size * 2, (Drawing(0, 0, tuple(parts)).at(size * 2, 0),))
    notes = [*projected.notes, *([projected.weight_note] if colour == "weight" else []), projected.model]
    described = f"{projected.title}: {len(words)} points, coloured by {colour}. {' '.join(notes)}"
    return framed(projected.title, notes, svg.beside([plot, legend], 20), described)


def _colours(projected: ProjectedHead, colour: str) -> tuple[list[str], Drawing]:
    """The colour of every point, and the legend."""
    if colour != "word":
        numbers = projected.weights if colour == "weight" else projected.positions.astype(np.float64)
        scale = scale_for(numbers)
        return [scale.colour(float(number)) for number in numbers], colour_bar(scale, room(200.0), colour)
    names, counts = np.unique([word.lower() for word in projected.words], return_counts=True)
    frequent = names[np.argsort(-counts, kind="stable")][:MOST_WORDS]
    palette = {str(word): (*COLOURS, *LIGHTER)[index] for index, word in enumerate(frequent)}
    size = least_type(TYPE)
    rows = [*palette.items(), *([("other words", colours.HIDDEN)] if len(names) > len(frequent) else [])]
    parts = []
    for index, (word, fill) in enumerate(rows):
        y = size * (0.8 + 1.6 * index)
        parts.append(svg.rectangle(0, y - 3.5, 7, 7, fill, stroke=colours.MUTED, radius=3.5))
        parts.append(text(fitted(printable(word), 90, size), 14, y, size))
    wide = 14 + svg.widest([fitted(printable(word), 90, size) for word, _ in rows], size)
    fills = [palette.get(word.lower(), colours.HIDDEN) for word in projected.words]
    return fills, Drawing(wide, size * 1.6 * len(rows), tuple(parts))

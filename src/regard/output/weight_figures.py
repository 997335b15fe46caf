"""Attention weights as figures: the heat map of one head, and all heads of a layer on one colour scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np

from regard import arrays, errors, validate
from regard.attention import Attention
from regard.output import colours, svg
from regard.output.characters import printable
from regard.output.panel import (
    LINE,
    Booleans,
    Labels,
    Numbers,
    Panel,
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
from regard.trace import Trace
from regard.trace.named_steps import Projection

MOST_CELLS = 128  # along each side; larger matrices are pooled


@dataclass(frozen=True, eq=False, slots=True)
class WeightMatrix:
    """A matrix of weights to draw, (query, key)."""

    array: Numbers
    query_words: tuple[str, ...]
    key_words: tuple[str, ...]
    hidden: Booleans | None = None  # True where the key is masked
    head: int = 0
    heads: int = 1
    pooled: str = ""  # how the matrix was pooled, if it was too large for one cell per weight
    note: str | None = None  # where the numbers come from


def weights_of(
    subject: Any, head: int = 0, words: Sequence[str] | None = None, query_words: Sequence[str] | None = None,
    most: int = MOST_CELLS,
) -> WeightMatrix:  # fmt: skip
    """The weights of one head of a Trace, an Attention, or an array (query, key) or (head, query, key).

    An attention with more than `most` queries or keys is pooled to `most` cells per side.
    """
    if isinstance(subject, WeightMatrix):
        return subject
    if isinstance(subject, Trace):
        head = validate.index("head", head, subject.heads)
        array = numbers_of("weights", subject["weight"][head])
        hidden = np.isneginf(numbers_of("masked", subject["masked"][head])) if "masked" in subject else None
        return _pooled(
            WeightMatrix(array, subject.query_words, subject.words, hidden, head, subject.heads, note=subject.note),
            most,
        )
    if isinstance(subject, Attention):
        return _of_attention(subject, head, words, query_words, most)
    array = numbers_of("weights", subject)
    if array.ndim not in (2, 3):
        raise errors.ShapeError(
            f"`weights` have shape {array.shape}; expected (query, key) or (head, query, key).\n"
            "Choose one sequence of a batch, as in weights[0]."
        )
    heads = array.shape[0] if array.ndim == 3 else 1
    array = array[validate.index("head", head, heads)] if array.ndim == 3 else array
    return _worded(array, words, query_words, None, head, heads, most)


def head_count(subject: Any) -> int:
    if isinstance(subject, Trace):
        return subject.heads
    shape = subject.shape if hasattr(subject, "shape") else np.shape(subject)
    return int(shape[-3]) if len(shape) > 2 else 1


def numbers_of(name: str, array: Any) -> Numbers:
    """Any array as a NumPy array in float64."""
    try:
        return np.asarray(arrays.numpy_of(array) if hasattr(array, "dtype") else array, dtype=np.float64)
    except (TypeError, ValueError):
        raise errors.not_an_array(name, array) from None


def _of_attention(
    attention: Attention, head: int, words: Sequence[str] | None, query_words: Sequence[str] | None, most: int
) -> WeightMatrix:
    if attention.ndim == 4:
        if attention.shape[0] != 1:
            raise errors.ShapeError(
                f"This attention holds {attention.shape[0]} sequences; a figure shows one.\n"
                "Choose one with A.select(batch=0)."
            )
        attention = attention.select(batch=0)
    heads = attention.shape[0] if attention.ndim == 3 else 1
    if attention.ndim == 3:
        attention = attention.select(head=validate.index("head", head, heads))
    queries, keys = attention.shape
    if max(queries, keys) <= most:
        hidden = np.isneginf(numbers_of("masked", attention.masked[...])) if attention.mask is not None else None
        return _worded(numbers_of("weights", attention[...]), words, query_words, hidden, head, heads, most)
    picture = attention.pooled((min(queries, most), min(keys, most)))
    return WeightMatrix(
        numbers_of("map", picture.array),
        tuple(str(edge) for edge in picture.row_edges[:-1]),
        tuple(str(edge) for edge in picture.column_edges[:-1]),
        head=head,
        heads=heads,
        pooled=f"{queries} × {keys} weights, each cell the mean of the weights it covers",
    )


def _pooled(weights: WeightMatrix, most: int) -> WeightMatrix:
    """Mean-pooled to at most `most` cells per side, if it has more."""
    array = weights.array
    if max(array.shape) <= most:
        return weights
    rows, columns = (np.linspace(0, count, min(count, most) + 1).astype(int) for count in array.shape)
    return replace(
        weights,
        array=pool_matrix(array, rows, columns),
        query_words=tuple(weights.query_words[index] for index in rows[:-1]),
        key_words=tuple(weights.key_words[index] for index in columns[:-1]),
        hidden=None,
        pooled=f"{array.shape[0]} × {array.shape[1]} weights, each cell the mean of the weights it covers",
    )


def pool_matrix(matrix: Numbers, rows: Any, columns: Any, pool: str = "mean") -> Numbers:
    """The means or largest weights of cells of a whole matrix, by the edges of their rows and columns."""
    part = matrix[rows[0] : rows[-1], columns[0] : columns[-1]]
    reduce = np.maximum if pool == "max" else np.add
    reduced: Numbers = reduce.reduceat(reduce.reduceat(part, rows[:-1] - rows[0], 0), columns[:-1] - columns[0], 1)
    return reduced if pool == "max" else reduced / np.outer(np.diff(rows), np.diff(columns))


def _worded(
    array: Numbers, words: Sequence[str] | None, query_words: Sequence[str] | None, hidden: Booleans | None, head: int,
    heads: int, most: int,
) -> WeightMatrix:  # fmt: skip
    queries, keys = array.shape
    if query_words is None and queries == keys:
        query_words = words
    rows = _labels("query_words", query_words, queries)
    return _pooled(WeightMatrix(array, rows, _labels("words", words, keys), hidden, head % heads, heads), most)


def _labels(name: str, words: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """One label per row or column; positions if there are no words."""
    if words is None:
        return tuple(str(position) for position in range(count))
    if len(words) != count:
        raise errors.ShapeError(f"`{name}` holds {len(words)} words for {count} tokens.\nGive one word for each token.")
    return tuple(map(str, words))


def weights_panel(weights: WeightMatrix, scale: Scale, side: float, labels: Labels) -> Panel:
    """The matrix of weights in square cells; numbers only if each cell is one weight."""
    labels = replace(labels, apart=4) if weights.pooled else labels
    digits = None if weights.pooled else 2
    rows, columns = weights.query_words, weights.key_words
    return panel(weights.array, rows, columns, scale, (side, side), labels, hidden=weights.hidden, digits=digits)


def largest_weight(weights: WeightMatrix) -> tuple[str, str, str]:
    """The query and the key with the largest weight, and the weight, as printed."""
    row, column = np.unravel_index(int(np.nan_to_num(weights.array).argmax()), weights.array.shape)
    weight = printed_number(weights.array[row, column], 2)
    return printable(weights.query_words[row]), printable(weights.key_words[column]), weight


# One head

MOST_SAID = 12  # queries whose strongest key the description names


@sized
def heat_map(
    subject: Any, *, words: Sequence[str] | None = None, query_words: Sequence[str] | None = None, head: int = 0,
    top: float | None = None, **_options: Unpack[FigureOptions]
) -> Svg:  # fmt: skip
    """The weights of one head, labelled with words, with numbers in the cells if they fit, and a colour bar.

    subject      a Trace, an Attention, or an array (query, key) or (head, query, key)
    words        of the keys, and of the queries if there are as many; a Trace has its own
    top          the number with the darkest colour; by default the largest, rounded up

    More than 128 words are pooled: each cell shows the mean of the weights it covers.
    """
    weights = weights_of(subject, head, words, query_words)
    if top is None and weights.pooled:  # a few cells of a pooled map are often far larger than the rest
        top = scale_for(np.quantile(weights.array, [0.995])).top
    scale = scale_for(weights.array, top=top)
    side = cell_size(max(weights.array.shape))
    matrix = weights_panel(weights, scale, side, Labels(label_size_for(side), ("query", "key")))
    body = with_bar(matrix, scale, "mean weight" if weights.pooled else "weight", apart=28)
    of_head = f", head {weights.head} of {weights.heads}" if weights.heads > 1 else ""
    return framed(f"Attention weights{of_head}", side_notes(weights), body, described(weights), least=324.0)


def side_notes(weights: WeightMatrix) -> list[str]:
    """Notes on pooling, masked keys, row sums and the source of the numbers."""
    notes = [weights.pooled] if weights.pooled else []
    if not weights.pooled and np.allclose(weights.array.sum(axis=1), 1, atol=1e-3):
        notes.append("Each row sums to 1.")
    if weights.hidden is not None and weights.hidden.any():
        notes.append("Grey: masked keys, which the query may not see.")
    return [*notes, weights.note] if weights.note else notes


def described(weights: WeightMatrix) -> str:
    """The heat map in words, for screen readers."""
    rows, columns = weights.array.shape
    captions = [f"Heat map of the weights that {rows} queries give to {columns} keys."]
    if not weights.pooled:
        for word, row in list(zip(weights.query_words, weights.array, strict=True))[:MOST_SAID]:
            best = int(np.nan_to_num(row, nan=-1.0).argmax())
            captions.append(f"{word} attends most to {weights.key_words[best]}, {printed_number(row[best], 2)}.")
    return " ".join([*captions, *side_notes(weights)])


# All heads

MOST_HEADS = 32
FEW_HEADS = 12  # on a slide
MOST_CELLS_PER_HEAD = 64  # along each side of a head's map; larger ones are pooled
GRID_WIDTH = 760.0  # of all maps of a row
GAP = 22.0
MOST_ROWS, MOST_DRAWN = 24, 64  # words and numbers of a matrix; larger ones are drawn as boxes with their shape
ALL_LABELLED = 26  # up to this many words, cells are large enough to label every word
MATRIX = 190.0  # height of W_O, at most
HEAD = 13.0  # font size of the heads' names


@dataclass(frozen=True, slots=True)
class Shapes:
    """The shapes of concatenate and W_O."""

    heads: int
    tokens: int
    joined: int  # width of the concatenated vectors
    out: int  # width of the output

    @property
    def note(self) -> str:
        return (
            f"Each head gives every word a vector, Σ weight · v. The vectors of the {self.heads} heads are "
            f"concatenated ({self.tokens} × {self.joined}) and multiplied by W_O ({self.joined} × {self.out}), which "
            "mixes what the heads found."
        )


@sized
def heads(
    subject: Any, *, words: Sequence[str] | None = None, query_words: Sequence[str] | None = None,
    top: float | None = None, shapes: Shapes | None = None, **_options: Unpack[FigureOptions]
) -> Svg:  # fmt: skip
    """The weights of all heads, small multiples on one colour scale.

    subject      a Trace, an Attention, an array (head, query, key), or a list of `WeightMatrix`
    words        of the keys, and of the queries if there are as many; a Trace has its own
    top          the number with the darkest colour; by default the largest, rounded up
    shapes       of concatenate and W_O, for subjects that are not a Trace

    For a Trace of a multi-head layer, the figure continues with the concatenated outputs, W_O and their product. At
    most 32 heads are drawn, 12 where type has to be large.
    """
    is_drawn = isinstance(subject, list) and bool(subject) and isinstance(subject[0], WeightMatrix)
    count = len(subject) if is_drawn else head_count(subject)
    most = MOST_HEADS if room(1.0) > 0.6 else FEW_HEADS
    shown = subject[:most] if is_drawn else [
        weights_of(subject, head, words, query_words, MOST_CELLS_PER_HEAD) for head in range(min(count, most))
    ]  # fmt: skip
    scale = scale_for(np.concatenate([matrix.array.ravel() for matrix in shown]), top=top)
    body = _maps(shown, scale)
    after = None
    if room(1.0) >= 0.8:  # on a slide, concatenate and W_O are a figure of their own: `product`
        after = _after(subject, shapes)
    if after:
        rule = Drawing(0, 1, (svg.line(0, 0, max(body.width, after.width), 0, colours.RULE),))
        body = svg.below([body, rule, after], 18)
    first = f"The first {len(shown)} of {count} heads" if count > len(shown) else f"{count} heads"
    notes = [
        "Rows: queries. Columns: the keys they attend to. One colour scale for all heads.",
        *side_notes(replace(shown[0], note=None)), *([f"{first}."] if count > len(shown) else []),
        *([shown[0].note] if shown[0].note else []),
    ]  # fmt: skip
    captions = [f"Heat maps of {len(shown)} heads on one colour scale."]
    for matrix in shown:
        query, key, weight = largest_weight(matrix)
        captions.append(f"Head {matrix.head}: {query} attends to {key}, {weight}.")
    if after is not None:
        captions.append("Below, the outputs of all heads are concatenated and multiplied by W_O.")
    return framed(f"{first}, each with its own weights", notes, body, " ".join(captions), least=420.0)


def _maps(shown: Sequence[WeightMatrix], scale: Scale) -> Drawing:
    """The heat maps with one colour bar; words only left of each row and above each column of the grid."""
    across = min(len(shown), 4) if len(shown) != 6 else 3
    rows, columns = shown[0].array.shape
    side = cell_size(max(rows, columns), (GRID_WIDTH - GAP * (across - 1)) / across, 48.0)
    side = max(side, least_type(10.0) * 1.22) if max(rows, columns) <= ALL_LABELLED and room(1.0) == 1.0 else side
    size = min(label_size_for(side), 12.0)
    maps = []
    for number, matrix in enumerate(shown):
        drawn = weights_panel(matrix, scale, side, Labels(size, drawn=(number % across == 0, number < across)))
        name = text(f"head {matrix.head}", drawn.left, HEAD * 0.9, HEAD, bold=True)  # above the cells
        width = max(drawn.drawing.width, drawn.left + 64.0)
        maps.append(Drawing(width, HEAD * 1.6 + drawn.drawing.height, (name, drawn.drawing.at(0, HEAD * 1.6))))
    bar = colour_bar(scale, min(max(side * rows, room(80.0), 40.0), 180.0), "weight")
    return svg.beside([svg.grid(maps, across, room(GAP)), bar], room(24), [0.0, maps[0].height - rows * side - 22])


# Below the heads


def _after(subject: Any, shapes: Shapes | None) -> Drawing | None:
    """Concatenated outputs, W_O and their product, from left to right: as boxes where they are too large to draw."""
    drawn = None
    if isinstance(subject, Trace):
        if "concatenated" not in subject or "projected" not in subject:
            return None
        joined, result = (numbers_of(name, subject[name]) for name in ("concatenated", "projected"))
        made = subject.origin.parts.get("projected")
        matrix = numbers_of("W_O", made.linear.matrix) if isinstance(made, Projection) else None
        shapes = Shapes(subject.heads, len(joined), joined.shape[1], result.shape[1])
        if matrix is not None and max(matrix.shape) <= MOST_DRAWN and len(joined) <= MOST_ROWS:
            drawn = _matrices(subject, joined, matrix, result)
    if shapes is None:
        return None
    drawn = drawn or _boxes(shapes)
    heading = svg.titled("Concatenate, then multiply by W_O", [shapes.note], max(drawn.width, 420.0), size=16)
    return svg.below([heading, drawn], 6)


def _matrices(trace: Trace, joined: Numbers, matrix: Numbers, result: Numbers) -> Drawing:
    """concatenated · W_O = output as matrices of coloured cells."""
    side = max(min(34.0, MATRIX / max(matrix.shape)), 5.0)
    scale = scale_for(np.concatenate([joined.ravel(), result.ravel()]), signed=True)
    of_matrix = scale_for(matrix, signed=True)
    words = trace.query_words
    ins, outs = ([str(index + 1) for index in range(count)] for count in matrix.shape)
    size = min(label_size_for(side), 12.0)
    row = max(side, size * LINE)
    component, plain = "{row}, component {column}: {number}", (False, False)
    first, second, third = (
        panel(array, of_rows, of_columns, colour, cell, Labels(size, drawn=labelled), hint=hint)
        for array, of_rows, of_columns, colour, cell, labelled, hint in (
            (joined, words, ins, scale, (side, row), (True, False), component),
            (matrix, ins, outs, of_matrix, (side, side), plain, "W_O, row {row}, column {column}: {number}"),
            (result, words, outs, scale, (side, row), (True, False), component),
        )
    )
    tall = max(matrix_panel.height for matrix_panel in (first, second, third))
    drawn = []  # each in the middle of the height, its name above it; above the concatenated vectors their heads
    for shown, name in ((first, "concatenated"), (second, "W_O"), (third, "output")):
        y, heads = 46 + (tall - shown.height) / 2, trace.heads if name == "concatenated" else 0
        parts = [shown.drawing.at(0, y - shown.top)]
        parts.append(
            text(name, shown.left + shown.width / 2, y - (36 if heads else 14), HEAD, anchor="middle", bold=True)
        )
        parts += _brackets(heads, shown.left, y, shown.width) if heads else []
        drawn.append(Drawing(shown.left + shown.width, 46 + tall, tuple(parts)))
    top = drawn[0].height - tall
    signs = [Drawing(46, 0, (text(sign, 23, top + tall / 2, 22, anchor="middle"),)) for sign in "×="]
    bars = colour_bar(scale, min(tall, 120.0), "vectors"), colour_bar(of_matrix, min(tall, 120.0), "W_O")
    gap = Drawing(12, 0, ())
    drops = [0.0] * 6 + [top - 22 + max(0.0, (tall - 120) / 2)] * 2
    apart = [Drawing(bar.width + 22, bar.height, bar.parts) for bar in bars]
    return svg.beside([drawn[0], signs[0], drawn[1], signs[1], drawn[2], gap, *apart], 0, drops)


def _brackets(count: int, left: float, top: float, width: float) -> list[str]:
    """Which columns of the concatenated vectors come from which head."""
    parts, wide = [], width / count
    for head in range(count):
        start, end = left + wide * head + 1.5, left + wide * (head + 1) - 2.5
        y = top - 6
        parts.append(svg.path(f"M{start:.2f} {y + 3:.2f}V{y:.2f}H{end:.2f}V{y + 3:.2f}", colours.MUTED, 1))
        if head % math.ceil(18 / wide) == 0:
            name = f"head {head}" if wide >= 44 else str(head)
            parts.append(text(name, (start + end) / 2, y - 9, 11, anchor="middle", fill=colours.MUTED))
    return parts


def _boxes(shapes: Shapes) -> Drawing:
    """The same as boxes with shapes, for matrices that are too wide to draw."""
    names = [("head outputs", f"{shapes.heads} × {shapes.tokens} × {shapes.joined // shapes.heads}"),
             ("concatenated", f"{shapes.tokens} × {shapes.joined}"), ("× W_O", f"{shapes.joined} × {shapes.out}"),
             ("output", f"{shapes.tokens} × {shapes.out}")]  # fmt: skip
    parts: list[str] = []
    box, between, height = 132.0, 34.0, 52.0
    for number, (name, shape) in enumerate(names):
        x = (box + between) * number
        parts.append(svg.rectangle(x, 0, box, height, colours.ACCENT_SOFT, stroke=colours.ACCENT, radius=6))
        parts.append(text(name, x + box / 2, height / 2 - 9, 14, anchor="middle", bold=True))
        parts.append(text(shape, x + box / 2, height / 2 + 11, 12, anchor="middle", fill=colours.MUTED))
        if number:
            parts.append(svg.line(x - between + 3, height / 2, x - 5, height / 2, colours.MUTED))
            parts.append(svg.arrow_head(x - 2, height / 2, colours.MUTED))
    return Drawing(len(names) * (box + between) - between, height, tuple(parts))

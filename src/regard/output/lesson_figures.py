"""Figures of the lessons: positional encodings, transformer blocks, look-up, attention beside other layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from regard import errors
from regard.output import colours
from regard.output.characters import fitted, printable, text_width
from regard.output.panel import Numbers, Panel, Scale, cell_size, colour_bar, label_size_for, panel, scale_for
from regard.output.svg import (
    MARGIN,
    Drawing,
    Svg,
    arrow_head,
    framed,
    line,
    path,
    rectangle,
    text,
    titled,
    widest,
)
from regard.output.weight_figures import WeightMatrix, head_count, largest_weight, numbers_of, weights_of, weights_panel
from regard.tables import digits_for, printed_number
from regard.teaching.block import BlockLesson, BlockStage
from regard.teaching.lookup import Answer, Lookup, said
from regard.teaching.positions import PositionLesson

# Positional encodings

SIDE = 330.0  # of a matrix
BETWEEN = 54.0
MOST_POSITIONS, MOST_COMPONENTS = 128, 256  # rows and columns that are drawn
RADIUS, MOST_ARROWS = 62.0, 8


def positions(lesson: PositionLesson, *, title: str | None = None) -> Svg:
    """The encoding of each position (for rotary, the rotation of some pairs) beside the similarities of positions."""
    left = _turns(lesson) if lesson.kind == "rotary" else _encoding(lesson)
    right = _similarity(lesson)
    name = title or lesson.title
    notes = list(lesson.notes)
    if lesson.length > MOST_POSITIONS or (lesson.kind != "rotary" and lesson.encoding.shape[1] > MOST_COMPONENTS):
        notes.append(f"Drawn: the first {MOST_POSITIONS} positions and {MOST_COMPONENTS} components at most.")
    parts = left.at(0, 0), right.at(left.width + BETWEEN, 0)
    body = Drawing(left.width + BETWEEN + right.width, max(left.height, right.height), parts)
    return framed(name, notes, body, _positions_described(lesson), gap=8)


def _encoding(lesson: PositionLesson) -> Drawing:
    """A row per position, a column per component."""
    array = lesson.encoding[:MOST_POSITIONS, :MOST_COMPONENTS]
    rows, columns = array.shape
    cell = cell_size(columns, SIDE * 1.2, 26.0), cell_size(rows, SIDE, 26.0)
    size = label_size_for(min(cell))
    usual = None if lesson.kind == "sinusoidal" else scale_for(np.quantile(np.abs(array), [0.995])).top
    scale = scale_for(array, signed=True, top=usual)  # a few numbers of learned positions dwarf all others
    drawn = panel(
        array, _counted(rows), _counted(columns), scale, cell, label_size=min(size, 11.0),
        row_title="position", column_title="component", numbers=False, apart=1.6 if cell[0] > 9 else 4,
        hint="position {row}, component {column}: {number}",
    )  # fmt: skip
    return _with_bar("What is added to a word's vector", drawn.drawing, drawn.top, scale, SIDE)


def _similarity(lesson: PositionLesson) -> Drawing:
    array = lesson.similarity[:MOST_POSITIONS, :MOST_POSITIONS]
    count = len(array)
    side = cell_size(count, SIDE, 26.0)
    scale = scale_for(array, signed=True, top=1.0)
    drawn = panel(
        array, _counted(count), _counted(count), scale, (side, side), label_size=min(label_size_for(side), 11.0),
        row_title="position", column_title="position", numbers=False, apart=1.6,
        hint="positions {row} and {column}: {number}",
    )  # fmt: skip
    name = (
        "Score of equal vectors after rotation" if lesson.kind == "rotary" else "How similar two positions are (cosine)"
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
    parts = [text("Direction of a pair of components at positions 0, 1, 2 …", 0, 8, 14, bold=True)]
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
        for position, angle in enumerate(_labels_apart([lesson.encoding[place, pair] for place in range(count)])):
            if angle is not None:
                at = x + (RADIUS + 12) * math.cos(angle), y - (RADIUS + 12) * math.sin(angle)
                parts.append(text(str(position), *at, 11, anchor="middle", fill=colours.MUTED))
        below = f"pair {pair}: {step:.3g}° per position"
        parts.append(text(below, x, y + RADIUS + 32, 12, anchor="middle"))
    rows = math.ceil(len(chosen) / 2)
    return Drawing(max(pitch * min(len(chosen), 2), 400.0), 44 + rows * (pitch - 18), tuple(parts))


def _labels_apart(angles: list[float]) -> list[float | None]:
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


def _positions_described(lesson: PositionLesson) -> str:
    size = lesson.encoding.shape
    near = np.diagonal(lesson.similarity, 1)
    said = f"{lesson.title}: {size[0]} positions of {size[1]} {'pairs' if lesson.kind == 'rotary' else 'components'}."
    beside = f" Neighbouring positions have a similarity of {near.mean():.2f} on average." if near.size else ""
    return " ".join([said + beside, *lesson.notes])


# A transformer block

STRIP = 104.0  # width of a stage
STAGES_APART = 58.0
STAGE_NAME = 13.0
WORD_SIZE = 12.0
WORD_ROW = 19.0  # height of a word


def block(lesson: BlockLesson, *, title: str | None = None) -> Svg:
    """From left to right: the embeddings, the output of each part of the block, and the result."""
    arrays = [stage.vectors for stage in lesson.stages] + ([lesson.memory] if lesson.memory is not None else [])
    scale = scale_for(np.concatenate([array.ravel() for array in arrays]), signed=True)
    panels = [_strip(stage.vectors, lesson.words, scale, place == 0) for place, stage in enumerate(lesson.stages)]
    left, tall = panels[0].left, panels[0].height
    pitch = STRIP + STAGES_APART
    has_memory = lesson.memory is not None
    above = 40.0 + (WORD_ROW * len(lesson.context_words) + 84 if has_memory else 0.0)  # names, and the memory
    parts: list[str] = []
    for place, (stage, one) in enumerate(zip(lesson.stages, panels, strict=True)):
        x = left + pitch * place
        parts.append(one.drawing.at(x - one.left, above))
        parts += _stage_name(stage.name, x + STRIP / 2, above)
        if place:
            middle = above + tall / 2
            parts.append(line(x - STAGES_APART + 6, middle, x - 8, middle, colours.MUTED, 1.2))
            parts.append(arrow_head(x - 4, middle, colours.MUTED))
    parts += _residuals(lesson.stages, left, above + tall, pitch)
    if has_memory:
        parts += _memory(lesson, scale, left, pitch, above)
    bar = colour_bar(scale, min(max(tall, 80.0), 150.0), "number")
    right = left + pitch * len(panels) - STAGES_APART
    parts.append(bar.at(right + 30, above - 22))
    width = right + 30 + bar.width
    height = above + max(tall + 62, bar.height - 22)
    name = title or f"Through {lesson.title}"
    return framed(name, _block_notes(lesson), Drawing(width, height, tuple(parts)), _block_described(lesson))


def _block_notes(lesson: BlockLesson) -> list[str]:
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
        array, words, columns, scale, (STRIP / array.shape[1], WORD_ROW), label_size=WORD_SIZE, numbers=False,
        labelled=(labelled, False), hint="{row}, component {column}: {number}",
    )  # fmt: skip


def _stage_name(name: str, x: float, above: float) -> list[str]:
    """The name of a stage, on two lines if it is wider than its strip."""
    if text_width(name, STAGE_NAME, bold=True) <= STRIP + 20:
        return [text(name, x, above - 14, STAGE_NAME, anchor="middle", bold=True)]
    first, _, second = name.rpartition(" ") if " " in name else name.partition("-")
    return [
        text(first, x, above - 29, STAGE_NAME, anchor="middle", bold=True),
        text(second, x, above - 13, STAGE_NAME, anchor="middle", bold=True),
    ]


def _residuals(stages: tuple[BlockStage, ...], left: float, below: float, pitch: float) -> list[str]:
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
        text("context, encoded", x + STRIP / 2, 8, STAGE_NAME, anchor="middle", bold=True),
        one.drawing.at(x - one.left, top),
        line(x + STRIP / 2, top + one.height + 4, x + STRIP / 2, end - 6, colours.MUTED, 1.2),
        path(f"M{x + STRIP / 2:.2f} {end:.2f}l-4 -8h8z", fill=colours.MUTED),
        text("keys, values", x + STRIP / 2 + 10, (top + one.height + end) / 2, 11, fill=colours.MUTED),
    ]


def _block_described(lesson: BlockLesson) -> str:
    stages = ", ".join(stage.name for stage in lesson.stages)
    words = " ".join(map(printable, lesson.words))
    context = f" The context is: {' '.join(map(printable, lesson.context_words))}." if lesson.context_words else ""
    return f"The vectors of the words {words} through {lesson.title}: {stages}.{context} {lesson.note}"


# Look-up

MOST_KEYS = 24
ROW, SIZE, SMALL = 30.0, 14.0, 11.0
BAR = 180.0
LONGEST = 220.0  # of a key, and of a value
COLUMNS_APART = 28.0


def lookup(dictionary: Lookup, query: Any, temperature: float | None = None, *, title: str | None = None) -> Svg:
    """The weights that the soft look-up of one query gives to the keys, strongest first, and what comes out."""
    answer = dictionary.soft(query, temperature)
    if answer.weights.ndim != 1:
        raise TypeError(f"A figure shows the look-up of one query, and `query` holds {len(answer.weights)}.")
    order = np.argsort(-answer.weights, kind="stable")[:MOST_KEYS]
    similarity = dictionary.similarities(query)
    digits = max(2, digits_for(similarity[np.isfinite(similarity)])) if np.isfinite(similarity).any() else 2
    rows = [
        (
            fitted(_one_line(dictionary.keys[place]), LONGEST, SIZE, bold=True),
            printed_number(similarity[place], digits),
            float(answer.weights[place]),
            fitted(_one_line(dictionary.values[place]), LONGEST, SIZE, bold=True),
        )
        for place in order
    ]
    used = dictionary.temperature_for(temperature)
    softmax = "softmax" if used == 1 else f"softmax(similarity / {used:g})" if used else "softmax, temperature → 0"
    headings = ("key", "similarity", f"{softmax} = weight", "value")
    key_wide = max(widest([row[0] for row in rows], SIZE, bold=True), widest(headings[:1], SMALL))
    score_right = key_wide + COLUMNS_APART + max(widest([row[1] for row in rows], SIZE), widest(headings[1:2], SMALL))
    bar_left = score_right + COLUMNS_APART
    number_right = bar_left + BAR + 48
    value_left = number_right + COLUMNS_APART
    width = max(value_left + max(widest([row[3] for row in rows], SIZE, bold=True), 60.0), 460.0)
    name = title or f"SELECT value WHERE key ≈ {_quoted(query)}"
    parts = [
        text(headings[0], 0, 8, SMALL, fill=colours.MUTED),
        text(headings[1], score_right, 8, SMALL, anchor="end", fill=colours.MUTED),
        text(headings[2], bar_left, 8, SMALL, fill=colours.MUTED),
        text(headings[3], value_left, 8, SMALL, fill=colours.MUTED),
        line(0, 22, width, 22, colours.RULE),
    ]
    top = max((row[2] for row in rows), default=0.0)
    for place, (key, score, weight, value) in enumerate(rows):
        y, first = 22 + ROW * (place + 0.6), weight == top > 0
        parts.append(text(key, 0, y, SIZE, bold=first))
        parts.append(text(score, score_right, y, SIZE, anchor="end"))
        parts.append(rectangle(bar_left, y - 8, BAR, 16, colours.HIDDEN, radius=2))
        if weight * BAR >= 0.5:
            parts.append(rectangle(bar_left, y - 8, BAR * weight, 16, colours.ACCENT, radius=2))
        parts.append(text(printed_number(weight, 2), number_right, y, SIZE, anchor="end", bold=first))
        parts.append(text(value, value_left, y, SIZE, bold=first))
    height = 22 + ROW * len(rows) + 6
    below = titled(f"z = {_one_line(answer.value)}", _shortened(len(dictionary)), width, size=15)
    body = Drawing(width, height + below.height - 2, (*parts, below.at(0, height + 10)))
    return framed(name, _lookup_notes(dictionary, query, answer), body, _lookup_described(query, rows, answer))


def _lookup_notes(dictionary: Lookup, query: Any, answer: Answer) -> list[str]:
    hard = dictionary.hard(query)
    equal = f"Hard look-up, key = query: {_one_line(hard.value)}." if hard.found else "Hard look-up: no key equals it."
    return [equal, "Soft look-up: every key counts, by its similarity to the query; weights sum to 1.", *answer.notes]


def _shortened(count: int) -> list[str]:
    return [f"{count - MOST_KEYS:,} keys with smaller weights are not drawn."] if count > MOST_KEYS else []


def _lookup_described(query: Any, rows: list[tuple[str, str, float, str]], answer: Answer) -> str:
    weights = ", ".join(f"{key} {printed_number(weight, 2)}" for key, _, weight, _ in rows)
    return f"Soft look-up of {_quoted(query)}. Weights: {weights}. The answer is {_one_line(answer.value)}."


def _quoted(query: Any) -> str:
    return f"“{printable(query)}”" if isinstance(query, str) else _one_line(query)


def _one_line(value: Any) -> str:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, (list, tuple)) and value and all(isinstance(part, (int, float)) for part in value):
        value = np.asarray(value, np.float64)
    return printable(said(value))


# Fixed weights beside computed weights

MATRIX_SIDE = 250.0  # of a matrix
MOST_FIXED = 16  # rows and columns of the fixed weights that are drawn
MATRICES_APART = 96.0


def fixed_and_computed(
    fixed: Any, first: Any, second: Any, *, words: tuple[Sequence[str], Sequence[str]] | None = None, head: int = 0,
    title: str | None = None,
) -> Svg:  # fmt: skip
    """Feed-forward weights, equal for both inputs, beside attention weights, computed from each input.

    fixed           a feed-forward or linear layer, or its W as in x · W, (input, output)
    first, second   the same attention on two inputs: a Trace, an Attention or an array each
    words           of both inputs, for subjects without words
    """
    array = _weight_of(fixed)
    shown = array[:MOST_FIXED, :MOST_FIXED]
    of_first, of_second = words if words is not None else (None, None)
    one, two = weights_of(first, head, of_first), weights_of(second, head, of_second)
    fixed_scale = scale_for(shown, signed=True)
    scale = scale_for(np.concatenate([one.array.ravel(), two.array.ravel()]))
    left = [_fixed_panel(shown, fixed_scale) for _ in range(2)]
    right = [_computed_panel(weights, scale) for weights in (one, two)]
    bars = colour_bar(fixed_scale, 130, "weight"), colour_bar(scale, 130, "weight")

    # Columns: fixed matrix, its bar, computed matrix, its bar. Rows: the two inputs.
    second_column = max(item.drawing.width for item in left) + 24 + bars[0].width + MATRICES_APART
    right_wide = max(item.drawing.width for item in right)
    width = second_column + right_wide + 24 + bars[1].width
    heading = titled(title or "Fixed weights and computed weights", [], width, size=20)
    columns = titled("Feed-forward", [_fixed_note(array, shown)], second_column - 40, size=16)
    computed = titled("Attention", [_computed_note(one)], width - second_column, size=16)
    y = MARGIN + heading.height + 8
    parts = [heading.at(MARGIN, MARGIN), columns.at(MARGIN, y), computed.at(MARGIN + second_column, y)]
    y += max(columns.height, computed.height) + 6
    for place, weights in enumerate((one, two)):
        sentence = fitted(" ".join(map(printable, weights.key_words)), width - 90, 13, bold=True)
        parts.append(text(f"Input {place + 1}", MARGIN, y + 8, 13, fill=colours.MUTED))
        parts.append(text(sentence, MARGIN + 64, y + 8, 13, bold=True))
        y += 30
        top = max(left[place].top, right[place].top)  # align the cells of both
        parts.append(left[place].drawing.at(MARGIN, y + top - left[place].top))
        parts.append(right[place].drawing.at(MARGIN + second_column, y + top - right[place].top))
        for bar, x in zip(bars, (second_column - MATRICES_APART - bars[0].width, width - bars[1].width), strict=True):
            parts.append(bar.at(MARGIN + x, y + top - 22))
        y += top + max(left[place].height, right[place].height) + 22
        if place == 0:
            parts.append(line(MARGIN, y, MARGIN + width, y, colours.RULE))
            y += 18
    said = _computed_described(one, two, array)
    return Svg(width + 2 * MARGIN, y + MARGIN - 14, title or "Fixed weights and computed weights", said, tuple(parts))


def _weight_of(fixed: Any) -> Numbers:
    """The matrix of a layer, or the array itself."""
    for name in ("up", "matrix"):
        fixed = getattr(fixed, name, fixed)
    array = numbers_of("fixed", fixed)
    if array.ndim != 2:
        raise errors.ShapeError(f"`fixed` has shape {array.shape}; expected (input, output), the W of one layer.")
    return array


def _fixed_panel(array: Numbers, scale: Scale) -> Panel:
    side = cell_size(max(array.shape), MATRIX_SIDE, 50)
    rows, columns = ([str(place + 1) for place in range(count)] for count in array.shape)
    return panel(
        array, rows, columns, scale, (side, side), label_size=11, row_title="input", column_title="output",
        hint="input {row} to output {column}: {number}",
    )  # fmt: skip


def _computed_panel(weights: WeightMatrix, scale: Scale) -> Panel:
    side = cell_size(max(weights.array.shape), MATRIX_SIDE, 50)
    return weights_panel(weights, scale, side, 12, titles=("query", "key"))


def _fixed_note(array: Numbers, shown: Numbers) -> str:
    said = "Learned once: the same matrix for every input, whatever the words."
    if shown.shape == array.shape:
        return said
    return f"{said} Drawn: {shown.shape[0]} × {shown.shape[1]} of {array.shape[0]} × {array.shape[1]}."


def _computed_note(weights: WeightMatrix) -> str:
    of_head = f", head {weights.head}" if weights.heads > 1 else ""
    return f"Computed from the words: a different matrix for every input{of_head}."


def _computed_described(one: WeightMatrix, two: WeightMatrix, array: Numbers) -> str:
    said = [f"A feed-forward matrix of {array.shape[0]} × {array.shape[1]} weights is the same for both inputs."]
    for name, weights in (("first", one), ("second", two)):
        query, key, weight = largest_weight(weights)
        said.append(f"Attention on the {name} input gives its largest weight, {weight}, from {query} to {key}.")
    return " ".join(said)


# Heads beside the filters of a convolution

FILTERS_TITLE = "Heads are to attention what filters are to a convolution"
GAP = 26.0
MOST_PANELS = 8  # heads, and filters


def filter_terms(signal: Any, filters: Any) -> Numbers:
    """What word j adds to a filter's response at word i, (filter, i, j): filter[j − i + reach] · x_j, 0 out of reach.

    signal (word, d_model) and filters (filter, tap, d_model), an odd number of taps; the sums over j are the responses
    of a convolution that keeps the length, with zeros around the sentence.

    >>> filter_terms([[1.0], [2.0], [3.0]], [[[1.0], [0.0], [-1.0]]])[0]
    array([[ 0., -2.,  0.],
           [ 1.,  0., -3.],
           [ 0.,  2.,  0.]])
    """
    signal, filters = numbers_of("signal", signal), numbers_of("filters", filters)
    if signal.ndim != 2 or filters.ndim != 3 or signal.shape[1] != filters.shape[2] or filters.shape[1] % 2 == 0:
        raise errors.ShapeError(
            f"`signal` has shape {signal.shape}, `filters` have {filters.shape}; expected (word, d_model) and "
            "(filter, tap, d_model) with an odd number of taps.\nPyTorch's Conv1d keeps "
            "(filter, d_model, tap): swap its last two axes."
        )
    words, reach = len(signal), filters.shape[1] // 2
    products = np.einsum("ftd,jd->ftj", filters, signal)  # filter, tap, word
    terms = np.zeros((len(filters), words, words))
    for tap in range(filters.shape[1]):
        for j in range(words):
            i = j - tap + reach
            if 0 <= i < words:
                terms[:, i, j] = products[:, tap, j]
    return terms


def heads_and_filters(
    subject: Any, signal: Any, filters: Any, *, words: Sequence[str] | None = None, title: str | None = None
) -> Svg:
    """The weights of heads on the left, a convolution's filters on the same words on the right.

    subject   a Trace, an Attention or an array of weights (head, query, key)
    signal    the vectors of the words, (word, d_model): the input of the convolution
    filters   (filter, tap, d_model), an odd number of taps

    A filter is drawn as the contribution of each word (column) to its response at a word (row); they sum to the
    response.
    """
    heads = [weights_of(subject, head, words) for head in range(min(head_count(subject), MOST_PANELS))]
    terms = filter_terms(signal, filters)[:MOST_PANELS]
    taps = numbers_of("filters", filters).shape[1]
    labels = heads[0].key_words
    if terms.shape[1] != len(labels) or any(head.array.shape != terms.shape[1:] for head in heads):
        raise errors.ShapeError(
            f"`signal` holds {terms.shape[1]} words, the weights are {heads[0].array.shape}.\n"
            "Both are of the same sentence, of at most 128 words: give the vectors that queries and keys came from."
        )
    across = 1 if max(len(heads), len(terms)) == 1 else 2 if max(len(heads), len(terms)) <= 4 else 4
    side = cell_size(len(labels), 360 if across == 1 else 230, 46)
    weight_scale = scale_for(np.stack([head.array for head in heads]))
    term_scale = scale_for(np.concatenate([terms, terms.sum(axis=2, keepdims=True)], axis=2), signed=True)
    one = _block(
        "Heads", f"Each row is a word's weights over all {len(labels)} words, computed from the words.",
        [_named(weights_panel(head, weight_scale, side, 11).drawing, f"head {head.head}") for head in heads], across,
        colour_bar(weight_scale, 110, "weight"),
    )  # fmt: skip
    two = _block(
        "Filters", f"Each row is what the {taps} nearest words add to the filter's response; its weights are fixed.",
        [_filter(part, labels, term_scale, side, taps // 2, f"filter {place}") for place, part in enumerate(terms)],
        across, colour_bar(term_scale, 110, "term, sum"),
    )  # fmt: skip
    return _beside(one, two, title or FILTERS_TITLE, _filters_described(heads, terms))


def _filter(terms: Numbers, labels: Sequence[str], scale: Scale, side: float, reach: int, name: str) -> Drawing:
    places = np.arange(len(labels))
    matrix = panel(
        terms, labels, labels, scale, (side, side), label_size=11, hidden=abs(places[:, None] - places) > reach,
        hint="{column} adds to the response at {row}: {number}",
    )  # fmt: skip
    responses = terms.sum(axis=1)[:, None]
    strip = panel(responses, [""] * len(labels), [""], scale, (side, side), hint="response: {number}")
    x = matrix.left + matrix.width + 10
    parts = [matrix.drawing.at(0, 0), strip.drawing.at(x, matrix.top)]
    parts.append(
        text("sum", x + strip.width / 2, matrix.top + matrix.height + 10, 11, anchor="middle", fill=colours.MUTED)
    )
    wide = max(matrix.drawing.width, x + strip.width)
    return _named(Drawing(wide, matrix.drawing.height + 18, tuple(parts)), name)


def _named(drawing: Drawing, name: str) -> Drawing:
    return Drawing(drawing.width, drawing.height + 24, (text(name, 0, 8, 13, bold=True), drawing.at(0, 24)))


def _block(name: str, says: str, panels: list[Drawing], across: int, bar: Drawing) -> Drawing:
    """Panels in rows, with a heading above and the colour bar on the right."""
    wide, tall = max(panel.width for panel in panels), max(panel.height for panel in panels)
    across = min(across, len(panels))
    down = math.ceil(len(panels) / across)
    width = wide * across + GAP * (across - 1)
    heading = titled(name, [says], max(width, 300.0), size=16)
    parts = [heading.at(0, 0)]
    for place, drawing in enumerate(panels):
        parts.append(drawing.at((place % across) * (wide + GAP), heading.height + 8 + (place // across) * (tall + GAP)))
    y = heading.height + 32
    parts.append(bar.at(max(width, 300.0) + 24, y))
    height = max(heading.height + 8 + down * tall + (down - 1) * GAP, y + bar.height)
    return Drawing(max(width, 300.0) + 24 + bar.width, height, tuple(parts))


def _beside(one: Drawing, two: Drawing, title: str, description: str) -> Svg:
    """Two blocks side by side, or stacked if that would be too wide."""
    stacked = one.width + two.width > 1700
    width = max(one.width, two.width) if stacked else one.width + two.width + 72
    heading = titled(title, [], width, size=20)
    top = MARGIN + heading.height + 10
    if stacked:
        parts = [one.at(MARGIN, top), two.at(MARGIN, top + one.height + 40)]
        parts.append(line(MARGIN, top + one.height + 20, MARGIN + width, top + one.height + 20, colours.RULE))
        height = top + one.height + 40 + two.height
    else:
        middle = MARGIN + one.width + 36
        height = top + max(one.height, two.height)
        parts = [one.at(MARGIN, top), two.at(middle + 36, top), line(middle, top, middle, height, colours.RULE)]
    return Svg(width + 2 * MARGIN, height + MARGIN, title, description, (heading.at(MARGIN, MARGIN), *parts))


def _filters_described(heads: list[WeightMatrix], terms: Numbers) -> str:
    said = [f"{len(heads)} heads and {len(terms)} filters on the same {terms.shape[1]} words."]
    for head in heads:
        query, key, weight = largest_weight(head)
        said.append(f"Head {head.head}: {query} attends to {key}, {weight}.")
    for place, responses in enumerate(terms.sum(axis=2)):
        best = int(np.abs(np.nan_to_num(responses)).argmax())
        word = printable(heads[0].key_words[best])
        said.append(f"Filter {place} responds most at {word}, {printed_number(responses[best], 2)}.")
    return " ".join(said)

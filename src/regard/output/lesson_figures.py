"""Figures of the lessons: positional encodings, transformer blocks, look-up, attention beside other layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from regard import arrays, errors
from regard.output import colours, svg
from regard.output.characters import fitted, printable, text_width
from regard.output.panel import (
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
from regard.output.weight_figures import head_count, largest_weight, numbers_of, weights_of, weights_panel
from regard.tables import digits_for, printed_number
from regard.teaching.block import BlockLesson, BlockStage
from regard.teaching.lookup import Lookup, said
from regard.teaching.positions import PositionLesson

# Positional encodings

SIDE = 330.0  # of a matrix
MOST_POSITIONS, MOST_COMPONENTS = 128, 256  # rows and columns that are drawn
RADIUS, MOST_ARROWS = 62.0, 8


@sized
def positions(lesson: PositionLesson, **_options: Unpack[FigureOptions]) -> Svg:
    """The encoding of each position (for rotary, the rotation of some pairs) beside the similarities of positions."""
    is_rotary, notes, size = lesson.kind == "rotary", list(lesson.notes), lesson.encoding.shape
    if lesson.length > MOST_POSITIONS or (not is_rotary and size[1] > MOST_COMPONENTS):
        notes.append(f"Drawn: the first {MOST_POSITIONS} positions and {MOST_COMPONENTS} components at most.")
    if is_rotary:
        left = _turns(lesson)
        name = "Score of equal vectors after rotation" if room(1.0) > 0.6 else "Score after rotation"
    else:
        array = lesson.encoding[:MOST_POSITIONS, :MOST_COMPONENTS]
        usual = None if lesson.kind == "sinusoidal" else scale_for(np.quantile(np.abs(array), [0.995])).top
        scale = scale_for(array, signed=True, top=usual)  # a few numbers of learned positions dwarf all others
        left = _counted("Added to a word's vector", array, scale, "component", "position {row}, component {column}")
        name = "Similarity (cosine)"
    similarity = lesson.similarity[:MOST_POSITIONS, :MOST_POSITIONS]
    scale = scale_for(similarity, signed=True, top=1.0)
    right = _counted(name, similarity, scale, "position", "positions {row} and {column}")
    described = f"{lesson.title}: {size[0]} positions of {size[1]} {'pairs' if is_rotary else 'components'}."
    if (near := np.diagonal(lesson.similarity, 1)).size:
        described += f" Neighbouring positions have a similarity of {near.mean():.2f} on average."
    return framed(lesson.title, notes, svg.beside([left, right], room(54)), " ".join([described, *lesson.notes]), gap=8)


def _counted(name: str, array: Numbers, scale: Scale, across: str, hint: str) -> Drawing:
    """A matrix whose rows are positions, with a name above and a colour bar beside it."""
    rows, columns = ([str(index) for index in range(count)] for count in array.shape)
    wide = SIDE * 1.2 if across == "component" else SIDE
    cell = cell_size(len(columns), wide, 26.0), cell_size(len(rows), SIDE, 26.0)
    size, apart = min(label_size_for(min(cell)), 11.0), 1.6 if cell[0] > 9 else 4
    labels = Labels(size, ("position", across), apart=apart)
    drawn = panel(array, rows, columns, scale, cell, labels, digits=None, hint=f"{hint}: {{number}}")
    return svg.named(with_bar(drawn, scale, height=room(SIDE), apart=16), name, 14, 28)


def _turns(lesson: PositionLesson) -> Drawing:
    """The direction of some pairs at the first positions."""
    pairs = lesson.encoding.shape[1]
    most = 4 if room(1.0) > 0.6 else 2
    chosen = sorted({round(index * (pairs - 1) / (most - 1)) for index in range(min(pairs, most))})
    circles = svg.grid([_circle(lesson.encoding[:MOST_ARROWS, pair], pair) for pair in chosen], most // 2)
    name = "Direction of a pair at positions 0, 1, 2 …" if most == 4 else "Pairs at positions 0, 1, 2 …"
    return svg.named(circles, name, 14, 28)


def _circle(angles: Numbers, pair: int) -> Drawing:
    """A pair of components at each position as an arrow from the centre, the first ones darkest."""
    step = math.degrees(angles[1]) if len(angles) > 1 else 0.0
    label, reach = f"pair {pair}: {step:.3g}° per position", room(RADIUS)
    width = max(2 * reach + 84, svg.widest([label], 12) + 12)
    x, y, r = width / 2, 22 + reach, f"{reach:.1f}"
    circle = f"M{x - reach:.2f} {y:.2f}a{r} {r} 0 1 0 {2 * reach:.1f} 0a{r} {r} 0 1 0 {-2 * reach:.1f} 0z"
    parts = [svg.path(circle, colours.RULE, 1, fill="#ffffff")]
    for position in reversed(range(len(angles))):
        shade = colours.sequential(0.95 - 0.6 * position / max(len(angles) - 1, 1))
        # From the centre almost to the edge; angles grow counterclockwise, as in mathematics.
        cos, sin = math.cos(angles[position]), -math.sin(angles[position])
        (x1, y1), (x2, y2) = ((x + length * cos, y + length * sin) for length in (reach - 11, reach - 2))
        head = (
            f"M{x2:.2f} {y2:.2f}L{x1 - 4.5 * sin:.2f} {y1 + 4.5 * cos:.2f}L{x1 + 4.5 * sin:.2f} {y1 - 4.5 * cos:.2f}z"
        )
        parts.append(svg.path(f"M{x:.2f} {y:.2f}L{x1:.2f} {y1:.2f}", shade, 2) + svg.path(head, fill=shade))
    labelled: list[float] = []
    for position, angle in enumerate(angles):
        if all(math.cos(angle - other) <= math.cos(0.22 * RADIUS / reach) for other in labelled):  # no label on another
            labelled.append(angle)
            at = x + (reach + 12) * math.cos(angle), y - (reach + 12) * math.sin(angle)
            parts.append(text(str(position), *at, 11, anchor="middle", fill=colours.MUTED))
    parts.append(text(label, x, y + reach + 32, 12, anchor="middle"))
    return Drawing(width, 2 * reach + 66, tuple(parts))


# A transformer block

STRIP = 104.0  # width of a stage
STAGES_APART = 58.0
STAGE_NAME = 13.0
WORD_SIZE = 12.0
WORD_ROW = 19.0  # height of a word


@sized
def block(lesson: BlockLesson, **_options: Unpack[FigureOptions]) -> Svg:
    """From left to right: the embeddings, the output of each part of the block, and the result."""
    arrays = [stage.vectors for stage in lesson.stages] + ([lesson.memory] if lesson.memory is not None else [])
    scale = scale_for(np.concatenate([array.ravel() for array in arrays]), signed=True)
    strip, apart = room(STRIP), max(room(STAGES_APART), 22.0)
    lines = [line for stage in lesson.stages for line in _name_lines(stage.name, 0.0)]
    strip = max(strip, svg.widest(lines, STAGE_NAME, bold=True) + 8 - apart)  # the names of neighbours do not touch
    panels = [
        _strip(stage.vectors, lesson.words, scale, strip, number == 0) for number, stage in enumerate(lesson.stages)
    ]
    left, tall = panels[0].left, panels[0].height
    pitch = strip + apart
    has_memory = lesson.memory is not None
    names = 16.0 * max(len(_name_lines(stage.name, strip)) for stage in lesson.stages) + 8
    above = max(names, 24.0)
    if has_memory:  # the encoded context, and the arrow from it
        above += 26 + _word_row() * len(lesson.context_words) + max(room(58.0), 30.0)
    parts: list[str] = []
    for number, (stage, strip_panel) in enumerate(zip(lesson.stages, panels, strict=True)):
        x = left + pitch * number
        parts.append(strip_panel.drawing.at(x - strip_panel.left, above))
        lines = _name_lines(stage.name, strip)
        for line_number, name in enumerate(lines, 1 - len(lines)):
            parts.append(
                text(name, x + strip / 2, above - 13 + 16 * line_number, STAGE_NAME, anchor="middle", bold=True)
            )
        if number:
            middle = above + tall / 2
            parts.append(svg.line(x - apart + 6, middle, x - 8, middle, colours.MUTED, 1.2))
            parts.append(svg.arrow_head(x - 4, middle, colours.MUTED))
    parts += _residuals(lesson.stages, left, above + tall, pitch, strip)
    if has_memory:
        parts += _memory(lesson, scale, left, pitch, above, strip)
    strips = Drawing(left + pitch * len(panels) - apart, above + tall + (62 if room(1.0) >= 0.6 else 54), tuple(parts))
    bar = colour_bar(scale, min(max(tall, room(80.0), 40.0), 150.0), "number")
    body = svg.beside([strips, bar], room(30), [0.0, above - 22]) if room(1.0) > 0.5 else strips
    count, width = lesson.stages[0].vectors.shape
    notes = [
        f"Each strip holds the vectors of all words, {count} × {width}: one row per word. "
        "Curves below: the input of a part is added to its output (residual connection)."
    ]
    if lesson.kind == "decoder":
        notes.append("Masked self-attention: a word sees only itself and the words before it.")
    if has_memory:
        notes.append("Cross-attention: queries come from these words, keys and values from the encoded context.")
    words, context = (" ".join(map(printable, words)) for words in (lesson.words, lesson.context_words))
    described = f"The vectors of the words {words} through {lesson.title}: "
    described += ", ".join(stage.name for stage in lesson.stages) + "."
    described += f" The context is: {context}." if context else ""
    return framed(f"Through {lesson.title}", [*notes, lesson.note], body, f"{described} {lesson.note}")


def _word_row() -> float:
    return max(room(WORD_ROW), least_type(WORD_SIZE) * 1.25)


def _strip(array: np.ndarray, words: tuple[str, ...], scale: Scale, width: float, labelled: bool) -> Panel:
    columns = [str(index + 1) for index in range(array.shape[1])]
    labels, cell = Labels(WORD_SIZE, drawn=(labelled, False)), (width / array.shape[1], _word_row())
    return panel(array, words, columns, scale, cell, labels, digits=None, hint="{row}, component {column}: {number}")


def _name_lines(name: str, strip: float) -> list[str]:
    """The name of a stage, on two lines if it is wider than its strip, on more where there is little room."""
    if text_width(name, STAGE_NAME, bold=True) <= strip + 20 and room(1.0) >= 0.6:
        return [name]
    if room(1.0) < 0.6:
        name = "vectors" if name == "embeddings" else name
        return name.replace(" &", "\xa0&").replace("-", " ").split(" ")
    first, _, second = name.rpartition(" ") if " " in name else name.partition("-")
    return [first, second] if second else [first]


def _residuals(stages: tuple[BlockStage, ...], left: float, below: float, pitch: float, strip: float) -> list[str]:
    """Residual connections: curves from the input of a part to where its output is added."""
    parts = []
    for number, stage in enumerate(stages):
        if stage.adds is None:
            continue
        start, end = left + pitch * stage.adds + strip / 2, left + pitch * number + strip / 2
        depth = below + 34
        d = (
            f"M{start:.2f} {below + 4:.2f}"
            f"C{start:.2f} {depth:.2f} {start + 20:.2f} {depth:.2f} {start + 40:.2f} {depth:.2f}"
            f"L{end - 40:.2f} {depth:.2f}C{end - 20:.2f} {depth:.2f} {end:.2f} {depth:.2f} {end:.2f} {below + 10:.2f}"
        )
        parts.append(svg.path(d, colours.ACCENT, 1.4))
        tip = f"M{end:.2f} {below + 3:.2f}l-4 8h8z"
        parts.append(svg.path(tip, fill=colours.ACCENT))
        parts.append(text("+ residual", (start + end) / 2, depth + 13, 11, anchor="middle", fill=colours.ACCENT))
    return parts


def _memory(lesson: BlockLesson, scale: Scale, left: float, pitch: float, above: float, strip: float) -> list[str]:
    """The encoded context, above the cross-attention that reads it."""
    assert lesson.memory is not None
    index = next(index for index, stage in enumerate(lesson.stages) if stage.name.endswith("cross-attention"))
    context_strip = _strip(lesson.memory, lesson.context_words, scale, strip, True)
    x, top = left + pitch * index, 26.0
    end = above - 16 * len(_name_lines(lesson.stages[index].name, strip)) - 10
    return [
        text("context, encoded", x + strip / 2, 8, STAGE_NAME, anchor="middle", bold=True),
        context_strip.drawing.at(x - context_strip.left, top),
        svg.line(x + strip / 2, top + context_strip.height + 4, x + strip / 2, end - 6, colours.MUTED, 1.2),
        svg.path(f"M{x + strip / 2:.2f} {end:.2f}l-4 -8h8z", fill=colours.MUTED),
        text("keys, values", x + strip / 2 + 10, (top + context_strip.height + end) / 2, 11, fill=colours.MUTED),
    ]


# Look-up

MOST_KEYS = 24
ROW, SIZE, SMALL = 30.0, 14.0, 11.0
BAR = 180.0
LONGEST = 220.0  # of a key, and of a value
COLUMNS_APART = 28.0


@sized
def lookup(dictionary: Lookup, query: Any, temperature: float | None = None, **_options: Unpack[FigureOptions]) -> Svg:
    """The weights that the soft look-up of one query gives to the keys, strongest first, and what comes out."""
    answer, hard = dictionary.soft(query, temperature), dictionary.hard(query)
    order = np.argsort(-answer.weights, kind="stable")[: max(4, round(room(MOST_KEYS)))]
    similarity, weights = dictionary.similarities(query), answer.weights[order]
    digits = max(2, digits_for(similarity[np.isfinite(similarity)])) if np.isfinite(similarity).any() else 2
    longest = max(room(LONGEST), 130.0)
    keys, values = (
        [fitted(_one_line(things[index]), longest, SIZE, bold=True) for index in order]
        for things in (dictionary.keys, dictionary.values)
    )
    scores = [printed_number(similarity[index], digits) for index in order]
    used = dictionary.temperature_for(temperature)
    softmax = "softmax" if used == 1 else f"softmax(similarity / {used:g})" if used else "softmax, temperature → 0"
    names = ("key", "similarity", f"{softmax} = weight", "value")
    least = [svg.widest([name], SMALL) for name in names]
    apart = max(room(COLUMNS_APART), 14.0)
    score_right = max(svg.widest(keys, SIZE, bold=True), least[0]) + apart + max(svg.widest(scores, SIZE), least[1])
    bar_left = score_right + apart
    number_right = bar_left + max(room(BAR) + 48, least[2] + 10)
    bar, value_left = number_right - bar_left - 48, number_right + apart
    width = max(value_left + max(svg.widest(values, SIZE, bold=True), 60.0), room(460.0))
    ends = ((0, "start"), (score_right, "end"), (bar_left, "start"), (value_left, "start"))
    parts = [
        text(name, x, 8, SMALL, anchor=anchor, fill=colours.MUTED)
        for name, (x, anchor) in zip(names, ends, strict=True)
    ]
    parts.append(svg.line(0, 22, width, 22, colours.RULE))
    for index, (key, score, weight, value) in enumerate(zip(keys, scores, weights, values, strict=True)):
        y, first = 22 + ROW * (index + 0.6), weight == weights.max() > 0
        parts.append(text(key, 0, y, SIZE, bold=first))
        parts.append(text(score, score_right, y, SIZE, anchor="end"))
        parts.append(svg.rectangle(bar_left, y - 8, bar, 16, colours.HIDDEN, radius=2))
        if weight * bar >= 0.5:
            parts.append(svg.rectangle(bar_left, y - 8, bar * weight, 16, colours.ACCENT, radius=2))
        parts.append(text(printed_number(weight, 2), number_right, y, SIZE, anchor="end", bold=first))
        parts.append(text(value, value_left, y, SIZE, bold=first))
    height, left = 22 + ROW * len(keys) + 6, len(dictionary) - len(keys)
    note = [f"{left:,} keys with smaller weights are not drawn."] if left else []
    result = _one_line(answer.value)
    below = svg.titled(f"z = {result}", note, width, size=15)
    body = Drawing(width, height + below.height - 2, (*parts, below.at(0, height + 10)))
    equal = f"Hard look-up, key = query: {_one_line(hard.value)}." if hard.found else "Hard look-up: no key equals it."
    soft = "Soft look-up: every key counts, by its similarity to the query; weights sum to 1."
    quoted = f"“{printable(query)}”" if isinstance(query, str) else _one_line(query)
    listed = ", ".join(f"{key} {printed_number(weight, 2)}" for key, weight in zip(keys, weights, strict=True))
    described = f"Soft look-up of {quoted}. Weights: {listed}. The answer is {result}."
    return framed(f"SELECT value WHERE key ≈ {quoted}", [equal, soft, *answer.notes], body, described)


def _one_line(value: Any) -> str:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, (list, tuple)) and value and all(isinstance(part, (int, float)) for part in value):
        value = np.asarray(value, np.float64)
    return printable(said(value))


# Fixed weights beside computed weights

MATRIX_SIDE = 250.0
MOST_FIXED = 16  # rows and columns of the fixed weights that are drawn


@sized
def fixed_and_computed(
    fixed: Any, first: Any, second: Any, *, words: tuple[Sequence[str], Sequence[str]] | None = None, head: int = 0,
    **_options: Unpack[FigureOptions],
) -> Svg:  # fmt: skip
    """Feed-forward weights, equal for both inputs, beside attention weights, computed from each input.

    fixed           a feed-forward or linear layer, or its W as in x · W, (input, output)
    first, second   the same attention on two inputs: a Trace, an Attention or an array each
    words           of both inputs, for subjects without words
    """
    for name in ("up", "matrix"):
        fixed = getattr(fixed, name, fixed)
    array = numbers_of("fixed", fixed)
    if array.ndim != 2:
        raise errors.ShapeError(f"`fixed` has shape {array.shape}; expected (input, output), the W of one layer.")
    shown = array[:MOST_FIXED, :MOST_FIXED]
    inputs = [weights_of(subject, head, of) for subject, of in zip((first, second), words or (None, None), strict=True)]
    fixed_scale = scale_for(shown, signed=True)
    scale = scale_for(np.concatenate([weights.array.ravel() for weights in inputs]))
    ins, outs = ([str(number + 1) for number in range(count)] for count in shown.shape)
    side = cell_size(max(shown.shape), MATRIX_SIDE, 50)
    labels, hint = Labels(11, ("input", "output")), "input {row} to output {column}: {number}"
    left = panel(shown, ins, outs, fixed_scale, (side, side), labels, hint=hint)
    columns = []
    captions = [f"A feed-forward matrix of {array.shape[0]} × {array.shape[1]} weights is the same for both inputs."]
    for number, (name, weights) in enumerate(zip(("first", "second"), inputs, strict=True), 1):
        side = cell_size(max(weights.array.shape), MATRIX_SIDE, 50)
        drawn = with_bar(weights_panel(weights, scale, side, Labels(12, ("query", "key"))), scale, "weight", 130)
        sentence = fitted(" ".join(map(printable, weights.key_words)), max(drawn.width, 200.0), 13, bold=True)
        columns += [
            svg.named(with_bar(left, fixed_scale, "weight", 130), f"Input {number}"),
            svg.named(drawn, sentence),
        ]
        query, key, weight = largest_weight(weights)
        captions.append(f"Attention on the {name} input gives its largest weight, {weight}, from {query} to {key}.")
    wide = [max(drawing.width for drawing in columns[side::2]) for side in (0, 1)]
    of_head = f", head {inputs[0].head}" if inputs[0].heads > 1 else ""
    part = f" Drawn: {shown.shape[0]} × {shown.shape[1]} of {array.shape[0]} × {array.shape[1]}."
    learned = f"Learned once: the same matrix for every input, whatever the words.{part * (shown.shape != array.shape)}"
    computed = f"Computed from the words: a different matrix for every input{of_head}."
    headings = [svg.titled("Feed-forward", [learned], wide[0], 16), svg.titled("Attention", [computed], wide[1], 16)]
    body = svg.grid([*headings, *columns], 2, room(28))
    return framed("Fixed weights and computed weights", [], body, " ".join(captions))


# Heads beside the filters of a convolution

GAP = 26.0
MOST_PANELS = 8  # heads, and filters
WIDEST = 1700.0  # heads and filters side by side; wider ones are stacked


@sized
def heads_and_filters(
    subject: Any, signal: Any, filters: Any, *, words: Sequence[str] | None = None, **_options: Unpack[FigureOptions]
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
    left = _multiples(
        "Heads", f"Each row is a word's weights over all {len(labels)} words, computed from the words.",
        [svg.named(weights_panel(head, weight_scale, side, Labels(11)).drawing, f"head {head.head}") for head in heads],
        across, colour_bar(weight_scale, 110, "weight"),
    )  # fmt: skip
    two = _multiples(
        "Filters", f"Each row is what the {taps} nearest words add to the filter's response; its weights are fixed.",
        [_filter(part, labels, term_scale, side, taps // 2, f"filter {number}") for number, part in enumerate(terms)],
        across, colour_bar(term_scale, 110, "term, sum"),
    )  # fmt: skip
    body = svg.below([left, two], room(40)) if left.width + two.width > WIDEST else svg.beside([left, two], room(72))
    captions = [f"{len(heads)} heads and {len(terms)} filters on the same {terms.shape[1]} words."]
    for head in heads:
        query, key, weight = largest_weight(head)
        captions.append(f"Head {head.head}: {query} attends to {key}, {weight}.")
    for number, responses in enumerate(terms.sum(axis=2)):
        best = int(np.abs(np.nan_to_num(responses)).argmax())
        response = printed_number(responses[best], 2)
        captions.append(f"Filter {number} responds most at {printable(labels[best])}, {response}.")
    return framed("Heads are to attention what filters are to a convolution", [], body, " ".join(captions), gap=10)


def filter_terms(signal: Any, filters: Any) -> Numbers:
    """What word j adds to a filter's response at word i, (filter, i, j): filter[j − i + reach] · x_j, 0 out of reach.

    signal (word, d_model) and filters (filter, tap, d_model), an odd number of taps; the sums over j are the responses
    of a convolution that keeps the length, with zeros around the sentence.

    >>> filter_terms([[1.0], [2.0], [3.0]], [[[1.0], [0.0], [-1.0]]])[0]
    array([[ 0., -2.,  0.],
           [ 1.,  0., -3.],
           [ 0.,  2.,  0.]])
    """
    signal, filters = (np.asarray(arrays.numpy_of(part), np.float64) for part in (signal, filters))
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


def _filter(terms: Numbers, labels: Sequence[str], scale: Scale, side: float, reach: int, name: str) -> Drawing:
    indices = np.arange(len(labels))
    hidden, hint = abs(indices[:, None] - indices) > reach, "{column} adds to the response at {row}: {number}"
    matrix = panel(terms, labels, labels, scale, (side, side), Labels(11), hidden=hidden, hint=hint)
    responses = terms.sum(axis=1)[:, None]
    strip = panel(responses, [""] * len(labels), [""], scale, (side, side), hint="response: {number}")
    x = matrix.left + matrix.width + 10
    parts = [matrix.drawing.at(0, 0), strip.drawing.at(x, matrix.top)]
    parts.append(
        text("sum", x + strip.width / 2, matrix.top + matrix.height + 10, 11, anchor="middle", fill=colours.MUTED)
    )
    wide = max(matrix.drawing.width, x + strip.width)
    return svg.named(Drawing(wide, matrix.drawing.height + 18, tuple(parts)), name)


def _multiples(name: str, note: str, panels: list[Drawing], across: int, bar: Drawing) -> Drawing:
    """Panels in rows, with a heading above and the colour bar on the right."""
    maps = svg.beside([svg.grid(panels, across, room(GAP)), bar], room(24), [0.0, 24.0])
    return svg.below([svg.titled(name, [note], max(maps.width, room(300.0)), size=16), maps], 8)

"""Attention heads beside the filters of a convolution, on the same sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from regard import errors
from regard.output import colours
from regard.output.drawn_weights import Numbers, head_count, numbers_of, weights_of
from regard.output.heat_map import MARGIN, titled
from regard.output.panel import Scale, cell_size, colour_bar, panel, scale_for
from regard.output.printable import printable
from regard.output.svg import Drawing, Svg, line, text
from regard.tables import printed_number

TITLE = "Heads are to attention what filters are to a convolution"
GAP = 26.0
MOST = 8  # heads, and filters


def filter_terms(signal: Any, filters: Any) -> Numbers:
    """What word j adds to a filter's response at word i, (filter, i, j): filter[j − i + reach] · x_j, 0 out of reach.

    signal (word, size) and filters (filter, tap, size), an odd number of taps; the sums over j are the responses of a
    convolution that keeps the length, with zeros around the sentence.

    >>> filter_terms([[1.0], [2.0], [3.0]], [[[1.0], [0.0], [-1.0]]])[0]
    array([[ 0., -2.,  0.],
           [ 1.,  0., -3.],
           [ 0.,  2.,  0.]])
    """
    signal, filters = numbers_of("signal", signal), numbers_of("filters", filters)
    if signal.ndim != 2 or filters.ndim != 3 or signal.shape[1] != filters.shape[2] or filters.shape[1] % 2 == 0:
        raise errors.ShapeError(
            f"`signal` has shape {signal.shape}, `filters` have {filters.shape}; expected (word, size) and "
            "(filter, tap, size) with an odd number of taps.\nPyTorch's Conv1d keeps (filter, size, tap): swap its "
            "last two axes."
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
    signal    the vectors of the words, (word, size): the input of the convolution
    filters   (filter, tap, size), an odd number of taps

    A filter is drawn as the contribution of each word (column) to its response at a word (row); they sum to the
    response.
    """
    heads = [weights_of(subject, head, words) for head in range(min(head_count(subject), MOST))]
    terms = filter_terms(signal, filters)[:MOST]
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
        [_head(head.array, labels, weight_scale, side, f"head {head.head}") for head in heads], across,
        colour_bar(weight_scale, 110, "weight"),
    )  # fmt: skip
    two = _block(
        "Filters", f"Each row is what the {taps} nearest words add to the filter's response; its weights are fixed.",
        [_filter(part, labels, term_scale, side, taps // 2, f"filter {place}") for place, part in enumerate(terms)],
        across, colour_bar(term_scale, 110, "term, sum"),
    )  # fmt: skip
    return _beside(one, two, title or TITLE, _described(heads, terms))


def _head(array: Numbers, labels: Sequence[str], scale: Scale, side: float, name: str) -> Drawing:
    matrix = panel(
        array, labels, labels, scale, (side, side), label_size=11, hint="{row} attends to {column}: {number}"
    )
    return _named(matrix.drawing, name)


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


def _described(heads: list[Any], terms: Numbers) -> str:
    said = [f"{len(heads)} heads and {len(terms)} filters on the same {terms.shape[1]} words."]
    for head in heads:
        row, column = np.unravel_index(int(np.nan_to_num(head.array).argmax()), head.array.shape)
        weight = printed_number(head.array[row, column], 2)
        words = printable(head.query_words[row]), printable(head.key_words[column])
        said.append(f"Head {head.head}: {words[0]} attends to {words[1]}, {weight}.")
    for place, responses in enumerate(terms.sum(axis=2)):
        best = int(np.abs(np.nan_to_num(responses)).argmax())
        word = printable(heads[0].key_words[best])
        said.append(f"Filter {place} responds most at {word}, {printed_number(responses[best], 2)}.")
    return " ".join(said)

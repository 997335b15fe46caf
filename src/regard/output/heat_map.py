"""The heat map of one head: one cell per weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.output import colours
from regard.output.drawn_weights import Weights, weights_of
from regard.output.panel import LINE, cell_size, colour_bar, label_size_for, panel, scale_for
from regard.output.printable import printable
from regard.output.svg import Drawing, Svg, text
from regard.output.text_width import wrapped
from regard.tables import printed_number

MARGIN = 28.0
MOST_SAID = 12  # queries whose strongest key the description names


def heat_map(
    subject: Any, *, words: Sequence[str] | None = None, query_words: Sequence[str] | None = None, head: int = 0,
    title: str | None = None, top: float | None = None,
) -> Svg:  # fmt: skip
    """The weights of one head, labelled with words, with numbers in the cells if they fit, and a colour bar.

    subject      a Trace, an Attention, or an array (query, key) or (head, query, key)
    words        of the keys, and of the queries if there are as many; a Trace has its own
    top          the number with the darkest colour; by default the largest, rounded up

    More than 128 words are pooled: each cell shows the mean of the weights it covers.
    """
    weights = weights_of(subject, head, words, query_words)
    scale = scale_for(weights.array, top=_usual_top(weights) if top is None else top)
    side = cell_size(max(weights.array.shape))
    matrix = panel(
        weights.array, weights.query_words, weights.key_words, scale, (side, side), label_size=label_size_for(side),
        row_title="query", column_title="key", hidden=weights.hidden, numbers=not weights.pooled,
        apart=4 if weights.pooled else LINE,
        hint="{row} attends to {column}: {number}",
    )  # fmt: skip
    bar = colour_bar(scale, min(max(matrix.height, 80.0), 200.0), "mean weight" if weights.pooled else "weight")
    bar_left = MARGIN + max(matrix.drawing.width, matrix.left + matrix.width) + 28
    width = max(bar_left + bar.width + MARGIN, 380.0)
    heading = titled(title or _title(weights), side_notes(weights), width - 2 * MARGIN)
    above = MARGIN + heading.height
    bar_top = above + matrix.top - 22  # aligns the top of the bar, below its name, with the cells
    height = max(above + matrix.drawing.height, bar_top + bar.height) + MARGIN
    parts = (heading.at(MARGIN, MARGIN), matrix.drawing.at(MARGIN, above), bar.at(bar_left, bar_top))
    return Svg(width, height, title or _title(weights), described(weights), parts)


def titled(title: str, notes: Sequence[str], width: float, size: float = 18) -> Drawing:
    """A title with notes below it, wrapped to the width."""
    parts, y = [], size * 0.6
    for content in wrapped(printable(title), width, size, bold=True):
        parts.append(text(content, 0, y, size, bold=True))
        y += size * 1.25
    for note in notes:
        for content in wrapped(printable(note), width, 12):
            parts.append(text(content, 0, y - 2, 12, fill=colours.MUTED))
            y += 17
    return Drawing(width, y + 6, tuple(parts))


def side_notes(weights: Weights) -> list[str]:
    """Notes on pooling, masked keys, row sums and the source of the numbers."""
    notes = [weights.pooled] if weights.pooled else []
    if not weights.pooled and np.allclose(weights.array.sum(axis=1), 1, atol=1e-3):
        notes.append("Each row sums to 1.")
    if weights.hidden is not None and weights.hidden.any():
        notes.append("Grey: masked keys, which the query may not see.")
    return [*notes, weights.note] if weights.note else notes


def described(weights: Weights) -> str:
    """The heat map in words, for screen readers."""
    rows, columns = weights.array.shape
    said = [f"Heat map of the weights that {rows} queries give to {columns} keys."]
    if not weights.pooled:
        for word, row in list(zip(weights.query_words, weights.array, strict=True))[:MOST_SAID]:
            best = int(np.nan_to_num(row, nan=-1.0).argmax())
            said.append(f"{word} attends most to {weights.key_words[best]}, {printed_number(row[best], 2)}.")
    return " ".join([*said, *side_notes(weights)])


def _usual_top(weights: Weights) -> float | None:
    """The darkest number of a pooled map: its 99.5% quantile, since a few cells are often far larger than the rest."""
    if not weights.pooled:
        return None
    return scale_for(np.quantile(weights.array, [0.995])).top


def _title(weights: Weights) -> str:
    return f"Attention weights, head {weights.head} of {weights.heads}" if weights.heads > 1 else "Attention weights"

"""The pruning curve: how much of a model is left when only its most important heads are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from regard.output.characters import printable
from regard.output.scaling_figure import PLOT, Line, line_chart, linear, room_left, side_by_side
from regard.output.svg import Svg, framed

if TYPE_CHECKING:
    from regard.heads.ablation_effects import Effect


def pruning(curve: Sequence[tuple[int, Effect]], loss: float | None, model: str, *, title: str | None = None) -> Svg:
    """The next token's loss, where there is one, and the change of the hidden states, over the number of heads kept.

    curve  as from `Ablation.pruning`
    loss   of the whole model
    """
    kept = [count for count, _ in curve]
    hidden = np.array([effect.hidden for _, effect in curve])
    charts = [("Hidden state", "mean of ‖h′ − h‖ / ‖h‖ after the last layer", "change", hidden)]
    notes = ["Heads are kept in the order of what silencing each of them alone changes, the largest first."]
    if loss is not None:
        risen = np.array([loss + (effect.loss or 0.0) for _, effect in curve])
        charts.insert(0, ("Loss", "of the next token, in nats", "loss", risen))
        ends = f"{loss:.3f} with all heads, {risen[0]:.3f} with none"
        notes.append(f"The lower the loss, the better the next token is guessed: {ends}.")
    panels = []
    for name, what, label, numbers in charts:
        axis = linear(numbers)
        lines = [Line(label, numbers, 0, hint=f"{name}, {label}")]
        left = room_left(axis)
        panels.append(line_chart(name, what, lines, axis, kept, PLOT[1], left, along="heads kept", is_log=False))
    said = f"Line charts over the number of heads kept, 0 to {kept[-1]}. {' '.join(notes)}"
    return framed(title or f"Pruning {printable(model)}, best heads first", notes, side_by_side(panels), said, gap=8)

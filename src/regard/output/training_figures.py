"""Figures of training: networks compared on a task, and loss and heads over the steps of one run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from regard.output.characters import fitted, printable
from regard.output.scaling_figure import LABEL, LABEL_PITCH, PLOT, Line, line_chart, linear, room_left, side_by_side
from regard.output.svg import Svg, framed

if TYPE_CHECKING:
    from regard.training.compare import Comparison
    from regard.training.record import Record

LONGEST_LABEL = 150.0
MOST_POINTS = 26  # of a line: more markers touch each other


def comparison(found: Comparison, *, title: str | None = None) -> Svg:
    """Accuracy of every network by distance to the right key and by number of pairs, means over the seeds."""
    axis = linear(np.ones(1))
    height = max(PLOT[1], LABEL_PITCH * len(found.networks))
    panels = []
    for field, name, along in (
        ("by_distance", "Accuracy by distance", "distance to the right key, from"),
        ("by_pairs", "Accuracy by number of pairs", "pairs in the sequence"),
    ):
        curves = {network: found.curve(network, field) for network in found.networks}
        places = sorted({at for curve in curves.values() for at in curve})
        lines = [
            Line(network, np.array([curve[at][0] if at in curve else np.nan for at in places]), style, hint=network)
            for style, (network, curve) in enumerate(curves.items())
        ]
        if places:
            what = f"mean of {len(found.of(found.networks[0]))} seeds"
            panels.append(line_chart(name, what, lines, axis, places, height, room_left(axis), along=along))
    rows = found.tables()[0].rows
    said = "; ".join(f"{name}: {mean:.3f} ({low:.3f} to {high:.3f})" for name, _, mean, low, high in rows)
    sizes = [row[1] for row in rows]
    notes = [
        f"Accuracy at full difficulty, mean and range over the seeds: {said}.",
        f"{min(sizes):,} to {max(sizes):,} parameters, {found.steps:,} steps on the same batches.",
    ]
    name = title or f"The same task for networks of the same size: {printable(found.task)}"
    return framed(name, notes, side_by_side(panels), f"Line charts of accuracy. {' '.join(notes)}", gap=8)


def training(record: Record, *, title: str | None = None) -> Svg:
    """Test loss and accuracy over the steps, and for each relation the accuracy of the best head at the end."""
    shown = _spread(len(record.snapshots))
    snapshots = [record.snapshots[place] for place in shown]
    steps = [one.step for one in snapshots]
    loss = np.array([one.test_loss for one in snapshots])
    best = record.snapshots[-1].best_heads()
    heads = [
        Line(
            fitted(f"{printable(relation)}: {layer}.{head}", LONGEST_LABEL, LABEL),
            np.array([one.head_accuracy[layer, head, place] for one in snapshots]),
            place,
            hint=f"{relation}, layer {layer}, head {head}",
        )
        for place, (relation, (layer, head, _)) in enumerate(zip(record.relations, best, strict=True))
    ]
    accuracy = Line("accuracy", np.array([one.accuracy for one in snapshots]), 0, hint="accuracy")
    charts = [
        ("Loss", "of test sequences", [Line("loss", loss, 0, hint="loss")], linear(loss)),
        ("Accuracy", "share of right tokens", [accuracy], linear(np.ones(1))),
    ]
    if heads:
        charts.append(("Heads", "largest weight on the right key", heads, linear(np.ones(1))))
    height = max(PLOT[1], LABEL_PITCH * len(heads))
    panels = [line_chart(*chart, steps, height, room_left(chart[3]), along="step", is_log=False) for chart in charts]
    notes = ["Heads are named layer.head, counted from 0; for each relation, the best one at the end."] if heads else []
    last = record.snapshots[-1]
    said = f"Line charts over {last.step:,} training steps. At the end: {last}."
    name = title or f"Training on {printable(record.task)}"
    return framed(name, notes, side_by_side(panels), said, gap=8)


def _spread(count: int) -> list[int]:
    """At most `MOST_POINTS` places, evenly spread, the first and the last among them."""
    step = max(1, math.ceil((count - 1) / (MOST_POINTS - 1)))
    return sorted({*range(0, count, step), count - 1})

"""Figures of line charts: the lesson on √d_k, pruned heads, networks compared, and one training run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

import numpy as np

from regard.output.characters import fitted, printable
from regard.output.chart import BETWEEN, LABEL, Chart, Line, charts, linear, logarithmic
from regard.output.panel import Numbers
from regard.output.svg import FigureOptions, Svg, beside, framed, sized
from regard.teaching.scaled_scores import ScalingLesson

if TYPE_CHECKING:
    from regard.heads.ablation_effects import Effect
    from regard.training.compare import Comparison
    from regard.training.record import Record

LONGEST_LABEL = 150.0
MOST_POINTS = 26  # of a line: more markers touch each other
ROUNDING = 1e-12  # what is smaller is drawn as 0


@sized
def scaling(lesson: ScalingLesson, **_options: Unpack[FigureOptions]) -> Svg:
    """Entropy, largest weight and the size of gradients over d_k (logarithmic axis), one line per divisor."""
    order = np.argsort(lesson.sizes, kind="stable")
    sizes = [lesson.sizes[index] for index in order]
    names = [fitted(f"÷ {printable(name)}", 96, LABEL) for name in lesson.divisors]

    def drawn(numbers: Numbers, hint: str, hollow: bool = False) -> list[Line]:
        return [Line(name, numbers[style][order], style, hollow, f"{hint}, {name}") for style, name in enumerate(names)]

    entropy = np.where(lesson.entropy < ROUNDING, 0.0, lesson.entropy)
    typical = np.where(lesson.typical_query * lesson.divided_by < ROUNDING, 0.0, lesson.typical_query)
    gradients = np.stack([lesson.gradient_q, lesson.gradient_k])
    gradients = np.where(gradients * lesson.divided_by < ROUNDING, 0.0, gradients)
    of_typical, of_gradients = logarithmic(typical), logarithmic(gradients)
    shown = [
        Chart("Entropy", "of the weights, in nats", drawn(entropy, "entropy"), linear(entropy)),
        Chart("Largest weight", "of a query, on average", drawn(lesson.largest_weight, "largest weight"),
              linear(np.ones(1))),
        Chart("Gradient of a typical query", "median of ‖∂L/∂q‖", drawn(typical, "typical ‖∂q‖"), of_typical),
        Chart("Gradients of W_q and W_k", "‖∂L/∂W‖: W_q filled, W_k hollow",
              [*drawn(gradients[0], "‖∂W_q‖"), *drawn(gradients[1], "‖∂W_k‖", hollow=True)], of_gradients),
    ]  # fmt: skip
    notes = ["Each line is labelled with what the scores are divided by.", *_explained(lesson), lesson.setting]
    if any(axis.is_log and (array == 0).any() for axis, array in ((of_typical, typical), (of_gradients, gradients))):
        notes.append("Gradients of 0 have no place on a logarithmic axis and are not drawn.")
    captions = [
        "Four line charts over d_k: entropy, largest weight, gradient of a typical query, gradients of W_q and W_k.",
        *(f"Scores divided by {name}: {' '.join(lesson.findings(name))}" for name in lesson.divisors), lesson.setting,
    ]  # fmt: skip
    body = charts(shown, sizes, across=2)
    return framed("Weights and gradients as d_k grows", notes, body, " ".join(captions), gap=8)


def _explained(lesson: ScalingLesson) -> list[str]:
    """What the figure shows, if it contains undivided scores and they behave as usual."""
    if "1" not in lesson.divisors or len(lesson.sizes) < 2:
        return []
    order = np.argsort(lesson.sizes, kind="stable")
    typical, of_weights = (lesson.curve(name, 1)[order] for name in ("typical_query", "gradient_q"))
    if not typical[-1] < typical.max() / 4 or not of_weights[-1] > 2 * of_weights[0]:
        return []
    return [
        "Divided by 1, the softmax saturates: a typical query hardly learns any more (its gradient vanishes), while "
        "the gradients of W_q and W_k grow, because of the few queries that are still undecided."
    ]


@sized
def pruning(
    curve: Sequence[tuple[int, Effect]], loss: float | None, model: str, **_options: Unpack[FigureOptions]
) -> Svg:
    """The next token's loss, where there is one, and the change of the hidden states, over the number of heads kept.

    curve  as from `Ablation.pruning`
    loss   of the whole model
    """
    kept = [count for count, _ in curve]
    hidden = np.array([effect.hidden for _, effect in curve])
    measured = [("Hidden state", "mean of ‖h′ − h‖ / ‖h‖ after the last layer", "change", hidden)]
    notes = ["Heads are kept in the order of what silencing each of them alone changes, the largest first."]
    if loss is not None:
        risen = np.array([loss + (effect.loss or 0.0) for _, effect in curve])
        measured.insert(0, ("Loss", "of the next token, in nats", "loss", risen))
        ends = f"{loss:.3f} with all heads, {risen[0]:.3f} with none"
        notes.append(f"The lower the loss, the better the next token is guessed: {ends}.")
    shown = [
        Chart(name, what, [Line(label, numbers, 0, hint=f"{name}, {label}")], linear(numbers))
        for name, what, label, numbers in measured
    ]
    body = charts(shown, kept, along="heads kept", is_log=False)
    described = f"Line charts over the number of heads kept, 0 to {kept[-1]}. {' '.join(notes)}"
    return framed(f"Pruning {printable(model)}, best heads first", notes, body, described, gap=8)


@sized
def comparison(result: Comparison, **_options: Unpack[FigureOptions]) -> Svg:
    """Accuracy of every network by distance to the right key and by number of pairs, means over the seeds."""
    panels = []
    for field, name, along in (
        ("by_distance", "Accuracy by distance", "distance to the right key, from"),
        ("by_pairs", "Accuracy by number of pairs", "pairs in the sequence"),
    ):
        curves = {network: result.curve(network, field) for network in result.networks}
        xs = sorted({at for curve in curves.values() for at in curve})
        lines = [
            Line(network, np.array([curve[at][0] if at in curve else np.nan for at in xs]), style, hint=network)
            for style, (network, curve) in enumerate(curves.items())
        ]
        if xs:
            what = f"mean of {len(result.of(result.networks[0]))} seeds"
            panels.append(charts([Chart(name, what, lines, linear(np.ones(1)))], xs, along=along))
    rows = result.tables()[0].rows
    accuracy = "; ".join(f"{name}: {mean:.3f} ({low:.3f} to {high:.3f})" for name, _, mean, low, high in rows)
    sizes = [row[1] for row in rows]
    notes = [
        f"Accuracy at full difficulty, mean and range over the seeds: {accuracy}.",
        f"{min(sizes):,} to {max(sizes):,} parameters, {result.steps:,} steps on the same batches.",
    ]
    title = f"The same task for networks of the same size: {printable(result.task)}"
    return framed(title, notes, beside(panels, BETWEEN), f"Line charts of accuracy. {' '.join(notes)}", gap=8)


@sized
def training(record: Record, **_options: Unpack[FigureOptions]) -> Svg:
    """Test loss and accuracy over the steps, and for each relation the accuracy of the best head at the end."""
    snapshots = [record.snapshots[index] for index in _spread(len(record.snapshots))]
    steps = [snapshot.step for snapshot in snapshots]
    loss = np.array([snapshot.test_loss for snapshot in snapshots])
    best = record.snapshots[-1].best_heads()
    heads = [
        Line(
            fitted(f"{printable(relation)}: {layer}.{head}", LONGEST_LABEL, LABEL),
            np.array([snapshot.head_accuracy[layer, head, index] for snapshot in snapshots]),
            index,
            hint=f"{relation}, layer {layer}, head {head}",
        )
        for index, (relation, (layer, head, _)) in enumerate(zip(record.relations, best, strict=True))
    ]
    accuracy = Line("accuracy", np.array([snapshot.accuracy for snapshot in snapshots]), 0, hint="accuracy")
    shares = linear(np.ones(1))
    shown = [
        Chart("Loss", "of test sequences", [Line("loss", loss, 0, hint="loss")], linear(loss)),
        Chart("Accuracy", "share of right tokens", [accuracy], shares),
        *([Chart("Heads", "largest weight on the right key", heads, shares)] if heads else []),
    ]
    notes = ["Heads are named layer.head, counted from 0; for each relation, the best one at the end."] if heads else []
    last = record.snapshots[-1]
    described = f"Line charts over {last.step:,} training steps. At the end: {last}."
    body = charts(shown, steps, along="step", is_log=False)
    return framed(f"Training on {printable(record.task)}", notes, body, described, gap=8)


def _spread(count: int) -> list[int]:
    """At most `MOST_POINTS` places, evenly spread, the first and the last among them."""
    step = max(1, math.ceil((count - 1) / (MOST_POINTS - 1)))
    return sorted({*range(0, count, step), count - 1})

"""Line charts: axes, lines with markers and labels; the lesson on √d_k, pruned heads, networks compared, training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Unpack

import numpy as np

from regard.output import colours, svg
from regard.output.characters import fitted, printable
from regard.output.panel import Numbers, scale_for
from regard.output.svg import Drawing, FigureOptions, Svg, framed, room, sized, text
from regard.tables import printed_number
from regard.teaching.scaled_scores import ScalingLesson

if TYPE_CHECKING:
    from regard.heads.ablation_effects import Effect
    from regard.training.compare import Comparison
    from regard.training.record import Record

PLOT = (216.0, 190.0)  # width and least height of the plotting area
INSET = 8.0  # of the first size, so that its markers do not touch the axis
BETWEEN = 30.0  # space between two panels
LABEL, TICK, NAME = 12.0, 11.0, 14.0
LEAST_PLOT = 74.0  # height at which the labels of six ticks do not touch
LABEL_PITCH = 15.0  # vertical distance of two labels

# Lines differ in colour, marker and dashes; each alone distinguishes four lines, and every line has a label.
COLOURS = ("#1d4f91", "#a3460f", "#23704f", "#7a3b8f")
DASHES = ("", "7 3.5", "2 3", "9 3 2 3")
SOLID, RING = 3.3, 5.4  # half the size of markers


@dataclass(frozen=True, eq=False, slots=True)
class Axis:
    """A vertical axis: maps numbers to heights, as shares of the plotting area."""

    lowest: float
    highest: float
    is_log: bool
    ticks: tuple[float, ...]

    def share(self, number: float) -> float:
        """0 at the bottom, 1 at the top; NaN for numbers off the axis."""
        if not math.isfinite(number) or (self.is_log and number <= 0):
            return math.nan
        low, high, at = (math.log10(part) if self.is_log else part for part in (self.lowest, self.highest, number))
        return (at - low) / (high - low)


@dataclass(frozen=True, eq=False, slots=True)
class Line:
    """One number per size."""

    name: str
    numbers: Numbers
    style: int
    hollow: bool = False  # drawn thin, with empty markers around those of another line, and without a label
    hint: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class Chart:
    """One plot: its name, what it shows, its lines and their vertical axis."""

    name: str
    what: str
    lines: Sequence[Line]
    axis: Axis

    @property
    def ticks(self) -> list[str]:
        """The labels of the vertical axis."""
        return [f"{tick:,g}".replace("-", "−") for tick in self.axis.ticks]

    @property
    def labelled(self) -> list[Line]:
        """The lines with a label at their end."""
        return [line for line in self.lines if not line.hollow]


def charts(
    shown: Sequence[Chart], sizes: Sequence[int], *, along: str = "d_k", is_log: bool = True, across: int = 3
) -> Drawing:
    """Charts over the same places, in rows of `across`; axes below each other are aligned.

    sizes    places on the horizontal axis, which is called `along` and logarithmic or not
    """
    height = max(room(PLOT[1]), LEAST_PLOT, *(LABEL_PITCH * len(chart.labelled) for chart in shown))
    rooms = [svg.widest(chart.ticks, TICK) + 8 for chart in shown]
    drawn = [
        _chart(chart, sizes, height, max(rooms[number % across :: across]), along, is_log)
        for number, chart in enumerate(shown)
    ]
    return svg.grid(drawn, across, room(BETWEEN))


def _chart(chart: Chart, sizes: Sequence[int], height: float, left: float, along: str, is_log: bool) -> Drawing:
    wide, axis = room(PLOT[0]), chart.axis
    top = NAME * 1.4 + LABEL * 1.4 + 10
    logs = [math.log2(size) if is_log else size for size in sizes]
    low, span = min(logs), max(logs) - min(logs)
    shares = [(at - low) / span if span else 0.5 for at in logs]  # a single size is in the middle
    xs = [left + INSET + (wide - INSET) * share for share in shares]
    parts = [text(chart.name, left, NAME * 0.6, NAME, bold=True)]
    parts.append(text(chart.what, left, NAME * 1.95, LABEL, fill=colours.MUTED))
    for tick, shown in zip(axis.ticks, chart.ticks, strict=True):
        y = top + height * (1 - axis.share(tick))
        parts.append(svg.line(left, y, left + wide, y, colours.RULE, 1 if tick != axis.ticks[0] else 1.5))
        parts.append(text(shown, left - 8, y, TICK, anchor="end", fill=colours.MUTED))
    parts += _sizes_below(sizes, xs, top + height)
    parts.append(
        text(along, left + wide / 2, top + height + 36, LABEL, anchor="middle", fill=colours.MUTED, italic=True)
    )
    for drawn_line in chart.lines:
        heights = [top + height * (1 - axis.share(number)) for number in drawn_line.numbers]
        parts += _drawn(drawn_line, along, sizes, list(zip(xs, heights, strict=True)))
    parts += _labels(chart.labelled, left + wide, top, height, axis)
    labels = 22 + svg.widest([drawn_line.name for drawn_line in chart.labelled], LABEL)
    wide = max(wide + labels, svg.widest([chart.name], NAME, bold=True), svg.widest([chart.what], LABEL))
    return Drawing(left + wide, top + height + 44, tuple(parts))


def _drawn(drawn_line: Line, along: str, sizes: Sequence[int], points: Sequence[tuple[float, float]]) -> list[str]:
    """The line, interrupted where a number is off the axis, and one marker per number."""
    colour = COLOURS[drawn_line.style % 4]
    parts = []
    for is_there, run in groupby(points, key=lambda point: math.isfinite(point[1])):
        if is_there:
            d = "L".join(f"{x:.2f} {y:.2f}" for x, y in run)
            dashes = DASHES[(drawn_line.style + drawn_line.style // 4) % 4]  # lines of one colour differ in these
            parts.append(svg.path(f"M{d}", colour, 1 if drawn_line.hollow else 1.8, dashes=dashes))
    for size, number, (x, y) in zip(sizes, drawn_line.numbers, points, strict=True):
        if not math.isfinite(y):
            continue
        shape = _marker(drawn_line.style, RING if drawn_line.hollow else SOLID)
        marker = svg.path(shape, colour, 1, fill="none" if drawn_line.hollow else colour)
        hint = f"{drawn_line.hint}, {along} = {size}: {printed_number(float(number), 4)}"
        parts.append(svg.group([marker, svg.rectangle(-6, -6, 12, 12, "transparent", hint=hint)], x, y))
    return parts


def _marker(style: int, reach: float) -> str:
    """A circle, a square, a triangle or a diamond about the origin."""
    r, half = reach, reach * 0.9
    return (
        f"M{-r:.1f} 0a{r:.1f} {r:.1f} 0 1 0 {2 * r:.1f} 0a{r:.1f} {r:.1f} 0 1 0 {-2 * r:.1f} 0z",
        f"M{-half:.1f} {-half:.1f}H{half:.1f}V{half:.1f}H{-half:.1f}z",
        f"M0 {-1.25 * r:.1f}L{1.2 * r:.1f} {0.85 * r:.1f}H{-1.2 * r:.1f}z",
        f"M0 {-1.3 * r:.1f}L{1.25 * r:.1f} 0L0 {1.3 * r:.1f}L{-1.25 * r:.1f} 0z",
    )[style % 4]


def _labels(lines: Sequence[Line], right: float, top: float, height: float, axis: Axis) -> list[str]:
    """The label of each line at its end, moved up or down to avoid overlap."""
    ends = []
    for labelled_line in lines:
        shares = [share for share in map(axis.share, labelled_line.numbers) if math.isfinite(share)]
        ends.append(top + height * (1 - shares[-1]) if shares else math.nan)
    named = sorted((y, index) for index, y in enumerate(ends) if math.isfinite(y))
    parts = []
    for (end, index), y in zip(named, _apart([end for end, _ in named], top, top + height), strict=True):
        colour = COLOURS[lines[index].style % 4]
        parts.append(svg.path(f"M{right + 5:.2f} {end:.2f}L{right + 17:.2f} {y:.2f}", colour, 0.8))
        parts.append(text(lines[index].name, right + 20, y, LABEL, fill=colour))
    return parts


def _apart(heights: Sequence[float], top: float, bottom: float) -> list[float]:
    """Heights close to these (ascending), at least a label's height apart, between top and bottom.

    >>> _apart([50.0, 52.0, 100.0], 0, 100)
    [50.0, 65.0, 100.0]
    """
    placed: list[float] = []
    for y in heights:
        placed.append(max(y, placed[-1] + LABEL_PITCH if placed else top))
    limit = bottom
    for index in reversed(range(len(placed))):
        placed[index] = min(placed[index], limit)
        limit = placed[index] - LABEL_PITCH
    return placed


def _sizes_below(sizes: Sequence[int], places: Sequence[float], y: float) -> list[str]:
    """One tick per size, labelled as densely as labels fit."""
    parts = [svg.line(x, y, x, y + 4, colours.MUTED) for x in places]
    different = list({f"{size:,}": x for size, x in zip(sizes, places, strict=True)}.items())
    for step in range(1, len(different) + 1):
        chosen = different[::step]
        widths = [svg.widest([shown], TICK) for shown, _ in chosen]
        gaps = [there - here for (_, here), (_, there) in pairwise(chosen)]
        if all(gap > (width + other) / 2 + 6 for gap, (width, other) in zip(gaps, pairwise(widths), strict=True)):
            break
    return [*parts, *(text(shown, x, y + 15, TICK, anchor="middle", fill=colours.MUTED) for shown, x in chosen)]


def linear(numbers: Numbers) -> Axis:
    """From 0 to the largest number, rounded up, with at most six ticks."""
    top = scale_for(numbers).top
    power = 10.0 ** math.floor(math.log10(top))
    step = next(part * power for part in (0.1, 0.2, 0.25, 0.5, 1, 2) if top <= part * power * 5.001)
    count = math.ceil(top / step - 1e-9)
    return Axis(0.0, step * count, False, tuple(step * index for index in range(count + 1)))


def logarithmic(numbers: Numbers) -> Axis:
    """Powers of ten around the numbers; linear if none is above zero."""
    above = numbers[np.isfinite(numbers) & (numbers > 0)]
    if not above.size:
        return linear(numbers)
    low = math.floor(math.log10(float(above.min())) + 1e-9)
    high = max(math.ceil(math.log10(float(above.max())) - 1e-9), low + 1)
    step = math.ceil((high - low) / 6)
    return Axis(10.0**low, 10.0**high, True, tuple(10.0**power for power in range(low, high + 1, step)))


# Figures of line charts

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
    return framed(title, notes, svg.beside(panels, BETWEEN), f"Line charts of accuracy. {' '.join(notes)}", gap=8)


@sized
def training(record: Record, **_options: Unpack[FigureOptions]) -> Svg:
    """Test loss and accuracy over the steps, and for each relation the accuracy of the best head at the end."""
    last = len(record.snapshots) - 1
    step = max(1, math.ceil(last / (MOST_POINTS - 1)))  # evenly spread, the first and the last among them
    snapshots = [record.snapshots[index] for index in sorted({*range(0, last + 1, step), last})]
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
    end = record.snapshots[-1]
    described = f"Line charts over {end.step:,} training steps. At the end: {end}."
    body = charts(shown, steps, along="step", is_log=False)
    return framed(f"Training on {printable(record.task)}", notes, body, described, gap=8)

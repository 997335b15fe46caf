"""Judging numbers: step by step, against exact ones and against what the notes' own earlier numbers give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.hand_check.calculating import WAYS, Way, computed, plain, ways_to, written_out
from regard.hand_check.given import HandNumber, Notes, Numbers, said_place
from regard.hand_check.naming import AXES, SAID, STEPS
from regard.hand_check.verdicts import Verdict, are_same, nearness
from regard.hand_check.written import Written
from regard.tables import printed_number

MOST_DIGITS = 12  # decimals that an exact number is shown with


@dataclass(frozen=True, eq=False)
class Line:
    """The calculation with one set of numbers: the exact ones, the notes' sound ones, or all of the notes'."""

    known: dict[str, Numbers]

    def results(self, step: str) -> list[tuple[Way, Numbers]]:
        """What comes out at a step, by every way to it."""
        return [(way, computed(way, self.known)) for way in ways_to(step, self.known)]

    def settle(self, step: str, shape: tuple[int, ...], numbers: Sequence[HandNumber]) -> None:
        """Go on with these numbers where they are given, and with the computed ones elsewhere."""
        results = self.results(step)
        array = results[0][1].copy() if results else np.full(shape, np.nan)
        for number in numbers:
            array[number.place] = number.written.value
        self.known[step] = array


def judged(notes: Notes) -> list[Verdict]:
    """A verdict for every shape that does not fit, and for every number, in the order of the steps."""
    verdicts = [
        Verdict("shape", misfit.step, misfit.came, None, "", misfit.because, misfit.step.partition(" ")[0])
        for misfit in notes.misfits
    ]
    exact, sound, own = (Line(dict(notes.known)) for _ in range(3))
    for step in STEPS:
        numbers = [number for number in notes.hand if number.step == step]
        if step in notes.known:
            pass
        elif not numbers and (step == "weighted_value" or not ways_to(step, exact.known)):
            continue  # all weighted values are n² · d numbers: only for somebody who wrote some down
        else:
            verdicts += _judge_step(step, numbers, notes.words, exact, sound, own)
        if step == "key":
            _set_divisor(notes, exact, sound, own)
    return verdicts


def _set_divisor(notes: Notes, *lines: Line) -> None:
    for line in lines:
        size = next((line.known[name].shape[1] for name in ("query", "key") if name in line.known), None)
        if notes.divisor is not None or size is not None:
            line.known["divisor"] = np.array(notes.divisor if notes.divisor is not None else (size or 1) ** 0.5)


def _judge_step(
    step: str, numbers: Sequence[HandNumber], words: tuple[str, ...], exact: Line, sound: Line, own: Line
) -> list[Verdict]:
    right, short, carried = exact.results(step), sound.results(step), own.results(step)
    verdicts, kept, start = [], [], []
    for number in numbers:
        verdict = _judge(number, words, exact, sound, own, (right, short, carried))
        verdicts.append(verdict)
        if verdict.kind == "unchecked":
            start.append(number)
        elif verdict.kind not in ("wrong", "follows"):
            kept.append(number)
    shape = _shape(step, numbers, len(words)) if not right else right[0][1].shape
    exact.settle(step, shape, start)
    sound.settle(step, shape, [*start, *kept])
    own.settle(step, shape, numbers)
    return verdicts


def _shape(step: str, numbers: Sequence[HandNumber], words: int) -> tuple[int, ...]:
    sizes = [max(number.place[axis] for number in numbers) + 1 for axis in range(len(AXES[step]))]
    return tuple(size if axis.endswith("size") else words for axis, size in zip(AXES[step], sizes, strict=True))


def _judge(
    number: HandNumber,
    words: tuple[str, ...],
    exact: Line,
    sound: Line,
    own: Line,
    results: tuple[list[tuple[Way, Numbers]], ...],
) -> Verdict:
    step, place, written = number.step, number.place, number.written
    what = said_place(step, place, words)
    right, short, carried = results
    value = float(right[0][1][place]) if right else float("nan")
    if np.isnan(value):
        because = f"needs {' and '.join(SAID.get(name, 'd_k') for name in WAYS[step][-1].needs)}; taken as it is"
        return Verdict("unchecked", what, written.text, None, "", because, step, place)
    near = nearness(written, value)
    shown = exactly(value, written)
    if near == "right":
        return Verdict("right", what, written.text, value, shown, "", step, place)
    if near == "rounded":
        return Verdict("rounded", what, written.text, value, shown, f"{shown} rounded", step, place)
    for accepted in (("right", "rounded"), ("cut",)):
        line = _from_notes(number, value, sound, short, accepted)
        if line and not (near == "cut" and accepted == ("cut",)):
            because = f"{line}, from the notes' own shortened numbers"
            return Verdict("carried on", what, written.text, value, shown, because, step, place)
        if near == "cut":
            because = f"{shown} cut off; rounded it is {printed_number(value, max(written.digits, 0))}"
            return Verdict("cut", what, written.text, value, shown, because, step, place)
    way = right[-1][0]
    line = _from_notes(number, value, own, carried, ("right", "rounded", "cut"))
    if line:
        because = f"{line} from a wrong number before it; right is {written_out(way, exact.known, place, value)}"
        return Verdict("follows", what, written.text, value, shown, because, step, place)
    return Verdict("wrong", what, written.text, value, shown, written_out(way, exact.known, place, value), step, place)


def _from_notes(
    number: HandNumber, exact: float, line: Line, results: list[tuple[Way, Numbers]], accepted: tuple[str, ...]
) -> str:
    """The calculation that gives this number from the notes' own, if one does."""
    for way, array in results:
        value = float(array[number.place])
        if not are_same(value, exact) and nearness(number.written, value) in accepted:
            return written_out(way, line.known, number.place, value)
    return ""


def exactly(value: float, written: Written) -> str:
    """The exact number, with two more decimals than were written; fewer where it ends before that.

    >>> exactly(0.155362, Written("0.15", 0.15, 2)), exactly(2.0, Written("3", 3.0, 0))
    ('0.1554', '2')
    """
    digits = min(max(written.digits, 0) + 2, MOST_DIGITS)
    if are_same(value, round(value, digits)):
        return plain(value)
    return printed_number(value, digits)

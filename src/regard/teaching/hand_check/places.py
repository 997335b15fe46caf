"""Where a cell belongs: labels to head, query, key and component, or why they do not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from regard.errors import OptionError, ShapeError, count
from regard.teaching.hand_check.document import OCCURRENCE, Cell, Index, Label
from regard.teaching.hand_check.notation import AXES, HEADLESS, SPELLING_OF
from regard.trace.labels import numbered, place_of

PROJECTIONS = {"query": "W_q", "key": "W_k", "value": "W_v"}
MOST_HEADS = 1024
Place = tuple[int, ...]  # head (except for HEADLESS steps), then along the axes of the step


@dataclass(frozen=True)
class Misfit:
    """Something with a shape that does not fit, and the shape that would."""

    step: str
    came: str
    because: str


@dataclass(eq=False)
class Frame:
    """The words along the axes, and the number of heads."""

    words: tuple[str, ...]  # of the queries
    key_words: tuple[str, ...]
    heads: int = 1

    @cached_property
    def labels(self) -> dict[str, list[str]]:
        """The words along each axis, repeated ones numbered."""
        return {"query": numbered(self.words), "key": numbered(self.key_words)}

    def name(self, step: str, place: Sequence[int]) -> str:
        """A step and a place in it: "weight The → cat", "output The [2], head 1"."""
        has_head = step not in HEADLESS
        axes = list(zip(AXES[step], place[has_head:], strict=False))
        words = " → ".join(self.labels[axis][index] for axis, index in axes if axis in self.labels)
        component = "".join(f" [{index}]" for axis, index in axes if axis not in self.labels)
        head = f", head {place[0]}" if has_head and place and self.heads > 1 else ""
        return f"{step.replace('_', ' ')} {words}{component}{head}".strip()


def word_index(axis: str, label: str, words: Sequence[str]) -> int:
    """The position of a word: `the:2` and `the (2)` are the second of them."""
    match = OCCURRENCE.fullmatch(label)
    return place_of(axis, f"{match[1]}:{match[2][:9]}" if match and label not in words else label, words)


def locate(cell: Cell, frame: Frame, sizes: Mapping[str, int], source: str) -> tuple[str, Place] | Misfit:
    """The step and the place of a cell; for one that was left blank, perhaps that of a whole vector."""
    step, labels, head = cell.step, cell.labels, cell.head
    if step not in HEADLESS and head is None and frame.heads > 1:
        if step in PROJECTIONS and len(labels) == 2 and isinstance(labels[1], Index):
            head, labels = _split(cell, labels[1], frame.heads)
        elif step == "output":  # the outputs of all heads side by side
            step = "concatenated"
        else:
            raise OptionError(
                f"{cell.where}: which head is {step.replace('_', ' ')} for? There are {frame.heads}.\n"
                'Name it in the line above the table, as in "Query cat, head 1", or give one matrix per head.'
            )
    if (head or 0) >= frame.heads:
        raise no_head(cell.where or source, head, frame.heads)
    cell_index: Place = () if step in HEADLESS else (head or 0,)
    axes = AXES[step]
    for axis, label in zip(axes, labels, strict=False):
        size = len(frame.labels[axis]) if axis in frame.labels else sizes[axis]
        if isinstance(label, Index) and label.length != size:
            noun = "row" if len(labels) > len(cell_index) - (step not in HEADLESS) + 1 else "number"
            return _unequal(frame, step, cell_index, count(label.length, noun), axis, size)
        cell_index = (*cell_index, label.at if isinstance(label, Index) else _index(axis, label, frame, size))
    missing = axes[len(labels) :]
    if len(labels) > len(axes):
        extra = labels[len(axes)]
        came = count(extra.length if isinstance(extra, Index) else 1, "number")
        return Misfit(frame.name(step, cell_index), came, "expected one number")
    if missing and cell.text is not None:
        size = len(frame.labels[missing[0]]) if missing[0] in frame.labels else sizes[missing[0]]
        return _unequal(frame, step, cell_index, count(1, "number"), missing[0], size)
    return step, cell_index


def no_head(where: str, head: int | None, heads: int) -> OptionError:
    """A head that is not there."""
    return OptionError(f"{where}: there is no head {head}: there are {heads}, counted from 0.")


def _unequal(frame: Frame, step: str, place: Place, came: str, axis: str, size: int) -> Misfit:
    expected = count(size, "word") if axis in frame.labels else f"vectors of {size}"
    return Misfit(frame.name(step, place), came, f"{came} for {expected}")


def _split(cell: Cell, component: Index, heads: int) -> tuple[int, tuple[Label, ...]]:
    """The head and the component in it, of vectors of all heads side by side."""
    size, rest = divmod(component.length, heads)
    if rest or not size:
        raise ShapeError(
            f"`{SPELLING_OF[cell.step]}`: {count(component.length, 'number')} cannot be split among {heads} heads."
        )
    return component.at // size, (cell.labels[0], Index(component.at % size, size))


def _index(axis: str, label: str, frame: Frame, size: int) -> int:
    if axis in frame.labels:
        return word_index(axis, label, frame.words if axis == "query" else frame.key_words)
    if label.isdecimal() and len(label) < 9 and int(label) < size:
        return int(label)
    raise OptionError(f"Component {label!r} is out of range: the vector has {count(size, 'number')}, counted from 0.")


# Heads that are the outermost level of nested lists and dictionaries


def has_head_level(cell: Cell, words: Sequence[str] = ()) -> bool:
    """Whether the first label of a cell is a head."""
    if cell.head is not None or cell.step in (*HEADLESS, "W_O"):
        return False
    axes = len(AXES[cell.step]) if cell.step in AXES else 2 if cell.step.startswith("W") else len(cell.labels)
    return len(cell.labels) > axes and cell.labels[0] not in words


def name_heads(cells: Sequence[Cell], frame: Frame) -> tuple[list[Cell], list[Misfit]]:
    """The cells with their heads taken from their labels; those of steps with too many heads are left out."""
    by_step: dict[str, list[Cell]] = {}
    for cell in cells:
        if has_head_level(cell, frame.words):
            by_step.setdefault(cell.step, []).append(cell)
    numbers: dict[str, dict[Label, int]] = {}
    misfits = []
    for step, of_step in by_step.items():
        labels = list(dict.fromkeys(cell.labels[0] for cell in of_step))
        heads = _head_numbers(labels, frame.heads)
        if heads is None:
            came = labels[0].length if isinstance(labels[0], Index) else len(labels)
            because = f"there {'is' if frame.heads == 1 else 'are'} {count(frame.heads, 'head')}"
            misfits.append(Misfit(step.replace("_", " "), count(came, "head"), because))
        numbers[step] = heads or {}
    named = []
    for cell in cells:
        if cell.step not in numbers or not has_head_level(cell, frame.words):
            named.append(cell)
        elif (head := numbers[cell.step].get(cell.labels[0])) is not None:
            named.append(replace(cell, head=head, labels=cell.labels[1:]))
    return named, misfits


def _head_numbers(labels: Sequence[Label], heads: int) -> dict[Label, int] | None:
    """The number of each head: positions of a list of all, or names with numbers, counted from 0 or from 1."""
    if all(isinstance(label, Index) and label.length == heads for label in labels):
        return {label: label[0] for label in labels if isinstance(label, Index)}
    digits = ["".join(filter(str.isdecimal, str(label)))[:9] for label in labels if isinstance(label, str)]
    if len(digits) < len(labels) or not all(digits):
        return None
    numbers = [int(number) for number in digits]
    base = 1 if min(numbers) == 1 and max(numbers) == heads else 0
    if len(set(numbers)) < len(numbers) or max(numbers) - base >= heads:
        return None
    return {label: number - base for label, number in zip(labels, numbers, strict=True)}

"""Notes: the inputs of a calculation, and the numbers that were calculated by hand from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.errors import OptionError, count
from regard.masks import allowed
from regard.teaching.hand_check.documents import Document, Entry
from regard.teaching.hand_check.inputs import (
    PROJECTIONS,
    Inputs,
    WrongShape,
    axis_count,
    inputs_of,
    part_rows,
    word_place,
)
from regard.teaching.hand_check.notation import AFTER_HEADS, AXES, STEPS, Written, is_blank, written

Cell = TypeVar("Cell", "Claim", "Blank")
MANY = 4_000_000  # weights of all heads, beyond which only the queries with claims are computed


@dataclass(frozen=True)
class Claim:
    """One number calculated by hand."""

    step: str
    place: tuple[int, ...]  # head (not after the heads), then along the axes of the step
    written: Written


@dataclass(frozen=True)
class Blank:
    """A cell that was left blank: one number, or a vector."""

    step: str
    place: tuple[int, ...]  # as in `Claim`, without the last axis for a vector


@dataclass(eq=False)
class Notes:
    """Inputs and claims."""

    inputs: Inputs
    claims: list[Claim] = field(default_factory=list)
    misfits: list[WrongShape] = field(default_factory=list)
    blanks: list[Blank] = field(default_factory=list)
    decimals: int = 0  # that a rounded number has at least

    def missing(self) -> list[Blank]:
        """Blank cells whose number is nowhere in the notes; a key that a query may not see needs none."""
        if not self.blanks:
            return []
        known = {(claim.step, claim.place[:end]) for claim in self.claims for end in range(len(claim.place) + 1)}
        visible = self.inputs.visible()
        return [
            blank
            for blank in sorted(dict.fromkeys(self.blanks), key=lambda blank: (STEPS.index(blank.step), blank.place))
            if (blank.step, blank.place) not in known
            and blank.step not in self.inputs.parts
            and (visible is None or AXES[blank.step][:2] != ("query", "key") or _is_visible(visible, blank.place))
        ]

    def said(self, step: str, place: Sequence[int]) -> str:
        """A step and a place in it: "weight The → cat", "output The [2], head 1"."""
        return said_place(step, place, self.inputs)


def _is_visible(visible: NDArray[np.bool_], place: tuple[int, ...]) -> bool:
    """Whether a place, or any key of a row, may be seen."""
    return bool(visible[place[1:3]].any())


def notes_of(document: Document, decimals: int = 0) -> Notes:
    """The notes that a document holds, with every vector and number checked for form."""
    inputs = inputs_of(document)
    notes = Notes(inputs, misfits=inputs.misfits, decimals=decimals)
    sizes = _sizes(document, inputs)
    for step in STEPS:
        for entry in document.of(step):
            if step in inputs.parts:
                _repeated_parts(notes, entry, document.source)
            elif step in PROJECTIONS and inputs.heads > 1 and entry.head is None and axis_count(entry.content) < 3:
                for head, place, vector in _split(notes, entry, step, document.source):
                    _walk(notes, entry, vector, AXES[step][1:], sizes, (head, place))
            else:
                _walk_entry(notes, entry, sizes)
    for blank in document.blanks:
        if inputs.heads == 1 or blank.head is not None or blank.step in AFTER_HEADS:
            _walk_entry(notes, blank, sizes)
    if not notes.claims and not notes.misfits and not notes.blanks:
        raise OptionError(
            f"{document.source} holds no number that was calculated by hand.\n"
            "Give any of: scores, scaled, masked, weights, weighted values, outputs, concatenated, projected."
        )
    notes.misfits = list(dict.fromkeys(notes.misfits))
    _infer_mask(notes)
    size = inputs.heads * len(inputs.words) * len(inputs.key_words)
    return _only_claimed_queries(notes) if size > MANY else notes


def _only_claimed_queries(notes: Notes) -> Notes:
    """The notes without the queries that no claim is about: for one query of a long text, O(n) instead of O(n²)."""
    inputs = notes.inputs
    axes = {step: AXES[step].index("query") + (step not in AFTER_HEADS) for step in STEPS if "query" in AXES[step]}
    every: tuple[Claim | Blank, ...] = (*notes.claims, *notes.blanks)
    cells = [cell for cell in every if len(cell.place) > axes.get(cell.step, len(cell.place))]
    kept = sorted({cell.place[axes[cell.step]] for cell in cells})
    new = {old: place for place, old in enumerate(kept)}
    fewer = replace(inputs, words=tuple(inputs.labels["query"][place] for place in kept), parts=dict(inputs.parts))
    if inputs.x is not None:
        fewer.x, fewer.context = inputs.x[kept], inputs.x if inputs.context is None else inputs.context
    if "query" in inputs.parts:
        fewer.parts["query"] = inputs.parts["query"][:, kept]
    if inputs.mask is not None:
        rows = [inputs.visible_row(place) for place in kept]
        fewer.mask = allowed(np.stack(rows)) if rows else None

    def moved(cell: Cell) -> Cell:
        place = list(cell.place)
        if len(place) > axes.get(cell.step, len(place)):
            place[axes[cell.step]] = new[place[axes[cell.step]]]
        return replace(cell, place=tuple(place))

    claims, blanks = list(map(moved, notes.claims)), list(map(moved, notes.blanks))
    return Notes(fewer, claims, notes.misfits, blanks, notes.decimals)


def _split(notes: Notes, entry: Entry, step: str, source: str) -> list[tuple[int, int, Any]]:
    words = notes.inputs.words if step == "query" else notes.inputs.key_words
    return part_rows(entry, step, words, notes.inputs.heads, source)


def _repeated_parts(notes: Notes, entry: Entry, source: str) -> None:
    """q, k or v that the calculation starts from may be printed again; a copy that differs is a claim to check."""
    begun = notes.inputs.parts[entry.step]
    for head, place, vector in _split(notes, entry, entry.step, source):
        for component, raw in enumerate(vector if isinstance(vector, list) else []):
            number = written(raw, f"{source}, {entry.step}", notes.decimals)
            if component < begun.shape[-1] and number.value != begun[head, place, component]:
                notes.claims.append(Claim(entry.step, (head, place, component), number))


def _walk_entry(notes: Notes, entry: Entry, sizes: Mapping[str, int]) -> None:
    """Every number of an entry with its place; labels of the path first."""
    step, axes, inputs = entry.step, AXES[entry.step], notes.inputs
    content = entry.content
    if step in AFTER_HEADS:
        _walk_path(notes, entry, content, axes, sizes, ())
        return
    depth = axis_count(content) + len(entry.path)
    head = entry.head
    if head is None and depth > len(axes) and not _has_words(content, inputs):
        parts = _head_parts(content, inputs.heads)
        if parts is None:
            given = count(len(content), "head") if isinstance(content, (list, dict)) else "one number"
            because = f"there {'is' if inputs.heads == 1 else 'are'} {count(inputs.heads, 'head')}"
            notes.misfits.append(WrongShape(step.replace("_", " "), given, because))
            return
        for one, part in parts:
            _walk_path(notes, entry, part, axes, sizes, (one,))
        return
    if head is None and inputs.heads > 1:
        if step == "output":  # the outputs of all heads side by side
            _walk_path(notes, replace(entry, step="concatenated"), content, AXES["concatenated"], sizes, ())
            return
        raise OptionError(
            f"{entry.where}: which head is {step.replace('_', ' ')} for? There are {inputs.heads}.\n"
            'Name it in the line above the table, as in "Query cat, head 1", or give one matrix per head.'
        )
    if (head or 0) >= inputs.heads:
        raise OptionError(f"{entry.where}: there is no head {head}: there are {inputs.heads}, counted from 0.")
    _walk_path(notes, entry, content, axes, sizes, (head or 0,))


def _has_words(content: Any, inputs: Inputs) -> bool:
    """Whether the outermost level is labelled by words rather than by heads."""
    return isinstance(content, dict) and any(label in inputs.words for label in content)


def _head_parts(content: Any, heads: int) -> list[tuple[int, Any]] | None:
    """The parts of each head: a list of all, or a dictionary by number, counted from 0 or from 1."""
    if isinstance(content, list):
        return list(enumerate(content)) if len(content) == heads else None
    digits = ["".join(filter(str.isdecimal, str(name)))[:9] for name in content]
    if not all(digits):
        return None
    numbers = [int(number) for number in digits]
    base = 1 if min(numbers) == 1 and max(numbers) == heads else 0
    if len(set(numbers)) < len(numbers) or max(numbers) - base >= heads:
        return None
    return list(zip([number - base for number in numbers], content.values(), strict=True))


def _walk_path(
    notes: Notes, entry: Entry, content: Any, axes: Sequence[str], sizes: Mapping[str, int], place: tuple[int, ...]
) -> None:
    for label, axis in zip(entry.path, axes, strict=False):
        place = (*place, _place(notes, axis, label, sizes[axis]))
    _walk(notes, entry, content, axes[len(entry.path) :], sizes, place)


def _walk(
    notes: Notes, entry: Entry, raw: Any, axes: Sequence[str], sizes: Mapping[str, int], place: tuple[int, ...]
) -> None:
    """Every number below; what has another shape is recorded as a misfit and left out."""
    if raw is None or (isinstance(raw, str) and is_blank(raw)):
        notes.blanks.append(Blank(entry.step, place))
        return
    if not axes:
        where = notes.said(entry.step, place)
        if isinstance(raw, (list, dict)):
            notes.misfits.append(WrongShape(where, count(len(raw), "number"), "expected one number"))
            return
        number = written(raw, f"{entry.where}, {where}", notes.decimals)
        if math.isinf(number.value) and entry.step not in ("score", "scaled", "masked"):
            raise OptionError(
                f"{entry.where}, {where}: {number.text} is not a finite number.\nOnly a masked score may be −∞."
            )
        notes.claims.append(Claim(entry.step, place, number))
        return
    axis, size = axes[0], sizes[axes[0]]
    first, expected = entry.rows if entry.rows is not None and axis == "query" else (0, size)
    if isinstance(raw, dict):
        for label, part in raw.items():
            _walk(notes, entry, part, axes[1:], sizes, (*place, _place(notes, axis, label, size)))
    elif isinstance(raw, list) and len(raw) == expected and first + expected <= size:
        for index, part in enumerate(raw):
            _walk(notes, entry, part, axes[1:], sizes, (*place, first + index))
    else:
        came = len(raw) if isinstance(raw, list) else 1
        noun = "row" if isinstance(raw, list) and raw and isinstance(raw[0], (list, dict)) else "number"
        wanted = count(expected, "word") if axis in ("query", "key") else f"vectors of {size}"
        where = notes.said(entry.step, place)
        notes.misfits.append(WrongShape(where, count(came, noun), f"{count(came, noun)} for {wanted}"))


def _place(notes: Notes, axis: str, label: Any, size: int) -> int:
    if axis in ("query", "key"):
        return word_place(axis, label, notes.inputs.words if axis == "query" else notes.inputs.key_words)
    text = str(label)
    if text.isdecimal() and len(text) < 9 and int(text) < size:
        return int(text)
    raise OptionError(f"Component {text!r} is out of range: the vector has {count(size, 'number')}, counted from 0.")


def _sizes(document: Document, inputs: Inputs) -> dict[str, int]:
    """The length of each axis; vectors of unknown size are as long as the first one given."""
    sizes = {"query": len(inputs.words), "key": len(inputs.key_words)}

    def of_matrix(name: str) -> list[int]:
        return [inputs.matrices[name].shape[1] // inputs.heads] if name in inputs.matrices else []

    def of_parts(step: str) -> list[int]:
        return [inputs.parts[step].shape[-1]] if step in inputs.parts else []

    def of_entries(*steps: str) -> list[int]:
        return [_length(entry.content) for step in steps for entry in document.of(step)]

    keys = [*of_matrix("W_q"), *of_matrix("W_k"), *of_parts("query"), *of_parts("key")]
    values = [*of_matrix("W_v"), *of_parts("value")]
    sizes["head_dim"] = [*keys, *of_entries("query", "key"), 0][0]
    sizes["value_dim"] = [*values, *of_entries("value", "weighted_value", "output"), 0][0]
    wide = [inputs.heads * size for size in values]
    sizes["concatenated width"] = [*wide, *of_entries("concatenated"), inputs.heads * sizes["value_dim"]][0]
    through = [inputs.matrices["W_O"].shape[1]] if "W_O" in inputs.matrices else []
    sizes["output width"] = [*through, *of_entries("projected"), 0][0]
    return sizes


def _length(part: Any) -> int:
    """The length of the first vector in here."""
    if isinstance(part, (list, dict)) and part:
        inner = next(iter(part.values() if isinstance(part, dict) else part))
        return _length(inner) if isinstance(inner, (list, dict)) else len(part)
    return 0


def _infer_mask(notes: Notes) -> None:
    """Without a mask in the notes, scores of −∞ in the column `masked` define it."""
    inputs = notes.inputs
    masked = [claim for claim in notes.claims if claim.step == "masked"]
    hidden = [claim.place for claim in masked if math.isinf(claim.written.value)]
    if inputs.mask is None and masked:
        seen = np.ones((len(inputs.words), len(inputs.key_words)), bool)
        for _, query, key in hidden:
            seen[query, key] = False
        inputs.mask = allowed(seen)


def said_place(step: str, place: Sequence[int], inputs: Inputs) -> str:
    """A step and a place in it."""
    has_head = step not in AFTER_HEADS
    named = list(zip(AXES[step], place[has_head:], strict=False))
    labels = inputs.labels
    words = " → ".join(labels[axis][index] for axis, index in named if axis in labels)
    component = "".join(f" [{index}]" for axis, index in named if axis not in labels)
    head = f", head {place[0]}" if has_head and place and inputs.heads > 1 else ""
    return f"{step.replace('_', ' ')} {words}{component}{head}".strip()

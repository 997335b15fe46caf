"""The numbers that were calculated by hand, each with its place in its step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from regard.errors import OptionError, RegardError, count
from regard.masks import allowed
from regard.teaching.hand_check.document import Cell, Document, Index
from regard.teaching.hand_check.inputs import Indices, Inputs, Misfit, no_head, word_index
from regard.teaching.hand_check.notation import AXES, HEADLESS, STEPS, WITH_HEAD, Written, is_blank, written

MANY = 4_000_000  # weights of all heads, beyond which only the queries with claims are computed


@dataclass(frozen=True, slots=True)
class Claim:
    """One number calculated by hand."""

    step: str
    index: Indices
    written: Written


@dataclass(eq=False)
class Claims:
    """What was calculated by hand from some inputs."""

    inputs: Inputs
    numbers: list[Claim] = field(default_factory=list)
    blanks: list[tuple[str, Indices]] = field(default_factory=list)  # the place of a vector ends before the last axis
    misfits: list[Misfit] = field(default_factory=list)
    unreadable: dict[tuple[str, Indices], tuple[str, str]] = field(default_factory=dict)  # as written, and why

    def missing(self) -> list[tuple[str, Indices]]:
        """Blank cells whose number is nowhere in the notes; a key that a query may not see needs none."""
        numbers = {(claim.step, claim.index[:end]) for claim in self.numbers for end in range(len(claim.index) + 1)}
        visible = self.inputs.visible() if self.blanks else None
        return [
            (step, cell)
            for step, cell in sorted({*self.blanks}, key=lambda blank: (STEPS.index(blank[0]), blank[1]))
            if (step, cell) not in numbers | self.unreadable.keys()
            and step not in self.inputs.parts
            and (visible is None or AXES[step][:2] != ("query", "key") or visible[cell[1:3]].any())
        ]


def claims_of(document: Document, inputs: Inputs, decimals: int = 0) -> Claims:
    """The claims that a document holds, in the order of the steps."""
    claims = Claims(inputs, misfits=inputs.misfits)
    sizes = _sizes(document, inputs)
    for cell in sorted((cell for cell in document.cells if cell.step in AXES), key=lambda cell: STEPS.index(cell.step)):
        if cell.text is None and inputs.heads > 1 and cell.head is None and cell.step not in HEADLESS:
            continue  # which head is not known
        try:
            _add(claims, cell, sizes, document, decimals)
        except RegardError as problem:
            document.problem(problem)
    claims.misfits = list(dict.fromkeys(claims.misfits))
    return claims


def _add(claims: Claims, cell: Cell, sizes: Mapping[str, int], document: Document, decimals: int) -> None:
    inputs, step = claims.inputs, cell.step
    index = locate(cell, inputs, sizes)
    if isinstance(index, Misfit):
        claims.misfits += [] if step in inputs.parts else [index]  # a vector that is printed again, shortened
        return
    if is_blank(cell.text):
        claims.blanks.append((step, index))
        return
    try:
        may_be_masked = step in ("score", "scaled", "masked")
        number = written(cell.text, f"{cell.where}, {inputs.name(step, index)}", decimals, may_be_masked=may_be_masked)
    except OptionError as problem:
        if document.remarks is None:
            raise
        claims.unreadable[step, index] = str(cell.text), str(problem).partition("\n")[0].partition(": ")[2]
        return
    # q, k and v that the calculation starts from may be printed again; a copy that differs is checked.
    if step not in inputs.parts or number.value != inputs.parts[step][index]:
        claims.numbers.append(Claim(step, index, number))


def locate(cell: Cell, inputs: Inputs, sizes: Mapping[str, int]) -> Indices | Misfit:
    """The place of a cell in its step; of one that was left blank, perhaps that of a whole vector."""
    step, labels, axes = cell.step, cell.labels, AXES[cell.step]
    has_head = step not in HEADLESS
    if has_head and cell.head is None and inputs.heads > 1:
        raise OptionError(
            f"{cell.where}: which head is {step.replace('_', ' ')} for? There are {inputs.heads}.\n"
            'Name it in the line above the table, as in "Query cat, head 1", or give one matrix per head.'
        )
    if (cell.head or 0) >= inputs.heads:
        raise no_head(cell.where, cell.head, inputs.heads)
    index: Indices = (cell.head or 0,) if has_head else ()

    def misfit(came: str, axis: str) -> Misfit:
        expected = count(sizes[axis], "word") if axis in inputs.labels else f"vectors of {sizes[axis]}"
        return Misfit(inputs.name(step, index), came, f"{came} for {expected}")

    for at, (axis, label) in enumerate(zip(axes, labels, strict=False)):
        if isinstance(label, Index):
            if label.length != sizes[axis]:
                return misfit(count(label.length, "row" if at + 1 < len(labels) else "number"), axis)
            index = (*index, label.at)
        elif axis in inputs.labels:
            index = (*index, word_index(axis, label, inputs.words if axis == "query" else inputs.key_words))
        elif label.isdecimal() and len(label) < 9 and int(label) < sizes[axis]:
            index = (*index, int(label))
        else:
            came = f"the vector has {count(sizes[axis], 'number')}, counted from 0"
            raise OptionError(f"Component {label!r} is out of range: {came}.")
    if len(labels) > len(axes):
        extra = labels[len(axes)]
        came = count(extra.length if isinstance(extra, Index) else 1, "number")
        return Misfit(inputs.name(step, index), came, "expected one number")
    if len(labels) < len(axes) and cell.text is not None:
        return misfit(count(1, "number"), axes[len(labels)])
    return index


def _sizes(document: Document, inputs: Inputs) -> dict[str, int]:
    """The length of each axis; vectors of unknown size are as long as the first one given."""

    def size(*names: str) -> int:
        for name in names:
            if name in inputs.matrices:
                return int(inputs.matrices[name].shape[1]) // (1 if name == "W_O" else inputs.heads)
            if name in inputs.parts:
                return int(inputs.parts[name].shape[-1])
            for cell in document.of(name):
                if len(cell.labels) == len(AXES.get(name, ())) and isinstance(cell.labels[-1], Index):
                    return cell.labels[-1].length
        return 0

    value_dim = size("W_v", "value", "weighted_value", "output")
    return {
        "query": len(inputs.words),
        "key": len(inputs.key_words),
        "width": 0 if inputs.x is None else inputs.x.shape[1],
        "head_dim": size("W_q", "W_k", "query", "key"),
        "value_dim": value_dim,
        "concatenated_width": inputs.heads * size("W_v", "value") or size("concatenated") or inputs.heads * value_dim,
        "output_width": size("W_O", "projected"),
    }


def infer_mask(claims: Claims) -> None:
    """Without a mask in the notes, scores of −∞ in the column `masked` define it."""
    inputs = claims.inputs
    masked = [claim for claim in claims.numbers if claim.step == "masked"]
    if inputs.mask is None and masked:
        seen = np.ones((len(inputs.words), len(inputs.key_words)), bool)
        for claim in masked:
            seen[claim.index[1:]] &= not math.isinf(claim.written.value)
        inputs.mask = allowed(seen)


def keep_claimed_queries(claims: Claims) -> Claims:
    """The claims without the queries that none is about: for one query of a long text, O(n) instead of O(n²)."""
    inputs = claims.inputs
    if inputs.heads * len(inputs.words) * len(inputs.key_words) <= MANY:
        return claims
    axes = {step: axes.index("query") for step, axes in WITH_HEAD.items() if "query" in axes}
    cells = [*((claim.step, claim.index) for claim in claims.numbers), *claims.blanks]
    kept = sorted({cell[axes[step]] for step, cell in cells if len(cell) > axes.get(step, len(cell))})
    fewer = replace(inputs, words=tuple(inputs.labels["query"][query] for query in kept), parts=dict(inputs.parts))
    if inputs.x is not None:
        fewer.x, fewer.context = inputs.x[kept], inputs.x if inputs.context is None else inputs.context
    if "query" in inputs.parts:
        fewer.parts["query"] = inputs.parts["query"][:, kept]
    if inputs.mask is not None and kept:
        rows = [inputs.visible(slice(query, query + 1)) for query in kept]
        fewer.mask = allowed(np.concatenate([row for row in rows if row is not None]))

    def move(step: str, index: Indices) -> Indices:
        at = axes.get(step, len(index))
        return (*index[:at], kept.index(index[at]), *index[at + 1 :]) if len(index) > at else index

    numbers = [replace(claim, index=move(claim.step, claim.index)) for claim in claims.numbers]
    return replace(claims, inputs=fewer, numbers=numbers, blanks=[(step, move(step, at)) for step, at in claims.blanks])

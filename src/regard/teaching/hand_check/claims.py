"""The numbers that were calculated by hand, each with its place in its step."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from regard.errors import OptionError, RegardError
from regard.masks import allowed
from regard.teaching.hand_check.document import Cell, Document, Index
from regard.teaching.hand_check.inputs import Inputs
from regard.teaching.hand_check.notation import AXES, HEADLESS, STEPS, Written, is_blank, written
from regard.teaching.hand_check.places import PROJECTIONS, Misfit, Place, locate

MANY = 4_000_000  # weights of all heads, beyond which only the queries with claims are computed


@dataclass(frozen=True, slots=True)
class Claim:
    """One number calculated by hand."""

    step: str
    place: Place
    written: Written


@dataclass(eq=False)
class Claims:
    """What was calculated by hand from some inputs."""

    inputs: Inputs
    numbers: list[Claim] = field(default_factory=list)
    blanks: list[tuple[str, Place]] = field(default_factory=list)  # the place of a vector ends before the last axis
    misfits: list[Misfit] = field(default_factory=list)
    unreadable: dict[tuple[str, Place], tuple[str, str]] = field(default_factory=dict)  # as written, and why

    def missing(self) -> list[tuple[str, Place]]:
        """Blank cells whose number is nowhere in the notes; a key that a query may not see needs none."""
        numbers = {(claim.step, claim.place[:end]) for claim in self.numbers for end in range(len(claim.place) + 1)}
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


def _add(claims: Claims, cell: Cell, sizes: dict[str, int], document: Document, decimals: int) -> None:
    inputs = claims.inputs
    located = locate(cell, inputs, sizes, document.source)
    if isinstance(located, Misfit):
        if cell.step not in inputs.parts:  # a vector that is printed again, shortened
            claims.misfits.append(located)
        return
    step, position = located
    if is_blank(cell.text):
        claims.blanks.append((step, position))
        return
    try:
        number = written(cell.text, f"{cell.where}, {inputs.name(step, position)}", decimals)
        if math.isinf(number.value) and step not in ("score", "scaled", "masked"):
            raise OptionError(
                f"{cell.where}, {inputs.name(step, position)}: {number.text} is not a finite number.\n"
                "Only a masked score may be −∞."
            )
    except OptionError as problem:
        if document.remarks is None:
            raise
        claims.unreadable[step, position] = str(cell.text), str(problem).partition("\n")[0].partition(": ")[2]
        return
    # q, k and v that the calculation starts from may be printed again; a copy that differs is checked.
    if step not in inputs.parts or number.value != inputs.parts[step][position]:
        claims.numbers.append(Claim(step, position, number))


def infer_mask(claims: Claims) -> None:
    """Without a mask in the notes, scores of −∞ in the column `masked` define it."""
    inputs = claims.inputs
    masked = [claim for claim in claims.numbers if claim.step == "masked"]
    if inputs.mask is None and masked:
        seen = np.ones((len(inputs.words), len(inputs.key_words)), bool)
        for claim in masked:
            seen[claim.place[1:]] &= not math.isinf(claim.written.value)
        inputs.mask = allowed(seen)


def keep_claimed_queries(claims: Claims) -> Claims:
    """The claims without the queries that none is about: for one query of a long text, O(n) instead of O(n²)."""
    inputs = claims.inputs
    if inputs.heads * len(inputs.words) * len(inputs.key_words) <= MANY:
        return claims
    axes = {step: AXES[step].index("query") + (step not in HEADLESS) for step in STEPS if "query" in AXES[step]}
    cells = [*((claim.step, claim.place) for claim in claims.numbers), *claims.blanks]
    kept = sorted({cell[axes[step]] for step, cell in cells if len(cell) > axes.get(step, len(cell))})
    fewer = replace(inputs, words=tuple(inputs.labels["query"][query] for query in kept), parts=dict(inputs.parts))
    if inputs.x is not None:
        fewer.x, fewer.context = inputs.x[kept], inputs.x if inputs.context is None else inputs.context
    if "query" in inputs.parts:
        fewer.parts["query"] = inputs.parts["query"][:, kept]
    if inputs.mask is not None and kept:
        rows = [inputs.visible(slice(query, query + 1)) for query in kept]
        fewer.mask = allowed(np.concatenate([row for row in rows if row is not None]))

    def move(step: str, place: Place) -> Place:
        at = axes.get(step, len(place))
        return (*place[:at], kept.index(place[at]), *place[at + 1 :]) if len(place) > at else place

    numbers = [replace(claim, place=move(claim.step, claim.place)) for claim in claims.numbers]
    return replace(claims, inputs=fewer, numbers=numbers, blanks=[(step, move(step, at)) for step, at in claims.blanks])


def _sizes(document: Document, inputs: Inputs) -> dict[str, int]:
    """The length of each axis of components; vectors of unknown size are as long as the first one given."""

    def first(*steps: str) -> list[int]:
        cells = [cell for cell in document.of(*steps) if len(cell.labels) == len(AXES[cell.step])]
        return [
            cell.labels[-1].length // (inputs.heads if cell.step in PROJECTIONS and cell.head is None else 1)
            for cell in cells[:1]
            if isinstance(cell.labels[-1], Index)
        ]

    def known(*names: str) -> list[int]:
        of_matrices = [inputs.matrices[name].shape[1] // inputs.heads for name in names if name in inputs.matrices]
        return of_matrices + [inputs.parts[name].shape[-1] for name in names if name in inputs.parts]

    keys, values = known("W_q", "W_k", "query", "key"), known("W_v", "value")
    value_size = [*values, *first("value"), *first("weighted_value"), *first("output"), 0][0]
    through = [inputs.matrices["W_O"].shape[1]] if "W_O" in inputs.matrices else []
    joined = [inputs.heads * size for size in values] or first("concatenated")
    return {
        "width": 0 if inputs.x is None else inputs.x.shape[1],
        "head_dim": [*keys, *first("query"), *first("key"), 0][0],
        "value_dim": value_size,
        "concatenated width": [*joined, inputs.heads * value_size][0],
        "output width": [*through, *first("projected"), 0][0],
    }

"""What is said about one number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from regard.hand_check.written import Written

Kind = Literal["right", "rounded", "cut", "carried on", "follows", "wrong", "shape", "unchecked"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SLIPS: tuple[Kind, ...] = ("cut", "carried on", "follows", "wrong", "shape")

SAME = 1e-12  # of two float64 results by different ways, relative to the larger of them and 1
ALMOST = 1e-9  # of a last digit: a half, or a whole one, as float64 has it


@dataclass(frozen=True)
class Verdict:
    """What is said about one number, or about one shape.

    right       equal
    rounded     equal when rounded to as many digits
    cut         digits left off, where rounding gives another last digit
    carried on  what comes out of the notes' own shortened numbers
    follows     what comes out of a wrong number of the notes: the mistake is further up
    wrong       none of these
    shape       does not fit
    unchecked   what it comes from is not in the notes
    """

    kind: Kind
    what: str  # the step and the place in it: "weight The → cat"
    given: str  # as written
    exact: float | None
    shown: str  # the exact number, with two more decimals than were written
    because: str  # how it came about
    step: str
    place: tuple[int, ...] = ()

    @property
    def is_slip(self) -> bool:
        """Whether somebody should look at it."""
        return self.kind in SLIPS


def are_same(left: float, right: float) -> bool:
    """Whether two results differ by no more than float64 does."""
    return abs(left - right) <= SAME * max(1.0, abs(left), abs(right))


def nearness(given: Written, exact: float) -> Literal["right", "rounded", "cut"] | None:
    """How a written number stands for the exact one; a half may go either way.

    >>> from regard.hand_check.written import written
    >>> [nearness(written(text, ""), 0.155362) for text in ("0.155362", "0.16", "0.15", "0.155", "0.17")]
    ['right', 'rounded', 'cut', 'rounded', None]
    """
    if are_same(given.value, exact):
        return "right"
    last_digit = 10.0**-given.digits
    if abs(given.value - exact) <= (0.5 + ALMOST) * last_digit:
        return "rounded"
    lost = abs(exact) - abs(given.value)
    is_other_side = given.value * exact < 0
    return "cut" if 0 < lost < (1 - ALMOST) * last_digit and not is_other_side else None

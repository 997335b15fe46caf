"""The verdict on one number, and how a written number relates to an exact one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from regard.hand_check.notation import Written
from regard.tables import printed_number
from regard.trace.formatting import precise

Kind = Literal["right", "rounded", "cut", "carried on", "follows", "wrong", "shape", "unchecked"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SLIPS: tuple[Kind, ...] = ("cut", "carried on", "follows", "wrong", "shape")

SAME = 1e-12  # difference of two float64 results computed in different ways, relative to the larger of them and 1
ALMOST_HALF = 2e-6  # of a last digit: what Regard itself prints as a half may differ from one by 1e-6
ALMOST_WHOLE = 1e-9  # of a last digit: float64 noise of a number that was truncated
STANDS_FOR_MINUS_INFINITY = -1e4  # masked scores are often written −10,000 or −1e9
MOST_DIGITS = 12  # decimals an exact number is shown with


@dataclass(frozen=True)
class Verdict:
    """The verdict on one number, or on one shape.

    right       equal
    rounded     equal after rounding to the digits given
    cut         digits truncated where rounding gives another last digit
    carried on  follows from numbers of the notes that were rounded or truncated
    follows     follows from a wrong number of the notes: the mistake is earlier
    wrong       none of these; `slip` names the mistake if it is a typical one
    shape       does not fit
    unchecked   what it is computed from is not in the notes
    """

    kind: Kind
    what: str  # the step and the place in it: "weight The → cat"
    given: str  # as written
    exact: float | None
    shown: str  # the exact number, with two more decimals than were written
    because: str
    step: str
    place: tuple[int, ...] = ()  # without the head
    head: int = 0
    slip: str = ""  # "√d_k forgotten"

    @property
    def is_slip(self) -> bool:
        """Whether the number needs attention."""
        return self.kind in SLIPS


def are_same(left: float, right: float) -> bool:
    """Whether two results are equal up to float64 rounding."""
    if math.isinf(left) or math.isinf(right):
        return left == right
    return abs(left - right) <= SAME * max(1.0, abs(left), abs(right))


def nearness(given: Written, exact: float) -> Literal["right", "rounded", "cut"] | None:
    """How a written number relates to the exact one; a half may be rounded either way.

    >>> from regard.hand_check.notation import written
    >>> [nearness(written(text, ""), 0.155362) for text in ("0.155362", "0.16", "0.15", "0.155", "0.17")]
    ['right', 'rounded', 'cut', 'rounded', None]
    """
    if math.isnan(exact):
        return None
    if math.isinf(exact) or math.isinf(given.value):
        is_same = given.value == exact or (exact == -math.inf and given.value <= STANDS_FOR_MINUS_INFINITY)
        return "right" if is_same else None
    if are_same(given.value, exact):
        return "right"
    last_digit = 10.0 ** -min(given.digits, 300)
    apart = abs(given.value - exact)
    if apart <= (0.5 + ALMOST_HALF) * last_digit:
        return "rounded"
    lost = abs(exact) - abs(given.value)
    is_other_side = given.value * exact < 0
    return "cut" if 0 < lost < (1 - ALMOST_WHOLE) * last_digit and not is_other_side else None


def exactly(value: float, written: Written) -> str:
    """The exact number with two more decimals than were written; fewer if it ends before that.

    >>> exactly(0.155362, Written("0.15", 0.15, 2)), exactly(2.0, Written("3", 3.0, 0))
    ('0.1554', '2')
    """
    digits = min(max(written.digits, 0) + 2, MOST_DIGITS)
    if not math.isfinite(value) or are_same(value, round(value, digits)):
        return precise(value)
    return printed_number(value, digits)

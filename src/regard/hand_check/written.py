"""Numbers as somebody wrote them: 0.50 has two decimals, and says so."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from regard.hand_check import wording

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,6})?")
COMMA = re.compile(r"[+-]?\d*,\d+")
BLANK = {"", "-", "–", "—", "?", "…", "..."}
NOT_FINITE = {"nan", "inf", "infinity", "∞"}
DECORATION = "[](){}*`$≈~ \t"


@dataclass(frozen=True)
class Written:
    """A number, and how many decimals it was written with."""

    text: str
    value: float
    digits: int  # decimals; below 0 for whole thousands written as 1e3


def written(raw: Any, where: str) -> Written:
    """A number from JSON, from a cell of a table, or from Python.

    >>> written("0.50", "here"), written(2, "here").digits
    (Written(text='0.50', value=0.5, digits=2), 0)
    """
    if isinstance(raw, np.generic):
        raw = raw.item()
    if isinstance(raw, bool) or not isinstance(raw, (int, float, Decimal, str)):
        raise wording.not_a_number(where, raw)
    # A float from Python was written 2.0 for 2: nobody means a decimal by that.
    text = repr(raw).removesuffix(".0") if isinstance(raw, float) else str(raw)
    text = text.replace("−", "-").strip(DECORATION)
    if text.lstrip("+-").casefold() in NOT_FINITE:
        raise wording.not_finite(where, raw)
    if COMMA.fullmatch(text):
        raise wording.decimal_comma(where, text)
    if not NUMBER.fullmatch(text):
        raise wording.not_a_number(where, raw)
    number = Decimal(text)
    value = float(number)
    if not math.isfinite(value):
        raise wording.not_finite(where, raw)
    exponent = number.as_tuple().exponent
    digits = -exponent if isinstance(exponent, int) else 0
    return Written(text.replace("-", "−"), value, digits if value else max(digits, 0))


def is_blank(cell: str) -> bool:
    """Whether nothing was worked out here."""
    return cell.strip(DECORATION) in BLANK


def numbers_in(cell: str, where: str) -> list[str]:
    """The numbers of a cell, with blanks, semicolons, or commas and blanks between them.

    >>> numbers_in("[1, 0.5; −2]", "here")
    ['1', '0.5', '−2']
    """
    parts = [part.strip(",") for part in re.split(r"[\s;]+", cell.strip(DECORATION))]
    found: list[str] = []
    for part in parts:
        if COMMA.fullmatch(part.replace("−", "-")):  # 0,42 is a number with a comma, 1,0,1,0 are four numbers
            raise wording.decimal_comma(where, part)
        found += [number for number in part.split(",") if number]
    return found

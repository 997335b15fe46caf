"""How a calculation is written: the names of its steps, and numbers with their decimals, compared with exact ones."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

import numpy as np

from regard.errors import OptionError, did_you_mean, shown
from regard.tables import printed_number
from regard.trace.arithmetic import precise

# Axes of each step; every step from query to output has a head axis in front.
AXES = {
    "query": ("query", "head_dim"),
    "key": ("key", "head_dim"),
    "value": ("key", "value_dim"),
    "score": ("query", "key"),
    "scaled": ("query", "key"),
    "masked": ("query", "key"),
    "weight": ("query", "key"),
    "weighted_value": ("query", "key", "value_dim"),
    "output": ("query", "value_dim"),
    "concatenated": ("query", "concatenated width"),
    "projected": ("query", "output width"),
}
STEPS = tuple(AXES)
PER_KEY = ("score", "scaled", "masked", "weight")  # one number per query and key
AFTER_HEADS = ("concatenated", "projected")
VECTORS = ("embedding", "context", "query", "key", "value")  # one vector per word, whichever query is calculated
MATRICES = ("W", "W_q", "W_k", "W_v", "W_O")
SETTINGS = ("words", "query_words", "context_words", "title", "heads", "mask", "divisor", "product")

# Messages use the first spelling.
SPELLINGS = {
    "words": "words|word|tokens|sentence",
    "query_words": "query words",
    "context_words": "context words|key words|memory words",
    "title": "title|note|notes|comment",
    "heads": "heads|number of heads",
    "mask": "mask",
    "divisor": "divisor|divide by",
    "product": "product|convention",
    "W": "w",
    "W_q": "w q|wq|w^q",
    "W_k": "w k|wk|w^k",
    "W_v": "w v|wv|w^v",
    "W_O": "w o|wo|w^o|w 0",
    "embedding": "embeddings|embedding|e|x|vectors",
    "context": "context|memory|encoder output",
    "query": "q|query|queries",
    "key": "k|key|keys",
    "value": "v|value|values",
    "score": "scores|score|q×k|qk|q k^t|qk^t",
    "scaled": "scaled|scaled score|scaled scores|score/√d k|scores/√d k|score/√dk|score/sqrt(d k)|scores/sqrt(d k)",
    "masked": "masked|masked score|masked scores",
    "weight": "weights|weight|softmax|attention weight|attention weights|probability",
    "weighted_value": "weighted values|weighted value|softmax×v|softmaxxv|weight×v|weight×value|weights×v",
    "output": "outputs|output|sum|z",
    "concatenated": "concatenated|concat|concatenation|all heads",
    "projected": "projected|through w o|after w o|result",
}
NAME_OF = {spelling: name for name, spellings in SPELLINGS.items() for spelling in spellings.split("|")}
SPELLING_OF = {name: spellings.split("|")[0] for name, spellings in SPELLINGS.items()}
SPELLING_OF |= {name: name for name in MATRICES}

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
COMMA = re.compile(r"[+-]?\d*,\d+")
MINUS_INFINITY = {"-inf", "-infinity", "-∞"}
NOT_FINITE = {"nan", "inf", "infinity", "∞"}
BLANK = {"", "-", "–", "—", "?", "…", "..."}
DECORATION = "[](){}*`$≈~ \t"
MOST_EXPONENT = 6  # digits of an exponent; more overflow Decimal

SAME = 1e-12  # difference of two float64 results computed in different ways, relative to the larger of them and 1
ALMOST_HALF = 2e-6  # of a last digit: what Regard itself prints as a half may differ from one by 1e-6
ALMOST_WHOLE = 1e-9  # of a last digit: float64 noise of a number that was truncated
STANDS_FOR_MINUS_INFINITY = -1e4  # masked scores are often written −10,000 or −1e9
MOST_DIGITS = 12  # decimals an exact number is shown with


def step_named(name: str) -> str | None:
    """The canonical name for a spelling; None if there is none.

    >>> step_named("Score / √d_k"), step_named("softmax * v"), step_named("score·0.5"), step_named("cat")
    ('scaled', 'weighted_value', 'scaled', None)
    """
    plain = re.sub(r"[\s_-]+", " ", name.casefold()).strip()
    plain = re.sub(r"\s*[×*·⋅]\s*", "×", plain)
    plain = re.sub(r"\s*/\s*", "/", plain)
    found = NAME_OF.get(plain) or NAME_OF.get(plain.replace(" x ", "x"))
    if found is None and re.fullmatch(r"scores?[/×](√?\d+(\.\d+)?)", plain):
        return "scaled"
    return found


def canonical(name: str, source: str, among: Iterable[str] | None = None) -> str:
    """The canonical name for a spelling, or an error that lists the spellings."""
    found = step_named(name)
    if found is None or (among is not None and found not in among):
        known = [SPELLING_OF[one] for one in (SPELLINGS if among is None else among)]
        raise OptionError(
            f"{source}: unknown name {shown(name)}.{did_you_mean(name.casefold(), known)}\n"
            f"Known names: {', '.join(known)}."
        )
    return found


@dataclass(frozen=True)
class Written:
    """A number and the number of decimals it was written with."""

    text: str
    value: float  # −inf for a masked score
    digits: int  # decimals; negative for whole thousands written as 1e3
    least: int = 0  # decimals that a rounded number has at least; 0.2 stands for 0.20 then, and not for 0.24

    @property
    def last_digit(self) -> float:
        """The unit of the last decimal."""
        return 10.0 ** -min(max(self.digits, self.least), 300)


def written(raw: Any, where: str, least: int = 0) -> Written:
    """A number from JSON, from a table cell, or from Python; with fewer than `least` decimals it is not rounded.

    >>> written("0.50", "here"), written(2, "here").digits, written("−∞", "here").value
    (Written(text='0.50', value=0.5, digits=2, least=0), 0, -inf)
    """
    if isinstance(raw, np.generic):
        raw = raw.item()
    if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
        raise not_a_number(where, raw)
    # Python prints the float 2 as 2.0; the decimal was not written by a person.
    text = repr(raw).removesuffix(".0") if isinstance(raw, float) else str(raw)
    text = text.replace("−", "-").strip(DECORATION)
    if text.casefold() in MINUS_INFINITY:
        return Written("−∞", -math.inf, 0, least)
    if text.lstrip("+-").casefold() in NOT_FINITE:
        raise not_finite(where, raw)
    if COMMA.fullmatch(text):
        raise decimal_comma(where, text)
    match = NUMBER.fullmatch(text)
    if not match:
        raise not_a_number(where, raw)
    if match[2] and len(match[2].lstrip("eE+-")) > MOST_EXPONENT:
        raise not_finite(where, raw)
    number = Decimal(text)
    value = float(number)
    if not math.isfinite(value):
        raise not_finite(where, raw)
    exponent = number.as_tuple().exponent
    digits = min(-exponent, 400) if isinstance(exponent, int) else 0
    return Written(text.replace("-", "−"), value, digits if value else max(digits, 0), least)


def is_blank(cell: str) -> bool:
    """Whether a cell holds no number."""
    return cell.strip(DECORATION) in BLANK


def numbers_in(cell: str, where: str) -> list[str]:
    """The numbers in a cell, separated by spaces, semicolons, or commas followed by spaces.

    >>> numbers_in("[1, 0.5; −2]", "here")
    ['1', '0.5', '−2']
    """
    parts = [part.strip(",") for part in re.split(r"[\s;]+", cell.strip(DECORATION))]
    found: list[str] = []
    for part in parts:
        if COMMA.fullmatch(part.replace("−", "-")):  # 0,42 is a decimal comma; 1,0,1,0 are four numbers
            raise decimal_comma(where, part)
        found += [number for number in part.split(",") if number]
    return found


# A written number and the exact one


def are_same(left: float, right: float) -> bool:
    """Whether two results are equal up to float64 rounding."""
    if math.isinf(left) or math.isinf(right):
        return left == right
    return abs(left - right) <= SAME * max(1.0, abs(left), abs(right))


def nearness(given: Written, exact: float) -> Literal["right", "rounded", "cut"] | None:
    """How a written number relates to the exact one; a half may be rounded either way.

    >>> [nearness(written(text, ""), 0.155362) for text in ("0.155362", "0.16", "0.15", "0.155", "0.17")]
    ['right', 'rounded', 'cut', 'rounded', None]
    >>> [nearness(written(text, "", 2), 0.197532) for text in ("0.2", "0", "0.3")]
    ['rounded', None, None]
    >>> [nearness(written(text, "", 2), 0.9975) for text in ("1.00", "1.0", "1")]
    ['rounded', 'rounded', None]
    """
    if math.isnan(exact):
        return None
    if math.isinf(exact) or math.isinf(given.value):
        is_same = given.value == exact or (exact == -math.inf and given.value <= STANDS_FOR_MINUS_INFINITY)
        return "right" if is_same else None
    if are_same(given.value, exact):
        return "right"
    if given.digits <= 0 < given.least:  # a bare 0 or 1, which may stand for anything
        return None
    apart = abs(given.value - exact)
    if apart <= (0.5 + ALMOST_HALF) * given.last_digit:
        return "rounded"
    lost = abs(exact) - abs(given.value)
    is_other_side = given.value * exact < 0
    return "cut" if 0 < lost < (1 - ALMOST_WHOLE) * given.last_digit and not is_other_side else None


def exactly(value: float, given: Written) -> str:
    """The exact number with two more decimals than were written; fewer if it ends before that.

    >>> exactly(0.155362, Written("0.15", 0.15, 2)), exactly(2.0, Written("3", 3.0, 0))
    ('0.1554', '2')
    """
    digits = min(max(given.digits, given.least, 0) + 2, MOST_DIGITS)
    if not math.isfinite(value) or are_same(value, round(value, digits)):
        return precise(value)
    return printed_number(value, digits)


# Errors


def decimal_comma(where: str, text: str) -> OptionError:
    """0,42 instead of 0.42."""
    return OptionError(
        f"{where}: {shown(text)} has a decimal comma; write {shown(text.replace(',', '.'))} with a point.\n"
        "Separate several numbers in one cell with spaces."
    )


def not_a_number(where: str, raw: object) -> OptionError:
    """Something else where a number is expected."""
    return OptionError(f"{where}: {shown(raw)} is not a number.\nLeave out what was not to be calculated.")


def not_finite(where: str, raw: object) -> OptionError:
    """NaN, ∞, or a number that overflows."""
    return OptionError(
        f"{where}: {shown(raw)} is not a finite number.\n"
        "Leave out what was not to be calculated; only a masked score may be −∞."
    )

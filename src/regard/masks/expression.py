"""Masks from text: causal, window:2, documents:0,0,1, combined with & and |."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from operator import and_, or_
from typing import Any

from regard.errors import OptionError, RegardError, did_you_mean, shown
from regard.masks.kinds import causal, chunks, documents, first, padding, prefix, window
from regard.masks.mask import Mask

# Each maker, and how many numbers it takes at most; documents takes one per key.
MAKERS: dict[str, tuple[Callable[..., Mask], int | None]] = {
    "causal": (causal, 0), "window": (window, 2), "prefix": (prefix, 1), "length": (padding, 1),
    "lengths": (padding, 1), "padding": (padding, 1), "first": (first, 1), "chunks": (chunks, 1),
    "document": (lambda *numbers: documents(list(numbers)), None),
    "documents": (lambda *numbers: documents(list(numbers)), None),
}  # fmt: skip


def parse_mask(text: str) -> Mask:
    """A mask from an expression.

    >>> print(parse_mask("causal & window:1").draw(3, 3))
    █··
    ██·
    ·██
    """
    alternatives = [re.split(r"&|\+|\band\b", part) for part in re.split(r"\||\bor\b", text)]
    return reduce(or_, (reduce(and_, (_parse_term(term.strip(), text) for term in terms)) for terms in alternatives))


def _parse_term(term: str, whole: str) -> Mask:
    match = re.fullmatch(r"([a-z]+)s?\s*(?:[:=(\s]\s*([-\d,;:\s]*?)\s*\)?)?", term.casefold())
    name = match[1] if match else term
    if name not in MAKERS:
        raise OptionError(
            f"`mask` is {shown(whole)}; {shown(term)} is not a mask.{did_you_mean(name, MAKERS)}\n"
            "Masks: causal, window:N, prefix:N, length:N, first:N, chunks:N, documents:0,0,1; combined with & and |."
        )
    numbers = [int(number[:9]) for number in re.findall(r"-?\d+", match[2] or "")] if match else []
    maker: Any
    maker, most = MAKERS[name]
    if most is not None and not min(most, 1) <= len(numbers) <= most:
        expected = "no number" if most == 0 else f"a number, as in {name}:2"
        raise OptionError(f"`mask` is {shown(whole)}; {name} takes {expected}.")
    try:
        mask: Mask = maker(*numbers)
    except RegardError as problem:
        raise OptionError(f"`mask` is {shown(whole)}: {problem}") from None
    return mask

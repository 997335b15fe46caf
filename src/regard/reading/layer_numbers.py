"""The model's own numbers of the layers and heads that a reading holds.

A model can be watched in some layers and heads only. Arrays then hold these from position 0 on; whatever a person sees
or types is the number in the model.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from regard import errors, validate

MOST_LISTED = 24  # numbers that a message lists


def numbers_for(axis: str, numbers: Sequence[Any], count: int) -> tuple[int, ...]:
    """The numbers of `count` layers or heads, checked; 0 to count − 1 where none are given."""
    if not numbers:
        return tuple(range(count))
    valid = all(validate.is_integer(number) and operator.index(number) >= 0 for number in numbers)
    if not valid or len(set(numbers)) != len(numbers) or len(numbers) != count:
        expected = f"{errors.count(count, 'different number')} from 0 on, one per {axis}"
        raise errors.option(f"{axis}_numbers", tuple(numbers), expected)
    return tuple(operator.index(number) for number in numbers)


def are_counted(numbers: Sequence[int]) -> bool:
    """Whether the numbers are the positions: nothing was left out."""
    return tuple(numbers) == tuple(range(len(numbers)))


def position(axis: str, number: Any, numbers: Sequence[int]) -> int:
    """The position of a layer or head by its number in the model; negative ones count from the last.

    >>> position("layer", 3, (3, 7)), position("layer", -1, (3, 7))
    (0, 1)
    >>> position("layer", 0, (3, 7))
    Traceback (most recent call last):
    regard.errors.OutOfRange: `layer` is 0, which was not recorded; recorded: 3, 7.
    """
    if are_counted(numbers):
        return validate.index(axis, number, len(numbers))
    if validate.is_integer(number):
        if number in numbers:
            return list(numbers).index(number)
        if -len(numbers) <= number < 0:
            return int(number) + len(numbers)
    recorded = f"which was not recorded; recorded: {in_words(numbers)}"
    raise errors.OutOfRange(f"`{axis}` is {errors.shown(number)}, {recorded}.")


def in_words(numbers: Sequence[int]) -> str:
    """Numbers as a message lists them: "3, 7"."""
    more = [f"… ({len(numbers)} in all)"] if len(numbers) > MOST_LISTED else []
    return ", ".join([*map(str, numbers[:MOST_LISTED]), *more])


def sizes_in_words(layers: Sequence[int], heads: Sequence[int]) -> str:
    """How many layers and heads there are, or which of the model's: "layers 3, 7 × heads 1, 5"."""
    parts = []
    for axis, numbers in (("layer", layers), ("head", heads)):
        some = f"{axis}{'' if len(numbers) == 1 else 's'} {in_words(numbers)}"
        parts.append(errors.count(len(numbers), axis) if are_counted(numbers) else some)
    return " × ".join(parts)

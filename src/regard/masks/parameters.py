"""Checks of the parameters of masks: integers, one integer per sequence, document ids, functions of positions."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard import errors, validate


@dataclass(frozen=True, eq=False)
class Given:
    """An array parameter, compared by identity: comparing elements would cost O(n) and return an array."""

    array: Any

    def __repr__(self) -> str:
        shape = tuple(self.array.shape)
        return repr(self.array.tolist()) if len(shape) == 1 and shape[0] <= 8 else f"<{self.array.dtype} {shape}>"


Numbers = int | tuple[int, ...] | Given  # one, or one per sequence


def numbers(name: str, given: Any, lowest: int = 0) -> Numbers:
    """One integer, or one per sequence."""
    if isinstance(given, Given):
        return given
    if isinstance(given, (list, tuple)):
        return tuple(validate.integer(name, number, lowest) for number in given)
    if not hasattr(given, "dtype"):
        return validate.integer(name, given, lowest)
    if not validate.holds_integers(given) or len(given.shape) > 1:
        raise errors.option(name, given, "an integer, or integers (batch,), one per sequence")
    return Given(given.reshape(-1))


def plain(numbers: Numbers) -> Any:
    """The integer, the integers, or the array of a `Given`."""
    return numbers.array if isinstance(numbers, Given) else numbers


def sequences(numbers: Numbers) -> int:
    """The number of sequences they are given for."""
    return 1 if isinstance(numbers, int) else len(plain(numbers))


def document_ids(given: Any) -> Any:
    """Ids (position,) or (batch, position); names and other objects are numbered in order of first occurrence."""
    expected = "an array (position,) or (batch, position) of integers or names"
    try:
        ids = given if hasattr(given, "shape") else np.asarray(given)
    except ValueError:  # sequences of unequal length
        raise errors.option("ids", given, expected, "Pad the shorter sequences.") from None
    if len(ids.shape) not in (1, 2):
        raise errors.option("ids", given, expected)
    if isinstance(ids, np.ndarray) and ids.dtype.kind not in "biuf":
        numbers: dict[Any, int] = {}
        try:
            each = [numbers.setdefault(name, len(numbers)) for name in ids.reshape(-1).tolist()]
        except TypeError:  # not hashable
            raise errors.option("ids", given, expected, "Number the documents: 0, 0, 1, …") from None
        ids = np.array(each, dtype=np.int64).reshape(ids.shape)
    return ids


def packed_ids(ids: Any, lengths: Any, offsets: Any) -> Any:
    """The document of each position, from the lengths of documents that follow each other, or from where they begin."""
    if ids is not None or (lengths is not None and offsets is not None):
        raise errors.OptionError("Documents are given twice.\nGive one of `ids`, `lengths` and `offsets`.")
    name, ends = ("lengths", lengths) if offsets is None else ("offsets", offsets)
    each = ends.tolist() if hasattr(ends, "tolist") else ends
    if not isinstance(each, (list, tuple)):
        raise errors.option(name, ends, "integers, one per document")
    counts = [validate.integer(name, number, 0) for number in each]
    if offsets is not None:
        if not counts or counts[0] != 0 or counts != sorted(counts):
            raise errors.option(name, ends, "integers that begin with 0 and do not fall", "Give cumulative lengths.")
        counts = np.diff(counts).tolist()
    return np.repeat(np.arange(len(counts)), counts)


def parameters(function: Any) -> int:
    """The number of arguments that a function of positions takes: 2 or 4."""
    if not callable(function):
        raise errors.option("function", function, "a function of query positions and key positions")
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some built-in functions have no signature
        return 2
    needed = [p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(needed) not in (0, 2, 4):
        raise errors.option(
            "function", function, "a function of (query, key) or (batch, head, query, key)", f"It takes {len(needed)}."
        )
    return 4 if len(needed) == 4 else 2

"""What notes mean: where the calculation starts, and the numbers that were worked out from there."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import errors
from regard.errors.wording import count
from regard.hand_check import wording
from regard.hand_check.naming import AXES, MATRICES, SAID, STEPS
from regard.hand_check.written import Written, is_blank, written
from regard.trace.words import place_of

Numbers = NDArray[np.float64]
PRODUCTS = ("x Wᵀ", "x W")
PARTS = {"query": "W_q", "key": "W_k", "value": "W_v"}


@dataclass(frozen=True)
class HandNumber:
    """One number that somebody worked out."""

    step: str
    place: tuple[int, ...]  # along the axes of the step
    written: Written


@dataclass(frozen=True)
class Misfit:
    """Something whose shape does not fit, and what would."""

    step: str
    came: str
    because: str


@dataclass(frozen=True, eq=False)
class Notes:
    """What was given to start from, and what was worked out."""

    words: tuple[str, ...]
    known: dict[str, Numbers]  # embedding and W_q, W_k, W_v, or query, key and value; NaN where nothing is known
    divisor: float | None  # None: √d_k
    hand: tuple[HandNumber, ...]
    misfits: tuple[Misfit, ...]


@dataclass
class _Reader:
    document: Mapping[str, Any]
    source: str
    words: tuple[str, ...]
    known: dict[str, Numbers] = field(default_factory=dict)
    hand: list[HandNumber] = field(default_factory=list)
    misfits: list[Misfit] = field(default_factory=list)


def understood(document: Mapping[str, Any], source: str) -> Notes:
    """The notes, every vector and every number of them checked for form."""
    reader = _Reader(document, source, words_of(document, source))
    if "embedding" in document:
        reader.known["embedding"] = _vectors(reader, "embedding", complete=True)
        _read_matrices(reader)
    else:
        for name in MATRICES:
            if name in document:
                raise wording.matrix_without_embeddings(name)
        for name in ("query", "key", "value"):
            if name in document:
                reader.known[name] = _vectors(reader, name, complete=False)
        if {"query", "key"} <= set(reader.known):
            queries, keys = reader.known["query"], reader.known["key"]
            if queries.shape[1] != keys.shape[1]:
                raise errors.head_dims_differ(queries, keys)
    sizes = _sizes(reader)
    for step in STEPS:
        if step in document and step not in reader.known:
            _walk(reader, step, document[step], AXES[step], sizes, ())
    if not reader.hand:
        raise wording.nothing_to_check(source)
    return Notes(
        reader.words, reader.known, _divisor(document), tuple(reader.hand), tuple(dict.fromkeys(reader.misfits))
    )


# Words


def words_of(document: Mapping[str, Any], source: str) -> tuple[str, ...]:
    """The words: as given, or as vectors and numbers are labelled, or positions."""
    given = _plain(document.get("words"))
    if given is not None:
        words = given.split() if isinstance(given, str) else given
        if not isinstance(words, list) or not words or isinstance(words[0], (list, dict)):
            raise wording.no_words(source)
        return tuple(map(str, words))
    for step in ("embedding", "key", "value", "query"):
        part = _plain(document.get(step))
        if part and isinstance(part, (dict, list)):
            return _labels(part)
    for step in ("score", "scaled", "weight", "weighted_value"):
        part = _plain(document.get(step))
        row = next(iter(part.values() if isinstance(part, dict) else part), None) if part else None
        if row and isinstance(row, (dict, list)):
            return _labels(row)
    raise wording.no_words(source)


def _labels(part: Any) -> tuple[str, ...]:
    """The words of a labelled row, those with a number without it; positions where there are no labels."""
    if isinstance(part, list):
        return tuple(map(str, range(len(part))))
    labels = tuple(map(str, part))
    return tuple(
        match[1] if (match := _NUMBERED.fullmatch(label)) and match[1] in labels else label for label in labels
    )


_NUMBERED = re.compile(r"(.+) \((\d+)\)")


def _place(reader: _Reader, axis: str, label: Any, size: int) -> int:
    """The position that a label names: a word, `the (2)` for the second of them, or a place in a vector."""
    if axis.endswith("size"):
        if str(label).isdigit() and int(label) < size:
            return int(label)
        raise errors.index_out_of_range("size", label, size)
    text = str(label)
    if text not in reader.words and (match := _NUMBERED.fullmatch(text)):
        return place_of(axis, (match[1], int(match[2])), reader.words)
    return place_of(axis, text, reader.words)


# Where the calculation starts


def _vectors(reader: _Reader, name: str, complete: bool) -> Numbers:
    """One vector a word, (word, size)."""
    part, said = _plain(reader.document[name]), SAID[name]
    if isinstance(part, list):
        if len(part) != len(reader.words):
            raise wording.vectors_for_words(said, len(part), len(reader.words))
        rows = dict(enumerate(part))
    elif isinstance(part, dict):
        rows = {_place(reader, "word", label, 0): vector for label, vector in part.items()}
    else:
        raise wording.not_vectors(said)
    rows = {place: vector for place, vector in rows.items() if vector is not None}
    if not rows or not all(isinstance(vector, list) and vector for vector in rows.values()):
        raise wording.not_vectors(said)
    lengths = [(reader.words[place], len(vector)) for place, vector in rows.items()]
    if len({length for _, length in lengths}) > 1:
        raise wording.unequal_lengths(said, lengths)
    vectors = np.full((len(reader.words), lengths[0][1]), np.nan)
    for place in range(len(reader.words)):
        if place in rows:
            where = f"{reader.source}, {said} of {reader.words[place]}"
            vectors[place] = [written(number, where).value for number in rows[place]]
        elif complete:
            raise wording.word_without(said, reader.words[place])
    return vectors


def _read_matrices(reader: _Reader) -> None:
    """W_q, W_k and W_v as (out, in); the identity where there is none, and where an identity has another size."""
    size = reader.known["embedding"].shape[1]
    product = str(reader.document.get("product", PRODUCTS[0])).replace("E", "x").replace("·", " ")
    if product not in PRODUCTS:
        raise errors.bad_name("product", product, PRODUCTS)
    for name in PARTS.values():
        source = name if name in reader.document else "W"
        part = _plain(reader.document.get(source, "I"))
        matrix = np.eye(size) if part == "I" else _matrix(reader, source, part)
        if product == "x W":
            matrix = matrix.T
        if matrix.shape[1] == size:
            reader.known[name] = matrix
            continue
        came = " × ".join(map(str, matrix.shape if product != "x W" else matrix.shape[::-1]))
        if matrix.shape[0] == matrix.shape[1] and np.array_equal(matrix, np.eye(len(matrix))):
            expected = f"the identity is {size} × {size}, used below"
            reader.known[name] = np.eye(size)
        else:
            other = PRODUCTS[1 - PRODUCTS.index(product)]
            hint = f'; it fits as {other}: "product": "{other}"' if matrix.shape[0] == size else ""
            expected = f"{product} needs {size} {'columns' if product != 'x W' else 'rows'}{hint}"
        reader.misfits.append(Misfit(source, came, f"vectors have {count(size, 'number')}: {expected}"))
    if {"W_q", "W_k"} <= set(reader.known) and len(reader.known["W_q"]) != len(reader.known["W_k"]):
        queries, keys = (len(reader.known[name]) for name in ("W_q", "W_k"))
        because = f"W_q makes queries of {count(queries, 'number')}, W_k keys of {keys}: both have the same"
        reader.misfits.append(Misfit("W_k", " × ".join(map(str, reader.known.pop("W_k").shape)), because))


def _matrix(reader: _Reader, name: str, part: Any) -> Numbers:
    if not isinstance(part, list) or not part or not all(isinstance(row, list) and row for row in part):
        raise wording.not_a_matrix(name)
    if len({len(row) for row in part}) > 1:
        raise wording.not_a_matrix(name)
    return np.array([[written(number, f"{reader.source}, {name}").value for number in row] for row in part])


def _divisor(document: Mapping[str, Any]) -> float | None:
    given = _plain(document.get("divisor"))
    if given is None:
        return None
    divisor = written(given[0] if isinstance(given, list) and len(given) == 1 else given, "divisor").value
    if not divisor > 0 or not math.isfinite(1 / divisor):
        raise wording.bad_divisor(divisor)
    return divisor


# Numbers worked out by hand


def _sizes(reader: _Reader) -> dict[str, int]:
    """How long each axis is; vectors of an unknown size are as long as the first one given."""
    words = len(reader.words)
    sizes = {"query": words, "key": words}
    for axis, steps in (("size", ("query", "key")), ("value size", ("value", "weighted_value", "output"))):
        made = [len(reader.known[PARTS[step]]) for step in steps if PARTS.get(step) in reader.known]
        given = [reader.known[step].shape[1] for step in steps if step in reader.known]
        first = [_length(_plain(reader.document[step])) for step in steps if step in reader.document]
        sizes[axis] = [*made, *given, *first, 0][0]
    return sizes


def _length(part: Any) -> int:
    """How many numbers the first vector in here has."""
    if isinstance(part, (list, dict)) and part:
        inner = next(iter(part.values() if isinstance(part, dict) else part))
        return _length(inner) if isinstance(inner, (list, dict)) else len(part)
    return 0


def _walk(
    reader: _Reader, step: str, raw: Any, axes: Sequence[str], sizes: Mapping[str, int], place: tuple[int, ...]
) -> None:
    """Every number below here, with its place; what has another shape is noted and left out."""
    raw = _plain(raw)
    if raw is None or (isinstance(raw, str) and is_blank(raw)):
        return
    where = said_place(step, place, reader.words)
    if not axes:
        if isinstance(raw, (list, dict)):
            _misfit(reader, where, count(len(raw), "number"), "one number belongs here")
            return
        reader.hand.append(HandNumber(step, place, written(raw, f"{reader.source}, {where}")))
        return
    axis, size = axes[0], sizes[axes[0]]
    if isinstance(raw, dict):
        for label, part in raw.items():
            _walk(reader, step, part, axes[1:], sizes, (*place, _place(reader, axis, label, size)))
    elif isinstance(raw, list) and len(raw) == size:
        for index, part in enumerate(raw):
            _walk(reader, step, part, axes[1:], sizes, (*place, index))
    else:
        came = len(raw) if isinstance(raw, list) else 1
        noun = "row" if isinstance(raw, list) and raw and isinstance(_plain(raw[0]), (list, dict)) else "number"
        wanted = count(size, "word") if axis in ("query", "key") else f"vectors of {size}"
        _misfit(reader, where, count(came, noun), f"{count(came, noun)} for {wanted}")


def _misfit(reader: _Reader, where: str, came: str, because: str) -> None:
    reader.misfits.append(Misfit(where, came, because))


def said_place(step: str, place: Sequence[int], words: Sequence[str]) -> str:
    """A step and where in it.

    >>> said_place("weight", (0, 1), ("The", "cat")), said_place("output", (0, 2), ("The", "cat"))
    ('weight The → cat', 'output The [2]')
    """
    named = list(zip(AXES[step], place, strict=False))
    asked = " → ".join(words[index] for axis, index in named if not axis.endswith("size"))
    component = "".join(f" [{index}]" for axis, index in named if axis.endswith("size"))
    return f"{step.replace('_', ' ')} {asked}{component}".strip()


def _plain(part: Any) -> Any:
    """Arrays and tuples as lists."""
    if hasattr(part, "tolist"):
        return part.tolist()
    if isinstance(part, tuple):
        return list(part)
    return dict(part) if isinstance(part, Mapping) else part

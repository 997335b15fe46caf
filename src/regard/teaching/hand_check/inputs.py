"""What a calculation starts from: words, embeddings and matrices, or queries, keys and values; heads, mask, divisor."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import OptionError, RegardError, ShapeError, count, did_you_mean, shown
from regard.masks import Mask, allowed, causal, chunks, documents, first, padding, prefix, window
from regard.teaching.hand_check.documents import OCCURRENCE, Document, Entry
from regard.teaching.hand_check.notation import AXES, SPELLING_OF, Written, is_blank, numbers_in, written
from regard.trace.labels import numbered, place_of

Numbers = NDArray[np.float64]
PRODUCTS = ("x W", "x W^T")
PROJECTIONS = {"query": "W_q", "key": "W_k", "value": "W_v"}
MASKS = {"causal": causal, "window": window, "prefix": prefix, "length": padding, "lengths": padding, "first": first,
         "chunks": chunks}  # fmt: skip
MOST_HEADS = 1024
MOST_NAMED = 8
MANY_CELLS = 10_000  # of a mask that tables print


@dataclass(frozen=True)
class WrongShape:
    """Something with a shape that does not fit, and the shape that would."""

    step: str
    given: str
    because: str


@dataclass(eq=False)
class Inputs:
    """Where a calculation starts. Matrices are as in q = x · W: one row per component of x, one column per one of q."""

    words: tuple[str, ...]  # of the queries
    key_words: tuple[str, ...]
    heads: int = 1
    x: Numbers | None = None  # (query, width)
    context: Numbers | None = None  # (key, width); None for self-attention
    matrices: dict[str, Numbers] = field(default_factory=dict)  # W_q, W_k, W_v, W_O; each (in, out), heads side by side
    parts: dict[str, Numbers] = field(default_factory=dict)  # query, key, value as given: (head, word, head_dim)
    spread: dict[str, float] = field(default_factory=dict)  # rounding of `parts` that were printed rounded
    mask: Mask | None = None
    mask_text: str = ""
    divisor: float | None = None  # None for √d_k
    product: str = PRODUCTS[0]
    has_matrices: bool = False  # whether a W was given, rather than the identity assumed
    misfits: list[WrongShape] = field(default_factory=list)

    @cached_property
    def labels(self) -> dict[str, list[str]]:
        """The words along each axis, repeated ones numbered."""
        return {"query": numbered(self.words), "key": numbered(self.key_words)}

    @property
    def is_cross(self) -> bool:
        """Whether queries and keys come from different words."""
        return self.context is not None or (self.x is None and self.words != self.key_words)

    def visible(self) -> NDArray[np.bool_] | None:
        """Which keys each query may see, (query, key); None without a mask."""
        if self.mask is None:
            return None
        return self._visible_rows(slice(None))

    def visible_row(self, query: int) -> NDArray[np.bool_]:
        """The same for one query, (key,)."""
        row: NDArray[np.bool_] = self._visible_rows(slice(query, query + 1))[0]
        return row

    def _visible_rows(self, rows: slice) -> NDArray[np.bool_]:
        assert self.mask is not None
        queries, keys = len(self.words), len(self.key_words)
        check_positions(self.mask, queries, keys)
        tile = np.asarray(self.mask.visible(queries=queries, keys=keys).tile(rows, slice(None)))[0, 0]
        return np.broadcast_to(tile, (len(range(queries)[rows]), keys))


def inputs_of(document: Document, text_words: Sequence[str] | None = None) -> Inputs:
    """The inputs of a document; `text_words` replace the words it names."""
    words, key_words = words_of(document, text_words)
    settings = document.settings
    given = Inputs(words, key_words, product=_product(settings.get("product")))
    for name in ("W", "W_q", "W_k", "W_v", "W_O"):
        if settings.get(name) == "I":
            document.add(name, "I", where=document.source)
    given.heads = _heads(document)
    given.divisor = _divisor(settings.get("divisor"))
    if document.of("embedding"):
        given.x = vectors(document, "embedding", given.words, complete=True)
        if document.of("context"):
            given.context = vectors(document, "context", given.key_words, complete=True)
        _read_matrices(document, given)
    else:
        for entry in document.entries:
            if entry.step in ("W", "W_q", "W_k", "W_v", "context"):
                raise OptionError(
                    f"`{SPELLING_OF[entry.step]}` is given without embeddings.\n"
                    "Give the embeddings, or leave it out and give q, k and v."
                )
        _read_parts(document, given)
        _read_output_matrix(document, given)
    given.mask, given.mask_text = _mask(settings.get("mask"), given)
    return given


# Words


def words_of(document: Document, text_words: Sequence[str] | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words of the queries and of the keys: as given, or from the labels of vectors and numbers, or positions."""
    settings = document.settings
    asking, found, context = (_listed(document, name) for name in ("query_words", "words", "context_words"))
    own = (
        (None if text_words is None else tuple(text_words))
        or asking
        or (found if context or document.of("context") else None)
    )
    keys = context or (found if asking else None)
    if not document.of("embedding"):
        own = own or (found if settings.get("words") is not None else None)
        keys = keys or _labels(document, "key", 0) or _labels(document, "value", 0)
        own = own or _labels(document, "query", 0)
        for step in ("score", "scaled", "masked", "weight", "weighted_value"):
            own, keys = own or _labels(document, step, 0), keys or _labels(document, step, 1)
        for step in ("output", "concatenated", "projected"):
            own = own or _labels(document, step, 0)
        own, keys = own or keys, keys or own
        # A row for one query alone does not name all queries; in self-attention these are the keys.
        if own and keys and not asking and not context and len(own) < len(keys) and set(own) <= set(keys):
            own = keys
    else:
        own = own or found or _labels(document, "embedding", 0)
        keys = keys or (_labels(document, "context", 0) if document.of("context") else own)
    if not own or not keys:
        raise OptionError(
            f'{document.source}: which words? Give embeddings, or q, k and v, or "words": ["The", "cat", "sat"].'
        )
    return tuple(own), tuple(keys)


def _listed(document: Document, name: str) -> tuple[str, ...] | None:
    given = document.settings.get(name)
    if given is None:
        return None
    words = given.split() if isinstance(given, str) else given
    if not isinstance(words, list) or not words or any(isinstance(word, (list, dict)) for word in words):
        raise OptionError(f"{document.source}: {SPELLING_OF[name]!r} is {shown(given)}; expected a list of words.")
    return tuple(map(str, words))


def _labels(document: Document, step: str, axis: int) -> tuple[str, ...] | None:
    """The labels along one axis of a step: words, or positions where lists have no labels."""
    labels: dict[str, None] = {}
    for entry in document.of(step):
        if len(entry.path) > axis:
            labels[entry.path[axis]] = None
            continue
        part = entry.content
        has_head = step in AXES and axis_count(part) + len(entry.path) > len(AXES[step])
        for _ in range(axis - len(entry.path) + has_head):
            if not isinstance(part, (list, dict)) or not part:
                break
            part = next(iter(part.values() if isinstance(part, dict) else part))
        if isinstance(part, dict) and part:
            labels |= dict.fromkeys(map(str, part))
        elif isinstance(part, list) and part:
            start = entry.rows[0] if entry.rows and axis == 0 else 0
            return tuple(map(str, range(start + len(part))))
    if not labels:
        return None
    names = tuple(labels)
    return tuple(match[1] if (match := OCCURRENCE.fullmatch(name)) and match[1] in labels else name for name in names)


def word_place(axis: str, label: Any, words: Sequence[str]) -> int:
    """The position of a word: `the:2` and `the (2)` are the second of them."""
    text = str(label)
    match = OCCURRENCE.fullmatch(text)
    if text not in words and match:
        return place_of(axis, (match[1], int((match[2] or match[3])[:9])), words)
    return place_of(axis, text, words)


# Vectors


def vectors(document: Document, step: str, words: Sequence[str], complete: bool) -> Numbers:
    """One vector per word, (word, width); a word that occurs twice may have its vector given once."""
    rows, name = labelled_rows(document, step, words), SPELLING_OF[step]
    found: list[list[Any] | None] = []
    for word, label in zip(words, numbered(words), strict=True):
        vector = next((rows[key] for key in (label, word, _folded(word)) if key in rows), None)
        if vector is None and complete:
            known = [repr(one) for one in rows if one != _folded(one)] or list(map(repr, rows))
            listed = ", ".join([*known[:MOST_NAMED], *(["…"] if len(known) > MOST_NAMED else [])])
            raise OptionError(f"{document.source} has no vector for {word!r}; `{name}` has {listed}.")
        found.append(vector)
    return _matrix_of(found, words, document.source, name)


def labelled_rows(document: Document, step: str, words: Sequence[str]) -> dict[str, list[Any]]:
    """Each word's vector by its label and, if free, by its label without case and accents' composition."""
    rows: dict[str, list[Any]] = {}
    name = SPELLING_OF[step]
    for entry in document.of(step):
        part = entry.content
        if entry.path:
            part = {entry.path[0]: part}
        if isinstance(part, list):
            if len(part) != len(words):
                raise ShapeError(
                    f"{document.source} holds {count(len(part), 'vector')} for {count(len(words), 'word')}: "
                    f"`{name}` needs one for each of {' '.join(words[:MOST_NAMED])}"
                    f"{' …' if len(words) > MOST_NAMED else ''}."
                )
            part = dict(zip(numbered(words), part, strict=True))
        if not isinstance(part, dict) or not part:
            raise not_vectors(document.source, name, part)
        for label, vector in part.items():
            match = OCCURRENCE.fullmatch(label)
            label = f"{match[1]}:{match[2] or match[3]}" if match and label not in words else label
            if vector is not None:
                rows.setdefault(str(label), vector)
    return {**{_folded(label): vector for label, vector in rows.items()}, **rows}


def _matrix_of(rows: Sequence[list[Any] | None], names: Sequence[str], source: str, what: str) -> Numbers:
    """Rows of finite numbers of equal length; NaN where there is no row."""
    lengths_of = [(name, len(row)) for row, name in zip(rows, names, strict=True) if isinstance(row, list)]
    for row, name in zip(rows, names, strict=True):
        if row is not None and (not isinstance(row, list) or not row):
            raise OptionError(f"{source}: the vector of {name!r} is {shown(row)}; expected a list of numbers.")
    if not lengths_of:
        raise not_vectors(source, what, None)
    if len({length for _, length in lengths_of}) > 1:
        (one, size), (other, wrong) = lengths_of[0], next(pair for pair in lengths_of if pair[1] != lengths_of[0][1])
        raise ShapeError(
            f"{source}: vectors of unequal length in `{what}`: {one!r} has {count(size, 'number')}, {other!r} has "
            f"{wrong}."
        )
    array = np.full((len(rows), lengths_of[0][1]), np.nan)
    for place, (row, name) in enumerate(zip(rows, names, strict=True)):
        if row is not None:
            array[place] = [finite(number, f"{source}, {what} of {name}").value for number in row]
    return array


def finite(raw: Any, where: str) -> Written:
    """A finite number among the inputs."""
    try:
        number = written(raw, where)
    except OptionError as problem:  # without the advice to leave it out
        raise OptionError(str(problem).partition("\n")[0]) from None
    if not math.isfinite(number.value):
        raise OptionError(f"{where}: {number.text} is not a finite number.")
    return number


def not_vectors(source: str, name: str, came: object) -> OptionError:
    """Something other than one vector per word."""
    return OptionError(
        f"{source} holds no {name}: it is {shown(came)}; expected one vector per word, as a list of lists or as "
        '{"The": [1, 0, 1, 0], …}.'
    )


# Matrices


def _read_matrices(document: Document, given: Inputs) -> None:
    """W_q, W_k, W_v as (in, out) with heads side by side; the identity for those that are not given."""
    assert given.x is not None
    sizes = {"W_q": given.x.shape[1]}
    sizes["W_k"] = sizes["W_v"] = given.x.shape[1] if given.context is None else given.context.shape[1]
    for step, name in PROJECTIONS.items():
        size = sizes[name]
        entries = document.of(name) or document.of("W")
        if not entries and _is_start(document, step):
            continue
        given.has_matrices |= bool(entries)
        matrix = np.eye(size) if not entries or entries[0].content == "I" else _joined_heads(entries, given)
        if len(matrix) == size:
            given.matrices[name] = matrix
            continue
        label = entries[0].step
        shape = matrix.shape if given.product == PRODUCTS[0] else matrix.shape[::-1]
        if matrix.shape[0] == matrix.shape[1] and np.array_equal(matrix, np.eye(len(matrix))):
            expected = f"the identity is {size} × {size}, which is used below"
            given.matrices[name] = np.eye(size)
        else:
            other = PRODUCTS[1 - PRODUCTS.index(given.product)]
            hint = f'; it fits as {other}: set "product": "{other}"' if matrix.shape[1] == size else ""
            side = "rows" if given.product == PRODUCTS[0] else "columns"
            expected = f"{given.product} needs {size} {side}{hint}"
        because = f"embeddings have {count(size, 'number')}: {expected}"
        given.misfits.append(WrongShape(label, " × ".join(map(str, shape)), because))
    queries, keys = given.matrices.get("W_q"), given.matrices.get("W_k")
    if queries is not None and keys is not None and queries.shape[1] != keys.shape[1]:
        because = (
            f"W_q gives queries of {count(queries.shape[1], 'number')}, W_k gives keys of {keys.shape[1]}: "
            "q · k needs equal sizes"
        )
        shape = keys.shape if given.product == PRODUCTS[0] else keys.shape[::-1]
        given.misfits.append(WrongShape("W_k", " × ".join(map(str, shape)), because))
        del given.matrices["W_k"]
    for name, matrix in list(given.matrices.items()):
        if matrix.shape[1] % given.heads:
            because = f"{matrix.shape[1]} columns cannot be split evenly among {given.heads} heads"
            given.misfits.append(WrongShape(name, " × ".join(map(str, matrix.shape)), because))
            del given.matrices[name]
    _read_output_matrix(document, given)


def _is_start(document: Document, step: str) -> bool:
    """Whether q, k or v of a trace are given without the W they come from (a layer with biases or rotary positions)."""
    return any(entry.rows is not None for entry in document.entries) and bool(document.of(step))


def _read_output_matrix(document: Document, given: Inputs) -> None:
    """W_O: (heads · d_v, out)."""
    entries = document.of("W_O")
    if not entries:
        return
    given.has_matrices = True
    value = given.matrices.get("W_v")
    size = value.shape[1] if value is not None else None
    if size is None and "value" in given.parts:
        size = given.heads * given.parts["value"].shape[-1]
    if entries[0].content == "I":
        matrix = np.eye(size or 1)
    else:
        matrix = _matrix(entries[0], "W_O")
        matrix = matrix if given.product == PRODUCTS[0] else matrix.T
    if size is not None and len(matrix) != size:
        shape = matrix.shape if given.product == PRODUCTS[0] else matrix.shape[::-1]
        because = f"the concatenated heads have {count(size, 'number')}: W_O needs {size} rows"
        given.misfits.append(WrongShape("W_O", " × ".join(map(str, shape)), because))
    else:
        given.matrices["W_O"] = matrix


def _joined_heads(entries: Sequence[Entry], given: Inputs) -> Numbers:
    """One matrix with the columns of all heads side by side, from one matrix or from one per head."""
    name = entries[0].step
    by_head = {entry.head: entry for entry in entries if entry.head is not None}
    parts: list[Any] = [by_head[head].content for head in sorted(by_head)] if by_head else [entries[0].content]
    if not by_head and axis_count(parts[0]) == 3:
        inner = parts[0]
        parts = list(inner.values() if isinstance(inner, dict) else inner)
    if len(parts) not in (1, given.heads):
        raise ShapeError(f"`{name}` holds {count(len(parts), 'matrix')} for {count(given.heads, 'head')}.")
    matrices = [_matrix(Entry(name, part, where=entries[0].where), name) for part in parts]
    matrices = [matrix if given.product == PRODUCTS[0] else matrix.T for matrix in matrices]
    if len({len(matrix) for matrix in matrices}) > 1:
        raise ShapeError(f"`{name}` holds matrices of unequal size: {', '.join(str(one.shape) for one in matrices)}.")
    return np.concatenate(matrices, axis=1)


def _matrix(entry: Entry, name: str) -> Numbers:
    rows = entry.content
    if isinstance(rows, dict):
        rows = list(rows.values())
    if not isinstance(rows, list) or not rows or not all(isinstance(row, list) and row for row in rows):
        raise ShapeError(f'`{name}` is {shown(entry.content)}; expected a list of rows, or "I" for the identity.')
    if len({len(row) for row in rows}) > 1:
        raise ShapeError(f"`{name}` has rows of unequal length: {', '.join(str(len(row)) for row in rows)}.")
    return np.array([[finite(number, f"{entry.where}, {name}").value for number in row] for row in rows])


# Queries, keys and values as given


def _read_parts(document: Document, given: Inputs) -> None:
    """q, k, v per head. Those that were printed in step tables keep the size of their rounding."""
    for step in PROJECTIONS:
        entries = [entry for entry in document.of(step) if not entry.is_printed] or document.of(step)
        if not entries:
            continue
        words = given.words if step == "query" else given.key_words
        rows: dict[tuple[int, int], list[Any]] = {}
        digits = 0
        for entry in entries:
            for head, place, vector in part_rows(entry, step, words, given.heads, document.source):
                if not isinstance(vector, list) or not vector:
                    raise not_vectors(document.source, SPELLING_OF[step], vector)
                rows.setdefault((head, place), vector)
        numbers = {
            place: [finite(number, f"{document.source}, {SPELLING_OF[step]} of {words[place[1]]}") for number in row]
            for place, row in rows.items()
        }
        if not numbers:
            continue
        names = [words[place] for _, place in numbers]
        sizes = [len(row) for row in numbers.values()]
        if len(set(sizes)) > 1:
            other = next(place for place, size in enumerate(sizes) if size != sizes[0])
            raise ShapeError(
                f"{document.source}: vectors of unequal length in `{SPELLING_OF[step]}`: {names[0]!r} has "
                f"{count(sizes[0], 'number')}, {names[other]!r} has {sizes[other]}."
            )
        array = np.full((given.heads, len(words), sizes[0]), np.nan)
        for (head, place), row in numbers.items():
            array[head, place] = [number.value for number in row]
            digits = max([digits, *(number.digits for number in row)])
        given.parts[step] = array
        if entries[0].is_printed and digits >= 2:
            given.spread[step] = 0.5 * 10.0**-digits
    queries, keys = given.parts.get("query"), given.parts.get("key")
    if queries is not None and keys is not None and queries.shape[-1] != keys.shape[-1]:
        raise ShapeError(
            f"`k` has head_dim {keys.shape[-1]}, `q` has {queries.shape[-1]}.\nq · k needs vectors of the same length."
        )


def part_rows(entry: Entry, step: str, words: Sequence[str], heads: int, source: str) -> list[tuple[int, int, Any]]:
    """(head, word, vector) of an entry of q, k or v; vectors of all heads side by side are split."""
    part = entry.content
    if entry.path:
        part = {entry.path[0]: part}
    by_head: list[tuple[int | None, Any]] = [(entry.head, part)]
    if axis_count(part) == 3:
        inner = list(part.values()) if isinstance(part, dict) else part
        if len(inner) != heads:
            raise ShapeError(
                f"{source}: `{SPELLING_OF[step]}` holds {count(len(inner), 'head')}; there are {heads}.\n"
                'Set "heads" to the number of heads.'
            )
        by_head = [(head, one) for head, one in enumerate(inner)]
    found: list[tuple[int, int, Any]] = []
    for head, one in by_head:
        if head is not None and head >= heads:
            raise OptionError(f"{source}: there is no head {head}: there are {heads}, counted from 0.")
        if isinstance(one, list):
            start, expected = entry.rows if entry.rows and step == "query" else (0, len(words))
            if len(one) != expected or start + expected > len(words):
                raise ShapeError(
                    f"`{SPELLING_OF[step]}` holds {count(len(one), 'vector')} for {count(expected, 'word')}.\n"
                    "Give one for each word."
                )
            rows = {start + place: vector for place, vector in enumerate(one)}
        elif isinstance(one, dict):
            rows = {word_place("word", label, words): vector for label, vector in one.items()}
        else:
            raise not_vectors(source, SPELLING_OF[step], one)
        for place, vector in rows.items():
            if vector is None:
                continue
            if head is not None or heads == 1:
                found.append((head or 0, place, vector))
            elif isinstance(vector, list) and len(vector) % heads == 0:
                size = len(vector) // heads
                found += [(which, place, vector[which * size : (which + 1) * size]) for which in range(heads)]
            else:
                raise ShapeError(f"`{SPELLING_OF[step]}`: {shown(vector)} cannot be split among {heads} heads.")
    return found


# Settings


def _heads(document: Document) -> int:
    given = document.settings.get("heads")
    if given is not None:
        number = written(given, f"{document.source}, heads").value
        if number != int(number if math.isfinite(number) else 0) or not 1 <= number <= MOST_HEADS:
            raise OptionError(
                f"{document.source}: 'heads' is {shown(given)}; expected a whole number up to {MOST_HEADS}."
            )
        return int(number)
    found = 1
    for entry in document.entries:
        if entry.head is not None:
            found = max(found, entry.head + 1)
        part = entry.content
        axes = 2 if entry.step in ("W", "W_q", "W_k", "W_v") else len(AXES.get(entry.step, ())) - len(entry.path)
        is_headed = entry.step in AXES and entry.step not in ("concatenated", "projected")
        if (is_headed or entry.step.startswith("W")) and entry.step != "W_O" and axis_count(part) > axes:
            found = max(found, len(part))
    if found > MOST_HEADS:
        raise OptionError(f"{document.source} names head {found - 1}; at most {MOST_HEADS} heads are checked.")
    return found


def _divisor(given: Any) -> float | None:
    given = given[0] if isinstance(given, list) and len(given) == 1 else given
    if given is None or (isinstance(given, str) and given.replace(" ", "") in ("√d_k", "sqrt(d_k)")):
        return None
    divisor = written(given, "divisor").value
    if not divisor > 0 or not math.isfinite(1 / divisor):
        raise OptionError(f"`divisor` is {shown(given)}; expected a positive number.\nLeave it out for √d_k.")
    return divisor


def _product(given: Any) -> str:
    if given is None:
        return PRODUCTS[0]
    if isinstance(given, str):
        text = re.sub(r"(?i)^q\s*=\s*", "", given.strip()).replace("E", "x").replace("X", "x")
        text = re.sub(r"[\s·*×@_]+", " ", text).replace("ᵀ", "^T").replace(" q", "").replace("^t", "^T")
        if text in PRODUCTS:
            return text
    raise OptionError(f'`product` is {shown(given)}; expected "x W" (as in q = x · W_q) or "x W^T".')


def _mask(given: Any, inputs: Inputs) -> tuple[Mask | None, str]:
    """A mask from its name, as in "causal & window:2", or from rows of 1 (visible) and 0 (hidden)."""
    if given is None or given == "none":
        return None, ""
    if isinstance(given, str) and re.search(r"[a-z]", given.casefold()):
        return mask_named(given), given
    rows: list[Any]
    if isinstance(given, str):
        rows = [numbers_in(row, "mask") for row in re.split(r"[;/\n]", given) if row.strip()]
    elif isinstance(given, dict):
        rows = [None] * len(inputs.words)  # a query that is not named sees every key
        for label, row in given.items():
            rows[word_place("mask", label, inputs.words)] = row
    else:
        rows = given if isinstance(given, list) else []
    shape = (len(inputs.words), len(inputs.key_words))
    given_rows = [row for row in rows if row is not None or not isinstance(given, dict)]
    if len(rows) != shape[0] or not all(isinstance(row, list) and len(row) == shape[1] for row in given_rows):
        raise ShapeError(
            f"`mask` is {shown(given)}; expected a name such as causal, or {shape[0]} × {shape[1]} numbers: 1 where a "
            "query may see a key, 0 where not."
        )
    numbers = np.ones(shape)
    for place, row in enumerate(rows):
        if row is not None:
            numbers[place] = [_mask_number(cell) for cell in row]
    seen = np.isfinite(numbers) if np.isneginf(numbers).any() else numbers != 0
    if not np.isin(numbers, (0, 1, -math.inf)).all():
        raise OptionError("`mask` holds other numbers than 0, 1 and −∞.\nWrite 1 where a query may see a key, else 0.")
    text = "; ".join(" ".join("1" if cell else "0" for cell in row) for row in seen) if seen.size <= MANY_CELLS else ""
    return allowed(seen), text


def _mask_number(cell: Any) -> float:
    if isinstance(cell, bool) or cell in ("0", "1"):
        return float(cell)
    if cell is None or (isinstance(cell, str) and is_blank(cell)):
        return 0.0
    return written(cell, "mask").value


def mask_named(text: str) -> Mask:
    """A mask from an expression.

    >>> print(mask_named("causal & window:1").draw(3, 3))
    █··
    ██·
    ·██
    """
    found: Mask | None = None
    for alternative in re.split(r"\||\bor\b", text):
        together: Mask | None = None
        for part in re.split(r"&|\+|\band\b", alternative):
            one = _one_mask(part.strip(), text)
            together = one if together is None else together & one
        assert together is not None
        found = together if found is None else found | together
    assert found is not None
    return found


def _one_mask(text: str, whole: str) -> Mask:
    match = re.fullmatch(r"([a-z]+)s?\s*(?:[:=(\s]\s*([-\d,;:\s]*?)\s*\)?)?", text.casefold())
    name = match[1] if match else text
    numbers = [int(number[:9]) for number in re.findall(r"-?\d+", match[2] or "")] if match else []
    known = {**MASKS, "document": None, "documents": None}
    if name not in known:
        raise OptionError(
            f"`mask` is {shown(whole)}; {shown(text)} is not a mask.{did_you_mean(name, known)}\n"
            "Masks: causal, window:N, prefix:N, length:N, first:N, chunks:N, documents:0,0,1; combined with & and |."
        )
    try:
        if name.startswith("document"):
            return documents(numbers)
        if name == "causal" and not numbers:
            return causal()
        if name == "causal" or not 1 <= len(numbers) <= (2 if name == "window" else 1):
            expected = "no number" if name == "causal" else f"a number, as in {name}:2"
            raise OptionError(f"`mask` is {shown(whole)}; {name} takes {expected}.")
        maker: Any = MASKS[name]
        mask: Mask = maker(*numbers)
    except RegardError as problem:
        raise OptionError(
            str(problem) if "`mask`" in str(problem) else f"`mask` is {shown(whole)}: {problem}"
        ) from None
    return mask


def check_positions(mask: Mask, queries: int, keys: int) -> None:
    """Refuse a mask that compares the positions of queries and keys where these are of different sequences."""
    if mask.needs_position and queries != keys:
        raise OptionError(
            f"The mask compares positions, but {count(queries, 'query')} and {count(keys, 'key')} are of different "
            "sequences.\nFor cross-attention use length:N, or rows of 1 and 0."
        )


# Nesting


def axis_count(part: Any) -> int:
    """How deep lists and dictionaries are nested, along the first elements that are not blank."""
    if not isinstance(part, (list, dict)):
        return 0
    inner = list(part.values()) if isinstance(part, dict) else part
    return 1 + max((axis_count(one) for one in inner[:3]), default=0)


def _folded(word: str) -> str:
    return unicodedata.normalize("NFC", str(word)).casefold()

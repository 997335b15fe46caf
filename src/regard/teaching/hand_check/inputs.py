"""What a calculation starts from: words, embeddings and matrices, or queries, keys and values; heads, mask, divisor."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from regard.errors import OptionError, ShapeError, count, shown
from regard.masks import Mask, allowed, parse_mask
from regard.teaching.hand_check.document import OCCURRENCE, Cell, Document, Index, Label
from regard.teaching.hand_check.notation import AXES, MATRICES, SPELLING_OF, Written, is_blank, split_numbers, written
from regard.teaching.hand_check.places import (
    MOST_HEADS,
    PROJECTIONS,
    Frame,
    Misfit,
    has_head_level,
    name_heads,
    no_head,
    word_index,
)
from regard.trace.labels import numbered

Numbers = NDArray[np.float64]
Product = Literal["x W", "x W^T"]
PRODUCTS: tuple[Product, Product] = ("x W", "x W^T")
MOST_NAMED = 8
MANY_CELLS = 10_000  # of a mask that tables print


@dataclass(eq=False)
class Inputs(Frame):
    """Where a calculation starts. Matrices are as in q = x · W: one row per component of x, one column per one of q."""

    x: Numbers | None = None  # (query, width)
    context: Numbers | None = None  # (key, width); None for self-attention
    position: Numbers | None = None  # (query, width), to be added to x
    output_gradient: Numbers | None = None  # (head, query, value_dim): dL/dz
    matrices: dict[str, Numbers] = field(default_factory=dict)  # W_q, W_k, W_v, W_O; each (in, out), heads side by side
    parts: dict[str, Numbers] = field(default_factory=dict)  # query, key, value as given: (head, word, head_dim)
    spread: dict[str, float] = field(default_factory=dict)  # rounding of `parts` that were printed rounded
    mask: Mask | None = None
    mask_text: str = ""
    divisor: float | None = None  # None for √d_k
    product: Product = PRODUCTS[0]  # how W is written: in files, headings and exports
    has_matrices: bool = False  # whether a W was given, rather than the identity assumed
    misfits: list[Misfit] = field(default_factory=list)

    @property
    def is_cross(self) -> bool:
        """Whether queries and keys come from different words."""
        return self.context is not None or (self.x is None and self.words != self.key_words)

    def visible(self, rows: slice = slice(None)) -> NDArray[np.bool_] | None:
        """Which keys each query may see, (query, key); None without a mask."""
        if self.mask is None:
            return None
        queries, keys = len(self.words), len(self.key_words)
        check_positions(self.mask, queries, keys)
        tile = np.asarray(self.mask.visible(queries=queries, keys=keys).tile(rows, slice(None)))[0, 0]
        return np.broadcast_to(tile, (len(range(queries)[rows]), keys))

    def written_matrix(self, name: str) -> Numbers:
        """A matrix as the convention writes it: transposed for x · Wᵀ."""
        return self.matrices[name] if self.product == PRODUCTS[0] else self.matrices[name].T

    def as_written(self, matrix: Numbers) -> str:
        """The shape of a matrix as the convention writes it."""
        return " × ".join(map(str, matrix.shape if self.product == PRODUCTS[0] else matrix.shape[::-1]))


def inputs_of(document: Document, words: Sequence[str] | None = None) -> Inputs:
    """The inputs of a document, whose cells get their heads; `words` replace those that it names."""
    settings = document.settings
    inputs = Inputs(*words_of(document, words), product=parse_product(settings.get("product")))
    for name in MATRICES:
        if settings.get(name) == "I":
            document.add(name, "I", where=document.source)
    inputs.heads = _heads(document, inputs.words)
    inputs.divisor = _divisor(settings.get("divisor"))
    document.cells, inputs.misfits = name_heads(document.cells, inputs)
    if document.of("embedding"):
        inputs.x = vectors(document, "embedding", inputs.words)
        if document.of("context"):
            inputs.context = vectors(document, "context", inputs.key_words)
        if document.of("position"):
            inputs.position = vectors(document, "position", inputs.words)
        _read_matrices(document, inputs)
    else:
        for cell in document.of("W", "W_q", "W_k", "W_v", "context", "position"):
            raise OptionError(
                f"`{SPELLING_OF[cell.step]}` is given without embeddings.\n"
                "Give the embeddings, or leave it out and give q, k and v."
            )
        _read_parts(document, inputs)
        _read_output_matrix(document, inputs)
    if document.of("output_gradient"):
        inputs.output_gradient = np.stack([vectors(document, "output_gradient", inputs.words)] * inputs.heads)
    inputs.mask, inputs.mask_text = _mask(settings.get("mask"), inputs)
    return inputs


# Words


def words_of(document: Document, words: Sequence[str] | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words of the queries and of the keys: as given, or from the labels of vectors and numbers, or positions."""
    query_words, all_words, context_words = (
        _listed(document, name) for name in ("query_words", "words", "context_words")
    )
    has_context = bool(context_words or document.of("context"))
    queries = (None if words is None else tuple(words)) or query_words or (all_words if has_context else None)
    keys = context_words or (all_words if query_words else None)
    if not document.of("embedding"):
        queries = queries or all_words
        keys = keys or _labels(document, 0, "key", "value")
        queries = queries or _labels(document, 0, "query")
        for step in ("score", "scaled", "masked", "weight", "weighted_value"):
            queries, keys = queries or _labels(document, 0, step), keys or _labels(document, 1, step)
        queries = queries or _labels(document, 0, "output", "concatenated", "projected")
        queries, keys = queries or keys, keys or queries
        # A row for one query alone does not name all queries; in self-attention these are the keys.
        if queries and keys and not query_words and not context_words and len(queries) < len(keys):
            queries = keys if set(queries) <= set(keys) else queries
    else:
        queries = queries or all_words or _labels(document, 0, "embedding")
        keys = keys or (_labels(document, 0, "context") if document.of("context") else queries)
    if not queries or not keys:
        raise OptionError(
            f'{document.source}: which words? Give embeddings, or q, k and v, or "words": ["The", "cat", "sat"].'
        )
    return tuple(queries), tuple(keys)


def _listed(document: Document, name: str) -> tuple[str, ...] | None:
    setting = document.settings.get(name)
    if setting is None:
        return None
    words = setting.split() if isinstance(setting, str) else setting
    if not isinstance(words, list) or not words or any(isinstance(word, (list, dict)) for word in words):
        raise OptionError(f"{document.source}: {SPELLING_OF[name]!r} is {shown(setting)}; expected a list of words.")
    return tuple(map(str, words))


def _labels(document: Document, axis: int, *steps: str) -> tuple[str, ...] | None:
    """The labels along one axis of the first step that has any: words, or positions where lists have no labels."""
    for step in steps:
        labels: dict[str, None] = {}
        for cell in document.of(step):
            at = axis + has_head_level(cell)
            label = cell.labels[at] if len(cell.labels) > at else Index(0, 0)
            if isinstance(label, str):
                labels[label] = None
            elif label.length:
                return tuple(map(str, range(label.length)))
        if labels:
            return tuple(
                match[1] if (match := OCCURRENCE.fullmatch(name)) and match[1] in labels else name for name in labels
            )
    return None


# Vectors and matrices


def rows_of(cells: Iterable[Cell], name: str, source: str) -> dict[Label, list[Written]]:
    """The numbers of each row, all rows of equal length; of a row that is given twice, the first numbers."""
    rows: dict[Label, dict[Index, Any]] = {}
    for cell in cells:
        component = cell.labels[-1] if len(cell.labels) == 2 else None
        if isinstance(component, Index) and component.length:
            rows.setdefault(cell.labels[0], {}).setdefault(component, cell.text)
        elif cell.text is not None or len(cell.labels) != 1:  # {"cat": null} is no vector for cat
            raise ShapeError(
                f"{source}: `{name}` is {shown(cell.text)}; expected a list of numbers per row, as in [[1, 0], [0, 1]] "
                'or {"The": [1, 0, 1, 0], …}.'
            )
    lengths = {label: next(iter(row)).length for label, row in rows.items()}
    for label, length in lengths.items():
        first = next(iter(lengths))
        if length != lengths[first] or len(rows[label]) != length:
            came = f"{_called(first)} has {count(lengths[first], 'number')}, {_called(label)} has {length}"
            raise ShapeError(f"{source}: `{name}` has rows of unequal length: {came}.")
    return {
        label: [finite(text, f"{source}, {name} of {_called(label)}") for text in row.values()]
        for label, row in rows.items()
    }


def _called(label: Label) -> str:
    return f"row {label.at + 1}" if isinstance(label, Index) else repr(label)


def row_index(label: Label, words: Sequence[str], name: str, source: str) -> int:
    """The word of a row, by its label, or by its position in a list of one row per word."""
    if isinstance(label, str):
        return word_index("word", label, words)
    if label.length != len(words):
        raise ShapeError(
            f"{source} holds {count(label.length, 'vector')} for {count(len(words), 'word')}: `{name}` needs one for "
            f"each of {' '.join(words[:MOST_NAMED])}{' …' if len(words) > MOST_NAMED else ''}."
        )
    return label.at


def finite(raw: Any, where: str) -> Written:
    """A finite number among the inputs."""
    try:
        number = written(raw, where)
    except OptionError as problem:  # without the advice to leave it out
        raise OptionError(str(problem).partition("\n")[0]) from None
    if not math.isfinite(number.value):
        raise OptionError(f"{where}: {number.text} is not a finite number.")
    return number


def vectors(document: Document, step: str, words: Sequence[str]) -> Numbers:
    """One vector per word, (word, width); a word that occurs twice may have its vector given once."""
    name, labels = SPELLING_OF[step], numbered(words)
    rows: dict[str, list[Written]] = {}
    for label, row in rows_of(document.of(step), name, document.source).items():
        if isinstance(label, Index):
            label = labels[row_index(label, words, name, document.source)]
        match = OCCURRENCE.fullmatch(label)
        rows[f"{match[1]}:{match[2]}" if match and label not in words else label] = row
    folded = {_folded(label): row for label, row in rows.items()}
    matches = [
        rows.get(label) or rows.get(word) or folded.get(_folded(word))
        for word, label in zip(words, labels, strict=True)
    ]
    if None in matches:
        names = ", ".join([*map(repr, list(rows)[:MOST_NAMED]), *(["…"] if len(rows) > MOST_NAMED else [])])
        raise OptionError(f"{document.source} has no vector for {words[matches.index(None)]!r}; `{name}` has {names}.")
    return np.array([[number.value for number in row or ()] for row in matches])


def _folded(word: str) -> str:
    return unicodedata.normalize("NFC", word).casefold()


def _matrix(cells: Sequence[Cell], name: str, source: str) -> Numbers:
    cells = [cell for cell in cells if cell.where == cells[0].where]
    rows = [[number.value for number in row] for row in rows_of(cells, name, source).values()]
    if not rows:
        raise ShapeError(f'{source}: `{name}` is empty; expected a list of rows, or "I" for the identity.')
    return np.array(rows)


def _read_matrices(document: Document, inputs: Inputs) -> None:
    """W_q, W_k, W_v as (in, out) with heads side by side; the identity for those that are not given."""
    assert inputs.x is not None
    source_width = (inputs.x if inputs.context is None else inputs.context).shape[1]
    for step, name in PROJECTIONS.items():
        size = inputs.x.shape[1] if name == "W_q" else source_width
        cells = document.of(name) or document.of("W")
        if not cells and document.is_trace and document.of(step):  # a layer with biases or rotary positions
            continue
        inputs.has_matrices |= bool(cells)
        matrix = np.eye(size) if not cells or cells[0].text == "I" else _joined_heads(cells, inputs, document.source)
        if len(matrix) == size:
            inputs.matrices[name] = matrix
            continue
        if matrix.shape[0] == matrix.shape[1] and np.array_equal(matrix, np.eye(len(matrix))):
            expected = f"the identity is {size} × {size}, which is used below"
            inputs.matrices[name] = np.eye(size)
        else:
            other = PRODUCTS[1 - PRODUCTS.index(inputs.product)]
            hint = f'; it fits as {other}: set "product": "{other}"' if matrix.shape[1] == size else ""
            side = "rows" if inputs.product == PRODUCTS[0] else "columns"
            expected = f"{inputs.product} needs {size} {side}{hint}"
        because = f"embeddings have {count(size, 'number')}: {expected}"
        inputs.misfits.append(Misfit(cells[0].step, inputs.as_written(matrix), because))
    queries, keys = inputs.matrices.get("W_q"), inputs.matrices.get("W_k")
    if queries is not None and keys is not None and queries.shape[1] != keys.shape[1]:
        because = (
            f"W_q gives queries of {count(queries.shape[1], 'number')}, W_k gives keys of {keys.shape[1]}: "
            "q · k needs equal sizes"
        )
        inputs.misfits.append(Misfit("W_k", inputs.as_written(keys), because))
        del inputs.matrices["W_k"]
    for name, matrix in list(inputs.matrices.items()):
        if matrix.shape[1] % inputs.heads:
            because = f"{matrix.shape[1]} columns cannot be split evenly among {inputs.heads} heads"
            inputs.misfits.append(Misfit(name, " × ".join(map(str, matrix.shape)), because))
            del inputs.matrices[name]
    _read_output_matrix(document, inputs)


def _read_output_matrix(document: Document, inputs: Inputs) -> None:
    """W_O: (heads · d_v, out)."""
    cells = document.of("W_O")
    if not cells:
        return
    inputs.has_matrices = True
    value = inputs.matrices.get("W_v")
    size = value.shape[1] if value is not None else None
    if size is None and "value" in inputs.parts:
        size = inputs.heads * inputs.parts["value"].shape[-1]
    matrix = np.eye(size or 1) if cells[0].text == "I" else _matrix(cells, "W_O", document.source)
    matrix = matrix if inputs.product == PRODUCTS[0] else matrix.T
    if size is not None and len(matrix) != size:
        because = f"the concatenated heads have {count(size, 'number')}: W_O needs {size} rows"
        inputs.misfits.append(Misfit("W_O", inputs.as_written(matrix), because))
    else:
        inputs.matrices["W_O"] = matrix


def _joined_heads(cells: list[Cell], inputs: Inputs, source: str) -> Numbers:
    """One matrix with the columns of all heads side by side, from one matrix or from one per head."""
    name = cells[0].step
    heads = sorted({cell.head for cell in cells if cell.head is not None})
    by_head = [[cell for cell in cells if cell.head == head] for head in heads] or [cells]
    if len(by_head) not in (1, inputs.heads):
        raise ShapeError(f"`{name}` holds {count(len(by_head), 'matrix')} for {count(inputs.heads, 'head')}.")
    matrices = [_matrix(of_head, name, source) for of_head in by_head]
    matrices = [matrix if inputs.product == PRODUCTS[0] else matrix.T for matrix in matrices]
    if len({len(matrix) for matrix in matrices}) > 1:
        shapes = ", ".join(str(matrix.shape) for matrix in matrices)
        raise ShapeError(f"`{name}` holds matrices of unequal size: {shapes}.")
    return np.concatenate(matrices, axis=1)


def _read_parts(document: Document, inputs: Inputs) -> None:
    """q, k, v per head, as given. Those that were printed in step tables keep the size of their rounding."""
    for step in PROJECTIONS:
        name, words = SPELLING_OF[step], inputs.words if step == "query" else inputs.key_words
        cells = [cell for cell in document.of(step) if not cell.is_printed] or document.of(step)
        numbers: dict[tuple[int, int], list[Written]] = {}
        for head in dict.fromkeys(cell.head for cell in cells):
            if (head or 0) >= inputs.heads:
                raise no_head(document.source, head, inputs.heads)
            of_head = rows_of([cell for cell in cells if cell.head == head], name, document.source)
            shares = inputs.heads if head is None else 1
            for label, row in of_head.items():
                if len(row) % shares:
                    raise ShapeError(f"`{name}`: {count(len(row), 'number')} cannot be split among {shares} heads.")
                size = len(row) // shares
                for share in range(shares):
                    position = (head or share, row_index(label, words, name, document.source))
                    numbers.setdefault(position, row[share * size : (share + 1) * size])
        if not numbers:
            continue
        array = np.full((inputs.heads, len(words), len(next(iter(numbers.values())))), np.nan)
        for position, row in numbers.items():
            if len(row) != array.shape[-1]:
                raise ShapeError(f"{document.source}: vectors of unequal length in `{name}`.")
            array[position] = [number.value for number in row]
        inputs.parts[step] = array
        digits = max(number.digits for row in numbers.values() for number in row)
        if cells[0].is_printed and digits >= 2:
            inputs.spread[step] = 0.5 * 10.0**-digits
    queries, keys = inputs.parts.get("query"), inputs.parts.get("key")
    if queries is not None and keys is not None and queries.shape[-1] != keys.shape[-1]:
        raise ShapeError(
            f"`k` has head_dim {keys.shape[-1]}, `q` has {queries.shape[-1]}.\nq · k needs vectors of the same length."
        )


# Settings


def _heads(document: Document, words: Sequence[str]) -> int:
    setting = document.settings.get("heads")
    if setting is not None:
        number = written(setting, f"{document.source}, heads").value
        if number != int(number if math.isfinite(number) else 0) or not 1 <= number <= MOST_HEADS:
            raise OptionError(
                f"{document.source}: 'heads' is {shown(setting)}; expected a whole number up to {MOST_HEADS}."
            )
        return int(number)
    heads, names = 1, {step: set[Label]() for step in (*AXES, *MATRICES)}
    for cell in document.cells:
        heads = max(heads, (cell.head or 0) + 1)
        if has_head_level(cell, words):
            names[cell.step].add(cell.labels[0])
            label = cell.labels[0]
            heads = max(heads, label.length if isinstance(label, Index) else len(names[cell.step]))
    if heads > MOST_HEADS:
        raise OptionError(f"{document.source} names head {heads - 1}; at most {MOST_HEADS} heads are checked.")
    return heads


def _divisor(setting: Any) -> float | None:
    setting = setting[0] if isinstance(setting, list) and len(setting) == 1 else setting
    if setting is None or (isinstance(setting, str) and setting.replace(" ", "") in ("√d_k", "sqrt(d_k)")):
        return None
    divisor = written(setting, "divisor").value
    if not divisor > 0 or not math.isfinite(1 / divisor):
        raise OptionError(f"`divisor` is {shown(setting)}; expected a positive number.\nLeave it out for √d_k.")
    return divisor


def parse_product(setting: Any) -> Product:
    """The convention of the projections: "x W", or "x W^T".

    >>> parse_product(None), parse_product("q = x · W_qᵀ")
    ('x W', 'x W^T')
    """
    if setting is None:
        return PRODUCTS[0]
    if isinstance(setting, str):
        text = re.sub(r"(?i)^q\s*=\s*", "", setting.strip()).replace("E", "x").replace("X", "x")
        text = re.sub(r"[\s·*×@_]+", " ", text).replace("ᵀ", "^T").replace(" q", "").replace("^t", "^T")
        for product in PRODUCTS:
            if text == product:
                return product
    raise OptionError(f'`product` is {shown(setting)}; expected "x W" (as in q = x · W_q) or "x W^T".')


def _mask(setting: Any, frame: Frame) -> tuple[Mask | None, str]:
    """A mask from its name, as in "causal & window:2", or from rows of 1 (visible) and 0 (hidden)."""
    if setting is None or setting == "none":
        return None, ""
    if isinstance(setting, str) and re.search(r"[a-z]", setting.casefold()):
        return parse_mask(setting), setting
    rows: list[Any] = setting if isinstance(setting, list) else []
    if isinstance(setting, str):
        rows = [split_numbers(row, "mask") for row in re.split(r"[;/\n]", setting) if row.strip()]
    shape = (len(frame.words), len(frame.key_words))
    if isinstance(setting, Mapping):
        rows = [[1] * shape[1]] * shape[0]  # a query that is not named sees every key
        for label, row in setting.items():
            rows[word_index("mask", label, frame.words)] = row
    if len(rows) != shape[0] or not all(isinstance(row, list) and len(row) == shape[1] for row in rows):
        raise ShapeError(
            f"`mask` is {shown(setting)}; expected a name such as causal, or {shape[0]} × {shape[1]} numbers: 1 where "
            "a query may see a key, 0 where not."
        )
    numbers = np.array([[_mask_number(cell) for cell in row] for row in rows])
    seen = np.isfinite(numbers) if np.isneginf(numbers).any() else numbers != 0
    if not np.isin(numbers, (0, 1, -math.inf)).all():
        raise OptionError("`mask` holds other numbers than 0, 1 and −∞.\nWrite 1 where a query may see a key, else 0.")
    text = "; ".join(" ".join("1" if cell else "0" for cell in row) for row in seen) if seen.size <= MANY_CELLS else ""
    return allowed(seen), text


def _mask_number(cell: Any) -> float:
    return 0.0 if is_blank(cell) else float(cell) if isinstance(cell, bool) else written(cell, "mask").value


def check_positions(mask: Mask, queries: int, keys: int) -> None:
    """Refuse a mask that compares the positions of queries and keys where these are of different sequences."""
    if mask.needs_position and queries != keys:
        raise OptionError(
            f"The mask compares positions, but {count(queries, 'query')} and {count(keys, 'key')} are of different "
            "sequences.\nFor cross-attention use length:N, or rows of 1 and 0."
        )

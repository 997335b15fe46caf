"""What a calculation starts from: words, embeddings and matrices, or queries, keys and values; heads, mask, divisor."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from regard.errors import OptionError, ShapeError, count, shown
from regard.masks import Mask, allowed, parse_mask
from regard.teaching.hand_check.document import OCCURRENCE, WITHOUT_HEAD, Cell, Document, Index, Label
from regard.teaching.hand_check.notation import (
    AXES,
    PROJECTIONS,
    SPELLING_OF,
    WITH_HEAD,
    is_blank,
    split_numbers,
    written,
)
from regard.trace.labels import numbered, place_of

Numbers = NDArray[np.float64]
Indices = tuple[int, ...]  # head (except for HEADLESS steps), then along the axes of the step
Product = Literal["x W", "x W^T"]
PRODUCTS: tuple[Product, Product] = ("x W", "x W^T")
MOST_HEADS = 1024
MANY_CELLS = 10_000  # of a mask that tables print


@dataclass(frozen=True)
class Misfit:
    """Something with a shape that does not fit, and the shape that would."""

    step: str
    came: str
    because: str


@dataclass(eq=False)
class Inputs:
    """Where a calculation starts. Matrices are as in q = x · W: one row per component of x, one column per one of q."""

    words: tuple[str, ...]  # of the queries
    key_words: tuple[str, ...]
    heads: int = 1
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

    @cached_property
    def labels(self) -> dict[str, list[str]]:
        """The words along each axis, repeated ones numbered."""
        return {"query": numbered(self.words), "key": numbered(self.key_words)}

    @property
    def is_cross(self) -> bool:
        """Whether queries and keys come from different words."""
        return self.context is not None or (self.x is None and self.words != self.key_words)

    def name(self, step: str, index: Sequence[int]) -> str:
        """A step and a place in it: "weight The → cat", "output The [2], head 1"."""
        axes = list(zip(WITH_HEAD[step], index, strict=False))
        words = " → ".join(self.labels[axis][at] for axis, at in axes if axis in self.labels)
        component = "".join(f" [{at}]" for axis, at in axes if axis not in ("head", *self.labels))
        head = f", head {index[0]}" if axes[:1] and axes[0][0] == "head" and self.heads > 1 else ""
        return f"{step.replace('_', ' ')} {words}{component}{head}".strip()

    def visible(self, rows: slice = slice(None)) -> NDArray[np.bool_] | None:
        """Which keys each query may see, (query, key); None without a mask."""
        if self.mask is None:
            return None
        queries, keys = len(self.words), len(self.key_words)
        check_positions(self.mask, queries, keys)
        tile = np.asarray(self.mask.visible(queries=queries, keys=keys).tile(rows, slice(None)))[0, 0]
        return np.broadcast_to(tile, (len(range(queries)[rows]), keys))

    def in_convention(self, matrix: Numbers) -> Numbers:
        """A matrix as it is written, or one that was written as it is computed with: transposed for x · Wᵀ."""
        return matrix if self.product == PRODUCTS[0] else matrix.T

    def as_written(self, matrix: Numbers) -> str:
        """The shape of a matrix as the convention writes it."""
        return " × ".join(map(str, self.in_convention(matrix).shape))

    def refuse(self, name: str, matrix: Numbers, because: str) -> None:
        """Remember that a matrix does not fit; what it computes is not known."""
        self.misfits.append(Misfit(name, self.as_written(matrix), because))
        self.matrices.pop(name, None)


def inputs_of(document: Document, words: Sequence[str] | None = None) -> Inputs:
    """The inputs of a document, whose cells get their heads; `words` replace those that it names."""
    settings = document.settings
    inputs = Inputs(*words_of(document, words), product=parse_product(settings.get("product")))
    inputs.heads = _heads(document, inputs.words)
    inputs.divisor = _divisor(settings.get("divisor"))
    inputs.misfits = name_heads(document, inputs)
    if document.of("embedding"):
        inputs.x = vectors(document, "embedding", inputs.words)[0]
        if document.of("context"):
            inputs.context = vectors(document, "context", inputs.key_words)[0]
        if document.of("position"):
            inputs.position = vectors(document, "position", inputs.words)[0]
            if inputs.position.shape != inputs.x.shape:
                raise ShapeError(
                    f"{document.source}: `positions` have {count(inputs.position.shape[1], 'number')} per word, "
                    f"`embeddings` have {inputs.x.shape[1]}; they are added."
                )
        _read_projections(document, inputs)
    else:
        for cell in document.of("W", *PROJECTIONS.values(), "context", "position"):
            raise OptionError(
                f"`{SPELLING_OF[cell.step]}` is given without embeddings.\n"
                "Give the embeddings, or leave it out and give q, k and v."
            )
        _read_parts(document, inputs)
    if document.of("W_O"):
        size = None
        if "W_v" in inputs.matrices:
            size = inputs.matrices["W_v"].shape[1]
        elif "value" in inputs.parts:
            size = inputs.heads * inputs.parts["value"].shape[-1]
        _read_matrix(document, inputs, "W_O", size, "the concatenated heads have")
    if document.of("output_gradient"):
        inputs.output_gradient = np.repeat(vectors(document, "output_gradient", inputs.words), inputs.heads, axis=0)
    inputs.mask, inputs.mask_text = _mask(settings.get("mask"), inputs)
    return inputs


# Words


def words_of(document: Document, words: Sequence[str] | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words of the queries and of the keys: as given, or from the labels of vectors and numbers, or positions."""
    query_words, all_words, context_words = (
        _listed(document, name) for name in ("query_words", "words", "context_words")
    )
    queries = (None if words is None else tuple(words)) or query_words or all_words
    keys = context_words or (all_words if query_words else None)
    if document.of("embedding"):
        queries = queries or _labels(document, "query", "embedding")
        keys = keys or (_labels(document, "key", "context") if document.of("context") else queries)
    else:
        keys = keys or _labels(document, "key", *AXES)
        queries = queries or _labels(document, "query", *AXES)
        queries, keys = queries or keys, keys or queries
        # A row for one query alone does not name all queries; in self-attention these are the keys.
        if queries and keys and not query_words and not context_words and len(queries) < len(keys):
            queries = keys if set(queries) <= set(keys) else queries
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


def _labels(document: Document, axis: str, *steps: str) -> tuple[str, ...] | None:
    """The labels along one axis of the first step that has any: words, or positions where lists have no labels."""
    for step in steps:
        labels: dict[str, None] = {}
        axes = AXES.get(step, (axis,))
        for cell in document.of(step) if axis in axes else ():
            at = axes.index(axis) + has_head_level(cell)
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


def spelled(label: str, words: Sequence[str]) -> str:
    """The label of a word: `the (2)` is `the:2`."""
    match = OCCURRENCE.fullmatch(label)
    return f"{match[1]}:{match[2][:9]}" if match and label not in words else label


def word_index(axis: str, label: str, words: Sequence[str]) -> int:
    """The position of a word: `the:2` and `the (2)` are the second of them."""
    return place_of(axis, spelled(label, words), words)


# Heads: named beside a step, or the outermost level of nested lists and dictionaries


def _heads(document: Document, words: Sequence[str]) -> int:
    heads = document.settings.get("heads")
    if heads is None:
        counts, names = [1], {cell.step: set[Label]() for cell in document.cells}
        for cell in document.cells:
            counts.append((cell.head or 0) + 1)
            if has_head_level(cell, words):
                label = cell.labels[0]
                names[cell.step].add(label)
                counts.append(label.length if isinstance(label, Index) else len(names[cell.step]))
        heads = max(counts)
    number = written(heads, f"{document.source}, heads").value
    if not 1 <= number <= MOST_HEADS or number % 1:
        raise OptionError(f"{document.source}: 'heads' is {shown(heads)}; expected a whole number up to {MOST_HEADS}.")
    return int(number)


def has_head_level(cell: Cell, words: Sequence[str] = ()) -> bool:
    """Whether the first label of a cell is a head."""
    if cell.head is not None or cell.step in WITHOUT_HEAD:
        return False
    return len(cell.labels) > len(AXES.get(cell.step, ("row", "column"))) and cell.labels[0] not in words


def name_heads(document: Document, inputs: Inputs) -> list[Misfit]:
    """Give the cells of a document their heads; those of steps with too many heads are left out, and named.

    Vectors of q, k and v with all heads side by side are split; such outputs are the concatenated ones.
    """
    labels: dict[str, dict[Label, None]] = {}
    for cell in document.cells:
        if has_head_level(cell, inputs.words):
            labels.setdefault(cell.step, {})[cell.labels[0]] = None
    numbers = {step: _head_numbers(list(of_step), inputs.heads) for step, of_step in labels.items()}
    misfits = []
    for step in (step for step in labels if numbers[step] is None):
        first = next(iter(labels[step]))
        came = first.length if isinstance(first, Index) else len(labels[step])
        because = f"there {'is' if inputs.heads == 1 else 'are'} {count(inputs.heads, 'head')}"
        misfits.append(Misfit(step.replace("_", " "), count(came, "head"), because))
    cells, document.cells = document.cells, []
    for cell in cells:
        if has_head_level(cell, inputs.words):
            head = (numbers[cell.step] or {}).get(cell.labels[0])
            document.cells += [] if head is None else [replace(cell, head=head, labels=cell.labels[1:])]
        elif inputs.heads > 1 and cell.head is None and cell.text is not None:
            try:
                document.cells.append(_of_all_heads(cell, inputs.heads))
            except ShapeError as problem:
                document.problem(problem)
        else:
            document.cells.append(cell)
    return misfits


def _head_numbers(labels: Sequence[Label], heads: int) -> dict[Label, int] | None:
    """The number of each head: positions of a list of all, or names with numbers, counted from 0 or from 1."""
    if all(isinstance(label, Index) and label.length == heads for label in labels):
        return {label: label[0] for label in labels if isinstance(label, Index)}
    digits = ["".join(filter(str.isdecimal, str(label)))[:9] for label in labels if isinstance(label, str)]
    if len(digits) < len(labels) or not all(digits):
        return None
    numbers = [int(number) for number in digits]
    base = 1 if min(numbers) == 1 and max(numbers) == heads else 0
    if len(set(numbers)) < len(numbers) or max(numbers) - base >= heads:
        return None
    return {label: number - base for label, number in zip(labels, numbers, strict=True)}


def _of_all_heads(cell: Cell, heads: int) -> Cell:
    """A cell of vectors with all heads side by side; any other as it is."""
    if cell.step == "output":
        return replace(cell, step="concatenated")
    if cell.step not in PROJECTIONS or len(cell.labels) != 2 or not isinstance(component := cell.labels[1], Index):
        return cell
    size, rest = divmod(component.length, heads)
    if rest or not size:
        raise ShapeError(
            f"`{SPELLING_OF[cell.step]}`: {count(component.length, 'number')} cannot be split among {heads} heads."
        )
    return replace(cell, head=component.at // size, labels=(cell.labels[0], Index(component.at % size, size)))


def no_head(where: str, head: int | None, heads: int) -> OptionError:
    return OptionError(f"{where}: there is no head {head}: there are {heads}, counted from 0.")


# Vectors and matrices


def rows_of(cells: Iterable[Cell], name: str, source: str) -> dict[int | None, dict[Label, list[float]]]:
    """The numbers of each row by head, all rows of equal length; of a row that is given twice, the first numbers."""
    rows: dict[tuple[int | None, Label], dict[Index, float]] = {}
    for cell in cells:
        component = cell.labels[-1] if len(cell.labels) == 2 else None
        if isinstance(component, Index) and component.length:
            row = rows.setdefault((cell.head, cell.labels[0]), {})
            row.setdefault(component, written(cell.text, f"{source}, {name} of {_called(cell.labels[0])}").value)
        elif cell.text is not None or len(cell.labels) != 1:  # {"cat": null} is no vector for cat
            raise ShapeError(
                f"{source}: `{name}` is {shown(cell.text)}; expected a list of numbers per row, as in [[1, 0], [0, 1]] "
                'or {"The": [1, 0, 1, 0], …}.'
            )
    for (_, label), row in rows.items():
        first, first_row = next(iter(rows.items()))
        length = next(iter(first_row)).length
        if {len(row), *(component.length for component in row)} != {length}:
            came = f"{_called(first[1])} has {count(length, 'number')}, {_called(label)} has {len(row)}"
            raise ShapeError(f"{source}: `{name}` has rows of unequal length: {came}.")
    by_head: dict[int | None, dict[Label, list[float]]] = {}
    for (head, label), row in rows.items():
        by_head.setdefault(head, {})[label] = list(row.values())
    return by_head


def _called(label: Label) -> str:
    return f"row {label.at + 1}" if isinstance(label, Index) else repr(label)


def vectors(document: Document, step: str, words: Sequence[str], heads: int | None = None) -> Numbers:
    """One vector per word, (head, word, width); a word that occurs twice may have its vector given once.

    With `heads`, words without a vector are NaN.
    """
    name, labels, source = SPELLING_OF[step], numbered(words), document.source
    cells = [cell for cell in document.of(step) if heads is None or not cell.is_printed] or document.of(step)
    by_head = rows_of(cells, name, source) or {None: {}}
    width = max((len(row) for rows in by_head.values() for row in rows.values()), default=0)
    array = np.full((heads or 1, len(words), width), np.nan)
    for head, rows in by_head.items():
        if (head or 0) >= len(array):
            raise no_head(source, head, len(array))
        named: dict[str, list[float]] = {}
        for label, row in rows.items():
            if isinstance(label, Index) and label.length != len(words):
                came = f"{source} holds {count(label.length, 'vector')} for {count(len(words), 'word')}"
                raise ShapeError(f"{came}: `{name}` needs one for each of {shown(list(words))}.")
            named[labels[label.at] if isinstance(label, Index) else spelled(label, words)] = row
        by_name = {_folded(label): row for label, row in named.items()} | named
        word_rows = [
            by_name.get(label) or by_name.get(word) or by_name.get(_folded(word))
            for label, word in zip(labels, words if heads is None else labels, strict=True)
        ]
        if None in word_rows and (heads is None or len([row for row in word_rows if row]) < len(rows)):
            missing = repr(words[word_rows.index(None)])
            raise OptionError(f"{source} has no vector for {missing}; `{name}` has {shown(list(named))}.")
        array[head or 0] = [row or [np.nan] * width for row in word_rows]
    return array


def _folded(word: str) -> str:
    return unicodedata.normalize("NFC", word).casefold()


def _read_parts(document: Document, inputs: Inputs) -> None:
    """q, k, v per head, as given. Those that were printed in step tables keep the size of their rounding."""
    for step in PROJECTIONS:
        cells = [cell for cell in document.of(step) if cell.text is not None]
        words = inputs.words if step == "query" else inputs.key_words
        part = vectors(document, step, words, inputs.heads)
        if part.size:
            inputs.parts[step] = part
        if part.size and all(cell.is_printed for cell in cells):
            digits = max(written(cell.text, "").digits for cell in cells)
            inputs.spread |= {step: 0.5 * 10.0**-digits} if digits >= 2 else {}
    sizes = [inputs.parts[step].shape[-1] for step in ("query", "key") if step in inputs.parts]
    if len({*sizes}) > 1:
        raise ShapeError(f"`k` has head_dim {sizes[1]}, `q` has {sizes[0]}.\nq · k needs vectors of the same length.")


def _read_projections(document: Document, inputs: Inputs) -> None:
    """W_q, W_k, W_v; the identity for those that are not given."""
    assert inputs.x is not None
    source_width = (inputs.x if inputs.context is None else inputs.context).shape[1]
    for step, name in PROJECTIONS.items():
        size = inputs.x.shape[1] if name == "W_q" else source_width
        if document.of(name, "W"):
            _read_matrix(document, inputs, name, size, "embeddings have")
        elif not (document.is_trace and document.of(step)):  # a layer with biases or rotary positions
            inputs.matrices[name] = np.eye(size)
    sizes = [inputs.matrices[name].shape[1] for name in ("W_q", "W_k") if name in inputs.matrices]
    if len({*sizes}) > 1:
        because = f"W_q gives queries of {count(sizes[0], 'number')}, W_k gives keys of {sizes[1]}"
        inputs.refuse("W_k", inputs.matrices["W_k"], f"{because}: q · k needs equal sizes")
    for name, matrix in list(inputs.matrices.items()):
        if matrix.shape[1] % inputs.heads:
            because = f"{matrix.shape[1]} columns cannot be split evenly among {inputs.heads} heads"
            inputs.refuse(name, matrix, because)


def _read_matrix(document: Document, inputs: Inputs, name: str, size: int | None, what: str) -> None:
    """A matrix as (in, out) with the columns of all heads side by side, from one matrix or from one per head.

    size  of what is multiplied by it, if that is known, and `what` that is in messages
    """
    first: dict[int | None, str] = {}  # where the matrix of each head is given first
    cells = document.of(name) or document.of("W")
    cells = [cell for cell in cells if cell.where == first.setdefault(cell.head, cell.where)]
    inputs.has_matrices = True
    if cells[0].text == "I":
        inputs.matrices[name] = np.eye(size or 1)
        return
    by_head = rows_of(cells, cells[0].step, document.source)
    heads = sorted(head for head in by_head if head is not None)
    of_heads = [inputs.in_convention(np.array([*by_head[head].values()])) for head in heads or by_head]
    if len(of_heads) not in (1, inputs.heads) or len({len(matrix) for matrix in of_heads}) > 1:
        came = ", ".join(map(inputs.as_written, of_heads)) or "empty"
        raise ShapeError(
            f"{document.source}: `{cells[0].step}` is {came}; expected one list of rows, one per head with equally "
            'many, or "I" for the identity.'
        )
    matrix = np.concatenate(of_heads, axis=1)
    if size is None or len(matrix) == size:
        inputs.matrices[name] = matrix
        return
    other = PRODUCTS[1 - PRODUCTS.index(inputs.product)]
    hint = f'; it fits as {other}: set "product": "{other}"' if matrix.shape[1] == size else ""
    fix = f"{inputs.product} needs {size} {'rows' if inputs.product == PRODUCTS[0] else 'columns'}{hint}"
    if is_identity := np.array_equal(matrix, np.eye(len(matrix))):
        fix = f"the identity is {size} × {size}, which is used below"
    inputs.refuse(cells[0].step, matrix, f"{what} {count(size, 'number')}: {fix}")
    inputs.matrices |= {name: np.eye(size)} if is_identity else {}


# Settings


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
    form = re.fullmatch(r"(?:q\s*=\s*)?[xe][\s·*×@]*w(?:[\s_]*q)?\s*(\^t|ᵀ)?", str(setting).strip().casefold())
    if form is None:
        raise OptionError(f'`product` is {shown(setting)}; expected "x W" (as in q = x · W_q) or "x W^T".')
    return PRODUCTS[form[1] is not None]


def _mask(setting: Any, inputs: Inputs) -> tuple[Mask | None, str]:
    """A mask from its name, as in "causal & window:2", or from rows of 1 (visible) and 0 (hidden)."""
    if setting is None or setting == "none":
        return None, ""
    if isinstance(setting, str) and re.search(r"[a-z]", setting.casefold()):
        return parse_mask(setting), setting
    rows: list[Any] = setting if isinstance(setting, list) else []
    if isinstance(setting, str):
        rows = [split_numbers(row, "mask") for row in re.split(r"[;/\n]", setting) if row.strip()]
    shape = (len(inputs.words), len(inputs.key_words))
    if isinstance(setting, Mapping):
        rows = [[1] * shape[1]] * shape[0]  # a query that is not named sees every key
        for label, row in setting.items():
            rows[word_index("mask", label, inputs.words)] = row
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
    if is_blank(cell):
        return 0.0
    return float(cell) if isinstance(cell, bool) else written(cell, "mask", may_be_masked=True).value


def check_positions(mask: Mask, queries: int, keys: int) -> None:
    """Refuse a mask that compares the positions of queries and keys where these are of different sequences."""
    if mask.needs_position and queries != keys:
        raise OptionError(
            f"The mask compares positions, but {count(queries, 'query')} and {count(keys, 'key')} are of different "
            "sequences.\nFor cross-attention use length:N, or rows of 1 and 0."
        )

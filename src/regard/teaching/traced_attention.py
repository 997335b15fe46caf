"""Attention on a few words, step by step: vectors, weights, heads and mask, as given or drawn from a seed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regard import validate
from regard.arrays import numpy_of
from regard.attention import Attention
from regard.errors import OptionError, TooLarge
from regard.layers import Linear, MultiHead
from regard.layers.layer import Seed
from regard.layers.positions import sinusoidal
from regard.masks import parse_mask
from regard.provenance import TYPED, Source
from regard.tables import Column, Table, digits_for
from regard.teaching.hand_check.document import Document
from regard.teaching.hand_check.formats import read_mapping
from regard.teaching.hand_check.inputs import (
    PRODUCTS,
    Inputs,
    Numbers,
    Product,
    check_positions,
    inputs_of,
    parse_product,
)
from regard.teaching.hand_check.notation import PROJECTIONS, step_named
from regard.trace import Step, Trace
from regard.trace.labels import numbered
from regard.trace.named_steps import Projection, Sum, query_label

HEAD_DIM = 4  # of random vectors: √4 = 2
USUAL_SEED = 0
MOST_WIDTH = 1 << 14
MOST_ROWS = 16  # of a matrix or a table that the terminal shows
MOST_LINES = 60  # of all tables together, without a query and `full`
MOST_GIVEN = 1 << 14  # numbers of W that tables print
EXACT_DIGITS = 17  # decimals that give back a float64 of ordinary size


@dataclass(frozen=True, eq=False, slots=True)
class Traced:
    """The inputs of an attention, and its steps for one query or for all."""

    inputs: Inputs
    note: str | None
    source: Source

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the queries."""
        return self.inputs.words

    @property
    def key_words(self) -> tuple[str, ...]:
        """The words of the keys."""
        return self.inputs.key_words

    @property
    def heads(self) -> int:
        return self.inputs.heads

    def explain(self, query: Any = None) -> Trace:
        """The steps of one query, by word or position; of all with None. W is written as the convention says."""
        trace = _of_parts(self.inputs, query) if self.inputs.x is None else _of_layer(self.inputs, query)
        trace = trace.noted(self.note, self.source)
        if self.inputs.product == PRODUCTS[0]:
            return trace
        steps = tuple(replace(step, formula=written_formula(step.formula, self.inputs)) for step in trace.steps)
        return replace(trace, steps=steps, origin=replace(trace.origin, product=self.inputs.product))

    def whole(self) -> Trace:
        try:
            return self.explain()
        except TooLarge:
            raise OptionError(
                f"All steps of {len(self.words):,} words take too much memory: choose one with --query WORD."
            ) from None

    def given(self, *, whole: bool) -> list[Table]:
        """Tables of what the steps start from; with `whole`, all of it exactly, for `regard check` to recompute."""
        inputs, position = self.inputs, self.inputs.position
        tables = [_settings(inputs)] if whole else []
        if inputs.x is not None and (whole or inputs.has_matrices or position is not None):
            words = inputs.words
            tables.append(_vectors("Embeddings", "x" if position is None else "embedding", words, inputs.x))
            if position is not None:
                tables.append(_vectors("Positions", "position", words, position, whole=whole))
                title, name = "x = embedding + position", "embedding + position"
                tables.append(_vectors(title, name, words, inputs.x + position, whole=whole))
            if inputs.context is not None:
                tables.append(_vectors("Context", "context", inputs.key_words, inputs.context))
        largest = max((len(matrix) for matrix in inputs.matrices.values()), default=0)
        if inputs.has_matrices and (whole or largest <= MOST_ROWS):
            tables += _weights(inputs)
        for step, part in inputs.parts.items() if whole else ():
            labels = inputs.labels["query" if step == "query" else "key"]
            for head, vectors in enumerate(part):
                name = step[0] if inputs.heads == 1 else f"{step[0]}, head {head}"
                title = f"{name}: {len(labels)} × {part.shape[-1]}"
                tables.append(_table(title, name, labels, {"numbers": vectors}, exact_digits(part)))
        return tables


def traced(
    words: Sequence[str] | None,
    content: Any = None,
    *,
    source: str = "content",
    context: Sequence[str] | None = None,
    heads: int | None = None,
    width: int | None = None,
    seed: int | None = None,
    masks: Sequence[str] = (),
    product: str | None = None,
    positions: str | None = None,
) -> Traced:
    """The attention of some words, step by step, as `regard steps` shows it; vectors are drawn from a seed or given.

    content   vectors as in a JSON file: {"The": [1, 0], "cat": [0, 1]}, a list of vectors, or named parts such as
              "embeddings", "W_q", "mask"; None draws embeddings and weights from `seed`
    source    what `content` is called in errors
    context   cross-attention: words of the keys and values
    product   "x W" or "x W^T": how W is written, where `content` does not say it
    positions "sinusoidal" adds them to the embeddings: x = embedding + position

    >>> steps = traced(["The", "cat"], {"The": [1, 0], "cat": [0, 1]}, masks=["causal"])
    >>> steps.explain("The")["weight"].tolist()
    [[[1.0, 0.0]]]
    """
    if seed is not None:
        validate.integer("seed", seed, 0)
    if (not words and (content is None or words is not None)) or (context is not None and not context):
        raise OptionError('The text, or the context, holds no word: give one, as in regard steps "The cat sat".')
    if content is not None:
        document = _document(content, source)
        if width is not None or (context is not None and document.of("embedding")):
            raise OptionError("`width` and `context` are for random vectors; these words have vectors of their own.")
        if heads is not None:
            document.settings["heads"] = heads
        if product is not None:
            document.settings.setdefault("product", product)
        inputs, note = _from_document(document, words, seed)
        made = TYPED if seed is None else f"{TYPED}, W random numbers from seed {seed}"
    else:
        seed = USUAL_SEED if seed is None else seed
        inputs, note = _random(tuple(words or ()), context, heads or 1, width, seed, parse_product(product))
        made = f"random numbers from seed {seed}"
    if positions is not None:
        note += _add_positions(inputs, positions)
    if masks:
        inputs.mask_text = " & ".join(masks)
        inputs.mask = parse_mask(inputs.mask_text)
    if inputs.mask is not None:
        check_positions(inputs.mask, len(inputs.words), len(inputs.key_words))
    return Traced(inputs, note, Source(made))


def _add_positions(inputs: Inputs, kind: str) -> str:
    """Set the positions of the words; what a note says of them."""
    if kind != "sinusoidal":
        raise OptionError(f"`positions` is {kind!r}; expected sinusoidal. `regard positions` shows other kinds.")
    if inputs.x is None or inputs.context is not None or inputs.position is not None:
        raise OptionError(
            "`positions` are added to the embeddings of one text: leave out the context, q, k and v, or positions of "
            "their own."
        )
    inputs.position = sinusoidal(*inputs.x.shape)
    return " Positions are sinusoidal: x = embedding + position."


def written_formula(formula: str, inputs: Inputs) -> str:
    """A formula with Wᵀ for W where the convention is x · Wᵀ."""
    return formula if inputs.product == PRODUCTS[0] else re.sub(r"· (W_[qkvO])", r"· \1ᵀ", formula)


def _document(content: Any, source: str) -> Document:
    """A document from a JSON file: named parts, or embeddings alone, by word or as a list."""
    if isinstance(content, dict) and content:
        by_word = all(
            part and isinstance(part, list) and not any(isinstance(number, list | dict | str) for number in part)
            for part in content.values()
        )
        if not by_word and any(isinstance(name, str) and step_named(name) for name in content):
            return read_mapping(content, Document(source))
    if not isinstance(content, (dict, list)) or not content:
        raise OptionError(
            f"{source} holds no embeddings; expected an object of words and vectors, "
            'as {"The": [1, 0], "cat": [0, 1]}, or a list of vectors.'
        )
    return read_mapping({"embeddings": content}, Document(source))


# Inputs


def _from_document(document: Document, words: Sequence[str] | None, seed: int | None) -> tuple[Inputs, str]:
    inputs = inputs_of(document, None if words is None else tuple(words))
    if inputs.misfits:
        misfit = inputs.misfits[0]
        raise OptionError(f"{document.source}: {misfit.step} is {misfit.came}, but {misfit.because}.")
    if seed is not None and (inputs.x is None or inputs.has_matrices):
        raise OptionError("`seed` is for random weights; here they are given.")
    if inputs.x is None:
        missing = [step for step in PROJECTIONS if step not in inputs.parts or np.isnan(inputs.parts[step]).any()]
        if missing:
            raise OptionError(f"{document.source} holds no {missing[0]} for every word; expected q, k and v.")
        return inputs, "Queries, keys and values typed by hand."
    if inputs.has_matrices:
        return inputs, f"Typed by hand. {product_note(inputs)}; I for a W that is not given."
    if seed is not None:
        width, context = inputs.x.shape[1], inputs.context
        inputs.matrices = random_matrices(width, width if context is None else context.shape[1], inputs.heads, seed)
        inputs.has_matrices = True
        names = "W_q, W_k and W_v" if inputs.heads == 1 else "W_q, W_k, W_v and W_O"
        sentence = f"{names} are random numbers from seed {seed}: nothing was trained."
        return inputs, f"x typed by hand. {product_note(inputs)}. {sentence}"
    note = "Typed by hand. W_q = W_k = W_v = I: queries, keys and values are the embeddings themselves"
    return inputs, note + ("." if inputs.heads == 1 else f", split among {inputs.heads} heads.")


def product_note(inputs: Inputs) -> str:
    """The convention of the projections, with the shapes of the matrices."""
    shapes = ", ".join(f"{name} {inputs.as_written(matrix)}" for name, matrix in inputs.matrices.items())
    width = 0 if inputs.x is None else inputs.x.shape[1]
    return f"{written_formula('q = x · W_q', inputs)}, with x of {width} numbers and {shapes}"


def _random(
    words: tuple[str, ...], context: Sequence[str] | None, heads: int, width: int | None, seed: int, product: Product
) -> tuple[Inputs, str]:
    width = HEAD_DIM * heads if width is None else width
    validate.integer("width", width, 1, MOST_WIDTH)
    key_words = words if context is None else tuple(context)
    vectors = random_embeddings((*words, *key_words), width, seed)
    inputs = Inputs(words, key_words, heads, vectors[: len(words)], matrices=random_matrices(width, width, heads, seed))
    inputs.has_matrices, inputs.product = True, product
    if context is not None:
        inputs.context = vectors[len(words) :]
    return inputs, (
        f"Nothing was trained: embeddings and weights are random numbers from seed {seed}, so they show how attention "
        f"is computed, and nothing about these words. {product_note(inputs)}."
    )


def random_embeddings(words: Sequence[str], width: int, seed: int) -> Numbers:
    """A vector of small whole numbers per word, the same wherever the word occurs, different for different words."""
    begun = Seed(seed).part("embedding")
    vectors: dict[str, Numbers] = {}
    taken: set[tuple[float, ...]] = {(0.0,) * width}
    for word in dict.fromkeys(words):
        vector, attempt, part = np.zeros(width), 0, begun.part(word)
        while tuple(vector) in taken:
            spread = 1 + attempt / 4  # a larger range where small numbers are used up
            vector = np.round(part.normal((width,), np.float64) * spread) + 0.0  # −0 becomes 0
            attempt += 1
            part = begun.part(word).part(str(attempt))
        taken.add(tuple(vector))
        vectors[word] = vector
    return np.stack([vectors[word] for word in words])


def random_matrices(width: int, context_width: int, heads: int, seed: int) -> dict[str, Numbers]:
    """W_q, W_k, W_v, and W_O for several heads, each (in, out), of −1, 0 and 1 and of full rank."""
    if width % heads:
        raise OptionError(f"{width} numbers cannot be split evenly among {heads} heads: choose a multiple of {heads}.")
    matrices = {"W_q": random_matrix(width, width, Seed(seed).part("w_q"))}
    for name in ("W_k", "W_v"):
        matrices[name] = random_matrix(context_width, width, Seed(seed).part(name.lower()))
    if heads > 1:  # W_O mixes heads; one head alone has nothing to mix
        matrices["W_O"] = mixing_matrix(width, heads, Seed(seed).part("w_o"))
    return matrices


def random_matrix(rows: int, columns: int, seed: Seed) -> Numbers:
    """A triangular matrix with ±1 on its diagonal and few ±1 above it, rows and columns shuffled: about 1.5 per column.

    Its rank is full, so that vectors stay as different as they were, and products are easy to follow by hand.
    """
    size = max(rows, columns)
    signs = np.where(seed.part("sign").uniform((size, size), 1.0, np.float64) < 0, -1.0, 1.0)
    chance = seed.part("place").uniform((size, size), 0.5, np.float64) + 0.5
    matrix = np.where(np.triu(chance < 1 / size, 1) | np.eye(size, dtype=bool), signs, 0.0)
    order = [np.argsort(seed.part(name).uniform((size,), 1.0, np.float64)) for name in ("rows", "columns")]
    return np.asarray(matrix[order[0]][:, order[1]][:rows, :columns])


def mixing_matrix(width: int, heads: int, seed: Seed) -> Numbers:
    """W_O: every column takes a number from each of two heads, with signs; its rank is full.

    Unshuffled, column i takes rows i and i + 1 around a circle whose neighbours are of different heads. The determinant
    of such a matrix is the product of the first entries ± that of the second ones: with the last sign chosen, ±2.
    """
    circle = np.arange(width).reshape(heads, -1)  # the rows of each head
    orders = seed.part("rows").uniform(circle.shape, 1.0, np.float64).argsort(axis=1)
    circle = np.take_along_axis(circle, orders, axis=1)
    circle = circle[seed.part("heads").uniform((heads,), 1.0, np.float64).argsort()].T.ravel()  # heads in turn
    first, second = np.where(seed.part("sign").uniform((2, width), 1.0, np.float64) < 0, -1.0, 1.0)
    if first.prod() == (-1) ** width * second.prod():
        second[-1] *= -1
    columns = seed.part("columns").uniform((width,), 1.0, np.float64).argsort()
    matrix = np.zeros((width, width))
    matrix[circle, columns] = first
    matrix[np.roll(circle, -1), columns] = second
    return matrix


# Steps


def _of_layer(inputs: Inputs, query: Any) -> Trace:
    """From embeddings, with positions added if there are any."""
    assert inputs.x is not None
    linear = {name: Linear.from_matrix(matrix) for name, matrix in inputs.matrices.items()}
    scale = None if inputs.divisor is None else 1 / inputs.divisor
    layer = MultiHead(linear["W_q"], linear["W_k"], linear["W_v"], linear.get("W_O"), heads=inputs.heads, scale=scale)
    x = inputs.x if inputs.position is None else inputs.x + inputs.position
    context_words = None if inputs.context is None else inputs.key_words
    trace: Trace = layer.explain(
        x, inputs.context, query=query, mask=inputs.mask, words=inputs.words, context_words=context_words
    )
    if inputs.position is None:
        return trace
    first, *others = trace.steps
    positioned = Step("positioned", x, first.axes, "x = embedding + position")
    parts = {**trace.origin.parts, "positioned": Sum(inputs.x, inputs.position)}
    steps = (replace(first, source=inputs.x), positioned, *others)
    return replace(trace, steps=steps, origin=replace(trace.origin, parts=parts))


def _of_parts(inputs: Inputs, query: Any) -> Trace:
    """From queries, keys and values as given, each (head, word, head_dim)."""
    scale = None if inputs.divisor is None else 1 / inputs.divisor
    attention = Attention(inputs.parts["query"], inputs.parts["key"], mask=inputs.mask, scale=scale)
    query_words = inputs.words if inputs.is_cross else None
    values, words = inputs.parts["value"], inputs.key_words
    trace: Trace = attention.explain(values, query=query, words=words, query_words=query_words)
    matrix = inputs.matrices.get("W_O")
    if inputs.heads == 1 and matrix is None:
        return trace
    rows = trace["output"].swapaxes(0, 1).reshape(len(trace.query_words), -1)
    axes = ("query", "width")
    steps = [Step("concatenated", rows, axes, "concatenated = the outputs of all heads, side by side")]
    parts = dict(trace.origin.parts)
    if matrix is not None:
        through = Linear.from_matrix(matrix)
        steps.append(Step("projected", through(rows), axes, "projected = concatenated · W_O"))
        parts["projected"] = Projection(rows, through, "O")
    return replace(trace, steps=(*trace.steps, *steps), origin=replace(trace.origin, parts=parts))


# What the steps start from, as tables


def exact_digits(numbers: Numbers) -> int:
    """The number of decimals that prints every number exactly."""
    for digits in range(EXACT_DIGITS):
        if np.array_equal(np.round(numbers, digits), numbers):
            return digits
    return EXACT_DIGITS


def _settings(inputs: Inputs) -> Table:
    rows = [("heads", str(inputs.heads))]
    if inputs.mask_text:
        rows.append(("mask", inputs.mask_text))
    if inputs.divisor is not None:
        rows.append(("divisor", repr(inputs.divisor)))
    if inputs.x is not None:
        rows.append(("product", inputs.product))
        if not inputs.has_matrices:
            rows.append(("W", "I"))
    return Table("Settings", (Column("Setting", "word"), Column("value")), tuple(rows))


def _vectors(title: str, name: str, words: Sequence[str], vectors: Numbers, *, whole: bool = True) -> Table:
    digits = exact_digits(vectors)
    title = f"{title}: {vectors.shape[0]} × {vectors.shape[1]}"
    return _table(title, "Word", numbered(words), {name: vectors}, digits if whole else min(digits, 2))


def _weights(inputs: Inputs) -> list[Table]:
    """The matrices, one row per component of what they multiply; those with as many rows side by side."""
    if sum(matrix.size for matrix in inputs.matrices.values()) > MOST_GIVEN:
        return []
    source = "x" if inputs.context is None else "context"
    formulas = {"W_q": "q = x · W_q", "W_k": f"k = {source} · W_k", "W_v": f"v = {source} · W_v"}
    formulas["W_O"] = "projected = concatenated · W_O"
    groups: dict[tuple[bool, int], dict[str, Numbers]] = {}  # W_O, and the number of rows
    for name in (name for name in formulas if name in inputs.matrices):
        matrix = inputs.in_convention(inputs.matrices[name])
        groups.setdefault((name == "W_O", len(matrix)), {})[name] = matrix
    where = "side by side in the columns" if inputs.product == PRODUCTS[0] else "below each other in the rows"
    tables = []
    for (is_output, rows), matrices in groups.items():
        formula = written_formula(", ".join(formulas[name] for name in matrices), inputs)
        shapes = ", ".join(f"{name} {rows} × {matrix.shape[1]}" for name, matrix in matrices.items())
        share = "" if inputs.heads == 1 or is_output else f"; {inputs.heads} heads, {where}"
        tables.append(_table(f"{formula}: {shapes}{share}", "Row", map(str, range(1, rows + 1)), matrices))
    return tables


def _table(
    title: str, label: str, labels: Iterable[str], columns: Mapping[str, Numbers], digits: int | None = None
) -> Table:
    """Vectors by their label; with all their digits, unless these are given."""
    vectors = [
        Column(name, "vector", exact_digits(matrix) if digits is None else digits) for name, matrix in columns.items()
    ]
    return Table(title, (Column(label, "word"), *vectors), tuple(zip(labels, *columns.values(), strict=True)))


# The steps as tables: of one query or of the first ones, of one head or of all


def step_tables(
    steps: Traced, query: Any = None, head: int | None = None, *, full: bool = False, every_query: bool = False,
    with_inputs: bool = False,
) -> list[Table]:  # fmt: skip
    """The tables of one query or of the first ones, of one head or of all, with all notes below the last.

    Before them the embeddings and weights they are computed from, if these fit; with `with_inputs`, all inputs.

    query         a word or its position; None for all of them
    full          shorten nothing
    every_query   the tables of every query, whole

    >>> [table.title for table in step_tables(traced(None, {"The": [1, 0], "cat": [0, 1]}), "cat")]
    ['Query cat: d_k = 2, √d_k = 1.41']
    """
    whole = full or every_query
    inputs = steps.given(whole=with_inputs) if with_inputs or full or len(steps.words) <= MOST_ROWS else []
    tables: list[Table] = []
    notes: dict[str, None] = {}  # in order, each once
    count = len(steps.words)
    queries: Any = range(count) if query is None else [query]
    shown = 0
    for asked_query in queries:
        of_query = list(_of_query(steps.explain(asked_query), head))
        notes |= dict.fromkeys(note for table in of_query for note in table.notes)
        of_query = [replace(table, notes=()) for table in of_query]
        tables += of_query if whole else map(strongest_rows, of_query)
        shown += 1
        if not whole and sum(map(len, tables)) * (shown + 1) / shown > MOST_LINES:
            break
    if shown < len(queries):
        first = "query" if shown == 1 else f"{shown} queries"
        notes[f"The first {first} of {count:,}: --query WORD shows another, --full all."] = None
    if steps.note is not None:  # the source of the numbers comes last, where it is seen
        notes.pop(steps.note, None)
        notes[steps.note] = None
    tables[-1] = replace(tables[-1], notes=tuple(notes))
    return [*inputs, *tables]


def _of_query(trace: Trace, head: int | None) -> Iterator[Table]:
    """One table per head, then concatenate and W_O."""
    for number in range(trace.heads) if head is None else [validate.index("head", head, trace.heads)]:
        yield trace.table(head=number)
    if head is None and (trace.heads > 1 or "projected" in trace):
        yield _together(trace)


def _together(trace: Trace) -> Table:
    """The outputs of all heads, concatenated, and multiplied by W_O."""
    rows = [(f"sum, head {head}", numpy_of(trace["output"][head, 0])) for head in range(trace.heads)]
    if trace.heads > 1 and "concatenated" in trace:
        rows.append(("concatenated", numpy_of(trace["concatenated"][0])))
    if "projected" in trace:
        rows.append(("through W_O", numpy_of(trace["projected"][0])))
    title = f"{query_label(trace, 0)}: all heads together" if trace.heads > 1 else f"{query_label(trace, 0)}: after W_O"
    digits = max(2, digits_for(np.concatenate([vector for _, vector in rows])))
    return Table(title, (Column("Step", "word"), Column("vector", "vector", digits)), tuple(rows))


def strongest_rows(table: Table, most: int = MOST_ROWS) -> Table:
    """Of many rows, the largest weights and the query's own; one more row sums up the others."""
    shaded = [index for index, column in enumerate(table.columns) if column.shade]
    if len(table) <= most or not shaded:
        return table
    weight = shaded[0]
    strength = [-1.0 if row[weight] is None or row[weight] != row[weight] else row[weight] for row in table.rows]
    asking = {index for index, row in enumerate(table.rows) if row[-1] is not None}
    strongest = sorted(range(len(table)), key=lambda place: -strength[place])
    kept = sorted([*asking, *[index for index in strongest if index not in asking]][: most - 1])
    others = [table.rows[index] for index in sorted({*range(len(table))} - {*kept})]
    rest: list[Any] = [None] * len(table.columns)
    rest[0] = f"… {len(others):,} more"
    if any(row[weight] is not None for row in others):
        rest[weight] = sum(row[weight] for row in others if row[weight] is not None)
        rest[weight + 1] = np.sum([row[weight + 1] for row in others if row[weight + 1] is not None], axis=0)
    else:  # all masked: the column before the weights says so
        rest[weight - 1] = others[0][weight - 1]
    highlight = kept.index(table.highlight) if table.highlight in kept else None
    return replace(table, rows=(*(table.rows[index] for index in kept), tuple(rest)), highlight=highlight)

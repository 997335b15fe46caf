"""Slides on attention itself: intuition, matrices, the table, the matrix form, eight heads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from regard.arrays import numpy_of
from regard.output.matrix_figures import Factor, product, sentence
from regard.output.svg import Svg
from regard.output.weight_figures import heads as heads_figure
from regard.slides.deck import Slide, SlideGrid, SlideText
from regard.slides.lecture import WIDTH, Lecture, index, number, remark, slide_figure, vector, weights_of_word

MOST_LINKS = 6  # rows of the table of links
MOST_QUERIES = 3  # whose table is shown


def _product(factors: Sequence[Factor | str], height: float = 345.0) -> Svg:
    return slide_figure(lambda: product(factors), height)


def intuition(lecture: Lecture) -> Iterator[Slide]:
    """A word of the sentence, and what it attends to in a trained model."""
    reading = lecture.reading
    link = reading.opening()
    labels, words = reading.labels, [word.text for word in reading.words]
    query = labels[link.query]
    command = f"regard see {lecture.quoted} --query {words[link.query]} --layer {link.layer} --head {link.head}"
    blank = np.zeros(len(words))
    row = weights_of_word(reading, link.layer, link.head, link.query)
    asks = SlideText((f"Read as far as “{words[link.query]}”. Which other words do you need to understand it?",))
    yield lecture.slide(
        f"What does “{query}” refer to?", sentence(words, blank, link.query, caption=False), asks, command=command
    )
    source = f"{reading.model}, a trained model: layer {link.layer}, head {link.head}. Darker: a larger weight."
    drawn = sentence(words, row, link.query, caption=False)
    yield lecture.slide(f"“{query}” attends to other words", drawn, remark(source), command=command)
    order = [place for place in np.argsort(-row, kind="stable") if place != link.query][:MOST_LINKS]
    table = SlideGrid(
        ("query", "key", "weight"),
        tuple((query, labels[place], number(row[place])) for place in order),
        left=(True, True, False),
        shades=tuple((0.0, 0.0, float(row[place])) for place in order),
    )
    total = number(sum(row[place] for place in order))
    says = remark(f"Weights of all words sum to 1; these {len(order)} have {total} of it.", source)
    yield lecture.slide(f"The strongest links of “{query}”", table, says, command=command)


def matrices(lecture: Lecture) -> Iterator[Slide]:
    """Embeddings, the three weight matrices, and what q, k and v are for."""
    words, inputs = lecture.words, lecture.steps.inputs
    embeddings = np.asarray(inputs.x)
    command = f"regard steps {lecture.quoted} --width {WIDTH}"
    rows = [(word, f"x{index(place)}", vector(embeddings[place])) for place, word in enumerate(words)]
    says = remark(f"Every word is a vector of {WIDTH} numbers; the first 4 are shown.", str(_source(lecture)))
    table = SlideGrid(("Word", "name", "embedding x"), tuple(rows), left=(True, True, True))
    yield lecture.slide("Every word becomes a vector", table, says, *lecture.shortened, command=command)
    matrices = {"W_Q": inputs.matrices["W_q"], "W_K": inputs.matrices["W_k"], "W_V": inputs.matrices["W_v"]}
    yield lecture.slide(
        "Three weight matrices for all words",
        _product([Factor(name, matrix) for name, matrix in matrices.items()], 245.0),
        SlideText(("q = x · W_Q   what the word is looking for", "k = x · W_K   how others find it",
              "v = x · W_V   what it passes on")),
        command=command,
    )  # fmt: skip
    for letter, name, step, purpose in (
        ("Q", "W_Q", "query", "looking for: one query per word"),
        ("K", "W_K", "key", "index: one key per word"),
        ("V", "W_V", "value", "content: one value per word"),
    ):
        drawn = _product(
            [Factor("X", embeddings, words), "·", Factor(name, matrices[name]), "=",
             Factor(letter, lecture.array(step), words)])  # fmt: skip
        yield lecture.slide(f"X · {name} = {letter}: {purpose}", drawn, *lecture.shortened, command=command)


def _source(lecture: Lecture) -> str:
    return "Embeddings and weights are random numbers from seed 0: they show how attention is computed."


COLUMNS = ("Word", "q", "k", "score", "÷ √d_k = 8", "softmax", "v", "softmax · v")


def table(lecture: Lecture) -> Iterator[Slide]:
    """The table of each query, column by column for the first one."""
    for query in range(min(len(lecture.words), MOST_QUERIES)):
        yield from _table_of(lecture, query, clicks=query == 0)
    if len(lecture.words) > MOST_QUERIES:
        left = len(lecture.words) - MOST_QUERIES
        command = f"regard steps {lecture.quoted} --width {WIDTH} --full"
        yield lecture.slide(
            "The same table for every word", SlideText((f"{left} more queries: each word asks with its own q.",)),
            command=command,
        )  # fmt: skip


def _table_of(lecture: Lecture, query: int, *, clicks: bool) -> Iterator[Slide]:
    """The table of one query in three parts, one more column per click."""
    word = lecture.words[query]
    cells, shades = _cells(lecture, query)
    command = f'regard steps {lecture.quoted} --width {WIDTH} --query "{word}"'
    scored = SlideText((f"score = q{index(query)} · k: how well each key matches the query",), 20.0)
    scaled = SlideText(("÷ 8, then softmax: weights from 0 to 1 that sum to 1",), 20.0)
    summed = SlideText((f"z{index(query)} = Σ softmax · v: the values, mixed by weight",), 20.0)
    for columns, first_new, says in (((0, 1, 2, 3), 1, scored), ((0, 3, 4, 5), 2, scaled), ((0, 5, 6, 7), 2, summed)):
        steps: Sequence[int] = range(first_new, len(columns)) if clicks else [len(columns) - 1]
        for last in steps:
            shown = columns[: last + 1]
            grid = SlideGrid(
                tuple(COLUMNS[column] for column in shown),
                tuple(tuple(row[column] for column in shown) for row in cells[: len(lecture.words)]),
                left=tuple(column == 0 for column in shown),
                marked_row=query,
                new_column=last if clicks else None,
                shades=tuple(tuple(row[column] for column in shown) for row in shades) if 5 in shown else (),
            )
            if columns[-1] == 7 and last == 3 and not clicks:
                grid = _with_sum(grid, cells[-1], shown)
            yield lecture.slide(f"Query {word}", grid, says, *lecture.shortened, command=command)
        if columns[-1] == 7 and clicks:
            grid = _with_sum(grid, cells[-1], columns)
            yield lecture.slide(f"Query {word}: the sum", grid, says, *lecture.shortened, command=command)


def _with_sum(grid: SlideGrid, total: Sequence[str], shown: Sequence[int]) -> SlideGrid:
    rows = (*grid.rows, tuple(total[column] for column in shown))
    shades = (*grid.shades, (0.0,) * len(shown)) if grid.shades else ()
    return SlideGrid(grid.headings, rows, grid.left, grid.marked_row, None, shades, sum_row=True)


def _cells(lecture: Lecture, query: int) -> tuple[list[tuple[str, ...]], list[tuple[float, ...]]]:
    """All cells of a query's table, the sum last, as numbers or as symbols; and the shades of the weights."""
    words = lecture.words
    q, k, v, score, scaled, weight, output = (
        lecture.array(name) for name in ("query", "key", "value", "score", "scaled", "weight", "output")
    )
    i = index(query)
    rows: list[tuple[str, ...]] = []
    row: tuple[str, ...]
    for place, word in enumerate(words):
        j = index(place)
        if lecture.symbols:
            row = (word, f"q{i}" if place == query else "", f"k{j}", f"q{i}·k{j}", f"q{i}·k{j}/8", f"a{i}{j}", f"v{j}",
                   f"a{i}{j}·v{j}")  # fmt: skip
        else:
            row = (word, vector(q[query]) if place == query else "", vector(k[place]), number(score[query, place], 1),
                   number(scaled[query, place]), number(weight[query, place]), vector(v[place]),
                   vector(weight[query, place] * v[place]))  # fmt: skip
        rows.append(row)
    total = f"z{i}" if lecture.symbols else vector(output[query])
    rows.append(("sum", "", "", "", "", "1" if lecture.symbols else "1.00", "", total))
    shades = [
        tuple(0.0 if column != 5 or lecture.symbols else float(weight[query, place]) for column in range(8))
        for place in range(len(words))
    ]
    return rows, shades


def matrix_form(lecture: Lecture) -> Iterator[Slide]:
    """All queries at once: Q · Kᵀ, softmax, A · V, as coloured matrices with their shapes."""
    words = lecture.words
    q, k, v, score, weight, output = (
        lecture.array(name) for name in ("query", "key", "value", "score", "weight", "output")
    )
    command = f"regard steps {lecture.quoted} --width {WIDTH} --out steps.html"
    count = len(words)
    yield lecture.slide(
        "All scores at once: Q · Kᵀ",
        _product([Factor("Q", q, words), "·", Factor("Kᵀ", k.T), "=", Factor("scores", score, words)]),
        remark(f"Row i, column j: query i · key j. {count} × {WIDTH} times {WIDTH} × {count} is {count} × {count}."),
        command=command,
    )  # fmt: skip
    yield lecture.slide(
        "A = softmax(scores ÷ √d_k)",
        _product([Factor("scores", score, words), "÷ 8, softmax →", Factor("A", weight, words, True)]),
        remark("Every row of A sums to 1. A is computed from the words: another sentence, another A."),
        command=command,
    )  # fmt: skip
    yield lecture.slide(
        "The values, mixed: A · V = Z",
        _product([Factor("A", weight, words, True), "·", Factor("V", v), "=", Factor("Z", output, words)]),
        remark("Z has the shape of X: one new vector per word, with its context in it."),
        command=command,
    )  # fmt: skip
    yield lecture.slide(
        "Attention in one line",
        SlideText(("Z = softmax(Q · Kᵀ / √d_k) · V",), 36.0, bold=True),
        SlideGrid(("matrix", "made from", "shape"),
             (("X", "the words", f"{count} × {WIDTH}"), ("Q, K, V", "X · W_Q, X · W_K, X · W_V", f"{count} × {WIDTH}"),
              ("A", "softmax(Q · Kᵀ / √d_k)", f"{count} × {count}"), ("Z", "A · V", f"{count} × {WIDTH}")),
             left=(True, True, True)),
        *lecture.shortened,
        command=command,
    )  # fmt: skip


def eight_heads(lecture: Lecture) -> Iterator[Slide]:
    """Eight heads side by side, concatenated, through W_O; and the same as a sum over heads."""
    words, steps = lecture.words, lecture.eight_heads
    trace = steps.whole()
    outputs, weights = numpy_of(trace["output"]), numpy_of(trace["weight"])  # (head, query, 8), (head, query, key)
    joined, projected = numpy_of(trace["concatenated"]), numpy_of(trace["projected"])
    matrix = np.asarray(steps.inputs.matrices["W_O"])
    size = outputs.shape[-1]
    command = f"regard steps {lecture.quoted} --width {WIDTH} --heads 8 --out heads.svg"
    yield lecture.slide(
        "Eight heads, eight different A",
        slide_figure(lambda: heads_figure(weights, words=words)),
        remark(f"Each head has its own W_Q, W_K, W_V of {WIDTH} × {size}. Rows: queries, columns: keys."),
        command=command,
    )  # fmt: skip
    shown = [
        Factor(f"Z{str(head).translate(_LOW)}", outputs[head], shape=f"{len(words)} × {size}") for head in range(8)
    ]
    yield lecture.slide(
        "Every head gives its own Z", _product(shown),
        remark(f"Eight matrices of {len(words)} × {size}: one small vector per word and head."), command=command,
    )  # fmt: skip
    yield lecture.slide(
        "Concatenate, then multiply by W_O",
        _product([Factor("Z₀ … Z₇", joined, words), "·", Factor("W_O", matrix), "=", Factor("Z_f", projected)]),
        remark("W_O mixes what the heads found; the result has the shape of X again."), command=command,
    )  # fmt: skip
    yield from _sum_over_heads(lecture, outputs, matrix, projected, command)


_LOW = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def _sum_over_heads(
    lecture: Lecture, outputs: np.ndarray, matrix: np.ndarray, projected: np.ndarray, command: str
) -> Iterator[Slide]:
    """What each head adds to one word: its output times its rows of W_O."""
    size = outputs.shape[-1]
    place = len(lecture.words) - 1
    word = lecture.words[place]
    added = [outputs[head, place] @ matrix[head * size : (head + 1) * size] for head in range(len(outputs))]
    error = abs(np.sum(added, axis=0) - projected[place]).max()
    rows = [
        (f"head {head}", f"A{_low(head)} X W_V,{head} W_O,{head}" if lecture.symbols else vector(part), number(
            float(np.linalg.norm(part))))
        for head, part in enumerate(added)
    ]  # fmt: skip
    total = f"Z_f, row {place + 1}" if lecture.symbols else vector(np.sum(added, axis=0))
    rows.append(("sum", total, number(float(np.linalg.norm(np.sum(added, axis=0))))))
    yield lecture.slide(
        "The same as a sum over heads",
        SlideGrid(("", f"what the head adds to {word}", "length"), tuple(rows), left=(True, True, False), sum_row=True),
        remark("Z_f = Σ A_h · X · W_V · W_O, with the W_V and W_O of head h.",
               f"W_O cut into 8 pieces of {size} rows, one per head; concatenating gives the same within {error:.0e}."),
        command=command,
    )  # fmt: skip


def _low(head: int) -> str:
    return str(head).translate(_LOW)

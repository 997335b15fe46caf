"""Slides on attention itself: intuition, matrices, the table, the matrix form, eight heads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from regard.arrays import numpy_of
from regard.output.matrix_figures import Factor
from regard.output.weight_figures import heads as heads_figure
from regard.reading.highlights import PRONOUNS
from regard.slides.deck import Slide, SlideGrid, SlideText
from regard.slides.lecture import (
    SHOWN,
    WIDTH,
    Lecture,
    index,
    number,
    quoted,
    remark,
    sentence_elements,
    slide_figure,
    vector,
    weights_of_word,
)

MOST_LINKS = 6  # rows of the table of links
MOST_QUERIES = 3  # whose table is shown
SOURCE = "Embeddings and weights are random numbers from seed 0: they show how attention is computed."


def intuition(lecture: Lecture) -> Iterator[Slide]:
    """A word of the sentence, and what it attends to in a trained model."""
    reading = lecture.reading
    link = reading.opening()
    labels, words = reading.labels, [word.text for word in reading.words]
    query = f"“{labels[link.query]}”"
    command = f"regard see {lecture.quoted} --query {words[link.query]} --layer {link.layer} --head {link.head}"
    blank = np.zeros(len(words))
    row = weights_of_word(reading, link.layer, link.head, link.query)
    is_after = link.key is not None and link.query > link.key
    question = f"Read up to {query}. Which words before it explain it?" if is_after else f"Which words go with {query}?"
    drawn = sentence_elements(words, blank, link.query, link.key)
    is_pronoun = words[link.query].casefold() in PRONOUNS
    title = f"What does {query} refer to?" if is_pronoun and is_after else f"{query} in its context"
    yield lecture.slide(title, *drawn, SlideText((question,)), command=command)
    source = f"{reading.model}, a trained model: layer {link.layer}, head {link.head}. Darker: a larger weight."
    drawn = sentence_elements(words, row, link.query)
    yield lecture.slide(f"{query} attends to other words", *drawn, remark(source), command=command)
    order = [place for place in np.argsort(-row, kind="stable") if place != link.query][:MOST_LINKS]
    table = SlideGrid(
        ("query", "key", "weight"),
        tuple((labels[link.query], labels[place], number(row[place])) for place in order),
        left=(True, True, False),
        shades=tuple((0.0, 0.0, float(row[place])) for place in order),
    )
    total = number(sum(row[place] for place in order))
    says = remark(f"Weights of all words sum to 1; these {len(order)} sum to {total}.", source)
    yield lecture.slide(f"The strongest links of {query}", table, says, command=command)


def matrices(lecture: Lecture) -> Iterator[Slide]:
    """Embeddings, the three weight matrices, and what q, k and v are for."""
    words, inputs = lecture.words, lecture.steps.inputs
    embeddings = np.asarray(inputs.x)
    command = lecture.steps_command()
    rows = [(word, f"x{index(place)}", vector(embeddings[place])) for place, word in enumerate(words)]
    says = remark(f"Every word is a vector of {WIDTH} numbers; the first 4 are shown.", SOURCE)
    live = tuple(("", "", f"x {place}") for place in range(len(words)))
    table = SlideGrid(("Word", "name", "embedding x"), tuple(rows), left=(True, True, True), live=live)
    yield lecture.slide("Every word becomes a vector", table, says, *lecture.shortened, command=command)
    matrices = {"W_Q": inputs.matrices["W_q"], "W_K": inputs.matrices["W_k"], "W_V": inputs.matrices["W_v"]}
    shown = [Factor(name, matrix.T if lecture.is_transposed else matrix) for name, matrix in matrices.items()]
    yield lecture.slide(
        "Three weight matrices for all words",
        lecture.product_figure(shown, 245.0),
        SlideText(("q = x · W_Q: what the word is looking for", "k = x · W_K: how others find it",
              "v = x · W_V: what it passes on")),
        command=command,
    )  # fmt: skip
    for letter, name, step, purpose in (
        ("Q", "W_Q", "query", "what words are looking for"),
        ("K", "W_K", "key", "their index"),
        ("V", "W_V", "value", "their content"),
    ):
        drawn = lecture.product_figure(
            [Factor("X", embeddings, words, live="x"), "·", Factor(name, matrices[name]), "=",
             Factor(letter, lecture.array(step), words, live=letter.lower())])  # fmt: skip
        yield lecture.slide(f"X · {name} = {letter}: {purpose}", drawn, *lecture.shortened, command=command)


COLUMNS = ("Word", "q", "k", "score", "÷ √d_k = 8", "softmax", "v", "softmax · v")


def purpose(lecture: Lecture) -> Iterator[Slide]:
    """What q, k and v are for, with the numbers of one word."""
    words = lecture.words
    place = len(words) - 1
    q, k, v, score, weight = (lecture.array(name) for name in ("query", "key", "value", "score", "weight"))
    i = index(place)
    command = lecture.steps_command(f" --query {quoted(lecture.names[place])}")
    rows = [
        (f"q{i} = x{i} · W_Q", "what the word is looking for", vector(q[place])),
        (f"k{i} = x{i} · W_K", "its index: how others find it", vector(k[place])),
        (f"v{i} = x{i} · W_V", "its content: what it passes on", vector(v[place])),
    ]
    live = [("", "", f"{letter} {place}") for letter in "qkv"]
    for count in (1, 2, 3):
        grid = SlideGrid(
            (words[place], "what it is for", f"{SHOWN} of {WIDTH} numbers"), tuple(rows[:count]),
            left=(True, True, True), live=tuple(live[:count]),
        )  # fmt: skip
        yield lecture.slide("One word, three vectors", grid, command=command)
    best = int(np.argmax(score[place]))
    grid = SlideGrid(
        ("looking for", "index", "match q · k", "content", "its share"),
        tuple((f"q{i}", f"k{index(key)}: {word}", number(score[place, key], 1), f"v{index(key)}: {word}",
               number(weight[place, key])) for key, word in enumerate(words)),
        left=(True, True, False, True, False), marked_row=best,
        shades=tuple((0.0, 0.0, 0.0, 0.0, float(share)) for share in weight[place]),
        live=tuple(("", "", f"score {place} {key}", "", f"weight {place} {key}") for key in range(len(words))),
    )  # fmt: skip
    says = remark("As in a library: the query is compared with every index card, and the contents of the books are "
                  "mixed, each by how well its card matches.")  # fmt: skip
    yield lecture.slide(f"The query of “{lecture.names[place]}” meets every key", grid, says, command=command)


def table(lecture: Lecture) -> Iterator[Slide]:
    """The table of each query, column by column for the first one; then all of it from one embedding."""
    for query in range(min(len(lecture.words), MOST_QUERIES)):
        yield from table_of(lecture, query, clicks=query == 0)
    if not lecture.symbols:
        yield _from_embeddings(lecture)
    if len(lecture.words) > MOST_QUERIES:
        yield _every_query(lecture)


def _every_query(lecture: Lecture) -> Slide:
    """The softmax of every query: a row for each table."""
    words, weights = lecture.words, lecture.array("weight")
    rows = tuple(
        (word, *(f"a{index(query)}{index(key)}" if lecture.symbols else number(weights[query, key])
                 for key in range(len(words))))
        for query, word in enumerate(words)
    )  # fmt: skip
    shades = () if lecture.symbols else tuple((0.0, *map(float, row)) for row in weights)
    live = tuple(("", *(f"weight {query} {key}" for key in range(len(words)))) for query in range(len(words)))
    grid = SlideGrid(("q \\ k", *words), rows, shades=shades, live=() if lecture.symbols else live)
    says = remark("Each row is the softmax column of one word's table: every word has its own q.")
    command = lecture.steps_command(" --full")
    return lecture.slide("The same table for every word", grid, says, *lecture.shortened, command=command)


def table_of(lecture: Lecture, query: int, *, clicks: bool, positions: bool = False) -> Iterator[Slide]:
    """The table of one query in three parts, one more column per click; of x + positions where these are added."""
    word = lecture.names[query]
    rows, shades, live = _cells(lecture, query, positions)
    command = lecture.steps_command(f" --query {quoted(word)}")
    command += " --set positions=sinusoidal" if positions else ""
    title = f"Query “{word}”, from x = e + p" if positions else f"Query “{word}”"
    scored = SlideText((f"score = q{index(query)} · k: how well each key matches the query",), 20.0)
    scaled = SlideText(("÷ 8, then softmax: weights from 0 to 1 that sum to 1",), 20.0)
    summed = SlideText((f"z{index(query)} = Σ softmax · v: the values, mixed by weight",), 20.0)
    for columns, first_new, says in (((0, 1, 2, 3), 1, scored), ((0, 3, 4, 5), 2, scaled), ((0, 5, 6, 7), 2, summed)):
        steps: Sequence[int] = range(first_new, len(columns)) if clicks else [len(columns) - 1]
        for last in steps:
            has_sum = columns[-1] == 7 and last == 3 and not clicks
            new = last if clicks else None
            grid = _grid(columns[: last + 1], query, rows, shades, live, has_sum=has_sum, new=new)
            yield lecture.slide(title, grid, says, *lecture.shortened, command=command)
        if columns[-1] == 7 and clicks:
            grid = _grid(columns, query, rows, shades, live, has_sum=True)
            yield lecture.slide(f"{title}: the sum", grid, says, *lecture.shortened, command=command)


def _grid(
    columns: Sequence[int], query: int, rows: Sequence[Sequence[str]], shades: Sequence[Sequence[float]],
    live: Sequence[Sequence[str]], *, has_sum: bool, new: int | None = None,
) -> SlideGrid:  # fmt: skip
    """Some columns of a query's table, with the sum below them or without."""
    count = len(rows) if has_sum else len(rows) - 1
    return SlideGrid(
        tuple(COLUMNS[column] for column in columns),
        tuple(tuple(row[column] for column in columns) for row in rows[:count]),
        left=tuple(column == 0 for column in columns),
        marked_row=query,
        new_column=new,
        shades=tuple(tuple(row[column] for column in columns) for row in shades[:count]) if 5 in columns else (),
        sum_row=has_sum,
        live=tuple(tuple(row[column] for column in columns) for row in live[:count]) if live else (),
    )


def _cells(
    lecture: Lecture, query: int, positions: bool
) -> tuple[list[tuple[str, ...]], list[tuple[float, ...]], list[tuple[str, ...]]]:
    """All cells of a query's table, the sum last, as numbers or as symbols; the shades, and the names of live cells."""
    trace = lecture.positioned.whole() if positions else lecture.trace
    q, k, v, score, scaled, weight, output = (
        numpy_of(trace[name])[0] for name in ("query", "key", "value", "score", "scaled", "weight", "output")
    )
    i, p = index(query), "p." if positions else ""
    rows: list[tuple[str, ...]] = []
    live: list[tuple[str, ...]] = []
    for place, word in enumerate(lecture.words):
        j, own, pair = index(place), place == query, f"{query} {place}"
        if lecture.symbols:
            rows.append((word, f"q{i}" if own else "", f"k{j}", f"q{i}·k{j}", f"q{i}·k{j}/8", f"a{i}{j}", f"v{j}",
                         f"a{i}{j}·v{j}"))  # fmt: skip
            continue
        rows.append((word, vector(q[query]) if own else "", vector(k[place]), number(score[query, place], 1),
                     number(scaled[query, place]), number(weight[query, place]), vector(v[place]),
                     vector(weight[query, place] * v[place])))  # fmt: skip
        live.append(("", f"{p}q {query}" if own else "", f"{p}k {place}", f"{p}score {pair}", f"{p}scaled {pair}",
                     f"{p}weight {pair}", f"{p}v {place}", f"{p}weighted {pair}"))  # fmt: skip
    total = f"z{i}" if lecture.symbols else vector(output[query])
    rows.append(("sum", "", "", "", "", "1" if lecture.symbols else "1.00", "", total))
    if live:
        live.append(("",) * 7 + (f"{p}z {query}",))
    shades = [
        tuple(0.0 if column != 5 or lecture.symbols else float(weight[query, place]) for column in range(8))
        for place in range(len(lecture.words))
    ]
    return rows, [*shades, (0.0,) * 8], live


def _from_embeddings(lecture: Lecture) -> Slide:
    """From the embeddings to one output on one slide, on which an HTML deck lets embeddings be changed."""
    words, query = lecture.words, 0
    x, score, weight, output = (np.asarray(lecture.steps.inputs.x), *map(lecture.array, ("score", "weight", "output")))
    rows = tuple((word, vector(x[place]), number(score[query, place], 1), number(weight[query, place]))
                 for place, word in enumerate(words))  # fmt: skip
    live = tuple(("", f"x {place}", f"score {query} {place}", f"weight {query} {place}") for place in range(len(words)))
    grid = SlideGrid(
        ("Word", "embedding x", f"q{index(query)} · k", "softmax"),
        (*rows, (f"z{index(query)}", vector(output[query]), "", "")),
        left=(True, True, False, False), sum_row=True, live=(*live, ("", f"z {query}", "", "")),
        shades=(*((0.0, 0.0, 0.0, float(share)) for share in weight[query]), (0.0,) * 4),
    )  # fmt: skip
    says = remark("In the .html deck, click a number of an embedding and change it, or press ↑ and ↓: every number of "
                  "the tables and matrices follows.")  # fmt: skip
    command = lecture.steps_command(" --out steps.xlsx")
    return lecture.slide("Change an embedding, and everything follows", grid, says, command=command)


def matrix_form(lecture: Lecture) -> Iterator[Slide]:
    """All queries at once: Q · Kᵀ, softmax, A · V, as coloured matrices with their shapes."""
    words = lecture.words
    q, k, v, score, weight, output = (
        lecture.array(name) for name in ("query", "key", "value", "score", "weight", "output")
    )
    command = lecture.steps_command(" --out steps.html")
    count = len(words)
    yield lecture.slide(
        "All scores at once: Q · Kᵀ",
        lecture.product_figure([Factor("Q", q, words, live="q"), "·", Factor("Kᵀ", k.T, live="kT"), "=",
                  Factor("scores", score, words, live="score")]),
        remark(f"Row i, column j: query i · key j. {count} × {WIDTH} times {WIDTH} × {count} is {count} × {count}."),
        command=command,
    )  # fmt: skip
    yield lecture.slide(
        "A = softmax(scores ÷ √d_k)",
        lecture.product_figure([Factor("scores", score, words, live="score"), "÷ 8, softmax →",
                  Factor("A", weight, words, True, live="weight")]),
        remark("Every row of A sums to 1. A is computed from the words: another sentence, another A."),
        command=command,
    )  # fmt: skip
    yield lecture.slide(
        "The values, mixed: A · V = Z",
        lecture.product_figure([Factor("A", weight, words, True, live="weight"), "·", Factor("V", v, live="v"), "=",
                  Factor("Z", output, words, live="z")]),
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
    shape = f"{size} × {WIDTH}" if lecture.is_transposed else f"{WIDTH} × {size}"
    command = lecture.steps_command(" --heads 8 --out heads.svg")
    yield lecture.slide(
        "Eight heads, eight different A",
        slide_figure(lambda: heads_figure(weights, words=words)),
        remark(f"Each head has its own W_Q, W_K, W_V of {shape}. Rows: queries, columns: keys."),
        command=command,
    )  # fmt: skip
    shown = [Factor(f"Z_{head}", outputs[head], shape=f"{len(words)} × {size}") for head in range(8)]
    yield lecture.slide(
        "Every head gives its own Z", lecture.product_figure(shown),
        remark(f"Eight matrices of {len(words)} × {size}: one small vector per word and head."), command=command,
    )  # fmt: skip
    yield lecture.slide(
        "Concatenate, then multiply by W_O",
        lecture.product_figure([Factor("Z_0 … Z_7", joined, words), "·", Factor("W_O", matrix), "=",
                                Factor("Z_f", projected)]),
        remark("W_O mixes the outputs of the heads; the result has the shape of X again."), command=command,
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
    within = f" within {error:.0e}" if error else ""
    lines = "columns" if lecture.is_transposed else "rows"
    rows = [
        (f"head {head}", f"A{_low(head)} · E{_low(head)} · W{_low(head)}" if lecture.symbols else vector(part), number(
            float(np.linalg.norm(part))))
        for head, part in enumerate(added)
    ]  # fmt: skip
    total = f"Z_f, row {place + 1}" if lecture.symbols else vector(np.sum(added, axis=0))
    rows.append(("sum", total, number(float(np.linalg.norm(np.sum(added, axis=0))))))
    yield lecture.slide(
        "The same as a sum over heads",
        SlideGrid(("", f"added to “{word}”", "length"), tuple(rows), left=(True, True, False), sum_row=True),
        remark(f"Z_f = Σ A_h · E_h · W_h over the heads h; E_h = X · W_V of head h, W_h its {size} {lines} of W_O. "
               f"Concatenating gives the same{within}."),
        command=command,
    )  # fmt: skip


def _low(head: int) -> str:
    return str(head).translate(_LOW)

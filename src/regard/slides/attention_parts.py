"""Slides on attention itself: intuition, matrices, the table, the matrix form, eight heads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

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
    share,
    slide_figure,
    texts,
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
    labels, words = reading.labels, texts(reading)
    query = f"“{labels[link.query]}”"
    slide = lecture.slides(
        f"regard see {lecture.quoted} --query {words[link.query]} --layer {link.layer} --head {link.head}"
    )
    row = weights_of_word(reading, link.layer, link.head, link.query)
    is_after = link.key is not None and link.query > link.key
    question = f"Read up to {query}. Which words before it explain it?" if is_after else f"Which words go with {query}?"
    is_pronoun = words[link.query].casefold() in PRONOUNS
    title = f"What does {query} refer to?" if is_pronoun and is_after else f"{query} in its context"
    blank = np.zeros(len(words))
    yield slide(title, *sentence_elements(words, blank, link.query, link.key), SlideText((question,)))
    source = f"{reading.model}, a trained model: layer {link.layer}, head {link.head}. Darker: a larger weight."
    drawn = sentence_elements(words, row, link.query)
    yield slide(f"{query} attends to other words", *drawn, remark(source))
    order = [place for place in np.argsort(-row, kind="stable") if place != link.query][:MOST_LINKS]
    rows = [(labels[link.query], labels[place], share(row[place])) for place in order]
    total = number(sum(row[place] for place in order))
    says = remark(f"Weights of all words sum to 1; these {len(order)} sum to {total}.", source)
    yield slide(f"The strongest links of {query}", SlideGrid(("query", "key", "weight"), rows, "ll"), says)


def matrices(lecture: Lecture) -> Iterator[Slide]:
    """Embeddings, the three weight matrices, and what q, k and v are for."""
    words, inputs = lecture.words, lecture.steps.inputs
    slide = lecture.slides(lecture.steps_command())
    rows = [(word, f"x{index(place)}", lecture.cell("x", place)) for place, word in enumerate(words)]
    says = remark(f"Every word is a vector of {WIDTH} numbers; the first 4 are shown.", SOURCE)
    table = SlideGrid(("Word", "name", "embedding x"), rows, "lll")
    yield slide("Every word becomes a vector", table, says, *lecture.shortened)
    matrices = {"W_Q": inputs.matrices["W_q"], "W_K": inputs.matrices["W_k"], "W_V": inputs.matrices["W_v"]}
    shown = [Factor(name, matrix.T if lecture.is_transposed else matrix) for name, matrix in matrices.items()]
    says = SlideText(
        (
            "q = x · W_Q: what the word is looking for",
            "k = x · W_K: how others find it",
            "v = x · W_V: what it passes on",
        )
    )
    yield slide("Three weight matrices for all words", lecture.product_figure(shown, 245.0), says)
    x = Factor("X", np.asarray(inputs.x), words, live="x")
    for letter, step, purpose in (
        ("Q", "query", "what words are looking for"),
        ("K", "key", "their index"),
        ("V", "value", "their content"),
    ):
        factors: list[Factor | str] = [x, "·", Factor(f"W_{letter}", matrices[f"W_{letter}"]), "=",
                   Factor(letter, lecture.array(step), words, live=letter.lower())]  # fmt: skip
        yield slide(f"X · W_{letter} = {letter}: {purpose}", lecture.product_figure(factors), *lecture.shortened)


COLUMNS = ("Word", "q", "k", "score", "÷ √d_k = 8", "softmax", "v", "softmax · v")


def purpose(lecture: Lecture) -> Iterator[Slide]:
    """What q, k and v are for, with the numbers of one word."""
    words = lecture.words
    place = len(words) - 1
    i = index(place)
    slide = lecture.slides(lecture.steps_command(f" --query {quoted(lecture.names[place])}"))
    rows = [
        (f"q{i} = x{i} · W_Q", "what the word is looking for", lecture.cell("q", place)),
        (f"k{i} = x{i} · W_K", "its index: how others find it", lecture.cell("k", place)),
        (f"v{i} = x{i} · W_V", "its content: what it passes on", lecture.cell("v", place)),
    ]
    headings = words[place], "what it is for", f"{SHOWN} of {WIDTH} numbers"
    for count in (1, 2, 3):
        yield slide("One word, three vectors", SlideGrid(headings, rows[:count], "lll"))
    best = int(np.argmax(lecture.array("score")[place]))
    matches = [
        (f"q{i}", f"k{index(key)}: {word}", lecture.cell("score", place, key), f"v{index(key)}: {word}",
         lecture.cell("weight", place, key)) for key, word in enumerate(words)
    ]  # fmt: skip
    grid = SlideGrid(("looking for", "index", "match q · k", "content", "its share"), matches, "llrl", best)
    says = remark("As in a library: the query is compared with every index card, and the contents of the books are "
                  "mixed, each by how well its card matches.")  # fmt: skip
    yield slide(f"The query of “{lecture.names[place]}” meets every key", grid, says)


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
    words = lecture.words
    rows = [
        (word, *(lecture.cell("weight", query, key, as_symbol=lecture.symbols) for key in range(len(words))))
        for query, word in enumerate(words)
    ]
    says = remark("Each row is the softmax column of one word's table: every word has its own q.")
    slide = lecture.slides(lecture.steps_command(" --full"))
    return slide("The same table for every word", SlideGrid(("q \\ k", *words), rows), says, *lecture.shortened)


def table_of(lecture: Lecture, query: int, *, clicks: bool, positions: bool = False) -> Iterator[Slide]:
    """The table of one query in three parts, one more column per click; of x + positions where these are added."""
    word = lecture.names[query]
    rows = _rows(lecture, query, positions)
    command = lecture.steps_command(f" --query {quoted(word)}")
    slide = lecture.slides(command + " --set positions=sinusoidal" * positions)
    title = f"Query “{word}”, from x = e + p" if positions else f"Query “{word}”"
    scored = SlideText((f"score = q{index(query)} · k: how well each key matches the query",), 20.0)
    scaled = SlideText(("÷ 8, then softmax: weights from 0 to 1 that sum to 1",), 20.0)
    summed = SlideText((f"z{index(query)} = Σ softmax · v: the values, mixed by weight",), 20.0)

    def grid(columns: Sequence[int], *, has_sum: bool, new: int | None = None) -> SlideGrid:
        shown = SlideGrid(COLUMNS, rows if has_sum else rows[:-1], marked_row=query, sum_row=has_sum)
        return replace(shown.columns(columns), new_column=new)

    for columns, first_new, says in (((0, 1, 2, 3), 1, scored), ((0, 3, 4, 5), 2, scaled), ((0, 5, 6, 7), 2, summed)):
        for last in range(first_new, 4) if clicks else [3]:
            has_sum = columns[-1] == 7 and not clicks
            part = grid(columns[: last + 1], has_sum=has_sum, new=last if clicks else None)
            yield slide(title, part, says, *lecture.shortened)
    if clicks:
        yield slide(f"{title}: the sum", grid((0, 5, 6, 7), has_sum=True), summed, *lecture.shortened)


def _rows(lecture: Lecture, query: int, positions: bool) -> list[Sequence[str]]:
    """All cells of a query's table, the sum last, as numbers or as symbols."""

    def cell(name: str, *place: int) -> str:
        return lecture.cell(name, *place, positioned=positions, as_symbol=lecture.symbols)

    rows: list[Sequence[str]] = [
        (word, cell("q", query) if place == query else "", cell("k", place), cell("score", query, place),
         cell("scaled", query, place), cell("weight", query, place), cell("v", place), cell("weighted", query, place))
        for place, word in enumerate(lecture.words)
    ]  # fmt: skip
    return [*rows, ("sum", "", "", "", "", "1" if lecture.symbols else "1.00", "", cell("z", query))]


def _from_embeddings(lecture: Lecture) -> Slide:
    """From the embeddings to one output on one slide, on which an HTML deck lets embeddings be changed."""
    query = 0
    rows = [
        (word, lecture.cell("x", place), lecture.cell("score", query, place), lecture.cell("weight", query, place))
        for place, word in enumerate(lecture.words)
    ]
    headings = "Word", "embedding x", f"q{index(query)} · k", "softmax"
    grid = SlideGrid(headings, [*rows, (f"z{index(query)}", lecture.cell("z", query), "", "")], "ll", sum_row=True)
    says = remark("In the .html deck, click a number of an embedding and change it, or press ↑ and ↓: every number of "
                  "the tables and matrices follows.")  # fmt: skip
    slide = lecture.slides(lecture.steps_command(" --out steps.xlsx"))
    return slide("Change an embedding, and everything follows", grid, says)


def matrix_form(lecture: Lecture) -> Iterator[Slide]:
    """All queries at once: Q · Kᵀ, softmax, A · V, as coloured matrices with their shapes."""
    words, count = lecture.words, len(lecture.words)
    q, k, v, score, weight, output = (
        lecture.array(name) for name in ("query", "key", "value", "score", "weight", "output")
    )
    scores, shares = Factor("scores", score, words, live="score"), Factor("A", weight, words, True, live="weight")
    slide = lecture.slides(lecture.steps_command(" --out steps.html"))
    drawn = lecture.product_figure([Factor("Q", q, words, live="q"), "·", Factor("Kᵀ", k.T, live="kT"), "=", scores])
    says = f"Row i, column j: query i · key j. {count} × {WIDTH} times {WIDTH} × {count} is {count} × {count}."
    yield slide("All scores at once: Q · Kᵀ", drawn, remark(says))
    drawn = lecture.product_figure([scores, "÷ 8, softmax →", shares])
    says = "Every row of A sums to 1. A is computed from the words: another sentence, another A."
    yield slide("A = softmax(scores ÷ √d_k)", drawn, remark(says))
    drawn = lecture.product_figure([shares, "·", Factor("V", v, live="v"), "=", Factor("Z", output, words, live="z")])
    says = "Z has the shape of X: one new vector per word, with its context in it."
    yield slide("The values, mixed: A · V = Z", drawn, remark(says))
    shapes = [
        ("X", "the words", f"{count} × {WIDTH}"), ("Q, K, V", "X · W_Q, X · W_K, X · W_V", f"{count} × {WIDTH}"),
        ("A", "softmax(Q · Kᵀ / √d_k)", f"{count} × {count}"), ("Z", "A · V", f"{count} × {WIDTH}"),
    ]  # fmt: skip
    formula = SlideText(("Z = softmax(Q · Kᵀ / √d_k) · V",), 36.0, bold=True)
    table = SlideGrid(("matrix", "made from", "shape"), shapes, "lll")
    yield slide("Attention in one line", formula, table, *lecture.shortened)


def eight_heads(lecture: Lecture) -> Iterator[Slide]:
    """Eight heads side by side, concatenated, through W_O; and the same as a sum over heads."""
    words, steps = lecture.words, lecture.eight_heads
    trace = steps.whole()
    outputs, weights = numpy_of(trace["output"]), numpy_of(trace["weight"])  # (head, query, 8), (head, query, key)
    joined, projected = numpy_of(trace["concatenated"]), numpy_of(trace["projected"])
    matrix = np.asarray(steps.inputs.matrices["W_O"])
    size = outputs.shape[-1]
    shape = f"{size} × {WIDTH}" if lecture.is_transposed else f"{WIDTH} × {size}"
    slide = lecture.slides(lecture.steps_command(" --heads 8 --out heads.svg"))
    says = remark(f"Each head has its own W_Q, W_K, W_V of {shape}. Rows: queries, columns: keys.")
    yield slide("Eight heads, eight different A", slide_figure(lambda: heads_figure(weights, words=words)), says)
    shown = [Factor(f"Z_{head}", outputs[head], shape=f"{len(words)} × {size}") for head in range(8)]
    says = remark(f"Eight matrices of {len(words)} × {size}: one small vector per word and head.")
    yield slide("Every head gives its own Z", lecture.product_figure(shown), says)
    drawn = lecture.product_figure(
        [Factor("Z_0 … Z_7", joined, words), "·", Factor("W_O", matrix), "=", Factor("Z_f", projected)]
    )
    says = remark("W_O mixes the outputs of the heads; the result has the shape of X again.")
    yield slide("Concatenate, then multiply by W_O", drawn, says)

    # What each head adds to one word: its output times its rows of W_O.
    place = len(words) - 1
    added = [outputs[head, place] @ matrix[head * size : (head + 1) * size] for head in range(len(outputs))]
    total = np.sum(added, axis=0)
    error = abs(total - projected[place]).max()
    rows = []
    for head, part in enumerate(added):
        low = index(head - 1)
        shown_part = f"A{low} · E{low} · W{low}" if lecture.symbols else vector(part)
        rows.append((f"head {head}", shown_part, number(float(np.linalg.norm(part)))))
    rows.append(
        ("sum", f"Z_f, row {place + 1}" if lecture.symbols else vector(total), number(float(np.linalg.norm(total))))
    )
    within = f" within {error:.0e}" if error else ""
    lines = "columns" if lecture.is_transposed else "rows"
    says = remark(
        f"Z_f = Σ A_h · E_h · W_h over the heads h; E_h = X · W_V of head h, W_h its {size} {lines} of W_O. "
        f"Concatenating gives the same{within}."
    )
    table = SlideGrid(("", f"added to “{words[place]}”", "length"), rows, "ll", sum_row=True)
    yield slide("The same as a sum over heads", table, says)

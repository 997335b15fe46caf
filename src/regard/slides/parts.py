"""The parts of a lecture, each a function from the sentence to slides.

On attention itself: intuition, matrices, the table, the matrix form, eight heads. Around it: look-up, √d_k, positions,
what heads do, fixed weights, encoder and decoder, learning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from regard import examples
from regard.arrays import numpy_of
from regard.errors import OptionError, count
from regard.heads.roles import TREEBANK
from regard.heads.sentence_relations import answer_in
from regard.layers import FeedForward
from regard.output.lesson_figures import block as block_figure
from regard.output.lesson_figures import positions as positions_figure
from regard.output.matrix_figures import Factor, product
from regard.output.weight_figures import heads as heads_figure
from regard.reading import Reading
from regard.reading.highlights import PRONOUNS
from regard.slides.deck import GridCell, Slide, SlideGrid, SlideText
from regard.slides.lecture import (
    MOST_SENTENCE,
    SHOWN,
    WIDTH,
    Lecture,
    index,
    number,
    quoted,
    read,
    remark,
    sentence_elements,
    share,
    slide_figure,
    strongest,
    texts,
    vector,
    weights_grid,
    weights_of_word,
)
from regard.teaching.block import block_lesson
from regard.teaching.hand_check.calculation import softmax
from regard.teaching.lookup import lookup
from regard.teaching.positions import position_lesson
from regard.teaching.recorded import recorded
from regard.teaching.scaled_scores import scaling_lesson

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
    order = [key for key in np.argsort(-row, kind="stable") if key != link.query][:MOST_LINKS]
    rows = [(labels[link.query], labels[key], share(row[key])) for key in order]
    total = number(sum(row[key] for key in order))
    says = remark(f"Weights of all words sum to 1; these {len(order)} sum to {total}.", source)
    yield slide(f"The strongest links of {query}", SlideGrid(("query", "key", "weight"), rows, "ll"), says)


def matrices(lecture: Lecture) -> Iterator[Slide]:
    """Embeddings, the three weight matrices, and what q, k and v are for."""
    words, inputs = lecture.words, lecture.steps.inputs
    slide = lecture.slides(lecture.steps_command())
    rows = [(word, f"x{index(position)}", lecture.cell("x", position)) for position, word in enumerate(words)]
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
    position = len(words) - 1
    i = index(position)
    slide = lecture.slides(lecture.steps_command(f" --query {quoted(lecture.names[position])}"))
    rows = [
        (f"q{i} = x{i} · W_Q", "what the word is looking for", lecture.cell("q", position)),
        (f"k{i} = x{i} · W_K", "its index: how others find it", lecture.cell("k", position)),
        (f"v{i} = x{i} · W_V", "its content: what it passes on", lecture.cell("v", position)),
    ]
    headings = words[position], "what it is for", f"{SHOWN} of {WIDTH} numbers"
    for last in (1, 2, 3):
        yield slide("One word, three vectors", SlideGrid(headings, rows[:last], "lll"))
    best = int(np.argmax(lecture.array("score")[position]))
    matches = [
        (f"q{i}", f"k{index(key)}: {word}", lecture.cell("score", position, key), f"v{index(key)}: {word}",
         lecture.cell("weight", position, key)) for key, word in enumerate(words)
    ]  # fmt: skip
    grid = SlideGrid(("looking for", "index", "match q · k", "content", "its share"), matches, "llrl", best)
    says = remark("As in a library: the query is compared with every index card, and the contents of the books are "
                  "mixed, each by how well its card matches.")  # fmt: skip
    yield slide(f"The query of “{lecture.names[position]}” meets every key", grid, says)


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

    def cell(name: str, *at: int) -> str:
        return lecture.cell(name, *at, positioned=positions, as_symbol=lecture.symbols)

    rows: list[Sequence[str]] = [
        (word, cell("q", query) if key == query else "", cell("k", key), cell("score", query, key),
         cell("scaled", query, key), cell("weight", query, key), cell("v", key), cell("weighted", query, key))
        for key, word in enumerate(lecture.words)
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
    position = len(words) - 1
    added = [outputs[head, position] @ matrix[head * size : (head + 1) * size] for head in range(len(outputs))]
    total = np.sum(added, axis=0)
    error = abs(total - projected[position]).max()
    rows = []
    for head, part in enumerate(added):
        low = index(head - 1)
        shown_part = f"A{low} · E{low} · W{low}" if lecture.symbols else vector(part)
        rows.append((f"head {head}", shown_part, number(float(np.linalg.norm(part)))))
    summed = f"Z_f, row {position + 1}" if lecture.symbols else vector(total)
    rows.append(("sum", summed, number(float(np.linalg.norm(total)))))
    within = f" within {error:.0e}" if error else ""
    lines = "columns" if lecture.is_transposed else "rows"
    says = remark(
        f"Z_f = Σ A_h · E_h · W_h over the heads h; E_h = X · W_V of head h, W_h its {size} {lines} of W_O. "
        f"Concatenating gives the same{within}."
    )
    table = SlideGrid(("", f"added to “{words[position]}”", "length"), rows, "ll", sum_row=True)
    yield slide("The same as a sum over heads", table, says)


# Around attention


def look_up(lecture: Lecture) -> Iterator[Slide]:
    """A record that is asked by its exact key, then by a similar one; cosine beside the dot product."""
    person = examples.named("jane").content
    by_cosine, by_dot = lookup(person, similarity="cosine"), lookup(person, similarity="dot")
    exact, similar = "Date of birth", "birth date"
    ask = 'regard examples jane | regard lookup - "{}"'
    slide, slide_exact, slide_similar = map(
        lecture.slides, ("regard examples jane", ask.format(exact), ask.format(similar))
    )
    headings, rows = ("key", "value"), [(key, str(value)) for key, value in person.items()]
    yield slide("A dictionary: keys and values", SlideGrid(headings, rows, "ll"))
    marked = list(person).index(exact)
    marked_rows = [(key, GridCell(value, 0.6 if row == marked else 0.0)) for row, (key, value) in enumerate(rows)]
    says = SlideText((f"SELECT value WHERE key = “{exact}”   →   {by_cosine.hard(exact).value}",), bold=True)
    yield slide_exact("Hard look-up: the key equals the query", says, SlideGrid(headings, marked_rows, "ll", marked))
    says = SlideText((f"SELECT value WHERE key = “{similar}”   →   nothing",), bold=True)
    yield slide_similar("A query that equals no key finds nothing", says, SlideGrid(headings, rows, "ll"))
    soft = by_cosine.soft(similar)
    numbers = by_dot.similarities(similar), by_cosine.similarities(similar), np.asarray(soft.weights)
    shares = [
        (key, number(dot), number(cosine), share(weight), value)
        for (key, value), dot, cosine, weight in zip(rows, *numbers, strict=True)
    ]
    table = SlideGrid(("key", "dot product", "cosine", "softmax", "value"), shares, "lrrrl")
    spelling = "Similarity of spelling: letter trigrams that two texts share."
    yield slide_similar(f"How similar is each key to “{similar}”?", table.columns((0, 1, 2)), remark(spelling))
    says = SlideText((f"SELECT value WHERE key ≈ “{similar}”   →   {soft.value}",), bold=True)
    heat = f"Softmax of the cosine, divided by a temperature of {by_cosine.temperature_for(None):g}."
    yield slide_similar("Soft look-up: every key counts by its similarity", says, table, remark(f"{spelling} {heat}"))


def root(lecture: Lecture) -> Iterator[Slide]:
    """Why scores are divided by √d_k: two scores, then saturation and gradients of random attention."""
    slide = lecture.slides("regard scaling")
    scores = np.array(examples.named("softmax").content["scores"], np.float64)
    rows = []
    for name, logits in (("scores", scores), ("÷ √4 = 2", scores / 2)):
        weights = softmax(logits)
        printed = (" and ".join(number(part, digits) for part in pair) for pair, digits in ((logits, 0), (weights, 2)))
        rows.append((name, *printed, number(float(weights[0] * weights[1]))))
    headings = "", "two scores", "softmax", "gradient p₁ · p₂"
    yield slide("Large scores, one large weight", SlideGrid(headings, rows[:1]))
    says = SlideText(("The weights are more even, and the gradient p₁ · p₂ of the softmax is larger.",), 20.0)
    yield slide("Smaller scores, more even weights", SlideGrid(headings, rows), says)
    lesson = scaling_lesson(["1", "√d_k"], sizes=(4, 64, 1024))
    for name, what, field in (
        ("A long dot product saturates the softmax", "Largest weight of a query, on average.", "largest_weight"),
        (
            "A saturated softmax passes no gradient on",
            "Median length of ∂L/∂q. Undivided, longer keys first make it "
            "larger; then the softmax saturates, and at least half of the queries get almost none.",
            "typical_query",
        ),
    ):
        curves = lesson.curve(field, "1"), lesson.curve(field, "√d_k")
        cells = [(str(size), *(number(curve[at], 4) for curve in curves)) for at, size in enumerate(lesson.sizes)]
        yield slide(name, SlideGrid(("d_k", "divided by 1", "divided by √d_k"), cells), remark(what, lesson.setting))


def positions(lecture: Lecture) -> Iterator[Slide]:
    """x = embedding + position, and the pattern of sinusoidal positions."""
    words = lecture.words
    encoding = position_lesson("sinusoidal", length=len(words), width=WIDTH).encoding
    rows: list[Sequence[str]] = [
        (word, lecture.cell("x", at), vector(encoding[at]), lecture.cell("x", at, positioned=True))
        for at, word in enumerate(words)
    ]
    if lecture.symbols:
        i = [index(at) for at in range(len(words))]
        rows = [(word, f"e{i}", f"p{i}", f"x{i} = e{i} + p{i}") for word, i in zip(words, i, strict=True)]
    slide = lecture.slides(f"regard positions sinusoidal --length {len(words)} --width {WIDTH}")
    table = SlideGrid(("Word", "embedding e", "position p", "x = e + p"), rows)
    says = remark("Added, not concatenated: the width stays 64. Attention alone does not know the order of words.")
    for last in (2, 3, 4):
        shown = replace(table, new_column=last - 1).columns(range(last))
        yield slide("Positions: x = embedding + position", shown, says, *lecture.shortened)
    drawn = slide_figure(lambda: positions_figure(position_lesson("sinusoidal", length=10, width=10)), 370.0)
    says = remark("Sine and cosine of slower and slower waves: nearby positions have similar vectors.")
    yield lecture.slides("regard positions sinusoidal")("Every position has its own pattern", drawn, says)
    yield from table_of(lecture, 0, clicks=False, positions=True)


# Sentences on which the head that is known for a relation shows it.
SHOWN_BY = (
    ("whose", "possession", "Sarah lost her keys"),
    ("where", "spatial relationship", "Keys on the table belong to Sarah"),
    ("object", "verb and object", "The cat saw the dog"),
    ("subject", "subject and verb", "The cat saw the dog"),
    ("when", "time", "She came home on Monday"),
)


def roles(lecture: Lecture) -> Iterator[Slide]:
    """The head that is known for each relation, on a sentence that shows it, and on the lecture's own."""
    rows = []
    for relation, name, text in SHOWN_BY:
        reading = read(lecture.model, text)
        answer = _answer(reading, relation)
        if answer is None or answer.role is None:
            continue
        link, role = answer.link, answer.role
        head, ends, row = _linked(reading, link)
        says = f"Layer {link.layer}, head {link.head}: {role.arrow}, right for {number(role.accuracy)} of "
        says += f"{role.words:,} words of {TREEBANK} (best fixed offset: {number(role.offset_accuracy)})."
        drawn = sentence_elements(texts(reading), row, link.query, link.key)
        slide = lecture.slides(f'regard see "{text}" --head "{relation}"')
        yield slide(f"A head for {name}", *drawn, remark(says))
        rows.append((name, head, ends, number(row[link.key]), number(role.accuracy)))
    table = SlideGrid(("relation", "head", "link", "weight", "treebank"), rows, "lrl")
    caution = remark("Heads are named layer.head. The treebank's score is how often the head is right; a weight shows "
                     "where a head attends, not why a model gives its answer.")  # fmt: skip
    yield lecture.slides("regard heads treebank dev.conllu")("Which head does what", table, caution)
    yield _same_heads(lecture)
    yield _judged(lecture)


def _same_heads(lecture: Lecture) -> Slide:
    """What the heads of each relation link in the lecture's sentence."""
    rows, commands = [], []
    for relation, name, _ in SHOWN_BY:
        answer = _answer(lecture.reading, relation)
        if answer is None:
            rows.append((name, "", "none", ""))
            continue
        commands.append(f"regard see {lecture.quoted} --head {relation}")
        head, ends, row = _linked(lecture.reading, answer.link)
        rows.append((name, head, ends, number(row[answer.link.key])))
    text = lecture.text if len(lecture.text) < 160 else f"{lecture.text[:150]} …"
    says = remark(text, "The strongest link that each head can make, right or wrong.")
    table = SlideGrid(("relation", "head", "link", "weight"), rows, "lrl")
    return lecture.slides("\n".join(commands))("The same heads on this sentence", table, says)


# “Keys on the table belong to Sarah”: what the sentence says, by hand, beside what the heads link.
HARD = "Keys on the table belong to Sarah"
SAYS = {
    "whose": ("the keys are Sarah's", None),
    "where": ("on the table", ("table", "on")),
    "object": ("no object", None),
    "subject": ("Keys belong", ("Keys", "belong")),
    "when": ("no time", None),
}


def _judged(lecture: Lecture) -> Slide:
    """A sentence on which heads fail, judged by hand."""
    reading = read(lecture.model, HARD)
    rows, heads = [], []
    for relation, name, _ in SHOWN_BY:
        meaning, pair = SAYS[relation]
        answer = _answer(reading, relation)
        if answer is None:
            rows.append((name, meaning, "none", "", "missed" if relation == "whose" else "right"))
            continue
        head, ends, _ = _linked(reading, answer.link)
        heads.append(head)
        verdict = "right" if pair is not None and set(ends.split(" → ")) == set(pair) else "wrong"
        rows.append((name, meaning, ends, head, verdict))
    says = "A score of 0.7 on a treebank is not 1.0 on your sentence."
    twice = [head for head in heads if heads.count(head) > 1]
    if twice:
        says += f" Head {twice[0]} answers {heads.count(twice[0])} of the questions: a head need not have one role."
    table = SlideGrid(("relation", "the sentence says", "the head links", "head", "by hand"), rows, "lllrl")
    return lecture.slides(f'regard see "{HARD}" --head "spatial relationship"')(HARD, table, remark(says))


def _answer(reading: Reading, relation: str) -> Any:
    try:
        return answer_in(reading, relation)
    except OptionError:
        return None


def _linked(reading: Reading, link: Any) -> tuple[str, str, Any]:
    """The head of a link, its words, and the weights of its query."""
    row = weights_of_word(reading, link.layer, link.head, link.query)
    return f"{link.layer}.{link.head}", f"{reading.labels[link.query]} → {reading.labels[link.key]}", row


def fixed(lecture: Lecture) -> Iterator[Slide]:
    """A feed-forward matrix beside the attention of two sentences; what a window sees and a head reaches."""
    matrix = np.asarray(FeedForward.seeded(width=8, hidden=8, seed=0, dtype=np.float64).up.matrix)
    other = "kids" if lecture.text.casefold().startswith("jane visits africa") else "africa"
    first, second = lecture.reading, read(lecture.model, str(examples.named(other).content))
    link = first.opening()
    slide = lecture.slides(f"regard see {lecture.quoted} --layer {link.layer} --head {link.head}")
    factors: list[Factor | str] = [Factor("W, for any words", matrix), "=", Factor("W, for other words", matrix)]
    says = remark("Learned once. An input changes the output, not the weights.")
    yield slide("Fixed: one W for every input", slide_figure(lambda: product(factors)), says)
    shown = []
    for name, reading in (("A, first text", first), ("A, second text", second)):
        words = texts(reading)[:8]
        rows = [weights_of_word(reading, link.layer, link.head, query)[: len(words)] for query in range(len(words))]
        shown.append(Factor(name, np.stack(rows), words, is_weights=True))
    says = remark(f"The same head, layer {link.layer}, head {link.head} of {first.model}. Of a longer text the first 8 "
                  "words are drawn, [CLS] among them.")  # fmt: skip
    drawn = slide_figure(lambda: product([shown[0], "≠", shown[1]]))
    yield slide("Computed: another A for every sentence", drawn, says)
    yield from _windows(lecture)


WINDOWS = (3, 5, 7)
REACH = (3, 1)  # layer and head of minilm that leads pronouns back to their nouns
PAIRS = (("sarah", "them"), ("sarah", "It"), ("jake", "It"), ("jake", "he"))


def _windows(lecture: Lecture) -> Iterator[Slide]:
    """What windows of 3, 5 and 7 words see around a pronoun, and where a head leads it."""
    opening = lecture.reading.opening()
    layer, head = REACH if lecture.model == "minilm" else (opening.layer, opening.head)

    def follow(reading: Reading, pronoun: str) -> tuple[list[str], int, int, Any, str]:
        words, query = texts(reading), texts(reading).index(pronoun)
        row = weights_of_word(reading, layer, head, query)
        command = f"regard see {quoted(reading.text)} --query {pronoun} --layer {layer} --head {head}"
        return words, query, strongest(row, query), row, command

    reading = lecture.reading
    pronoun = next((word for word in ("It", "them", "they", "it", "she", "he") if word in texts(reading)), None)
    if len(reading.words) <= MOST_SENTENCE or pronoun is None:
        reading, pronoun = read(lecture.model, str(examples.named("jake").content)), "It"
    words, query, key, row, command = follow(reading, pronoun)
    slide = lecture.slides(command)
    near = np.abs(np.arange(len(words)) - query)
    for size in WINDOWS:
        drawn = sentence_elements(words, np.where(near <= size // 2, 0.6, 0.0), query, key, numbers=False)
        inside, reach = "sees" if near[key] <= size // 2 else "does not see", count(size // 2, "word")
        says = f"{pronoun}, {reach} each way: the window {inside} {words[key]}, {near[key]} words away."
        yield slide(f"A convolution's window of {size}", *drawn, remark(says))
    says = (
        f"{lecture.model}, layer {layer}, head {head}: {pronoun} → {words[key]} {number(row[key])}. A head can reach "
    )
    says += "every word; which one is computed from the words."
    yield slide("A head's reach", *sentence_elements(words, row, query, key), remark(says))
    rows, commands = [], []
    for name, other in PAIRS:
        words, query, key, row, command = follow(read(lecture.model, str(examples.named(name).content)), other)
        distance = abs(key - query)
        commands.append(command)
        inside_of = ("yes" if distance <= size // 2 else "no" for size in WINDOWS)
        rows.append((f"{other} → {words[key]}", str(distance), *inside_of, number(row[key])))
    headings = "link", "words apart", *(f"window {size}" for size in WINDOWS), f"head {layer}.{head}"
    below = remark("Two passages: regard examples sarah, regard examples jake.",
                   "Several convolutions on top of each other reach further; their weights stay fixed.")  # fmt: skip
    yield lecture.slides("\n".join(commands))("Windows, and a head's reach", SlideGrid(headings, rows), below)


def probability(lecture: Lecture) -> Iterator[Slide]:
    """The table q, k, probability of *jane visits africa*, with the numbers of heads that are known by name."""
    text = str(examples.named("africa").content)
    reading = read(lecture.model, text)
    words = texts(reading)
    words_at = [position for position, word in enumerate(words) if not word.startswith("[")]
    slide = lecture.slides(f'regard see "{text}" --head subject\nregard see "{text}" --head object')
    rows = []
    for relation, query_at, key_at in (("subject", 0, 1), ("subject", 1, 2), ("object", 2, 1)):
        answer = _answer(reading, relation)
        if answer is None or answer.role is None:
            continue
        link, query, key = answer.link, words_at[query_at], words_at[key_at]
        row = weights_of_word(reading, link.layer, link.head, query)
        shares = number(row[key]), number(row[key] / row[words_at].sum())
        rows.append((words[query], words[key], *shares, f"{link.layer}.{link.head}", answer.role.arrow))
    table = SlideGrid(("q", "k", "probability", "among words", "head", "known for"), rows, "llrrrl")
    says = remark("Each row: how much of the query's attention goes to this key, in a head of a trained model.",
                  "Much of the rest goes to [CLS], a sink; “among words” leaves sinks out.")  # fmt: skip
    for last in (2, 3, 6):
        yield slide("q, k, probability: jane visits africa", table.columns(range(last)), says)
    answer = _answer(reading, "subject")
    if answer is not None:
        link = answer.link
        weights = [weights_of_word(reading, link.layer, link.head, position) for position in range(len(words))]
        says = remark(
            f"Every row sums to 1. Layer {link.layer}, head {link.head} of {lecture.model}: one head, not a mean."
        )
        yield slide(f"All of head {link.layer}.{link.head}", weights_grid(words, words, weights), says)


def blocks(lecture: Lecture) -> Iterator[Slide]:
    """An encoder block, then a decoder block with cross-attention to the encoder."""
    words = lecture.words[:3]
    drawn = slide_figure(lambda: block_figure(block_lesson(words)), 370.0)
    says = remark("Attention mixes words; the feed-forward part works on each word alone.")
    slide = lecture.slides(f"regard block {quoted(' '.join(words))} --out block.svg")
    yield slide("An encoder block", drawn, says)
    target, source = ("le", "chat", "noir"), ("The", "black", "cat")
    lesson = block_lesson(target, source)
    slide = lecture.slides(f'regard block "{" ".join(target)}" --context "{" ".join(source)}" --out decoder.svg')
    yield slide("A decoder block with cross-attention", slide_figure(lambda: block_figure(lesson), 410.0))
    rows = (
        ("encoder: self-attention", "the text", "the text", "none"),
        ("decoder: self-attention", "what is written so far", "what is written so far", "causal"),
        ("decoder: cross-attention", "what is written so far", "the encoder's output", "none"),
    )
    table = SlideGrid(("part", "queries from", "keys and values from", "mask"), rows, "llll")
    yield slide("Encoder and decoder: what attends to what", table)
    self_weights, cross = (np.asarray(trace["weight"])[0] for trace in lesson.traces)
    for name, array, keys, meaning in (
        ("Masked: nothing from the future", self_weights, target, "A word sees itself and the words before it."),
        ("Cross-attention: French queries, English keys", cross, source,
         "Queries come from the decoder; keys and values from what the encoder made of the text."),
    ):  # fmt: skip
        yield slide(name, weights_grid(target, keys, array), remark(meaning, "Head 0 of a block with random weights."))


def learning(lecture: Lecture) -> Iterator[Slide]:
    """The gradient of a loss through softmax to W_Q and W_K, for two words of two numbers."""
    x = np.array([[1.0, 0.0], [0.0, 2.0]])
    w_q, w_k, values = np.eye(2), np.eye(2), np.array([1.0, 3.0])
    target = 2.0
    q, k = x[0] @ w_q, x @ w_k
    scaled = k @ q / np.sqrt(2)
    weights = softmax(scaled)
    output = float(weights @ values)
    by_output = output - target
    by_weights = by_output * values
    by_scaled = weights * (by_weights - weights @ by_weights)
    by_scores = by_scaled / np.sqrt(2)
    by_q, by_k = by_scores @ k, np.outer(by_scores, q)
    by_w_q, by_w_k = np.outer(x[0], by_q), x.T @ by_k
    names = "∂L/∂W_Q = x₁ᵀ · ∂q", "∂L/∂W_K = Xᵀ · ∂K"
    if lecture.is_transposed:
        by_w_q, by_w_k, names = by_w_q.T, by_w_k.T, ("∂L/∂W_Q = ∂qᵀ · x₁", "∂L/∂W_K = ∂Kᵀ · X")
    rows = (
        ("q = x₁ · W_Q", vector(q, 2), "∂L/∂q", vector(by_q, 2)),
        ("scores q · k", vector(k @ q, 2), "∂L/∂score", vector(by_scores, 2)),
        ("÷ √2", vector(scaled, 2), "∂L/∂scaled", vector(by_scaled, 2)),
        ("softmax a", vector(weights, 2), "∂L/∂a", vector(by_weights, 2)),
        ("z = Σ a · v", number(output), "∂L/∂z = z − 2", number(by_output)),
        ("L = ½ (z − 2)²", number(0.5 * by_output**2, 3), "", ""),
    )
    slide = lecture.slides("regard slides --part learning --out learning.pdf")
    both = SlideGrid(("forward", "number", "backward", "gradient"), rows, "lrlr")
    says = remark("x₁ = 1 0, x₂ = 0 2; W_Q = W_K = I; v = 1 and 3; the target is 2.")
    yield slide("Learning, 1: one query forward", both.columns((0, 1)), says)
    backward = remark("Through the softmax: ∂L/∂scaled = a · (∂L/∂a − Σ a · ∂L/∂a), for each key.")
    for first in range(len(rows) - 2, -1, -1):
        rows_so_far = [row if row_index >= first else (*row[:2], "", "") for row_index, row in enumerate(rows)]
        grid = replace(both, rows=rows_so_far, marked_row=first)
        below = [backward] if rows[first][2] == "∂L/∂scaled" else []
        yield slide("Learning, 2: the gradient, from the loss back", grid, *below)
    step = 0.5
    gradients = [(name, *(vector(row, 2) for row in by)) for name, by in zip(names, (by_w_q, by_w_k), strict=True)]
    changed = [
        (f"{name} − {step} · ∂L/∂{name}", *(vector(row, 2) for row in matrix - step * by))
        for name, matrix, by in (("W_Q", w_q, by_w_q), ("W_K", w_k, by_w_k))
    ]
    headings = "", "row 1", "row 2"
    yield slide("Learning, 3: the gradients of W_Q and W_K", SlideGrid(headings, gradients))
    says = remark("One step against the gradient. Training does this for all words of many sentences, many times: "
                  "regard train relations --out trained/relations records a film of it.")  # fmt: skip
    yield slide("Learning, 4: W_Q and W_K change", SlideGrid(headings, gradients + changed), says)
    yield from _film(lecture)


def _film(lecture: Lecture) -> Iterator[Slide]:
    """Four heads of a real run while they learn, each a kind of question of its own."""
    film = recorded("film")
    for snapshot, step in enumerate(film["steps"]):
        shown = [
            Factor(f"head {head}", np.array(weights) / 255, is_weights=True,
                   shape=f"{film['best_at'][head]}: {film['head_accuracy'][snapshot][head]:.2f}")
            for head, weights in enumerate(film["weights"][snapshot])
        ]  # fmt: skip
        loss, right = film["test_loss"][snapshot], film["accuracy"][snapshot]
        says = remark(f"Test loss {loss:.2f}, {right:.0%} right. Below each head: how often "
                      "its largest weight is on the word that answers where, whose, what or when.")  # fmt: skip
        title = "Four heads before training" if step == 0 else f"Four heads after {step:,} steps"
        drawn = slide_figure(lambda: product(shown), 330.0)  # noqa: B023
        yield lecture.slides(film["command"])(title, drawn, says)


PARTS: dict[str, Callable[[Lecture], Iterator[Slide]]] = {
    "intuition": intuition,
    "matrices": matrices,
    "purpose": purpose,
    "table": table,
    "matrix-form": matrix_form,
    "heads": eight_heads,
    "blocks": blocks,
    "look-up": look_up,
    "root": root,
    "fixed": fixed,
    "roles": roles,
    "probability": probability,
    "positions": positions,
    "learning": learning,
}

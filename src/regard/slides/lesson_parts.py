"""Slides around attention: look-up, √d_k, positions, what heads do, fixed weights, encoder and decoder, learning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from regard import examples
from regard.errors import OptionError, count
from regard.heads.roles import TREEBANK
from regard.heads.sentence_relations import answer_in
from regard.layers import FeedForward
from regard.output.lesson_figures import block as block_figure
from regard.output.lesson_figures import positions as positions_figure
from regard.output.matrix_figures import Factor, product
from regard.reading import Reading
from regard.slides.attention_parts import table_of
from regard.slides.deck import GridCell, Slide, SlideGrid, SlideText
from regard.slides.lecture import (
    MOST_SENTENCE,
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
from regard.teaching.lookup import lookup
from regard.teaching.positions import position_lesson
from regard.teaching.recorded import recorded
from regard.teaching.scaled_scores import scaling_lesson


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
    found = [(key, GridCell(value, 0.6 if place == marked else 0.0)) for place, (key, value) in enumerate(rows)]
    says = SlideText((f"SELECT value WHERE key = “{exact}”   →   {by_cosine.hard(exact).value}",), bold=True)
    yield slide_exact("Hard look-up: the key equals the query", says, SlideGrid(headings, found, "ll", marked))
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
        weights = _softmax(logits)
        printed = (" and ".join(number(one, digits) for one in pair) for pair, digits in ((logits, 0), (weights, 2)))
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


def _softmax(logits: Any) -> Any:
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()


def positions(lecture: Lecture) -> Iterator[Slide]:
    """x = embedding + position, and the pattern of sinusoidal positions."""
    words = lecture.words
    encoding = position_lesson("sinusoidal", length=len(words), width=WIDTH).encoding
    rows: list[Sequence[str]] = [
        (word, lecture.cell("x", place), vector(encoding[place]), lecture.cell("x", place, positioned=True))
        for place, word in enumerate(words)
    ]
    if lecture.symbols:
        i = [index(place) for place in range(len(words))]
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
    says = remark("Learned once. An input changes what comes out, not the weights.")
    yield slide("Fixed: one W for every input", slide_figure(lambda: product(factors)), says)
    shown = []
    for name, reading in (("A, first text", first), ("A, second text", second)):
        words = texts(reading)[:8]
        rows = [weights_of_word(reading, link.layer, link.head, place)[: len(words)] for place in range(len(words))]
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
    places = [place for place, word in enumerate(words) if not word.startswith("[")]
    slide = lecture.slides(f'regard see "{text}" --head subject\nregard see "{text}" --head object')
    rows = []
    for relation, query_at, key_at in (("subject", 0, 1), ("subject", 1, 2), ("object", 2, 1)):
        answer = _answer(reading, relation)
        if answer is None or answer.role is None:
            continue
        link, query, key = answer.link, places[query_at], places[key_at]
        row = weights_of_word(reading, link.layer, link.head, query)
        shares = number(row[key]), number(row[key] / row[places].sum())
        rows.append((words[query], words[key], *shares, f"{link.layer}.{link.head}", answer.role.arrow))
    table = SlideGrid(("q", "k", "probability", "among words", "head", "known for"), rows, "llrrrl")
    says = remark("Each row: how much of the query's attention goes to this key, in a head of a trained model.",
                  "Much of the rest goes to [CLS], a sink; “among words” leaves sinks out.")  # fmt: skip
    for last in (2, 3, 6):
        yield slide("q, k, probability: jane visits africa", table.columns(range(last)), says)
    answer = _answer(reading, "subject")
    if answer is not None:
        link = answer.link
        weights = [weights_of_word(reading, link.layer, link.head, place) for place in range(len(words))]
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
    yield slide("Encoder and decoder: who attends to whom", table)
    own, cross = (np.asarray(trace["weight"])[0] for trace in lesson.traces)
    for name, array, keys, meaning in (
        ("Masked: nothing from the future", own, target, "A word sees itself and the words before it."),
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
    weights = _softmax(scaled)
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
    softmax = remark("Through the softmax: ∂L/∂scaled = a · (∂L/∂a − Σ a · ∂L/∂a), for each key.")
    for first in range(len(rows) - 2, -1, -1):
        known = [row if place >= first else (*row[:2], "", "") for place, row in enumerate(rows)]
        grid = replace(both, rows=known, marked_row=first)
        below = [softmax] if rows[first][2] == "∂L/∂scaled" else []
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
    for place, step in enumerate(film["steps"]):
        shown = [
            Factor(f"head {head}", np.array(weights) / 255, is_weights=True,
                   shape=f"{film['best_at'][head]}: {film['head_accuracy'][place][head]:.2f}")
            for head, weights in enumerate(film["weights"][place])
        ]  # fmt: skip
        loss, right = film["test_loss"][place], film["accuracy"][place]
        says = remark(f"Test loss {loss:.2f}, {right:.0%} right. Below each head: how often "
                      "its largest weight is on the word that answers where, whose, what or when.")  # fmt: skip
        title = "Four heads before training" if step == 0 else f"Four heads after {step:,} steps"
        drawn = slide_figure(lambda: product(shown), 330.0)  # noqa: B023
        yield lecture.slides(film["command"])(title, drawn, says)

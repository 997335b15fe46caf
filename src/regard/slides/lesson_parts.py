"""Slides around attention: look-up, √d_k, positions, what heads do, fixed weights, encoder and decoder, learning."""

from __future__ import annotations

from collections.abc import Iterator
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
from regard.slides.deck import Slide, SlideGrid, SlideText
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
    slide_figure,
    vector,
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
    by_cosine = lookup(person, similarity="cosine")
    by_dot = lookup(person, similarity="dot")
    made = 'regard examples jane | regard lookup - "{}"'
    rows = tuple((key, str(value)) for key, value in person.items())
    record = SlideGrid(("key", "value"), rows, left=(True, True))
    yield lecture.slide("A dictionary: keys and values", record, command="regard examples jane")
    exact, similar = "Date of birth", "birth date"
    answer = by_cosine.hard(exact)
    marked = list(person).index(exact)
    yield lecture.slide(
        "Hard look-up: the key equals the query",
        SlideText((f"SELECT value WHERE key = “{exact}”   →   {answer.value}",), bold=True),
        SlideGrid(("key", "value"), rows, left=(True, True), marked_row=marked,
             shades=tuple((0.0, 0.6 if place == marked else 0.0) for place in range(len(rows)))),
        command=made.format(exact),
    )  # fmt: skip
    yield lecture.slide(
        "A query that equals no key finds nothing",
        SlideText((f"SELECT value WHERE key = “{similar}”   →   nothing",), bold=True), record,
        command=made.format(similar),
    )  # fmt: skip
    soft = by_cosine.soft(similar)
    cosine, dot = by_cosine.similarities(similar), by_dot.similarities(similar)
    weights = np.asarray(soft.weights)
    table = tuple((key, number(dot[place]), number(cosine[place]), number(weights[place]), str(value))
                  for place, (key, value) in enumerate(person.items()))  # fmt: skip
    headings = "key", "dot product", "cosine", "softmax", "value"
    spelling = "Similarity of spelling: letter trigrams that two texts share."
    yield lecture.slide(
        f"How similar is each key to “{similar}”?",
        SlideGrid(headings[:3], tuple(row[:3] for row in table)), remark(spelling), command=made.format(similar),
    )  # fmt: skip
    yield lecture.slide(
        "Soft look-up: every key counts by its similarity",
        SlideText((f"SELECT value WHERE key ≈ “{similar}”   →   {soft.value}",), bold=True),
        SlideGrid(headings, table, left=(True, False, False, False, True),
             shades=tuple((0.0, 0.0, 0.0, float(weight), 0.0) for weight in weights)),
        remark(f"{spelling} Softmax of the cosine, divided by a temperature of {by_cosine.temperature_for(None):g}."),
        command=made.format(similar),
    )  # fmt: skip


def root(lecture: Lecture) -> Iterator[Slide]:
    """Why scores are divided by √d_k: two scores, then saturation and gradients of random attention."""
    scores = np.array(examples.named("softmax").content["scores"], np.float64)
    halves = scores / 2
    rows = []
    for name, logits in (("scores", scores), ("÷ √4 = 2", halves)):
        weights = np.exp(logits - logits.max())
        weights /= weights.sum()
        slope = float(weights[0] * weights[1])
        rows.append((name, " and ".join(number(one, 0) for one in logits),
                     " and ".join(number(one) for one in weights), number(slope)))  # fmt: skip
    heads = ("", "two scores", "softmax", "gradient p₁ · p₂")
    table = SlideGrid(heads, (rows[0],))
    yield lecture.slide("Large scores, one large weight", table, command="regard scaling")
    says = SlideText(("The weights are more even, and the gradient p₁ · p₂ of the softmax is larger.",), 20.0)
    table = SlideGrid(heads, tuple(rows))
    yield lecture.slide("Smaller scores, more even weights", table, says, command="regard scaling")
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
        table = SlideGrid(
            ("d_k", "divided by 1", "divided by √d_k"),
            tuple(
                (str(size), *(number(lesson.curve(field, divisor)[place], 4) for divisor in ("1", "√d_k")))
                for place, size in enumerate(lesson.sizes)
            ),
        )
        yield lecture.slide(name, table, remark(what, lesson.setting), command="regard scaling")


def positions(lecture: Lecture) -> Iterator[Slide]:
    """x = embedding + position, and the pattern of sinusoidal positions."""
    words = lecture.words
    embeddings = np.asarray(lecture.steps.inputs.x)
    lesson = position_lesson("sinusoidal", length=len(words), width=WIDTH)
    encoding = np.asarray(lesson.encoding)
    rows = tuple(
        (word, vector(embeddings[place]), vector(encoding[place]), vector(embeddings[place] + encoding[place]))
        for place, word in enumerate(words)
    )
    if lecture.symbols:
        rows = tuple(
            (word, f"e{index(place)}", f"p{index(place)}", f"x{index(place)} = e{index(place)} + p{index(place)}")
            for place, word in enumerate(words)
        )
    command = f"regard positions sinusoidal --length {len(words)} --width {WIDTH}"
    headings = "Word", "embedding e", "position p", "x = e + p"
    for last in (2, 3, 4):
        live = (
            ()
            if lecture.symbols
            else tuple(("", f"x {place}", "", f"p.x {place}")[:last] for place in range(len(words)))
        )
        table = SlideGrid(headings[:last], tuple(row[:last] for row in rows), new_column=last - 1, live=live)
        says = remark("Added, not concatenated: the width stays 64. Attention alone does not know the order of words.")
        yield lecture.slide("Positions: x = embedding + position", table, says, *lecture.shortened, command=command)
    drawn = slide_figure(lambda: positions_figure(position_lesson("sinusoidal", length=10, width=10)), 370.0)
    says = remark("Sine and cosine of slower and slower waves: nearby positions have similar vectors.")
    yield lecture.slide("Every position has its own pattern", drawn, says, command="regard positions sinusoidal")
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
        command = f'regard see "{text}" --head "{relation}"'
        words = [word.text for word in reading.words]
        row = weights_of_word(reading, link.layer, link.head, link.query)
        says = f"Layer {link.layer}, head {link.head}: {role.arrow}, right for {number(role.accuracy)} of "
        says += f"{role.words:,} words of {TREEBANK} (best fixed offset: {number(role.offset_accuracy)})."
        drawn = sentence_elements(words, row, link.query, link.key)
        yield lecture.slide(f"A head for {name}", *drawn, remark(says), command=command)
        rows.append((name, f"{link.layer}.{link.head}", f"{words[link.query]} → {words[link.key]}",
                     number(row[link.key]), number(role.accuracy)))  # fmt: skip
    headings = "relation", "head", "link", "weight", "treebank"
    table = SlideGrid(headings, tuple(rows), left=(True, False, True, False, False))
    caution = remark("Heads are named layer.head. The treebank's score is how often the head is right; a weight shows "
                     "where a head attends, not why a model gives its answer.")  # fmt: skip
    yield lecture.slide("Which head does what", table, caution, command="regard heads treebank dev.conllu")
    yield _same_heads(lecture, lecture.reading, lecture.text)
    yield _judged(lecture)


def _same_heads(lecture: Lecture, reading: Any, text: str) -> Slide:
    """What the heads of each relation link in another sentence."""
    rows = []
    commands = []
    for relation, name, _ in SHOWN_BY:
        answer, labels = _answer(reading, relation), reading.labels
        if answer is None:
            rows.append((name, "", "none", ""))
            continue
        link = answer.link
        commands.append(f"regard see {lecture.quoted} --head {relation}")
        weight = weights_of_word(reading, link.layer, link.head, link.query)[link.key]
        rows.append((name, f"{link.layer}.{link.head}", f"{labels[link.query]} → {labels[link.key]}", number(weight)))
    table = SlideGrid(("relation", "head", "link", "weight"), tuple(rows), left=(True, False, True, False))
    shown = text if len(text) < 160 else f"{text[:150]} …"
    says = remark(shown, "The strongest link that each head can make, right or wrong.")
    return lecture.slide("The same heads on this sentence", table, says, command="\n".join(commands))


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
            verdict = "missed" if relation == "whose" else "right"
            rows.append((name, meaning, "none", "", verdict))
            continue
        link = answer.link
        ends = reading.labels[link.query], reading.labels[link.key]
        heads.append(f"{link.layer}.{link.head}")
        verdict = "right" if pair is not None and set(ends) == set(pair) else "wrong"
        rows.append((name, meaning, " → ".join(ends), heads[-1], verdict))
    twice = [head for head in dict.fromkeys(heads) if heads.count(head) > 1]
    same = (
        f" Head {twice[0]} answers {heads.count(twice[0])} of the questions: a head need not have one role."
        if twice
        else ""
    )
    headings = "relation", "the sentence says", "the head links", "head", "by hand"
    table = SlideGrid(headings, tuple(rows), left=(True, True, True, False, True))
    command = f'regard see "{HARD}" --head "spatial relationship"'
    says = remark(f"A score of 0.7 on a treebank is not 1.0 on your sentence.{same}")
    return lecture.slide(HARD, table, says, command=command)


def _answer(reading: Any, relation: str) -> Any:
    try:
        return answer_in(reading, relation)
    except OptionError:
        return None


def fixed(lecture: Lecture) -> Iterator[Slide]:
    """A feed-forward matrix beside the attention of two sentences; what a window sees and a head reaches."""
    matrix = np.asarray(FeedForward.seeded(width=8, hidden=8, seed=0, dtype=np.float64).up.matrix)
    other = "kids" if lecture.text.casefold().startswith("jane visits africa") else "africa"
    first, second = lecture.reading, read(lecture.model, str(examples.named(other).content))
    link = first.opening()
    command = f"regard see {lecture.quoted} --layer {link.layer} --head {link.head}"
    yield lecture.slide(
        "Fixed: one W for every input",
        slide_figure(lambda: product([Factor("W, for any words", matrix), "=", Factor("W, for other words", matrix)])),
        remark("Learned once. An input changes the output, not the weights."), command=command,
    )  # fmt: skip
    shown = []
    for name, reading in (("A, first text", first), ("A, second text", second)):
        words = [word.text for word in reading.words][:8]
        rows = np.stack(
            [weights_of_word(reading, link.layer, link.head, place)[: len(words)] for place in range(len(words))]
        )
        shown.append(Factor(name, rows, words, is_weights=True))
    yield lecture.slide(
        "Computed: another A for every sentence",
        slide_figure(lambda: product([shown[0], "≠", shown[1]])),
        remark(f"The same head, layer {link.layer}, head {link.head} of {first.model}. Of a longer text the first 8 "
               "words are drawn, [CLS] among them."),
        command=command,
    )  # fmt: skip
    yield from _windows(lecture)


WINDOWS = (3, 5, 7)
REACH = (3, 1)  # layer and head of minilm that leads pronouns back to their nouns
PAIRS = (("sarah", "them"), ("sarah", "It"), ("jake", "It"), ("jake", "he"))


def _pronoun(reading: Reading) -> str | None:
    """The pronoun of a passage that the slides follow; the first of these that it has."""
    words = [word.text for word in reading.words]
    return next((word for word in ("It", "them", "they", "it", "she", "he") if word in words), None)


def _windows(lecture: Lecture) -> Iterator[Slide]:
    """What windows of 3, 5 and 7 words see around a pronoun, and where a head leads it."""
    layer, head = (
        REACH if lecture.model == "minilm" else (lecture.reading.opening().layer, lecture.reading.opening().head)
    )
    reading, pronoun = lecture.reading, _pronoun(lecture.reading)
    if len(reading.words) <= MOST_SENTENCE or pronoun is None:
        reading, pronoun = read(lecture.model, str(examples.named("jake").content)), "It"
    words = [word.text for word in reading.words]
    query = words.index(pronoun)
    row = weights_of_word(reading, layer, head, query)
    key = int(np.argmax(np.where(np.arange(len(words)) == query, -1.0, row)))
    command = f"regard see {quoted(reading.text)} --query {pronoun} --layer {layer} --head {head}"
    near = np.abs(np.arange(len(words)) - query)
    for size in WINDOWS:
        seen = np.where(near <= size // 2, 0.6, 0.0)
        drawn, *says = sentence_elements(words, seen, query, key, numbers=False)
        inside = "sees" if near[key] <= size // 2 else "does not see"
        reach = count(size // 2, "word")
        says.append(remark(f"{pronoun}, {reach} each way: the window {inside} {words[key]}, {near[key]} words away."))
        yield lecture.slide(f"A convolution's window of {size}", drawn, *says, command=command)
    drawn, *says = sentence_elements(words, row, query, key)
    link = f"{pronoun} → {words[key]} {number(row[key])}"
    says.append(remark(f"{lecture.model}, layer {layer}, head {head}: {link}. A head can reach "
                       "every word; which one is computed from the words."))  # fmt: skip
    yield lecture.slide("A head's reach", drawn, *says, command=command)
    rows, commands = [], []
    for name, other in PAIRS:
        reading = read(lecture.model, str(examples.named(name).content))
        words = [word.text for word in reading.words]
        query = words.index(other)
        row = weights_of_word(reading, layer, head, query)
        key = int(np.argmax(np.where(np.arange(len(words)) == query, -1.0, row)))
        distance = abs(key - query)
        commands.append(f"regard see {quoted(reading.text)} --query {other} --layer {layer} --head {head}")
        rows.append((f"{other} → {words[key]}", str(distance),
                     *("yes" if distance <= size // 2 else "no" for size in WINDOWS), number(row[key])))  # fmt: skip
    headings = "link", "words apart", *(f"window {size}" for size in WINDOWS), f"head {layer}.{head}"
    below = remark("Two passages: regard examples sarah, regard examples jake.",
                  "Several convolutions on top of each other reach further; their weights stay fixed.")  # fmt: skip
    yield lecture.slide(
        "Windows, and a head's reach", SlideGrid(headings, tuple(rows)), below, command="\n".join(commands)
    )


def probability(lecture: Lecture) -> Iterator[Slide]:
    """The table q, k, probability of *jane visits africa*, with the numbers of heads that are known by name."""
    text = str(examples.named("africa").content)
    reading = read(lecture.model, text)
    words = [word.text for word in reading.words]
    places = [place for place, word in enumerate(words) if not word.startswith("[")]
    rows = []
    for relation, query_at, key_at in (("subject", 0, 1), ("subject", 1, 2), ("object", 2, 1)):
        answer = _answer(reading, relation)
        if answer is None or answer.role is None:
            continue
        link, role = answer.link, answer.role
        query, key = places[query_at], places[key_at]
        row = weights_of_word(reading, link.layer, link.head, query)
        known = role.arrow
        rows.append((words[query], words[key], number(row[key]), number(row[key] / row[places].sum()),
                     f"{link.layer}.{link.head}", known))  # fmt: skip
    command = f'regard see "{text}" --head subject\nregard see "{text}" --head object'
    headings = "q", "k", "probability", "among words", "head", "known for"
    left = (True, True, False, False, False, True)
    for last in (2, 3, 6):
        grid = SlideGrid(headings[:last], tuple(row[:last] for row in rows), left=left[:last])
        says = remark("Each row: how much of the query's attention goes to this key, in a head of a trained model.",
                      "Much of the rest goes to [CLS], a sink; “among words” leaves sinks out.")  # fmt: skip
        yield lecture.slide("q, k, probability: jane visits africa", grid, says, command=command)
    answer = _answer(reading, "subject")
    if answer is not None:
        link = answer.link
        array = np.stack([weights_of_word(reading, link.layer, link.head, place) for place in range(len(words))])
        grid = SlideGrid(
            ("q \\ k", *words), tuple((word, *map(number, row)) for word, row in zip(words, array, strict=True)),
            shades=tuple((0.0, *map(float, row)) for row in array),
        )  # fmt: skip
        says = remark(
            f"Every row sums to 1. Layer {link.layer}, head {link.head} of {lecture.model}: one head, not a mean."
        )
        yield lecture.slide(f"All of head {link.layer}.{link.head}", grid, says, command=command)


def blocks(lecture: Lecture) -> Iterator[Slide]:
    """An encoder block, then a decoder block with cross-attention to the encoder."""
    words = lecture.words[:3]
    drawn = slide_figure(lambda: block_figure(block_lesson(words)), 370.0)
    says = remark("Attention mixes words; the feed-forward part works on each word alone.")
    command = f"regard block {quoted(' '.join(words))} --out block.svg"
    yield lecture.slide("An encoder block", drawn, says, command=command)
    target, source = ("le", "chat", "noir"), ("The", "black", "cat")
    lesson = block_lesson(target, source)
    command = f'regard block "{" ".join(target)}" --context "{" ".join(source)}" --out decoder.svg'
    drawn = slide_figure(lambda: block_figure(lesson), 410.0)
    yield lecture.slide("A decoder block with cross-attention", drawn, command=command)
    table = SlideGrid(
        ("part", "queries from", "keys and values from", "mask"),
        (("encoder: self-attention", "the text", "the text", "none"),
         ("decoder: self-attention", "what is written so far", "what is written so far", "causal"),
         ("decoder: cross-attention", "what is written so far", "the encoder's output", "none")),
        left=(True,) * 4,
    )  # fmt: skip
    yield lecture.slide("Encoder and decoder: who attends to whom", table, command=command)
    own, cross = (np.asarray(trace["weight"])[0] for trace in lesson.traces)
    for name, array, keys, meaning in (
        ("Masked: nothing from the future", own, target, "A word sees itself and the words before it."),
        ("Cross-attention: French queries, English keys", cross, source,
         "Queries come from the decoder; keys and values from what the encoder made of the text."),
    ):  # fmt: skip
        grid = SlideGrid(
            ("q \\ k", *keys), tuple((word, *map(number, row)) for word, row in zip(target, array, strict=True)),
            shades=tuple((0.0, *map(float, row)) for row in array),
        )  # fmt: skip
        yield lecture.slide(name, grid, remark(meaning, "Head 0 of a block with random weights."), command=command)


def learning(lecture: Lecture) -> Iterator[Slide]:
    """The gradient of a loss through softmax to W_Q and W_K, for two words of two numbers."""
    x = np.array([[1.0, 0.0], [0.0, 2.0]])
    w_q, w_k, values = np.eye(2), np.eye(2), np.array([1.0, 3.0])
    target = 2.0
    q, k = x[0] @ w_q, x @ w_k
    scaled = k @ q / np.sqrt(2)
    weights = np.exp(scaled - scaled.max())
    weights /= weights.sum()
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
        ("q = x₁ · W_Q", _vector(q), "∂L/∂q", _vector(by_q)),
        ("scores q · k", _vector(k @ q), "∂L/∂score", _vector(by_scores)),
        ("÷ √2", _vector(scaled), "∂L/∂scaled", _vector(by_scaled)),
        ("softmax a", _vector(weights), "∂L/∂a", _vector(by_weights)),
        ("z = Σ a · v", number(output), "∂L/∂z = z − 2", number(by_output)),
        ("L = ½ (z − 2)²", number(0.5 * by_output**2, 3), "", ""),
    )
    forward = SlideGrid(("forward", "number"), tuple(row[:2] for row in rows), left=(True, False))
    says = remark("x₁ = 1 0, x₂ = 0 2; W_Q = W_K = I; v = 1 and 3; the target is 2.")
    command = "regard slides --part learning --out learning.pdf"
    yield lecture.slide("Learning, 1: one query forward", forward, says, command=command)
    softmax = remark("Through the softmax: ∂L/∂scaled = a · (∂L/∂a − Σ a · ∂L/∂a), for each key.")
    for first in range(len(rows) - 2, -1, -1):
        known = tuple((*row[:2], *(row[2:] if place >= first else ("", ""))) for place, row in enumerate(rows))
        both = SlideGrid(("forward", "number", "backward", "gradient"), known, left=(True, False, True, False),
                         marked_row=first)  # fmt: skip
        yield lecture.slide(
            "Learning, 2: the gradient, from the loss back",
            both,
            *([softmax] if rows[first][2] == "∂L/∂scaled" else []),
            command=command,
        )
    step = 0.5
    changes = (
        (names[0], _vector(by_w_q[0]), _vector(by_w_q[1])),
        (names[1], _vector(by_w_k[0]), _vector(by_w_k[1])),
        (f"W_Q − {step} · ∂L/∂W_Q", _vector((w_q - step * by_w_q)[0]), _vector((w_q - step * by_w_q)[1])),
        (f"W_K − {step} · ∂L/∂W_K", _vector((w_k - step * by_w_k)[0]), _vector((w_k - step * by_w_k)[1])),
    )
    table = SlideGrid(("", "row 1", "row 2"), changes[:2])
    yield lecture.slide("Learning, 3: the gradients of W_Q and W_K", table, command=command)
    table = SlideGrid(("", "row 1", "row 2"), changes)
    says = remark("One step against the gradient. Training does this for all words of many sentences, many times: "
                  "regard train relations --out trained/relations records a film of it.")  # fmt: skip
    yield lecture.slide("Learning, 4: W_Q and W_K change", table, says, command=command)

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
        yield lecture.slide(title, drawn, says, command=film["command"])


def _vector(values: Any) -> str:
    return vector(values, 2)

"""Slides around attention: look-up, √d_k, positions, what heads do, fixed weights, encoder and decoder, learning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from regard import examples
from regard.errors import OptionError
from regard.heads.roles import TREEBANK
from regard.heads.sentence_relations import answer_in
from regard.layers import FeedForward
from regard.output.lesson_figures import block as block_figure
from regard.output.lesson_figures import positions as positions_figure
from regard.output.matrix_figures import Factor, product, sentence
from regard.slides.deck import Slide, SlideGrid, SlideText
from regard.slides.lecture import WIDTH, Lecture, index, number, read, remark, slide_figure, vector, weights_of_word
from regard.teaching.block import block_lesson
from regard.teaching.lookup import lookup
from regard.teaching.positions import position_lesson
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
    yield lecture.slide(
        "Soft look-up: every key counts by its similarity",
        SlideText((f"SELECT value WHERE key ≈ “{similar}”   →   {soft.value}",), bold=True),
        SlideGrid(("key", "dot product", "cosine", "softmax", "value"),
             tuple((key, number(dot[place]), number(cosine[place]), number(weights[place]), str(value))
                   for place, (key, value) in enumerate(person.items())),
             left=(True, False, False, False, True),
             shades=tuple((0.0, 0.0, 0.0, float(weight), 0.0) for weight in weights)),
        remark("Similarity of spelling: letter trigrams that two texts share. Softmax of the cosine, divided by a "
               f"temperature of {by_cosine.temperature_for(None):g}."),
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
    says = SlideText(("The weights are more even, and the gradient p₁ · p₂ of the softmax is larger.",), 20.0)
    heads = ("", "two scores", "softmax", "gradient p₁ · p₂")
    yield lecture.slide(
        "Smaller scores, more even weights", SlideGrid(heads, tuple(rows)), says, command="regard scaling"
    )
    lesson = scaling_lesson(["1", "√d_k"], sizes=(4, 64, 1024))
    for name, what, field in (
        ("A long dot product saturates the softmax", "largest weight of a query, on average", "largest_weight"),
        ("A saturated softmax passes no gradient on", "median length of ∂L/∂q", "typical_query"),
    ):
        table = SlideGrid(
            ("d_k", "divided by 1", "divided by √d_k"),
            tuple(
                (str(size), *(number(lesson.curve(field, divisor)[place], 4) for divisor in ("1", "√d_k")))
                for place, size in enumerate(lesson.sizes)
            ),
        )
        yield lecture.slide(
            name, table, remark(f"{what[0].upper()}{what[1:]}.", lesson.setting), command="regard scaling"
        )


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
        table = SlideGrid(headings[:last], tuple(row[:last] for row in rows), new_column=last - 1)
        says = remark("Added, not concatenated: the width stays 64. Attention alone does not know the order of words.")
        yield lecture.slide("Positions: x = embedding + position", table, says, *lecture.shortened, command=command)
    drawn = slide_figure(lambda: positions_figure(position_lesson("sinusoidal", length=10, width=10)), 370.0)
    says = remark("Sine and cosine of slower and slower waves: nearby positions have similar vectors.")
    yield lecture.slide("Every position has its own pattern", drawn, says, command="regard positions sinusoidal")


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
        command = f'regard see "{text}" --relation "{relation}"'
        words = [word.text for word in reading.words]
        row = weights_of_word(reading, link.layer, link.head, link.query)
        says = f"Layer {link.layer}, head {link.head}: {role.arrow}, right for {number(role.accuracy)} of "
        says += f"{role.words:,} words of {TREEBANK} (best fixed offset: {number(role.offset_accuracy)})."
        drawn = sentence(words, row, link.query, key=link.key, caption=False)
        yield lecture.slide(f"A head for {name}", drawn, remark(says), command=command)
        rows.append((name, f"{link.layer}.{link.head}", f"{words[link.query]} → {words[link.key]}",
                     number(row[link.key]), number(role.accuracy)))  # fmt: skip
    headings = "relation", "head", "link", "weight", "treebank"
    table = SlideGrid(headings, tuple(rows), left=(True, False, True, False, False))
    caution = remark("Heads are named layer.head. The treebank's score is how often the head is right; a weight shows "
                     "where a head attends, not why a model gives its answer.")  # fmt: skip
    yield lecture.slide("Which head does what", table, caution, command="regard heads treebank dev.conllu")
    own = []
    for relation, name, _ in SHOWN_BY:
        answer = _answer(lecture.reading, relation)
        labels = lecture.reading.labels
        if answer is None:
            own.append((name, "", "no link that can be this", ""))
        else:
            link = answer.link
            weight = weights_of_word(lecture.reading, link.layer, link.head, link.query)[link.key]
            own.append(
                (name, f"{link.layer}.{link.head}", f"{labels[link.query]} → {labels[link.key]}", number(weight))
            )
    table = SlideGrid(headings[:4], tuple(own), left=(True, False, True, False))
    yield lecture.slide("The same heads on this sentence", table, remark(lecture.text),
                        command=f"regard see {lecture.quoted} --relation whose")  # fmt: skip


def _answer(reading: Any, relation: str) -> Any:
    try:
        return answer_in(reading, relation)
    except OptionError:
        return None


def fixed(lecture: Lecture) -> Iterator[Slide]:
    """A feed-forward matrix beside the attention of two sentences; what a window sees and a head reaches."""
    matrix = np.asarray(FeedForward.seeded(width=8, hidden=8, seed=0, dtype=np.float64).up.matrix)
    first, second = lecture.reading, read(lecture.model, "jane visits africa")
    link = first.opening()
    command = f"regard see {lecture.quoted} --layer {link.layer} --head {link.head}"
    yield lecture.slide(
        "Fixed: one W for every input",
        slide_figure(lambda: product([Factor("W, for any words", matrix), "=", Factor("W, for other words", matrix)])),
        remark("Learned once. An input changes what comes out, not the weights."), command=command,
    )  # fmt: skip
    shown = []
    for reading in (first, second):
        words = [word.text for word in reading.words][:8]
        rows = np.stack(
            [weights_of_word(reading, link.layer, link.head, place)[: len(words)] for place in range(len(words))]
        )
        shown.append(Factor(f"A of {len(reading.words)} words", rows, words, is_weights=True))
    yield lecture.slide(
        "Computed: another A for every sentence",
        slide_figure(lambda: product([shown[0], "≠", shown[1]])),
        remark(f"The same head, layer {link.layer}, head {link.head} of {first.model}; at most 8 words are drawn."),
        command=command,
    )  # fmt: skip
    phone = read(lecture.model, PHONE)
    found = phone.opening("It", layer=3, head=1)
    assert found.key is not None  # the paragraph is fixed
    reach = abs(found.key - found.query)
    weight = weights_of_word(phone, 3, 1, found.query)[found.key]
    rows_of_window = tuple(
        (f"a window of {size}", f"{size // 2} words each way", "yes" if reach <= size // 2 else "no")
        for size in (3, 5, 7)
    )
    pair = f"{phone.labels[found.query]} → {phone.labels[found.key]}"
    yield lecture.slide(
        "A convolution's window, and a head's reach",
        SlideText((PHONE,), 20.0),
        SlideGrid(("", "reaches", f"sees {pair}?"),
             (*rows_of_window, ("head 3.1", f"any word: weight {number(weight)} at distance {reach}", "yes")),
             left=(True, True, True)),
        command=f'regard see "{PHONE}" --query It --layer 3 --head 1',
    )  # fmt: skip


PHONE = (
    "When Jake first laid eyes on the Apple iPhone resting on the front shelf, he wasn't expecting much. "
    "It felt like holding the future."
)


def blocks(lecture: Lecture) -> Iterator[Slide]:
    """An encoder block, then a decoder block with cross-attention to the encoder."""
    words = lecture.words[:3]
    quoted = " ".join(words)
    drawn = slide_figure(lambda: block_figure(block_lesson(words)), 370.0)
    says = remark("Attention mixes words; the feed-forward part works on each word alone.")
    yield lecture.slide("An encoder block", drawn, says, command=f'regard block "{quoted}" --out block.svg')
    table = SlideGrid(
        ("part", "queries from", "keys and values from", "mask"),
        (("encoder: self-attention", "the text", "the text", "none"),
         ("decoder: self-attention", "what is written so far", "what is written so far", "causal"),
         ("decoder: cross-attention", "what is written so far", "the encoder's output", "none")),
        left=(True,) * 4,
    )  # fmt: skip
    command = f'regard block "le chat" --context "{quoted}" --out decoder.svg'
    yield lecture.slide("Encoder and decoder: who attends to whom", table, command=command)


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
    both = SlideGrid(("forward", "number", "backward, from below", "gradient"), rows, left=(True, False, True, False))
    softmax = remark("Through the softmax: ∂L/∂sᵢ = aᵢ · (∂L/∂aᵢ − Σ a · ∂L/∂a).")
    yield lecture.slide("Learning, 2: the gradient, from the loss back", both, softmax, command=command)
    step = 0.5
    table = SlideGrid(
        ("", "row 1", "row 2"),
        (("∂L/∂W_Q = x₁ᵀ · ∂q", _vector(by_w_q[0]), _vector(by_w_q[1])),
         ("∂L/∂W_K = Xᵀ · ∂K", _vector(by_w_k[0]), _vector(by_w_k[1])),
         (f"W_Q − {step} · ∂L/∂W_Q", _vector((w_q - step * by_w_q)[0]), _vector((w_q - step * by_w_q)[1])),
         (f"W_K − {step} · ∂L/∂W_K", _vector((w_k - step * by_w_k)[0]), _vector((w_k - step * by_w_k)[1]))),
    )  # fmt: skip
    says = remark("One step against the gradient. Training does this for all words of many sentences, many times: "
                  "regard train relations --out trained/relations records a film of it.")  # fmt: skip
    yield lecture.slide("Learning, 3: W_Q and W_K change", table, says, command=command)


def _vector(values: Any) -> str:
    return vector(values, 2)

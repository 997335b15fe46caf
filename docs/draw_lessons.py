"""Draws the pictures of the lessons into docs/pictures/lessons, and writes their recorded tables: `make picture`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import regard
from regard import examples
from regard.layers import Linear, MultiHead
from regard.output import colours, figure
from regard.output.characters import printable, text_width
from regard.output.chart import Chart, Line, charts, linear, logarithmic
from regard.output.matrix_figures import Factor, product
from regard.output.panel import Labels, panel, scale_for
from regard.output.svg import Drawing, Layout, Svg, below, framed, rectangle, text
from regard.output.weight_figures import numbers_of
from regard.tables import Column, Table, digits_for, printed_number
from regard.teaching.block import block_lesson
from regard.teaching.lookup import lookup
from regard.teaching.positions import position_lesson
from regard.teaching.recorded import is_recorded, recorded
from regard.teaching.scaled_scores import scaling_lesson

FOLDER = Path(__file__).parent / "pictures" / "lessons"
KIDS = str(examples.named("kids").content)
CAT = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
WORDS = ["The", "cat", "sat"]
SIZES = [2**power for power in range(6, 15)]
ON_SLIDES: Layout = {"aspect": "16:9"}  # type that is still legible in a column of text


def softmax(scores: np.ndarray) -> np.ndarray:
    """Weights of rows of scores."""
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def draw() -> dict[str, Svg]:
    """All pictures that need no trained model, by the names of their files."""
    rng = np.random.default_rng(0)
    jane = lookup(examples.named("jane").content)
    four = examples.named("four-words").content
    vectors = lookup(four["keys"][:3], four["values"][:3], similarity="negative distance")
    cat = regard.Attention(CAT, CAT).explain(CAT, words=WORDS)
    scores = CAT @ CAT.T
    weights = softmax(scores / 2)
    X = np.array([[1.0, 0, 2], [0, 1, 1]])
    W_q, W_k = np.array([[1.0, 0], [0, 1], [1, 1]]), np.array([[0.0, 1], [1, 0], [1, 0]])
    six = ["The", "cat", "sat", "on", "the", "mat"]
    E = rng.normal(size=(6, 8))
    layer = MultiHead.seeded(width=8, heads=2, seed=0, dtype=np.float64)
    assert layer.w_o is not None
    W_o = np.asarray(layer.w_o.matrix)
    two_heads = layer.explain(E[:3], words=WORDS, note="Random embeddings and weights, seed 0.")
    another = layer.explain(rng.normal(size=(3, 8)), words=["love", "apple", "phones"])
    french = layer.explain(
        E[:3], rng.normal(size=(4, 8)), words=["le", "chat", "noir"], context_words=["The", "black", "cat", "sat"]
    )
    places = position_lesson("sinusoidal", length=3, width=4).encoding
    losses, learned = descend()
    first, right = softmax(np.array([[1.0, 0, 0]])), np.array([[0.0, 1, 0]])
    gaps = list(range(9))
    rise = 1 / (1 + np.exp(-np.array(gaps, float)))
    return {
        "02-birth-date": figure.lookup(jane, "birth date"),
        "02-warm": figure.lookup(vectors, four["keys"][0], 1.0, title="Temperature 1"),
        "02-cold": figure.lookup(vectors, four["keys"][0], 0.1, title="Temperature 0.1"),
        "03-query": products([("X", X), ("W_q", W_q), ("Q", X @ W_q)], ["·", "="], title="Queries: X · W_q"),
        "03-key": products([("X", X), ("W_k", W_k), ("K", X @ W_k)], ["·", "="], title="Keys: X · W_k"),
        "03-same": products(
            [("Q", X @ W_q), ("Qᵀ", (X @ W_q).T), ("scores", X @ W_q @ (X @ W_q).T)],
            ["·", "="],
            title="If W_k = W_q: symmetric",
        ),
        "03-other": products(
            [("Q", X @ W_q), ("Kᵀ", (X @ W_k).T), ("scores", X @ W_q @ (X @ W_k).T)],
            ["·", "="],
            title="With a W_k of its own",
        ),
        "04-flow": figure.flow(cat, query="cat"),
        "04-score": figure.bars(cat, query="cat", key="sat"),
        "04-weights": figure.heat_map(cat, title="All three queries"),
        "05-halved": shaded_sentence(
            ["6", "4"],
            [("softmax of 6, 4", softmax(np.array([6.0, 4]))), ("softmax of 3, 2", softmax(np.array([3.0, 2])))],
            title="The same scores, and half of them",
        ),
        "05-scaling": figure.scaling(scaling_lesson(), **ON_SLIDES),
        "05-gradient": curves(
            {"weight": rise, "gradient": rise * (1 - rise)},
            gaps,
            title="A sure softmax stops learning",
            along="difference of two scores",
            what="the larger weight p, and its gradient p(1 − p)",
        ),
        "06-scores": products([("Q", CAT), ("Kᵀ", CAT.T), ("scores", scores)], ["·", "="], title="Scores: Q · Kᵀ"),
        "06-softmax": products(
            [("scores", scores), ("A", weights)], ["→"], title="A = softmax(scores / √d_k), row by row"
        ),
        "06-output": products([("A", weights), ("V", CAT), ("Z", weights @ CAT)], ["·", "="], title="Outputs: A · V"),
        "06-cost": curves(
            {"2n²d": [2 * n * n * 512 for n in SIZES], "4nd²": [4 * n * 512 * 512 for n in SIZES]},
            SIZES,
            is_log=True,
            title="Multiplications of one layer, d = 512",
            along="n, words",
            what="products with A, and projections",
        ),
        "07-heads": figure.heads(two_heads),
        "07-join": products(
            [("[Z₀ Z₁]", np.array(two_heads["concatenated"]).reshape(3, 8)), ("W_O", W_o)],
            ["·"],
            title="Side by side, then W_O",
        ),
        "08-waves": figure.positions(position_lesson("sinusoidal", length=32, width=16), **ON_SLIDES),
        "08-rotary": figure.positions(position_lesson("rotary", length=32, width=8), **ON_SLIDES),
        "08-added": products(
            [("E", CAT), ("P", places), ("X", CAT + places)], ["+", "="], title="Word + position = input"
        ),
        "09-causal": figure.heat_map(
            regard.Attention(E, E, mask=regard.causal()), words=six, title="Causal: nothing from the future"
        ),
        "09-window": figure.heat_map(
            regard.Attention(E, E, mask=regard.causal() & regard.window(2)), words=six, title="Causal, window of 2"
        ),
        "09-cross": figure.heat_map(french, title="Cross-attention: le chat noir reads English"),
        "09-decoder": figure.block(block_lesson(["le", "chat", "noir"], ["The", "black", "cat", "sat"]), **ON_SLIDES),
        "10-loss": curves(
            {"loss": losses},
            list(range(len(losses))),
            title="The loss, step by step",
            along="step",
            what="−log of the weight on the right key",
        ),
        "10-before": products([("W_q", np.eye(2)), ("W_q after", learned)], ["→"], title="W_q after 20 steps"),
        "10-gradient": products(
            [("A", first), ("right", right), ("∂ score", first - right)],
            ["−", "="],
            title="Gradient of the scores: weights minus target",
        ),
        "10-film": film(),
        "11-filters": figure.heads_and_filters(two_heads, E[:3], rng.normal(size=(2, 3, 8)), **ON_SLIDES),
        "11-fixed": figure.fixed_and_computed(Linear.seeded(8, 8), two_heads, another),
    }


def film() -> Svg:
    """Four heads at three moments of a recorded run."""
    run = recorded("film")
    steps = [0, run["steps"].index(96), len(run["steps"]) - 1]
    rows = [
        product([Factor(f"{run['best_at'][head]}, step {run['steps'][step]}", np.array(weights) / 255, is_weights=True,
                        shape=f"{run['head_accuracy'][step][head]:.2f} right")
                 for head, weights in enumerate(run["weights"][step])], title="Four heads learn", caption=False)
        for step in steps
    ]  # fmt: skip
    body = below([Drawing(row.width, row.height, row.parts) for row in rows])
    notes = ["Below each head: how often its largest weight is on the right word."]
    return framed("Four heads learn", notes, body, "Four heads before training, after 96 and after 800 steps.")


def descend(steps: int = 20, rate: float = 1.0) -> tuple[list[float], np.ndarray]:
    """The losses of lesson 10's example, and its W_q after the last step."""
    x, keys, W = np.array([1.0, 0.0]), np.array([[1.0, 0], [0, 1], [0, 0]]), np.eye(2)
    losses = []
    for _ in range(steps):
        weights = softmax(keys @ (x @ W))
        losses.append(float(-np.log(weights[1])))
        W = W - rate * np.outer(x, (weights - [0, 1, 0]) @ keys)
    return losses, W


def draw_model() -> dict[str, Svg]:
    """The pictures of minilm's heads."""
    model = regard.model("minilm")

    def row(text: str, query: str, layer: int, head: int) -> tuple[list[str], np.ndarray]:
        reading = model.read(text)
        words = [word.text for word in reading.words]
        return words, reading.weights(layer=layer, head=head)[words.index(query)]

    words, they = row(KIDS, "they", 3, 1)
    lions, swapped = row("The lions were scared of the kids, so they left right away.", "they", 3, 1)
    roar, roared = row("The kids were scared of the lions, because they roared.", "they", 3, 1)
    reading = model.read(KIDS)
    phone, it = row("Jake dropped his iPhone. It broke.", "It", 3, 1)
    near = abs(np.arange(len(phone)) - phone.index("It"))

    def window(width: int, near: np.ndarray = near) -> np.ndarray:
        return np.where(near <= width // 2, 1 / width, np.nan)

    passage, of_it = row(str(examples.named("jake").content), "It", 3, 1)
    apart = abs(np.arange(len(passage)) - passage.index("It"))
    africa, jane = row("jane visits africa", "jane", 2, 8)
    _, of_africa = row("jane visits africa", "africa", 2, 0)

    def matrix(layer: int, head: int, title: str) -> Svg:
        return figure.heat_map(reading.weights(layer=layer, head=head), words=words, title=title)

    return {
        "01-they": shaded_sentence(words, [("they, layer 3, head 1", they)], title="Who left?"),
        "01-lions": shaded_sentence(lions, [("they, layer 3, head 1", swapped)], title="The nouns swapped"),
        "01-matrix": matrix(3, 1, "Attention matrix: layer 3, head 1"),
        "07-minilm": figure.heads(
            np.stack([reading.weights(layer=3, head=head) for head in range(4)]), words=words,
            title="Four of the twelve heads of layer 3", **ON_SLIDES,
        ),
        "11-reach": shaded_sentence(
            phone, [("window of 3 around It", window(3)), ("window of 5", window(5)), ("head 3.1, from It", it)],
            title="A window, and a head's reach",
        ),
        "11-passage": shaded_sentence(
            passage,
            [
                *((f"window of {size} around It", window(size, apart)) for size in (3, 5, 7)),
                ("head 3.1, from It", of_it),
            ],
            title="A passage: windows of 3, 5 and 7, and a head",
        ),
        "12-africa": shaded_sentence(
            africa, [("jane, head 2.8: subject → verb", jane), ("africa, head 2.0: object → verb", of_africa)],
            title="Query, key, probability",
        ),
        "12-previous": matrix(0, 2, "Layer 0, head 2: the word before"),
        "12-sink": matrix(4, 5, "Layer 4, head 5: a sink"),
        "12-roared": shaded_sentence(roar, [("they, layer 3, head 1", roared)], title="Who roared?"),
    }  # fmt: skip


# What the pictures of lessons are drawn with

WIDE = 440.0  # of a figure that a phone shows without shrinking its text much
WORD, NUMBER = 20.0, 12.0
NARROWEST = 32.0  # of a word, so that the numbers below two words do not touch


def shaded_sentence(words: Sequence[str], rows: Sequence[tuple[str, Any]], *, title: str, note: str = "") -> Svg:
    """A sentence several times, each word shaded by its weight and with the weight below it.

    rows   a label and one weight per word; NaN: out of reach, drawn without a number
    """
    parts: list[str] = []
    captions, y = [], 0.0
    for label, row in rows:
        weights = numbers_of("weights", row)
        parts.append(text(label, 0, y + 8, 14, bold=True))
        x, y = 0.0, y + 26
        for word, weight in zip(map(printable, words), weights, strict=True):
            wide = max(text_width(word, WORD) + 12, NARROWEST)
            if x and x + wide > WIDE:
                x, y = 0.0, y + 54
            is_reached = bool(weight == weight)
            fill = colours.sequential(float(weight)) if is_reached else colours.HIDDEN
            parts.append(rectangle(x, y, wide, 28, fill, radius=4))
            parts.append(text(word, x + wide / 2, y + 14, WORD, anchor="middle", fill=colours.ink_on(fill)))
            if is_reached and weight >= 0.005:
                below = printed_number(float(weight), 2)
                parts.append(text(below, x + wide / 2, y + 38, NUMBER, anchor="middle", fill=colours.MUTED))
            x += wide + 4
        y += 66
        captions.append(
            f"{label}: " + ", ".join(f"{word} {weight:.2f}" for word, weight in zip(words, weights, strict=True))
        )
    return framed(title, [note] if note else [], Drawing(WIDE, y - 14, tuple(parts)), ". ".join(captions) + ".")


def products(matrices: Sequence[tuple[str, Any]], signs: Sequence[str], *, title: str, note: str = "") -> Svg:
    """Matrices in a row with signs between them: X · W = Q. Below each its name, and its shape as rows × columns."""
    arrays = [numbers_of(name, matrix) for name, matrix in matrices]
    digits = [min(digits_for(array), 2) for array in arrays]
    cell = 34.0 if sum(array.shape[1] for array in arrays) <= 12 else 28.0
    tallest = max(len(array) for array in arrays) * cell
    parts: list[str] = []
    x = 0.0
    for number, ((name, _), array, shown) in enumerate(zip(matrices, arrays, digits, strict=True)):
        rows, columns = ([str(count) for count in range(size)] for size in array.shape)
        drawn = panel(
            array, rows, columns, scale_for(array, signed=bool((array < 0).any())), (cell, cell),
            Labels(drawn=(False, False)), digits=shown, hint=name + "[{row}, {column}]: {number}",
        )  # fmt: skip
        parts.append(drawn.drawing.at(x, (tallest - drawn.height) / 2))
        middle = x + drawn.width / 2
        parts.append(text(name, middle, tallest + 18, 16, anchor="middle", bold=True))
        shape = f"{array.shape[0]} × {array.shape[1]}"
        parts.append(text(shape, middle, tallest + 38, 13, anchor="middle", fill=colours.MUTED))
        x += drawn.width
        if number < len(signs):
            wide = max(text_width(signs[number], 16), 14.0)
            parts.append(text(signs[number], x + wide / 2 + 9, tallest / 2, 16, anchor="middle"))
            x += wide + 18
    shapes = ", ".join(
        f"{name} {array.shape[0]} by {array.shape[1]}" for (name, _), array in zip(matrices, arrays, strict=True)
    )
    body = Drawing(max(x, 320.0), tallest + 50, tuple(parts))
    return framed(title, [note] if note else [], body, f"{title}: {shapes}.", gap=8)


def curves(
    lines: dict[str, Any], sizes: Sequence[int], *, title: str, along: str, what: str, is_log: bool = False
) -> Svg:
    """One line per name over the same sizes; both axes logarithmic or both linear."""
    arrays = [numbers_of(name, numbers) for name, numbers in lines.items()]
    axis = (logarithmic if is_log else linear)(numbers_of("lines", [list(array) for array in arrays]))
    drawn = [Line(name, array, number) for number, (name, array) in enumerate(zip(lines, arrays, strict=True))]
    chart = charts([Chart("", what, drawn, axis)], sizes, along=along, is_log=is_log)
    ends = ". ".join(f"{name}: {array[0]:.4g} to {array[-1]:.4g}" for name, array in zip(lines, arrays, strict=True))
    return framed(title, [], chart, f"{title}. {ends}.")


# Tables of recorded runs


def heads_table() -> Table:
    """What more heads are worth on a task with four questions at once."""
    rows = []
    for heads, runs in recorded("heads")["runs"].items():
        accuracies = ", ".join(f"{run['accuracy']:.3f}" for run in runs)
        rows.append((heads, accuracies, _by_kind(np.array([run["best_heads"] for run in runs]))))
    columns = (Column("heads", "text"), Column("right answers, one number per seed", "text"),
               Column("the best head for each kind has its largest weight on the right word", "text"))  # fmt: skip
    return Table("Accuracy by number of heads", columns, tuple(rows))


SURE = 0.95  # from which a head is said to have learned a kind


def _by_kind(best: Any) -> str:
    """The accuracies of the best heads, (seed, kind), in words."""
    learned = (best >= SURE).sum(axis=1)
    parts = []
    if learned.max():
        counts = " or ".join(("none", "one", "two", "three", "four")[count] for count in sorted({*learned.tolist()}))
        number = "all four" if learned.min() == best.shape[1] else f"{counts} of the four"
        parts.append(f"{_span(best[best >= SURE])} for {number}")
    if (best < SURE).any():
        parts.append(f"{_span(best[best < SURE])} for the others" if parts else _span(best))
    return ", ".join(parts)


def _span(numbers: Any) -> str:
    low, high = f"{numbers.min():.2f}", f"{numbers.max():.2f}"
    return low if low == high else f"{low} to {high}"


MIXES = {  # how a position gets information from earlier ones
    "convolution": "filters over 4 neighbours, reach 7",
    "feed-forward": "a weight for every position of the window",
    "gated convolution": "a filter as long as the sequence, times a gate",
    "dilated": "filters with gaps, reach 16",
    "one head": "attention: weights computed from queries and keys",
    "eight heads": "the same, eight times",
}


def networks_table() -> Table:
    """The same task for networks of the same size, worst first: mean accuracy over the seeds."""
    runs, seeds = recorded("networks")["runs"], ", ".join(map(str, recorded("networks")["seeds"]))
    means = {name: float(np.mean(runs[name])) for name in runs}
    rows = tuple((name, MIXES[name], f"{means[name]:.2f}") for name in sorted(means, key=lambda name: means[name]))
    columns = Column("network", "text"), Column("how a position gets information from earlier ones", "text")
    last = f"right answers, mean of seeds {seeds}" if "," in seeds else f"right answers, seed {seeds}"
    return Table("Accuracy by network", (*columns, Column(last, "text")), rows)


def relations_table() -> Table:
    """Right words and the best head of each relation before and after training, one number per seed."""
    runs = recorded("relations")["runs"]
    moments = "untrained", "trained"

    def numbers(digits: int, *keys: str) -> tuple[str, ...]:
        return tuple(", ".join(f"{_inside(run[moment], keys):.{digits}f}" for run in runs) for moment in moments)

    rows = [("right words", *numbers(3, "accuracy"))]
    rows += [(f"best head for {name}", *numbers(2, "best_heads", name)) for name in runs[0]["trained"]["best_heads"]]
    columns = tuple(Column(name, "text") for name in ("", *moments))
    return Table("Relations before and after training", columns, tuple(rows))


def _inside(content: Any, keys: tuple[str, ...]) -> float:
    for key in keys:
        content = content[key]
    return float(content)


RECORDED: dict[str, Callable[[], Table]] = {
    "heads": heads_table, "networks": networks_table, "relations": relations_table
}  # fmt: skip
MARKED = re.compile(r"(<!-- recorded: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def write_tables(text: str) -> str:
    """A lesson with its recorded tables written again; those of runs that are not recorded stay."""

    def table(found: re.Match[str]) -> str:
        start, name, end = found.groups()
        return f"{start}{markdown_rows(RECORDED[name]())}{end}" if is_recorded(name) else found[0]

    return MARKED.sub(table, text)


def markdown_rows(table: Table) -> str:
    """A table of texts, without its title."""
    lines = [[column.name for column in table.columns], ["---"] * len(table.columns), *table.rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)


if __name__ == "__main__":
    for lesson in sorted((Path(__file__).parent / "lessons").glob("*.md")):
        lesson.write_text(write_tables(lesson.read_text(encoding="utf-8")), encoding="utf-8")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, picture in {**draw(), **draw_model()}.items():
        picture.save(FOLDER / f"{name}.svg")

"""Draws the pictures of the lessons into docs/pictures/lessons, and writes their recorded tables: `make picture`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

import regard
from regard import examples
from regard.layers import Linear, MultiHead
from regard.output import figure
from regard.output.matrix_figures import Factor, product
from regard.output.svg import Drawing, Svg, below, framed
from regard.tables import Table
from regard.teaching.block import block_lesson
from regard.teaching.lookup import lookup
from regard.teaching.positions import position_lesson
from regard.teaching.recorded import heads_table, is_recorded, networks_table, recorded, relations_table
from regard.teaching.scaled_scores import scaling_lesson

FOLDER = Path(__file__).parent / "pictures" / "lessons"
KIDS = str(examples.named("kids").content)
CAT = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
WORDS = ["The", "cat", "sat"]
SIZES = [2**power for power in range(6, 15)]


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
        "03-query": figure.products([("X", X), ("W_q", W_q), ("Q", X @ W_q)], ["·", "="], title="Queries: X · W_q"),
        "03-key": figure.products([("X", X), ("W_k", W_k), ("K", X @ W_k)], ["·", "="], title="Keys: X · W_k"),
        "03-same": figure.products(
            [("Q", X @ W_q), ("Qᵀ", (X @ W_q).T), ("scores", X @ W_q @ (X @ W_q).T)],
            ["·", "="],
            title="If W_k = W_q: symmetric",
        ),
        "03-other": figure.products(
            [("Q", X @ W_q), ("Kᵀ", (X @ W_k).T), ("scores", X @ W_q @ (X @ W_k).T)],
            ["·", "="],
            title="With a W_k of its own",
        ),
        "04-flow": figure.flow(cat, query="cat"),
        "04-score": figure.bars(cat, query="cat", key="sat"),
        "04-weights": figure.heat_map(cat, title="All three queries"),
        "05-halved": figure.shaded_sentence(
            ["6", "4"],
            [("softmax of 6, 4", softmax(np.array([6.0, 4]))), ("softmax of 3, 2", softmax(np.array([3.0, 2])))],
            title="The same scores, and half of them",
        ),
        "05-scaling": figure.scaling(scaling_lesson()),
        "05-gradient": figure.curves(
            {"weight": rise, "gradient": rise * (1 - rise)},
            gaps,
            title="A sure softmax stops learning",
            along="difference of two scores",
            what="the larger weight p, and its gradient p(1 − p)",
        ),
        "06-scores": figure.products(
            [("Q", CAT), ("Kᵀ", CAT.T), ("scores", scores)], ["·", "="], title="Scores: Q · Kᵀ"
        ),
        "06-softmax": figure.products(
            [("scores", scores), ("A", weights)], ["→"], title="A = softmax(scores / √d_k), row by row"
        ),
        "06-output": figure.products(
            [("A", weights), ("V", CAT), ("Z", weights @ CAT)], ["·", "="], title="Outputs: A · V"
        ),
        "06-cost": figure.curves(
            {"2n²d": [2 * n * n * 512 for n in SIZES], "4nd²": [4 * n * 512 * 512 for n in SIZES]},
            SIZES,
            is_log=True,
            title="Multiplications of one layer, d = 512",
            along="n, words",
            what="products with A, and projections",
        ),
        "07-heads": figure.heads(two_heads),
        "07-join": figure.products(
            [("[Z₀ Z₁]", np.array(two_heads["concatenated"]).reshape(3, 8)), ("W_O", W_o)],
            ["·"],
            title="Side by side, then W_O",
        ),
        "08-waves": figure.positions(position_lesson("sinusoidal", length=32, width=16)),
        "08-rotary": figure.positions(position_lesson("rotary", length=32, width=8)),
        "08-added": figure.products(
            [("E", CAT), ("P", places), ("X", CAT + places)], ["+", "="], title="Word + position = input"
        ),
        "09-causal": figure.heat_map(
            regard.Attention(E, E, mask=regard.causal()), words=six, title="Causal: nothing from the future"
        ),
        "09-window": figure.heat_map(
            regard.Attention(E, E, mask=regard.causal() & regard.window(2)), words=six, title="Causal, window of 2"
        ),
        "09-cross": figure.heat_map(french, title="Cross-attention: le chat noir reads English"),
        "09-decoder": figure.block(block_lesson(["le", "chat", "noir"], ["The", "black", "cat", "sat"])),
        "10-loss": figure.curves(
            {"loss": losses},
            list(range(len(losses))),
            title="The loss, step by step",
            along="step",
            what="−log of the weight on the right key",
        ),
        "10-before": figure.products([("W_q", np.eye(2)), ("W_q after", learned)], ["→"], title="W_q after 20 steps"),
        "10-gradient": figure.products(
            [("A", first), ("right", right), ("∂ score", first - right)],
            ["−", "="],
            title="Gradient of the scores: weights minus target",
        ),
        "10-film": film(),
        "11-filters": figure.heads_and_filters(two_heads, E[:3], rng.normal(size=(2, 3, 8))),
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
        "01-they": figure.shaded_sentence(words, [("they, layer 3, head 1", they)], title="Who left?"),
        "01-lions": figure.shaded_sentence(lions, [("they, layer 3, head 1", swapped)], title="The other way round"),
        "01-matrix": matrix(3, 1, "Every word asks: layer 3, head 1"),
        "07-minilm": figure.heads(
            np.stack([reading.weights(layer=3, head=head) for head in range(4)]), words=words,
            title="Four of the twelve heads of layer 3",
        ),
        "11-reach": figure.shaded_sentence(
            phone, [("window of 3 around It", window(3)), ("window of 5", window(5)), ("head 3.1, from It", it)],
            title="A window, and a head's reach",
        ),
        "11-passage": figure.shaded_sentence(
            passage,
            [
                *((f"window of {size} around It", window(size, apart)) for size in (3, 5, 7)),
                ("head 3.1, from It", of_it),
            ],
            title="A passage: windows of 3, 5 and 7, and a head",
        ),
        "12-africa": figure.shaded_sentence(
            africa, [("jane, head 2.8: subject → verb", jane), ("africa, head 2.0: object → verb", of_africa)],
            title="Query, key, probability",
        ),
        "12-previous": matrix(0, 2, "Layer 0, head 2: the word before"),
        "12-sink": matrix(4, 5, "Layer 4, head 5: a sink"),
        "12-roared": figure.shaded_sentence(roar, [("they, layer 3, head 1", roared)], title="Who roared?"),
    }  # fmt: skip


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

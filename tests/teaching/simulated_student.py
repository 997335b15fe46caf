"""A student who fills in exercise sheets, with NumPy alone: carefully, or with one slip."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.teaching.exercises import Box, ExerciseTask, Sheet, in_digits

Array = NDArray[Any]
Arrays = dict[str, Array]  # by step, beside what the task gives
Mistake = Callable[[Arrays, Array], Array]  # from the steps before and the right result

ORDER = (
    "positioned", "query", "key", "value", "score", "unscaled_weight", "scaled", "masked", "weight", "weighted_value",
    "output", "weight_gradient", "mean_gradient", "scaled_gradient", "score_gradient", "concatenated", "projected",
)  # fmt: skip


def softmax(scores, axis=-1):
    exponentials = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


def start(notes: dict[str, Any]) -> Arrays:
    arrays: Arrays = {
        name: np.array(notes[name], float) for name in ("embeddings", "context", "positions", "mask") if name in notes
    }
    arrays |= {
        step: np.array(notes[name], float)
        for step, name in (("query", "q"), ("key", "k"), ("value", "v"))
        if name in notes
    }
    for name in ("W_q", "W_k", "W_v", "W_O"):
        if name in notes:
            matrix = np.array(notes[name], float)
            arrays[name] = matrix.T if notes.get("product") == "x W^T" else matrix
    if "dL/dz" in notes:
        arrays["gradient"] = np.array(notes["dL/dz"], float)[None]
    return arrays


def compute(step: str, a: Arrays) -> Array | None:
    """One step from the steps before it; None if there is nothing to compute."""
    x = a.get("positioned", a.get("embeddings"))
    source = a.get("context", x)
    if step in ("query", "key", "value"):
        rows, name = (x if step == "query" else source), {"query": "W_q", "key": "W_k", "value": "W_v"}[step]
        return None if rows is None else rows[None] @ a.get(name, np.eye(rows.shape[1]))
    stage = a.get("masked", a.get("scaled"))
    formulas: dict[str, Callable[[], Array]] = {
        "positioned": lambda: a["embeddings"] + a["positions"],
        "score": lambda: a["query"] @ a["key"].swapaxes(1, 2),
        "unscaled_weight": lambda: softmax(a["score"]),
        "scaled": lambda: a["score"] / np.sqrt(a["query"].shape[-1]),
        "masked": lambda: np.where(a["mask"] > 0, a["scaled"], -np.inf),
        "weight": lambda: softmax(stage),
        "weighted_value": lambda: a["weight"][..., None] * a["value"][:, None],
        "output": lambda: a["weight"] @ a["value"],
        "weight_gradient": lambda: a["gradient"] @ a["value"].swapaxes(1, 2),
        "mean_gradient": lambda: (a["weight"] * a["weight_gradient"]).sum(-1),
        "scaled_gradient": lambda: a["weight"] * (a["weight_gradient"] - a["mean_gradient"][..., None]),
        "score_gradient": lambda: a["scaled_gradient"] / np.sqrt(a["query"].shape[-1]),
        "concatenated": lambda: np.concatenate(list(a["output"]), axis=-1),
        "projected": lambda: a["concatenated"] @ a["W_O"],
    }
    try:
        return formulas[step]()
    except KeyError:
        return None


@dataclass(frozen=True)
class Slip:
    """A mistake in one step: what it gives from the steps before and the right result, and the name it should get."""

    step: str
    make: Mistake
    name: str | None = None


def solve(task: ExerciseTask, *, decimals: int = 2, carries: bool = False, slip: Slip | None = None) -> dict[Box, str]:
    """The answers; with `carries` each step goes on from the numbers as they were written down."""
    arrays = start(dict(task.notes)) | {"asked": np.array(-1 if task.query is None else task.query)}
    answers: dict[Box, str] = {}
    for step in ORDER:
        if step in arrays:
            continue
        array = compute(step, arrays)
        if array is None:
            continue
        if slip is not None and slip.step == step:
            array = slip.make(arrays, array)
        arrays[step] = array
        if step in task.steps:
            for box in task.boxes(step):
                answers[box] = in_digits(float(array[box.index]), decimals)
            if carries:
                with np.errstate(invalid="ignore"):
                    arrays[step] = np.where(
                        np.isinf(array),
                        array,
                        np.sign(array) * np.floor(np.abs(array) * 10**decimals + 0.5) / 10**decimals,
                    )
    return answers


def fill_in(task: ExerciseTask, answers: dict[Box, str]) -> Sheet:
    sheet = task.sheet()
    return Sheet(sheet.title, sheet.student, sheet.blocks, answers)


# Slips


def at_one(change: Callable[[Arrays, tuple[np.intp, ...], float], float]) -> Mistake:
    """A slip in a single number: the one with the largest size, as `change(arrays, place, number)` gives it."""

    def make(arrays, right):
        wrong = right.copy()
        rows = np.where(np.isfinite(right), np.abs(right), -1.0)
        if (query := arrays["asked"].item()) >= 0 and right.ndim > 1:
            others = np.arange(right.shape[1]) != query
            rows[:, others] = -2.0
        place = np.unravel_index(int(rows.argmax()), right.shape)
        wrong[place] = change(arrays, place, float(right[place]))
        return wrong

    return make


def terms_of_score(a, place):
    return a["query"][place[0], place[1]] * a["key"][place[0], place[2]]


def without_largest(terms):
    return terms.sum() - terms[np.abs(terms).argmax()]


def with_wrong_sign(terms):
    return terms.sum() - 2 * terms[np.abs(terms).argmax()]


def terms_of_output(a, row, head):
    return a["weight"][head, row][:, None] * a["value"][head]  # (key, component)


def in_row(change: Callable[[Array], Array]) -> Mistake:
    """A slip in the sum of every query: `change(terms)` of the weighted values, (key, component)."""
    return lambda a, right: np.array(
        [[change(terms_of_output(a, row, head)) for row in range(right.shape[1])] for head in range(right.shape[0])]
    )


def stage(a):
    return a.get("masked", a["scaled"])


def shares(scores, right):
    numbers = np.where(np.isinf(scores), 0.0, scores)
    total = numbers.sum(-1, keepdims=True)
    return np.where(total == 0, right, numbers / np.where(total == 0, 1.0, total))  # without dividing by 0


def root(a):
    return np.sqrt(a["query"].shape[-1])


MISSING, SIGN, WORD = "a term missing from the sum", "a term with the wrong sign", "value of the wrong word"
ROOT, SIZE, TIMES = "√d_k forgotten", "divided by d_k instead of √d_k", "multiplied by √d_k"
ONE_TERM = Slip("score", at_one(lambda a, place, _: without_largest(terms_of_score(a, place))), MISSING)
ONE_SIGN = Slip("score", at_one(lambda a, place, _: with_wrong_sign(terms_of_score(a, place))), SIGN)
PLUS_ONE = Slip("score", at_one(lambda a, place, number: number + 1.37))  # a mistake without a name
SCALED = [
    Slip("scaled", lambda a, _: a["score"], ROOT),
    Slip("scaled", lambda a, _: a["score"] / root(a) ** 2, SIZE),
    Slip("scaled", lambda a, _: a["score"] * root(a), TIMES),
]
SOFTMAX = [
    Slip("weight", lambda a, right: shares(stage(a), right), "normalised without the exponential"),
    Slip("weight", lambda a, _: np.exp(stage(a)), "not divided by the sum of the exponentials"),
]
BY_COLUMN = Slip("weight", lambda a, _: softmax(stage(a), axis=-2), "softmax over columns instead of rows")
OUTPUT = [
    Slip("output", in_row(lambda terms: terms.sum(0) - terms[np.abs(terms).sum(1).argmax()]), MISSING),
    Slip("output", lambda a, _: a["weight"] @ np.roll(a["value"], -1, axis=1), WORD),
    Slip("output", lambda a, _: np.ones_like(a["weight"]) @ a["value"], "weights forgotten"),
    Slip("output", lambda a, _: a["score"] @ a["value"], "scores instead of weights"),
]
PROJECTIONS = [
    Slip("query", lambda a, _: a["embeddings"][None] @ a["W_k"], "W_k instead of W_q"),
    Slip("key", lambda a, _: a.get("context", a["embeddings"])[None] @ a["W_q"], "W_q instead of W_k"),
]
SWAPPED = Slip("score", lambda a, _: a["key"] @ a["query"].swapaxes(1, 2), "query and key swapped")
DIGITS = Slip("weight", at_one(lambda a, place, number: number - 0.18))  # without a name
SLIPS: dict[str, list[Slip]] = {
    "table": [
        *PROJECTIONS, ONE_TERM, ONE_SIGN, PLUS_ONE, *SCALED, *SOFTMAX, DIGITS,
        Slip("weighted_value", lambda a, _: a["weight"][..., None] * np.roll(a["value"], -1, axis=1)[:, None], WORD),
    ],
    "matrix": [*PROJECTIONS, SWAPPED, ONE_TERM, PLUS_ONE, *SCALED[:2], *SOFTMAX, BY_COLUMN, *OUTPUT[:2]],
    "scaling": [
        ONE_TERM, ONE_SIGN, PLUS_ONE, *SCALED, *SOFTMAX,
        Slip("scaled", lambda a, _: a["score"] / np.sqrt(3), "divided by the root of the number of words"),
        Slip("unscaled_weight", lambda a, _: softmax(a["score"] / root(a)), "√d_k applied"),
        Slip("unscaled_weight", lambda a, right: shares(a["score"], right), "normalised without the exponential"),
        Slip("weight", lambda a, _: softmax(a["score"]), ROOT),
    ],
    "masks": [
        ONE_TERM, *SCALED[:2], *SOFTMAX[1:], *OUTPUT[:2], PLUS_ONE, SWAPPED,
        Slip("masked", lambda a, _: a["scaled"], "mask ignored"),
        Slip("masked", lambda a, _: a["scaled"] * a["mask"], "masked with 0 instead of −∞"),
        Slip("weight", lambda a, _: softmax(a["scaled"]), "mask ignored"),
        Slip("weight", lambda a, _: softmax(a["scaled"]) * a["mask"], "masked after the softmax"),
    ],
    "heads": [
        ONE_TERM, SWAPPED, PLUS_ONE, *SCALED[:2], *SOFTMAX, *OUTPUT[:2], DIGITS,
        Slip("concatenated", lambda a, _: np.concatenate(list(a["output"][::-1]), axis=-1), "heads in reverse order"),
        Slip(
            "projected",
            at_one(lambda a, at, _: without_largest(a["concatenated"][at[0]] * a["W_O"][:, at[1]])), MISSING,
        ),
    ],
    "cross": [*PROJECTIONS, ONE_TERM, ONE_SIGN, PLUS_ONE, *SCALED, *SOFTMAX, *OUTPUT[:2]],
    "positions": [
        ONE_TERM, PLUS_ONE, *SCALED[:2], *SOFTMAX, BY_COLUMN, *OUTPUT[:2],
        Slip("positioned", lambda a, _: a["embeddings"], "position forgotten"),
        Slip("positioned", lambda a, _: a["embeddings"] - a["positions"], "position subtracted"),
        Slip(
            "positioned", lambda a, _: a["embeddings"] + np.roll(a["positions"], -1, axis=0),
            "position of the next word",
        ),
    ],
    "gradient": [
        ONE_TERM, PLUS_ONE, *SCALED[:2], *SOFTMAX,
        Slip("mean_gradient", lambda a, _: a["weight_gradient"].mean(-1), "mean without the weights"),
        Slip("mean_gradient", lambda a, _: a["weight_gradient"].sum(-1), "sum without the weights"),
        Slip("scaled_gradient", lambda a, _: a["weight"] * a["weight_gradient"], "mean not subtracted"),
        Slip("scaled_gradient", lambda a, _: a["weight_gradient"] - a["mean_gradient"][..., None], "weight forgotten"),
        Slip(
            "scaled_gradient", lambda a, _: a["weight"] * (1 - a["weight"]) * a["weight_gradient"],
            "only the Jacobian's diagonal",
        ),
        Slip("score_gradient", lambda a, _: a["scaled_gradient"], ROOT),
    ],
}  # fmt: skip

"""Exercises in attention by hand: for each student other small whole numbers, a sheet with empty cells, and a key.

`regard.teaching.grading` grades the answers, `regard.output.exercise_sheets` writes the sheets as files.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from regard import input_file, validate
from regard.errors import OptionError, shown
from regard.tables import printed_number
from regard.teaching.hand_check.calculation import solve
from regard.teaching.hand_check.document import Document
from regard.teaching.hand_check.formats import csv_rows, read_mapping
from regard.teaching.hand_check.inputs import PRODUCTS, Indices, Inputs, Numbers, Product, inputs_of, parse_product
from regard.teaching.hand_check.notation import AXES, HEADLESS, PER_KEY, PROJECTIONS, WITH_HEAD

SENTENCES = (("The", "cat", "sat"), ("we", "like", "tea"), ("birds", "can", "fly"), ("Anna", "reads", "books"))
PAIRS = ((("le", "chat"), ("the", "cat", "sleeps")), (("wir", "lesen"), ("we", "read", "books")))
MOST_STUDENTS = 1000
MOST_ATTEMPTS = 5000
LARGEST_SCORE = 12.0
WIDEST_SPREAD = 4.0  # of the scaled scores in a row: the smallest weight is about 0.01
DECIMALS = 2  # of a solution
# How sheets head the steps, which `regard check` knows in other languages too, and the formula above them.
SHEETS = {
    "positioned": ("x + position", "x + position, added component by component"),
    "query": ("q", ""),
    "key": ("k", ""),
    "value": ("v", ""),
    "score": ("score", "score = q · k"),
    "unscaled_weight": ("softmax(score)", "softmax of the scores as they are, without √d_k"),
    "scaled": ("score/√d_k", "score / √d_k"),
    "masked": ("masked", "the scaled scores, −∞ where the mask is 0"),
    "weight": ("softmax", "softmax over each row"),
    "weighted_value": ("softmax × v", ""),
    "output": ("sum", "sum of softmax × v over the keys"),
    "weight_gradient": ("dL/dw", "dL/dw = dL/dz · v, for each key"),
    "mean_gradient": ("mean", "mean = Σ softmax × dL/dw over the keys"),
    "scaled_gradient": ("dL/ds", "dL/ds = softmax × (dL/dw − mean)"),
    "score_gradient": ("dL/dscore", "dL/dscore = dL/ds / √d_k"),
    "concatenated": ("concatenated", "the sums of all heads, side by side"),
    "projected": ("after W_O", "concatenated · W_O"),
}
HEADINGS = {step: heading for step, (heading, _) in SHEETS.items()}


# Topics


@dataclass(frozen=True)
class Topic:
    """What is asked, and how the numbers are drawn: notes as `regard check` reads them, with W as in q = x · W_q."""

    title: str
    steps: tuple[str, ...]
    draw: Callable[[Random], dict[str, Any]]
    has_one_query: bool = False


def _rows(random: Random, rows: int, columns: int, numbers: Sequence[int]) -> list[list[int]]:
    return [[random.choice(numbers) for _ in range(columns)] for _ in range(rows)]


def _matrices(random: Random, width: int = 3, value_dim: int = 2) -> dict[str, Any]:
    sizes = {"W_q": 4, "W_k": 4, "W_v": value_dim}  # √4 = 2
    return {name: _rows(random, width, size, (-1, 0, 0, 1, 1)) for name, size in sizes.items()}


def _embedded(random: Random) -> dict[str, Any]:
    words = random.choice(SENTENCES)
    return {"words": list(words), "embeddings": _rows(random, 3, 3, (-1, 0, 1, 2)), **_matrices(random)}


def _crossed(random: Random) -> dict[str, Any]:
    words, context_words = random.choice(PAIRS)
    vectors = {"embeddings": _rows(random, 2, 3, (-1, 0, 1, 2)), "context": _rows(random, 3, 3, (-1, 0, 1, 2))}
    return {"words": list(words), "context words": list(context_words), **vectors, **_matrices(random)}


def _parts(random: Random, head_dim: int = 4, heads: int = 1, words: int = 3) -> dict[str, Any]:
    """q, k and v as given, for each head."""
    names = list(random.choice(SENTENCES)[:words])
    sizes = {"q": head_dim, "k": head_dim, "v": 2}
    notes: dict[str, Any] = {"words": names, "context words": names, "heads": heads}
    for name, size in sizes.items():
        notes[name] = [_rows(random, words, size, (-1, 0, 1, 2)) for _ in range(heads)]
    return notes


def _positioned(random: Random) -> dict[str, Any]:
    vectors = {"embeddings": _rows(random, 3, 4, (-1, 0, 1)), "positions": _rows(random, 3, 4, (0, 1))}
    return {"words": list(random.choice(SENTENCES)), **vectors}


TOPICS = {
    "table": Topic(
        "One query's table",
        ("query", "key", "value", "score", "scaled", "weight", "weighted_value", "output"),
        _embedded,
        has_one_query=True,
    ),
    "matrix": Topic(
        "The whole matrix", ("query", "key", "value", "score", "scaled", "weight", "output"), _embedded
    ),
    "scaling": Topic(
        "Why √d_k", ("score", "unscaled_weight", "scaled", "weight"), lambda random: _parts(random, 9),
        has_one_query=True,
    ),
    "masks": Topic(
        "A causal mask", ("score", "scaled", "masked", "weight", "output"),
        lambda random: _parts(random) | {"mask": [[1, 0, 0], [1, 1, 0], [1, 1, 1]]},
    ),
    "heads": Topic(
        "Two heads and W_O", ("score", "scaled", "weight", "output", "concatenated", "projected"),
        lambda random: _parts(random, heads=2, words=2) | {"W_O": _rows(random, 4, 2, (-1, 0, 1))},
    ),
    "cross": Topic("Cross-attention", ("query", "key", "value", "score", "scaled", "weight", "output"), _crossed),
    "positions": Topic("Positions added", ("positioned", "score", "scaled", "weight", "output"), _positioned),
    "gradient": Topic(
        "The gradient of the softmax",
        ("score", "scaled", "weight", "weight_gradient", "mean_gradient", "scaled_gradient", "score_gradient"),
        lambda random: _parts(random) | {"dL/dz": _rows(random, 3, 2, (-1, 0, 1, 2))},
        has_one_query=True,
    ),
}  # fmt: skip


# Tasks


@dataclass(frozen=True)
class Box:
    """A cell of a sheet for one number."""

    step: str
    index: Indices


@dataclass(frozen=True)
class Block:
    """A table of a sheet: what is given, or boxes to fill in."""

    caption: str
    heading: tuple[str, ...]
    rows: tuple[tuple[str | Box, ...], ...]
    is_given: bool = False


@dataclass(frozen=True)
class Sheet:
    """What a student gets; filled in, `answers` holds what is in each box."""

    title: str
    student: str
    blocks: tuple[Block, ...]
    answers: Mapping[Box, str] = field(default_factory=dict)

    def text(self, cell: str | Box) -> str:
        """The content of a cell; nothing in an empty box."""
        return cell if isinstance(cell, str) else self.answers.get(cell, "")


@dataclass(frozen=True, eq=False)
class ExerciseTask:
    """The exercise of one student."""

    topic: str
    student: str
    file: str  # name of the student's files, without ending
    notes: Mapping[str, Any]  # what is given, as `regard check` reads it
    query: int | None = None  # the only one that is asked for

    @property
    def steps(self) -> tuple[str, ...]:
        return TOPICS[self.topic].steps

    @cached_property
    def inputs(self) -> Inputs:
        """What is given."""
        return inputs_of(read_mapping(self.notes, Document(f"The task of {self.student}")))

    @cached_property
    def solution(self) -> dict[str, Numbers]:
        """All steps, exactly; a head axis in front of those that have one."""
        return solve(self.inputs)

    def boxes(self, step: str) -> list[Box]:
        """Every number of a step that is asked for."""
        axes = WITH_HEAD[step]
        return [
            Box(step, index)
            for index in np.ndindex(self.solution[step].shape)
            if self.query is None or "query" not in axes or index[axes.index("query")] == self.query
        ]

    def may_be_blank(self, box: Box) -> bool:
        """Whether a number is needless: of a key that the query may not see, all but the masked score."""
        visible = self.inputs.visible()
        is_pair = AXES[box.step][:2] == ("query", "key")
        return is_pair and visible is not None and box.step != "masked" and not visible[box.index[1:3]]

    def number(self, box: Box) -> float:
        return float(self.solution[box.step][box.index])

    def sheet(self, *, solved: bool = False) -> Sheet:
        """The sheet, or its solution."""
        topic = TOPICS[self.topic]
        title = f"{topic.title}: solution" if solved else topic.title
        boxes = [box for step in self.steps for box in self.boxes(step)] if solved else []
        blocks = (*self._given(), *self._asked())
        return Sheet(title, self.student, blocks, {box: in_digits(self.number(box)) for box in boxes})

    def _given(self) -> Iterator[Block]:
        inputs, labels = self.inputs, self.inputs.labels
        settings = [("student", self.student), ("heads", str(inputs.heads))]
        if inputs.has_matrices:
            settings.append(("product", inputs.product))
        yield Block("", ("Setting", "value"), tuple(settings), is_given=True)
        for name, axis, vectors in (
            ("x", "query", inputs.x),
            ("context", "key", inputs.context),
            ("position", "query", inputs.position),
        ):
            if vectors is not None:
                yield _matrix_block(f"Given: {name}", name, labels[axis], vectors)
        for name in inputs.matrices if inputs.has_matrices else ():
            matrix = inputs.in_convention(inputs.matrices[name])
            rows = [str(row + 1) for row in range(len(matrix))]
            yield _matrix_block(f"Given: {name}, {len(matrix)} × {matrix.shape[1]}", name, rows, matrix)
        query_rows = slice(None) if self.query is None else slice(self.query, self.query + 1)
        for step, part in inputs.parts.items():
            axis, rows_of_step = ("query", query_rows) if step == "query" else ("key", slice(None))
            for head, vectors in enumerate(part):
                words, name = labels[axis][rows_of_step], self._name(step, head)
                yield _matrix_block(f"Given: {step}", name, words, vectors[rows_of_step])
        if inputs.output_gradient is not None:
            caption = "Given: the gradient of the loss with respect to the sum z"
            yield _matrix_block(caption, "dL/dz", labels["query"][query_rows], inputs.output_gradient[0][query_rows])
        visible = inputs.visible()
        if visible is not None:
            caption = "Given: the mask, 1 where a query may see a key"
            yield _matrix_block(caption, "mask", labels["query"], visible, labels["key"])

    def _name(self, step: str, head: int) -> str:
        return HEADINGS[step] + (f", head {head}" if self.inputs.heads > 1 and step not in HEADLESS else "")

    def _asked(self) -> Iterator[Block]:
        in_table = [step for step in self.steps if AXES[step][:2] == ("query", "key")] if self.query is not None else []
        for step in self.steps:
            if in_table and step == in_table[0]:
                yield self._table(in_table)
            if step in in_table:
                continue
            by_head: dict[int, dict[int, list[Box]]] = {}
            for box in self.boxes(step):
                head, row = (0, box.index[0]) if step in HEADLESS else box.index[:2]
                by_head.setdefault(head, {}).setdefault(row, []).append(box)
            for head, by_row in by_head.items():
                words = self.inputs.labels[AXES[step][0]]
                columns = [str(column + 1) for column in range(len(next(iter(by_row.values()))))]
                heading = (self._name(step, head), *(self.inputs.labels["key"] if step in PER_KEY else columns))
                rows: Any = tuple((words[row], *boxes) for row, boxes in by_row.items())
                yield Block(self._formula(step), heading, rows)

    def _table(self, steps: Sequence[str]) -> Block:
        """The steps of one query, a row per key."""
        heading = ["Word"]
        rows: list[list[str | Box]] = [[word] for word in self.inputs.labels["key"]]
        for step in steps:
            size = self.solution[step].shape[-1]
            components = [f"{HEADINGS[step]}_{at + 1}" for at in range(size)]
            heading += components if step == "weighted_value" else [HEADINGS[step]]
            for box in self.boxes(step):
                rows[box.index[2]].append(box)
        return Block(f"Query {self.inputs.labels['query'][self.query or 0]}", tuple(heading), tuple(map(tuple, rows)))

    def _formula(self, step: str) -> str:
        if step not in PROJECTIONS:
            if step == "score" and self.inputs.position is not None:
                return "score = q · k, with q = k = v = x + position"
            return SHEETS[step][1] + ("ᵀ" if step == "projected" and self.inputs.product == PRODUCTS[1] else "")
        source = "context" if step != "query" and self.inputs.context is not None else "x"
        mark = "ᵀ" if self.inputs.product == PRODUCTS[1] else ""
        return f"{HEADINGS[step]} = {source} · {PROJECTIONS[step]}{mark}"


def in_digits(number: float, decimals: int = DECIMALS) -> str:
    """A whole number as it is, any other with so many decimals."""
    is_whole = np.isinf(number) or abs(number - round(number)) < 1e-12
    return printed_number(number, 0 if is_whole else decimals)


def _matrix_block(
    caption: str, name: str, labels: Sequence[str], numbers: Any, columns: Sequence[str] | None = None
) -> Block:
    heading = (name, *(columns or (str(at + 1) for at in range(numbers.shape[1]))))
    cells = [[printed_number(number, 0) for number in row] for row in numbers]
    rows = tuple((label, *row) for label, row in zip(labels, cells, strict=True))
    return Block(caption, heading, rows, is_given=True)


# Exercises for all students


@dataclass(frozen=True, eq=False)
class Exercises:
    """The tasks of all students; `key` is what the task file holds."""

    topic: str
    tasks: tuple[ExerciseTask, ...]
    points: Mapping[str, float]  # of each step
    product: Product = PRODUCTS[0]

    def key(self) -> dict[str, Any]:
        """What is given, what is asked for, and the solution of every student."""
        students = [
            {
                "name": task.student,
                "file": task.file,
                "query": task.query,
                "notes": dict(task.notes),
                "solution": {step: _plain(task.solution[step]) for step in task.steps},
            }
            for task in self.tasks
        ]
        return {"exercise": self.topic, "product": self.product, "points": dict(self.points), "students": students}


def _plain(array: Numbers) -> Any:
    """Numbers for a JSON file, which has no −∞."""
    if array.ndim:
        return [_plain(part) for part in array]
    return "−∞" if np.isneginf(array) else round(float(array), 6) + 0.0


def exercises(topic: str, students: Sequence[str] | int, *, seed: int = 0, product: str = PRODUCTS[0]) -> Exercises:
    """An exercise for each student, all with different solutions.

    topic     table, matrix, scaling, masks, heads, cross, positions or gradient
    students  their names, or how many
    product   "x W", or "x W^T": how W is written

    >>> exercise = exercises("table", ["Ada", "Grace"])
    >>> [task.file for task in exercise.tasks], exercise.tasks[0].solution["score"].shape
    (['ada', 'grace'], (1, 3, 3))
    """
    validate.choice("topic", topic, TOPICS)
    product = parse_product(product)
    if isinstance(students, int):
        count = validate.integer("students", students, 1, MOST_STUDENTS)
        students = [f"student-{number:0{len(str(count))}}" for number in range(1, count + 1)]
    names = [" ".join(name.split()) for name in students]
    if not 1 <= len(names) <= MOST_STUDENTS or not all(names):
        raise OptionError(f"`students` holds {len(names)} names; expected 1 to {MOST_STUDENTS}, none of them empty.")
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"`students` holds {shown(name)} twice.\nAdd an initial or a number to tell them apart.")
    files: list[str] = []
    tasks: list[ExerciseTask] = []
    solutions: set[bytes] = set()
    for name in names:
        files.append(_file_name(name, files))
        tasks.append(_draw(topic, name, files[-1], seed, product, solutions))
    return Exercises(topic, tuple(tasks), dict.fromkeys(TOPICS[topic].steps, 1.0), product)


def _file_name(student: str, taken: Sequence[str]) -> str:
    letters = unicodedata.normalize("NFKD", student.casefold()).encode("ascii", "ignore").decode()
    name = re.sub(r"[^a-z0-9]+", "-", letters).strip("-")[:60] or "student"
    return next(file for file in (name, *(f"{name}-{at}" for at in range(2, MOST_STUDENTS + 2))) if file not in taken)


def _draw(topic: str, student: str, file: str, seed: int, product: str, solutions: set[bytes]) -> ExerciseTask:
    """A task whose solution no other student has, and whose numbers come out well."""
    chosen = TOPICS[topic]
    for attempt in range(MOST_ATTEMPTS):
        random = Random(f"{seed} {topic} {student} {attempt}")
        notes = chosen.draw(random)
        if product == PRODUCTS[1]:
            matrices = {name: np.transpose(rows).tolist() for name, rows in notes.items() if name.startswith("W")}
            notes |= matrices | ({"product": product} if matrices else {})
        query = random.randrange(len(notes["words"])) if chosen.has_one_query else None
        task = ExerciseTask(topic, student, file, notes, query)
        final = (task.solution[chosen.steps[-1]].round(DECIMALS) + 0.0).tobytes()
        if final not in solutions and _comes_out_well(task):
            solutions.add(final)
            return task
    raise OptionError(f"No numbers left for {shown(student)}: choose another seed, or fewer students.")


def _comes_out_well(task: ExerciseTask) -> bool:
    """Weights that differ and are not tiny, matrices of full rank, vectors that differ; whole scores / √9."""
    inputs, rows = task.inputs, slice(None) if task.query is None else [task.query]
    scores, scaled, weights = (task.solution[step][:, rows] for step in ("score", "scaled", "weight"))
    spread = np.ptp(scaled, axis=-1)
    if not (spread.min() > 0 and spread.max() <= WIDEST_SPREAD) or np.abs(scores).max() > LARGEST_SCORE:
        return False
    if np.ptp(weights) < 0.1 or (task.topic == "scaling" and np.any(scores % 3)):
        return False
    matrices = [*inputs.matrices.values(), *inputs.parts.get("value", ())]
    if any(np.linalg.matrix_rank(matrix) < min(matrix.shape) for matrix in matrices):
        return False
    vectors = [*task.solution.get("value", ()), *inputs.parts.get("value", ())]
    vectors += [] if inputs.position is None else [inputs.position]
    return all(len(np.unique(rows, axis=0)) == len(rows) for rows in vectors)


def read_students(path: str | Path) -> list[str]:
    """The names in a CSV file: the column called student or name, or the first one."""
    text = input_file.read_text(path, fix=" In Excel, save it as CSV UTF-8.")
    if "\0" in text:
        raise OptionError(f"{str(path)!r} is not CSV text in UTF-8; in Excel, save it as CSV UTF-8.")
    rows = [cells for _, row in csv_rows(text, str(path)) if any(cells := [cell.strip() for cell in row])]
    if not rows:
        raise OptionError(f"{str(path)!r} holds no name; expected a CSV file with a student per line.")
    heading = [cell.casefold() for cell in rows[0]]
    column = next((heading.index(name) for name in ("student", "name") if name in heading), None)
    names = [row[column or 0] for row in rows[0 if column is None else 1 :] if len(row) > (column or 0)]
    return [name for name in names if name]


def read_key(path: str | Path) -> Exercises:
    name = Path(path).name
    written = input_file.read(path)
    try:
        content = json.loads(written)
        topic, product, points = content["exercise"], content["product"], content["points"]
        validate.choice("exercise", topic, TOPICS)
        tasks = tuple(
            ExerciseTask(topic, str(student["name"]), str(student["file"]), student["notes"], student["query"])
            for student in content["students"]
        )
        points = {step: float(points[step]) for step in TOPICS[topic].steps}
    except (ValueError, KeyError, TypeError, RecursionError):
        raise OptionError(f"{name} is not a task file; `regard exercise` writes one as key.json.") from None
    return Exercises(topic, tasks, points, parse_product(product))

"""Answers to an exercise, graded: points per step, the first error by name, and nothing punished twice."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard import validate
from regard.errors import OptionError, RegardError, count
from regard.tables import Column, Table, guarded_cell
from regard.teaching.exercises import HEADINGS, Box, Exercises, ExerciseTask
from regard.teaching.hand_check.check import DECIMALS, IN_WORDS, Judge, Kind, Verdict
from regard.teaching.hand_check.claims import claims_of
from regard.teaching.hand_check.document import Document
from regard.teaching.hand_check.formats import read
from regard.teaching.hand_check.inputs import name_heads
from regard.teaching.hand_check.notation import HEADLESS, MOST_DIGITS

CREDIT: Mapping[Kind, float] = {"right": 1.0, "rounded": 1.0, "carried on": 1.0, "follows": 1.0, "cut": 0.5}
MOST_REMARKS = 12
NO_ANSWER = "No answer was handed in."


@dataclass(frozen=True)
class StepGrade:
    step: str
    points: float
    most: float
    counts: Mapping[str, int]  # of each kind of verdict


@dataclass(frozen=True)
class Grade:
    """The result of one student."""

    student: str
    file: str  # name of the feedback file, without ending
    source: str  # the file that was graded; empty if there was none
    steps: tuple[StepGrade, ...]
    errors: tuple[Verdict, ...]  # in the order of the calculation, without those that follow from an earlier one
    remarks: tuple[str, ...] = ()

    @property
    def points(self) -> float:
        return round(sum(step.points for step in self.steps), 2)

    @property
    def most(self) -> float:
        return round(sum(step.most for step in self.steps), 2)

    @property
    def first_error(self) -> str:
        """The first wrong number, with its slip; empty without one."""
        for verdict in self.errors:
            if verdict.kind == "wrong":
                return f"{verdict.what}: {verdict.given} is wrong ({verdict.because})"
        return ""

    def feedback(self) -> str:
        """What the student reads, in Markdown."""
        lines = [f"# {self.student}: {_short(self.points)} of {_short(self.most)} points", ""]
        if self.first_error:
            lines += [f"First error: {self.first_error}.", ""]
        lines += ["| Step | Points | Numbers |", "|---|---|---|"]
        for grade in self.steps:
            numbers = ", ".join(f"{number} {IN_WORDS.get(kind, kind)}" for kind, number in grade.counts.items())  # type: ignore[call-overload]
            lines.append(f"| {HEADINGS[grade.step]} | {_short(grade.points)} of {_short(grade.most)} | {numbers} |")
        if any(grade.counts.get("follows") for grade in self.steps):
            lines += ["", "Numbers that follow correctly from a wrong one before them have full points."]
        lines += [""] + [
            f"- {verdict.what}: {verdict.given or 'nothing'}: {verdict.kind}; {verdict.because}"
            for verdict in self.errors
        ]
        lines += [f"- {remark}" for remark in self.remarks]
        return "\n".join(lines).rstrip() + "\n"

    def as_dict(self) -> dict[str, Any]:
        return {
            "student": self.student,
            "file": self.source,
            "points": self.points,
            "of": self.most,
            "first_error": self.first_error,
            "slips": list(dict.fromkeys(verdict.slip for verdict in self.errors if verdict.slip)),
            "steps": [
                {"step": step.step, "points": step.points, "of": step.most, "numbers": dict(step.counts)}
                for step in self.steps
            ],
            "remarks": list(self.remarks),
        }


def _short(points: float) -> str:
    return f"{points:g}"


def grade(exercises: Exercises, answers: Iterable[str | Path], *, decimals: int = DECIMALS) -> list[Grade]:
    """A grade per student, in the order of the task file; a student without an answer has no points.

    A file belongs to the student whose name it has, or who is named in it.
    """
    decimals = validate.integer("decimals", decimals, 0, MOST_DIGITS)
    by_file: dict[str, ExerciseTask] = {task.file: task for task in exercises.tasks}
    by_name = {task.student.casefold(): task for task in exercises.tasks}
    grades: dict[str, Grade] = {}
    for path in map(Path, answers):
        named = by_file.get(path.stem.casefold())
        document = _read(path, named)
        setting = document.settings.get("student")
        writer = by_name.get(" ".join(str(setting).split()).casefold()) if setting is not None else None
        task = named or writer
        if task is None:
            names = "names no student of the task file" if setting is None else f"names {str(setting)[:60]!r}"
            raise OptionError(
                f"{path.name} {names}.\nCall the file as the sheet was called, as in {exercises.tasks[0].file}.xlsx."
            )
        if task.file in grades:
            raise OptionError(f"{path.name} and {grades[task.file].source} are both of {task.student}.")
        if named is None:
            document = _read(path, task)
        grades[task.file] = grade_document(exercises, task, document, decimals)
        if writer is not None and writer is not task:
            remark = f"The sheet is that of {writer.student}, with other numbers: no points."
            graded = grades[task.file]
            steps = tuple(replace(step, points=0.0) for step in graded.steps)
            grades[task.file] = replace(graded, steps=steps, remarks=(remark, *graded.remarks))
    for task in exercises.tasks:
        if task.file not in grades:
            nothing = Document("", remarks=[NO_ANSWER])
            grades[task.file] = grade_document(exercises, task, nothing, decimals)
    return [grades[task.file] for task in exercises.tasks]


def _read(path: Path, task: ExerciseTask | None) -> Document:
    words = (*task.inputs.words, *task.inputs.key_words) if task else ()
    try:
        return read(path, words, lenient=True)
    except RegardError as problem:
        if not path.is_file():
            raise
        return Document(path.name, remarks=[str(problem).partition("\n")[0]])


def grade_document(exercises: Exercises, task: ExerciseTask, document: Document, decimals: int = DECIMALS) -> Grade:
    """The grade of what was read from one file. Only its answers count: what is given is the task's."""
    inputs = task.inputs
    remarks = document.remarks = document.remarks if document.remarks is not None else []
    document.cells = [cell for cell in document.cells if cell.step in task.steps]
    misfits = name_heads(document, inputs)
    claims = claims_of(document, inputs, decimals)
    claims.misfits = [*misfits, *claims.misfits]
    verdicts = Judge(claims).verdicts()
    by_box: dict[Box, list[Verdict]] = {}
    for verdict in verdicts:
        index = verdict.place if verdict.step in HEADLESS else (verdict.head, *verdict.place)
        by_box.setdefault(Box(verdict.step, index), []).append(verdict)
    steps, errors = [], []
    for step in task.steps:
        boxes = task.boxes(step)
        credit = CREDIT if _varies(task, boxes, by_box) else {**CREDIT, "follows": 0.0}
        kinds: dict[str, int] = {}
        earned, needed = 0.0, 0
        for box in boxes:
            in_box = [verdict for verdict in by_box.get(box, []) if verdict.kind != "missing"]
            if not in_box and task.may_be_blank(box):
                continue
            needed += 1
            worst = min(in_box, key=lambda verdict: credit.get(verdict.kind, 0.0)) if in_box else None
            kind: Kind = "missing" if worst is None else worst.kind
            kinds[kind] = kinds.get(kind, 0) + 1
            earned += credit.get(kind, 0.0)
            if len({verdict.given for verdict in in_box}) > 1:
                remarks.append(f"{in_box[0].what} is given more than once; the worst answer counts.")
            if worst is not None and kind not in ("right", "rounded", "carried on", "follows"):
                errors.append(worst)
        most = exercises.points[step]
        steps.append(StepGrade(step, round(most * earned / needed, 4) if needed else most, most, kinds))
    remarks += [f"{misfit.step}: {misfit.because}." for misfit in claims.misfits]
    extra = len(remarks) - MOST_REMARKS
    shortened = [*remarks[:MOST_REMARKS], *([f"… and {count(extra, 'more remark')}."] if extra > 0 else [])]
    missing = {step.step: step.counts["missing"] for step in steps if "missing" in step.counts}
    if missing:
        shortened.append(
            "Missing: " + ", ".join(f"{number} in {HEADINGS[step]}" for step, number in missing.items()) + "."
        )
    return Grade(task.student, task.file, document.source, tuple(steps), tuple(errors), tuple(shortened))


def _varies(task: ExerciseTask, boxes: Sequence[Box], by_box: Mapping[Box, Sequence[Verdict]]) -> bool:
    """Whether the answers of a step differ where the right ones do: a column of 0 follows from 0, but shows nothing."""
    answers = {verdict.given for box in boxes for verdict in by_box.get(box, ())}
    return len(answers) != 1 or len({task.number(box) for box in boxes}) == 1


def grades_csv(grades: Sequence[Grade]) -> str:
    """One line per student: points in all, and of each step."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    steps = [step.step for step in grades[0].steps] if grades else []
    writer.writerow(["student", "file", "points", "of", *(HEADINGS[step] for step in steps), "first error"])
    for result in grades:
        cells = [result.student, result.source, result.points, result.most, *(step.points for step in result.steps)]
        writer.writerow([guarded_cell(str(cell)) for cell in (*cells, result.first_error)])
    return text.getvalue()


def grades_table(grades: Sequence[Grade]) -> Table:
    """A row per student: points and the first error."""
    columns = Column("Student", "word"), Column("Points"), Column("First error", "text")
    rows = tuple(
        (
            result.student,
            f"{_short(result.points)} of {_short(result.most)}",
            result.first_error.partition(" (")[0] if result.source else NO_ANSWER.rstrip("."),
        )
        for result in grades
    )
    return Table("Grades", columns, rows)

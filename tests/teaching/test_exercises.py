"""Exercises and their grades, with a simulated student whose arithmetic is NumPy's alone."""

import csv
import io
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from regard.errors import OptionError
from regard.output.exercise_sheets import WRITERS, to_markdown, to_xlsx, write_exercises, write_grades
from regard.teaching.exercises import HEADINGS, TOPICS, Box, ExerciseTask, Sheet, exercises, read_key, read_students
from regard.teaching.grading import grade
from regard.teaching.hand_check.notation import AXES, HEADLESS, step_named

from .simulated_student import SLIPS, fill_in, solve

ALL_RIGHT = 25  # sheets per topic: 200 in all
WITH_SLIPS = 3
OTHER_LANGUAGES = {
    "German": "Anfrage|Schlüssel|Wert|Punktzahl|Gewicht|Ausgabe|Wort|Abfrage",
    "French": "Requête|Clé|Valeur|Score|Poids|Sortie|Mot|Requête",
    "Spanish": "Consulta|Clave|Valor|Puntuación|Peso|Salida|Palabra|Consulta",
}


def to_csv(sheet: Sheet, names: dict[str, str] | None = None) -> str:
    """As a spreadsheet program saves it in German: semicolons, decimal commas."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=";")
    for block in sheet.blocks:
        writer.writerows([[block.caption]] if block.caption else [])
        writer.writerow([(names or {}).get(name, name) for name in block.heading])
        for row in block.rows:
            writer.writerow([sheet.text(cell).replace(".", ",") for cell in row])
        writer.writerow([])
    return text.getvalue()


def to_json(sheet: Sheet, task: ExerciseTask) -> str:
    """Nested lists, with the words of queries and keys as names."""
    steps: dict[str, Any] = {"student": sheet.student}
    for box, text in sheet.answers.items():
        names = [task.inputs.labels[axis][at] if axis in task.inputs.labels else at for axis, at in labelled(box)]
        names = [f"head {box.index[0]}", *names] if box.step not in HEADLESS and task.inputs.heads > 1 else names
        inner = steps.setdefault(box.step.replace("_", " "), {})
        for name in names[:-1]:
            inner = inner.setdefault(name, {})
        inner[names[-1]] = text

    def nested(part):
        if not isinstance(part, dict):
            return part
        return [nested(part[at]) for at in sorted(part)] if 0 in part else {k: nested(v) for k, v in part.items()}

    return json.dumps(nested(steps))


def labelled(box):
    return zip(AXES[box.step], box.index if box.step in HEADLESS else box.index[1:], strict=True)


FORMATS: dict[str, Callable[..., str | bytes]] = {"md": to_markdown, "xlsx": to_xlsx, "csv": to_csv, "json": to_json}


def hand_in(folder, task, sheet, kind="md"):
    path = folder / f"{task.file}.{kind}"
    content = to_json(sheet, task) if kind == "json" else FORMATS[kind](sheet)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def grade_one(made, task, sheet, folder, kind="md", **options):
    grades = grade(made, [hand_in(folder, task, sheet, kind)], **options)
    return next(one for one in grades if one.file == task.file)


def box_of(verdict):
    return Box(verdict.step, verdict.place if verdict.step in HEADLESS else (verdict.head, *verdict.place))


# Sheets


def test_every_heading_is_read_as_its_step():
    assert {step: step_named(name) for step, name in HEADINGS.items()} == {step: step for step in HEADINGS}


@pytest.mark.parametrize("topic", TOPICS)
def test_students_have_different_small_whole_numbers(topic):
    made = exercises(topic, 12, seed=3)
    solutions = {json.dumps(entry["solution"]) for entry in made.key()["students"]}
    assert len(solutions) == 12
    for task in made.tasks:
        given = [
            array
            for array in (task.inputs.x, *task.inputs.matrices.values(), *task.inputs.parts.values())
            if array is not None
        ]
        assert all(np.array_equal(array, array.round()) and np.abs(array).max() <= 2 for array in given)


def test_the_same_seed_gives_the_same_exercises():
    assert exercises("heads", 3, seed=5).key() == exercises("heads", 3, seed=5).key()
    assert exercises("heads", 3, seed=5).key() != exercises("heads", 3, seed=6).key()


def test_files_of_exercises(tmp_path):
    made = exercises("cross", ["Ada Lovelace", "Émile", "=1+1"])
    write_exercises(made, tmp_path)
    for name in ("ada-lovelace", "emile", "1-1"):
        for kind in WRITERS:
            assert (tmp_path / f"{name}.{kind}").stat().st_size and (tmp_path / "solutions" / f"{name}.{kind}").exists()
    assert read_key(tmp_path / "key.json").key() == made.key()
    assert [one.points == one.most for one in grade(made, sorted(tmp_path.glob("solutions/*.xlsx")))] == [True] * 3


def test_students_come_from_a_column_or_from_lines(tmp_path):
    path = tmp_path / "list.csv"
    for text, names in (
        ("id;name\n1;Ada\n2;Grace Hopper\n", ["Ada", "Grace Hopper"]),
        ("Ada\n\nGrace\n", ["Ada", "Grace"]),
    ):
        path.write_text(text)
        assert read_students(path) == names
    with pytest.raises(OptionError, match="twice"):
        exercises("table", ["Ada", "Ada"])


@pytest.mark.parametrize("content", ["José\nAna\n".encode("latin-1"), b"Ana\x00\n", b"PK\x03\x04\xff"])
def test_a_list_of_students_that_is_no_utf_8_text_is_refused(tmp_path, content):
    path = tmp_path / "list.csv"
    path.write_bytes(content)
    with pytest.raises(OptionError, match=r"list\.csv' is not (CSV|UTF-8) text.*Excel"):
        read_students(path)


@pytest.mark.parametrize("topic", ["table", "heads", "cross"])
def test_the_other_convention_writes_w_transposed_and_asks_for_the_same(tmp_path, topic):
    usual, other = exercises(topic, 2), exercises(topic, 2, product="x W^T")
    for one, two in zip(usual.tasks, other.tasks, strict=True):
        for name, matrix in one.inputs.matrices.items():
            assert np.array_equal(np.array(two.notes[name]), matrix.T)
        sheet = fill_in(two, solve(two))
        assert "ᵀ" in to_markdown(sheet) and "ᵀ" not in to_markdown(one.sheet())
        result = grade_one(other, two, sheet, tmp_path)
        assert result.points == result.most


# Careful students


@pytest.mark.parametrize("topic", TOPICS)
def test_a_careful_student_has_all_points(tmp_path, topic):
    made = exercises(topic, ALL_RIGHT)
    kinds = list(FORMATS)
    paths = []
    for at, task in enumerate(made.tasks):
        answers = solve(task, decimals=2 + at % 2, carries=at % 4 > 1)
        paths.append(hand_in(tmp_path, task, fill_in(task, answers), kinds[at % len(kinds)]))
    assert [one.feedback() for one in grade(made, paths) if one.points < one.most] == []


@pytest.mark.parametrize("language", OTHER_LANGUAGES)
def test_headings_of_other_languages(tmp_path, language):
    made = exercises("table", 1)
    (task,) = made.tasks
    *names, query = OTHER_LANGUAGES[language].split("|")
    headings = dict(zip(("q", "k", "v", "score", "softmax", "sum", "Word"), names, strict=True))
    path = tmp_path / f"{task.file}.csv"
    path.write_text(to_csv(fill_in(task, solve(task)), headings).replace("Query ", f"{query} "), encoding="utf-8")
    assert grade(made, [path])[0].points == 8


def test_plain_notes(tmp_path):
    made = exercises("scaling", 1)
    (task,) = made.tasks
    assert task.query is not None
    query, keys = task.inputs.words[task.query], task.inputs.key_words
    names = {"score": "Score", "unscaled_weight": "softmax(score)", "scaled": "scaled", "weight": "weight"}
    lines = [
        f"{names[box.step]}(Q_{query}, K_{keys[box.index[2]]}) = {text}"
        for box, text in solve(task).items()
        if box.step != "unscaled_weight"
    ]
    path = tmp_path / f"{task.file}.txt"
    path.write_text("\n".join(lines))
    (result,) = grade(made, [path])
    assert result.points == 3 and "3 in softmax(score)" in result.feedback()


# Slips


@pytest.mark.parametrize("topic", TOPICS)
def test_planted_slips_are_located_and_named(tmp_path, topic):
    """Located ≥ 95%, named ≥ 75% of all slips; no cell that is right is called wrong."""
    counts: Counter[str] = Counter()
    made, calledwrong = exercises(topic, WITH_SLIPS, seed=1), []
    assert len(SLIPS[topic]) == 12
    for task in made.tasks:
        for at, slip in enumerate(SLIPS[topic]):
            carries = at % 2 == 1
            answers, right = solve(task, slip=slip, carries=carries), solve(task, carries=carries)
            changed = {box for box in answers if box.step == slip.step and answers[box] != right[box]}
            if not changed:  # the slip makes no difference for these numbers
                continue
            result = grade_one(made, task, fill_in(task, answers), tmp_path)
            assert result.points < result.most
            flagged = {box_of(verdict) for verdict in result.errors if verdict.kind in ("wrong", "too few decimals")}
            calledwrong += [(slip, box) for box in flagged if answers[box] == right[box]]
            counts["slips"] += 1
            counts["located"] += bool(flagged & changed) and result.errors[0].step == slip.step
            counts["named"] += slip.name is not None and slip.name in {verdict.slip for verdict in result.errors}
    assert calledwrong == []
    assert counts["slips"] >= 0.8 * 12 * WITH_SLIPS
    assert counts["located"] >= 0.95 * counts["slips"] and counts["named"] >= 0.75 * counts["slips"], counts


def test_the_first_error_is_named_and_what_follows_is_not_punished(tmp_path):
    made = exercises("matrix", 1)
    (task,) = made.tasks
    (slip,) = [slip for slip in SLIPS["matrix"] if slip.name == "√d_k forgotten"]
    result = grade_one(made, task, fill_in(task, solve(task, slip=slip)), tmp_path)
    points = {step.step: step.points for step in result.steps}
    assert points.pop("scaled") < 1 and set(points.values()) == {1.0}
    assert result.first_error.startswith("scaled ") and "√d_k forgotten" in result.feedback()


# Sheets that must not have full marks


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("kind", FORMATS)
def test_a_blank_sheet_has_no_points(tmp_path, topic, kind):
    made = exercises(topic, 2)
    result = grade_one(made, made.tasks[0], made.tasks[0].sheet(), tmp_path, kind)
    assert result.points == 0 and not result.errors
    assert grade(made, [])[1].points == 0


@pytest.mark.parametrize("topic", TOPICS)
def test_the_sheet_of_another_student_never_has_full_marks(tmp_path, topic):
    made = exercises(topic, 4)
    mine, other = made.tasks[0], made.tasks[1]
    copied = fill_in(other, solve(other))
    assert grade_one(made, mine, copied, tmp_path).points == 0
    renamed = replace(copied, student=mine.student, blocks=copied.blocks[1:])
    result = grade_one(made, mine, renamed, tmp_path)
    assert result.points < result.most


def hostile_answers(task):
    right = solve(task)
    yield dict.fromkeys(right, "0")
    yield dict.fromkeys(right, "1e0")
    yield dict.fromkeys(right, "nan")
    yield dict.fromkeys(right, "-inf")
    yield dict.fromkeys(right, "=1/0")
    yield {box: f"{text} or 7" for box, text in right.items()}
    yield {box: f"{text}e400" for box, text in right.items()}
    yield {box: text if "." not in text else text.partition(".")[0] for box, text in right.items()}  # bare 0 and 1


@pytest.mark.parametrize("topic", TOPICS)
def test_hostile_sheets_never_have_full_marks(tmp_path, topic):
    made = exercises(topic, 1)
    (task,) = made.tasks
    for answers in hostile_answers(task):
        for kind in ("md", "csv"):
            result = grade_one(made, task, fill_in(task, answers), tmp_path, kind)
            assert result.points < result.most, answers


def test_several_answers_for_one_number_count_as_the_worst(tmp_path):
    made = exercises("matrix", 1)
    (task,) = made.tasks
    right = solve(task)
    twice = to_markdown(fill_in(task, right)) + to_markdown(fill_in(task, dict.fromkeys(right, "7.77")))
    path = tmp_path / f"{task.file}.md"
    path.write_text(twice)
    (result,) = grade(made, [path])
    assert result.points < result.most / 2 and any("more than once" in remark for remark in result.remarks)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"PK\x03\x04 not a sheet", b"| |\n|-|\n", b"{" * 100_000])
@pytest.mark.parametrize("kind", ["md", "xlsx", "csv", "json", "txt"])
def test_unreadable_files_have_no_points_and_say_why(tmp_path, content, kind):
    made = exercises("table", 1)
    path = tmp_path / f"{made.tasks[0].file}.{kind}"
    path.write_bytes(content)
    (result,) = grade(made, [path])
    assert result.points == 0 and result.remarks


def test_the_students_own_inputs_do_not_replace_those_of_the_task(tmp_path):
    made = exercises("matrix", 1)
    (task,) = made.tasks
    zeros = {step: np.zeros_like(task.solution[step]) for step in task.steps}
    notes = {
        "words": list(task.inputs.words),
        "embeddings": np.zeros((3, 3)).tolist(),
        "heads": 2,
        "divisor": 1,
        "mask": "causal",
    }
    notes |= {step.replace("_", " "): array[0].tolist() for step, array in zeros.items()}
    path = tmp_path / f"{task.file}.json"
    path.write_text(json.dumps(notes))
    assert grade(made, [path])[0].points < 0.5 * len(task.steps)


def test_an_unknown_student_is_refused(tmp_path):
    made = exercises("table", ["Ada"])
    path = tmp_path / "somebody.md"
    path.write_text(to_markdown(replace(made.tasks[0].sheet(), blocks=made.tasks[0].sheet().blocks[1:])))
    with pytest.raises(OptionError, match="names no student"):
        grade(made, [path])


def test_grades_are_written_as_csv_json_and_feedback(tmp_path):
    made = exercises("table", ["Ada", "=cmd()"])
    task = made.tasks[0]
    path = hand_in(tmp_path, task, fill_in(task, solve(task)))
    write_grades(grade(made, [path]), tmp_path / "feedback")
    rows = list(csv.DictReader((tmp_path / "feedback" / "grades.csv").read_text(encoding="utf-8").splitlines()))
    assert [float(row["points"]) for row in rows] == [8, 0]
    assert rows[1]["student"] == "'=cmd()"
    content = json.loads((tmp_path / "feedback" / "grades.json").read_text(encoding="utf-8"))
    assert content[1]["remarks"][0] == "No answer was handed in."
    assert "8 of 8 points" in (tmp_path / "feedback" / "ada.md").read_text(encoding="utf-8")

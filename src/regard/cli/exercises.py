"""`regard exercise` and `check`: sheets with other numbers for each student, and verdicts on hand calculations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated

import typer

from regard.cli import terminal
from regard.cli.exit_codes import FOUND_SOMETHING
from regard.cli.options import Folder, Seed
from regard.errors import OptionError
from regard.output.exercise_sheets import FORMATS, write_exercises, write_grades
from regard.tables import Table
from regard.teaching.exercises import MOST_STUDENTS, TOPICS, exercises, read_key, read_students
from regard.teaching.grading import grade, grades_table
from regard.teaching.hand_check.check import DECIMALS, Check, Verdict, check_notes
from regard.teaching.hand_check.notation import SPELLING_OF

SHORTENED = ("follows", "too few decimals")  # verdicts of which one reason per step is printed


def exercise(
    topic: Annotated[str, typer.Argument(metavar=f"[{'|'.join(TOPICS)}]")],
    out: Folder,
    students: str | None = None,
    count: Annotated[int | None, typer.Option(min=1, max=MOST_STUDENTS)] = None,
    seed: Seed = 0,
    product: str = "x W",
    formats: Annotated[list[str] | None, typer.Option("--as")] = None,
) -> None:
    """Write an exercise in attention by hand for each student, with solutions and a key for `regard check --task`.

    topic                 What is to be calculated.
    out                   Where sheets, solutions and key.json are written.
    students FILE         A CSV file of their names.
    count                 How many sheets, instead of names.
    seed                  Other numbers for another course.
    product "x W^T"       How W is written: "x W" (the default) or "x W^T".
    formats [md|xlsx|pdf]  May be repeated; all by default.

    Examples:
      regard exercise table --count 30 --out sheets
      regard exercise heads --students list.csv --out sheets --product "x W^T"
      regard exercise gradient --count 3 --out sheets --as md --as xlsx
      regard check --task sheets/key.json answers/* --out feedback

    list.csv has a student per line, or a column called student or name. The folder
    gets a sheet per student, solutions/ and key.json: hand out the sheets, keep
    the other two.
    """
    if (students is None) == (count is None):
        raise OptionError("Give either --students list.csv or --count 30.")
    names = read_students(students) if students is not None else count or 1
    made = exercises(topic, names, seed=seed, product=product)
    paths = write_exercises(made, out, tuple(formats or FORMATS))
    terminal.show([f"Wrote {len(made.tasks)} sheets ({TOPICS[made.topic].title}) with solutions, and {paths[-1]}."])


def check(
    files: list[str],
    task: str | None = None,
    out: str = "feedback",
    product: str | None = None,
    full: bool = False,
    decimals: Annotated[int, typer.Option(min=0, max=12)] = DECIMALS,
) -> None:
    """Check a hand calculation: right, rounded, cut, carried on from shortened numbers, following, wrong or missing.

    files FILE...     Notes as .json, .csv, .md, .txt or .xlsx; with --task, all answers.
    task FILE         The key.json of `regard exercise`: grade answers to it.
    out FOLDER        With --task: where feedback and grades are written.
    product "x W^T"   How W is written, where the notes do not say it.
    full              Show right numbers and all reasons as well.
    decimals          Decimals that rounded numbers have at least.

    Examples:
      regard examples cat-sat-notes > notes.json
      regard check notes.json
      regard steps "The cat sat" --out steps.md
      regard check steps.md
      regard check --task sheets/key.json answers/* --out feedback

    With --task, answers to an exercise are graded: points per step, a feedback
    file per student, grades.csv and grades.json in the folder of --out.

    Exit codes: 0 if every number is right or rounded and none is missing (with
    --task: if the answers were graded), 1 if one is not or is missing, 2 if the
    notes cannot be read.
    """
    if task is not None:
        grades = grade(read_key(task), files, decimals=decimals)
        paths = write_grades(grades, out)
        terminal.show([grades_table(grades), f"Wrote {paths[0]}, grades.json and {len(grades)} feedback files."])
        return
    if len(files) > 1:
        raise OptionError("Several files are graded with --task key.json; without it, notes are checked one by one.")
    check_result = check_notes(files[0], decimals=decimals, product=product)
    is_listed = full or any(verdict.kind != "missing" for verdict in check_result.slips)
    terminal.show([_table(check_result, full)] if is_listed else [check_result.summary(), *_missing(check_result)])
    if not check_result.ok:
        raise typer.Exit(FOUND_SOMETHING)


def _table(checked: Check, full: bool) -> Table:
    """The verdicts, with their reasons below: these are too long for a column."""
    table = checked.table(slips_only=not full)
    rows = tuple(row[:-1] for row in table.rows if full or row[3] != "missing")
    slips = [verdict for verdict in checked.slips if verdict.kind != "missing"]
    notes = (*_reasons(slips, full), *([] if full else _missing(checked)), *table.notes)
    return replace(table, columns=table.columns[:-1], rows=rows, notes=notes)


def _missing(checked: Check) -> list[str]:
    """A line that counts the missing answers of each step."""
    steps = Counter(verdict.step for verdict in checked.of_kind("missing"))
    if not steps:
        return []
    counts = ", ".join(f"{times} in {SPELLING_OF[step]}" for step, times in steps.items())
    return [f"Left blank: {counts}; --full lists them."]


def _reasons(slips: Sequence[Verdict], full: bool) -> Iterator[str]:
    """A line per slip; of numbers that follow from a wrong one or have too few decimals, the first of each step."""
    counts = Counter((verdict.kind, verdict.step) for verdict in slips)
    shown: set[tuple[str, str]] = set()
    for verdict in slips:
        group = verdict.kind, verdict.step
        others = counts[group] - 1 if verdict.kind in SHORTENED and not full else 0
        if others and group in shown:
            continue
        also = f" {others} more of this kind; --full shows them." if others else ""
        shown |= {group} if others else set()
        yield f"{verdict.what}: {verdict.because}.{also}"

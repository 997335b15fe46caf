"""`regard exercise`: sheets with other numbers for each student, solutions, and the key that grades them."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli import terminal
from regard.cli.options import Folder, Seed
from regard.errors import OptionError
from regard.output.exercise_sheets import FORMATS, write_exercises
from regard.teaching.exercises import MOST_STUDENTS, TOPICS, exercises, read_students


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

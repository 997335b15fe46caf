"""`regard exercise`: sheets with other numbers for each student, solutions, and the key that grades them."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli import terminal
from regard.errors import OptionError
from regard.output.exercise_sheets import FORMATS, write_exercises
from regard.teaching.exercises import MOST_STUDENTS, TOPICS, exercises, read_students

EXAMPLES = """Examples:

\b
  regard exercise table --count 30 --out sheets
  regard exercise heads --students list.csv --out sheets --product "x W^T"
  regard exercise gradient --count 3 --out sheets --as md --as xlsx
  regard check --task sheets/key.json answers/* --out feedback

\b
list.csv has a student per line, or a column called student or name. The folder
gets a sheet per student, solutions/ and key.json: hand out the sheets, keep
the other two.
"""


def exercise(
    topic: Annotated[str, typer.Argument(metavar=f"[{'|'.join(TOPICS)}]", help="What is to be calculated.")],
    out: Annotated[str, typer.Option(metavar="FOLDER", help="Where sheets, solutions and key.json are written.")],
    students: Annotated[str | None, typer.Option(metavar="FILE", help="A CSV file of their names.")] = None,
    count: Annotated[
        int | None, typer.Option(min=1, max=MOST_STUDENTS, help="How many sheets, instead of names.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Other numbers for another course.")] = 0,
    product: Annotated[
        str, typer.Option(metavar='"x W^T"', help='How W is written: "x W" (the default) or "x W^T".')
    ] = "x W",
    formats: Annotated[
        list[str] | None, typer.Option("--as", metavar="[md|xlsx|pdf]", help="May be repeated; all by default.")
    ] = None,
) -> None:
    """Write an exercise in attention by hand for each student, with solutions and a key for `regard check --task`."""
    if (students is None) == (count is None):
        raise OptionError("Give either --students list.csv or --count 30.")
    names = read_students(students) if students is not None else count or 1
    made = exercises(topic, names, seed=seed, product=product)
    paths = write_exercises(made, out, tuple(formats or FORMATS))
    terminal.show([f"Wrote {len(made.tasks)} sheets ({TOPICS[made.topic].title}) with solutions, and {paths[-1]}."])

"""What every format is read into: settings, and a flat list of cells, each with the numbers as they were written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from regard.errors import OptionError, RegardError, shown
from regard.teaching.hand_check.notation import HEADLESS, INPUTS

MOST_NESTED = 100
OCCURRENCE = re.compile(r"(.+?)(?: \(|:)(\d+)\)?", re.DOTALL)  # the (2), the:2
WITHOUT_HEAD = (*HEADLESS, *INPUTS, "W_O")


class Index(NamedTuple):
    """A position in a list, and the length of that list, which tells whether it fits."""

    at: int
    length: int


Label = str | Index


@dataclass(frozen=True, slots=True)
class Cell:
    """One number as written; without a number, one that was left blank."""

    step: str  # a step, a matrix, "embedding", "position", "context" or "output_gradient"
    labels: tuple[Label, ...]  # along the axes of the step; nested lists may have the head before them
    text: Any  # None if left blank; fewer labels than axes then stand for a whole vector
    where: str = ""
    head: int | None = None
    is_printed: bool = False  # from a column of a step table, where vectors are rounded for print


@dataclass
class Document:
    """Everything that notes hold."""

    source: str  # what messages call it
    settings: dict[str, Any] = field(default_factory=dict)
    cells: list[Cell] = field(default_factory=list)
    is_trace: bool = False  # written by `regard steps`, where q, k and v may be given without their W
    remarks: list[str] | None = None  # what could not be read; None if that is an error

    def problem(self, error: RegardError) -> None:
        """Raise an error, or remember it where one bad cell must not spoil the others."""
        if self.remarks is None:
            raise error
        self.remarks.append(str(error).partition("\n")[0])

    def set(self, name: str, value: Any, where: str) -> None:
        """Add a setting; a different value for the same setting is an error."""
        if self.settings.setdefault(name, value) != value:
            self.problem(given_twice(where, name))

    def add(self, step: str, content: Any, *labels: Label, where: str, head: int | None = None, **more: Any) -> None:
        """Add a number, or nested lists and dictionaries of numbers."""
        head = None if step in WITHOUT_HEAD else head
        self.cells += [Cell(step, inner, text, where, head, **more) for inner, text in flatten(content, labels)]

    def of(self, *steps: str) -> list[Cell]:
        return [cell for cell in self.cells if cell.step in steps]


def given_twice(where: str, name: str) -> OptionError:
    return OptionError(f"{where}: {shown(name)} is given twice.\nLeave one of them out.")


def flatten(content: Any, labels: tuple[Label, ...] = ()) -> Iterable[tuple[tuple[Label, ...], Any]]:
    """Every innermost part of nested lists and dictionaries with its labels; an empty list counts as a blank."""
    if isinstance(content, Mapping):
        for name, part in content.items():
            yield from flatten(part, (*labels, name if isinstance(name, Index) else str(name)))
    elif isinstance(content, list):
        for at, part in enumerate(content or [None]):
            yield from flatten(part, (*labels, Index(at, len(content))))
    else:
        yield labels, content


def plain(part: Any, where: str = "The notes", depth: int = 0) -> Any:
    """Arrays and tuples as lists, mappings as dictionaries by string, all the way down."""
    if depth > MOST_NESTED:
        raise OptionError(f"{where} is nested too deeply.")
    if hasattr(part, "tolist"):
        part = part.tolist()
    if isinstance(part, Mapping):
        return {str(name): plain(inner, where, depth + 1) for name, inner in part.items()}
    if isinstance(part, (list, tuple)):
        return [plain(inner, where, depth + 1) for inner in part]
    return part

"""What can be wrong with notes before a single number is checked, in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from regard.errors import OptionError, ShapeError
from regard.errors.wording import count, did_you_mean, shown

ENDINGS = (".json", ".csv", ".md")


def no_such_file(path: Path) -> OptionError:
    """A file that is not there."""
    return OptionError(f"There is no file {str(path)!r}.\nCheck the name, and the folder you are in.")


def unreadable(path: Path, reason: str) -> OptionError:
    """A file that is there and can't be read."""
    return OptionError(f"{str(path)!r} can't be read: {reason}.\nNotes are text in UTF-8: .json, .csv or .md.")


def unknown_ending(path: Path) -> OptionError:
    """A file of another kind."""
    came = f"ends in {path.suffix!r}" if path.suffix else "has no ending"
    return OptionError(f"{str(path)!r} {came}; notes are read from {', '.join(ENDINGS)}.")


def empty(source: str) -> OptionError:
    """Nothing in it."""
    return OptionError(f"{source} is empty.\nNotes hold embeddings, or q, k and v, and the numbers worked out by hand.")


def broken_json(source: str, line: int, column: int, reason: str) -> OptionError:
    """Text that is not JSON."""
    return OptionError(
        f"{source} is not JSON: {reason}, at line {line}, column {column}.\n"
        "Look there, and just before, for a comma too many, or a comma, bracket or quotation mark too few."
    )


def broken_csv(source: str, line: int, reason: str) -> OptionError:
    """Text that is not CSV."""
    return OptionError(f"{source} is not CSV: {reason}, at line {line}.\nLook for a quotation mark left open.")


def too_many_cells(source: str, row: Sequence[str], headings: int) -> OptionError:
    """A row that is wider than its heading."""
    return OptionError(
        f"{source}: the row {shown(', '.join(row))} has {count(len(row), 'cell')} for {count(headings, 'heading')}.\n"
        "Several numbers in one cell have blanks between them, and a decimal has a point."
    )


def not_an_object(source: str, came: str) -> OptionError:
    """JSON, but not an object."""
    return OptionError(f'{source} holds {came}; expected an object, as in {{"words": …, "embeddings": …}}.')


def no_table(source: str) -> OptionError:
    """Text without a table."""
    return OptionError(
        f"{source} holds no table.\nA Markdown table has a heading row, a row of dashes, and `|` between its cells."
    )


def unknown_name(source: str, name: str, known: Iterable[str]) -> OptionError:
    """A name that means nothing here."""
    known = list(known)
    guess = did_you_mean(name.casefold(), known)
    return OptionError(f"{source}: {name!r} is not a step.{guess}\nThe steps: {', '.join(known)}.")


def given_twice(source: str, what: str) -> OptionError:
    """Two answers to one question."""
    return OptionError(f"{source}: {what} is given twice.\nLeave one of them out.")


def too_deep(source: str) -> OptionError:
    """Brackets within brackets without end."""
    return OptionError(f"{source} nests brackets too deeply to be notes.")


def decimal_comma(where: str, text: str) -> OptionError:
    """0,42 instead of 0.42."""
    return OptionError(
        f"{where}: {text!r} has a comma in it; write {text.replace(',', '.')!r} with a point.\n"
        "Several numbers in one cell have blanks between them."
    )


def not_a_number(where: str, came: object) -> OptionError:
    """Something else where a number belongs."""
    return OptionError(f"{where}: {shown(came)} is not a number.\nLeave out what was not worked out, or write null.")


def not_finite(where: str, came: object) -> OptionError:
    """NaN, ∞, or too large for the machine."""
    return OptionError(
        f"{where}: {shown(came)} is not a finite number.\nLeave out what was not worked out, or write null."
    )


def unequal_lengths(name: str, lengths: Sequence[tuple[str, int]]) -> ShapeError:
    """Vectors of one kind with different numbers of numbers."""
    lines = "".join(f"\n  {word}  {count(length, 'number')}" for word, length in lengths)
    return ShapeError(
        f"`{name}` are vectors of unequal length.{lines}\nAll of them have the same: look for one left out."
    )


def not_vectors(name: str) -> ShapeError:
    """Something else than one vector a word."""
    return ShapeError(
        f'`{name}` are one vector for each word: a list of lists of numbers, or as in {{"The": [1, 0, 1, 0], …}}.'
    )


def not_a_matrix(name: str) -> ShapeError:
    """A W that is not one."""
    return ShapeError(f'`{name}` is a matrix: a list of rows, all of one length, or "I" for the identity.')


def vectors_for_words(name: str, vectors: int, words: int) -> ShapeError:
    """Not one for each."""
    return ShapeError(f"`{name}` hold {count(vectors, 'vector')} for {count(words, 'word')}.\nGive one for each word.")


def word_without(name: str, word: str) -> ShapeError:
    """A word that was forgotten."""
    return ShapeError(f"`{name}` hold no vector for {word!r}.\nGive one for each word.")


def no_words(source: str) -> OptionError:
    """Nobody knows how many words there are."""
    return OptionError(f'{source}: which words? Give embeddings, or q, k and v, or "words": ["The", "cat", "sat"].')


def nothing_to_check(source: str) -> OptionError:
    """Only what is given, and nothing that was worked out."""
    return OptionError(
        f"{source} holds no number that was worked out by hand.\n"
        "Give any of: scores, scaled, weights, weighted values, outputs."
    )


def matrix_without_embeddings(name: str) -> OptionError:
    """A W, and nothing to multiply with it."""
    return OptionError(
        f"`{name}` is given without embeddings.\nGive the embeddings, or leave it out where q, k, v are."
    )


def which_query(source: str, column: str) -> OptionError:
    """Scores of nobody knows whom."""
    return OptionError(
        f"{source}: which word asks, in column {column!r}?\n"
        "Name it in the line above the table, or in a column Query, or give q or sum in its row alone."
    )


def bad_divisor(came: object) -> OptionError:
    """Division by nothing."""
    return OptionError(f"`divisor` is {shown(came)}; expected a number above 0.\nLeave it out for √d_k.")

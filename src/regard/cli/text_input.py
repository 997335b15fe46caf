"""What a command reads: text and JSON files, the words of a text, and the word that --query or --key names."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from typing import Any

from regard import input_file
from regard.errors import OptionError

STANDARD = "-"  # standard input or output


def called(name: str) -> str:
    """The name of a file in messages."""
    return "standard input" if name == STANDARD else name


def text_of(name: str) -> str:
    """The text of a file or of standard input, decoded as UTF-8."""
    try:
        raw = input_file.read(sys.stdin.buffer if name == STANDARD else name, called(name))
    except OptionError:  # too large; it is a ValueError too
        raise
    except FileNotFoundError:
        raise OptionError(f"There is no file {name!r}.") from None
    except IsADirectoryError:
        raise OptionError(f"{name!r} is a folder; expected a file.") from None
    except OSError as problem:
        raise OptionError(f"{name!r} cannot be read: {reason(problem)}.") from None
    except ValueError:  # a null character or a lone surrogate
        raise OptionError(f"{name!r} is not a valid file name.") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise OptionError(f"{called(name)} is not UTF-8 text: byte {problem.start} is invalid.") from None


def text_given(text: str) -> str:
    """The text of an argument; - stands for standard input."""
    return text_of(STANDARD) if text == STANDARD else text


def json_of(name: str) -> Any:
    """The content of a JSON file."""
    text = text_of(name)
    if not text.strip():
        raise OptionError(f"{called(name)} is empty; expected JSON.")
    try:
        return json.loads(text)
    except json.JSONDecodeError as problem:
        where = f"line {problem.lineno}, column {problem.colno}"
        raise OptionError(f"{called(name)} is not JSON: {problem.msg.lower()} at {where}.") from None
    except (RecursionError, ValueError):  # a number of more than 4,300 digits is a plain ValueError
        why = "it is nested too deeply, or a number has too many digits"
        raise OptionError(f"{called(name)} cannot be read as JSON: {why}.") from None


def reason(problem: OSError) -> str:
    """The system's reason for an error."""
    return (problem.strerror or str(problem)).lower()


# Words

_OCCURRENCE = re.compile(r"(.+):(\d{1,9})", re.DOTALL)


def asked_for(given: str | None, words: Sequence[str]) -> Any:
    """Interpret --query or --key: a word, an occurrence as in the:2, or a position from 0.

    >>> words = ("The", "kids", "saw", "the", "lions", ":")
    >>> asked_for("kids", words), asked_for("the:2", words), asked_for("4", words), asked_for(":", words)
    ('kids', ('the', 2), 4, ':')
    """
    if given is None or given in words:
        return given
    if re.fullmatch(r"-?\d{1,9}", given):
        return int(given)
    found = _OCCURRENCE.fullmatch(given)
    if found and any(word.casefold() == found[1].casefold() for word in words):
        return found[1], int(found[2])
    return given

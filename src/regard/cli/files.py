"""Input files of the command line: text and JSON, with errors in one sentence."""

from __future__ import annotations

import json
import sys
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

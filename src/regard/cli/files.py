"""Files that people name on the command line: read, or refused in one sentence."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from regard.errors import OptionError

STANDARD = "-"  # stands for standard input, or output


def called(name: str) -> str:
    """What messages call a file."""
    return "standard input" if name == STANDARD else name


def text_of(name: str) -> str:
    """The text of a file, or of standard input."""
    try:
        raw = sys.stdin.buffer.read() if name == STANDARD else Path(name).read_bytes()
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
        raise OptionError(f"{called(name)} is not text in UTF-8: byte {problem.start} does not fit.") from None


def json_of(name: str) -> Any:
    """What a JSON file holds."""
    text = text_of(name)
    if not text.strip():
        raise OptionError(f"{called(name)} is empty; expected JSON.")
    try:
        return json.loads(text)
    except json.JSONDecodeError as problem:
        where = f"line {problem.lineno}, column {problem.colno}"
        raise OptionError(f"{called(name)} is not JSON: {problem.msg.lower()} at {where}.") from None
    except (RecursionError, ValueError):  # a number of more than 4,300 digits is a plain ValueError
        raise OptionError(f"{called(name)} is JSON that is nested too deeply, or holds too long a number.") from None


def reason(problem: OSError) -> str:
    """Why the system refused, in its words."""
    return (problem.strerror or str(problem)).lower()

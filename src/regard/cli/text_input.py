"""What a command reads: text and JSON files, the word that --query or --key names, and NAME=VALUE settings."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from regard import input_file
from regard.errors import OptionError, did_you_mean, shortened
from regard.trace.labels import place_of

STANDARD = "-"  # standard input or output


def called(name: str) -> str:
    """The name of a file in messages."""
    return "standard input" if name == STANDARD else name


def text_of(name: str) -> str:
    """The text of a file or of standard input, decoded as UTF-8."""
    return input_file.read_text(*((sys.stdin.buffer, called(name)) if name == STANDARD else (name,)))


def text_given(text: str) -> str:
    """The text of an argument; - stands for standard input."""
    return text_of(STANDARD) if text == STANDARD else text


def lines_given(text: str) -> list[str]:
    """The texts of an argument, one per line, without empty ones; - stands for standard input."""
    lines = [line for line in text_given(text).splitlines() if line.strip()]
    if not lines:
        raise OptionError("The text is empty: give a sentence.")
    return lines


def json_of(name: str) -> Any:
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


def text_argument(command: str, text: str | None, file: str | None) -> str:
    """The text of a command that takes it as an argument or from `--file`."""
    if text is not None and file is not None:
        raise OptionError("Give a text or --file, not both.")
    if text is None and file is None:
        raise OptionError(f'Give a text, as in regard {command} "The cat sat", or --file FILE.')
    content = text_given(text) if text is not None else text_of(str(file))
    if not content.strip():
        raise OptionError(f'The text contains no word: give one, as in regard {command} "The cat sat".')
    return content.strip()


def word_position(option: str, name: str | None, words: Sequence[str]) -> int | None:
    """The position of the word that an option names: a word, an occurrence as in the:2, or a position from 0.

    >>> words = ("The", "kids", "saw", "the", "lions", ":")
    >>> [word_position("--query", name, words) for name in ("kids", "the:2", "4", ":")]
    [1, 3, 4, 5]
    """
    if name is None:
        return None
    is_number = name not in words and re.fullmatch(r"-?\d{1,9}", name)
    return place_of(option, int(name) if is_number else name, words)


def settings(option: str, pairs: Sequence[str] | None, kinds: Mapping[str, Callable[[str], Any]]) -> dict[str, Any]:
    """What a repeatable option such as `--set batch=16,rate=3e-4` sets, by name; `kinds` convert the values.

    >>> settings("--set", ["batch=16,rate=3e-4", "length=8"], {"batch": int, "rate": float, "length": int})
    {'batch': 16, 'rate': 0.0003, 'length': 8}
    """
    values: dict[str, Any] = {}
    for pair in (part.strip() for text in pairs or () for part in text.split(",")):
        name, equals, value = pair.partition("=")
        if name not in kinds or not equals:
            hint = "" if name in kinds else did_you_mean(name, kinds)
            raise OptionError(f"{option} {shortened(pair)!r}: expected NAME=VALUE with {', '.join(kinds)}.{hint}")
        if name in values:
            raise OptionError(f"{option} sets {name} twice.")
        try:
            values[name] = kinds[name](value)
        except ValueError:
            raise OptionError(f"{option} {name}={shortened(value)}: expected a number.") from None
    return values

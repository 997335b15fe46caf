"""Errors about files of models: missing, broken, or not downloaded. A message names the file and the problem."""

from __future__ import annotations

import os

from regard.errors import OptionError, RegardError, option

Place = str | os.PathLike[str]


class BrokenFile(OptionError):
    """A file with invalid content."""


class TooLong(OptionError):
    """A text with more tokens than a model reads."""

    def __init__(self, message: str, tokens: int) -> None:
        super().__init__(message)
        self.tokens = tokens


class MissingFile(OptionError, FileNotFoundError):
    """A missing file, or a missing part of a model."""


class NotFetched(RegardError, ConnectionError):
    """A model that is not in the cache and could not be downloaded."""


def broken(path: Place, why: str, fix: str = "") -> BrokenFile:
    """A file with invalid content.

    >>> print(broken("model.safetensors", "its header ends in the middle", "Download it again."))
    model.safetensors is broken: its header ends in the middle.
    Download it again.
    """
    return BrokenFile(f"{os.fspath(path)} is broken: {why}." + (f"\n{fix}" if fix else ""))


def missing(path: Place, expected: str, fix: str = "") -> MissingFile:
    """A file that is expected and missing.

    >>> print(missing("tiny", "a folder with config.json, or a GGUF file"))
    There is no tiny; expected a folder with config.json, or a GGUF file.
    """
    return MissingFile(f"There is no {os.fspath(path)}; expected {expected}." + (f"\n{fix}" if fix else ""))


def check_length(name: str, longest: int, count: int, more: int = 0) -> None:
    """Refuse a text of so many tokens, with `more` to be generated, that a model cannot read."""
    if count == 0:
        raise option("text", "", "a text with at least one token")
    if count + more > longest:
        came = f"The text has {count} tokens" + (f", and {more} more are to be generated" if more else "")
        fix = "Generate fewer tokens, or shorten the text" if more else "Read it in parts"
        limit = f"{name} reads at most {longest}"
        raise TooLong(f"{came}; {limit}.\n{fix}, or use a model that reads more.", count + more)

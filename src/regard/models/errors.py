"""What goes wrong with files of models: missing, broken, out of reach. A message names the file and the fault."""

from __future__ import annotations

import os

from regard.errors import OptionError, RegardError

Place = str | os.PathLike[str]


class BrokenFile(OptionError):
    """A file that is not what it says it is."""


class MissingFile(OptionError, FileNotFoundError):
    """A file, or a part of a model, that is not there."""


class NotFetched(RegardError, ConnectionError):
    """A model that is not in the cache and could not be got."""


def broken(path: Place, why: str, fix: str = "") -> BrokenFile:
    """A file with a fault.

    >>> print(broken("model.safetensors", "its header ends in the middle", "Get it again."))
    model.safetensors is broken: its header ends in the middle.
    Get it again.
    """
    return BrokenFile(f"{os.fspath(path)} is broken: {why}." + (f"\n{fix}" if fix else ""))


def missing(path: Place, expected: str, fix: str = "") -> MissingFile:
    """A file that should be there.

    >>> print(missing("tiny", "a folder with config.json, or a GGUF file"))
    There is no tiny; expected a folder with config.json, or a GGUF file.
    """
    return MissingFile(f"There is no {os.fspath(path)}; expected {expected}." + (f"\n{fix}" if fix else ""))

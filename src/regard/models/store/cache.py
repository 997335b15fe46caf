"""The cache of models: one folder per model, complete or ignored."""

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
from typing import Any

from regard import atomic_file, file_state, lock_file
from regard.errors import OptionError, shown
from regard.models.errors import BrokenFile
from regard.models.progress import note
from regard.models.regular_file import object_in

MANIFEST = "regard.json"  # written last: a folder that has it is complete
NOTICE = "NOTICE"
RETRY_SECONDS = 0.1


@dataclass(frozen=True)
class CachedModel:
    """A model in the cache."""

    name: str
    folder: Path
    files: dict[str, int]  # names and sizes in bytes
    opened: str = ""  # the file to open; empty for the folder
    licence: str = ""

    @property
    def path(self) -> Path:
        """The file or folder to open."""
        return self.folder / self.opened if self.opened else self.folder

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(self.files.values())


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


def folder_of(name: str) -> Path:
    """The folder of one model.

    >>> folder_of("prajjwal1/bert-tiny").name
    'prajjwal1--bert-tiny'
    """
    return root() / name.replace("/", "--")


def kept(name: str) -> CachedModel | None:
    """A model, if the cache holds all of it; only its manifest is read."""
    folder = folder_of(name)
    try:
        manifest = object_in(folder / MANIFEST, "a list of files")
    except (OptionError, OSError):
        return None
    files, opened, licence = manifest.get("files"), manifest.get("opened", ""), manifest.get("licence", "")
    if not isinstance(files, dict) or not isinstance(opened, str) or not isinstance(licence, str):
        return None
    for file, size in files.items():
        path = folder / file
        if Path(file).name != file or not path.is_file() or path.stat().st_size != size:
            return None
    if not _is_unchanged(folder, manifest, list(files)):
        return None
    return CachedModel(str(manifest.get("name", name)), folder, files, opened if opened in files else "", licence)


def _is_unchanged(folder: Path, manifest: dict[str, Any], files: list[str]) -> bool:
    """Whether every file is as it was when its hash was last right; one that looks different is hashed again."""
    hashes, seen = manifest.get("sha256"), manifest.get("seen")
    if not isinstance(hashes, dict) or not isinstance(seen, dict):
        return False  # it cannot be checked: files that are right are kept, others downloaded
    states = {file: file_state.state_of(folder / file) for file in files}
    different = [file for file in files if list(states[file]) != seen.get(file)]
    settled = _settled(states)
    for file in different:
        if file_state.sha256_of(folder / file) != hashes.get(file):
            note(f"{folder / file} has changed since it was downloaded.")
            return False
    if any(settled[file] for file in different):
        with suppress(OptionError):  # a cache that others write
            atomic_file.write(folder / MANIFEST, json.dumps({**manifest, "seen": settled}, indent=2))
    return True


def _settled(states: dict[str, file_state.State]) -> dict[str, file_state.State]:
    """What was seen of files; nothing of one that is so new that another change could leave the same times."""
    return {file: state if file_state.is_settled(state) else () for file, state in states.items()}


def all_kept() -> list[CachedModel]:
    """Every model in the cache."""
    if not root().is_dir():
        return []
    names = sorted(folder.name.replace("--", "/", 1) for folder in root().iterdir() if folder.is_dir())
    return [stored for name in names if (stored := kept(name))]


def seal(name: str, files: dict[str, int], opened: str, licence: str, notice: str) -> CachedModel:
    """Write the manifest, which marks a model as complete."""
    folder = folder_of(name)
    for file in (NOTICE, MANIFEST):
        (folder / file).unlink(missing_ok=True)  # a link would have bytes written somewhere else
    atomic_file.write(folder / NOTICE, notice)
    manifest: dict[str, Any] = {"name": name, "files": files, "opened": opened, "licence": licence}
    there = [file for file in files if (folder / file).is_file()]
    manifest["seen"] = _settled({file: file_state.state_of(folder / file) for file in there})
    manifest["sha256"] = {file: file_state.sha256_of(folder / file) for file in there}
    atomic_file.write(folder / MANIFEST, json.dumps(manifest, indent=2))
    stored = kept(name)
    if stored is None:
        raise BrokenFile(
            f"{folder} changed while the model {name} was written.\nDownload it again: regard models get {name}"
        )
    return stored


def remove(name: str) -> int:
    """Remove a model, or parts of it; returns the number of bytes freed."""
    folder = folder_of(name)
    with locked(name):
        if not folder.is_dir():
            return 0
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        (folder / MANIFEST).unlink(missing_ok=True)  # first, so that an incomplete folder has none
        shutil.rmtree(folder)
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

    with lock_file.held(root() / f".{folder_of(name).name}.lock", wait):
        yield

"""The folder where models are kept: one folder each, whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from regard.errors import OptionError
from regard.models.errors import BrokenFile
from regard.models.files.json_file import object_in

MANIFEST = "regard.json"  # written last: a folder that has it is whole
NOTICE = "NOTICE"
RETRY_SECONDS = 0.1


@dataclass(frozen=True)
class Kept:
    """A model in the cache."""

    name: str
    folder: Path
    files: dict[str, int]  # names and sizes in bytes
    opened: str = ""  # the file to open; the folder where there is none
    licence: str = ""

    @property
    def path(self) -> Path:
        """What to open."""
        return self.folder / self.opened if self.opened else self.folder

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(self.files.values())


def root() -> Path:
    """The folder of all models: REGARD_CACHE, or where this platform keeps what can be fetched again."""
    if chosen := os.environ.get("REGARD_CACHE"):
        return Path(chosen).expanduser().absolute() / "models"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        base = (Path(local) if local else Path.home() / "AppData" / "Local") / "regard" / "Cache"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches" / "regard"
    else:
        given = os.environ.get("XDG_CACHE_HOME", "")
        base = (Path(given) if Path(given).is_absolute() else Path.home() / ".cache") / "regard"
    return base / "models"


def folder_of(name: str) -> Path:
    """The folder of one model.

    >>> folder_of("prajjwal1/bert-tiny").name
    'prajjwal1--bert-tiny'
    """
    return root() / name.replace("/", "--")


def kept(name: str) -> Kept | None:
    """A model, if all of it is in the cache: no network, and nothing read but a small file."""
    folder = folder_of(name)
    try:
        manifest = object_in(folder / MANIFEST, "what the folder holds")
    except (OptionError, OSError):
        return None
    files, opened, licence = manifest.get("files"), manifest.get("opened", ""), manifest.get("licence", "")
    if not isinstance(files, dict) or not isinstance(opened, str) or not isinstance(licence, str):
        return None
    for file, size in files.items():
        path = folder / file
        if Path(file).name != file or not path.is_file() or path.stat().st_size != size:
            return None
    return Kept(str(manifest.get("name", name)), folder, files, opened if opened in files else "", licence)


def all_kept() -> list[Kept]:
    """Every model in the cache."""
    if not root().is_dir():
        return []
    names = sorted(folder.name.replace("--", "/", 1) for folder in root().iterdir() if folder.is_dir())
    return [found for name in names if (found := kept(name))]


def seal(name: str, files: dict[str, int], opened: str, licence: str, notice: str) -> Kept:
    """Say that all files of a model are there."""
    folder = folder_of(name)
    write_whole(folder / NOTICE, notice.encode())
    manifest = {"name": name, "files": files, "opened": opened, "licence": licence}
    write_whole(folder / MANIFEST, json.dumps(manifest, indent=2).encode())
    found = kept(name)
    if found is None:
        raise BrokenFile(
            f"{folder} changed while the model {name} was written.\nGet it again: regard models get {name}"
        )
    return found


def write_whole(path: Path, content: bytes) -> None:
    """Write a small file, all of it or nothing."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def remove(name: str) -> int:
    """Remove a model and what is left of it; gives the bytes that this freed."""
    folder = folder_of(name)
    with locked(name):
        if not folder.is_dir():
            return 0
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        (folder / MANIFEST).unlink(missing_ok=True)  # first: half a folder is not a complete one
        shutil.rmtree(folder)
    return size


@contextmanager
def locked(name: str) -> Iterator[None]:
    """One process at a time for each model; the system takes the lock away from one that dies."""
    root().mkdir(parents=True, exist_ok=True)
    with (root() / f".{folder_of(name).name}.lock").open("a+b") as file:
        _take(file, name)
        try:
            yield
        finally:
            _give_back(file)


def _take(file: IO[Any], name: str) -> None:
    told = False
    while not _try_to_take(file):
        if not told and sys.stderr.isatty():
            sys.stderr.write(f"Waiting for another process that is getting {name}.\n")
            told = True
        time.sleep(RETRY_SECONDS)


if sys.platform == "win32":
    import msvcrt

    def _try_to_take(file: IO[Any]) -> bool:
        try:
            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _give_back(file: IO[Any]) -> None:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_to_take(file: IO[Any]) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _give_back(file: IO[Any]) -> None:
        fcntl.flock(file, fcntl.LOCK_UN)

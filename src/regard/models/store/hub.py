"""Files of a model from the Hugging Face hub, by its plain HTTP interface."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.models.errors import MissingFile, NotFetched
from regard.models.store import download
from regard.models.store.catalogue import File, Known
from regard.models.store.progress import bar

FIRST_TIMEOUT = 5.0  # seconds for the first answer
LONGEST_ANSWER = 16 * 2**20
ONE, INDEX = "model.safetensors", "model.safetensors.index.json"


@dataclass(frozen=True)
class Remote:
    """A file on the hub."""

    name: str
    size: int
    sha256: str | None


@dataclass(frozen=True)
class Listing:
    """What the hub has of a model at one moment."""

    name: str
    commit: str
    licence: str
    files: tuple[Remote, ...]


def address() -> str:
    """Where the hub is."""
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


def fetch_known(known: Known, folder: Path, wanted: tuple[File, ...]) -> None:
    """Put files of a catalogue's model into its folder."""
    if wanted:  # a short question first: where there is no network, it is known soon
        download.read_small(f"{address()}/api/models/{known.hub}", LONGEST_ANSWER, FIRST_TIMEOUT)
    for file in wanted:
        url = f"{address()}/{known.hub}/resolve/main/{file.remote or file.name}"
        with bar(f"{known.name} {file.name}", file.size) as advance:
            download.download(url, folder / file.name, file.size, file.sha256, advance)


def listing(name: str) -> Listing:
    """Ask the hub what it has of a model."""
    url = f"{address()}/api/models/{name}?blobs=true"
    try:
        answer = download.read_small(url, LONGEST_ANSWER, FIRST_TIMEOUT)
    except download.OutOfReach as problem:
        if problem.status in (401, 403, 404):
            fix = "Check the spelling of owner/name; private models must be put into a folder by hand."
            raise MissingFile(f"The hub has no public model {name!r} ({problem.status}).\n{fix}") from None
        raise
    try:
        return _listed(name, json.loads(answer))
    except (ValueError, KeyError, TypeError, RecursionError) as problem:
        raise NotFetched(f"{url} answered with something else than a list of files ({problem!r}).") from None


def _listed(name: str, answer: Any) -> Listing:
    files = []
    for one in answer["siblings"]:
        file, size, lfs = str(one["rfilename"]), int(one["size"] or 0), one.get("lfs") or {}
        files.append(Remote(file, size, str(lfs["sha256"]) if lfs.get("sha256") else None))
    commit, card = str(answer["sha"]), answer.get("cardData") or {}
    if not re.fullmatch(r"[0-9a-f]{40}", commit):
        raise ValueError(f"commit {commit[:60]!r}")
    return Listing(name, commit, str(card.get("license") or "unknown"), tuple(files))


def wanted(files: Iterable[Remote], name: str) -> tuple[Remote, ...]:
    """Settings, tokeniser and safetensors; never a pickle."""
    here = {file.name: file for file in files if "/" not in file.name and "\\" not in file.name}
    weights = [here[ONE]] if ONE in here else [file for file in here.values() if file.name.endswith(".safetensors")]
    if not weights:
        raise MissingFile(f"The hub's {name!r} has no *.safetensors; Regard opens no pickles.\nChoose another model.")
    if "config.json" not in here:
        raise MissingFile(f"The hub's {name!r} has no config.json, which says what the weights mean.")
    others = [here[file] for file in ("config.json", "tokenizer.json") if file in here]
    index = [here[INDEX]] if INDEX in here and ONE not in here else []
    return tuple(others + index + weights)


def fetch(found: Listing, folder: Path) -> dict[str, int]:
    """Put the files that are needed into the folder; gives their sizes."""
    needed = wanted(found.files, found.name)
    for file in needed:
        path = folder / file.name
        if path.is_file() and file.sha256 and download.hash_of(path) == file.sha256:
            continue  # of an earlier run that was interrupted
        url = f"{address()}/{found.name}/resolve/{found.commit}/{file.name}"
        with bar(f"{found.name} {file.name}", file.size) as advance:
            download.download(url, path, file.size, file.sha256, advance)
    return {file.name: file.size for file in needed}

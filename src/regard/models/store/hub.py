"""Models `owner/name` of the Hugging Face hub, by its library: its cache, and the user's token, mirror and settings."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import RegardError
from regard.file_state import sha256_of
from regard.models.errors import MissingFile, NotFetched
from regard.models.files import open_checkpoint
from regard.models.files.checkpoint import INDEX, ONE
from regard.models.regular_file import object_in
from regard.models.store.cache import CachedModel, size_of
from regard.models.store.catalogue import CATALOGUE
from regard.models.store.download import FIRST_TIMEOUT, WrongHash, check_room

if TYPE_CHECKING:
    from huggingface_hub import HFCacheInfo

CONFIG, TOKENISER = "config.json", "tokenizer.json"
VARIABLE = "HF_HOME"


def root() -> Path:
    """Hugging Face's cache, which transformers uses too."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def kept(name: str) -> CachedModel | None:
    """A model that is there completely; the network is not used."""
    from huggingface_hub import try_to_load_from_cache

    try:
        folder = Path(try_to_load_from_cache(name, CONFIG, root())).parent
        parts = {ONE}
        if not (folder / ONE).exists():
            parts = set(object_in(folder / INDEX, "an index of tensors")["weight_map"].values())
    except MissingFile:
        parts = {path.name for path in folder.glob("*.safetensors")} or {ONE}
    except (OSError, ValueError, KeyError, AttributeError, TypeError):  # TypeError: it is not there
        return None
    is_complete = all((folder / str(part)).is_file() for part in (*parts, TOKENISER))
    return CachedModel(name, folder, size_of(folder)) if is_complete else None


def all_kept() -> list[CachedModel]:
    """The models there that Regard opens."""
    opened = []
    cache = _scan()
    for name in sorted(repo.repo_id for repo in cache.repos if repo.repo_type == "model") if cache else ():
        with suppress(RegardError):
            if (stored := kept(name)) and open_checkpoint(stored.path).family:
                opened.append(stored)
    return opened


def remove(name: str) -> int:
    """Remove a model, also for transformers, and incomplete downloads of it; returns the number of bytes freed."""
    freed = 0
    if cache := _scan():
        alone = [repo for repo in cache.repos if (repo.repo_type, repo.repo_id) == ("model", name)]
        for repo in alone:  # copies of a model have the same revisions
            revisions = [revision.commit_hash for revision in repo.revisions]
            strategy = replace(cache, repos=frozenset({repo})).delete_revisions(*revisions)
            strategy.execute()
            freed += strategy.expected_freed_size
    left = root() / f"models--{name.replace('/', '--')}"
    if left.is_dir():
        freed += size_of(left)
        shutil.rmtree(left)
    return freed


def _scan() -> HFCacheInfo | None:
    if not root().is_dir():
        return None
    from huggingface_hub import scan_cache_dir

    return scan_cache_dir(root())


def get(name: str) -> CachedModel:
    """Download what is missing of a model; the library shows its progress."""
    from huggingface_hub import HfApi, try_to_load_from_cache

    hub = HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None, library_name="regard")
    with _in_words(name, hub.endpoint):
        info = hub.model_info(name, files_metadata=True, timeout=FIRST_TIMEOUT)
        files = needed_files({file.rfilename: file for file in info.siblings or ()}, name)
        here = [try_to_load_from_cache(name, file.rfilename, root(), info.sha) for file in files]
        new = [file for file, path in zip(files, here, strict=True) if not isinstance(path, str)]
        check_room(root(), sum(file.size or 0 for file in new), VARIABLE)
        for file in files:
            path = Path(hub.hf_hub_download(name, file.rfilename, cache_dir=root(), etag_timeout=FIRST_TIMEOUT))
            if file in new and file.lfs and (came := sha256_of(path)) != file.lfs.sha256:
                for made in (path.resolve(), path):  # a hub's ETag names the first, and could name any file
                    if root().resolve() in made.parents:
                        made.unlink(missing_ok=True)
                raise WrongHash(path, hub.endpoint, came, file.lfs.sha256)
    if stored := kept(name):
        return stored
    raise NotFetched(f"The model {name!r} is incomplete in {root()}: it changed meanwhile. Try again.")


@contextmanager
def _in_words(name: str, endpoint: str) -> Iterator[None]:
    """The library's errors in a sentence; those of the disk stay."""
    try:
        yield
    except Exception as problem:  # what there is depends on the library's version
        if isinstance(problem, RegardError) or (isinstance(problem, OSError) and problem.errno):
            raise
        cause = problem.__cause__ or problem
        status = getattr(getattr(cause, "response", None), "status_code", None)
        if status in (401, 403, 404):
            raise MissingFile(
                f"The hub has no model {name!r} that you may read ({status}). Check the spelling of owner/name.\n"
                f"If it is private or gated: ask for access on {endpoint}/{name}, then `hf auth login` or set HF_TOKEN."
            ) from None
        raise NotFetched(
            f"The model {name!r} could not be downloaded from the hub, and no folder has that name.\n"
            f"{endpoint}: {type(problem).__name__}: {str(cause).strip().partition(chr(10))[0]}\n"
            f"Available without the hub: {' and '.join(CATALOGUE)}, or a local folder or GGUF file."
        ) from None


def needed_files(here: dict[str, Any], name: str) -> list[Any]:
    """The files to download: safetensors, tokeniser and settings, never a pickle."""
    weights = [ONE] if ONE in here else [file for file in here if file.endswith(".safetensors") and "/" not in file]
    if not weights:
        raise MissingFile(f"The hub's {name!r} has no *.safetensors; pickles are never opened.\nChoose another model.")
    for file, purpose in ((TOKENISER, "which splits text into tokens"), (CONFIG, "which describes the weights")):
        if file not in here:
            raise MissingFile(f"The hub's {name!r} has no {file}, {purpose}.\nChoose another model.")
    return [here[file] for file in (INDEX, *weights, TOKENISER, CONFIG) if file in here]  # `kept` asks for the last

"""Real weights for tests that need them: downloaded once through the store, into a cache that all runs share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from regard.models import store
from regard.models.errors import NotFetched


@pytest.fixture(scope="session")
def cache() -> Path:
    """The cache of this run: REGARD_CACHE if it is set, else the platform's."""
    return store.root()


def _found(name: str) -> Path:
    try:
        return store.find(name)
    except NotFetched as problem:
        message = f"needs the weights of {name}, which could not be downloaded: {problem}"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)


@pytest.fixture(scope="session")
def minilm_path(cache: Path) -> Path:
    """The folder of all-MiniLM-L6-v2."""
    return _found("minilm")


@pytest.fixture(scope="session")
def smollm2_path(cache: Path) -> Path:
    """The GGUF file of SmolLM2-135M-Instruct."""
    return _found("smollm2")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for one test, with the network allowed and a hub that does not answer."""
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # the port of discard: refused at once
    monkeypatch.delenv("REGARD_OFFLINE", raising=False)
    return tmp_path / "cache" / "models"

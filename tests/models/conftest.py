"""Real weights for tests that need them: downloaded once through the store, into a cache that all runs share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from huggingface_hub import constants

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
    """Empty caches for one test, with the network allowed and a hub that does not answer."""
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # the port of discard: refused at once
    monkeypatch.setenv("HF_HOME", str(tmp_path / "huggingface"))
    for name in ("REGARD_OFFLINE", "HF_HUB_OFFLINE", "HF_HUB_CACHE", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    # The library has read these when it was imported.
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "huggingface" / "hub"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "huggingface" / "token"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
    return tmp_path / "cache" / "models"


@pytest.fixture
def hub_cache(own_cache: Path) -> Path:
    """Hugging Face's cache of this test."""
    return Path(constants.HF_HUB_CACHE)

"""Tiny models that several tests share."""

from __future__ import annotations

from typing import Any

import pytest

from ..models.checkpoints import Tiny
from .cases import tiny


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Any:
    kept: dict[str, Tiny] = {}

    def of(kind: str) -> Tiny:
        if kind not in kept:
            kept[kind] = tiny(kind, tmp_path_factory.mktemp(kind))
        return kept[kind]

    return of

"""Texts as vectors: the similarity of sentences, and look-ups by meaning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from regard import errors
from regard.arrays import numpy_of
from regard.reading.reader import Reader
from regard.viewer import params

MOST_TEXTS = 64
LONGEST = 4_000  # characters of each
DEFAULT = "minilm"

# Sentences to compare a text with: like it in meaning or only in words, and unlike it.
COMPARED = (
    "The children ran away because they were afraid of the lions.",
    "The lions were scared of the kids.",
    "Sarah left her keys on the table.",
    "Jane visits Africa.",
    "Stock prices fell sharply on Monday.",
)


def embed(model: Reader, texts: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """One vector of length 1 per text, (text, width)."""
    if not isinstance(texts, list) or not 1 <= len(texts) <= MOST_TEXTS:
        raise errors.option("texts", texts, f"a list of 1 to {MOST_TEXTS} texts")
    queries = [params.text("texts", text, LONGEST) for text in texts]
    return {"model": model.name}, {"vector": numpy_of(model.embed(queries)).astype(np.float32)}


@dataclass(frozen=True)
class Embedder:
    """The model that looks up by meaning: whether it is on this machine, and the model; nothing is downloaded."""

    is_here: Callable[[], bool]
    model: Callable[[], Reader]


def models_here() -> set[str]:
    from regard.models import store

    return {kept.name for kept in store.all_kept()}


@lru_cache(maxsize=2)
def open_here(name: str) -> Reader:
    from regard.models.model import model

    return model(name)


ON_THIS_MACHINE = Embedder(lambda: DEFAULT in models_here(), lambda: open_here(DEFAULT))

"""One vector for each text: the mean of its tokens' vectors."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from regard import validate
from regard.arrays import Array, unit_length
from regard.models.forward import Packed, packed, run

if TYPE_CHECKING:
    from regard.models.model import Model


def embed(model: Model, texts: list[str], batch: int, normalise: bool) -> Array:
    """Vectors (text, width) in the order of the texts; computed by length, so that texts of one length are together."""
    from regard.models.model import check_length

    batch = validate.integer("batch", batch, 1)
    ids = [encoding.ids for encoding in model.tokeniser.engine.encode_batch(texts)]  # one list per text
    for of_text in ids:
        check_length(model, len(of_text))
    order = sorted(range(len(ids)), key=lambda text: len(ids[text]))
    vectors = np.empty((len(ids), model.width), np.float32)
    for start in range(0, len(order), batch):
        some = order[start : start + batch]
        vectors[some] = _means(model, packed([ids[text] for text in some]))
    return unit_length(vectors) if normalise else vectors


def _means(model: Model, texts: Packed) -> Array:
    """The mean over the tokens of each text, of what comes after the last block."""
    (last,) = deque(run(model.transformer, texts), maxlen=1)
    x = last.result if model.transformer.norm is None else model.transformer.norm(last.result)
    return np.stack([x[place.start : place.stop].mean(axis=0) for place in texts.places])

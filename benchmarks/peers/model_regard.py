"""Regard's models: text in, a reading with every layer's attention out."""

from __future__ import annotations

from typing import Any

import numpy as np

from model_cases import WRITTEN, ModelCase
from peers import Call, Calls
from regard.models.model import model as open_model


def prepare(case: ModelCase) -> Calls:
    model = open_model(case.model)
    texts = prepared_texts(case, model.tokeniser, model.longest)
    if case.kind == "embed":
        return {"embed": Call(lambda: model.embed(texts), lambda vectors: {"vectors": vectors})}
    if case.kind == "write":
        return {"write": Call(lambda: model.generate(texts[0], WRITTEN), _written)}

    def last_states(readings: Any) -> dict[str, Any]:
        norm = model.transformer.norm
        states = [reading.states[-1] if norm is None else norm(reading.states[-1]) for reading in readings]
        return {"vectors": np.stack([state.mean(axis=0) for state in states])}

    return {"read": Call(lambda: model.read(texts), last_states)}


def prepared_texts(case: ModelCase, tokeniser: Any, longest: int) -> list[str]:
    """The sentences, cut to the number of tokens that the case wants."""
    texts = case.sentences()
    return texts if case.tokens is None else [_cut(text, tokeniser, min(case.tokens, longest)) for text in texts]


def _cut(text: str, tokeniser: Any, count: int) -> str:
    encoded = tokeniser.encode(text)
    ends_with_special = encoded.special[-1]
    stop: int = encoded.spans[count - 1 - ends_with_special][1]
    cut = text[:stop]
    while len(tokeniser.encode(cut)) > count:  # a last word in several pieces
        cut = cut[: cut.rindex(" ")]
    return cut


def _written(reading: Any) -> dict[str, Any]:
    return {"tokens": np.array([token.id for token in reading.tokens])}

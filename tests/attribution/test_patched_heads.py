"""Heads patched one at a time, against readings of the model with the same edit."""

from __future__ import annotations

import numpy as np
import pytest

from regard.attribution.recipes import head_patching
from regard.edits import patch

from ..small_models import encoder, writer

TEXT = "the kids were scared of the lions, so they left"
OTHER = TEXT.replace("kids", "lions")


def test_effects_are_those_of_readings_with_one_head_patched() -> None:
    model = writer()
    study = head_patching(model, TEXT, OTHER, "kids", "left")
    there, plain = model.read(OTHER), model.read(TEXT)
    answers = [model.tokeniser.encode(f" {word}", special=False).ids[0] for word in ("kids", "left")]

    def difference(reading: object) -> float:
        logits = np.asarray(model.next_logits(np.asarray(reading.states[-1])[-1:]))[0]  # type: ignore[attr-defined]
        return float(logits[answers[0]] - logits[answers[1]])

    for layer, head in ((0, 1), (1, 2), (2, 3)):
        patched = difference(model.read(TEXT, edit=patch(there, heads=[(layer, head)])))
        assert study.effects[layer, head] == pytest.approx(patched - difference(plain), abs=1e-3)
    assert np.abs(study.effects).max() > 0.01 and study.names[-1] == "all heads"


def test_without_tokens_the_texts_vector_is_measured() -> None:
    study = head_patching(encoder(), TEXT, OTHER)
    assert study.effects.shape == (len(encoder().block_shapes), 4) and (study.effects > -1e-6).all()
    assert "the text's vector" in study.title

"""The certificate: small for correct readings, and the size of an error that is planted."""

from dataclasses import replace

import numpy as np
import pytest

from regard.layers import Transformer
from regard.masks import allowed, causal
from regard.reading import Token, certificate

from .cases import HEADS, LAYERS, PIECES, PLAIN, made, run_of


@pytest.mark.parametrize("kind", ["all", "causal", "sink logits", "float64"])
def test_errors_of_a_correct_reading_are_small(kind):
    sinks = np.linspace(-2, 3, HEADS, dtype=np.float32) if kind == "sink logits" else None
    reading = made(PLAIN if kind == "causal" else PIECES, causal() if kind == "causal" else None, sinks)
    if kind == "float64":
        seen = tuple(
            one._replace(
                attention=replace(
                    one.attention,
                    queries=one.attention.queries.astype(float),
                    keys=one.attention.keys.astype(float),
                ),
                values=one.values.astype(float),
            )
            for one in reading.seen
        )
        reading = replace(reading, seen=seen)
    found = reading.certificate
    assert found.row_sums < (1e-12 if kind == "float64" else 3e-6)
    assert found.forbidden == 0
    assert found.output < (1e-12 if kind == "float64" else 3e-6)
    assert found.rows == LAYERS * HEADS * len(reading.tokens)
    assert reading.certificate is found
    assert "float64" in str(found)


def test_wrong_outputs_are_noticed():
    reading = run_of(Transformer.seeded(11, 24, 6, encoders=2, seed=5))
    assert reading.certificate.output < 1e-5
    wrong = [output.copy() for output in reading.outputs]
    wrong[1][3, 5, 2] += 0.25
    assert replace(reading, outputs=tuple(wrong)).certificate.output == pytest.approx(0.25, abs=1e-3)
    wrong[1][3, 5, 2] = np.nan
    assert np.isnan(replace(reading, outputs=tuple(wrong)).certificate.output)


def test_a_query_without_visible_keys_is_not_an_error():
    seen = np.ones((12, 12), bool)
    seen[4] = False
    assert made(mask=allowed(seen)).certificate.row_sums < 3e-6


def test_heads_may_be_checked_one_by_one(monkeypatch):
    reading = made(sinks=np.linspace(-2, 3, HEADS, dtype=np.float32))
    together = certificate.certify(reading.seen)
    monkeypatch.setattr(certificate, "AT_ONCE", 1)
    assert certificate.certify(reading.seen).rows == together.rows
    assert certificate.certify(reading.seen).output == pytest.approx(together.output, abs=1e-7)


def test_tokens_without_a_text_are_certified():
    assert made((Token("a", 0, 0, 0), Token("b", 1, 0, 0))).certificate.rows == LAYERS * HEADS * 2

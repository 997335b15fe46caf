"""Projections equal a plain eigendecomposition of the covariance, for both kinds of model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regard import errors
from regard.attribution.projection import Vectors, project

from .cases import TEXT, readers

TEXTS = [TEXT, "dogs ran away", "a mat was on the cat"]


@pytest.mark.parametrize("of", ["queries", "keys", "values"])
def test_points_are_the_principal_components_of_the_vectors(folders: Any, of: Vectors) -> None:
    layer, head = 1, 4
    for reader in readers("llama", folders("llama")):
        found = project(reader, TEXTS, layer, head, of)
        rows, weights = [], []
        for text in TEXTS:
            reading = reader.read(text)
            attention, values = reading.seen[layer]
            dense = attention.dense()[head]
            chosen = {
                "queries": attention.queries[head],
                "keys": attention.keys[head // 3],
                "values": values[head // 3],
            }
            rows.append(chosen[of])
            weights.append(dense.max(1) if of == "queries" else dense.sum(0) / np.arange(len(dense), 0, -1))
        matrix = np.concatenate(rows).astype(np.float64)
        variances, directions = np.linalg.eigh(np.cov(matrix.T))
        np.testing.assert_allclose(found.explained, (variances / variances.sum())[::-1][:3], atol=1e-5)
        expected = (matrix - matrix.mean(0)) @ directions[:, ::-1][:, :3]
        np.testing.assert_allclose(np.abs(found.points), np.abs(expected), atol=1e-4)
        np.testing.assert_allclose(found.weights, np.concatenate(weights), atol=1e-5)
        assert found.words[:3] == tuple(reader.tokeniser.encode(TEXT).texts[:3])
        assert found.positions[: len(rows[0]) + 1].tolist() == [*range(len(rows[0])), 0]
        assert len(found.table()) == len(matrix)


def test_heads_and_kinds_that_are_not_there_are_refused(folders: Any) -> None:
    reader = readers("llama", folders("llama"))[0]
    with pytest.raises(errors.OutOfRange):
        project(reader, TEXTS, 1, 6)
    with pytest.raises(errors.OptionError, match="queries"):
        project(reader, TEXTS, 1, 0, "outputs")  # type: ignore[arg-type]

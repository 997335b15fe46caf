"""What type checkers know of the public names: mypy reads this file in `make check`.

An `assert_type` that is no longer true is an error there, and so is a `type: ignore` of a name that is not misspelt.
"""

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import regard
from regard.heads.ablation_effects import AblationStudy


def test_results_have_types():
    queries = np.zeros((2, 3, 4))
    attention = regard.Attention(queries, queries, mask=regard.causal() & regard.window(1))
    assert_type(attention, regard.Attention)
    assert_type(attention @ queries, NDArray[Any])
    assert_type(attention @ [[1.0], [2.0], [3.0]], NDArray[Any])
    assert_type(regard.causal() & regard.window(1), regard.Mask)


def test_functions_of_packages_have_types():
    def unused(model: regard.Model) -> None:
        from regard.watch import Seen, WatchedLayer

        with regard.watch(model) as seen:
            assert_type(seen, Seen)
        assert_type(seen.layers[0], WatchedLayer)
        assert_type(seen.layers[0].attention, regard.Attention)
        assert_type(model.read("The cat"), regard.Reading)
        assert_type(regard.heads.relations(model, "dev.conllu"), regard.heads.Profile)
        assert_type(regard.heads.atlas(model, ["books/"], "atlas/"), regard.heads.Profile)
        assert_type(regard.heads.ablation(model, ["The cat"]), AblationStudy)


def test_misspelt_names_are_errors():
    def unused(attention: regard.Attention, reading: regard.Reading) -> None:
        regard.atention  # type: ignore[attr-defined]
        regard.heads.relation  # type: ignore[attr-defined]
        regard.teaching.lesson  # type: ignore[attr-defined]
        regard.attention.Tops  # type: ignore[attr-defined]
        attention.entrpy  # type: ignore[attr-defined]
        reading.strongst  # type: ignore[attr-defined]

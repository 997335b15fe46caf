"""The logit lens equals the unembedded hidden states of transformers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regard import errors
from regard.attribution.lens import logit_lens

from ..models.checkpoints import torch
from ..small_models import encoder
from .cases import TEXT, readers, reference


@pytest.mark.parametrize("kind", ["gpt2", "llama", "gpt_neox"])
def test_probabilities_and_ranks_equal_transformers(folders: Any, kind: str) -> None:
    made = folders(kind)
    norm_name = {"gpt2": "transformer.ln_f", "llama": "model.norm", "gpt_neox": "gpt_neox.final_layer_norm"}[kind]
    for reader in readers(kind, made):
        lens = logit_lens(reader, TEXT)
        ids = reader.tokeniser.encode(TEXT).ids
        logits, states = reference(made, ids)
        twin = made.twin.double()
        with torch.no_grad():
            norm, head = twin.get_submodule(norm_name), twin.get_output_embeddings()
            expected = [head(norm(state)).softmax(-1) for state in states[:-1]] + [logits.softmax(-1)]
        made.twin.float()
        for layer, probabilities in enumerate(expected):
            np.testing.assert_allclose(lens.probability[layer], probabilities.amax(1), atol=1e-5)
            followed = probabilities[range(len(ids) - 1), ids[1:]]
            np.testing.assert_allclose(lens.target_probability[layer, :-1], followed, atol=1e-5)
            ranks = (probabilities[:-1] > followed[:, None]).sum(1)
            np.testing.assert_array_equal(lens.target_rank[layer, :-1], ranks)
        assert np.isnan(lens.target_probability[:, -1]).all() and (lens.target_rank[:, -1] == -1).all()


def test_a_target_is_followed_at_every_position_and_tables_name_it(folders: Any) -> None:
    reader = readers("llama", folders("llama"))[0]
    lens = logit_lens(reader, TEXT, "dogs")
    assert (lens.target_rank >= 0).all() and set(lens.target_texts) == {"dogs"}
    table = lens.table(-1)
    assert table["after"] == ("embedding", "layer 0", "layer 1", "layer 2")
    assert table["of target"][-1] == lens.target_probability[-1, -1]
    assert len(lens.table()) == 4 * len(lens.tokens)


def test_a_model_without_an_unembedding_is_refused() -> None:
    with pytest.raises(errors.Unsupported, match="no unembedding") as problem:
        logit_lens(encoder(), "the kids left")
    assert "toward" not in str(problem.value)  # which the lens does not have

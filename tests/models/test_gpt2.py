"""GPT-2 equals transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.errors import OptionError
from regard.models.model import opened

from .checkpoints import SENTENCES, Tiny, differences, transformers, write
from .test_bert import EXACT, changed

SMALL: dict[str, Any] = {"vocab_size": 31, "n_embd": 12, "n_layer": 3, "n_head": 3, "n_positions": 37}


@pytest.fixture(
    params=[
        ("GPT2LMHeadModel", {}),
        ("GPT2Model", {"n_inner": 29}),
        ("GPT2LMHeadModel", {"scale_attn_by_inverse_layer_idx": True, "activation_function": "relu"}),
        ("GPT2LMHeadModel", {"scale_attn_weights": False, "layer_norm_epsilon": 1e-3}),
        ("GPT2LMHeadModel", {"tie_word_embeddings": False}),
    ],
    ids=lambda given: "-".join([given[0], *given[1]]),
)
def tiny(request: pytest.FixtureRequest, tmp_path: Path) -> Tiny:
    model_class, more = request.param
    return write(tmp_path, transformers.GPT2Config(**SMALL, **more), "causal", model_class)


def test_states_and_weights_equal_transformers(tiny: Tiny) -> None:
    model = tiny.open()
    assert (model.kind, model.longest) == ("gpt2", 37)
    for reading in model.read(SENTENCES):
        assert max(differences(reading, model, tiny.twin)) < EXACT


def test_weights_are_contiguous(tiny: Tiny) -> None:
    for name, array in tiny.open().transformer.parameters().items():
        assert array.flags.c_contiguous, name


def test_queries_keys_and_values_are_one_product(tiny: Tiny) -> None:
    for block in tiny.open().blocks:
        weights = [layer.weight for layer in (block.attention.w_q, block.attention.w_k, block.attention.w_v)]
        assert all(weight.base is weights[0].base for weight in weights)
        assert weights[0].base is not None and weights[0].base.shape == (36, 12)


def test_an_untied_head_is_used(tmp_path: Path) -> None:
    config = transformers.GPT2Config(**SMALL, tie_word_embeddings=False)
    model = write(tmp_path, config, "causal", "GPT2LMHeadModel").open()
    assert model.transformer.head is not None
    assert not np.array_equal(model.transformer.head.weight, model.transformer.embedding.weight)


def test_invalid_settings_are_named(tmp_path: Path) -> None:
    write(tmp_path, transformers.GPT2Config(**SMALL), "causal", "GPT2LMHeadModel")
    with pytest.raises(OptionError, match=r"wte\.weight"):
        opened(changed(tmp_path, n_embd=13))
    with pytest.raises(OptionError, match="5 heads"):
        opened(changed(tmp_path, n_embd=12, n_head=5))

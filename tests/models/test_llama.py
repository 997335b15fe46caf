"""Llama and its relatives equal transformers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.errors import OptionError, Unsupported
from regard.models.model import opened

from .checkpoints import SENTENCES, Tiny, differences, transformers, twin_of, write
from .test_bert import EXACT, changed

SMALL: dict[str, Any] = {
    "vocab_size": 31, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2,
    "intermediate_size": 29, "max_position_embeddings": 61,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 19,
}  # fmt: skip
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("Llama", {}),
    ("Llama", {"tie_word_embeddings": True, "rms_norm_eps": 1e-3}),
    ("Llama", {"attention_bias": True, "mlp_bias": True, "head_dim": 6}),
    ("Llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 100.0}}),
    ("Llama", {"rope_parameters": {"rope_type": "linear", "rope_theta": 100.0, "factor": 4.0}}),
    ("Llama", {"rope_parameters": LLAMA3}),
    ("Mistral", {"sliding_window": 3, "head_dim": 8}),
    ("Mistral", {"sliding_window": None, "head_dim": 4}),
    ("Qwen2", {}),
    ("Qwen2", {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}),
    ("Qwen3", {"head_dim": 10}),
    ("Qwen3", {"head_dim": 4, "attention_bias": True}),
]


@pytest.fixture(params=KINDS, ids=lambda given: "-".join([given[0], *given[1]]))
def tiny(request: pytest.FixtureRequest, tmp_path: Path) -> Tiny:
    kind, more = request.param
    config = getattr(transformers, f"{kind}Config")(**SMALL, **more)
    return write(tmp_path, config, "causal", f"{kind}ForCausalLM")


def test_states_and_weights_equal_transformers(tiny: Tiny) -> None:
    model = tiny.open()
    assert (model.kind, model.longest) == ("llama", 61)
    for reading in model.read([*SENTENCES, " ".join(SENTENCES)]):
        assert max(differences(reading, model, tiny.twin)) < EXACT


def test_texts_read_together_equal_texts_read_alone(tiny: Tiny) -> None:
    model = tiny.open()
    for text, reading in zip(SENTENCES, model.read(SENTENCES), strict=True):
        alone = model.read(text)
        for ours, right in zip(reading.states, alone.states, strict=True):
            np.testing.assert_allclose(ours, right, atol=1e-5 * np.abs(right).max())
        for ours, right in zip(reading.seen, alone.seen, strict=True):
            np.testing.assert_allclose(ours.attention.dense(), right.attention.dense(), atol=1e-5)


def test_later_tokens_have_zero_weight(tiny: Tiny) -> None:
    for seen in tiny.open().read(SENTENCES[0]).seen:
        assert not np.triu(seen.attention.dense(), 1).any()


def test_keys_before_the_window_have_zero_weight(tmp_path: Path) -> None:
    config = transformers.MistralConfig(**SMALL, sliding_window=3, head_dim=8)
    reading = write(tmp_path, config, "causal", "MistralForCausalLM").open().read(SENTENCES[0])
    for seen in reading.seen:
        weights = seen.attention.dense()
        assert not np.tril(weights, -3).any()
        assert (np.diagonal(weights, -2, 1, 2) > 0).all()


def test_a_model_without_a_head_is_read(tmp_path: Path) -> None:
    tiny = write(tmp_path, transformers.LlamaConfig(**SMALL), "causal", "LlamaModel")
    model = tiny.open()
    assert max(differences(model.read(SENTENCES[0]), model, tiny.twin)) < EXACT


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"rope_parameters": {"rope_type": "mrope", "factor": 2.0}}, r"mrope(?s:.*)default, linear, dynamic"),
        ({"rope_parameters": {"rope_type": "llama3", "factor": 2.0}}, r"no setting 'rope_parameters\.low_freq_factor'"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5}}, r"0\.5 of each head"),
        ({"rope_parameters": [1]}, r"'rope_parameters' is \[1\]; expected an object"),
        ({"rope_parameters": {"rope_theta": 0}}, r"'rope_parameters\.rope_theta' is 0; expected a finite number"),
        ({"rope_parameters": {"rope_theta": "x"}}, r"'rope_parameters\.rope_theta' is 'x'"),
        ({"attention_bias": 1}, "'attention_bias' is 1; expected true or false"),
        ({"model_type": "mistral"}, "model_type is 'mistral'(?s:.*)must name the same family"),
        ({"num_key_value_heads": 4}, r"k_proj\.weight"),
        ({"head_dim": 6}, r"q_proj\.weight"),
        ({"hidden_size": 10**9}, r"embed_tokens\.weight"),
        ({"num_hidden_layers": 10**9}, r"layers\.3\."),
    ],
)
def test_invalid_settings_are_named(tmp_path: Path, settings: dict[str, Any], what: str) -> None:
    write(tmp_path, transformers.LlamaConfig(**SMALL), "causal", "LlamaForCausalLM")
    with pytest.raises((OptionError, Unsupported), match=what):
        opened(changed(tmp_path, **settings))


def test_a_text_without_tokens_is_refused(tmp_path: Path) -> None:
    model = write(tmp_path, transformers.LlamaConfig(**SMALL), "causal", "LlamaForCausalLM").open()
    with pytest.raises(OptionError, match="at least one token"):
        model.read("")


def test_smollm2_equals_transformers(smollm2_path: Path) -> None:
    model = opened(smollm2_path, "smollm2")
    twin = twin_of(model)
    texts = ["The kids were scared of the lions, so they left right away.", "Keys on the table belong to Sarah. " * 9]
    for reading in model.read(texts):
        assert max(differences(reading, model, twin)) < 1e-3


def test_reading_with_a_quantised_model_ends_without_a_word_on_standard_error(smollm2_path):
    command = [sys.executable, "-m", "regard", "see", "The kids left.", "--model", str(smollm2_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")

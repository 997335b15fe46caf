"""Configurations with missing, stray or rare settings: equal to transformers, or refused.

Each case is a possible config.json. transformers builds a tiny random model from the same settings; what
Regard computes must equal it, or be refused with a RegardError. Where transformers itself fails, either is
fine.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.errors import RegardError
from regard.models.model import opened

from .checkpoints import Tiny, differences, tokeniser, torch, transformers
from .test_bert import EXACT

LEFT_OUT = object()
LLAMA: dict[str, Any] = {
    "vocab_size": 31, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2,
    "intermediate_size": 29, "max_position_embeddings": 61,
}  # fmt: skip
BASES: dict[str, dict[str, Any]] = {
    "Llama": LLAMA,
    "Mistral": LLAMA | {"sliding_window": None},
    "Qwen2": LLAMA,
    "Qwen3": LLAMA | {"head_dim": 4},
    "Bert": {
        "vocab_size": 37, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 29,
        "max_position_embeddings": 53,
    },
    "Roberta": {
        "vocab_size": 37, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 29,
        "max_position_embeddings": 53, "pad_token_id": 0,
    },
    "DistilBert": {
        "vocab_size": 37, "dim": 12, "n_layers": 2, "n_heads": 3, "hidden_dim": 29, "max_position_embeddings": 53,
    },
    "GPT2": {"vocab_size": 31, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 53},
}  # fmt: skip
SHORT, LONG = [1.0, 1.5], [2.0, 5.0]
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 19}
LONGROPE = {"rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG, "original_max_position_embeddings": 19}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
ROPES: list[dict[str, Any]] = [
    {"rope_theta": 100.0},
    {"rope_theta": 1000},
    {"rope_scaling": None, "rope_theta": 100.0},
    {"rope_scaling": {}},
    {"rope_scaling": {"type": "linear", "factor": 4.0}},
    {"rope_scaling": {"rope_type": "linear", "factor": 2, "rope_theta": 50.0}, "rope_theta": 100.0},
    {
        "rope_scaling": {"rope_type": "linear", "factor": 2.0},
        "rope_parameters": {"rope_type": "linear", "factor": 9.0, "rope_theta": 10.0},
    },
    {"rope_parameters": {"rope_theta": 100.0}},
    {"rope_parameters": {"rope_type": "default"}, "rope_theta": 100.0},
    {"rope_scaling": {"rope_type": "linear"}},
    {"rope_scaling": {"rope_type": "linear", "factor": None}},
    {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}},
    {"rope_scaling": {"type": "dynamic", "factor": 2.0, "rope_theta": 100.0}},
    {"rope_scaling": YARN},
    {"rope_scaling": YARN | {"rope_theta": 100.0, "beta_fast": 4.0, "beta_slow": 0.5}},
    {"rope_scaling": YARN | {"attention_factor": 0.7}, "rope_theta": 100.0},
    {"rope_scaling": YARN | {"mscale": 0.9, "mscale_all_dim": 0.5}, "rope_theta": 100.0},
    {"rope_scaling": YARN | {"mscale": 0.9}, "rope_theta": 100.0},
    {"rope_scaling": YARN | {"truncate": False}, "rope_theta": 30.0},
    {"rope_scaling": {"rope_type": "yarn", "factor": 2.0}, "rope_theta": 100.0},
    {"rope_scaling": {"rope_type": "yarn", "factor": 2.0}, "original_max_position_embeddings": 13},
    {"rope_scaling": YARN | {"factor": None}, "rope_theta": 100.0},
    {"rope_scaling": LONGROPE, "rope_theta": 100.0},
    {"rope_scaling": LONGROPE | {"factor": 3.0}},
    {"rope_scaling": LONGROPE | {"attention_factor": 1.25}},
    {"rope_scaling": LONGROPE, "original_max_position_embeddings": 7},
    {"rope_scaling": LONGROPE | {"short_factor": [1.0]}},
    {"rope_scaling": {**LONGROPE, "long_factor": "x"}},
    {"rope_scaling": LLAMA3, "rope_theta": 100.0},
    {"rope_scaling": LLAMA3 | {"original_max_position_embeddings": 19}},
    {"rope_scaling": LLAMA3 | {"high_freq_factor": 1.0}},
    {"partial_rotary_factor": 0.5},
    {"partial_rotary_factor": 0.5, "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
    {"rope_parameters": {"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 100.0}},
    {"rope_parameters": {"rope_type": "proportional", "factor": 2.0}},
    {"rope_parameters": {"rope_type": "mrope", "mrope_section": [1, 1]}},
    {"rope_parameters": {"rope_type": "su", "factor": 2.0}},
    {"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 2.0}}},
]
WINDOWS: list[dict[str, Any]] = [
    {"sliding_window": 3},
    {"sliding_window": 0},
    {"sliding_window": 3, "use_sliding_window": False},
    {"sliding_window": 3, "use_sliding_window": True},
    {"sliding_window": 3, "use_sliding_window": True, "max_window_layers": 1},
    {"sliding_window": 3, "use_sliding_window": True, "max_window_layers": 0},
    {"sliding_window": None, "use_sliding_window": True, "max_window_layers": 0},
    {"sliding_window": 5, "layer_types": ["full_attention", "sliding_attention"]},
    {"sliding_window": 5, "layer_types": ["full_attention", "sliding_attention"], "use_sliding_window": True},
    {"sliding_window": 5, "layer_types": ["sliding_attention", "attention"], "use_sliding_window": True},
    {"layer_types": ["sliding_attention", "full_attention"]},
    {"layer_types": ["full_attention"], "sliding_window": 3, "use_sliding_window": True},
    {"layer_types": ["chunked_attention", "full_attention"], "attention_chunk_size": 4},
    {"attention_chunk_size": 4},
]
OTHERS: list[dict[str, Any]] = [
    {"hidden_act": "quick_gelu"},
    {"hidden_act": "gelu_accurate"},
    {"hidden_act": "relu6"},
    {"rms_norm_eps": LEFT_OUT},
    {"layer_norm_eps": 1e-2},
    {"head_dim": 8},
    {"head_dim": None},
    {"head_dim": LEFT_OUT},
    {"num_key_value_heads": None},
    {"num_key_value_heads": LEFT_OUT, "num_attention_heads": 8},
    {"attention_bias": True},
    {"mlp_bias": True},
    {"tie_word_embeddings": True},
    {"is_causal": False},
    {"is_causal": False, "sliding_window": 3, "use_sliding_window": True, "max_window_layers": 0},
    {"pretraining_tp": 2, "attention_dropout": 0.5},
    {"per_layer_config": {"0": {"rms_norm_eps": 0.5}}},
    {"query_pre_attn_scalar": 7.0, "attn_logit_softcapping": 5.0, "attention_multiplier": 0.1},
    {"num_hidden_layers": LEFT_OUT},
    {"max_position_embeddings": LEFT_OUT},
]
ENCODERS: list[dict[str, Any]] = [
    {},
    {"hidden_act": "quick_gelu", "activation": "quick_gelu"},
    {"layer_norm_eps": LEFT_OUT},
    {"layer_norm_eps": 1e-2},
    {"pad_token_id": 4},
    {"pad_token_id": None},
    {"pad_token_id": LEFT_OUT},
    {"pad_token_id": 50},
    {"position_embedding_type": "relative_key"},
    {"is_decoder": True},
    {"sinusoidal_pos_embds": True},
    {"type_vocab_size": 1},
    {"sliding_window": 3, "is_causal": True},
]
GPT2: list[dict[str, Any]] = [
    {"activation_function": "quick_gelu"},
    {"hidden_act": "relu"},
    {"n_inner": None},
    {"n_inner": 17},
    {"scale_attn_weights": False},
    {"scale_attn_by_inverse_layer_idx": True, "reorder_and_upcast_attn": True},
    {"hidden_size": 24},
    {"add_cross_attention": True},
    {"layer_norm_epsilon": 1e-2, "layer_norm_eps": 0.5},
    {"is_causal": False},
    {"tie_word_embeddings": False},
]
CASES = [
    *itertools.product(("Llama", "Mistral", "Qwen2", "Qwen3"), [{}, *WINDOWS, *OTHERS]),
    *itertools.product(("Llama",), ROPES),
    *((("Mistral", "Qwen2", "Qwen3")[place % 3], rope) for place, rope in enumerate(ROPES)),
    *itertools.product(("Bert", "Roberta", "DistilBert"), ENCODERS),
    *itertools.product(("GPT2",), GPT2),
]
TEXTS = [
    "the kids were scared of the lions so they left right away the cat sat on the table action gets results keys",
    "the cat sat",
]


def settings_of(family: str, changed: dict[str, Any]) -> dict[str, Any]:
    base = BASES[family] | changed
    return {name: value for name, value in base.items() if value is not LEFT_OUT}


def build(family: str, settings: dict[str, Any]) -> Any | None:
    """The model of transformers with these settings, with random weights; None where this fails."""
    torch.manual_seed(0)
    copied = json.loads(json.dumps(settings))
    try:
        config = getattr(transformers, f"{family}Config")(**copied)
        twin = getattr(transformers, f"{family}Model")(config).eval()
        twin.set_attn_implementation("eager")
        with torch.no_grad():
            for parameter in twin.parameters():
                spread, middle = (0.3, 0.0) if parameter.ndim > 1 else (0.1, 0.5)
                parameter.copy_(torch.randn_like(parameter) * spread + middle)
            twin(torch.arange(5, 25)[None])
    except Exception:  # noqa: BLE001 (whatever transformers raises)
        return None
    return twin


def checkpoint(folder: Path, family: str, settings: dict[str, Any]) -> Any | None:
    """Write config.json as given, with weights that fit where transformers accepts the settings."""
    twin = build(family, settings)
    saved = twin or build(family, BASES[family])
    assert saved is not None, family
    saved.save_pretrained(folder)
    written = json.loads((folder / "config.json").read_text())
    about = {name: written[name] for name in ("architectures", "model_type")}
    (folder / "config.json").write_text(json.dumps(about | settings))
    kind = "bert" if "Bert" in family or family == "Roberta" else "causal"
    tokeniser(kind, settings["vocab_size"]).save(str(folder / "tokenizer.json"))
    return twin


@pytest.mark.parametrize(
    ("family", "changed"),
    [
        pytest.param(*case, id=f"{case[0]}-{place}", marks=() if place % 3 == 0 else pytest.mark.slow)
        for place, case in enumerate(CASES)
    ],
)
def test_a_configuration_equals_transformers_or_is_refused(
    tmp_path: Path, family: str, changed: dict[str, Any]
) -> None:
    twin = checkpoint(tmp_path, family, settings_of(family, changed))
    try:
        model = opened(tmp_path, "tiny")
        readings = model.read(TEXTS)
    except RegardError:
        return
    if twin is None:
        return
    for reading in readings:
        assert max(differences(reading, model, twin)) < EXACT


def test_there_are_at_least_a_hundred_configurations() -> None:
    assert len(CASES) >= 100


MUST_BE_READ = [
    ("Llama", {"sliding_window": 3}),
    ("Llama", {"sliding_window": 5, "layer_types": ["full_attention", "sliding_attention"]}),
    ("Mistral", {"sliding_window": 5, "layer_types": ["full_attention", "sliding_attention"]}),
    ("Qwen2", {"sliding_window": 3}),
    ("Qwen3", {"sliding_window": 3}),
    ("Qwen2", {"sliding_window": 3, "use_sliding_window": True}),
    ("Qwen3", {"head_dim": LEFT_OUT}),
    ("Llama", {"hidden_act": "quick_gelu"}),
    ("Llama", {"rope_scaling": YARN}),
    ("Llama", {"rope_scaling": LONGROPE}),
    ("Llama", {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}),
    ("Llama", {"partial_rotary_factor": 0.5}),
    ("Llama", {"rope_parameters": {"rope_type": "proportional", "partial_rotary_factor": 0.5}}),
]


@pytest.mark.parametrize(("family", "changed"), MUST_BE_READ)
def test_supported_configurations_are_not_refused(tmp_path: Path, family: str, changed: dict[str, Any]) -> None:
    assert checkpoint(tmp_path, family, settings_of(family, changed)) is not None
    assert opened(tmp_path, "tiny").read(TEXTS)


@pytest.mark.parametrize("padding", [0, 7])
def test_padding_tokens_have_no_position_in_roberta(tmp_path: Path, padding: int) -> None:
    twin = checkpoint(tmp_path, "Roberta", settings_of("Roberta", {"pad_token_id": padding}))
    model = opened(tmp_path, "tiny")
    word = model.tokeniser.token(padding)
    texts = [f"the {word} cat {word} sat", f"{word} lions", "the cat sat"]
    readings = model.read(texts)
    assert sum(token.id == padding for token in readings[0].tokens) == 2
    for text, reading in zip(texts, readings, strict=True):
        assert max(differences(reading, model, twin)) < EXACT
        np.testing.assert_allclose(model.read(text).states[0], reading.states[0], atol=1e-6)
        ids = np.array([token.id for token in reading.tokens])
        np.testing.assert_allclose(model.transformer.embed(ids), reading.states[0], atol=1e-6)


def test_a_tied_head_is_the_embedding(tmp_path: Path) -> None:
    config = transformers.LlamaConfig(**LLAMA, tie_word_embeddings=True)
    twin = transformers.LlamaForCausalLM(config).eval()
    twin.save_pretrained(tmp_path)
    tokeniser("causal", 31).save(str(tmp_path / "tokenizer.json"))
    model = Tiny(tmp_path, twin).open()
    assert model.transformer.head is not None
    assert np.array_equal(model.transformer.head.weight, model.transformer.embedding.weight)

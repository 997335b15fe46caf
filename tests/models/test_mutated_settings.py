"""Thousands of mutated config.json: each is read, with finite numbers, or refused with a RegardError."""

from __future__ import annotations

import json
import random
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.errors import RegardError
from regard.models.files import Checkpoint, open_checkpoint
from regard.models.model import Model
from regard.models.settings import FAMILIES

from .test_odd_configurations import LLAMA3, LONGROPE, YARN, checkpoint, settings_of

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 7, 2**31 - 1, 2**31, 2**63, 10**400, 0.0, -0.0, 0.5, 1.0, 1e-300, 1e300, -1.5,
    float("nan"), float("inf"), float("-inf"), "", "x", "1", "gelu", "linear", "yarn", "longrope", "ü" * 300, [], [1],
    [1.0, 2.0], ["full_attention", "sliding_attention"], [None] * 2, {}, {"a": 1}, {"rope_type": "yarn"}, [[[[]]]],
]  # fmt: skip
MORE = [
    "rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor", "sliding_window", "layer_types",
    "use_sliding_window", "max_window_layers", "attention_bias", "mlp_bias", "hidden_act", "rms_norm_eps", "is_causal",
    "original_max_position_embeddings", "tie_word_embeddings", "per_layer_config", "head_dim", "pad_token_id",
    "quantization_config", "eos_token_id", "activation_function", "n_inner", "scale_attn_weights", "layer_norm_epsilon",
    "scale_attn_by_inverse_layer_idx", "layer_norm_eps", "is_decoder", "add_cross_attention", "activation",
    "position_embedding_type", "hidden_size", "architectures", "model_type",
]  # fmt: skip
STARTS: list[tuple[str, dict[str, Any]]] = [
    ("Llama", {"rope_scaling": YARN | {"beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "attention_factor": None}}),
    ("Llama", {"rope_scaling": LLAMA3 | {"original_max_position_embeddings": 19}}),
    ("Mistral", {"rope_scaling": LONGROPE, "sliding_window": 3}),
    ("Qwen2", {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1}),
    ("Qwen3", {"layer_types": ["full_attention", "sliding_attention"], "use_sliding_window": True}),
    ("Bert", {}),
    ("Roberta", {}),
    ("DistilBert", {}),
    ("GPT2", {}),
]
MUTATIONS = 400  # of each start


def mutated(settings: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """One or two values replaced, added or removed, at the top or inside an object."""
    made: dict[str, Any] = json.loads(json.dumps(settings))
    for _ in range(rng.choice((1, 1, 2))):
        inside = [made, *(value for value in made.values() if isinstance(value, dict))]
        chosen = rng.choice(inside)
        name = rng.choice([*chosen, *MORE])
        if rng.random() < 0.1:
            chosen.pop(name, None)
        else:
            chosen[name] = rng.choice(VALUES)
    return made


@pytest.mark.parametrize(("family", "changed"), STARTS, ids=[f"{one[0]}-{place}" for place, one in enumerate(STARTS)])
def test_mutated_settings_are_read_or_refused(tmp_path: Path, family: str, changed: dict[str, Any]) -> None:
    checkpoint(tmp_path, family, settings_of(family, changed))
    sound = open_checkpoint(tmp_path)
    rng = random.Random(f"{family} {sorted(changed)}")
    read = 0
    for _ in range(MUTATIONS):
        config = mutated(sound.config, rng)
        try:
            described = Checkpoint(sound.path, sound.architecture, config, sound.weights, lambda: sound.tokeniser)
            kind = FAMILIES[described.family][1]
            transformer, longest = import_module(f"regard.models.{kind}").transformer(described)
            model = Model("tiny", "llama", transformer, sound.tokeniser, config, longest)
            reading = model.read("the cat sat")
        except RegardError:
            continue
        read += 1
        assert all(np.isfinite(state).all() for state in reading.states), config
    assert read > MUTATIONS // 20  # most of what is left out or stray does no harm


def test_mutated_files_are_read_or_refused(tmp_path: Path) -> None:
    """The same through the file, with mutated architecture and quantisation."""
    checkpoint(tmp_path, "Llama", settings_of("Llama", {}))
    path = tmp_path / "config.json"
    sound = json.loads(path.read_text())
    rng = random.Random(5)
    for _ in range(150):
        path.write_text(json.dumps(mutated(sound, rng)))
        try:
            from regard.models.model import opened

            assert np.isfinite(opened(tmp_path).read("the cat sat").states[-1]).all()
        except RegardError:
            continue

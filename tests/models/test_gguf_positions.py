"""Rotary positions of GGUF files: parts of heads, divisors of frequencies and scaling, as defined by llama.cpp."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.errors import OptionError, Unsupported
from regard.models.files.gguf import in_hub_order
from regard.models.model import opened

from .attacks import gguf, llama_metadata

HEADS, KEY_HEADS, HEAD_DIM, WIDTH = 2, 1, 8, 16
TEXT = "hehe he hehehe"


def metadata(architecture: str, **changed: Any) -> dict[str, Any]:
    found = {
        name.replace("llama.", f"{architecture}."): value
        for name, value in llama_metadata(**{"llama.embedding_length": WIDTH}).items()
    }
    changed = {f"{architecture}.{name}": value for name, value in changed.items()}
    return found | {"general.architecture": architecture} | changed


def tensors(biases: bool) -> dict[str, Any]:
    rng = np.random.default_rng(7)
    shapes: dict[str, tuple[int, ...]] = {
        "attn_norm.weight": (WIDTH,), "attn_q.weight": (HEADS * HEAD_DIM, WIDTH), "ffn_norm.weight": (WIDTH,),
        "attn_k.weight": (KEY_HEADS * HEAD_DIM, WIDTH), "attn_v.weight": (KEY_HEADS * HEAD_DIM, WIDTH),
        "attn_output.weight": (WIDTH, HEADS * HEAD_DIM), "ffn_gate.weight": (16, WIDTH), "ffn_up.weight": (16, WIDTH),
        "ffn_down.weight": (WIDTH, 16),
    }  # fmt: skip
    if biases:
        shapes |= {f"attn_{part}.bias": (count * HEAD_DIM,) for part, count in (("q", HEADS), ("k", 1), ("v", 1))}
    whole = {f"blk.0.{name}": shape for name, shape in shapes.items()}
    whole |= {"token_embd.weight": (258, WIDTH), "output_norm.weight": (WIDTH,)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in whole.items()}


def expected_queries(stored: dict[str, Any], states: Any, frequencies: Any, architecture: str) -> Any:
    """Rotated queries (head, token, head_dim) in float64, by the definition."""
    x = states.astype(np.float64)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * stored["blk.0.attn_norm.weight"]
    weight = stored["blk.0.attn_q.weight"].astype(np.float64)
    weight = in_hub_order(weight, HEADS) if architecture == "llama" else weight
    queries = x @ weight.T + stored.get("blk.0.attn_q.bias", 0.0)
    queries = queries.reshape(len(x), HEADS, HEAD_DIM).swapaxes(0, 1)
    half = len(frequencies)
    angles = np.arange(len(x))[:, None] * frequencies
    first, second = queries[..., :half].copy(), queries[..., half : 2 * half].copy()
    queries[..., :half] = first * np.cos(angles) - second * np.sin(angles)
    queries[..., half : 2 * half] = second * np.cos(angles) + first * np.sin(angles)
    return queries


def test_only_part_of_each_head_may_be_rotated(tmp_path: Path) -> None:
    stored = tensors(biases=True)
    path = gguf(tmp_path / "tiny.gguf", metadata("qwen2", **{"rope.dimension_count": 4}), stored)
    reading = opened(path).read(TEXT)
    frequencies = 10000.0 ** (-2 * np.arange(2) / 4)
    right = expected_queries(stored, reading.states[0], frequencies, "qwen2")
    np.testing.assert_allclose(reading.attention(0).queries, right, atol=1e-4)


def test_a_llama_with_partly_rotated_heads_is_refused(tmp_path: Path) -> None:
    stored = tensors(biases=False)
    reading = opened(gguf(tmp_path / "a.gguf", metadata("llama", **{"rope.dimension_count": 8}), stored)).read(TEXT)
    right = expected_queries(stored, reading.states[0], 10000.0 ** (-2 * np.arange(4) / 8), "llama")
    np.testing.assert_allclose(reading.attention(0).queries, right, atol=1e-4)
    with pytest.raises(Unsupported, match="dimension_count is 4 for heads of 8"):
        opened(gguf(tmp_path / "b.gguf", metadata("llama", **{"rope.dimension_count": 4}), stored))
    with pytest.raises(OptionError, match="rope_dimension_count"):
        opened(gguf(tmp_path / "c.gguf", metadata("llama", **{"rope.dimension_count": 16}), stored))


def test_a_tensor_of_divisors_divides_each_frequency(tmp_path: Path) -> None:
    stored = tensors(biases=False) | {"rope_freqs.weight": np.array([1, 1, 2, 8], np.float32)}
    reading = opened(gguf(tmp_path / "tiny.gguf", metadata("llama"), stored)).read(TEXT)
    frequencies = 10000.0 ** (-2 * np.arange(4) / 8) / np.array([1, 1, 2, 8])
    right = expected_queries(stored, reading.states[0], frequencies, "llama")
    np.testing.assert_allclose(reading.attention(0).queries, right, atol=1e-4)


def test_linear_scaling_divides_all_frequencies(tmp_path: Path) -> None:
    stored = tensors(biases=False)
    more = {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0, "rope.freq_base": 100.0}
    reading = opened(gguf(tmp_path / "tiny.gguf", metadata("llama", **more), stored)).read(TEXT)
    right = expected_queries(stored, reading.states[0], 100.0 ** (-2 * np.arange(4) / 8) / 4, "llama")
    np.testing.assert_allclose(reading.attention(0).queries, right, atol=1e-4)


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"rope.scaling.type": "longrope", "rope.scaling.factor": 2.0}, "longrope"),
        ({"rope.scaling.type": "yarn", "rope.scaling.yarn_ext_factor": 2.0}, "yarn_ext_factor"),
        ({"rope.scaling.type": "yarn"}, "factor"),
        ({"attention.sliding_window": 4}, "sliding_window"),
        ({"attention.causal": False}, "attention.causal"),
        ({"attention.value_length": 4}, "value_length"),
        ({"attention.scale": 0.5}, "attention.scale"),
        ({"expert_count": 8}, "expert_count"),
        ({"logit_scale": 0.5}, "logit_scale"),
        ({"attention.head_count": 0}, "heads"),
        ({"rope.freq_base": 0.0}, "rope_theta"),
    ],
)
def test_settings_that_change_the_result_are_refused(tmp_path: Path, more: dict[str, Any], complaint: str) -> None:
    path = gguf(tmp_path / "tiny.gguf", metadata("llama", **more), tensors(biases=False))
    with pytest.raises((OptionError, Unsupported), match=complaint):
        opened(path)

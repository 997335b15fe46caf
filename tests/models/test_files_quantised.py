"""Quantised safetensors: int8 with exactly defined scales is dequantised, everything else is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.errors import OptionError, RegardError, Unsupported
from regard.models.model import opened

from .checkpoints import SENTENCES, differences, torch, transformers, write
from .test_bert import EXACT

SMALL: dict[str, Any] = {
    "vocab_size": 31, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2,
    "intermediate_size": 30, "max_position_embeddings": 61,
}  # fmt: skip
COMPRESSED = {"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {}}
BITSANDBYTES = {"quant_method": "bitsandbytes", "load_in_8bit": True, "load_in_4bit": False}
Arrays = dict[str, Any]


def quantised(folder: Path, config: dict[str, Any] | None, scales: str, **options: Any) -> Any:
    """A Llama whose projections are stored as int8, and its twin with the dequantised weights."""
    from safetensors.torch import load_file, save_file

    tiny = write(folder, transformers.LlamaConfig(**SMALL), "causal", "LlamaForCausalLM")
    stored: Arrays = {}
    exact = {}
    for name, weight in load_file(folder / "model.safetensors").items():
        if not name.endswith("_proj.weight"):
            stored[name] = weight
            continue
        module = name.removesuffix(".weight")
        parts, exact[name] = PARTS[scales](weight.double())
        stored |= {f"{module}.{part}": array for part, array in parts.items()}
    stored |= options.get("more", {})
    for name in options.get("without", ()):
        stored = {key: array for key, array in stored.items() if not key.endswith(name)}
    save_file(stored, folder / "model.safetensors")
    settings = json.loads((folder / "config.json").read_text())
    if config is not None:
        settings["quantization_config"] = config
    (folder / "config.json").write_text(json.dumps(settings))
    with torch.no_grad():
        for name, weight in exact.items():
            tiny.twin.get_parameter(name).copy_(weight.float())
    return tiny


def by_row(weight: Any) -> tuple[Arrays, Any]:
    scale = (weight.abs().amax(1, keepdim=True) / 127).bfloat16()
    numbers = (weight / scale.double()).round().clamp(-128, 127).to(torch.int8)
    return {"weight": numbers, "weight_scale": scale}, numbers.double() * scale.double()


def by_tensor(weight: Any) -> tuple[Arrays, Any]:
    scale = (weight.abs().amax() / 127).float().reshape(1)
    numbers = (weight / scale.double()).round().clamp(-128, 127).to(torch.int8)
    return {"weight": numbers, "weight_scale": scale, "input_scale": scale.clone()}, numbers.double() * scale.double()


def with_zero_points(weight: Any) -> tuple[Arrays, Any]:
    scale = ((weight.amax(1, keepdim=True) - weight.amin(1, keepdim=True)) / 255).float()
    zero = (-128 - weight.amin(1, keepdim=True) / scale.double()).round().clamp(-128, 127).to(torch.int8)
    numbers = (weight / scale.double() + zero.double()).round().clamp(-128, 127).to(torch.int8)
    parts = {"weight": numbers, "weight_scale": scale, "weight_zero_point": zero}
    return parts, (numbers.double() - zero.double()) * scale.double()


def by_group(weight: Any) -> tuple[Arrays, Any]:
    grouped = weight.reshape(len(weight), 2, -1)
    scale = (grouped.abs().amax(2) / 127).half()
    numbers = (grouped / scale.double()[..., None]).round().clamp(-128, 127).to(torch.int8)
    exact = (numbers.double() * scale.double()[..., None]).reshape(weight.shape)
    return {"weight": numbers.reshape(weight.shape), "weight_scale": scale}, exact


def by_scb(weight: Any) -> tuple[Arrays, Any]:
    scb = weight.abs().amax(1).float()
    numbers = (weight * 127 / scb.double()[:, None]).round().to(torch.int8)
    parts = {"weight": numbers, "SCB": scb, "weight_format": torch.tensor(0, dtype=torch.uint8)}
    return parts, numbers.double() * scb.double()[:, None] / 127


PARTS = {"rows": by_row, "tensor": by_tensor, "zeros": with_zero_points, "groups": by_group, "scb": by_scb}


@pytest.mark.parametrize(
    ("config", "scales"),
    [
        (COMPRESSED, "rows"),
        (COMPRESSED | {"format": "naive-quantized", "kv_cache_scheme": None}, "tensor"),
        (COMPRESSED, "zeros"),
        (COMPRESSED, "groups"),
        (BITSANDBYTES, "scb"),
        ({"load_in_8bit": True}, "scb"),
    ],
)
def test_int8_weights_with_scales_are_dequantised(tmp_path: Path, config: dict[str, Any], scales: str) -> None:
    tiny = quantised(tmp_path, config, scales)
    model = tiny.open()
    for reading in model.read(SENTENCES):
        assert max(differences(reading, model, tiny.twin)) < EXACT
    assert model.blocks[0].attention.w_q.weight.dtype == np.float32


U8 = {"model.layers.0.self_attn.q_proj.weight_format": torch.tensor(3, dtype=torch.uint8)}
PACKED = {"model.layers.0.mlp.up_proj.weight_packed": torch.zeros(30, 3, dtype=torch.int32)}
REFUSED: list[tuple[dict[str, Any] | None, str, dict[str, Any], str]] = [
    (None, "rows", {}, "no quantization_config"),
    (None, "scb", {}, "no quantization_config"),
    (None, "rows", {"without": ["weight_scale"]}, "I8(?s:.*)floats are expected"),
    (COMPRESSED, "scb", {}, "has no weight_scale"),
    (BITSANDBYTES, "rows", {}, "has no SCB"),
    (COMPRESSED, "rows", {"without": ["weight_scale"]}, "no tensor is"),
    (COMPRESSED | {"format": "pack-quantized"}, "rows", {}, "pack-quantized"),
    (COMPRESSED | {"kv_cache_scheme": {"num_bits": 8}}, "rows", {}, "kv_cache_scheme"),
    (COMPRESSED | {"transform_config": {"a": 1}}, "rows", {}, "transform_config"),
    (COMPRESSED | {"sparsity_config": {"format": "sparse-24"}}, "rows", {}, "sparse"),
    (COMPRESSED, "rows", {"more": PACKED}, "weight_packed"),
    (BITSANDBYTES, "scb", {"more": U8}, "weight_format"),
    (BITSANDBYTES | {"load_in_4bit": True}, "scb", {}, "4 bits"),
    ({"quant_method": "gptq", "bits": 4}, "rows", {}, "gptq"),
    ({"quant_method": ["x"]}, "rows", {}, "x"),
    ({}, "rows", {}, "None"),
]


@pytest.mark.parametrize(("config", "scales", "options", "complaint"), REFUSED)
def test_other_quantised_weights_are_refused(
    tmp_path: Path, config: dict[str, Any] | None, scales: str, options: dict[str, Any], complaint: str
) -> None:
    quantised(tmp_path, config, scales, **options)
    with pytest.raises((OptionError, Unsupported), match=complaint):
        opened(tmp_path)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "int64", "bool"])
def test_integers_are_never_read_as_floats(tmp_path: Path, kind: str) -> None:
    from safetensors.torch import load_file, save_file

    write(tmp_path, transformers.LlamaConfig(**SMALL), "causal", "LlamaForCausalLM")
    arrays = load_file(tmp_path / "model.safetensors")
    name = "model.layers.1.mlp.up_proj.weight"
    save_file(arrays | {name: arrays[name].to(getattr(torch, kind))}, tmp_path / "model.safetensors")
    with pytest.raises(Unsupported, match=rf"{name}(?s:.*)floats are expected"):
        opened(tmp_path)


def test_a_scale_of_another_shape_is_refused(tmp_path: Path) -> None:
    more = {"model.layers.0.mlp.up_proj.weight_scale": torch.ones(7)}
    quantised(tmp_path, COMPRESSED, "rows", more=more)
    with pytest.raises(RegardError, match=r"weight_scale' has shape \(7,\)"):
        opened(tmp_path)

"""Layers to files and back, and files that are broken or hostile."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from regard import errors
from regard.layers import Encoder, LayerNorm, Linear, Transformer, load, save
from regard.layers.codec import KINDS

from .kinds import WITHOUT_WEIGHTS, layers

safetensors_numpy = pytest.importorskip("safetensors.numpy")

LAYERS = layers(np.float64) | WITHOUT_WEIGHTS


def test_every_kind_of_layer_is_tried() -> None:
    assert {type(layer).__name__ for layer in LAYERS.values()} == set(KINDS)


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_a_layer_comes_back_as_it_was(tmp_path: Path, layer: Any) -> None:
    save(layer, tmp_path / "layer.safetensors")
    again = load(tmp_path / "layer.safetensors")
    assert repr(again) == repr(layer)
    for name, array in layer.parameters().items():
        assert_array_equal(again.parameters()[name], array)
        assert again.parameters()[name].dtype == array.dtype
    assert [path.name for path in tmp_path.iterdir()] == ["layer.safetensors"]


def test_a_layer_of_views_comes_back(tmp_path: Path) -> None:
    """Rows that are not contiguous, as in a transposed matrix."""
    layer = Linear(np.arange(6.0).reshape(3, 2).T)
    save(layer, tmp_path / "layer")
    assert_array_equal(load(tmp_path / "layer").weight, layer.weight)


def test_an_array_used_twice_is_stored_once(tmp_path: Path) -> None:
    model = Transformer.seeded(500, 8, 2, decoders=1)
    save(replace(model, head=Linear(model.embedding.weight)), tmp_path / "tied")
    again = load(tmp_path / "tied")
    assert again.head.weight is again.embedding.weight
    save(model, tmp_path / "plain")
    assert (tmp_path / "tied").stat().st_size < (tmp_path / "plain").stat().st_size + 2000


def test_layers_of_torch_are_saved(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    layer = Encoder.seeded(6, 2, dtype=torch.float64).to_torch(gradients=True)
    save(layer, tmp_path / "layer")
    assert_array_equal(load(tmp_path / "layer").to_torch().norm_1.weight, layer.norm_1.weight.detach())


def written(path: Path, structure: Any, **contents: Any) -> Path:
    text = structure if isinstance(structure, str) else json.dumps(structure)
    safetensors_numpy.save_file(contents or {"weight": np.ones((2, 3))}, path, {"regard_layer": text})
    return path


LINEAR = {"kind": "Linear", "weight": {"array": "weight"}}
DEEP: Any = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    ("structure", "message"),
    [
        ("{", "metadata is invalid"),
        ("[]", "metadata is invalid"),
        ('{"version": 1, "layer": ' + DEEP + "}", "cannot be read"),
        ({"layer": LINEAR}, "version"),
        ({"version": 2, "layer": LINEAR}, "version 2"),
        ({"version": 1, "layer": {"kind": "system"}}, "unknown kind 'system'"),
        ({"version": 1, "layer": {"kind": ["Linear"]}}, "cannot be read"),
        ({"version": 1, "layer": {"kind": "Linear"}}, "lacks weight"),
        ({"version": 1, "layer": {"kind": "Linear", "weight": {"array": "other"}}}, "'other' is missing"),
        ({"version": 1, "layer": {"kind": "Linear", "weight": 3}}, "cannot be read"),
        ({"version": 1, "layer": LINEAR | {"bias": {"array": "weight"}}}, "expected"),
        ({"version": 1, "layer": LINEAR | {"more": 1}}, "has no field more"),
        (
            {"version": 1, "layer": {"kind": "Encoder"} | dict.fromkeys(Encoder.__annotations__, 1)},
            "`attention` of Encoder cannot be of type int",
        ),
        ({"version": 1, "layer": [LINEAR]}, "describes no layer"),
        ({"version": 1, "layer": 5}, "describes no layer"),
    ],
)
def test_invalid_metadata_is_refused(tmp_path: Path, structure: Any, message: str) -> None:
    path = written(tmp_path / "broken", structure)
    with pytest.raises(errors.OptionError, match=message) as raised:
        load(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"not a layer", b"\xff" * 8 + b"{}", b"\x02\x00\x00\x00\x00\x00\x00\x00{}"])
def test_a_broken_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "broken").write_bytes(content)
    with pytest.raises(errors.OptionError, match="broken cannot be read"):
        load(tmp_path / "broken")


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(errors.OptionError, match="an existing file"):
        load(tmp_path / "nothing")
    with pytest.raises(errors.OptionError, match=r"Create .*no folder first"):
        save(Linear.seeded(2, 3), tmp_path / "no folder" / "layer")


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "layer"
    save(Linear.seeded(2, 3), path)
    before = path.read_bytes()
    layer = LayerNorm(np.ones(3))
    object.__setattr__(layer, "epsilon", object())
    with pytest.raises(errors.Unsupported, match=r"`epsilon` is <object object at .*cannot be saved"):
        save(layer, path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_bfloat16_comes_back(tmp_path: Path) -> None:
    torch, small = pytest.importorskip("torch"), pytest.importorskip("ml_dtypes")
    layer = Linear.seeded(3, 5, dtype=small.bfloat16)
    for one in (layer, layer.to_torch()):
        save(one, tmp_path / "layer")
        assert_array_equal(load(tmp_path / "layer").weight, layer.weight)
        assert load(tmp_path / "layer").to_torch().weight.dtype is torch.bfloat16

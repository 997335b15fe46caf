"""Tensors and metadata in files: what comes back, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from regard import codec
from regard.errors import OptionError, Unsupported

pytest.importorskip("safetensors")

STATE = np.random.default_rng(5).bit_generator.state
METADATA: dict[str, Any] = {"step": 7, "generator": STATE, "note": "ü ≠ \u2028", "rate": 1e-3, "none": None}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "uint8", "bool"])
def test_tensors_and_metadata_come_back(tmp_path: Path, dtype: str) -> None:
    tensors = {"a": np.arange(6).reshape(2, 3).astype(dtype).T, "empty": np.zeros((0, 2), dtype)}
    codec.save(tmp_path / "file", tensors, METADATA, kind="checkpoint", version=3)
    back, metadata = codec.load(tmp_path / "file", "checkpoint", version=3)
    assert set(back) == {"a", "empty"} and metadata == {"version": 3, **METADATA}
    for name, array in tensors.items():
        assert_array_equal(back[name], array)
        assert back[name].dtype == array.dtype


def test_a_file_without_tensors_comes_back(tmp_path: Path) -> None:
    codec.save(tmp_path / "file", {}, {"step": 0}, kind="checkpoint")
    assert codec.load(tmp_path / "file", "checkpoint") == ({}, {"version": 1, "step": 0})


def test_tensors_of_torch_are_saved(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    tensors = {"random": torch.get_rng_state(), "moment": torch.ones(2, 3, requires_grad=True)}
    codec.save(tmp_path / "file", tensors, {}, kind="checkpoint")
    back, _ = codec.load(tmp_path / "file", "checkpoint")
    assert torch.equal(torch.from_numpy(back["random"]), tensors["random"])
    assert_array_equal(back["moment"], np.ones((2, 3), np.float32))


def test_another_kind_or_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    codec.save(path, {}, {}, kind="layer", version=2)
    with pytest.raises(OptionError, match=r"file cannot be read as a checkpoint: it holds a layer\."):
        codec.load(path, "checkpoint")
    with pytest.raises(OptionError, match="its format has version 2, this Regard reads 1"):
        codec.load(path, "layer")


def test_safetensors_of_others_are_refused(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"a": np.ones(2)}, tmp_path / "file", {"format": "pt"})
    with pytest.raises(OptionError, match="no metadata of Regard"):
        codec.load(tmp_path / "file", "layer")


@pytest.mark.parametrize(
    "error", [KeyError("x"), IndexError("x"), TypeError("x"), AttributeError("x"), ValueError("x")]
)
def test_errors_while_building_name_the_file(tmp_path: Path, error: Exception) -> None:
    codec.save(tmp_path / "file", {}, {}, kind="layer")

    def build(tensors: Any, metadata: Any) -> None:
        raise error

    with pytest.raises(OptionError, match=r"file cannot be read as a layer: its metadata is invalid \("):
        codec.load_as(tmp_path / "file", "layer", build)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OptionError, match="an existing file"):
        codec.load(tmp_path / "pipe", "layer")


@pytest.mark.parametrize(
    "content", [b"", b"\xff" * 8 + b"{}", b"\x02" + b"\0" * 7 + b"[]", b"\x02" + b"\0" * 7 + b"{}more"]
)
def test_broken_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(OptionError, match="file cannot be read as a layer: it is not a valid safetensors file"):
        codec.load(tmp_path / "file", "layer")


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    codec.save(path, {"a": np.ones(3)}, {}, kind="checkpoint")
    before = path.read_bytes()
    with pytest.raises(OptionError, match="cannot be written"):
        codec.save(path, {"a": np.array(["text"])}, {}, kind="checkpoint")
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_functions_cannot_be_described() -> None:
    with pytest.raises(Unsupported, match=r"`mask` is <function .*\nUse an array\."):
        codec.describe("mask", lambda: 0, {}, {}, "Use an array.")


def test_a_sealed_file_with_a_flipped_bit_is_refused_or_has_the_same_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    tensors = {"a": np.arange(6.0).reshape(2, 3), "b": np.arange(3)}
    codec.save(path, tensors, METADATA, kind="checkpoint", sealed=True)
    content = path.read_bytes()
    refused = 0
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
        try:
            back, metadata = codec.load(path, "checkpoint", sealed=True)
        except OptionError as problem:
            message = str(problem)
        else:
            message = ""
        if message:
            assert str(path) in message and "\n" not in message
            refused += 1
            continue
        assert metadata == {"version": 1, **METADATA} and {*back} == {*tensors}
        for name, array in tensors.items():
            assert back[name].dtype == array.dtype and back[name].tolist() == array.tolist()
    assert refused > 0.9 * len(content)


def test_a_file_without_a_seal_is_refused_where_one_is_expected(tmp_path: Path) -> None:
    codec.save(tmp_path / "file", {"a": np.ones(2)}, {}, kind="checkpoint")
    with pytest.raises(OptionError, match="file cannot be read as a checkpoint: its content does not match its digest"):
        codec.load(tmp_path / "file", "checkpoint", sealed=True)


def test_an_older_format_is_called_older(tmp_path: Path) -> None:
    codec.save(tmp_path / "file", {}, {}, kind="checkpoint")
    with pytest.raises(OptionError, match="it is of an older format: version 1, this Regard reads 2"):
        codec.load(tmp_path / "file", "checkpoint", version=2)

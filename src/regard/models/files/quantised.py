"""Quantised weights in safetensors files: int8 with scales as floats; all others are refused.

compressed-tensors  weight = (int8 − zero point) · weight_scale, one scale per tensor, per row, or per group of numbers
                    in a row
bitsandbytes        LLM.int8(): weight = int8 · SCB / 127, one SCB per row

Some runtimes also quantise activations while they compute; Regard does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import Unsupported, unsupported
from regard.models.errors import broken
from regard.models.files.safetensors_file import Array, StoredTensors, TensorFile

METHODS = ("compressed-tensors", "bitsandbytes")
FORMATS = ("int-quantized", "naive-quantized")  # of compressed-tensors; others pack several numbers into one
FLOAT_KINDS = ("F64", "F32", "F16", "BF16")
# Tensors that belong to one quantised weight: those described above, and those of unsupported formats.
SCALE, ZERO, SCB, FORM = "weight_scale", "weight_zero_point", "SCB", "weight_format"
OTHERS = (
    "weight_packed", "weight_shape", "weight_g_idx", "weight_global_scale", "qweight", "qzeros", "scales", "g_idx",
)  # fmt: skip
ACTIVATIONS = ("input_scale", "input_zero_point", "output_scale", "output_zero_point")  # of activations, not used
ROW_MAJOR = 0  # of weight_format; other values are layouts for certain GPUs


def dequantise(weights: StoredTensors, config: Mapping[str, Any], path: Path) -> TensorFile:
    """The weights as floats; settings and tensors must agree on how they are quantised."""
    method = _method(config, path)
    modules = sorted(name.rpartition(".")[0] for name in weights.names if name.endswith((f".{SCALE}", f".{SCB}")))
    packed = [name for name in weights.names if name.rpartition(".")[2] in OTHERS or ".quant_state." in name]
    if packed:
        raise _unsupported(f"The tensor {min(packed)[:120]!r}, part of a quantised weight,", path)
    if method is None:
        if modules:
            why = f"{modules[0][:120]!r} has scales of a quantised weight, but config.json has no quantization_config"
            raise broken(path, why, "Use the config.json that belongs to these weights.")
        return weights
    if not modules:
        raise broken(path, f"its settings say that it is quantised by {method}, but no tensor is")
    part = SCALE if method == "compressed-tensors" else SCB
    for module in modules:
        if f"{module}.{part}" not in weights.names:
            raise broken(path, f"its settings say {method}, but {module[:120]!r} has no {part}")
    return Dequantised(weights, path, frozenset(modules), method)


def _method(config: Mapping[str, Any], path: Path) -> str | None:
    stated = config.get("quantization_config", config.get("compression_config"))
    if stated is None:
        return None
    if not isinstance(stated, dict):
        raise broken(path / "config.json", "its setting 'quantization_config' is not an object")
    method = stated.get("quant_method", "bitsandbytes" if stated.get("load_in_8bit") is True else None)
    if method not in METHODS:
        raise _unsupported(f"Quantisation by {str(method)[:40]!r}", path)
    if method == "bitsandbytes":
        if stated.get("load_in_8bit") is not True or stated.get("load_in_4bit"):
            raise _unsupported("Quantisation by bitsandbytes to 4 bits", path)
        return "bitsandbytes"
    if stated.get("format") not in FORMATS:
        raise _unsupported(f"compressed-tensors of format {str(stated.get('format'))[:40]!r}", path)
    for name in ("kv_cache_scheme", "transform_config"):
        if stated.get(name):
            raise _unsupported(f"compressed-tensors with {name}", path)
    sparsity = stated.get("sparsity_config") or {}
    if not isinstance(sparsity, dict) or sparsity.get("format", "dense") != "dense":
        raise _unsupported("compressed-tensors with sparse weights", path)
    return str(method)


@dataclass(frozen=True, eq=False)
class Dequantised:
    """Weights, some of them stored as int8 with scales; `names` does not include the scales."""

    weights: StoredTensors
    path: Path
    modules: frozenset[str]  # the names before ".weight"
    method: str

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of all tensors that are weights."""
        parts = (SCALE, ZERO, SCB, FORM, *ACTIVATIONS)
        beside = {f"{module}.{part}" for module in self.modules for part in parts}
        return self.weights.names - beside

    def shape(self, name: str) -> tuple[int, ...]:
        return self.weights.shape(name)

    def __getitem__(self, name: str) -> Array:
        """A tensor in float32, dequantised if it is quantised."""
        module = name.removesuffix(".weight")
        if module == name or module not in self.modules:
            return self.weights[name]
        if self.weights.kind(name) != "I8" or len(self.weights.shape(name)) != 2:
            kind, shape = self.weights.kind(name), self.weights.shape(name)
            raise _unsupported(f"The quantised tensor {name[:120]!r} of type {kind} and shape {shape}", self.path)
        numbers = self.weights.stored(name)
        return self._by_scale(module, numbers) if self.method == "compressed-tensors" else self._by_scb(module, numbers)

    def _by_scale(self, module: str, numbers: Array) -> Array:
        scale = self._floats(f"{module}.{SCALE}")
        rows, columns = numbers.shape
        groups = 1 if scale.size in (1, rows) and scale.shape in ((), (1,), (1, 1), (rows,), (rows, 1)) else None
        if groups is None and scale.ndim == 2 and len(scale) == rows and columns % scale.shape[1] == 0:
            groups = scale.shape[1]
        if groups is None:
            raise self._misfit(f"{module}.{SCALE}", scale, numbers)
        grouped = numbers.reshape(rows, groups, -1).astype(np.float32)
        if (name := f"{module}.{ZERO}") in self.weights.names:
            zero = self.weights.stored(name)
            if zero.shape != scale.shape or self.weights.kind(name) != "I8":
                raise self._misfit(name, zero, numbers)
            grouped -= _spread(zero, rows, groups).astype(np.float32)
        grouped *= _spread(scale, rows, groups)
        return grouped.reshape(numbers.shape)

    def _by_scb(self, module: str, numbers: Array) -> Array:
        scb = self._floats(f"{module}.{SCB}")
        if scb.shape != (len(numbers),):
            raise self._misfit(f"{module}.{SCB}", scb, numbers)
        if (form := f"{module}.{FORM}") in self.weights.names:
            layout = self.weights.stored(form)
            if self.weights.kind(form) in FLOAT_KINDS or layout.size != 1 or layout.item() != ROW_MAJOR:
                raise _unsupported(f"The layout that {form[:120]!r} names", self.path)
        return numbers.astype(np.float32) * (scb[:, None] / np.float32(127))

    def _floats(self, name: str) -> Array:
        if self.weights.kind(name) not in FLOAT_KINDS:
            raise _unsupported(f"The scale {name[:120]!r} of type {self.weights.kind(name)}", self.path)
        return self.weights[name]

    def _misfit(self, name: str, came: Array, numbers: Array) -> Exception:
        return broken(self.path, f"tensor {name[:120]!r} has shape {came.shape}, its weight {numbers.shape}")


def _spread(scale: Array, rows: int, groups: int) -> Array:
    """Scales as (row or 1, group, 1)."""
    return scale.reshape(1 if scale.size == 1 else rows, 1 if scale.size == 1 else groups, 1)


def _unsupported(what: str, path: Path) -> Unsupported:
    return unsupported(
        f"{what} in {path}",
        "int8 weights of compressed-tensors and bitsandbytes are read; use the unquantised model, or a GGUF file.",
    )

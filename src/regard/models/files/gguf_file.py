"""GGUF files: tensors under the hub's names, dequantised when asked for, rows of Q and K in the hub's order."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import unsupported
from regard.models.errors import broken, missing
from regard.models.files import gguf_names
from regard.models.files.ggml_quants import dequantised
from regard.models.files.gguf_header import Header, StoredTensor, read_header
from regard.models.files.weights import Array, widened

PLAIN = {0: ("F32", "<f4"), 1: ("F16", "<f2"), 30: ("BF16", "<u2")}  # stored as numbers, by ggml's type
BLOCKS = {  # numbers a block, bytes a block, by ggml's type: what the file sets aside can be checked without a library
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 10: (256, 84),
    11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 16: (256, 66), 17: (256, 74), 18: (256, 98),
    19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136), 29: (256, 56), 30: (1, 2),
    34: (256, 54), 35: (256, 66), 39: (32, 17),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class GGUFFile:
    """A GGUF file whose header was checked, its tensors under the hub's names."""

    path: Path
    header: Header
    stored: Mapping[str, str]  # the hub's name of each tensor, and the file's
    turned: Mapping[str, int]  # tensors whose rows llama.cpp reorders, and how many heads they hold

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of all tensors, as the hub has them."""
        return frozenset(self.stored)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the file says about itself."""
        return self.header.metadata

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of one tensor."""
        return self._tensor(name).shape

    def __getitem__(self, name: str) -> Array:
        """One tensor in float32."""
        tensor = self._tensor(name)
        per_block, block_bytes = BLOCKS[tensor.kind]
        count = math.prod(tensor.shape)
        start = self.header.first + tensor.offset
        taken = self.header.content[start : start + count // per_block * block_bytes]
        rows = taken.reshape(tensor.shape[0], -1)  # bytes of each row: rows move before they grow
        if name in self.turned:
            rows = in_hub_order(rows, self.turned[name])
        if tensor.kind in PLAIN:
            kind, dtype = PLAIN[tensor.kind]
            return widened(rows.view(dtype), kind).reshape(tensor.shape)
        return dequantised(rows, tensor.kind, self.path).reshape(tensor.shape)

    def _tensor(self, name: str) -> StoredTensor:
        if name not in self.stored:
            raise missing(f"tensor {name!r} in {self.path}", f"it among the {len(self.stored)} there")
        return self.header.tensors[self.stored[name]]


def open_gguf(path: Path) -> GGUFFile:
    """Check a file and name its tensors as the hub does; none is read."""
    header = read_header(path)
    _check_places(header, path)
    architecture = gguf_names.architecture_of(header.metadata, path)
    stored = gguf_names.hub_names(header.tensors, architecture, path)
    turned = gguf_names.turned(stored, header.metadata, architecture)
    for name, heads in turned.items():
        rows = header.tensors[stored[name]].shape[0]
        if heads < 1 or rows % (2 * heads):
            raise broken(path, f"tensor {stored[name]!r} has {rows} rows, which {heads} heads cannot share in pairs")
    return GGUFFile(path, header, stored, turned)


def in_hub_order(rows: Array, heads: int) -> Array:
    """Rows of Q or K as the hub has them; llama.cpp takes turns between the two halves of a head.

    >>> in_hub_order(np.arange(8), heads=2).tolist()
    [0, 2, 1, 3, 4, 6, 5, 7]
    """
    pairs = rows.reshape(heads, -1, 2, *rows.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows.shape)


def _check_places(header: Header, path: Path) -> None:
    """Every tensor lies inside the file, none over another."""
    places = []
    for name, tensor in header.tensors.items():
        if tensor.kind not in BLOCKS:
            raise unsupported(
                f"Tensor {name[:80]!r} of ggml's type {tensor.kind} in {path}", "Quantise it another way."
            )
        per_block, block_bytes = BLOCKS[tensor.kind]
        if tensor.shape[-1] % per_block:
            raise broken(path, f"rows of tensor {name[:80]!r} are {tensor.shape[-1]} long, no multiple of {per_block}")
        stop = tensor.offset + math.prod(tensor.shape) // per_block * block_bytes
        if header.first + stop > len(header.content):
            there = max(len(header.content) - header.first, 0)
            why = f"tensor {name[:80]!r} ends at byte {stop} of the numbers, and there are {there}"
            raise broken(path, why, "It may be cut off: get it again.")
        places.append((tensor.offset, stop, name))
    end, before = 0, ""
    for start, stop, name in sorted(places):
        if start < end:
            raise broken(path, f"tensors {before[:80]!r} and {name[:80]!r} overlap")
        end, before = stop, name

"""A checkpoint without some heads: smaller where its configuration allows that, otherwise with zeroed heads.

Models such as Llama state the number of heads, the number of key heads and head_dim independently of their width, but
once for all layers. So every layer gets as many heads as the one that keeps most; spare places are filled with zeros.
Heads that share keys and values stay together, or each gets a copy of these. Where that would not make the model
smaller, and in models whose heads divide the width, such as BERT and GPT-2, the columns of W_O are set to zero.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import atomic_file, errors, validate
from regard.heads.ablation_effects import parse_heads
from regard.models import store
from regard.models.files import Checkpoint, open_checkpoint
from regard.models.files.checkpoint import INDEX, ONE
from regard.models.files.safetensors_file import FLOATS, SIZES, StoredTensors
from regard.reading.edit import Head

Array = NDArray[Any]

HEADS = ("num_attention_heads", "n_head", "n_heads")
# W_O by the end of its name, with the axis along which its heads lie; GPT-2 stores it as (in, out).
OUTPUTS = {
    "self_attn.o_proj": 1, "self_attn.out_proj": 1, "attention.output.dense": 1, "attention.out_lin": 1,
    "attention.dense": 1, "attn.c_proj": 0,
}  # fmt: skip
# Families with a head_dim of their own, and whether the number of heads must divide the width nevertheless.
RESIZABLE = {
    "llama": True, "mistral": False, "qwen2": False, "qwen3": False, "gemma": False, "gemma2": True,
    "gemma3_text": True,
}  # fmt: skip
LLAMA = re.compile(r"(?:.*\.)?layers\.(\d+)\.self_attn\.(?:([qkvo])_proj\.(weight|bias)|[qk]_norm\.weight)")
QUANTISED = ("quantization_config", "compression_config")
COPIED = ("*.json", "*.txt", "*.model", "*.jinja")  # tokeniser and settings for generation


@dataclass(frozen=True)
class PrunedCheckpoint:
    """A folder with a pruned model."""

    folder: Path
    removed: bool  # whether the heads are gone; otherwise they are zero
    heads: int  # per layer, in the file
    key_heads: int
    sources: tuple[tuple[int | None, ...], ...]  # by layer, which head of the model each head is; None: zeros
    numbers: tuple[int, int]  # before and after
    reason: str  # why heads are zeroed

    def __str__(self) -> str:
        if not self.removed:
            way = "has the columns of these heads in W_O set to zero, and as many numbers as before"
            return f"{self.folder} {way}: {self.reason}"
        before, after = self.numbers
        spare = sum(source is None for layer in self.sources for source in layer)
        filled = f" ({spare} of them zeros, because all layers have equally many)" if spare else ""
        return (
            f"{self.folder} has {errors.count(self.heads, 'head')} per layer{filled} on "
            f"{errors.count(self.key_heads, 'key head')}, and {after:,} numbers instead of {before:,}."
        )


def prune(model: str | os.PathLike[str], heads: str | Iterable[Head], out: str | os.PathLike[str]) -> PrunedCheckpoint:
    """Write a checkpoint without some heads, for `regard.model` and transformers: what it computes is `silence(…)`.

    model   a name of the catalogue, a folder, a GGUF file (written in float32) or a hub id
    heads   (layer, head), or names such as "2.0,3.1"; "2" is all of layer 2
    out     a new folder

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     print(prune("minilm", [(2, 0), (3, 1)], f"{folder}/pruned").removed)
    False
    """
    checkpoint, folder = open_checkpoint(store.find(model)), Path(out)
    attention = _Attention.of(checkpoint, str(model))
    count = len(attention.outputs)
    if isinstance(heads, str):
        chosen = parse_heads(heads, "heads", str(model), count, attention.heads)
    else:
        chosen = [_checked(head, count, attention.heads) for head in heads]
    if not chosen:
        raise errors.option("heads", [], "at least one head, such as (2, 0)")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise errors.option("out", str(folder), "a new folder, or an empty one")
    kept = [[head for head in range(attention.heads) if (layer, head) not in chosen] for layer in range(count)]
    layout, reason = _layout(attention, kept)
    change = _resized(attention, layout) if layout else _zeroed(attention, chosen)
    config = _settings(checkpoint)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise _unwritable(folder, problem) from None
    numbers = _write_tensors(folder / ONE, checkpoint, change)  # first: where the disk is too small, nothing is left
    if checkpoint.is_gguf:
        checkpoint.tokeniser.engine.save(str(folder / "tokenizer.json"))
        _write_json(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"})
    else:
        for path in sorted({path for pattern in COPIED for path in checkpoint.path.glob(pattern)}):
            if path.name not in ("config.json", INDEX):
                try:
                    shutil.copyfile(path, folder / path.name)
                except OSError as problem:
                    raise _unwritable(folder, problem) from None
    sources = tuple(tuple(head if head in some else None for head in range(attention.heads)) for some in kept)
    shape = attention.heads, attention.key_heads
    if layout:
        shape = layout.heads, layout.key_heads
        config |= {"num_attention_heads": shape[0], "num_key_value_heads": shape[1], "head_dim": attention.head_dim}
        sources = tuple(tuple(head for _, some in groups for head in some) for groups in layout.groups)
    _write_json(folder / "config.json", config)
    return PrunedCheckpoint(folder, layout is not None, *shape, sources, numbers, reason)


def _settings(checkpoint: Checkpoint) -> dict[str, Any]:
    """config.json of the whole model, for the weights as they are written."""
    config = dict(checkpoint.config)
    if checkpoint.is_gguf:
        config["architectures"] = [f"{checkpoint.architecture.capitalize()}ForCausalLM"]
        rotated = config.pop("rope_dimension_count", config["head_dim"])
        if "rope_divisors" in config or rotated != config["head_dim"]:
            raise errors.unsupported(
                f"A config.json for the rotary positions of {checkpoint.path}", "Prune the folder it was made from."
            )
    if not isinstance(checkpoint.weights, StoredTensors):  # written as floats
        config = {name: value for name, value in config.items() if name not in QUANTISED}
    return config


def _checked(head: Any, layers: int, heads: int) -> Head:
    fits = isinstance(head, (tuple, list)) and len(head) == 2
    if not fits:
        raise errors.option("heads", head, "(layer, head), both from 0, as in [(2, 0), (3, 1)]")
    return validate.index("layer", head[0], layers), validate.index("head", head[1], heads)


# What a checkpoint is like


@dataclass(frozen=True, eq=False)
class _Attention:
    """The attention of a checkpoint, as far as its tensors and settings tell."""

    family: str
    outputs: Mapping[int, str]  # the name of W_O by layer
    axis: int  # of W_O, along which its heads lie
    heads: int
    key_heads: int
    head_dim: int
    width: int
    parts: Mapping[str, tuple[int, str, str]]  # by name: layer, q, k, v or o, weight or bias; empty: not resizable

    @classmethod
    def of(cls, checkpoint: Checkpoint, name: str) -> _Attention:
        config, weights = checkpoint.config, checkpoint.weights
        family = str(config.get("model_type", checkpoint.architecture))
        projections = [
            (int(match[1]), tensor, axis)
            for tensor in sorted(weights.names)
            for ending, axis in OUTPUTS.items()
            if (match := re.search(rf"(\d+)\.{re.escape(ending)}\.weight$", tensor))
        ]
        outputs = {layer: tensor for layer, tensor, _ in projections}
        if not projections or sorted(layer for layer, _, _ in projections) != list(range(len(projections))):
            supported = f"Known are the output projections {', '.join(OUTPUTS)} of one stack of layers."
            raise errors.unsupported(f"Pruning {name}, a {family},", supported)
        heads = next((config[key] for key in HEADS if validate.is_integer(config.get(key))), 0)
        axis, shape = projections[0][2], weights.shape(projections[0][1])
        sizes = {weights.shape(tensor) for tensor in outputs.values()}
        if len(sizes) > 1 or heads < 1 or len(shape) != 2 or shape[axis] % heads:
            raise errors.unsupported(
                f"Pruning {name}, a {family} whose layers or heads differ in size,", "All heads need one size."
            )
        head_dim, key_heads = shape[axis] // heads, heads
        of_heads = {tensor: LLAMA.fullmatch(tensor) for tensor in weights.names if ".self_attn." in tensor}
        parts = {tensor: (int(name[1]), name[2], name[3]) for tensor, name in of_heads.items() if name and name[2]}
        if family not in RESIZABLE or config.get("per_layer_config") or None in of_heads.values():
            parts = {}
        else:
            key_heads = weights.shape(outputs[0].replace("o_proj", "k_proj"))[0] // head_dim
        return cls(family, outputs, axis, heads, key_heads, head_dim, shape[1 - axis], parts)


@dataclass(frozen=True)
class _Layout:
    """Where heads go: by layer, for each key head of the new file, the old one and the heads that read it."""

    heads: int
    key_heads: int
    groups: tuple[tuple[tuple[int | None, tuple[int | None, ...]], ...], ...]


def _layout(attention: _Attention, kept: Sequence[Sequence[int]]) -> tuple[_Layout | None, str]:
    """The smallest layout, or why there is none that is smaller than the model."""
    if not attention.parts:
        return None, f"the configuration of a {attention.family} has no head_dim of its own."
    share = attention.heads // attention.key_heads  # heads that read the same key head
    of_keys = [[[head for head in some if head // share == key] for key in range(attention.key_heads)] for some in kept]
    best, smallest = None, attention.heads + attention.key_heads
    for size in range(share, 0, -1):  # heads per key head of the new file
        groups = [
            [(key, some[first : first + size]) for key, some in enumerate(layer) for first in range(0, len(some), size)]
            for layer in of_keys
        ]
        count = max(1, *map(len, groups))
        while RESIZABLE[attention.family] and attention.width % (count * size):
            count += 1
        if count * size + count < smallest:
            smallest = count * size + count
            best = size, count, groups
    if best is None:
        full = max(range(len(kept)), key=lambda layer: len(kept[layer]))
        why = f"layer {full} keeps {len(kept[full])} of its {attention.heads} heads, and all layers have equally many"
        return None, why + ("." if len(kept[full]) == attention.heads else "; no configuration for these is smaller.")
    size, count, groups = best
    padded = tuple(
        tuple(
            [(key, (*some, *[None] * (size - len(some)))) for key, some in layer]
            + [(None, (None,) * size)] * (count - len(layer))
        )
        for layer in groups
    )
    return _Layout(count * size, count, padded), ""


# Tensors


Change = Callable[[str, Array], Array]


def _resized(attention: _Attention, layout: _Layout) -> Change:
    """W_Q, W_K, W_V and W_O with the heads of a layout."""

    def change(name: str, tensor: Array) -> Array:
        layer, letter, kind = attention.parts.get(name, (0, "", ""))
        if not letter or (letter == "o" and kind == "bias"):
            return tensor
        of_keys, of_heads = zip(*layout.groups[layer], strict=True)
        sources = of_keys if letter in "kv" else [head for some in of_heads for head in some]
        return _taken(tensor, sources, attention.head_dim, 1 if letter == "o" else 0)

    return change


def _zeroed(attention: _Attention, heads: Iterable[Head]) -> Change:
    by_name: dict[str, list[int]] = {}
    for layer, head in heads:
        by_name.setdefault(attention.outputs[layer], []).append(head)

    def change(name: str, tensor: Array) -> Array:
        if name not in by_name:
            return tensor
        sources = [None if head in by_name[name] else head for head in range(attention.heads)]
        return _taken(tensor, sources, attention.head_dim, attention.axis)

    return change


def _taken(tensor: Array, sources: Sequence[int | None], size: int, axis: int) -> Array:
    """Slices of so many numbers along an axis; zeros for None."""
    slices = np.moveaxis(tensor, axis, 0).reshape(-1, size, *np.delete(tensor.shape, axis))
    taken = np.zeros((len(sources), *slices.shape[1:]), tensor.dtype)
    for index, source in enumerate(sources):
        if source is not None:
            taken[index] = slices[source]
    return np.ascontiguousarray(np.moveaxis(taken.reshape(-1, *slices.shape[2:]), 0, axis))


def _write_tensors(path: Path, checkpoint: Checkpoint, change: Change) -> tuple[int, int]:
    """All tensors, one at a time, in the types they are stored in; how many numbers there were, and there are."""
    weights = checkpoint.weights
    stored = weights.tensors if isinstance(weights, StoredTensors) else {}
    kinds = {name: stored[name].kind if stored else "F32" for name in weights.names}

    def tensor(name: str) -> Array:
        if not stored:
            return change(name, weights[name])
        dtype = FLOATS.get(kinds[name])  # integers, and floats of eight bits, are copied as bytes
        content = stored[name].view(dtype or "<u1")
        return content if dtype is None else change(name, content.reshape(stored[name].shape))

    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end, before, after = 0, 0, 0
    names = sorted(kinds, key=lambda name: (-SIZES[kinds[name]], name))  # aligned: the widest first
    for name in names:
        shape = weights.shape(name)
        changed = change(name, np.broadcast_to(np.float32(0), shape)).shape
        size = math.prod(changed) * SIZES[kinds[name]]
        header[name] = {"dtype": kinds[name], "shape": list(changed), "data_offsets": [end, end + size]}
        end, before, after = end + size, before + math.prod(shape), after + math.prod(changed)
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with atomic_file.replacing(path) as temporary, temporary.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            file.write(np.ascontiguousarray(tensor(name)).data)
    return before, after


def _unwritable(folder: Path, problem: OSError) -> errors.OptionError:
    return errors.OptionError(f"{str(folder)!r} cannot be written: {errors.reason_of(problem)}.")


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    atomic_file.write(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")

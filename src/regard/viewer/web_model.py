"""A model as a folder that a page loads and runs in the browser: a manifest, its weights and its tokeniser.

model.json           what the model is: its layers, as `regard.layers.codec` describes them, its files with sizes and
                     SHA-256, and what the page says about its heads
weights.safetensors  matrices in float16 or float32, vectors in float32, and the outputs of one text before rounding; or
                     the GGUF file that the model was opened from
tokenizer.json       as of the `tokenizers` library; a GGUF file holds its own

The page has no code for architectures: whatever `regard.model` opens, from BERT to Qwen, is the same layers with other
settings. web/models/manifest.js reads what is written here.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

import numpy as np

from regard import atomic_file, codec, errors, validate
from regard.arrays import Array, numpy_of
from regard.layers import Learned
from regard.layers.codec import KINDS
from regard.models.files import gguf
from regard.models.model import Model
from regard.reading.reader import Reader
from regard.viewer import similar
from regard.viewer.architecture import stages_of

FORMAT = 1
MANIFEST, WEIGHTS, TOKENISER = "model.json", "weights.safetensors", "tokenizer.json"
DTYPES = {"float16": ("F16", np.float16), "float32": ("F32", np.float32)}
LARGEST_HALF = 65504.0
GGML_TYPES = {0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 8: "Q8_0", 30: "BF16"}  # that the page reads
REFERENCE = "The kids were scared of the lions."  # whose outputs say what rounding the weights changes

# The parts of tokenisers that web/models/tokenizers/pre_tokenizers.js computes.
PRE_TOKENISERS = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit", "Digits", "Split", "ByteLevel", "Sequence"}

# From the names of arrays in a `Transformer` to those in a GGUF file.
IN_GGUF = {
    "attention.w_q": "attn_q", "attention.w_k": "attn_k", "attention.w_v": "attn_v", "attention.w_o": "attn_output",
    "attention.q_norm": "attn_q_norm", "attention.k_norm": "attn_k_norm", "feed_forward.gate": "ffn_gate",
    "feed_forward.up": "ffn_up", "feed_forward.down": "ffn_down", "norm_1": "attn_norm", "norm_2": "ffn_norm",
}  # fmt: skip
OUTSIDE_BLOCKS = {"embedding": "token_embd", "norm": "output_norm", "head": "output"}


class WebFile(TypedDict):
    """A file of the folder."""

    file: str
    size: int  # bytes
    sha256: str


class TensorInGguf(TypedDict):
    """Where an array of a transformer is in a GGUF file."""

    name: str
    heads: NotRequired[int]  # whose rows llama.cpp interleaves


class WebModel(TypedDict):
    """What a page needs to know of a model."""

    format: int
    name: str
    kind: str
    licence: str | None
    longest: int  # tokens
    ends: list[int]  # tokens that end generated text
    precision: str  # of the weights: float16, float32, or the types of a GGUF file
    weights: WebFile
    tokenizer: WebFile | None  # None: in the GGUF file
    tensors: Mapping[str, TensorInGguf] | None  # of a GGUF file; None: by the same names
    reference: str | None  # the text whose outputs before rounding are among the weights, by layer
    transformer: Mapping[str, Any]
    stages: list[dict[str, Any]]  # see `regard.viewer.architecture`
    parameters: int
    formulas: list[dict[str, str]]  # of the steps, by block
    compared: tuple[str, ...]


def write(model: Reader, folder: str | os.PathLike[str], dtype: Literal["float16", "float32"] = "float16") -> Path:
    """Write a model for the page into a folder, which is made where it is missing; the path of the manifest.

    dtype   of the matrices. A model that was opened from a GGUF file is written as that file, unless it is asked for
            in float32 or the page does not read its types.

    >>> from tempfile import TemporaryDirectory
    >>> from regard.models.model import model
    >>> with TemporaryDirectory() as folder:
    ...     path = write(model("minilm"), folder)
    ...     sorted(part.name for part in path.parent.iterdir())
    ['model.json', 'tokenizer.json', 'weights.safetensors']
    """
    validate.choice("dtype", dtype, tuple(DTYPES))
    if not isinstance(model, Model):
        raise errors.unsupported(f"{model.name} in a page", "Use a model that `regard.model` opens.")
    _check(model)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    stored = _stored_in_gguf(model) if dtype == "float16" else None
    tensors: dict[str, Array] = {}
    transformer = codec.describe("", model.transformer, tensors, KINDS)
    reference, tokeniser = None, None
    if stored is None:
        rounded = _rounded(tensors, dtype)
        if dtype == "float16":
            reference = REFERENCE
            # The outputs of every layer for one text, (token, head · value_dim), before rounding, computed in float64.
            exact = replace(model, transformer=model.transformer.map(lambda array: array.astype(np.float64)))
            outputs = (numpy_of(of_layer).swapaxes(0, 1) for of_layer in exact.read(REFERENCE).outputs)
            for layer, rows in enumerate(outputs):
                rounded[f"reference.{layer}"] = rows.reshape(len(rows), -1).astype(np.float32)
        weights = _write(folder / WEIGHTS, _safetensors(rounded))
        tokeniser = _write(folder / TOKENISER, [model.tokeniser.engine.to_str().encode()])
    else:
        with model.tokeniser.path.open("rb") as gguf_file:
            weights = _write(folder / model.tokeniser.path.name, iter(lambda: gguf_file.read(1 << 20), b""))
    traces = [block.explain(np.zeros((2, model.width), np.float32), query=1) for block in model.blocks]
    manifest: WebModel = {
        "format": FORMAT,
        "name": model.name,
        "kind": model.kind,
        "licence": model.licence,
        "longest": model.longest,
        "ends": sorted(model.ends),
        "precision": dtype if stored is None else _precision(model.tokeniser.path),
        "weights": weights,
        "tokenizer": tokeniser,
        "tensors": stored,
        "reference": reference,
        "transformer": transformer,
        "stages": stages_of(model.transformer),
        "parameters": model.transformer.count(),
        "formulas": [{step.name: step.formula for step in trace.steps} for trace in traces],
        "compared": similar.COMPARED,
    }
    return atomic_file.write(folder / MANIFEST, json.dumps(manifest, ensure_ascii=False))


def _check(model: Model) -> None:
    """Refuse what the page does not compute."""
    transformer = model.transformer
    if not transformer.encoders or transformer.decoders:
        raise errors.unsupported("A model of decoders in a page", "Use a model such as minilm, smollm2 or GPT-2.")
    if not isinstance(transformer.positions, Learned | None) or any(
        block.attention.alibi is not None for block in transformer.encoders
    ):
        raise errors.unsupported("Sinusoidal or ALiBi positions in a page", "Learned and rotary positions are.")
    first = json.loads(model.tokeniser.engine.to_str())["pre_tokenizer"]
    parts = [] if first is None else [first, *first.get("pretokenizers", [])]
    unknown = sorted({part["type"] for part in parts} - PRE_TOKENISERS)
    if unknown:
        raise errors.unsupported(f"A tokeniser with {unknown[0]} in a page", "WordPiece and byte-level BPE are.")


def _rounded(tensors: Mapping[str, Array], dtype: str) -> dict[str, Array]:
    """Matrices in this dtype, vectors in float32: these are few, and norms multiply everything by theirs."""
    kind = DTYPES[dtype][1]
    files_of_model = {}
    for name, array in tensors.items():
        numbers = np.asarray(array, np.float32)
        if numbers.ndim > 1 and kind is np.float16:
            largest = float(np.abs(numbers).max(initial=0.0))
            if not largest <= LARGEST_HALF:
                fix = 'Write it with dtype="float32".'
                raise errors.unsupported(f"A weight of {largest:.3g} in {name}, which float16 does not hold,", fix)
            numbers = numbers.astype(np.float16)
        files_of_model[name] = numbers
    return files_of_model


# Files


def _safetensors(tensors: Mapping[str, Array]) -> Iterator[bytes]:
    """A safetensors file in pieces. Vectors come first, so that every array is aligned; then matrices in the order of
    the model, so that those of queries, keys and values are contiguous.
    """
    order = sorted(tensors, key=lambda name: tensors[name].ndim)
    header: dict[str, Any] = {}
    start = 0
    for name in order:
        array = tensors[name]
        kind = next(kind for kind, dtype in DTYPES.values() if array.dtype == dtype)
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [start, start + array.nbytes]}
        start += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    yield len(text).to_bytes(8, "little") + text
    for name in order:
        yield np.ascontiguousarray(tensors[name]).tobytes()


def _write(path: Path, pieces: Iterable[bytes]) -> WebFile:
    digest, size = hashlib.sha256(), 0
    with atomic_file.replacing(path) as temporary, temporary.open("wb") as file:
        for piece in pieces:
            digest.update(piece)
            size += file.write(piece)
    return {"file": path.name, "size": size, "sha256": digest.hexdigest()}


# GGUF files


def _stored_in_gguf(model: Model) -> dict[str, TensorInGguf] | None:
    """Where each array of the model is in its GGUF file; None for another file, or types that the page lacks."""
    path = model.tokeniser.path
    if path.suffix != ".gguf" or not path.is_file():
        return None
    file = gguf.open_gguf(path)
    names: dict[str, Array] = {}
    codec.describe("", model.transformer, names, KINDS)
    tensors: dict[str, TensorInGguf] = {}
    for name in names:
        there = _name_in_gguf(name)
        hub = next((hub for hub, stored_path in file.stored.items() if stored_path == there), None)
        if hub is None or file.header.tensors[there].kind not in GGML_TYPES:
            return None
        tensors[name] = {"name": there}
        if hub in file.permuted:
            tensors[name]["heads"] = file.permuted[hub]
    return tensors


def _name_in_gguf(name: str) -> str:
    """The name of an array in a GGUF file.

    >>> _name_in_gguf("encoders.3.attention.w_q.weight"), _name_in_gguf("embedding.weight")
    ('blk.3.attn_q.weight', 'token_embd.weight')
    """
    part, _, last = name.rpartition(".")
    if part in OUTSIDE_BLOCKS:
        return f"{OUTSIDE_BLOCKS[part]}.{last}"
    _, number, *inside = part.split(".")
    return f"blk.{number}.{IN_GGUF.get('.'.join(inside), '')}.{last}"


def _precision(path: Path) -> str:
    """The types of the matrices of a GGUF file, most numbers first."""
    sizes: dict[str, int] = {}
    for tensor in gguf.read_header(path).tensors.values():
        if len(tensor.shape) > 1:
            name = GGML_TYPES[tensor.kind]
            sizes[name] = sizes.get(name, 0) + int(np.prod(tensor.shape))
    return ", ".join(sorted(sizes, key=lambda name: -sizes[name]))

"""Files of models written byte by byte: valid ones, and ones with false claims."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

U32, I32, F32, BOOL, STRING, ARRAY, U64 = 4, 5, 6, 7, 8, 9, 10
PLAIN, Q8_0, Q4_1 = 0, 8, 3  # ggml's types


def safetensors(path: Path, header: Mapping[str, Any] | bytes, numbers: bytes = b"", length: int | None = None) -> Path:
    """A safetensors file with any header, which may claim any length."""
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    claimed = len(content) if length is None else length
    path.write_bytes(claimed.to_bytes(8, "little") + content + numbers)
    return path


def entry(kind: str = "F32", shape: Any = (2, 3), offsets: Any = (0, 24)) -> dict[str, Any]:
    return {"dtype": kind, "shape": list(shape), "data_offsets": list(offsets)}


def string(text: str | bytes) -> bytes:
    content = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(content)) + content


def value(given: Any) -> bytes:
    """A value of GGUF's metadata with its type before it."""
    if isinstance(given, bool):
        return struct.pack("<I?", BOOL, given)
    if isinstance(given, int):
        return struct.pack("<II", U32, given)
    if isinstance(given, float):
        return struct.pack("<If", F32, given)
    if isinstance(given, str):
        return struct.pack("<I", STRING) + string(given)
    if given and isinstance(given[0], str):
        return struct.pack("<IIQ", ARRAY, STRING, len(given)) + b"".join(string(one) for one in given)
    return struct.pack("<IIQ", ARRAY, I32, len(given)) + struct.pack(f"<{len(given)}i", *given)


def gguf(
    path: Path,
    metadata: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray[Any, Any] | tuple[int, tuple[int, ...], bytes]],
    counts: tuple[int | None, int | None] = (None, None),
    version: int = 3,
    offsets: Mapping[str, int] | None = None,
) -> Path:
    """A GGUF file; `counts` and `offsets` replace the true ones."""
    numbers, described = b"", b""
    for name, given in tensors.items():
        if isinstance(given, tuple):
            kind, shape, content = given
        else:
            kind, shape, content = PLAIN, given.shape, given.astype("<f4").tobytes()
        place = (offsets or {}).get(name, len(numbers))
        described += string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), kind, place)
        numbers += content + bytes(-len(content) % 32)
    tensor_count = len(tensors) if counts[0] is None else counts[0]
    entry_count = len(metadata) if counts[1] is None else counts[1]
    head = b"GGUF" + struct.pack("<IQQ", version, tensor_count, entry_count)
    head += b"".join(
        string(name) + (given if isinstance(given, bytes) else value(given)) for name, given in metadata.items()
    )
    head += described
    path.write_bytes(head + bytes(-len(head) % 32) + numbers)
    return path


def llama_metadata(**changed: Any) -> dict[str, Any]:
    """The metadata of a Llama with 2 query heads of 4 and 1 key head, and a tokeniser of bytes and one merge."""
    letters = [chr(code) for code in [*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324)]]
    vocabulary = ["<|end|>", *letters, "he"]
    found = {
        "general.architecture": "llama",
        "llama.embedding_length": 8,
        "llama.block_count": 1,
        "llama.attention.head_count": 2,
        "llama.attention.head_count_kv": 1,
        "llama.feed_forward_length": 16,
        "llama.context_length": 32,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": vocabulary,
        "tokenizer.ggml.token_type": [3] + [1] * (len(vocabulary) - 1),
        "tokenizer.ggml.merges": ["h e"],
        "tokenizer.ggml.bos_token_id": 0,
    }
    return {name: given for name, given in (found | changed).items() if given is not None}


def llama_tensors(rng: np.random.Generator) -> dict[str, np.ndarray[Any, Any]]:
    """The embeddings and the attention of that Llama."""
    shapes = {
        "token_embd.weight": (258, 8),
        "output_norm.weight": (8,),
        "blk.0.attn_q.weight": (8, 8),
        "blk.0.attn_k.weight": (4, 8),
        "blk.0.attn_v.weight": (4, 8),
    }
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}

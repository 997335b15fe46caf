"""Mutated saved readings: each loads as a reading that works, or is refused with a RegardError."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard import biases, masks
from regard.attention import Attention
from regard.errors import RegardError
from regard.layers import Encoder
from regard.reading import Reading, Token

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 5, 2**31, 2**63, 2**70, 10**400, 0.5, -1.5, 1e300, float("nan"), float("inf"),
    "", "x", "layers.0.queries", "states.0", "\ud800", "ü" * 300, [], [1], [0, 1, 2], [None], {},
    {"array": "states.0"}, {"array": 3}, {"slice": [0, 2, 1]},
    {"slice": "x"}, {"kind": "Causal"}, {"kind": "Window"}, {"kind": 5}, {"kind": ["x"]}, [[[[]]]], "dot", "cosine",
    {"kind": "Both", "left": {"kind": "Causal"}, "right": {"kind": "Causal"}},
]  # fmt: skip
MUTATIONS = 1500


def saved(path: Path) -> None:
    """A reading of two layers with masks, a bias, a soft cap, sinks, and a model's blocks."""
    rng = np.random.default_rng(3)
    tokens = [Token("[CLS]", 0, 0, 0, special=True), Token("ki", 1, 0, 2), Token("ds", 2, 2, 4, joined=True)]
    tokens += [Token("left", 3, 5, 9), Token("[SEP]", 4, 9, 9, special=True)]
    block = Encoder.seeded(12, 3, 8)
    seen = [block.attention.attention(rng.normal(size=(5, 12)).astype(np.float32)) for _ in range(2)]
    options: list[dict[str, Any]] = [
        {"mask": masks.causal() & masks.window(2) | masks.first(1), "bias": biases.alibi(3)},
        {"mask": masks.allowed(rng.random((5, 5)) > 0.3), "softcap": 5.0, "sinks": rng.normal(size=3).astype("f4")},
    ]
    attentions = [
        Attention(one.attention.queries, one.attention.keys, **more) for one, more in zip(seen, options, strict=True)
    ]
    reading = Reading.of(attentions, [one.values for one in seen], tokens, "kids left")
    states = tuple(rng.normal(size=(5, 12)).astype(np.float32) for _ in range(3))
    outputs = tuple(attention @ one.values for attention, one in zip(attentions, seen, strict=True))
    Reading(reading.text, reading.tokens, reading.seen, outputs, states, (block, block), "tiny").save(path, blocks=True)


def split(content: bytes) -> tuple[dict[str, Any], bytes]:
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def joined(header: dict[str, Any], numbers: bytes) -> bytes:
    written = json.dumps(header).encode()
    written += b" " * (-len(written) % 8)
    return struct.pack("<Q", len(written)) + written + numbers


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        found += places(part, (*path, key))
    return found


def mutate(structure: Any, rng: random.Random) -> None:
    for _ in range(rng.choice((1, 1, 1, 2))):
        *path, last = rng.choice(places(structure))
        holder = structure
        for key in path:
            holder = holder[key]
        chance = rng.random()
        if chance < 0.15:
            del holder[last]
        elif chance < 0.25 and isinstance(holder, list):
            holder.append(rng.choice(VALUES))
        elif chance < 0.3 and isinstance(holder, dict):
            holder[rng.choice(["x", "kind", "array", "slice", "mask", "bias"])] = rng.choice(VALUES)
        else:
            holder[last] = rng.choice(VALUES)


def used(path: Path) -> bool:
    """Load and use a file; False where it is refused."""
    try:
        reading = Reading.load(path)
        repr(reading)
        reading.pairs()
        for place in range(len(reading.words)):
            reading.looks(place)
        reading.rollout()
        np.asarray(reading.attention(0)[:])
        reading.explain(0, layer=0)
        reading.save(path.with_name("again.safetensors"), blocks=True)
    except RegardError:
        return False
    return True


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    saved(tmp_path / "reading.safetensors")
    assert used(tmp_path / "reading.safetensors")
    return tmp_path / "reading.safetensors"


@pytest.mark.parametrize("seed", range(2))
def test_mutated_structures_load_or_are_refused(sound: Path, seed: int) -> None:
    header, numbers = split(sound.read_bytes())
    key = next(iter(header["__metadata__"]))
    rng = random.Random(seed)
    loaded = 0
    for _ in range(MUTATIONS):
        structure = json.loads(header["__metadata__"][key])
        mutate(structure, rng)
        changed = header | {"__metadata__": {key: json.dumps(structure)}}
        sound.write_bytes(joined(changed, numbers))
        loaded += used(sound)
    assert loaded < MUTATIONS


def test_mutated_bytes_load_or_are_refused(sound: Path) -> None:
    content = sound.read_bytes()
    rng = random.Random(7)
    for _ in range(500):
        changed = bytearray(content)
        for _ in range(rng.choice((1, 1, 3))):
            changed[rng.randrange(min(len(changed), 6000))] = rng.randrange(256)
        sound.write_bytes(bytes(changed))
        used(sound)


def test_mutated_headers_load_or_are_refused(sound: Path) -> None:
    header, numbers = split(sound.read_bytes())
    rng = random.Random(11)
    for _ in range(500):
        changed = json.loads(json.dumps(header))
        metadata = changed.pop("__metadata__")
        mutate(changed, rng)
        sound.write_bytes(joined(changed | {"__metadata__": metadata}, numbers))
        used(sound)

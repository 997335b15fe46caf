"""Mutated saved readings: each loads as a reading that works, or is refused with a RegardError."""

from __future__ import annotations

import json
import random
import struct
from functools import reduce
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
        assert all(0 <= token.start <= token.stop <= len(reading.text) for token in reading.tokens)
        assert reading.given is None or 0 <= reading.given <= len(reading.tokens)
        repr(reading)
        reading.pairs()
        for place in range(len(reading.words)):
            reading.strongest(place)
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


def change(path: Path, edit: Any) -> None:
    """Write a file whose metadata went through `edit`."""
    header, numbers = split(path.read_bytes())
    key = next(iter(header["__metadata__"]))
    structure = json.loads(header["__metadata__"][key])
    edit(structure)
    path.write_bytes(joined(header | {"__metadata__": {key: json.dumps(structure)}}, numbers))


def put(*path: Any) -> Any:
    *holders, last, value = path

    def edit(structure: Any) -> None:
        for key in holders:
            structure = structure[key]
        structure[last] = value

    return edit


NESTED: Any = reduce(lambda inner, _: {"kind": "Inverse", "inner": inner}, range(200), dict[str, Any](kind="Causal"))
LIES: dict[str, tuple[Any, str]] = {
    "a prompt of −1 tokens": (put("given", -1), "given"),
    "a prompt longer than the text": (put("given", 6), "given"),
    "a prompt of half a token": (put("given", 2.5), "given"),
    "a negative start": (put("tokens", 1, 2, -1), "tokens"),
    "a stop before the start": (put("tokens", 3, 3, 4), "tokens"),
    "a stop beyond the text": (put("tokens", 3, 3, 10), "tokens"),
    "a negative id": (put("tokens", 1, 1, -7), "tokens"),
    "a token of five fields": (lambda structure: structure["tokens"][1].pop(), "tokens"),
    "a token too few": (lambda structure: structure["tokens"].pop(), "tokens"),
    "tokens that are a number": (put("tokens", 5), "tokens"),
    "a scale that is NaN": (put("layers", 0, "scale", float("nan")), "layers"),
    "an infinite scale": (put("layers", 0, "scale", float("inf")), "layers"),
    "a soft cap that is NaN": (put("layers", 1, "softcap", float("nan")), "layers"),
    "a negative soft cap": (put("layers", 1, "softcap", -5.0), "layers"),
    "a negative window": (put("layers", 0, "mask", "masks", 0, "masks", 1, "left", -1), "layers"),
    "a window that is NaN": (put("layers", 0, "mask", "masks", 0, "masks", 1, "right", float("nan")), "layers"),
    "−1 first keys": (put("layers", 0, "mask", "masks", 1, "n", -1), "layers"),
    "chunks of 0": (put("layers", 0, "mask", {"kind": "Chunks", "n": 0}), "layers"),
    "a negative length": (put("layers", 0, "mask", {"kind": "Lengths", "counts": -1, "side": "right"}), "layers"),
    "padding on no side": (put("layers", 0, "mask", {"kind": "Lengths", "counts": 2, "side": "up"}), "layers"),
    "a negative prefix": (put("layers", 0, "mask", {"kind": "Prefix", "n": -1, "start": 0}), "layers"),
    "a layer without keys": (lambda structure: structure["layers"][0].pop("keys"), "keys"),
    "no layers": (put("layers", []), "layer"),
    "an output too few": (lambda structure: structure["outputs"].pop(), "outputs"),
    "outputs by number": (put("outputs", [0, 1]), "outputs"),
    "a state too many": (lambda structure: structure["states"].append("states.0"), "states"),
    "a block too few": (lambda structure: structure["blocks"].pop(), "blocks"),
    "a model without a name": (put("model", None), "model"),
    "text that is a list": (put("text", ["kids"]), "text"),
    "a version that is true": (put("version", True), "version"),
    "another version": (put("version", 2), "version"),
    "an array that is missing": (put("layers", 0, "queries", "elsewhere"), "layers"),
    "an array by number": (put("layers", 0, "keys", 3), "layers"),
    "a token too many": (lambda structure: structure["tokens"].append(["x", 1, 0, 1, False, False]), "layer"),
    "a token of words": (put("tokens", 0, ["x", "y", 0, 1, False, False]), "tokens"),
    "an unknown mask": (put("layers", 0, "mask", {"kind": "Where", "function": "os.system"}), "layers"),
    "a mask of words": (put("layers", 0, "mask", {"kind": "Window", "left": "a", "right": 1}), "layers"),
    "a mask with more": (put("layers", 0, "mask", {"kind": "Causal", "left": 1}), "layers"),
    "a number for a mask": (put("layers", 0, "mask", 3), "layers"),
    "a mask nested too deep": (put("layers", 0, "mask", NESTED), "layers"),
    "a scale of words": (put("layers", 0, "scale", "wide"), "layers"),
    "an option that is missing": (lambda structure: structure["layers"][0].pop("bias"), "bias"),
    "a block that is none": (put("blocks", [{"kind": "Linear", "weight": {"array": "x"}}] * 2), "blocks"),
    "states of another shape": (put("states", ["layers.0.queries"] * 3), "state"),
}  # fmt: skip


@pytest.mark.parametrize("what", LIES)
def test_a_file_that_contradicts_itself_is_refused_by_field(sound: Path, what: str) -> None:
    edit, field = LIES[what]
    change(sound, edit)
    with pytest.raises(RegardError) as problem:
        Reading.load(sound)
    assert sound.name in str(problem.value) and field in str(problem.value)
    assert len(str(problem.value)) < 400


NAMES = ("layers.0.queries", "layers.1.keys", "layers.0.values", "outputs.1", "states.2", "layers.1.sinks")


@pytest.mark.parametrize("name", [*NAMES, "blocks.0.attention.w_q.weight"])
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused_by_name(sound: Path, name: str, number: float) -> None:
    header, numbers = split(sound.read_bytes())
    changed = bytearray(numbers)
    start = header[name]["data_offsets"][0]
    changed[start : start + 4] = np.float32(number).tobytes()
    sound.write_bytes(joined(header, bytes(changed)))
    with pytest.raises(RegardError) as problem:
        Reading.load(sound)
    assert sound.name in str(problem.value) and name in str(problem.value)


def test_sinks_of_minus_infinity_are_no_sinks(sound: Path) -> None:
    header, numbers = split(sound.read_bytes())
    changed = bytearray(numbers)
    start = header["layers.1.sinks"]["data_offsets"][0]
    changed[start : start + 4] = np.float32(-np.inf).tobytes()
    sound.write_bytes(joined(header, bytes(changed)))
    assert Reading.load(sound).layers == 2


def test_a_loaded_reading_says_that_text_and_model_are_unverified(sound: Path) -> None:
    change(sound, put("model", "gpt-5"))
    reading = Reading.load(sound)
    assert reading.unverified == (
        "The text and the model's name, gpt-5, are those that reading.safetensors states: they are not verified."
    )
    assert "unverified" in repr(reading)
    again = sound.with_name("again.safetensors")
    reading.save(again)
    assert "again.safetensors" in Reading.load(again).unverified
    assert not Reading.of(reading.attention(0), reading.seen[0].values).unverified

"""How exact float32 is: the native engine's error against the truth is no larger than twice that of PyTorch's kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard
from regard.kernels.choosing import NATIVE_PROBLEM

from .engines import using

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(NATIVE_PROBLEM is not None, reason="the native engine is not built")

# queries, keys, size, causal, and how far the scores reach: many keys, long vectors, weights on few keys.
SHAPES = {
    "one block": (64, 64, 64, False, 1.0),
    "many keys": (128, 3000, 64, False, 1.0),
    "long vectors": (200, 500, 256, False, 1.0),
    "causal": (700, 700, 64, True, 1.0),
    "sharp": (300, 1000, 64, False, 8.0),
    "decoding": (1, 5000, 128, False, 1.0),
}


def errors(shape: str) -> dict[str, tuple[float, float]]:
    """Largest and root-mean-square distance from float64, relative to the size of the outputs."""
    queries, keys, size, causal, sharpness = SHAPES[shape]
    rng = np.random.default_rng(len(shape))
    q, k, v = (rng.normal(size=(1, 4, count, size)).astype(np.float32) for count in (queries, keys, keys))
    q *= np.float32(sharpness)
    tensors = [torch.from_numpy(array) for array in (q, k, v)]
    truth = torch.nn.functional.scaled_dot_product_attention(*(t.double() for t in tensors), is_causal=causal).numpy()
    peer = torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=causal).numpy()
    with using("native"):
        ours = regard.Attention(q, k, mask=regard.causal() if causal else None) @ v
    level = np.sqrt(np.square(truth).mean())
    return {
        name: (np.abs(found - truth).max() / level, np.sqrt(np.square(found - truth).mean()) / level)
        for name, found in (("regard", ours), ("torch", peer))
    }


@pytest.mark.parametrize("shape", SHAPES)
def test_float32_is_no_less_exact_than_twice_the_error_of_pytorch(shape: str, record_property: Any) -> None:
    found = errors(shape)
    said = ", ".join(f"{name} {largest:.1e} (rms {usual:.1e})" for name, (largest, usual) in found.items())
    record_property("measured", f"largest error, {shape}: {said}")
    print(f"largest error, {shape}: {said}")  # noqa: T201
    for ours, peer in zip(found["regard"], found["torch"], strict=True):
        assert ours <= 2 * peer

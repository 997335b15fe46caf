"""How exact float32 is: the native engine's error is no larger than twice that of PyTorch's kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard
from regard.engines.select import NATIVE_PROBLEM

from .engine_names import using

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(NATIVE_PROBLEM is not None, reason="the native engine is not built")

# queries, keys, size, causal, and how far the scores reach: many keys, long vectors, weights on few keys.
SHAPES = {
    "one block": (64, 64, 64, False, 1.0),
    "many keys": (128, 3000, 64, False, 1.0),
    "very many keys": (32, 10000, 64, False, 1.0),
    "long vectors": (200, 500, 256, False, 1.0),
    "causal": (700, 700, 64, True, 1.0),
    "sharp": (300, 1000, 64, False, 8.0),
    "decoding": (1, 5000, 128, False, 1.0),
}
DRAWS = 5


def errors(shape: str, draw: int) -> dict[str, tuple[float, float]]:
    """Root-mean-square and largest distance from float64, relative to the size of the outputs."""
    queries, keys, size, causal, sharpness = SHAPES[shape]
    rng = np.random.default_rng(draw)
    q, k, v = (rng.normal(size=(1, 4, count, size)).astype(np.float32) for count in (queries, keys, keys))
    q *= np.float32(sharpness)
    tensors = [torch.from_numpy(array) for array in (q, k, v)]
    truth = torch.nn.functional.scaled_dot_product_attention(*(t.double() for t in tensors), is_causal=causal).numpy()
    peer = torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=causal).numpy()
    with using("native"):
        ours = regard.Attention(q, k, mask=regard.causal() if causal else None) @ v
    level = np.sqrt(np.square(truth).mean())
    return {
        name: (np.sqrt(np.square(found - truth).mean()) / level, np.abs(found - truth).max() / level)
        for name, found in (("regard", ours), ("torch", peer))
    }


@pytest.mark.parametrize("shape", SHAPES)
def test_float32_is_no_less_exact_than_twice_the_error_of_pytorch(shape: str, record_property: Any) -> None:
    """By the usual error, and by the largest: the median of a few draws, for the largest of one is mostly chance.

    The ratio of two largest errors was seen to range from 0.25 to 2.3 between draws, that of the usual ones by 5%.
    """
    found = [errors(shape, draw) for draw in range(DRAWS)]
    ours, peer = (np.median([one[name] for one in found], axis=0) for name in ("regard", "torch"))
    said = (
        f"{shape}: usual error {ours[0]:.1e}, PyTorch's {peer[0]:.1e}; largest {ours[1]:.1e}, PyTorch's {peer[1]:.1e}"
    )
    record_property("measured", said)
    print(said)  # noqa: T201
    assert (ours <= 2 * peer).all(), said

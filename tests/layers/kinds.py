"""One layer of every kind and setting, with seeded weights, for tests that hold for all of them."""

from __future__ import annotations

from typing import Any

from regard.layers import (
    Alibi,
    Decoder,
    Embedding,
    Encoder,
    FeedForward,
    LayerNorm,
    Learned,
    Linear,
    MultiHead,
    RMSNorm,
    Rotary,
    Sinusoidal,
    Transformer,
)

VOCABULARY, TOKENS, WIDTH = 7, 5, 6


def layers(dtype: Any) -> dict[str, Any]:
    """Those that have weights; all but those of tokens and positions map vectors of WIDTH numbers."""
    of: dict[str, Any] = {"seed": 7, "dtype": dtype}
    return {
        "linear": Linear.seeded(WIDTH, 4, **of),
        "layer norm": LayerNorm.seeded(WIDTH, epsilon=1e-3, dtype=dtype),
        "rms norm": RMSNorm.seeded(WIDTH, dtype=dtype),
        "feed-forward": FeedForward.seeded(WIDTH, 7, activation="gelu_tanh", **of),
        "gated feed-forward": FeedForward.seeded(WIDTH, 7, activation="silu", gated=True, bias=False, **of),
        "multi-head": MultiHead.seeded(WIDTH, 3, **of),
        "causal": MultiHead.seeded(WIDTH, 3, causal=True, **of),
        "grouped": MultiHead.seeded(WIDTH, 3, kv_heads=1, causal=True, **of),
        "rotary": MultiHead.seeded(WIDTH, 3, rotary=Rotary(2), causal=True, **of),
        "alibi": MultiHead.seeded(WIDTH, 3, alibi=Alibi.of(3), causal=True, **of),
        "post-norm encoder": Encoder.seeded(WIDTH, 2, 7, activation="gelu", **of),
        "pre-norm encoder": Encoder.seeded(WIDTH, 2, 7, activation="tanh", norm_first=True, causal=True, **of),
        "decoder": Decoder.seeded(WIDTH, 2, 7, activation="gelu", cross=True, **of),
        "learned positions": Learned.seeded(TOKENS, WIDTH, **of),
        "embedding": Embedding.seeded(VOCABULARY, WIDTH, **of),
        "transformer": Transformer.seeded(
            VOCABULARY, WIDTH, 3, encoders=1, decoders=2, positions="learned", head=5, **of
        ),
    }


WITHOUT_WEIGHTS = {
    "sinusoidal": Sinusoidal(500.0),
    "scaled rotary": Rotary(4, 500.0, True, (1.0, 0.1)),
    "slopes": Alibi((0.5, 0.25)),
}

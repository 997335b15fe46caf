"""Times of words from Whisper's cross-attention: tokens by frames, aligned by dynamic time warping.

The model here is tiny and random, so its times mean nothing; the code is that for a real one. There, put the model's
alignment heads in place of all heads (`model.generation_config.alignment_heads`).
"""

from typing import Any

import numpy as np
import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

import regard

SECONDS_PER_FRAME = 0.02  # of Whisper's encoder


def warped(cost: Any) -> list[tuple[int, int]]:
    """The cheapest monotonic path through a (token, frame) matrix, as pairs of token and frame."""
    tokens, frames = cost.shape
    total = np.full((tokens + 1, frames + 1), np.inf)
    total[0, 0] = 0
    for token in range(tokens):
        for frame in range(frames):
            before = min(total[token, frame], total[token, frame + 1], total[token + 1, frame])
            total[token + 1, frame + 1] = cost[token, frame] + before
    token, frame, path = tokens, frames, []
    while token and frame:
        path.append((token - 1, frame - 1))
        steps = ((token - 1, frame - 1), (token - 1, frame), (token, frame - 1))
        token, frame = min(steps, key=lambda place: total[place])
    return path[::-1]


def times(weights: Any) -> list[tuple[float, float]]:
    """First and last second of every token, from weights (token, frame) averaged over heads."""
    spread = (weights - weights.mean(0)) / (weights.std(0) + 1e-9)
    path = warped(-spread)
    frames = [[frame for token, frame in path if token == row] for row in range(len(weights))]
    return [(min(some) * SECONDS_PER_FRAME, (max(some) + 1) * SECONDS_PER_FRAME) for some in frames]


# A map that is known: token t covers frames 3t to 3t + 2.
planted = np.kron(np.eye(4), np.ones((1, 3)))
print("planted:", [f"{start:.2f}-{stop:.2f}" for start, stop in times(planted)])

torch.manual_seed(0)
config = WhisperConfig(
    vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
    encoder_ffn_dim=40, decoder_ffn_dim=40, num_mel_bins=8, max_source_positions=40, init_std=0.5, pad_token_id=0,
    bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, begin_suppress_tokens=None, suppress_tokens=None,
)  # fmt: skip
model = WhisperForConditionalGeneration(config).eval()
sound, tokens = torch.randn(1, 8, 80), torch.tensor([[1, 17, 23, 42, 8]])

with regard.watch(model) as seen, torch.inference_mode():
    model(input_features=sound, decoder_input_ids=tokens)
print(seen.cross[1].attention)  # (batch, head, token, frame)
weights = seen.cross[1].attention.dense()[0].mean(0).numpy()
for number, (start, stop) in zip(tokens[0].tolist(), times(weights), strict=True):
    print(f"token {number:2}  {start:.2f} s to {stop:.2f} s")

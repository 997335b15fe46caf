"""What the presets learn, measured: accuracy, the heads that answer, and what silencing them does. Minutes each."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from regard.layers import Embedding, Encoder, LayerNorm, Learned, Linear, Transformer  # noqa: E402
from regard.training import preset, task, train  # noqa: E402
from regard.training.measurement import previous_token  # noqa: E402


def test_a_previous_token_head_is_found_by_its_attention():
    """One head with q = k shifted by one position, by construction, looks at the token before and nowhere else."""
    width = length = 8
    eye = np.eye(width, dtype=np.float32)
    block = Encoder.seeded(width, 1, 4, norm_first=True, causal=True)
    shift = np.roll(eye, 1, axis=1) * 40
    attention = type(block.attention)(Linear(shift), Linear(eye * 40), Linear(eye), Linear(eye), heads=1, causal=True)
    made = Encoder(attention, block.feed_forward, LayerNorm(np.ones(width)), block.norm_2, norm_first=True)
    model = Transformer(Embedding(np.zeros((3, width), np.float32)), Learned(eye), (made,))
    run = model.run(np.zeros((2, length), int))
    assert previous_token(run.seen)[0, 0] == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_lookup_of_32_pairs_is_learned(seed):
    one = task("lookup", pairs=32)
    trained = train(preset(one).network(one, seed=seed), one, preset(one).recipe, seed=seed)
    last = trained.record.snapshots[-1]
    assert last.accuracy >= 0.99
    assert last.attention_accuracy >= 0.9 and trained.record.snapshots[0].attention_accuracy < 0.1

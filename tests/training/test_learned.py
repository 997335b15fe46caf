"""What the presets learn, measured: accuracy, the heads that answer, and what silencing them does. Minutes each."""

from __future__ import annotations

import numpy as np
import pytest

import regard

torch = pytest.importorskip("torch")

from regard.heads.ablation import silenced  # noqa: E402
from regard.layers import Embedding, Encoder, LayerNorm, Learned, Linear, Transformer  # noqa: E402
from regard.training import Batch, preset, task, train  # noqa: E402
from regard.training.measurement import head_accuracy, held_out_batch, previous_token  # noqa: E402


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
    keys = np.full((2, length), -1)
    keys[:, -1] = 3, 5
    batch = Batch(np.zeros((2, length), int), keys, keys, keys)
    assert previous_token(run.seen, batch)[0, 0] == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_lookup_of_32_pairs_is_learned(seed):
    one = task("lookup", pairs=32)
    trained = train(preset(one).network(one, seed=seed), one, preset(one).recipe, seed=seed)
    last = trained.record.snapshots[-1]
    assert last.accuracy >= 0.99
    assert last.attention_accuracy >= 0.9 and trained.record.snapshots[0].attention_accuracy < 0.1


@pytest.mark.slow
def test_an_induction_head_is_fed_by_previous_token_heads(tmp_path):
    one = task("induction")
    untrained = preset(one).network(one)
    train(untrained, one, preset(one).recipe, out=tmp_path)
    model, batch = regard.model(tmp_path), held_out_batch(one)
    scored = batch.targets >= 0

    def accuracy(transformer: Transformer) -> float:
        return float((transformer(batch.tokens).argmax(-1) == batch.targets)[scored].mean())

    before = untrained.run(batch.tokens)
    assert previous_token(before.seen, batch).max() < 0.3 and head_accuracy(before.seen, batch, 1).max() < 0.3
    run = model.transformer.run(batch.tokens)
    previous, induction = previous_token(run.seen, batch), head_accuracy(run.seen, batch, 1)[..., 0]
    assert accuracy(model.transformer) > 0.98
    assert previous[0].max() > 0.9 and induction[1].max() > 0.9
    feeding = [(0, int(head)) for head in np.flatnonzero(previous[0] > 0.5)]
    answering = [(1, int(head)) for head in np.flatnonzero(induction[1] > 0.5)]
    chance = 4 / one.length  # a token of the segment, guessed
    for heads in (feeding, answering):
        assert accuracy(silenced(model, heads).transformer) < 3 * chance

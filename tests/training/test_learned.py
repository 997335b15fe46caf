"""What the presets learn, measured: accuracy, the heads that answer, and what silencing them does. Minutes each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import regard
from regard import _core

torch = pytest.importorskip("torch")

from regard.edits import silence  # noqa: E402
from regard.layers import Embedding, Encoder, LayerNorm, Learned, Linear, Transformer  # noqa: E402
from regard.training import preset, task, train  # noqa: E402
from regard.training.measurement import head_accuracy, held_out_batch  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As `regard train` does for small steps: several processes with several threads each would wait for each other."""
    counts = torch.get_num_threads(), _core.threads()
    torch.set_num_threads(1)
    _core.set_threads(1)
    yield
    torch.set_num_threads(counts[0])
    _core.set_threads(counts[1])


def test_a_previous_token_head_is_found_by_its_attention():
    """One head with q = k shifted by one position, by construction, looks at the token before and nowhere else."""
    width = length = 8
    eye = np.eye(width, dtype=np.float32)
    block = Encoder.seeded(width, 1, 4, norm_first=True, causal=True)
    shift = np.roll(eye, 1, axis=1) * 40
    attention = type(block.attention)(Linear(shift), Linear(eye * 40), Linear(eye), Linear(eye), heads=1, causal=True)
    made = Encoder(attention, block.feed_forward, LayerNorm(np.ones(width)), block.norm_2, norm_first=True)
    model = Transformer(Embedding(np.zeros((9, width), np.float32)), Learned(eye), (made,))
    batch = task("induction", length=length, vocabulary=9).batch(3)
    found = head_accuracy(model.run(batch.tokens).seen, batch, 2)
    assert found[0, 0, 1] == 1.0 > found[0, 0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_lookup_of_32_pairs_is_learned(seed):
    one = task("lookup", pairs=32)
    trained = train(preset(one).network(one, seed=seed), one, preset(one).recipe, seed=seed)
    last = trained.record.snapshots[-1]
    assert last.accuracy >= 0.99
    assert last.attention_accuracy >= 0.9 and trained.record.snapshots[0].attention_accuracy < 0.1


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_every_relation_has_a_head_and_unseen_combinations_are_right(seed):
    one = task("relations")
    untrained = preset(one).network(one, seed=seed)
    trained = train(untrained, one, preset(one).recipe, seed=seed)
    batch = held_out_batch(one, 1024, seed=1)  # seed 0 is shown during the training
    scored = batch.targets >= 0
    run = trained.model.run(batch.tokens)
    assert (run.result.argmax(-1) == batch.targets)[scored].mean() >= 0.98
    before, after = (
        head_accuracy(seen, batch, len(one.relations)).max(axis=(0, 1))
        for seen in (untrained.run(batch.tokens).seen, run.seen)
    )
    assert before.max() <= 0.3 and after.min() >= 0.9, dict(zip(one.relations, after, strict=True))


@pytest.mark.slow
def test_an_induction_head_is_fed_by_previous_token_heads(tmp_path):
    one = task("induction")
    untrained = preset(one).network(one)
    train(untrained, one, preset(one).recipe, out=tmp_path)
    model, batch = regard.model(tmp_path), held_out_batch(one)
    scored = batch.targets >= 0
    assert head_accuracy(untrained.run(batch.tokens).seen, batch, 2).max() < 0.3
    found = head_accuracy(model.transformer.run(batch.tokens).seen, batch, 2)
    induction, previous = found[..., 0], found[..., 1]
    assert (model.transformer(batch.tokens).argmax(-1) == batch.targets)[scored].mean() > 0.98
    assert previous[0].max() > 0.9 and induction[1].max() > 0.9
    feeding = [(0, int(head)) for head in np.flatnonzero(previous[0] > 0.5)]
    answering = [(1, int(head)) for head in np.flatnonzero(induction[1] > 0.5)]
    chance = 4 / one.length  # a token of the segment, guessed
    for heads in (feeding, answering):
        outcome = dict(model.outcomes(batch.tokens.tolist(), [silence(*heads)], all_logits=True))[0]
        assert outcome.logits is not None
        answers = np.stack([outcome.logits(text, slice(None)).argmax(-1) for text in range(len(batch.tokens))])
        assert (answers == batch.targets)[scored].mean() < 3 * chance

"""Ablation against PyTorch: head outputs set to zero by a hook, and gradients by autograd."""

import numpy as np
import pytest

from regard.heads.ablation_effects import Ablation, silenced
from regard.heads.documents import documents_of

from ..models.checkpoints import SENTENCES, base_of, torch

TEXTS = [text for text in SENTENCES if " " in text]


def by_hooks(tiny, heads, documents):
    """The last hidden states and the loss of transformers, the outputs of some heads zeroed before W_O."""
    twin, base = tiny.twin, base_of(tiny.twin)
    bert = hasattr(base, "encoder")
    handles = []
    for layer in {layer for layer, _ in heads}:
        if bert:
            module = base.encoder.layer[layer].attention.output.dense
        else:
            module = base.layers[layer].self_attn.o_proj
        size = module.in_features // twin.config.num_attention_heads

        def zero(_module, inputs, layer=layer, size=size):
            outputs = inputs[0].clone()
            for of_layer, head in heads:
                if of_layer == layer:
                    outputs[..., head * size : (head + 1) * size] = 0
            return (outputs,)

        handles.append(module.register_forward_pre_hook(zero))
    states, losses, count = [], 0.0, 0
    with torch.no_grad():
        for document in documents:
            ids = torch.tensor([document.ids.tolist()])
            states.append(base(ids).last_hidden_state[0].double().numpy())
            if not bert:
                logits = twin(ids).logits[0, :-1].double()
                losses += float(torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum"))
                count += len(document) - 1
    for handle in handles:
        handle.remove()
    return states, losses / max(count, 1)


@pytest.mark.parametrize("heads", [[(0, 1)], [(1, 0), (1, 4)], [(0, head) for head in range(5)], [(0, 0), (1, 3)]])
def test_silencing_equals_outputs_zeroed_in_transformers(tiny, heads):
    model = tiny.open()
    documents = documents_of(model, TEXTS)
    effect = Ablation.of(model, documents).without(heads)
    usual, loss = by_hooks(tiny, [], documents)
    changed, loss_without = by_hooks(tiny, heads, documents)
    moved = [
        np.linalg.norm(one - other, axis=1) / np.linalg.norm(other, axis=1)
        for one, other in zip(changed, usual, strict=True)
    ]
    assert effect.hidden == pytest.approx(np.concatenate(moved).mean(), rel=1e-3)
    if model.causal:
        assert effect.loss == pytest.approx(loss_without - loss, abs=2e-5)
    else:
        assert effect.loss is None


def test_the_estimate_is_the_derivative_of_the_loss_by_the_heads_gate(tmp_path):
    from regard.edits import scale

    from .conftest import tiny_llama

    model = tiny_llama(tmp_path).open()
    ablation = Ablation.of(model, documents_of(model, TEXTS))
    estimates = ablation.estimates()
    assert estimates is not None
    step = 0.02
    for layer, head in [(0, 0), (1, 5), (2, 3)]:
        losses = []
        for sign in (-1, 1):
            changed = model.edited(scale((layer, head), factor=1 + sign * step))
            loss = Ablation.of(changed, ablation.documents).loss
            assert loss is not None
            losses.append(loss)
        slope = (losses[1] - losses[0]) / (2 * step)
        assert estimates[layer, head] == pytest.approx(-slope, abs=2e-4, rel=0.02)


def test_each_head_has_an_effect_and_the_pruning_curve_ends_at_the_whole_model(tiny):
    model = tiny.open()
    ablation = Ablation.of(model, documents_of(model, TEXTS))
    effects = ablation.each()
    assert [one.heads[0] for one in effects] == [
        (layer, head) for layer in range(len(model.blocks)) for head in range(model.heads)
    ]
    assert all(one.hidden > 0 for one in effects)
    curve = ablation.pruning(effects, points=4)
    assert curve[0][0] == 0 and curve[-1][0] == len(effects)
    assert curve[-1][1].hidden == 0
    assert curve[0][1].hidden == pytest.approx(ablation.without([one.heads[0] for one in effects]).hidden)


def test_a_layer_is_all_its_heads(tiny):
    model = tiny.open()
    ablation = Ablation.of(model, documents_of(model, TEXTS))
    assert ablation.layers()[1].hidden == ablation.without([(1, head) for head in range(model.heads)]).hidden


def test_a_head_that_is_not_there_is_named(tiny):
    with pytest.raises(IndexError, match="names head 99 of layer 0"):
        silenced(tiny.open(), [(0, 99)])


def test_batches_do_not_change_effects(tiny, monkeypatch):
    from regard.heads import ablation_effects
    from regard.heads.documents import batches

    model = tiny.open()
    documents = documents_of(model, TEXTS)
    whole = Ablation.of(model, documents)
    expected = whole.effects([[(0, 1)], [], [(1, 2), (0, 0)]])
    counts: list[int] = []
    monkeypatch.setattr(ablation_effects, "batches", lambda some: batches(some, 7))
    parts = Ablation.of(model, documents)
    assert len(parts._batches()) > 2
    for one, other in zip(parts.effects([[(0, 1)], [], [(1, 2), (0, 0)]], counts.append), expected, strict=True):
        assert one.heads == other.heads and one.hidden == pytest.approx(other.hidden, abs=1e-6)
        assert one.loss == (None if other.loss is None else pytest.approx(other.loss, abs=1e-5))
    assert counts[-1] == 2 and counts == sorted(counts)

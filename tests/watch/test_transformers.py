"""`attn_implementation="regard"`: Regard's engine computes a model of transformers that nothing watches."""

import pytest
import torch

import regard
import regard.transformers

from .models import gemma3, llama, tokens


@pytest.mark.parametrize("make", [llama, gemma3])
def test_outputs_tokens_and_gradients_equal_those_of_pytorch(make):
    model, ids = make(), tokens(2, 9)
    mask = torch.ones_like(ids)
    mask[0, :4] = 0
    inputs = {"input_ids": ids, "attention_mask": mask}
    options = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False}

    def computed():
        model.zero_grad()
        logits = model(**inputs).logits[mask.bool()]
        logits.square().mean().backward()
        weight = model.model.layers[1].self_attn.q_proj.weight.grad.clone()
        return logits.detach(), weight, model.generate(**inputs, **options)

    expected = computed()
    model.set_attn_implementation("regard")
    found = computed()
    torch.testing.assert_close(found[0], expected[0], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(found[1], expected[1], atol=1e-4, rtol=1e-3)
    assert torch.equal(found[2], expected[2])


def test_such_a_model_can_be_watched():
    model, ids = llama(attn_implementation="regard"), tokens(1, 7)
    assert model.config._attn_implementation == "regard"
    with regard.watch(model) as seen, torch.no_grad():
        model(ids)
    assert seen.layers[2].attention.shape == (1, 4, 7, 7)
    assert model.config._attn_implementation == "regard"

"""Models that compute attention in their own code are refused by name; those that call PyTorch's attention are seen."""

import pytest
import torch

import regard
from regard import errors

from .models import tokens

SMALL = {
    "vocab_size": 67, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
OWN_CODE = {
    "deberta-v2": SMALL,
    "bloom": {"vocab_size": 67, "hidden_size": 32, "n_layer": 2, "n_head": 4},
    "mpnet": SMALL,
    "xlnet": {"vocab_size": 67, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 40},
    "longformer": {**SMALL, "attention_window": 4},
}


def made(kind, options):
    from transformers import AutoConfig, AutoModel

    torch.manual_seed(3)
    return AutoModel.from_config(AutoConfig.for_model(kind, **options)).eval()


@pytest.mark.parametrize("kind", OWN_CODE)
def test_models_with_attention_in_their_own_code_are_refused_before_they_run(kind):
    model = made(kind, OWN_CODE[kind])
    with (
        pytest.raises(errors.Unsupported, match=rf"{type(model).__name__}.*\n.*output_attentions"),
        regard.watch(model),
    ):
        pytest.fail("the block must not be entered")
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_a_model_whose_attention_is_not_called_is_an_error_at_the_end():
    class Own(torch.nn.Module):
        def forward(self, x):
            return (x @ x.mT).softmax(-1) @ x

    model = torch.nn.Sequential(Own())
    with (
        pytest.raises(errors.Unsupported, match="Sequential computes its attention in its own code"),
        regard.watch(model),
    ):
        model(torch.ones(1, 4, 8))


def test_an_error_inside_the_block_is_not_replaced():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3))
    with pytest.raises(RuntimeError), regard.watch(model):
        model(torch.ones(2))


def test_falcon_is_seen_by_its_calls_of_pytorch():
    options = {"vocab_size": 67, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "alibi": False}
    model, ids = made("falcon", options), tokens(1, 9)
    with torch.no_grad(), regard.watch(model) as seen:
        model(ids)
    expected = []
    for layer in seen.layers:
        attention = layer.attention
        scores = attention.queries @ attention.keys.mT * attention.queries.shape[-1] ** -0.5
        hidden = torch.ones(9, 9, dtype=torch.bool).triu(1)
        expected.append(scores.masked_fill(hidden, -torch.inf).softmax(-1))
        torch.testing.assert_close(attention.dense(), expected[-1], atol=1e-6, rtol=0)
        torch.testing.assert_close(attention @ layer.values, layer.output, atol=1e-5, rtol=1e-5)
    assert len(expected) == 2


@pytest.mark.parametrize("padded", [False, True])
def test_falcon_generates_one_attention_over_all_tokens(padded):
    options = {"vocab_size": 67, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "alibi": False}
    from transformers import FalconConfig, FalconForCausalLM

    torch.manual_seed(3)
    model, ids = FalconForCausalLM(FalconConfig(**options, pad_token_id=0, eos_token_id=None)).eval(), tokens(2, 7)
    mask = torch.ones_like(ids)
    mask[0, : 3 * padded] = 0
    with regard.watch(model) as seen:
        written = model.generate(ids, attention_mask=mask, max_new_tokens=5, do_sample=False)
    whole = torch.nn.functional.pad(mask, (0, 4), value=1)
    with regard.watch(model) as once, torch.no_grad():
        model(written[:, :-1], attention_mask=whole)
    for layer, expected in zip(seen.layers, once.layers, strict=True):
        found, weights = layer.attention.dense(), expected.attention.dense()
        real = whole.bool()[:, None, :, None]
        torch.testing.assert_close(found * real, weights * real, atol=3e-6, rtol=0)

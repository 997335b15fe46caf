"""Models whose attention is not understood are refused by name, those without any are told so."""

import pytest
import torch

import regard
from regard import errors

from .models import tokens

SMALL = {
    "vocab_size": 67, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


def made(kind, options):
    from transformers import AutoConfig, AutoModel

    torch.manual_seed(3)
    return AutoModel.from_config(AutoConfig.for_model(kind, **options)).eval()


def test_longformer_whose_chunks_are_not_understood_is_refused_by_name():
    model = made("longformer", {**SMALL, "attention_window": 4})
    with (
        pytest.raises(errors.Unsupported, match=r"LongformerModel.*encoder\.layer\.0\.attention\.self.*\n.*output_att"),
        regard.watch(model),
    ):
        model(tokens(1, 8))


@pytest.mark.parametrize(
    ("kind", "options", "inputs"),
    [
        ("mamba", {"vocab_size": 67, "hidden_size": 16, "num_hidden_layers": 1, "state_size": 4}, "input_ids"),
        ("convnext", {"hidden_sizes": [8, 8, 8, 8], "depths": [1, 1, 1, 1]}, "pixel_values"),
    ],
)
def test_a_model_without_attention_is_said_to_have_none(kind, options, inputs):
    model = made(kind, options)
    given = tokens(1, 5) if inputs == "input_ids" else torch.ones(1, 3, 32, 32)
    with pytest.raises(errors.Unsupported, match=f"{type(model).__name__} has no attention"), regard.watch(model):
        model(**{inputs: given})


class SigmoidAttention(torch.nn.Module):
    def forward(self, x):
        return torch.sigmoid(x @ x.mT) @ x


class LinearAttn(torch.nn.Module):
    def forward(self, x):
        return x.relu() @ (x.relu().mT @ x)


@pytest.mark.parametrize("kind", [SigmoidAttention, LinearAttn])
def test_attention_without_a_softmax_over_keys_is_named_and_not_denied(kind):
    model = torch.nn.Sequential(kind())
    with pytest.raises(errors.Unsupported) as refused, regard.watch(model):
        model(torch.ones(2, 5, 4))
    assert kind.__name__ in str(refused.value) and "has no attention" not in str(refused.value)


def test_reformer_that_writes_its_softmax_out_is_recognised():
    """As exp(scores − logsumexp), over chunks of the text."""
    options = {
        "vocab_size": 67, "hidden_size": 16, "attn_layers": ["local"], "num_attention_heads": 2,
        "axial_pos_embds": False, "max_position_embeddings": 64, "local_attn_chunk_length": 4, "feed_forward_size": 16,
        "attention_head_size": 8, "is_decoder": True,
    }  # fmt: skip
    model = made("reformer", options)
    with torch.no_grad(), regard.watch(model) as seen:
        (expected,) = model(tokens(1, 8), output_attentions=True).attentions
    assert seen.certificate.is_complete and seen.certificate.recorded == 1
    weights = seen.layers[0].attention.dense()
    torch.testing.assert_close(weights.reshape(expected.shape), expected, atol=1e-6, rtol=0)


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


def test_a_model_whose_forward_is_called_by_itself_is_not_said_to_have_no_attention():
    """Modules are seen where they are called: what its parts compute is seen, what the model itself computes is not."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.part = torch.nn.Linear(4, 4)

        def forward(self, x):
            x = self.part(x)
            return (x @ x.mT).softmax(-1) @ x

    model = Model()
    with (
        pytest.raises(errors.OptionError, match=r"Model was not called.*forward\(\).*\nCall it: model\("),
        regard.watch(model),
    ):
        model.forward(torch.ones(2, 5, 4))

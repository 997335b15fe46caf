"""What is recorded is what the model's own implementation computes: eager and sdpa read masks in different ways."""

import pytest
import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

import regard

HEADS, SIZE = 3, 5
WIDTH = HEADS * SIZE


def eager_attention_forward(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **others):
    """As transformers writes it: a mask is added, whatever its type, and None hides nothing."""
    scores = query @ key.transpose(2, 3) * scaling
    if others.get("position_bias") is not None:
        scores = scores + others["position_bias"]
    if attention_mask is not None:
        scores = scores + attention_mask
    weights = scores.softmax(-1)
    return (weights @ value).transpose(1, 2).contiguous(), weights


class Attending(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, self.is_causal = config, True
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, states, keys, mask, **options):
        query, key, value = (
            layer(given).unflatten(-1, (HEADS, SIZE)).transpose(1, 2)
            for layer, given in ((self.query, states), (self.key, keys), (self.value, keys))
        )
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention_forward)
        return attend(self, query, key, value, mask, scaling=SIZE**-0.5, **options)[0].flatten(2)


class Model(PreTrainedModel):
    config_class = PretrainedConfig
    _supports_sdpa = True

    def __init__(self, config):
        super().__init__(config)
        self.attention = Attending(config)
        self.post_init()

    def forward(self, states, keys=None, mask=None, **options):
        return self.attention(states, states if keys is None else keys, mask, **options)


def recorded(implementation, states, keys=None, mask=None, **options):
    """The recorded weights, after a check that watching changes no output."""
    torch.manual_seed(4)
    model = Model._from_config(PretrainedConfig(), attn_implementation=implementation).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0, 0.5)
        expected = model(states, keys, mask, **options)
        with regard.watch(model) as seen:
            output = model(states, keys, mask, **options)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-6)
    (layer,) = seen
    weights, values = layer.attention.dense(), layer.values
    torch.testing.assert_close((weights @ values).transpose(1, 2).flatten(2), expected, rtol=1e-5, atol=1e-5)
    return weights


def numbers(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(2))


def test_eager_attention_without_a_mask_sees_all_keys():
    weights = recorded("eager", numbers(2, 4, WIDTH))
    assert bool((weights > 0).all())


def test_sdpa_without_a_mask_is_causal_where_its_module_is():
    weights = recorded("sdpa", numbers(2, 4, WIDTH))
    assert bool((weights.triu(1) == 0).all())


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_few_queries_over_other_keys_without_a_mask(implementation):
    """As Kosmos-2 projects images: sdpa lets the queries see the first keys only, eager all of them."""
    weights = recorded(implementation, numbers(2, 3, WIDTH), numbers(2, 8, WIDTH))
    if implementation == "eager":
        assert weights.shape[-1] == 8 and bool((weights > 0).all())
    else:
        assert not bool(weights[..., 3:].any())


def test_eager_attention_adds_a_boolean_mask_of_the_model():
    """As the text model of Grounding DINO does: True is one more, False hides nothing."""
    mask = numbers(2, 1, 4, 4) > 0
    weights = recorded("eager", numbers(2, 4, WIDTH), mask=mask)
    assert bool((weights > 0).all())


def test_sdpa_hides_by_a_boolean_mask_of_the_model():
    mask = (numbers(2, 1, 4, 4) > 0) | torch.eye(4, dtype=torch.bool)
    weights = recorded("sdpa", numbers(2, 4, WIDTH), mask=mask)
    assert torch.equal(weights > 0, mask.expand_as(weights))


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("is_causal", [False, None])
def test_learned_queries_are_those_of_every_sequence(implementation, is_causal):
    """As the projector of Granite Speech does: one set of queries over the keys of each sequence."""
    options = {} if is_causal is None else {"is_causal": is_causal}
    weights = recorded(implementation, numbers(1, 3, WIDTH), numbers(6, 7, WIDTH), **options)
    assert weights.shape[:3] == (6, HEADS, 3)


def test_a_bias_of_a_module_that_does_not_say_whether_it_decodes():
    """As the text model of Pix2Struct: a table of relative positions, without `is_decoder`."""
    torch.manual_seed(4)
    model = Model._from_config(PretrainedConfig(), attn_implementation="sdpa").eval()
    attention = model.attention
    attention.relative_attention_bias = nn.Embedding(8, HEADS)
    attention.relative_attention_num_buckets, attention.relative_attention_max_distance = 8, 16
    states, bias = numbers(2, 4, WIDTH), numbers(1, HEADS, 4, 4)
    with torch.no_grad():
        expected = model(states, position_bias=bias)
        with regard.watch(model) as seen:
            assert torch.equal(model(states, position_bias=bias), expected)
    (layer,) = seen
    output = (layer.attention.dense() @ layer.values).transpose(1, 2).flatten(2)
    torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-5)


def test_rows_that_see_no_key_are_the_models_own_where_it_adds_a_bias():
    """T5 with sdpa fills them with the mean of all values."""
    from transformers import T5Config, T5EncoderModel

    torch.manual_seed(4)
    config = T5Config(vocab_size=61, d_model=32, d_kv=8, d_ff=24, num_layers=2, num_heads=4, initializer_factor=2.0)
    model = T5EncoderModel._from_config(config, attn_implementation="sdpa").eval()
    ids = torch.arange(2, 16).reshape(2, 7)
    mask = torch.ones_like(ids)
    mask[0] = 0
    with torch.no_grad():
        expected = model(ids, attention_mask=mask).last_hidden_state
        with regard.watch(model):
            assert torch.equal(model(ids, attention_mask=mask).last_hidden_state, expected)

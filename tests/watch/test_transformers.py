"""`attn_implementation="regard"`: Regard's engine computes a model of transformers that nothing watches."""

import pytest
import torch

import regard
import regard.transformers

from .models import bart, gemma3, llama, tokens


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


def padding_of(ids):
    mask = torch.ones_like(ids)
    mask[0, :4] = 0
    return mask


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("use_cache", [False, True])
def test_autocast_gives_what_sdpa_gives(padded, use_cache):
    """The Trainer's normal case: queries and keys leave RoPE in float32, values are in bfloat16."""
    model, ids = llama(), tokens(2, 9)
    mask = padding_of(ids) if padded else torch.ones_like(ids)

    def computed():
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(ids, attention_mask=mask, use_cache=use_cache).logits[mask.bool()]
        logits.float().square().mean().backward()
        return logits.detach(), model.model.layers[1].self_attn.q_proj.weight.grad.clone()

    expected = computed()
    model.set_attn_implementation("regard")
    found = computed()
    assert found[0].dtype == expected[0].dtype
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=0.06 * float(other.abs().max()), rtol=0.06)  # 8 bits, 3 layers


@pytest.mark.parametrize("padded", [False, True])
def test_transforms_of_torch_func_give_what_sdpa_gives(padded):
    model, ids = llama(), tokens(2, 9)
    mask = padding_of(ids) if padded else None
    parameters = dict(model.named_parameters())

    def loss(values):
        logits = torch.func.functional_call(model, values, (ids,), {"attention_mask": mask, "use_cache": False}).logits
        return (logits if mask is None else logits[mask.bool()]).square().mean()

    expected = torch.func.grad(loss)(parameters)
    model.set_attn_implementation("regard")
    found = torch.func.grad(loss)(parameters)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("padded", [False, True])
def test_a_model_compiles_as_one_graph(padded):
    model, ids = llama(attn_implementation="regard"), tokens(2, 9)
    inputs = {"input_ids": ids, "use_cache": False, **({"attention_mask": padding_of(ids)} if padded else {})}
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    with torch.no_grad():
        expected, found = model(**inputs).logits, compiled(**inputs).logits
    real = padding_of(ids).bool() if padded else torch.ones_like(ids).bool()
    torch.testing.assert_close(found[real], expected[real], atol=1e-4, rtol=1e-4)


def bart_without_masks():
    """As Whisper, whose decoder gets no mask for the encoder's keys."""
    model = bart()
    for layer in model.model.decoder.layers:
        layer.encoder_attn.register_forward_pre_hook(without_mask, with_kwargs=True)
    return model


def without_mask(module, args, options):
    return args, {**options, "attention_mask": None}


@pytest.mark.parametrize("cache", ["dynamic", "static", None])
@pytest.mark.parametrize("make", [llama, gemma3, bart, bart_without_masks])
def test_generation_with_every_cache_writes_the_tokens_of_sdpa(make, cache):
    """The cross-attention of a static cache sees all of the encoder's keys, whatever the position of the query is."""
    model, ids = make(), tokens(2, 9)
    options = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "attention_mask": padding_of(ids)}
    options |= {"use_cache": False} if cache is None else {"cache_implementation": cache}
    expected = model.generate(ids, **options)
    model.set_attn_implementation("regard")
    assert torch.equal(model.generate(ids, **options), expected)

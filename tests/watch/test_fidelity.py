"""Watching changes nothing: what transformers' own tests check of a model holds while it is watched."""

import warnings
from contextlib import nullcontext

import pytest
import torch
from torch.utils._pytree import tree_leaves

import regard
from regard.watch.lazy_mask import MaskCall

from .architectures import ARCHITECTURES, build, inputs_of
from .models import bart, gemma3, llama, tokens

BY_NAME = {architecture.name: architecture for architecture in ARCHITECTURES}
FEW = ["BERT", "GPT-2", "OPT", "Mistral (sliding window)", "GPT-OSS (sinks)", "T5 (bias by distance)", "DINOv2"]
MANY = [pytest.param(name, marks=() if name in FEW else pytest.mark.slow) for name in BY_NAME]
KEEPS = ("all", "summary")


def same_bits(found, expected):
    """Every tensor of two outputs, whatever holds them."""
    found, expected = (tree_leaves(list(part)) for part in (found, expected))
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert type(one) is type(other)
        if isinstance(one, torch.Tensor):
            assert one.shape == other.shape and torch.equal(one.nan_to_num(), other.nan_to_num())


def values_of(output):
    return [value for name, value in output.items() if "past" not in name and value is not None]


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("name", MANY)
def test_an_eager_model_returns_the_same_bits_and_its_attentions(name, keep):
    """Rows of padding included, and the weights that output_attentions=True asks for."""
    architecture = BY_NAME[name]
    model, inputs = build(architecture, "eager"), inputs_of(architecture)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        expected = model(**inputs, output_attentions=True, output_hidden_states=True)
        with regard.watch(model, keep=keep):
            found = model(**inputs, output_attentions=True, output_hidden_states=True)
    assert list(found) == list(expected)
    same_bits(values_of(found), values_of(expected))


@pytest.mark.parametrize("name", MANY)
def test_a_model_that_is_only_recorded_returns_the_same_bits(name):
    """keep="all" without padding: the model's own function computes every output, except where it needs an n² mask."""
    architecture = BY_NAME[name]
    model, inputs = build(architecture), inputs_of(architecture)
    inputs = {name: one for name, one in inputs.items() if name != "attention_mask"}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        expected = model(**inputs)
        with regard.watch(model) as seen:
            found = model(**inputs)
    rules = [layer.runs[-1].calls[0].rule for layer in seen]
    if all(rule.is_plain for rule in rules if isinstance(rule, MaskCall)):
        same_bits(values_of(found), values_of(expected))
    else:  # windows and prefixes
        torch.testing.assert_close(found[0], expected[0], atol=1e-4, rtol=1e-4)


def t5():
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(3)
    config = T5Config(
        vocab_size=67, d_model=32, d_kv=8, d_ff=40, num_layers=2, num_heads=4, decoder_start_token_id=0, dropout_rate=0,
    )  # fmt: skip
    return T5ForConditionalGeneration(config)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("after", [False, True], ids=["inside", "after"])
@pytest.mark.parametrize("make", [llama, gemma3, t5, bart])
def test_gradients_by_checkpoints_are_those_of_the_unwatched_model(make, after, padded, reentrant):
    """Also with other heads chosen, and where the backward pass comes after the block."""
    model = make().train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if isinstance(getattr(module, "dropout", None), float):
            module.dropout = 0.0
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
    ids = tokens(2, 9)
    mask = torch.ones_like(ids)
    mask[0, 5:] = 0
    inputs = {"input_ids": ids, "labels": ids, **({"attention_mask": mask} if padded else {})}

    def gradients(watch):
        model.zero_grad()
        with watch:
            loss = model(**inputs, use_cache=False).loss
            if not after:
                loss.backward()
        if after:
            loss.backward()
        return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]

    expected = gradients(nullcontext())
    assert any(gradient.any() for gradient in expected)
    for options in ({}, {"keep": "summary"}, {"heads": [1, 3]}, {"layers": [1]}):
        found = gradients(regard.watch(model, **options))
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_assisted_decoding_writes_the_same_tokens_and_attentions(implementation, keep):
    model, helper = (llama(attn_implementation=implementation) for _ in range(2))
    options = {
        "assistant_model": helper, "max_new_tokens": 6, "do_sample": False, "return_dict_in_generate": True,
        "output_attentions": implementation == "eager", "output_scores": True,
    }  # fmt: skip
    expected = model.generate(tokens(1, 7), **options)
    with regard.watch(model, keep=keep), regard.watch(helper, keep=keep):
        found = model.generate(tokens(1, 7), **options)
    assert torch.equal(found.sequences, expected.sequences)
    if implementation == "eager":
        same_bits(found.attentions, expected.attentions)


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("cache", ["dynamic", "static", None])
@pytest.mark.parametrize("make", [llama, gemma3, bart])
def test_generation_with_every_cache_writes_the_same_tokens(make, cache, keep):
    model, ids = make(), tokens(2, 7)
    options = {"max_new_tokens": 6, "do_sample": False, "min_new_tokens": 6, "use_cache": cache is not None}
    options |= {} if cache is None else {"cache_implementation": cache}
    expected = model.generate(ids, **options)
    with regard.watch(model, keep=keep):
        found = model.generate(ids, **options)
    assert torch.equal(found, expected)


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("kind", [torch.bool, torch.float32])
def test_masks_of_four_axes_act_as_they_do_unwatched(kind, keep):
    model, ids = llama(), tokens(2, 9)
    visible = torch.ones(2, 1, 9, 9, dtype=torch.bool).tril()
    visible[0, :, 4:, 1] = False
    mask = visible if kind == torch.bool else torch.zeros(visible.shape).masked_fill(~visible, torch.finfo(kind).min)
    with torch.no_grad():
        expected = model(ids, attention_mask=mask).logits
        with regard.watch(model, keep=keep):
            found = model(ids, attention_mask=mask).logits
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("padded", [False, True])
def test_autocast_acts_as_it_does_unwatched(padded, implementation, keep):
    model, ids = llama(attn_implementation=implementation), tokens(2, 9)
    mask = torch.ones_like(ids)
    if padded:
        mask[0, :3] = 0
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        expected = model(ids, attention_mask=mask, use_cache=False).logits
        with regard.watch(model, keep=keep) as seen:
            found = model(ids, attention_mask=mask, use_cache=False).logits
    assert found.dtype == expected.dtype
    # 8 bits, 3 layers: machines round differently, so the watched run must be as near the exact logits as the other.
    torch.testing.assert_close(found[mask.bool()], expected[mask.bool()], atol=0.12, rtol=0.06)
    with torch.no_grad():
        exact = model(ids, attention_mask=mask, use_cache=False).logits
    watched, unwatched = ((logits - exact)[mask.bool()].abs().mean() for logits in (found, expected))
    assert watched <= 1.3 * unwatched
    assert seen.layers[1].entropy().isfinite().all()


def test_a_softcap_that_pytorch_ignores_is_neither_applied_nor_recorded(monkeypatch):
    """Gemma 2 on sdpa: some versions of transformers allow it and leave the cap out, others refuse."""
    from transformers.integrations import sdpa_attention
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    plain = sdpa_attention.sdpa_attention_forward

    def ignoring(*args, softcap=None, **options):
        return plain(*args, **options)

    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS._global_mapping, "sdpa", ignoring)
    architecture = BY_NAME["Gemma 2 (soft cap)"]
    model, inputs = build(architecture, "eager"), inputs_of(architecture)
    with torch.no_grad():
        capped = model(**inputs).last_hidden_state
        model.config._attn_implementation_internal = "sdpa"
        expected = model(**inputs).last_hidden_state
        for keep in KEEPS:
            with regard.watch(model, keep=keep) as seen:
                found = model(**inputs).last_hidden_state
            real = inputs["attention_mask"].bool()
            torch.testing.assert_close(found[real], expected[real], atol=1e-4, rtol=1e-4)
        assert not torch.allclose(capped[real], expected[real], atol=1e-2)
        with regard.watch(model) as seen:
            model(**inputs)
        assert seen.layers[0].attention.softcap is None
        model.config._attn_implementation_internal = "eager"
        with regard.watch(model) as seen:
            model(**inputs)
        assert seen.layers[0].attention.softcap == model.config.attn_logit_softcapping


def t5_with_padding():
    ids, decoder = tokens(2, 7), tokens(2, 5, seed=6)
    mask, decoder_mask = torch.ones_like(ids), torch.ones_like(decoder)
    mask[0], decoder_mask[1, :2] = 0, 0
    inputs = {"attention_mask": mask, "decoder_input_ids": decoder, "decoder_attention_mask": decoder_mask}
    return t5().eval(), {"input_ids": ids, **inputs}


def llama_with_a_mask_of_numbers():
    mask = torch.full((1, 1, 7, 7), torch.finfo(torch.float32).min).triu(1)
    mask[:, :, 3] = torch.finfo(torch.float32).min
    return llama(), {"input_ids": tokens(1, 7), "attention_mask": mask}


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("make", [t5_with_padding, llama_with_a_mask_of_numbers])
def test_rows_whose_keys_are_all_hidden_by_an_added_mask_are_the_models_own(make, keep):
    """PyTorch's function fills them with a mean of values where the mask is added, and with zeros where it is not."""
    model, inputs = make()
    with torch.no_grad():
        expected = model(**inputs).logits
        with regard.watch(model, keep=keep):
            found = model(**inputs).logits
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("implementation", [pytest.param("eager", marks=pytest.mark.slow), "sdpa"])
def test_a_compiled_model_computes_what_it_computes_unwatched(implementation):
    model, ids = llama(attn_implementation=implementation), tokens(2, 6)
    mask = torch.ones_like(ids)
    mask[0, :2] = 0
    compiled, inputs = torch.compile(model, backend="eager"), {"attention_mask": mask, "use_cache": False}
    with torch.no_grad():
        expected = compiled(ids, **inputs).logits
        torch._dynamo.reset()  # so that it is compiled inside the block
        with regard.watch(compiled) as seen:
            found = compiled(ids, **inputs).logits
    torch.testing.assert_close(found[mask.bool()], expected[mask.bool()], atol=1e-5, rtol=1e-5)
    assert seen.certificate.recorded == 3 and seen.certificate.is_complete


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_transforms_of_torch_func_give_what_they_give_unwatched(implementation):
    """Nothing can be kept of their tensors, which is said."""
    model, ids = llama(attn_implementation=implementation), tokens(3, 6)
    mask = torch.ones_like(ids)
    mask[0, :2] = 0
    weights = {name: one.detach() for name, one in model.named_parameters()}

    def loss(weights):
        inputs = {"attention_mask": mask, "use_cache": False}
        return torch.func.functional_call(model, weights, (ids,), inputs).logits[mask.bool()].square().mean()

    expected = torch.func.grad(loss)(weights)
    with regard.watch(model) as seen:
        model(ids)
        found = torch.func.grad(loss)(weights)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-6, rtol=1e-5)
    certificate = seen.certificate
    assert (certificate.ran, certificate.recorded) == (6, 3) and "torch.func" in str(certificate)

"""`generate` while watched: the same tokens, and one attention per layer over the prompt and the generated tokens."""

import warnings

import pytest
import torch

import regard
from regard import errors

from .models import bart, eager_weights, gemma3, llama, tokens

NEW = 6
CLOSE = {"atol": 3e-6, "rtol": 0}
CACHES = [None, "static", "offloaded"]


def offloading_cache(model):
    """An offloaded cache without the CUDA streams that transformers' own asks for: keys leave after every layer."""
    from transformers import DynamicCache

    class Offloading(DynamicCache):
        def update(self, keys, values, layer, *args, **kwargs):
            found = super().update(keys, values, layer, *args, **kwargs)
            kept = self.layers[layer]
            kept.keys, kept.values = kept.keys.clone(), kept.values.clone()
            return found

    return Offloading(config=model.config)


def written(model, ids, **options):
    if options.get("cache_implementation") == "offloaded":
        options = {"past_key_values": offloading_cache(model)}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.generate(
            ids, max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False, return_dict_in_generate=True, **options
        )


def check_equal_to_one_pass(model, seen, sequences, mask=None):
    """The joined attention equals that of one eager pass over everything that was read."""
    read = sequences[:, :-1]  # the last token was generated, never read
    if mask is not None:
        mask = torch.nn.functional.pad(mask, (0, read.shape[1] - mask.shape[1]), value=1)
    expected = eager_weights(model, input_ids=read, attention_mask=mask).attentions
    for layer, weights in zip(seen.layers, expected, strict=True):
        found = layer.attention.dense()
        assert found.shape == weights.shape
        for row in range(len(read)):
            start = 0 if mask is None else int((mask[row] == 0).sum())
            torch.testing.assert_close(found[row, :, start:], weights[row, :, start:], **CLOSE)


@pytest.mark.parametrize("make", [llama, gemma3])
@pytest.mark.parametrize("cache", CACHES)
def test_generated_tokens_have_the_attention_of_one_pass(make, cache):
    model, ids = make(), tokens(1, 7)
    plain = written(model, ids, cache_implementation=cache).sequences
    with regard.watch(model) as seen:
        found = written(model, ids, cache_implementation=cache).sequences
    assert torch.equal(plain, found)
    check_equal_to_one_pass(model, seen, found)


@pytest.mark.parametrize(
    ("make", "cache"),
    [
        (llama, None),
        (gemma3, "static"),
        pytest.param(llama, "static", marks=pytest.mark.slow),
        pytest.param(gemma3, None, marks=pytest.mark.slow),
    ],
)
def test_left_padded_batches(make, cache):
    model, ids = make(), tokens(3, 7)
    mask = torch.ones_like(ids)
    mask[0, :4] = 0
    mask[2, :1] = 0
    plain = written(model, ids, attention_mask=mask, cache_implementation=cache).sequences
    with regard.watch(model) as seen:
        found = written(model, ids, attention_mask=mask, cache_implementation=cache).sequences
    assert torch.equal(plain, found)
    check_equal_to_one_pass(model, seen, found, mask)


@pytest.mark.parametrize(
    ("make", "cache"),
    [
        (llama, None),
        (gemma3, "static"),
        pytest.param(llama, "static", marks=pytest.mark.slow),
        pytest.param(gemma3, None, marks=pytest.mark.slow),
    ],
)
def test_beam_search_follows_the_returned_sequences(make, cache):
    model, ids = make(), tokens(2, 5)
    options = {"num_beams": 3, "num_return_sequences": 2, "cache_implementation": cache}
    plain = written(model, ids, **options).sequences
    with regard.watch(model) as seen:
        found = written(model, ids, **options)
    assert torch.equal(plain, found.sequences)
    assert any(parents is not None for layer in seen.layers for parents in layer.runs[-1].parents)
    check_equal_to_one_pass(model, seen.beams(found.beam_indices), found.sequences)
    assert seen.layers[0].attention.shape == (6, 4, 5 + NEW - 1, 5 + NEW - 1)  # all beams of the last step


def test_beam_search_of_an_encoder_and_decoder():
    model, ids = bart(), tokens(2, 9)
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    with regard.watch(model) as seen:
        found = written(model, ids, attention_mask=mask, num_beams=3)
    expected = eager_weights(model, input_ids=ids, attention_mask=mask, decoder_input_ids=found.sequences[:, :-1])
    best = seen.beams(found.beam_indices)
    for number in range(2):
        torch.testing.assert_close(best.decoder[number].attention.dense(), expected.decoder_attentions[number], **CLOSE)
        torch.testing.assert_close(best.cross[number].attention.dense(), expected.cross_attentions[number], **CLOSE)
        real = mask.bool()[:, None, :].expand(-1, 4, -1)
        torch.testing.assert_close(
            seen.encoder[number].attention.dense()[:2][real], expected.encoder_attentions[number][real], **CLOSE
        )


@pytest.mark.parametrize("make", [llama, gemma3])
def test_statistics_of_generated_tokens(make):
    model, ids = make(), tokens(2, 7)
    names = ["entropy", "peak", "logsumexp", "distance", "top", "column_sums"]
    with regard.watch(model, keep=names) as summary:
        found = written(model, ids).sequences
    with regard.watch(model) as every, torch.no_grad():
        model(found[:, :-1])
    for layer, whole in zip(summary.layers, every.layers, strict=True):
        truth = whole.attention
        for name in names[:4]:
            torch.testing.assert_close(getattr(layer, name)(), getattr(truth, name)(), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(layer.column_sums(), truth.column_sums(), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(layer.top(3).weight, truth.top(3).weight, atol=1e-5, rtol=1e-5)


def repeating(model, ids):
    """Assisted generation: tokens are proposed from the prompt, and those that the model would not write taken back."""
    return model.generate(ids, max_new_tokens=12, min_new_tokens=12, do_sample=False, prompt_lookup_num_tokens=3)


@pytest.mark.parametrize("keep", ["all", ["entropy", "top"]])
def test_tokens_that_are_taken_back_are_forgotten(keep):
    model, ids = llama(), tokens(1, 5).repeat(1, 4)
    with regard.watch(model, keep=keep) as seen:
        found = repeating(model, ids)
    assert torch.equal(found, model.generate(ids, max_new_tokens=12, min_new_tokens=12, do_sample=False))
    with regard.watch(model) as once, torch.no_grad():
        model(found[:, : seen.layers[0].entropy().shape[-1]])
    assert seen.layers[0].entropy().shape[-1] >= found.shape[1] - 2
    for layer, whole in zip(seen.layers, once.layers, strict=True):
        torch.testing.assert_close(layer.entropy(), whole.entropy(), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(layer.top(3).weight, whole.top(3).weight, atol=1e-5, rtol=1e-5)
        if keep == "all":
            torch.testing.assert_close(layer.attention.dense(), whole.attention.dense(), **CLOSE)
            torch.testing.assert_close(layer.output, whole.output, atol=1e-4, rtol=1e-4)


def test_column_sums_of_tokens_that_were_taken_back_are_not_known():
    model, ids = llama(), tokens(1, 5).repeat(1, 4)
    with regard.watch(model, keep=["column_sums"]) as seen:
        repeating(model, ids)
    with pytest.raises(errors.Unsupported, match="taken back"):
        seen.layers[0].column_sums()


def test_two_texts_in_turns_are_two_runs():
    model = llama()
    with torch.no_grad(), regard.watch(model, runs=None) as seen:
        caches = [model(tokens(1, 5, seed=seed)).past_key_values for seed in (1, 2)]
        for cache in caches:
            model(tokens(1, 1), past_key_values=cache)
    assert [run.attention().shape[-2] for run in seen.layers[1].runs] == [6, 6]


def test_a_prompt_that_was_read_before_watching():
    model, ids = llama(), tokens(1, 9)
    with torch.no_grad():
        past = model(ids[:, :5], use_cache=True).past_key_values
        with regard.watch(model) as seen:
            model(ids[:, 5:7], past_key_values=past)
            model(ids[:, 7:], past_key_values=past)
    expected = eager_weights(model, input_ids=ids).attentions
    for layer, weights in zip(seen.layers, expected, strict=True):
        torch.testing.assert_close(layer.attention.dense(), weights[:, :, 5:], **CLOSE)


def test_memory_grows_with_tokens_not_with_steps():
    model, ids = llama(), tokens(1, 30)
    with regard.watch(model) as seen:
        found = written(model, ids).sequences
    with regard.watch(model) as once, torch.no_grad():
        model(found[:, :-1])
    assert seen.memory < 1.1 * once.memory


@pytest.mark.parametrize("keep", ["summary", ["entropy"]])
def test_a_summary_of_generated_tokens_keeps_no_keys(keep):
    model = llama()
    with regard.watch(model, keep=keep) as seen:
        written(model, tokens(1, 30))
    seen.statistics()
    floats = sum(one.numel() for layer in seen.layers for one in layer.runs[-1].statistics[0].values())
    assert seen.memory < (8 * floats + 2000) * (3 if keep == "summary" else 1)


def test_generation_without_a_cache_keeps_the_last_pass():
    model, ids = llama(), tokens(1, 7)
    with regard.watch(model) as seen:
        found = written(model, ids, use_cache=False).sequences
    check_equal_to_one_pass(model, seen, found)


def test_a_cache_that_changes_its_keys_is_noticed():
    model, ids = llama(), tokens(1, 9)
    with torch.no_grad(), regard.watch(model) as seen:
        past = model(ids[:, :5], use_cache=True).past_key_values
        for layer in past.layers:
            layer.keys = layer.keys * 1.01
        model(ids[:, 5:], past_key_values=past)
    with pytest.raises(errors.Unsupported, match="other keys"):
        seen.layers[1].attention


@pytest.mark.parametrize("kind", ["booleans", "numbers"])
def test_masks_given_as_tensors_are_joined(kind):
    """A caller's own masks with four axes, step by step: one row after the other."""
    model, ids = llama(), tokens(2, 9)
    visible = torch.rand(2, 1, 9, 9, generator=torch.Generator().manual_seed(0)) < 0.6
    visible = (visible | torch.eye(9, dtype=torch.bool)).tril()
    whole = visible if kind == "booleans" else torch.where(visible, 0.5 * torch.ones(9), torch.finfo(torch.float32).min)
    with torch.no_grad(), regard.watch(model) as seen:
        past = model(ids[:, :5], attention_mask=whole[:, :, :5, :5], use_cache=True).past_key_values
        for at in range(5, 9):
            model(ids[:, at : at + 1], attention_mask=whole[:, :, at : at + 1, : at + 1], past_key_values=past)
    with torch.no_grad(), regard.watch(model) as once:
        model(ids, attention_mask=whole)
    for layer, expected in zip(seen.layers, once.layers, strict=True):
        torch.testing.assert_close(layer.attention.dense(), expected.attention.dense(), **CLOSE)
        assert ((layer.attention.dense() > 0) == visible).all()

"""`regard.watch`: what it records, and that the model is left as it was."""

import pickle
import threading
from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard import errors
from regard.watch import interface

from .architectures import ARCHITECTURES, build, inputs_of, weights_of_eager
from .models import bart, eager_weights, llama, tokens


def state_of(model):
    """All that watching changes: configurations, hooks, registered recorders."""
    hooks = [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()]
    return model.config._attn_implementation, hooks, dict(interface.ORIGINALS), dict(interface.RECORDERS)


def test_weights_equal_eager_and_the_model_is_restored():
    model, ids = llama(), tokens(2, 9)
    expected = eager_weights(model, input_ids=ids)  # leaves hooks of transformers behind
    before = state_of(model)
    with regard.watch(model) as seen, torch.no_grad():
        model(ids)
    assert state_of(model) == before
    for layer, weights in zip(seen.layers, expected.attentions, strict=True):
        torch.testing.assert_close(layer.attention.dense(), weights, atol=2e-6, rtol=0)
    top = seen.layers[1].attention.select(batch=0, head=3).top(2)
    assert torch.equal(top.index[:, 0], expected.attentions[1][0, 3].argmax(-1))


def test_watching_without_statistics_changes_no_bit_of_the_output():
    model, ids = llama(), tokens(2, 9)
    with torch.no_grad():
        plain = model(ids).logits
        with regard.watch(model):
            watched = model(ids).logits
        with regard.watch(model, layers=[0], keep="summary"):
            partly = model(ids).logits
    assert torch.equal(plain, watched)
    torch.testing.assert_close(partly, plain, atol=1e-5, rtol=1e-5)


def test_unwatched_layers_run_the_own_path_of_pytorch(monkeypatch):
    model, ids = llama(), tokens(1, 9)
    calls = []
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    own = ALL_ATTENTION_FUNCTIONS["sdpa"]

    def recorded(module, *args, **kwargs):
        calls.append((module.layer_idx, args[3]))
        return own(module, *args, **kwargs)

    monkeypatch.setitem(type(ALL_ATTENTION_FUNCTIONS)._global_mapping, "sdpa", recorded)
    with regard.watch(model, layers=1, keep="summary") as seen, torch.no_grad():
        model(ids)
    assert [(layer, mask) for layer, mask in calls] == [(0, None), (2, None)]
    assert [layer.number for layer in seen.layers] == [1]
    with pytest.raises(errors.OutOfRange, match="Layer 0"):
        seen.layers[0]


@pytest.mark.parametrize("problem", [ValueError, KeyboardInterrupt])
def test_the_model_is_restored_after_an_error(problem):
    model, ids = llama(), tokens(1, 5)
    before = state_of(model)

    def fail(*_):
        raise problem

    hook = model.model.layers[1].mlp.register_forward_hook(fail)
    with pytest.raises(problem), regard.watch(model), torch.no_grad():
        model(ids)
    hook.remove()
    assert state_of(model) == before
    with regard.watch(model) as seen, torch.no_grad():
        model(ids)
    assert len(seen.layers) == 3


def test_nested_and_repeated_watches_each_record():
    model, ids = llama(), tokens(1, 6)
    watching = regard.watch(model, layers=[2])
    with regard.watch(model) as outer, torch.no_grad():
        with watching as inner:
            model(ids)
        with watching as again:
            model(ids)
        assert model.config._attn_implementation == "regard_watched"
    assert model.config._attn_implementation == "sdpa"
    assert len(outer.layers) == 3 and len(inner.layers) == len(again.layers) == 1
    expected = outer.layers[2].attention.dense()
    assert torch.equal(inner.layers[2].attention.dense(), expected)
    assert torch.equal(again.layers[2].attention.dense(), expected)


def test_two_models_with_one_configuration_do_not_mix():
    one = llama()
    other = type(one)(one.config).eval()
    ids = tokens(1, 6)
    with torch.no_grad():
        plain = other(ids).logits
        with regard.watch(one) as seen:
            beside = other(ids).logits
            one(ids)
    assert torch.equal(plain, beside)
    assert all(len(layer.runs) == 1 for layer in seen.layers)
    with regard.watch(one) as seen, regard.watch(other) as also, torch.no_grad():
        one(ids)
        other(ids)
    assert not torch.equal(seen.layers[0].attention.dense(), also.layers[0].attention.dense())


def test_a_copy_made_inside_the_block_has_its_own_implementation():
    model = llama()
    with regard.watch(model):
        copy = deepcopy(model)
        assert pickle.loads(pickle.dumps(model.config))._attn_implementation == "sdpa"
    assert copy.config._attn_implementation == model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("chosen", ["eager", "sdpa"])
def test_another_implementation_chosen_inside_the_block_is_recorded_and_stays(chosen):
    model, ids = llama(), tokens(1, 4)
    expected = eager_weights(model, input_ids=ids).attentions
    with regard.watch(model) as seen, torch.no_grad():
        model.set_attn_implementation(chosen)
        model(ids)
    assert model.config._attn_implementation == chosen
    for layer, weights in zip(seen.layers, expected, strict=True):
        torch.testing.assert_close(layer.attention.dense(), weights, atol=2e-6, rtol=0)


def test_layers_that_are_computed_again_for_gradients_are_recorded_once():
    model = llama().train()
    model.gradient_checkpointing_enable()
    with regard.watch(model) as seen:
        model(tokens(1, 5), use_cache=False).logits.sum().backward()
    assert [layer.number for layer in seen.layers] == [0, 1, 2]
    assert all(len(layer.runs) == 1 for layer in seen.layers)


def test_passes_of_other_threads_do_not_disturb():
    model, stop = llama(), threading.Event()

    def read():
        while not stop.is_set():
            with torch.no_grad():
                model(tokens(1, 3))

    other = threading.Thread(target=read)
    other.start()
    try:
        with regard.watch(model) as seen:
            written = model.generate(tokens(1, 5), max_new_tokens=9, min_new_tokens=9, do_sample=False)
    finally:
        stop.set()
        other.join()
    expected = eager_weights(model, input_ids=written[:, :-1]).attentions
    for layer, weights in zip(seen.layers, expected, strict=True):
        torch.testing.assert_close(
            layer.attention.dense(), weights, atol=6e-6, rtol=0
        )  # float32 scores, added in another order


def test_threads_record_their_own_passes():
    model = llama()
    lengths = range(4, 10)
    found: dict[Any, Any] = {}

    def read(length):
        for _ in range(3):
            with regard.watch(model) as seen, torch.no_grad():
                model(tokens(1, length, seed=length))
            found.setdefault(length, []).append(seen.layers[2].attention.shape)

    threads = [threading.Thread(target=read, args=(length,)) for length in lengths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {length: [(1, 4, length, length)] * 3 for length in lengths}
    assert model.config._attn_implementation == "sdpa" and not interface.RECORDERS


def test_a_pass_in_a_thread_that_watches_nothing_is_recorded():
    model = llama()
    with regard.watch(model) as seen:
        thread = threading.Thread(target=lambda: model(tokens(1, 5)))
        thread.start()
        thread.join()
    assert seen.layers[0].attention.shape == (1, 4, 5, 5)


def test_the_last_pass_is_kept_or_as_many_as_asked():
    model = llama()
    with regard.watch(model) as last, regard.watch(model, runs=None) as every, torch.no_grad():
        for length in (4, 5, 6):
            model(tokens(1, length))
    assert [len(layer.runs) for layer in last.layers] == [1] * 3
    assert last.layers[0].attention.shape[-1] == 6
    assert [run.attention().shape[-1] for run in every.layers[0].runs] == [4, 5, 6]


def test_heads_can_be_chosen():
    model, ids = llama(), tokens(2, 7)
    with regard.watch(model) as every, regard.watch(model, heads=[3, 1]) as some, torch.no_grad():
        model(ids)
    with regard.watch(model, heads=[3, 1], keep="summary") as summary, torch.no_grad():
        model(ids)
    expected = every.layers[1].attention.dense()[:, [3, 1]]
    torch.testing.assert_close(some.layers[1].attention.dense(), expected)
    torch.testing.assert_close(summary.layers[1].entropy(), every.layers[1].entropy()[:, [3, 1]])
    assert some.memory < every.memory
    assert [row[1] for row in some.statistics()][:2] == [3, 1]


def test_summary_keeps_statistics_in_memory_that_grows_with_tokens_only():
    model, ids = llama(), tokens(2, 40)
    names = ["entropy", "peak", "logsumexp", "distance", "top", "column_sums", "pooled"]
    with regard.watch(model, keep=names) as summary, regard.watch(model) as every, torch.no_grad():
        model(ids)
    layer, truth = summary.layers[1], every.layers[1].attention
    for name in names[:4]:
        torch.testing.assert_close(getattr(layer, name)(), getattr(truth, name)(), atol=2e-6, rtol=1e-5)
    torch.testing.assert_close(layer.column_sums(), truth.column_sums())
    torch.testing.assert_close(layer.top(8).weight, truth.top(8).weight, atol=2e-6, rtol=1e-5)
    np.testing.assert_allclose(layer.pooled().array, truth.pooled((40, 40)).array, atol=1e-6)
    torch.testing.assert_close(layer.max_logit(), truth.masked[:].amax(-1), atol=1e-5, rtol=1e-5)
    with pytest.raises(errors.OptionError, match='keep="all"'):
        layer.attention
    with regard.watch(model, keep="summary") as short, torch.no_grad():
        model(ids[:, :20])
    with regard.watch(model, keep="summary") as long, torch.no_grad():
        model(ids)
    assert long.memory < 2.1 * short.memory


def test_statistics_are_means_over_real_tokens():
    model, ids = llama(), tokens(2, 8)
    mask = torch.ones_like(ids)
    mask[0, :3] = 0
    with regard.watch(model) as seen, torch.no_grad():
        model(ids, attention_mask=mask)
    table = seen.statistics()
    entropy = seen.layers[2].attention.entropy()
    expected = torch.cat([entropy[0, 1, 3:], entropy[1, 1]]).mean()
    row = next(row for row in table if row[:2] == (2, 1))
    assert row[2] == pytest.approx(float(expected), abs=1e-6)
    assert len(table) == 12 and "LlamaForCausalLM" in str(table)
    frame = table.to_pandas()
    assert list(frame.columns) == [column.name for column in table.columns] and frame["entropy"][0] == table.rows[0][2]


@pytest.mark.parametrize("keep", ["all", ["column_sums"]])
def test_shares_of_weight_on_the_first_key_and_on_sinks(keep):
    architecture = next(one for one in ARCHITECTURES if one.kind == "gpt_oss")
    model, inputs = build(architecture), inputs_of(architecture)
    with regard.watch(model, keep=keep) as seen, torch.no_grad():
        model(**inputs)
    model.set_attn_implementation("eager")
    with weights_of_eager(model) as truth, torch.no_grad():
        model(**inputs)
    table = seen.statistics()
    for layer in seen.layers:
        weights = truth[layer.name][0].double() * inputs["attention_mask"][:, None, :, None]
        count = inputs["attention_mask"].sum(1)[:, None]
        received = weights.sum(2)[..., : inputs["input_ids"].shape[1]]  # (batch, head, key)
        shares = {"first key": received[..., 0] / count, "received": (received / count[..., None]).amax(-1)}
        shares["sink"] = 1 - received.sum(-1) / count
        for name, expected in shares.items():
            found = [row for place, row in zip(table["layer"], table[name], strict=True) if place == layer.number]
            np.testing.assert_allclose(found, expected.mean(0), atol=2e-6)


@pytest.mark.parametrize("side", ["left", "right"])
def test_queries_that_are_padding_give_nothing(side):
    model, ids = llama(), tokens(2, 8)
    mask = torch.ones_like(ids)
    mask[0, slice(3) if side == "left" else slice(5, None)] = 0
    with regard.watch(model) as every, regard.watch(model, keep=["column_sums"]) as some, torch.no_grad():
        model(ids, attention_mask=mask)
    for layer, whole in zip(some.layers, every.layers, strict=True):
        expected = (whole.attention.dense() * mask[:, None, :, None]).sum(-2)
        torch.testing.assert_close(layer.column_sums(), expected, atol=2e-6, rtol=0)
        torch.testing.assert_close(whole.column_sums(), expected, atol=2e-6, rtol=0)
        torch.testing.assert_close(layer.column_sums()[0].sum(-1), torch.full((4,), 5.0))


def test_gradients_flow_through_watched_attention():
    model, ids = llama(), tokens(1, 6)
    model(ids).logits.sum().backward()
    plain = model.model.layers[0].self_attn.q_proj.weight.grad.clone()
    model.zero_grad()
    with regard.watch(model) as seen:
        model(ids).logits.sum().backward(retain_graph=True)
        assert torch.equal(model.model.layers[0].self_attn.q_proj.weight.grad, plain)
        model.zero_grad()
        seen.layers[1].attention.entropy().sum().backward()
    assert model.model.layers[1].self_attn.q_proj.weight.grad.abs().sum() > 0
    assert model.model.layers[0].self_attn.q_proj.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("keep", ["all", "summary"])
def test_half_precision_and_inference_mode(dtype, keep):
    model, ids = llama().to(dtype), tokens(1, 9)
    with torch.inference_mode():
        plain = model(ids).logits
        with regard.watch(model, keep=keep) as seen:
            watched = model(ids).logits
    torch.testing.assert_close(watched, plain, atol=0.1 if dtype == torch.bfloat16 else 0.02, rtol=0.05)
    assert torch.isfinite(seen.layers[2].entropy()).all()


def test_training_with_dropout_shows_weights_before_dropout():
    model, ids = llama(attention_dropout=0.5).train(), tokens(1, 6)
    torch.manual_seed(0)
    plain = model(ids).logits
    torch.manual_seed(0)
    with regard.watch(model) as seen:
        watched = model(ids).logits
    assert torch.equal(plain, watched)
    torch.testing.assert_close(seen.layers[0].attention.dense().sum(-1), torch.ones(1, 4, 6))
    assert any("before dropout" in note for note in seen.statistics().notes)


def test_encoder_decoder_and_cross_attention_are_told_apart():
    model = bart()
    ids, written = tokens(2, 9), tokens(2, 5, seed=6)
    expected = eager_weights(model, input_ids=ids, decoder_input_ids=written)
    with regard.watch(model) as seen, torch.no_grad():
        model(input_ids=ids, decoder_input_ids=written)
    for number in range(2):
        for layers, weights in (
            (seen.encoder, expected.encoder_attentions),
            (seen.decoder, expected.decoder_attentions),
            (seen.cross, expected.cross_attentions),
        ):
            torch.testing.assert_close(layers[number].attention.dense(), weights[number], atol=2e-6, rtol=0)
    with pytest.raises(errors.OutOfRange, match="several stacks"):
        seen.layers[0]
    assert len(seen.layers) == 4 and len(seen.stacks) == 3


def test_a_model_that_was_not_called_is_said_to_be_so():
    with regard.watch(llama()) as seen:
        pass
    with pytest.raises(errors.OptionError, match="was not called inside"):
        seen.layers


def test_layers_that_match_nothing_are_named():
    model = llama()
    with regard.watch(model, layers="encoder.*") as seen, torch.no_grad():
        model(tokens(1, 4))
    with pytest.raises(errors.OptionError, match=r"model\.layers\.\*\.self_attn"):
        seen.layers


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"keep": "everything"}, "keep"),
        ({"keep": ["entrophy"]}, "entropy"),
        ({"runs": 0}, "runs"),
        ({"heads": []}, "heads"),
        ({"layers": [1.5]}, "layer numbers"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(errors.OptionError, match=message), regard.watch(llama(), **arguments):
        pass


def test_something_that_is_no_model_is_refused():
    with pytest.raises(errors.OptionError, match="PyTorch module"):
        regard.watch("gpt2")
    with pytest.raises(errors.OptionError, match=r"pipeline\.model"):
        regard.watch(SimpleNamespace(model=llama()))
    with pytest.raises(errors.Unsupported, match="TorchScript"):
        regard.watch(torch.jit.script(torch.nn.Linear(2, 2)))


def test_a_head_that_is_not_there_is_named():
    with pytest.raises(errors.OutOfRange, match="head 9"), regard.watch(llama(), heads=[1, 9]) as seen, torch.no_grad():
        seen._model(tokens(1, 4))


def test_layers_counted_from_the_last():
    model = llama()
    with regard.watch(model, layers=[-1, 0]) as seen, torch.no_grad():
        model(tokens(1, 4))
    assert [layer.number for layer in seen.layers] == [0, 2]


def test_patches_of_an_image_have_rows_and_columns():
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, image_size=12, patch_size=4
    )
    model = ViTModel(config).eval()
    with regard.watch(model) as seen, torch.no_grad():
        model(torch.ones(1, 3, 12, 12))
    patches = seen.patches()
    assert patches.shape == (10, 2) and patches[0].tolist() == [-1, -1]
    assert patches[1:].tolist() == [[row, column] for row in range(3) for column in range(3)]
    with pytest.raises(errors.OptionError, match="grid"):
        seen.patches(grid=(4, 4))


@pytest.mark.slow
def test_a_compiled_model_is_recorded_and_computes_as_before():
    model, ids = llama(), tokens(1, 6)
    compiled = torch.compile(model, backend="eager")
    with torch.no_grad():
        plain = compiled(ids).logits
        with regard.watch(compiled) as seen:
            watched = compiled(ids).logits
        after = compiled(ids).logits
    torch.testing.assert_close(watched, plain, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(after, plain, atol=1e-5, rtol=1e-5)
    assert [layer.attention.shape for layer in seen.layers] == [(1, 4, 6, 6)] * 3

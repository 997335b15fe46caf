"""Edits of Regard's own models against plain NumPy and PyTorch hooks, with a KV cache, in batches; and bad input."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import regard  # noqa: E402
from regard.arrays import numpy_of  # noqa: E402
from regard.edits import (  # noqa: E402
    block,
    each_head,
    effect,
    logit_difference,
    mean_outputs,
    next_token_loss,
    patch,
    scale,
    silence,
    state_distance,
    vector_distance,
)  # fmt: skip
from regard.edits.effects import measure_effects  # noqa: E402
from regard.errors import OptionError, OutOfRange, Unsupported  # noqa: E402
from regard.watch.pretrained import Pretrained  # noqa: E402

from ..models.checkpoints import SENTENCES, base_of  # noqa: E402
from ..watch.models import llama, tokens  # noqa: E402

TEXT, OTHER = "the kids were scared of the lions", "the cat sat on the table they"  # of seven words each
TEXTS = [text for text in SENTENCES if " " in text]


def hooked_states(tiny, ids, heads, factor=0.0):
    """The last states of transformers, the outputs of some heads multiplied before W_O by a hook."""
    base = base_of(tiny.twin)
    is_bert, handles = hasattr(base, "encoder"), []
    for layer, head in heads:
        module = base.encoder.layer[layer].attention.output.dense if is_bert else base.layers[layer].self_attn.o_proj
        size = module.in_features // tiny.twin.config.num_attention_heads

        def change(_module, inputs, head=head, size=size):
            outputs = inputs[0].clone()
            outputs[..., head * size : (head + 1) * size] *= factor
            return (outputs,)

        handles.append(module.register_forward_pre_hook(change))
    with torch.no_grad():
        states = base(torch.tensor([ids])).last_hidden_state[0].numpy()
    for handle in handles:
        handle.remove()
    return states


def end(model, reading):
    norm = model.transformer.norm
    return reading.states[-1] if norm is None else norm(reading.states[-1])


@pytest.mark.parametrize(("edit", "factor"), [(silence, 0.0), (lambda *heads: scale(*heads, factor=-2.5), -2.5)])
def test_heads_of_packed_texts_equal_hooks(tiny, edit, factor):
    model, heads = tiny.open(), [(0, 1), (1, 3)]
    for reading in model.read(TEXTS, edit=edit(*heads)):
        ids = [token.id for token in reading.tokens]
        assert np.abs(end(model, reading) - hooked_states(tiny, ids, heads, factor)).max() < 1e-5
        assert np.abs(end(model, reading) - hooked_states(tiny, ids, [])).max() > 1e-3  # dropping the edit is noticed


def test_blocked_edges_get_no_weight_and_the_rest_of_the_row_sums_to_one(tiny):
    reading = tiny.open().read(TEXT, edit=block(queries="lions", keys="kids", layers=[1]))
    query, key = reading.word("lions").first, reading.word("kids").first
    weights = reading.attention(1).dense()
    assert not weights[:, query, key].any()
    assert weights.sum(-1) == pytest.approx(1, abs=1e-5)
    assert np.abs(weights @ np.repeat(reading.seen[1].values, len(weights) // len(reading.seen[1].values), 0)
                  - reading.outputs[1]).max() < 1e-5  # fmt: skip


def test_rows_with_blocked_edges_are_computed_in_strips(tiny, monkeypatch):
    from regard.edits import layer_edits

    model, edit = tiny.open(), block(pairs=[(6, 2), (1, 0), (5, 5), (3, 1), (4, 0)], layers=[1])
    whole = model.read(TEXT, edit=edit)
    monkeypatch.setattr(layer_edits, "STRIP_ROWS", 2)
    strips = model.read(TEXT, edit=edit)
    weights, values = strips.attention(1).dense(), strips.seen[1].values
    expected = weights @ np.repeat(values, len(weights) // len(values), 0)
    assert np.abs(strips.outputs[1] - expected).max() < 1e-5
    assert np.abs(strips.outputs[1] - whole.outputs[1]).max() < 1e-6
    assert not weights[:, 6, 2].any() and not weights[:, 5, 5].any()


def test_edges_zeroed_after_the_softmax_leave_the_other_weights(tiny):
    model = tiny.open()
    plain, edited = model.read(TEXT), model.read(TEXT, edit=block(pairs=[(4, 1)], layers=[1], after_softmax=True))
    weights = plain.attention(1).dense()
    weights[:, 4, 1] = 0
    values = np.repeat(plain.seen[1].values, len(weights) // len(plain.seen[1].values), 0)
    assert np.abs(edited.outputs[1] - weights @ values).max() < 1e-5


@pytest.mark.parametrize("what", ["outputs", "pattern", "values"])
def test_patching_heads_takes_the_other_runs_activations(tiny, what):
    model = tiny.open()
    one, other = model.read(TEXT), model.read(OTHER)
    edited = model.read(TEXT, edit=patch(other, what=what, heads=[(1, 3)]))
    group = one.seen[1].attention.shape[0] // len(one.seen[1].values)
    pattern = other if what == "pattern" else one
    values = other if what == "values" else one
    expected = pattern.attention(1).dense()[3] @ values.seen[1].values[3 // group]
    expected = other.outputs[1][3] if what == "outputs" else expected
    assert np.abs(edited.outputs[1][3] - expected).max() < 1e-5
    assert np.array_equal(edited.outputs[1][2], one.outputs[1][2])
    assert np.abs(edited.outputs[1][3] - one.outputs[1][3]).max() > 1e-3


def test_patching_every_residual_is_the_other_run(tiny):
    model = tiny.open()
    other = model.read(OTHER)
    edited = model.read(TEXT, edit=patch(other, what="residual", layers=[1]))
    assert np.abs(edited.states[-1] - other.states[-1]).max() < 1e-5
    one = model.read(TEXT, edit=patch(other, what="residual", layers=[1], positions=2))
    assert np.abs(one.states[-1] - other.states[-1]).max() > 1e-3


def test_runs_of_other_lengths_need_an_alignment(tiny):
    model = tiny.open()
    short = model.read("the cat sat")
    with pytest.raises(OptionError, match="say which token stands for which"):
        model.read(TEXT, edit=patch(short, heads=[(1, 3)]))
    with pytest.raises(OptionError, match="a pattern is taken whole, so both runs need equally many tokens"):
        model.read(TEXT, edit=patch(short, what="pattern", heads=[(1, 3)]))
    edited = model.read(TEXT, edit=patch(short, heads=[(1, 3)], align={4: 2}))
    assert np.array_equal(edited.outputs[1][3][4], short.outputs[1][3][2])


def test_means_and_other_examples_replace_outputs(tiny):
    model = tiny.open()
    outputs = [reading.outputs[1] for reading in model.read(TEXTS)]
    mean = np.concatenate(outputs, axis=1).mean(axis=1)
    edited = model.read(TEXT, edit=silence((1, 3), to=mean_outputs(model, TEXTS)))
    assert np.abs(edited.outputs[1][3] - mean[3]).max() < 1e-5
    pair = model.read([TEXT, OTHER], edit=silence((1, 3), to="resample"))
    plain = model.read([TEXT, OTHER])
    assert np.array_equal(pair[0].outputs[1][3], plain[1].outputs[1][3])
    assert np.array_equal(pair[1].outputs[1][3], plain[0].outputs[1][3])


def test_watched_generation_equals_one_forward_with_the_edit():
    model, ids = llama(), tokens(2, 9)
    edit = silence((1, 2)) & block(queries=None, keys=0, layers=[2])
    with torch.no_grad():
        with regard.watch(model, edit=edit) as steps:
            written = model.generate(ids, max_new_tokens=5, do_sample=False)
        with regard.watch(model, edit=edit) as whole:
            model(written[:, :-1])
    for one, other in zip(steps.layers, whole.layers, strict=True):
        assert torch.allclose(one.output, other.output, atol=1e-5)
    assert not whole.layers[2].attention.dense()[:, :, 1:, 0].any()


GENERATED = [
    silence((1, 2)) & scale((0, 1), factor=-2),
    block(queries=range(3, 60), keys=1, layers=[1]),
    block(queries=range(3, 60), keys=0, after_softmax=True),
    silence((0, 3), positions=range(5, 60)),
]


@pytest.mark.parametrize("edit", GENERATED, ids=repr)
def test_generating_with_an_edit_equals_reading_the_whole_text_again(tmp_path, edit):
    """With a KV cache, token by token, of Regard's own model and of the same weights that transformers runs."""
    for model in llama_here_and_there(tmp_path):
        written = model.generate(TEXT, tokens=5, edit=edit)
        ids = [token.id for token in written.tokens]
        prompt = len(model.read(TEXT).tokens)
        assert len(ids) > prompt + 2  # several tokens were generated
        for count in range(prompt, len(ids)):  # each one is the most likely after all before it, read at once
            (_, plain), (_, whole) = model.outcomes([ids[:count]], [edit])
            assert int(numpy_of(whole.last_logits())[0].argmax()) == ids[count], (count, type(model))
        assert np.abs(numpy_of(whole.states[0]) - numpy_of(plain.states[0])).max() > 1e-3  # dropping it is noticed
        if model.transformer is not None:
            assert np.abs(end(model, written)[: len(ids) - 1] - whole.states[0]).max() < 1e-5


def test_nested_blocks_apply_both_edits_and_leave_the_model_as_it_was():
    model, ids = llama(), tokens(2, 9)
    with torch.no_grad():
        before = model(ids).logits
        with regard.watch(model, edit=silence((1, 2)) & silence((0, 1))):
            both = model(ids).logits
        with regard.watch(model, edit=silence((1, 2))), regard.watch(model, edit=silence((0, 1))):
            nested = model(ids).logits
        assert torch.equal(both, nested)
        assert torch.equal(model(ids).logits, before)
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_padding_on_the_left_does_not_shift_tokens():
    model, ids = llama(), tokens(1, 7)
    padded, mask = torch.nn.functional.pad(ids, (3, 0)), torch.tensor([[0] * 3 + [1] * 7])
    edit = block(pairs=[(5, 2)], layers=[1]) & silence((2, 1), positions=4)
    with torch.no_grad():
        with regard.watch(model, edit=edit):
            alone = model(ids).logits
        with regard.watch(model, edit=edit):
            shifted = model(padded, attention_mask=mask, position_ids=(mask.cumsum(1) - 1).clamp(min=0)).logits
        assert torch.allclose(alone, shifted[:, 3:], atol=1e-5)
        assert not torch.allclose(alone, model(ids).logits, atol=1e-3)


def test_effects_equal_reading_with_each_edit(tiny):
    model = tiny.open()
    edits = [*each_head(model)[:7], block(pairs=[(2, 1)]), silence((0, 1), (1, 2))]
    study = measure_effects(model, TEXTS, edits, on=state_distance())
    plain = model.read(TEXTS)
    for edit, found in zip(edits, study.effects, strict=True):
        for text, reading in enumerate(model.read(TEXTS, edit=edit)):
            one, other = end(model, reading), end(model, plain[text])
            moved = (np.linalg.norm(one - other, axis=1) / np.linalg.norm(other, axis=1)).mean()
            assert found.of_prompts[text] == pytest.approx(moved, abs=1e-5)
    notes = " ".join(study.table().notes)
    assert f"the mean over {len(TEXTS)} prompts" in notes
    assert "without an edit" in notes


def test_effects_of_transformers_equal_those_of_the_same_weights_here(tiny):
    from transformers import PreTrainedTokenizerFast

    model = tiny.open()
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(tiny.folder / "tokenizer.json"))
    writes = model.writes
    other = Pretrained("tiny", tiny.twin, tokenizer, writes)
    metric = next_token_loss() if writes else vector_distance()
    edits = [silence((0, 1)), silence((1, 4)), block(pairs=[(2, 1)], layers=[1])]
    here, there = (measure_effects(one, TEXTS, edits, on=metric) for one in (model, other))
    for one, two in zip(here.effects, there.effects, strict=True):
        assert one.of_prompts == pytest.approx(two.of_prompts, abs=2e-5)
    assert all(np.abs(one.of_prompts).max() > 1e-4 for one in here.effects[:2])


def test_effects_on_an_open_model_of_transformers_take_what_its_tokenizer_gives(tmp_path):
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    own, _ = llama_here_and_there(tmp_path)
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"), pad_token="<unk>")
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    inputs = tokenizer(TEXTS, return_tensors="pt", padding=True)
    edits = [silence((1, 2)), block(queries="kids", keys=0) & silence((0, 1))]
    on = logit_difference("kids", "lions")
    expected = effect(own, TEXTS[:1], edits, on=on)
    encoded = tokenizer(TEXTS[:1], return_tensors="pt")
    for given in (TEXTS[:1], encoded, encoded.input_ids):
        table = effect(model, given, edits, on=on)
        for row, right in zip(table.rows, expected.rows, strict=True):
            assert row[1:] == pytest.approx(right[1:], abs=1e-4)
    everything = effect(torch.compile(model, backend="eager"), inputs, edits[:1], on=on)
    assert everything.rows[0][2:] == pytest.approx(effect(own, TEXTS, edits[:1], on=on).rows[0][2:], abs=1e-4)
    with pytest.raises(OptionError, match="tokenizer=tokenizer"):
        effect(llama(), TEXTS, edits, on=on)
    with pytest.raises(Unsupported, match="Linear"):
        effect(torch.nn.Linear(3, 3), TEXTS, edits, on=on)
    with pytest.raises(OptionError, match="of texts alone"):
        effect(model, {"pixel_values": torch.ones(1, 3, 4, 4)}, edits, on=on)


def test_words_of_a_watched_model_whose_tokens_are_whole_words(tmp_path):
    own, other = llama_here_and_there(tmp_path)
    edit = block(queries="lions", keys="kids")
    (_, _), (_, there) = other.outcomes([TEXT], [edit])
    (_, _), (_, here) = own.outcomes([TEXT], [edit])
    np.testing.assert_allclose(there.states[0], here.states[0], atol=1e-4)
    assert other.read(TEXT, edit=edit).text == TEXT


@pytest.mark.parametrize(
    ("edit", "error", "message"),
    [
        (silence((0, 99)), OutOfRange, "names head 99 of layer 0"),
        (silence((99, 0)), OutOfRange, "names layer 99"),
        (block(queries="elephant", keys=0), Exception, "elephant"),
        (silence((0, 1), to="resample"), OptionError, "single text"),
        (silence((0, 1), positions=99), OutOfRange, "`positions` names token 99"),
        (block(queries=1, keys=99), OutOfRange, "`keys` names token 99"),
    ],
)
def test_bad_edits_are_one_clear_sentence(tiny, edit, error, message):
    with pytest.raises(error, match=message):
        tiny.open().read(TEXT, edit=edit)


def test_bad_arguments_and_models_that_cannot_be_edited(tiny):
    with pytest.raises(OptionError, match="needs edges"):
        block()
    with pytest.raises(OptionError, match="needs to know where"):
        patch(tiny.open().read(TEXT))
    with pytest.raises(OptionError, match="expected an edit"):
        tiny.open().read(TEXT, edit="5.2")
    model = llama()
    with pytest.raises(OptionError, match="changed nothing"), regard.watch(model, edit=silence((9, 0))):
        model(tokens(1, 4))
    linear = torch.nn.Linear(3, 3)
    with pytest.raises(Unsupported, match="no attention"), regard.watch(linear, edit=silence((0, 0))):
        linear(torch.ones(1, 3))
    if not tiny.open().writes:
        with pytest.raises(Unsupported, match="language-model head"):
            effect(tiny.open(), TEXT, silence((0, 1)), on=logit_difference("kids", "lions"))


def llama_here_and_there(folder):
    """The same weights, computed by Regard and run by transformers."""
    from transformers import PreTrainedTokenizerFast

    from ..heads.conftest import tiny_llama

    tiny = tiny_llama(folder)
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(tiny.folder / "tokenizer.json"))
    tiny.twin.generation_config.eos_token_id = None  # neither stops early
    return replace(tiny.open(), ends=frozenset()), Pretrained("tiny", tiny.twin, tokenizer, True)


def test_every_kind_of_bad_input_is_refused_in_a_sentence_or_two(tmp_path):
    from regard.attribution import first_order
    from regard.errors import RegardError

    models = llama_here_and_there(tmp_path)
    linear = torch.nn.Linear(3, 3)

    def watch_linear():
        with regard.watch(linear, edit=silence((0, 0))):
            linear(torch.ones(1, 3))

    cases: list[tuple[Callable[[], object], str]] = [
        (watch_linear, "no attention"),
        (lambda: first_order(models[1], [TEXT], ["kids"]), "not recorded"),
    ]
    for model in models:
        short = model.read("the cat sat")
        cases += [
            (partial(model.read, TEXT, edit=silence((0, 99))), "head 99"),
            (partial(model.read, TEXT, edit=silence((99, 0))), "layer 99"),
            (partial(model.read, TEXT, edit=block(queries="elephant", keys=0)), "elephant"),
            (partial(model.generate, TEXT, tokens=2, edit=silence((0, 99))), "head 99"),
            (partial(model.read, TEXT, edit=patch(short, heads=[(1, 3)])), "say which token stands for which"),
        ]
    for call, expected in cases:
        with pytest.raises(RegardError) as raised:
            call()
        message = str(raised.value)
        assert expected in message.replace("\n", " "), message
        assert len(message.splitlines()) <= 3 and message.rstrip().endswith((".", "]", ")")), message

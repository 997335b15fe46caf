"""Every architecture: watched outputs and weights equal eager attention; dropping any option is noticed."""

from dataclasses import replace
from typing import Any

import pytest
import torch

import regard
from regard.watch.call import Call
from regard.watch.lazy_mask import MaskCall, bidirectional_mask_function

from .architectures import (
    ARCHITECTURES,
    HEAD_DIM,
    SEQUENCES,
    TEXT,
    VISION,
    VOCABULARY,
    agreement,
    build,
    inputs_of,
    weights_of_eager,
)

BY_NAME = {architecture.name: architecture for architecture in ARCHITECTURES}
FEW = [
    "BERT", "ALBERT", "GPT-2", "Mistral (sliding window)", "Gemma 2 (soft cap)", "GPT-OSS (sinks)",
    "T5 (bias by distance)", "Qwen2-VL",
]  # fmt: skip
OTHERS = [name for name in BY_NAME if name not in FEW]
TOLERANCE = 1e-5  # float32 sums in another order; the largest seen is 8e-6, with T5's scores of several hundred


def check(name):
    found = agreement(BY_NAME[name])
    assert found.output < TOLERANCE and found.weights < TOLERANCE, found
    assert found.layers >= 2 and found.peak > 0.2, found


@pytest.mark.parametrize("name", FEW)
def test_watched_outputs_and_weights_equal_eager(name):
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_NAME)
def test_outputs_with_statistics_in_the_same_pass_equal_eager(name):
    found = agreement(BY_NAME[name], keep="summary")
    assert found.output < TOLERANCE, found


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_watched_outputs_and_weights_of_further_architectures_equal_eager(name):
    check(name)


def test_there_are_at_least_forty_architectures():
    assert len(BY_NAME) >= 40


@pytest.mark.parametrize(
    ("name", "dropped"),
    [
        ("Llama", "mask"), ("BERT", "mask"), ("Granite", "scale"), ("T5 (bias by distance)", "bias"),
        ("GPT-OSS (sinks)", "sinks"), ("Gemma 2 (soft cap)", "softcap"), ("OPT", "scale"),
    ],
)  # fmt: skip
def test_weights_without_one_option_are_wrong(name, dropped):
    """The control of the comparison above: it fails if mask, scale, bias, sinks or soft cap get lost."""
    architecture = BY_NAME[name]
    model, inputs = build(architecture), inputs_of(architecture)
    with regard.watch(model) as seen, torch.no_grad():
        model(**inputs)
    model.set_attn_implementation("eager")
    with weights_of_eager(model) as truth, torch.no_grad():
        model(**inputs)
    layer = next(iter(seen))
    call: Call = layer.runs[-1].joined()
    right = (call.attention().dense() - truth[layer.name][0])[1].abs().max()
    if dropped == "mask":
        assert isinstance(call.rule, MaskCall)
        wrong_call = replace(call, rule=replace(call.rule, function=bidirectional_mask_function, padding=None))
    else:
        without: dict[str, Any] = {dropped: None}
        wrong_call = replace(call, **without)
    wrong = (wrong_call.attention().dense() - truth[layer.name][0]).abs().max()
    assert right < TOLERANCE and wrong > 1e-2, (right, wrong)


def test_statistics_of_a_sequence_in_parts():
    """Qwen2-VL calls attention once per image: rows, keys and indices go on from one part to the next."""
    architecture = BY_NAME["Qwen2-VL"]
    model, inputs = build(architecture), inputs_of(architecture)
    names = ["entropy", "top", "column_sums"]
    with regard.watch(model) as every, regard.watch(model, keep=names) as some, torch.no_grad():
        model(**inputs)
    for layer, whole in zip(some.vision, every.vision, strict=True):
        attention = whole.attention
        assert attention.shape[-1] == 32
        torch.testing.assert_close(layer.entropy(), attention.entropy(), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(layer.column_sums(), attention.column_sums(), atol=1e-5, rtol=1e-5)
        assert torch.equal(layer.top(3).index, attention.top(3).index)


IMAGE = torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(1))
IDS = torch.randint(3, 60, (2, 9), generator=torch.Generator().manual_seed(2))
TEXT_AND_IMAGE = {"input_ids": IDS, "pixel_values": IMAGE}
TWO_TEXTS = {"input_ids": IDS, "decoder_input_ids": IDS}
T5 = {"vocab_size": 67, "d_model": 32, "d_kv": 8, "d_ff": 40, "num_layers": 2, "num_heads": 4}
SEVERAL_WAYS: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {  # configuration, inputs, attentions
    "git": ({**TEXT, "vision_config": VISION}, TEXT_AND_IMAGE, 4),
    "vilt": ({**TEXT, **VISION, "max_image_length": -1}, TEXT_AND_IMAGE, 2),
    "layoutlmv3": (
        {**TEXT, **VISION, "max_2d_position_embeddings": 32, "coordinate_size": 4, "shape_size": 8, "input_size": 12},
        {**TEXT_AND_IMAGE, "bbox": torch.ones(2, 9, 4, dtype=torch.int64)}, 2,
    ),
    "longt5": ({**T5, "decoder_start_token_id": 0, "local_radius": 4}, TWO_TEXTS, 6),
    "bigbird_pegasus": ({**SEQUENCES, "attention_type": "original_full"}, TWO_TEXTS, 6),
    "siglip": ({"text_config": TEXT, "vision_config": VISION}, TEXT_AND_IMAGE, 5),
    "sam_vision_model": ({**VISION, "window_size": 2, "global_attn_indexes": [1]}, {"pixel_values": IMAGE}, 2),
    "gemma4_text": (
        {**HEAD_DIM, "global_head_dim": 8, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"],
         "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": VOCABULARY, "num_kv_shared_layers": 0},
        {"input_ids": IDS}, 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", SEVERAL_WAYS)
@pytest.mark.parametrize("gradients", [False, True])
def test_models_that_compute_attention_in_several_ways_are_seen_completely(kind, gradients):
    """By transformers' interface, by PyTorch's functions and in their own code, within one model."""
    import transformers

    options, inputs, attentions = SEVERAL_WAYS[kind]
    config = transformers.AutoConfig.for_model(kind, **options)
    torch.manual_seed(3)
    model = transformers.AutoModel.from_config(config).eval()
    with torch.set_grad_enabled(gradients):
        torch.manual_seed(4)  # ViLT draws the order of patches
        expected = model(**inputs)[0]
        with regard.watch(model) as seen:
            torch.manual_seed(4)
            found = model(**inputs)[0]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    certificate = seen.certificate
    assert (certificate.ran, certificate.recorded) == (attentions, attentions) and certificate.is_complete
    assert certificate.output is not None and certificate.output < 1e-5

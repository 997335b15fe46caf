"""A model as stages with shapes and parameters."""

import numpy as np
import pytest

from regard.attention import Attention
from regard.layers import Transformer

from ..small_models import encoder, writer
from .cases import asked, reading


def flat(stages):
    for stage in stages:
        yield stage
        yield from flat(stage.get("parts", []))


@pytest.mark.parametrize("model", [writer, encoder], ids=["writer", "encoder"])
def test_every_parameter_is_in_one_stage(model):
    header, _ = asked(model().read("the cat sat"), "architecture")
    assert header["parameters"] == model().transformer.count()
    tied = sum(stage["parameters"] for stage in header["stages"] if stage.get("tied"))
    assert sum(stage["parameters"] for stage in header["stages"]) - tied == header["parameters"]
    (stack,) = [stage for stage in header["stages"] if stage["id"] == "encoder"]
    assert stack["count"] == len(model().blocks)
    assert sum(part["parameters"] * part["count"] for part in stack["parts"]) == stack["parameters"]
    (block,) = stack["parts"]
    assert sum(part["parameters"] for part in block["parts"]) == block["parameters"]


def test_shapes_and_notes_are_those_of_the_model():
    header, _ = asked(writer().read("the cat sat"), "architecture")
    (attention,) = [stage for stage in flat(header["stages"]) if stage["id"] == "attention"]
    assert dict(attention["shapes"]) == {"W_Q": [16, 16], "W_K": [16, 8], "W_V": [16, 8], "W_O": [16, 16]}
    assert attention["note"] == "causal, RoPE turns q and k, 2 key heads"
    assert [part["id"] for part in header["stages"][1]["parts"][0]["parts"]] == [
        "norm_1", "attention", "norm_2", "feed_forward",
    ]  # fmt: skip
    assert header["stages"][-1]["id"] == "head" and header["stages"][-1]["tied"]


def test_an_encoder_and_a_decoder_with_cross_attention():
    model = Transformer.seeded(vocabulary=11, width=12, heads=3, encoders=2, decoders=2)
    trace = model.explain([1, 2, 3], [4, 5], block=3, which="cross")
    header, _ = asked(trace, "architecture")
    assert [stage["id"] for stage in header["stages"]] == ["embedding", "encoder", "decoder"]
    assert header["place"] == {"stack": "decoder", "block": 1, "which": "cross"}
    parts = [stage["id"] for stage in header["stages"][2]["parts"][0]["parts"]]
    assert parts == ["attention", "norm_1", "cross", "norm_2", "feed_forward", "norm_3"]


@pytest.mark.parametrize("subject", [reading(), Attention(np.eye(3), np.eye(3))], ids=["reading", "attention"])
def test_of_given_vectors_only_the_attention_is_known(subject):
    header, _ = asked(subject, "architecture")
    assert header["parameters"] is None
    assert [stage["id"] for stage in flat(header["stages"])] == ["encoder", "block", "attention"]

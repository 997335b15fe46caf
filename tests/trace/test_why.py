"""The calculation of each number, written out on one line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard
from regard import errors
from regard.layers import Encoder, MultiHead, Transformer
from regard.layers.positions import Rotary

CAT_SAT = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]]
WORDS = ["The", "cat", "sat"]


@pytest.fixture
def trace():
    return regard.Attention(CAT_SAT, CAT_SAT).explain(CAT_SAT, words=WORDS)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("query", "[0 1 0 1], as given"),
        ("key", "[1 1 1 1], as given"),
        ("score", "[0 1 0 1]·[1 1 1 1] = 0·1 + 1·1 + 0·1 + 1·1 = 2"),
        ("scaled", "2 / √4 = 1"),
        ("weight", "e^1 / (e^0 + e^1 + e^1) = 2.72 / 6.44 = 0.42"),
        ("weighted_value", "0.42·[1 1 1 1] = [0.42 0.42 0.42 0.42]"),
        ("output", "0.16·[1 0 1 0] + 0.42·[0 1 0 1] + 0.42·[1 1 1 1] = [0.58 0.84 0.58 0.84]"),
    ],
)
def test_lines_of_the_worked_example(trace, name, line):
    assert str(trace.why(name, query="cat", key="sat")) == line


def test_one_component_of_a_vector_is_written_out(trace):
    why = trace.why("output", query="The", component=1)
    assert str(why) == "0.42·0 + 0.16·1 + 0.42·1 = 0.58"
    assert why.value == trace["output"][0, 0, 1]
    assert sum(why.terms) == pytest.approx(why.value)
    assert str(trace.why("weighted_value", query="The", key="cat", component=-1)) == "0.16·1 = 0.16"
    with pytest.raises(errors.OutOfRange, match="there are 4 components"):
        trace.why("output", query="The", component=4)


def test_capped_biased_and_masked_scores_are_written_out():
    options: Any = {"scale": 0.5, "softcap": 2.0, "bias": np.array([[0, -1.0, 0]] * 3), "mask": regard.causal()}
    trace = regard.Attention(CAT_SAT, CAT_SAT, **options).explain(CAT_SAT, words=WORDS)
    asked = {"query": "cat", "key": "cat"}
    assert str(trace.why("scaled", **asked)) == "2 / √4 = 1"
    assert str(trace.why("capped", **asked)) == "2 · tanh(1 / 2) = 0.92"
    assert str(trace.why("biased", **asked)) == "0.92 + (−1) = −0.076"
    assert str(trace.why("masked", **asked)) == "cat may see cat: −0.076 stays −0.076"
    assert str(trace.why("masked", query="The", key="sat")) == "The may not see sat: 0.92 becomes −∞"
    assert str(trace.why("weight", query="The", key="sat")) == "The may not see sat: e^(−∞) = 0, and the weight is 0"
    assert str(trace.why("weight", query="The", key="The")) == "e^0.92 / e^0.92 = 2.52 / 2.52 = 1"


def test_a_scale_equal_to_the_root_is_written_as_the_root():
    trace = regard.Attention(CAT_SAT, CAT_SAT, scale=0.5).explain(CAT_SAT)
    assert str(trace.why("scaled", query=1, key=2)) == "2 / √4 = 1"
    trace = regard.Attention(CAT_SAT, CAT_SAT, scale=-0.25).explain(CAT_SAT)
    assert str(trace.why("scaled", query=1, key=2)) == "2 · (−0.25) = −0.5"


def test_cosine_scores_and_sinks_are_written_out():
    trace = regard.Attention([CAT_SAT], [CAT_SAT], similarity="cosine", scale=1.0, sinks=[1.0]).explain([CAT_SAT])
    assert str(trace.why("score", query=1, key=2)) == "[0 1 0 1]·[1 1 1 1] / (1.41·2) = 2 / 2.83 = 0.71"
    line = "e^0.71 / (e^0 + e^1 + e^0.71 + e^1 of the sink) = 2.03 / 8.46 = 0.24"
    assert str(trace.why("weight", query=1, key=2)) == line


def test_large_scores_are_written_with_the_largest_subtracted():
    trace = regard.Attention([[200.0]], [[1.0], [1.005]], scale=1.0).explain([[1.0], [2.0]])
    why = trace.why("weight", key=0)
    assert str(why).startswith("e^(−1) / (e^(−1) + e^0) = 0.37 / 1.37 = 0.27, with the largest score, 201, subtracted")
    assert why.value == trace["weight"][0, 0, 0]


def test_long_vectors_are_shortened_unless_full(draw):
    vectors = draw(30, 100)
    trace = regard.Attention(vectors, vectors).explain(vectors)
    for name in ("score", "weight", "weighted_value", "output"):
        short, full = (str(trace.why(name, query=3, key=5, full=full)) for full in (False, True))
        assert "…" in short and len(short) < 500
        assert "…" not in full and len(full) > len(short)
    assert str(trace.why("score", query=3, key=5, full=True)).count(" + ") == 99


@pytest.mark.parametrize("norm_first", [False, True])
def test_every_number_of_a_block_is_written_out(draw, norm_first):
    block = Encoder.seeded(6, 2, norm_first=norm_first, dtype=np.float64)
    trace = block.explain(draw(3, 6), words=WORDS)
    for name in trace.names:
        whole = trace.why(name, query="cat", key="sat", head=1)
        assert "=" in str(whole) or "as given" in str(whole)
        if np.ndim(whole.value):
            for component in range(len(whole.value)):
                one = trace.why(name, query="cat", key="sat", head=1, component=component)
                assert one.value == whole.value[component]
                if name in ("query", "key", "value", "weighted_value", "output", "projected", "concatenated"):
                    total = np.prod(one.terms) if name == "weighted_value" else sum(one.terms)
                    assert total == pytest.approx(one.value, abs=1e-12)
    assert "norm(" in str(trace.why("result", query=0)) or norm_first


def test_norms_and_rotation_follow_the_projection(draw):
    layer = MultiHead.seeded(8, 2, kv_heads=1, rotary=Rotary(4), bias=False, dtype=np.float64)
    trace = layer.explain(draw(3, 8), words=WORDS)
    line = str(trace.why("key", key="cat", head=1))
    assert "W_k = [" in line and "rotated by its position: [" in line
    assert "W_q of head 1 = [" in str(trace.why("query", query="cat", head=1))


def test_steps_of_a_stack_are_found_by_word(draw):
    model = Transformer.seeded(11, 4, 2, encoders=1, decoders=1, dtype=np.float64)
    trace = model.explain([1, 2, 3], [4, 5], words=WORDS, target_words=["el", "gato"], block=1)
    assert trace.words == ("el", "gato")
    assert "+" in str(trace.why("positioned", query="gato"))
    assert "row of the table" in str(trace.why("embedding", query="gato"))


def test_an_unknown_step_lists_the_known_ones(trace):
    with pytest.raises(errors.OptionError, match="nothing of that kind was computed"):
        trace.why("masked", query=0, key=0)
    with pytest.raises(errors.OptionError, match="Did you mean 'weight'"):
        trace.why("weights", query=0, key=0)
    with pytest.raises(errors.OptionError, match=r"Which `key`.*0 The, 1 cat, 2 sat"):
        trace.why("score", query=0)
    with pytest.raises(errors.OutOfRange, match="1 head"):
        trace.why("score", query=0, key=0, head=1)

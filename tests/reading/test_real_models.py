"""Real models on the sentences of the documentation."""

import numpy as np
import pytest

from regard.models.model import model
from regard.reading import Reading

KIDS = "The kids were scared of the lions, so they left right away."


@pytest.fixture(scope="module")
def minilm(minilm_path):
    return model("minilm")


@pytest.fixture(scope="module")
def kids(minilm):
    return minilm.read(KIDS)


def test_they_attends_most_to_kids_after_cls_and_sep(kids):
    looks = kids.strongest("they")
    assert looks.notes[0] == "[CLS] and [SEP] take 0.37 of the weight."
    assert looks["Word"][0] == "kids"
    assert kids.strongest("they", sinks=True)["Word"][0] == "[CLS]"


def test_one_head_attends_to_kids_and_another_to_lions(kids):
    assert kids.strongest("they", layer=3, head=1).rows[0][:2] == ("kids", pytest.approx(0.81, abs=0.005))
    assert kids.strongest("they", layer=5, head=5).rows[0][:2] == ("lions", pytest.approx(0.57, abs=0.005))
    assert kids.heads_for("they", "kids").rows[0][:2] == (3, 1)
    assert kids.heads_for("they", "lions").rows[0][:2] == (5, 5)


def test_one_head_attends_to_the_previous_word(kids):
    weights = kids.weights(layer=0, head=2)
    assert (weights[np.arange(2, 15), np.arange(1, 14)] > 0.98).all()


def test_cls_has_a_large_weight_and_a_small_contribution(kids):
    found = {row[0]: row[1:] for row in kids.norms("they", layer=5, sinks=True, itself=True)}
    assert found["[CLS]"][0] > found["lions"][0] > found["kids"][0]
    assert found["[CLS]"][2] < 0.1 * min(found["kids"][2], found["lions"][2])
    assert found["kids"][2] > found["lions"][2]


def test_norms_of_all_words_bound_the_norm_of_the_projection(kids):
    """‖Σ weight · v · W_O‖ is at most the sum of lengths, and the vectors themselves add up to the projection."""
    trace = kids.explain("they", layer=5)
    attention = kids.blocks[5].attention
    added = np.linalg.norm(trace["projected"][0] - attention.w_o.bias)
    assert added <= sum(kids.norms("they", layer=5, sinks=True, itself=True)["‖weight · v · W_O‖"]) + 1e-4


def test_errors_of_a_real_model_are_small(kids):
    found = kids.certificate
    assert found.row_sums < 5e-6
    assert found.forbidden == 0
    assert found.output < 1e-5
    assert found.rows == 6 * 12 * 16


def test_traces_end_in_the_states_of_the_model(kids):
    for layer in (0, 3, 5):
        trace = kids.explain("they", layer=layer)
        np.testing.assert_allclose(trace["result"][0], kids.states[layer + 1][10], atol=2e-5)


def test_apple_moves_more_between_senses_than_within_one(minilm):
    phones = minilm.read("Love Apple phones")
    fruit = phones.moved("Apple", minilm.read("I ate an apple and a pear"))
    same = phones.moved("Apple", minilm.read("The new Apple phones cost more"))
    assert len(fruit) == 7
    for layer in range(1, 7):
        assert fruit["distance"][layer] > 1.5 * same["distance"][layer]
        assert fruit["cosine"][layer] < same["cosine"][layer]


def test_pieces_of_a_word_are_one_word(minilm):
    reading = minilm.read("Tokenization of unbelievable embeddings")
    assert [word.text for word in reading.words][1:-1] == ["Tokenization", "of", "unbelievable", "embeddings"]
    assert len(reading.tokens) > len(reading.words)
    np.testing.assert_allclose(reading.weights().sum(axis=1), 1, atol=1e-5)


def test_a_saved_reading_gives_the_same_answers(kids, tmp_path):
    kids.save(tmp_path / "kids.safetensors")
    back = Reading.load(tmp_path / "kids.safetensors")
    assert back.strongest("they").rows == kids.strongest("they").rows
    assert back.certificate == kids.certificate
    assert back.moved("they", kids)["distance"] == (0,) * 7


def test_a_causal_model_has_its_first_token_as_sink(smollm2_path):
    reading = model("smollm2").read("The kids were scared of the lions, so they left")
    assert reading.sinks == (0,)
    assert "The first word, The, takes 0.4" in reading.strongest("they").notes[0]
    assert set(reading.strongest("they")["Word"]) <= set(reading.labels[1:10])
    np.testing.assert_allclose(reading.rollout("they")[10:], 0, atol=1e-12)
    assert reading.certificate.forbidden == 0

"""Rollout, contributions and distances of vectors, against plain NumPy; traces of a reading."""

import numpy as np
import pytest

from regard import errors
from regard.attention import Attention
from regard.layers import Transformer
from regard.masks import causal
from regard.reading.weights import rollout, rollout_row

from .cases import HEADS, KEY_HEADS, LAYERS, PIECES, PLAIN, Truth, made, run_of


def rolled_out(reading):
    """The definition of Abnar and Zuidema."""
    count = len(reading.tokens)
    whole = np.eye(count)
    for layer in range(reading.layers):
        mixed = 0.5 * Truth(reading).of_layer(layer).mean(axis=0) + 0.5 * np.eye(count)
        whole = mixed / mixed.sum(axis=1, keepdims=True) @ whole
    return whole


@pytest.mark.parametrize("kind", ["all", "causal", "sink logits"])
def test_rollout_is_the_product_of_all_layers(kind):
    sinks = np.linspace(-2, 3, HEADS, dtype=np.float32) if kind == "sink logits" else None
    reading = made(PLAIN if kind == "causal" else PIECES, causal() if kind == "causal" else None, sinks)
    expected = rolled_out(reading)
    np.testing.assert_allclose(reading.rollout(), expected, atol=1e-6)
    np.testing.assert_allclose(expected.sum(axis=1), 1)
    word = reading.word("watchingly")
    np.testing.assert_allclose(reading.rollout("watchingly"), expected[word.first : word.last].mean(axis=0), atol=1e-6)


def test_a_row_of_the_rollout_is_exact_where_sink_logits_meet_scores_of_a_million():
    """float32 holds log-sum-exps of 10⁶ to 0.06: a sink's share computed from one would be off by 6%."""
    queries = np.array([[[1000, 1], [1000, 2], [1000, 0]]], np.float32)
    keys = np.array([[[1000, 0], [1000, 1], [1000, 0.5]]], np.float32)  # scores 10⁶ + 0 … 2
    attention = Attention(queries, keys, scale=1.0, sinks=np.array([1e6 + 1], np.float32))
    row = np.array([0.25, 0.5, 0.25])
    np.testing.assert_allclose(rollout_row([attention] * 2, row), row @ rollout([attention] * 2), rtol=1e-6)


def test_results_beyond_the_limit_are_refused_with_the_fix():
    with pytest.raises(errors.TooLarge, match=r"rollout\(0\)"):
        made().rollout(limit=100)
    with pytest.raises(errors.TooLarge, match=r"strongest\(word\)"):
        made().weights(limit=100)


@pytest.mark.parametrize("head", [None, 4])
def test_norms_are_lengths_of_weighted_values_through_w_o(head):
    reading = run_of(Transformer.seeded(11, 24, 6, encoders=2, seed=5))
    layer, word = 1, reading.word("watchingly")
    weights, values = Truth(reading).of_layer(layer), np.asarray(reading.seen[layer].values, np.float64)
    project = reading.blocks[layer].attention.w_o
    assert project is not None
    w_o = np.asarray(project.weight, np.float64)  # (width, head · value_dim)
    size = values.shape[-1]
    expected = np.zeros((len(reading.words), 24))
    for one in range(6) if head is None else [head]:
        row = weights[one, word.first : word.last].mean(axis=0)
        carried = (row[:, None] * values[one]) @ w_o[:, one * size : (one + 1) * size].T  # (key, width)
        for place, key in enumerate(reading.words):
            expected[place] += carried[key.first : key.last].sum(axis=0)
    lengths = dict(zip(reading.labels, np.linalg.norm(expected, axis=1), strict=True))
    found = reading.norms("watchingly", layer=layer, head=head, sinks=True, itself=True)
    assert found["‖weight · v · W_O‖"] == tuple(sorted(found["‖weight · v · W_O‖"], reverse=True))
    for name, length in zip(found["Word"], found["‖weight · v · W_O‖"], strict=True):
        assert length == pytest.approx(lengths[name], abs=1e-5)
    assert "take" in found.notes[0]


def test_norms_leave_out_sinks_and_the_word_itself_and_average_over_layers():
    reading = run_of(Transformer.seeded(11, 24, 6, encoders=3, seed=5))
    whole = {row[0]: row[1:] for row in reading.norms("cats", layer=1, sinks=True, itself=True)}
    rest = {row[0]: row[1:] for row in reading.norms("cats", layer=1)}
    aside = {"cats", *(reading.labels[place] for place in reading.sink_words)}
    assert rest == {name: row for name, row in whole.items() if name not in aside}
    means = {row[0]: row[1:] for row in reading.norms("cats")}
    for name, row in means.items():
        of_layers = [{one[0]: one[1:] for one in reading.norms("cats", layer=layer)}[name] for layer in range(3)]
        np.testing.assert_allclose(row, np.mean(of_layers, axis=0))


def test_a_table_without_a_head_shows_the_one_with_the_largest_weight_on_another_word():
    reading = made()
    layer, head, *_ = reading.heads_for("cats").rows[0]
    assert f"layer {layer}, head {head}" in reading.table("cats").title
    best = max((row for row in reading.heads_for("cats") if row[0] == 1), key=lambda row: row[3])
    assert f"layer 1, head {best[1]}" in reading.table("cats", layer=1).title


def test_norms_without_w_o_are_those_of_the_values():
    reading = made()
    found = reading.norms("cats", layer=0, head=5)
    row = Truth(reading).of_layer(0)[5, 4]
    values = np.asarray(reading.seen[0].values, np.float64)[5 // (HEADS // KEY_HEADS)]
    expected = np.linalg.norm(row[8] * values[8])
    assert dict(zip(found["Word"], found["‖weight · v‖"], strict=True))[","] == pytest.approx(expected, abs=1e-5)
    assert "not known" in found.notes[-1]


def test_moved_compares_a_words_vectors_layer_by_layer():
    transformer = Transformer.seeded(11, 24, 6, encoders=3, seed=5, positions=None)
    here = run_of(transformer)
    there = run_of(transformer, (PIECES[4], PIECES[3], PIECES[8]))
    found = here.moved("cats", there)
    assert len(found) == 4
    one, two = here.states[2][4].astype(float), there.states[2][0].astype(float)
    _, cosine, distance, relative = found.rows[2]
    assert cosine == pytest.approx(one @ two / np.linalg.norm(one) / np.linalg.norm(two), abs=1e-6)
    assert distance == pytest.approx(np.linalg.norm(one - two), abs=1e-6)
    assert relative == pytest.approx(2 * distance / (np.linalg.norm(one) + np.linalg.norm(two)))
    assert found.rows[0] == ("embedded", pytest.approx(1), pytest.approx(0), pytest.approx(0))  # no positions
    assert here.moved("cats", here).rows[3][2] == 0
    assert here.moved("watchingly", there, "the").rows[1][2] > 0


def test_moved_needs_hidden_states_of_the_same_model():
    transformer = Transformer.seeded(11, 24, 6, encoders=3, seed=5)
    other = run_of(Transformer.seeded(11, 24, 6, encoders=2, seed=5))
    with pytest.raises(errors.Unsupported, match="no hidden states"):
        made().moved("cats", made())
    with pytest.raises(errors.OptionError, match="of the same model"):
        run_of(transformer).moved("cats", other)
    with pytest.raises(errors.OptionError, match="dog"):
        other.moved("dog", other)


@pytest.mark.parametrize("norm_first", [False, True])
def test_explain_traces_the_whole_block(norm_first):
    reading = run_of(Transformer.seeded(11, 24, 6, encoders=3, seed=5, norm_first=norm_first))
    trace = reading.explain("watchingly", layer=2)
    assert trace.query_words == ("ly",)
    assert trace.note is not None and "watch + ing + ly" in trace.note
    np.testing.assert_allclose(trace["weight"][:, 0], Truth(reading).of_layer(2)[:, 7], atol=1e-6)
    np.testing.assert_allclose(trace["result"][0], reading.states[3][7], atol=1e-5)
    table = reading.table("watchingly", layer=2, head=3)
    assert table.title.startswith("Query ly, layer 2, head 3: d_k = 4")
    np.testing.assert_allclose(table["softmax"], Truth(reading).of_layer(2)[3, 7], atol=1e-6)
    assert len(reading.explain(layer=1).query_words) == 12


def test_explain_without_a_model_starts_from_queries_and_keys():
    reading = made()
    trace = reading.explain("cats", layer=LAYERS - 1)
    assert trace.names[0] == "query"
    np.testing.assert_allclose(trace["weight"][:, 0], Truth(reading).of_layer(2)[:, 4], atol=1e-6)

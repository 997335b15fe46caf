"""Tables of a reading, against plain NumPy."""

from typing import Any

import numpy as np
import pytest

from regard import errors
from regard.masks import causal
from regard.reading import weights

from .cases import HEADS, LAYERS, PIECES, PLAIN, Truth, made

NEAR: Any = {"atol": 2e-6}  # float32 softmax over a dozen keys


@pytest.fixture(params=["all", "causal", "sink logits"])
def reading(request):
    if request.param == "all":
        return made()
    if request.param == "causal":
        return made(PLAIN, causal())
    return made(sinks=np.linspace(-1, 2, HEADS, dtype=np.float32))


def test_weights_by_word_are_sums_over_key_pieces_and_means_over_query_pieces(reading):
    truth = Truth(reading)
    np.testing.assert_allclose(reading.weights(layer=1, head=4), truth.by_word(1)[4], **NEAR)
    np.testing.assert_allclose(reading.weights(layer=2), truth.by_word(2).mean(axis=0), **NEAR)
    np.testing.assert_allclose(reading.weights(), truth.averaged(), **NEAR)
    np.testing.assert_allclose(reading.weights(layer=1, head=4, by="token"), truth.of_layer(1)[4], **NEAR)
    of_all = np.mean([truth.of_layer(layer).mean(axis=0) for layer in range(LAYERS)], axis=0)
    np.testing.assert_allclose(reading.weights(by="token"), of_all, **NEAR)


def test_weights_do_not_depend_on_how_rows_are_blocked(monkeypatch):
    reading = made()
    whole = reading.weights()
    monkeypatch.setattr(weights, "BLOCK", 1)
    np.testing.assert_allclose(reading.weights(), whole, **NEAR)
    assert reading.pairs().rows == made().pairs().rows
    assert reading.top(5).rows == made().top(5).rows


@pytest.mark.parametrize("place", [(None, None), (1, None), (2, 3), (None, 5)])
def test_looks_ranks_words_and_notes_the_weight_of_sinks(place):
    reading, (layer, head) = made(), place
    of_layers = [Truth(reading).by_word(one) for one in ([layer] if layer is not None else range(LAYERS))]
    row = np.mean([one.mean(axis=0) if head is None else one[head] for one in of_layers], axis=0)[4]
    found = reading.strongest("watchingly", layer=layer, head=head, itself=True)
    places = {label: number for number, label in enumerate(reading.labels)}
    assert [places[word] for word in found["Word"]] == [one for one in np.argsort(-row) if one not in (0, 8)]
    np.testing.assert_allclose(found["weight"], [row[places[word]] for word in found["Word"]], **NEAR)
    np.testing.assert_allclose(found["of the rest"], np.array(found["weight"]) / row[1:8].sum(), atol=2e-5)
    assert f"{row[0] + row[8]:.2f} of the weight" in found.notes[0]
    assert "[CLS] and [SEP] take" in found.notes[0]


def test_looks_with_sinks_and_itself_is_the_whole_row():
    found = made().strongest("cats", sinks=True, itself=True)
    assert len(found) == 9
    assert sum(found["weight"]) == pytest.approx(1, abs=1e-5)
    assert [column.name for column in found.columns] == ["Word", "weight"]


def test_looks_without_itself_notes_the_weight_on_itself():
    found = made().strongest("cats")
    assert "cats" not in found["Word"]
    assert "Weight on itself" in found.notes[-1]


def test_words_are_named_as_tables_label_them():
    reading = made()
    assert "the:2" in reading.strongest("cats")["Word"]
    assert reading.strongest("the:2").rows == reading.strongest(("the", 2)).rows
    assert reading.strongest("THE:2").rows == reading.strongest(("the", 2)).rows
    with pytest.raises(errors.OptionError, match="the"):
        reading.strongest("the:7")


def test_every_table_takes_the_same_keywords():
    reading = made()
    choices: Any = ({}, {"layer": 1}, {"head": 2}, {"layer": 1, "head": 2, "sinks": True, "itself": True})
    for options in choices:
        for table in (reading.strongest("cats", **options), reading.pairs(**options), reading.top(3, **options),
                      reading.norms("cats", **options), reading.table("cats", **options)):  # fmt: skip
            assert len(table)
    with pytest.raises(TypeError):
        reading.strongest("cats", 1)  # type: ignore[call-arg]


def test_equal_weights_are_ranked_in_the_order_of_the_text():
    reading = made()
    same = [np.zeros_like(seen.attention.queries) for seen in reading.seen]
    from dataclasses import replace

    seen = tuple(
        one._replace(attention=replace(one.attention, queries=queries))
        for one, queries in zip(reading.seen, same, strict=True)
    )
    found = replace(reading, seen=seen).strongest("cats", itself=True)["Word"]
    one_piece = [word for word in found if word not in ("watchingly", "Keeping")]
    assert one_piece == ["the", "cats", ",", "the:2", "end"]


def test_pairs_hold_the_strongest_other_word():
    reading = made()
    expected = Truth(reading).averaged()
    found = reading.pairs()
    assert found["query"] == reading.labels[1:8]
    for place, (_, key, probability) in enumerate(found.rows, 1):
        row = expected[place].copy()
        row[[0, 8, place]] = -1
        assert key == reading.labels[row.argmax()]
        assert probability == pytest.approx(row.max(), abs=2e-6)
    assert f"{expected[1:8][:, [0, 8]].sum(axis=1).mean():.2f} of the weight on average" in found.notes[0]


def test_pairs_may_include_sinks_and_the_word_itself():
    reading = made()
    expected = Truth(reading).by_word(0)[2]
    found = reading.pairs(itself=True, layer=0, head=2, sinks=True)
    assert found["key"] == tuple(reading.labels[place] for place in expected.argmax(axis=1))
    assert len(found) == 9


def test_pairs_of_some_words_equal_those_of_all():
    reading = made()
    assert reading.pairs(words=(3, 6)).rows == reading.pairs().rows[2:5]
    for wrong in ((6, 3), (0, 99, 2), "words", (0.5, 2)):
        with pytest.raises(errors.OptionError):
            reading.pairs(words=wrong)  # type: ignore[arg-type]


def test_a_word_without_other_visible_words_has_no_partner():
    found = made(PLAIN, causal()).pairs()
    assert found.rows[0] == ("the", None, None)  # only the sink is before it


def test_heads_for_ranks_heads_by_their_weight_on_a_word():
    reading = made()
    found = reading.heads_for("watchingly", "Keeping")
    expected = np.stack([Truth(reading).by_word(layer)[:, 4, 1] for layer in range(LAYERS)])  # (layer, head)
    assert len(found) == LAYERS * HEADS
    order = np.argsort(-expected.reshape(-1))
    assert [layer * HEADS + head for layer, head, *_ in found.rows] == order.tolist()
    np.testing.assert_allclose(found["weight"], expected.reshape(-1)[order], **NEAR)
    to_sinks = np.stack([Truth(reading).by_word(layer)[:, 4][:, [0, 8]].sum(axis=-1) for layer in range(LAYERS)])
    np.testing.assert_allclose(found["to sinks"], to_sinks.reshape(-1)[order], **NEAR)


def test_heads_for_any_word_finds_the_strongest_word():
    reading = made()
    layer, head, key, weight, _ = reading.heads_for("cats").rows[0]
    expected = np.stack([Truth(reading).by_word(layer)[:, 3] for layer in range(LAYERS)])
    expected[..., [0, 3, 8]] = -1
    assert [layer, head, reading.labels.index(key)] == list(np.unravel_index(expected.argmax(), expected.shape))
    assert weight == pytest.approx(expected.max(), abs=2e-6)


def test_top_finds_the_largest_weights_of_all_heads():
    reading = made()
    expected = np.stack([Truth(reading).by_word(layer) for layer in range(LAYERS)])
    expected[..., [0, 8]] = -1
    expected[..., [0, 8], :] = -1
    expected[..., np.arange(9), np.arange(9)] = -1
    order = np.argsort(-expected.reshape(-1))[:7]
    found = reading.top(7)
    labels = reading.labels
    for row, flat in zip(found.rows, order, strict=True):
        layer, head, query, key = np.unravel_index(flat, expected.shape)
        assert row[:4] == (layer, head, labels[query], labels[key])
        assert row[4] == pytest.approx(expected.reshape(-1)[flat], abs=2e-6)
    assert "of the weight on average" in found.notes[0]
    assert len(reading.top(10**6, layer=0, head=0, sinks=True, itself=True)) == 81


def test_layers_and_heads_out_of_range_are_refused():
    reading = made()
    for wrong in (lambda: reading.strongest("cats", layer=99), lambda: reading.strongest("cats", layer=0, head=6),
                  lambda: reading.attention(3),
                  lambda: reading.pairs(layer=True), lambda: reading.table("cats", layer=0, head=17),
                  lambda: reading.norms("cats", layer=-4)):  # fmt: skip
        with pytest.raises(errors.OutOfRange, match="counted from 0"):
            wrong()
    for k in (0, -1, 2.5, True):
        with pytest.raises(errors.OptionError, match="`k`"):
            reading.top(k)  # type: ignore[arg-type]
    with pytest.raises(errors.OptionError, match="`by`"):
        reading.weights(by="letter")  # type: ignore[arg-type]


def test_a_negative_layer_counts_from_the_end():
    assert made().strongest("cats", layer=-1).rows == made().strongest("cats", layer=LAYERS - 1).rows


def test_without_sinks_nothing_is_left_out_or_noted():
    reading = made(PLAIN)
    assert reading.strongest("cats", itself=True).notes == ()
    assert len(reading.strongest("cats", itself=True)) == len(reading.words)
    assert PIECES[0].special  # the others hold special tokens

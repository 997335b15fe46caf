"""The end of a model: next-token probabilities, and changes that flow through all layers to it."""

from typing import Any

import numpy as np
import pytest

from regard.attribution import logit_lens
from regard.edits import block, patch, silence
from regard.errors import OptionError, Unsupported
from regard.heads.ablation_effects import silenced
from regard.layers import Learned
from regard.models.generate import Sampling
from regard.reading import Reading

from ..small_models import encoder, writer
from .cases import asked

TEXT = "the kids were scared of the lions, so they left"
CLOSE: Any = {"rtol": 0, "atol": 2e-5}


@pytest.fixture(scope="module")
def read():
    return writer().read(TEXT)


def logits_of(model, text):
    """Of the token after each one, by the whole transformer."""
    return model.transformer([token.id for token in model.read(text).tokens])


def test_logits_are_those_of_the_whole_model_largest_first(read):
    for query in (0, 4, 10):
        header, arrays = asked(read, "next", query=query)
        right = np.sort(logits_of(writer(), TEXT)[query])[::-1]
        np.testing.assert_allclose(arrays["logits"], right, **CLOSE)
        named = [token["text"] for token in header["tokens"]]
        best = int(np.argmax(logits_of(writer(), TEXT)[query]))
        assert named[0] == writer().tokeniser.piece(best)[0] and header["ids"][0] == best
    assert header["follows"] is None
    header, _ = asked(read, "next", query=4)
    assert header["follows"]["text"] == "the"
    assert header["ids"][header["follows"]["rank"]] == read.tokens[5].id


def test_only_a_model_that_writes_has_a_next_token():
    header, _ = asked(encoder().read("the cat sat"), "describe")
    assert "next" not in header["has"] and "flow" in header["has"]
    with pytest.raises(OptionError):
        asked(encoder().read("the cat sat"), "next", query=0)
    with pytest.raises(Unsupported, match="smollm2"):
        encoder().read("the cat sat").next_tokens()
    with pytest.raises(Unsupported, match="not at hand"):
        Reading.of(encoder().read("the cat sat").seen[0].attention, np.ones((4, 5, 4))).next_tokens()


def test_a_reading_lists_next_tokens(read):
    table = read.next_tokens("kids", count=3, temperature=0.7, top_p=0.9)
    tokens, probabilities = Sampling(0.7, None, 0.9).probabilities(logits_of(writer(), TEXT)[1])
    assert [row[0] for row in table.rows] == [writer().tokeniser.piece(token)[0] for token in tokens[:3]]
    np.testing.assert_allclose([row[1] for row in table.rows], probabilities[:3], atol=1e-5)


@pytest.mark.parametrize("model", [writer, encoder], ids=["writer", "encoder"])
def test_a_silenced_head_flows_to_the_end(model):
    read = model().read(TEXT)
    header, arrays = asked(read, "flow", layer=1, query=3, silenced=[[1, 2], [0, 1]])
    changed = silenced(model(), [(1, 2), (0, 1)]).read(TEXT)
    moved = [
        np.linalg.norm(after[3] - before[3]) / np.linalg.norm(before[3])
        for before, after in zip(read.states, changed.states, strict=True)
    ]
    np.testing.assert_allclose(arrays["moved"], moved, atol=1e-5)
    assert moved[0] == 0 and moved[-1] > 0.01
    if model is writer:
        right = np.sort(model().next_logits(changed.states[-1])[3])[::-1]
        np.testing.assert_allclose(arrays["logits"], right, **CLOSE)
    else:
        assert "logits" not in arrays and header["query"] == 3


@pytest.mark.parametrize(
    ("given", "scale", "mask"),
    [({"divisor": 0.5}, 2.0, "model"), ({"temperature": 3.0}, None, "model"), ({"mask": "none"}, None, "none")],
)
def test_a_changed_head_flows_to_the_end(read, given, scale, mask):
    """Recomputed by plain NumPy for the changed layer, and by the model's own blocks after it."""
    model, layer, head = writer(), 1, 2
    _, arrays = asked(read, "flow", layer=layer, head=head, query=4, **given)
    attention, values = read.seen[layer]
    q, k = np.asarray(attention.queries[head], np.float64), np.asarray(attention.keys[head // 2], np.float64)
    scores = q @ k.T * (attention.scores.scale if scale is None else scale) / given.get("temperature", 1.0)
    if mask == "model":
        scores = np.where(np.tri(len(scores), dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    outputs = np.array(attention @ values)
    outputs[head] = weights @ np.asarray(values[head // 2], np.float64)
    block = model.blocks[layer]
    x = read.states[layer] + block.attention.project(outputs)
    x = x + block.feed_forward(block.norm_2(x))
    for later in model.blocks[layer + 1 :]:
        x = later(x)
    np.testing.assert_allclose(arrays["logits"], np.sort(model.next_logits(x)[4])[::-1], **CLOSE)


def test_how_likely_each_token_was(read):
    _, arrays = asked(read, "likelihood")
    logits = logits_of(writer(), TEXT)[:-1].astype(np.float64)
    shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    ids = [token.id for token in read.tokens[1:]]
    own = shares[np.arange(len(ids)), ids]
    assert np.isnan(arrays["probability"][0]) and np.isnan(arrays["rank"][0])
    np.testing.assert_allclose(arrays["probability"][1:], own, atol=1e-5)
    np.testing.assert_array_equal(arrays["rank"][1:], (shares > own[:, None]).sum(-1))


def test_no_change_moves_nothing(read):
    _, arrays = asked(read, "flow", layer=0, query=2)
    assert not arrays["moved"].any()
    np.testing.assert_array_equal(arrays["logits"], asked(read, "next", query=2)[1]["logits"])


@pytest.mark.parametrize(
    "given",
    [
        {"silenced": [[3, 0]]},
        {"silenced": [[0]]},
        {"silenced": "all"},
        {"divisor": 0},
        {"temperature": 0},
        {"mask": "x"},
    ],
)
def test_changes_are_checked(read, given):
    with pytest.raises(OptionError):
        asked(read, "flow", layer=0, query=2, **given)


def test_states_of_a_word_at_every_layer(read):
    _, arrays = asked(read, "states", tokens=[1, 4])
    np.testing.assert_array_equal(arrays["state"], np.stack([state[[1, 4]] for state in read.states]))
    _, arrays = asked(read, "states", layer=2, tokens=[3])
    np.testing.assert_array_equal(arrays["state"], read.states[2][[3]])


def test_the_embedding_and_what_is_added_to_it():
    read = encoder().read("the cat sat")
    _, arrays = asked(read, "embedding", tokens=[1, 3])
    model = encoder().transformer
    assert isinstance(model.positions, Learned)
    ids = [read.tokens[1].id, read.tokens[3].id]
    np.testing.assert_array_equal(arrays["embedding"], model.embedding.weight[ids])
    np.testing.assert_allclose(arrays["position"], model.positions.weight[[1, 3]], atol=1e-6)
    np.testing.assert_allclose(arrays["embedding"] + arrays["position"], read.states[0][[1, 3]], atol=1e-6)


# Edges, weights after a change, activations of another text, the lens


def word_rows(reading, token):
    """The weights of the token's word by layer, (head, word)."""
    word = reading.words[reading.word_weights.place_of(token)]
    return [reading.word_weights.row(slice(word.first, word.last), layer, range(4)) for layer in range(reading.layers)]


@pytest.mark.parametrize("model", [writer, encoder], ids=["writer", "encoder"])
@pytest.mark.parametrize("where", ["all", "layer", "head"])
def test_a_blocked_edge_flows_to_the_end(model, where):
    read = model().read(TEXT)
    edge = {"queries": [7], "keys": [1, 2]}
    head = int(np.asarray(read.seen[1].attention[:, 7, 1:3]).sum(-1).argmax())  # others may not look there at all
    where = {"all": {}, "layer": {"layers": [1]}, "head": {"heads": [[1, head]]}}[where]
    header, arrays = asked(read, "flow", query=7, blocked={**edge, **where}, weights=True)
    heads = {"heads": [tuple(pair) for pair in where["heads"]]} if "heads" in where else where
    changed = model().read(TEXT, edit=block(queries=[7], keys=[1, 2], **heads))
    moved = [
        np.linalg.norm(after[7] - before[7]) / np.linalg.norm(before[7])
        for before, after in zip(read.states, changed.states, strict=True)
    ]
    np.testing.assert_allclose(arrays["moved"], moved, atol=1e-5)
    assert moved[-1] > 1e-3
    assert header["layers"] == list(range(1 if where else 0, read.layers))
    np.testing.assert_allclose(arrays["weight"], word_rows(changed, 7)[header["layers"][0] :], **CLOSE)
    assert arrays["weight"][0, head, 1:3].max() == 0  # the edge itself, in a head where it is blocked


def test_weights_after_silenced_heads_are_those_of_the_edited_model(read):
    header, arrays = asked(read, "flow", query=7, silenced=[[0, 1]], weights=True)
    changed = writer().read(TEXT, edit=silence((0, 1)))
    assert header["layers"] == list(range(read.layers))
    np.testing.assert_allclose(arrays["weight"], word_rows(changed, 7), **CLOSE)
    with pytest.raises(OptionError, match="silenced heads and blocked edges only"):
        asked(read, "flow", query=7, divisor=2.0, weights=True)


@pytest.mark.parametrize(
    "blocked", [{"queries": [99], "keys": [0]}, {"queries": [1], "words": [0]}, 3, {"heads": [[9, 0]]}]
)
def test_edges_are_checked(read, blocked):
    with pytest.raises(OptionError):
        asked(read, "flow", query=2, blocked=blocked)


@pytest.mark.parametrize("model", [writer, encoder], ids=["writer", "encoder"])
@pytest.mark.parametrize("by", ["head", "position"])
def test_effects_of_another_texts_activations_are_shares_of_the_way_to_its_answer(model, by):
    read, other = model().read(TEXT), TEXT.replace("scared", "kids")
    there, query, layer = model().read(other), len(read.tokens) - 1, 1
    header, arrays = asked(read, "patching", text=other, by=by, layer=layer, query=query)
    for column in (0, 2):
        where = {"heads": [(layer, column)]} if by == "head" else {"what": "residual", "layers": [layer]}
        patched = model().read(TEXT, edit=patch(there, **where, positions=column if by == "position" else None))
        ends = [np.asarray(one.states[-1])[query].astype(float) for one in (read, patched, there)]
        if header["measured"]["kind"] == "logits":
            logits = [model().next_logits(end[None].astype(np.float32))[0].astype(float) for end in ends]
            tops = int(logits[0].argmax()), int(logits[2].argmax())
            ends = [np.array([row[tops[1]] - row[tops[0]]]) for row in logits]
        way = ends[2] - ends[0]
        assert arrays["effect"][column] == pytest.approx((ends[1] - ends[0]) @ way / (way @ way), abs=2e-4)
    assert header["measured"]["kind"] == ("logits" if model is writer else "state")
    assert len(arrays["effect"]) == (4 if by == "head" else len(read.tokens))


def test_a_text_of_another_length_is_refused_in_a_sentence(read):
    with pytest.raises(OptionError, match="both need equally many"):
        asked(read, "patching", text="the kids", layer=0, query=1)


def test_the_lens_is_that_of_the_library(read):
    header, arrays = asked(read, "lens")
    lens = logit_lens(writer(), TEXT)
    assert tuple(map(tuple, header["tops"])) == lens.top_texts
    np.testing.assert_allclose(arrays["probability"], lens.probability, atol=1e-6)
    assert np.isnan(arrays["rank"][:, -1]).all()
    with pytest.raises(OptionError):
        asked(encoder().read(TEXT), "lens")

"""What `Reader` promises, for Regard's own models and for those that transformers runs, on the same checkpoints."""

import inspect
from typing import Any

import numpy as np
import pytest

from regard import errors
from regard.heads.documents import documents_of
from regard.heads.observation import observe
from regard.heads.roles import known
from regard.heads.treebank_relations import silent_heads
from regard.models.model import Model, opened
from regard.reading.reader import TASKS, Reader
from regard.watch.pretrained import Pretrained

from ..heads.conftest import tiny_bert, tiny_llama

TEXT = "the cat sat on the table, so they left the cat"
OTHERS = ["the table", "they left the cat", "a dog ran"]
KINDS = {"bert": tiny_bert, "llama": tiny_llama}
TOGETHER: Any = {"atol": 1e-5, "rtol": 1e-5}  # float32, summed in another order


@pytest.fixture(scope="module", params=KINDS)
def both(request, tmp_path_factory) -> tuple[Model, Pretrained]:
    """The same checkpoint, read by Regard and by transformers."""
    folder = KINDS[request.param](tmp_path_factory.mktemp(request.param)).folder
    return opened(folder), Pretrained.open(str(folder))


@pytest.fixture(params=["own", "transformers"])
def reader(request, both: tuple[Model, Pretrained]) -> Reader:
    return both[request.param == "transformers"]


# Promises that hold for each reader alone


MEMBERS = [name for name in vars(Reader) if not name.startswith("_")]


@pytest.mark.parametrize("kind", [Model, Pretrained])
def test_every_member_is_there_with_the_parameters_of_the_contract(kind):
    fields = kind.__dataclass_fields__
    for name in MEMBERS:
        assert hasattr(kind, name) or name in fields, name
        promised = vars(Reader)[name]
        if inspect.isfunction(promised):
            own = inspect.signature(getattr(kind, name)).parameters
            variadic = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in own.values())
            assert variadic or set(inspect.signature(promised).parameters) <= set(own), name


def test_a_reading_has_the_tokens_of_the_tokeniser_and_one_attention_per_block(reader):
    reading, encoded = reader.read(TEXT), reader.tokeniser.encode(TEXT)
    assert [token.id for token in reading.tokens] == encoded.ids
    assert [token.text for token in reading.tokens] == encoded.texts
    assert reading.model == reader.name and len(reading.seen) == len(reader.block_shapes)
    for (attention, values), shape in zip(reading.seen, reader.block_shapes, strict=True):
        assert attention.shape == (shape.heads, len(encoded), len(encoded)) and shape.heads == reader.heads
        assert attention.keys.shape[0] == shape.key_heads == values.shape[0]
        assert (attention.queries.shape[-1], values.shape[-1]) == (shape.head_dim, shape.value_dim)
        assert shape.w_o is not None and shape.w_o.shape[1] == shape.heads * shape.value_dim
    upper = np.triu(reading.weights(layer=0, by="token"), 1)
    assert bool(upper.any()) is not reader.causal


def test_layers_are_reported_and_reading_can_be_cancelled(reader):
    layers: list[tuple[int, int]] = []
    reader.read(TEXT, on_layer=lambda *done: layers.append(done))
    count = len(reader.block_shapes)
    assert layers == [(number, count) for number in range(1, count + 1)]

    def stop(*_done):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reader.read(TEXT, on_layer=stop)


def test_heads_are_observed_once_per_layer_and_text(reader):
    ids = [reader.tokeniser.encode(text).ids for text in (*OTHERS, "the cat")]
    assert len({len(text) for text in ids}) < len(ids)  # some texts have equally many tokens
    seen = []
    for of_layer, texts, tokens, attention in reader.observe(ids):
        assert attention.shape[0] == len(texts) and {len(ids[text]) for text in texts} == {attention.shape[2]}
        values = of_layer.values[:, tokens].reshape(len(of_layer.values), len(texts), attention.shape[2], -1)
        outputs = of_layer.outputs[tokens].reshape(len(texts), attention.shape[2], reader.heads, -1)
        np.testing.assert_allclose(attention @ values.swapaxes(0, 1), outputs.swapaxes(1, 2), **TOGETHER)
        seen += [(of_layer.layer, text) for text in texts]
    assert sorted(seen) == [(layer, text) for layer in range(len(reader.block_shapes)) for text in range(len(ids))]
    assert {found.of_layer.layer for found in reader.observe(ids, 1)} == {0}


def test_what_a_reader_cannot_do_is_refused_with_the_reason_it_states(reader):
    assert reader.writes is ("generate" not in reader.cannot)
    assert set(reader.cannot) <= set(TASKS) and all(reason.endswith(".") for reason in reader.cannot.values())
    calls = {
        "generate": lambda: reader.generate(TEXT, 1),
        "next_tokens": lambda: reader.next_tokens(np.zeros(30, np.float32), 3),
    }
    for task, reason in reader.cannot.items():
        with pytest.raises(errors.Unsupported) as refusal:
            calls[task]()
        assert str(refusal.value) == f"{TASKS[task]} with {reader.name} is not supported.\n{reason}"


def test_texts_that_are_too_long_or_empty_are_refused(reader):
    with pytest.raises(errors.OptionError, match=f"reads at most {reader.longest}.\nRead it in parts"):
        reader.read("cat " * 400)
    with pytest.raises(errors.OptionError, match=f"reads at most {reader.longest}"):
        reader.embed("cat " * 400)
    assert len(reader.read(reader.beginning("cat " * 400)).tokens) <= reader.longest
    if reader.causal:  # without special tokens
        with pytest.raises(errors.OptionError, match="a text with at least one token"):
            reader.read("")


def test_an_untrained_model_has_the_same_shape_and_other_weights(reader):
    twin = reader.untrained()
    assert (twin.name, len(twin.block_shapes)) == (f"{reader.name}, untrained", len(reader.block_shapes))
    assert not np.allclose(twin.block_shapes[0].w_o, reader.block_shapes[0].w_o)
    np.testing.assert_array_equal(twin.block_shapes[0].w_o, reader.untrained().block_shapes[0].w_o)


def test_layers_can_be_computed_again_only_where_regard_computes_them(reader):
    assert (reader.transformer is not None) is isinstance(reader, Model)
    assert known(reader) is None


# Both readers say the same


def test_both_have_the_same_facts(both):
    own, watched = both
    for name in ("longest", "vocabulary", "causal", "heads", "ends", "writes"):
        assert getattr(own, name) == getattr(watched, name), name
    for ours, theirs in zip(own.block_shapes, watched.block_shapes, strict=True):
        sizes = [(one.heads, one.key_heads, one.head_dim, one.value_dim) for one in (ours, theirs)]
        assert sizes[0] == sizes[1]
        np.testing.assert_allclose(ours.w_o, theirs.w_o, **TOGETHER)
    assert not silent_heads(own).any() and not silent_heads(watched).any()


def test_both_give_the_same_tokens_words_and_weights(both):
    ours, theirs = (one.read(TEXT) for one in both)
    assert ours.tokens == theirs.tokens and ours.text == theirs.text
    assert [word.text for word in ours.words] == [word.text for word in theirs.words]
    for layer in range(len(ours.seen)):
        for head in range(both[0].heads):
            expected = theirs.weights(layer=layer, head=head, by="token")
            np.testing.assert_allclose(ours.weights(layer=layer, head=head, by="token"), expected, **TOGETHER)


def test_both_observe_the_same_weights(both):
    ours, theirs = (
        {(group.layer, group.texts.indices): group.attention[...] for group in observe(one, documents_of(one, OTHERS))}
        for one in both
    )
    assert ours.keys() == theirs.keys()
    for key, weights in ours.items():
        np.testing.assert_allclose(weights, theirs[key], **TOGETHER)


def test_both_embed_texts_alike(both):
    own, watched = both
    for options in ({}, {"normalise": False}):
        np.testing.assert_allclose(own.embed(OTHERS, **options), watched.embed(OTHERS, **options), **TOGETHER)
    assert own.embed("the cat").shape == watched.embed("the cat").shape
    assert own.embed("the cat").ndim == 1


def test_both_generate_the_same_tokens(both):
    if not both[0].causal:
        assert all("generate" in one.cannot for one in both)
        return
    pieces: list[list[str]] = [[], []]
    ours, theirs = (
        one.generate("the cat", 5, on_token=of_one.append) for one, of_one in zip(both, pieces, strict=True)
    )
    assert [token.id for token in ours.tokens] == [token.id for token in theirs.tokens]
    assert ours.given == theirs.given and pieces[0] == pieces[1]

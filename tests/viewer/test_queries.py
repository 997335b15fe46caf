"""Every query is answered as NumPy answers it."""

from typing import Any

import numpy as np
import pytest

from regard.attention import Attention
from regard.attention.pooled import even_edges
from regard.errors import OptionError
from regard.layers import Encoder
from regard.masks import causal, window
from regard.reading import Reading
from regard.teaching.lookup import lookup
from regard.viewer.queries import Answers

from .cases import (
    CAT_SAT,
    COUNT,
    HEADS,
    LAYERS,
    SPECIAL,
    TEXTS,
    WORDS,
    arrays,
    asked,
    causal_reading,
    reading,
    weights,
)

CLOSE: Any = {"rtol": 0, "atol": 1e-6}  # answers travel in single precision


@pytest.fixture(scope="module", params=[False, True], ids=["all", "causal"])
def case(request):
    subject = causal_reading() if request.param else reading()
    return Answers(subject), weights(request.param)


def test_the_description_lists_the_contents():
    header, _ = asked(causal_reading(), "describe")
    assert header["tokens"] == list(TEXTS)
    assert header["words"] == [list(word) for word in WORDS]
    assert header["special"] == list(SPECIAL) and header["sinks"] == list(SPECIAL)
    assert (header["layers"], header["heads"], header["key_heads"]) == (LAYERS, HEADS, 3)
    assert (header["head_dim"], header["value_dim"], header["queries"]) == (5, 7, COUNT)
    assert header["causal"] is True and header["window"] is None and header["mask"] == "causal()"
    assert header["scale"] == pytest.approx(5**-0.5)
    assert header["certificate"]["row_sums"] < 1e-6 and header["certificate"]["line"]
    assert header["format"] == 1 and header["kind"] == "reading" and not header["long"]


def test_a_window_includes_the_own_key():
    header, _ = asked(reading(mask=causal() & window(2, 0)), "describe")
    assert header["causal"] and header["window"] == 3


@pytest.mark.parametrize("pool", ["mean", "max"])
@pytest.mark.parametrize(("rows", "columns", "shape"), [((0, 11), (0, 11), (11, 11)), ((2, 9), (3, 11), (3, 5))])
def test_a_tile_is_pooled_exactly(case, rows, columns, shape, pool):
    answers, expected = case
    header, found = asked(
        answers, "tile", layer=1, head=4, rows=list(rows), columns=list(columns), shape=list(shape), pool=pool
    )
    row_edges, column_edges = even_edges(rows[0], rows[1], shape[0]), even_edges(columns[0], columns[1], shape[1])
    for r in range(shape[0]):
        for c in range(shape[1]):
            cell = expected[1, 4, row_edges[r] : row_edges[r + 1], column_edges[c] : column_edges[c + 1]]
            np.testing.assert_allclose(found["weight"][r, c], getattr(cell, pool)(), **CLOSE)
    assert header["exact"] and header["sampled"] is None
    assert header["rows"] == list(rows) and header["columns"] == list(columns)


def test_a_row_holds_the_weights_of_one_query(case):
    answers, expected = case
    _, found = asked(answers, "row", layer=0, heads=[5, 2], query=7)
    np.testing.assert_allclose(found["weight"], expected[0, [5, 2], 7], **CLOSE)


@pytest.mark.parametrize("query", [0, 1, 2, 7, 10])
def test_a_row_by_word_sums_over_key_pieces_and_averages_over_query_pieces(case, query):
    answers, expected = case
    first, last = next(word for word in WORDS if word[0] <= query < word[1])
    mean = expected[1, 3, first:last].mean(axis=0)
    _, found = asked(answers, "row", layer=1, heads=[3], query=query, by="word")
    np.testing.assert_allclose(found["weight"][0], [mean[start:stop].sum() for start, stop in WORDS], **CLOSE)


def test_statistics_are_means_over_rows(case):
    answers, expected = case
    _, found = asked(answers, "statistics")
    logarithms = np.log(np.where(expected > 0, expected, 1))
    apart = np.abs(np.arange(COUNT)[:, None] - np.arange(COUNT))
    np.testing.assert_allclose(found["entropy"], -(expected * logarithms).sum(-1).mean(-1), atol=1e-5)
    np.testing.assert_allclose(found["distance"], (expected * apart).sum(-1).mean(-1), atol=1e-5)
    np.testing.assert_allclose(found["sinks"], expected[..., list(SPECIAL)].sum(-1).mean(-1), **CLOSE)
    np.testing.assert_allclose(found["peak"], expected.max(-1).mean(-1), **CLOSE)


def test_thumbnails_of_short_texts_are_the_matrix_itself(case):
    answers, expected = case
    _, found = asked(answers, "thumbnails", layer=1, shape=[64, 64])
    np.testing.assert_allclose(found["weight"], expected[1], **CLOSE)
    _, found = asked(answers, "thumbnails", layer=1, shape=[1, 1])
    np.testing.assert_allclose(found["weight"][:, 0, 0], expected[1].mean(axis=(-2, -1)), **CLOSE)


def test_along_the_text(case):
    answers, expected = case
    _, found = asked(answers, "along", layer=0, heads=[4, 0])
    np.testing.assert_allclose(found["received"], expected[0, [4, 0]].sum(axis=-2), atol=1e-5)
    apart = np.abs(np.arange(COUNT)[:, None] - np.arange(COUNT))
    np.testing.assert_allclose(found["distance"], (expected[0, [4, 0]] * apart).sum(-1), atol=1e-5)
    assert found["entropy"].shape == (2, COUNT)


@pytest.mark.parametrize(("itself", "sinks"), [(True, True), (False, True), (False, False)])
def test_links_are_the_strongest_sorted(case, itself, sinks):
    answers, expected = case
    _, found = asked(answers, "links", layer=1, heads=[1, 3], count=9, itself=itself, sinks=sinks)
    mean = expected[1, [1, 3]].mean(axis=0)
    if not itself:
        np.fill_diagonal(mean, 0)
    if not sinks:
        mean[:, list(SPECIAL)] = 0
        mean[list(SPECIAL)] = 0
    order = np.argsort(-mean.reshape(-1), kind="stable")[:9]
    assert list(zip(found["query"].tolist(), found["key"].tolist(), strict=True)) == [
        (place // COUNT, place % COUNT) for place in order
    ]
    np.testing.assert_allclose(found["weight"], mean.reshape(-1)[order], **CLOSE)


def test_vectors_are_those_of_the_head_and_its_shared_keys():
    queries, keys, values = arrays()
    header, found = asked(causal_reading(), "vectors", layer=1, head=5)
    np.testing.assert_allclose(found["q"], queries[1, 5], rtol=1e-6)
    np.testing.assert_allclose(found["k"], keys[1, 2], rtol=1e-6)
    np.testing.assert_allclose(found["v"], values[1, 2], rtol=1e-6)
    assert header["scale"] == pytest.approx(5**-0.5)


def test_vectors_of_one_query_include_its_visible_keys():
    queries, keys, _ = arrays()
    _, found = asked(causal_reading(), "vectors", layer=0, head=1, query=3, keys=[2, 3, 4])
    np.testing.assert_allclose(found["q"], queries[0, 1, 3:4], rtol=1e-6)
    np.testing.assert_allclose(found["k"], keys[0, 0, 2:5], rtol=1e-6)
    assert found["visible"].tolist() == [1, 1, 0]


def test_vectors_include_their_bias():
    bias = np.random.default_rng(1).normal(size=(HEADS, COUNT, COUNT))
    _, found = asked(reading(bias=bias), "vectors", layer=0, head=2, query=4)
    np.testing.assert_allclose(found["bias"], bias[2, 4], atol=1e-6)


def test_steps_without_blocks_give_the_outputs():
    _, _, values = arrays()
    _, found = asked(causal_reading(), "steps", layer=1, head=0, query=6)
    expected = np.stack([weights(True)[1, head, 6] @ values[1, head // 2] for head in range(HEADS)])
    np.testing.assert_allclose(found["outputs"], expected, atol=1e-5)
    np.testing.assert_allclose(found["concatenated"], expected.reshape(-1), atol=1e-5)


def test_steps_of_a_block_lead_to_its_result():
    block = Encoder.seeded(width=12, heads=3, dtype=np.float64)
    x = np.random.default_rng(2).normal(size=(5, 12))
    steps = dict(block.observe(x))
    result, seen = steps["result"], steps["heads"].seen
    subject = Reading("a b c d e", causal_reading().tokens[1:6], (seen,), (), (x, result), (block,), "seeded")
    header, found = asked(subject, "steps", layer=0, head=1, query=3)
    np.testing.assert_allclose(found["result"], result[3], atol=1e-5)
    np.testing.assert_allclose(found["state"], x[3], atol=1e-6)
    assert set(found) >= {"outputs", "concatenated", "projected", "attended", "fed_forward", "result"}
    assert header["formulas"]["attended"].startswith("attended = ")


# Other subjects


def test_a_trace_answers_with_its_own_numbers():
    trace = Attention(CAT_SAT, CAT_SAT, mask=causal()).explain(CAT_SAT, words=["The", "cat", "sat"])
    answers = Answers(trace)
    header, _ = asked(answers, "describe")
    assert header["kind"] == "trace" and header["tokens"] == ["The", "cat", "sat"] and header["causal"]
    for query in range(3):
        _, found = asked(answers, "row", layer=0, heads=[0], query=query)
        np.testing.assert_allclose(found["weight"][0], trace["weight"][0, query], **CLOSE)


@pytest.mark.parametrize(
    "options", [{"softcap": 0.5}, {"scale": 0.3}, {"sinks": [0.7]}, {"bias": np.eye(3)}, {"similarity": "cosine"}]
)
def test_a_trace_with_changed_scores_answers_with_its_own_numbers(options):
    trace = Attention([CAT_SAT], [CAT_SAT], **options).explain([CAT_SAT], words=["The", "cat", "sat"])
    _, found = asked(trace, "tile", layer=0, head=0, rows=[0, 3], columns=[0, 3], shape=[3, 3])
    np.testing.assert_allclose(found["weight"], trace["weight"][0], **CLOSE)


def test_a_trace_of_one_query_has_one_row():
    trace = Attention(CAT_SAT, CAT_SAT).explain(CAT_SAT, query="cat", words=["The", "cat", "sat"])
    header, _ = asked(trace, "describe")
    assert (header["queries"], header["first_query"], len(header["tokens"])) == (1, 1, 3)
    _, found = asked(trace, "row", layer=0, heads=[0], query=0)
    np.testing.assert_allclose(found["weight"][0].round(2), [0.16, 0.42, 0.42], **CLOSE)


def test_a_small_example_is_editable():
    from regard.layers import Linear, MultiHead

    eye = Linear(np.eye(4))
    layer = MultiHead(eye, eye, eye, None, heads=2)
    header, _ = asked(layer.explain(np.array(CAT_SAT, float), words=["The", "cat", "sat"]), "describe")
    editable = header["editable"]
    assert editable["embedding"] == np.array(CAT_SAT, float).tolist()
    assert np.array(editable["w_q"]).shape == (2, 4, 2) and editable["w_o"] is None


def test_an_attention_alone_has_no_values():
    queries, keys, _ = arrays()
    header, found = asked(Attention(queries[0], keys[0]), "describe")
    assert "steps" not in header["has"] and header["value_dim"] is None
    _, found = asked(Attention(queries[0], keys[0]), "vectors", layer=0, head=0)
    assert set(found) == {"q", "k"}


def test_of_several_sequences_the_first_is_shown_with_a_note():
    queries, keys, _ = arrays()
    header, _ = asked(Attention(queries, keys), "describe")
    assert header["note"] == "Sequence 0 of 2: A.select(batch=…) shows another."


def test_queries_that_are_not_keys_have_their_own_positions():
    queries, keys, _ = arrays()
    answers = Answers(Attention(queries[0][:, :4], keys[0]))
    header, _ = asked(answers, "describe")
    assert (header["queries"], len(header["tokens"]), header["first_query"]) == (4, COUNT, None)
    assert header["query_tokens"] == ["0", "1", "2", "3"]
    for kind in ("statistics", "along", "links"):
        asked(answers, kind, **({} if kind == "statistics" else {"layer": 0, "heads": [0]}))


def test_a_lookup_query_returns_soft_weights():
    car = lookup({"brand": "Ford", "model": "Mustang", "year": 1964})
    header, _ = asked(car, "describe")
    assert header["kind"] == "lookup" and header["lookup"]["keys"] == ["brand", "model", "year"]
    header, found = asked(car, "lookup", query="the brand of it")
    np.testing.assert_allclose(found["weight"], car.soft("the brand of it").weights, **CLOSE)
    assert header["value"] == "'Ford'"


def test_tensors_answer_as_arrays_do():
    torch = pytest.importorskip("torch")
    queries, keys, values = (torch.from_numpy(array) for array in arrays())
    subject = Reading.of([Attention(queries[0], keys[0])], [values[0]])
    for kind, parameters in QUESTIONS:
        if parameters.get("layer", 0) == 0:
            asked(subject, kind, **parameters)
    _, found = asked(subject, "row", layer=0, heads=[2], query=3)
    np.testing.assert_allclose(found["weight"][0], weights()[0, 2, 3], **CLOSE)


# What comes from outside is checked

QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    ("describe", {}),
    (
        "tile",
        {
            "layer": 0,
            "head": 0,
            "rows": [0, 11],
            "columns": [0, 11],
            "shape": [4, 4],
            "pool": "mean",
            "quality": "first",
        },
    ),
    ("row", {"layer": 0, "heads": [0], "query": 0, "by": "token"}),
    ("statistics", {}),
    ("thumbnails", {"layer": 0, "shape": [8, 8]}),
    ("along", {"layer": 0, "heads": [0]}),
    ("links", {"layer": 0, "heads": [0], "count": 5, "itself": True, "sinks": True}),
    ("vectors", {"layer": 0, "head": 0, "query": 0, "keys": [0]}),
    ("steps", {"layer": 0, "head": 0, "query": 0}),
]
NONSENSE = [
    -1,
    1 << 70,
    0.5,
    "1",
    True,
    [],
    [[]],
    {},
    [99, 99, 99],
    ["a", "b"],
    [5000, 2],
    [-1, 3],
    [0, 10**9],
    "x" * 99,
]


@pytest.mark.parametrize(("kind", "parameters"), QUESTIONS, ids=[kind for kind, _ in QUESTIONS])
def test_invalid_input_gives_a_one_line_error(kind, parameters):
    answers = Answers(reading())
    answers.answer(kind, parameters)
    for name, usual in parameters.items():
        for wrong in NONSENSE:
            if wrong == usual or (isinstance(usual, bool) and wrong is True):
                continue
            with pytest.raises(OptionError, match="expected"):
                answers.answer(kind, {**parameters, name: wrong})
    for wrong in [*NONSENSE[:5], [], "x"]:
        with pytest.raises(OptionError):
            answers.answer(kind, wrong)
    with pytest.raises(OptionError, match="parameters"):
        answers.answer(kind, {**parameters, "__proto__": 1})


@pytest.mark.parametrize("kind", ["nothing", "__init__", "lookup", None, 3, ["row"]])
def test_unknown_queries_are_refused(kind):
    with pytest.raises(OptionError, match="kind"):
        Answers(reading()).answer(kind, {})


def test_more_than_a_million_cells_are_refused():
    subject = Attention(np.zeros((2048, 2)), np.zeros((2048, 2)))
    with pytest.raises(OptionError, match="1024"):
        asked(subject, "tile", layer=0, head=0, shape=[1025, 1])


def test_a_cancelled_query_stops():
    class Gone(Exception):
        pass

    def stop():
        raise Gone

    with pytest.raises(Gone):
        Answers(reading()).answer("row", {"layer": 0, "heads": [0], "query": 0}, stop)

"""Statistics of heads against the same written as plain loops over the dense weights of transformers."""

from typing import Any

import numpy as np
import pytest

from regard.engines.select import native_engine
from regard.heads import observation, statistics
from regard.heads.circuits import effective_rank, of_layer
from regard.heads.documents import documents_of
from regard.heads.statistics import LONG_ENOUGH, NAMES, SEED, WINDOW, measure, random_repeats, repetition
from regard.heads.sums import FIELDS, Sums, estimate_mean

from ..models.checkpoints import SENTENCES, base_of, torch

LONG = "the cat sat on the table so they left the kids of lions , the lions were scared of keys on the table away ."
TEXTS = [*SENTENCES, LONG, "keys keys keys", "the , the . cat cat"]


def attentions(twin, ids):
    with torch.no_grad():
        found = base_of(twin)(torch.tensor([ids.tolist()]), output_attentions=True).attentions
    return [layer[0].double().numpy() for layer in found]  # (head, query, key) each


def plain(weights, document):
    """Per document: name → (amount, count), both as loops over queries and keys."""
    n, ids, word = len(document), document.ids, document.word
    sinks = [bool(document.special[j]) or (document.causal and j == 0 and n > 1) for j in range(n)]
    found = {name: [0.0, 0.0] for name in NAMES}

    def add(name, amount, count=1.0):
        found[name][0] += amount
        found[name][1] += count

    received = np.zeros(n)
    for i in range(n):
        if sinks[i]:
            continue
        row = weights[i]
        sees = [j for j in range(n) if not document.causal or j <= i]
        content = [j for j in sees if not sinks[j]]
        rest = sum(row[j] for j in content)
        received += row
        add("entropy", -sum(row[j] * np.log(row[j]) for j in sees if row[j] > 0))
        add("distance", sum(row[j] * abs(i - j) for j in sees))
        add("distance of the rest", sum(row[j] * abs(i - j) for j in content), rest)
        if len(content) >= 4:
            shares = np.array([row[j] / rest for j in content])
            add("evenness", rest * -(shares * np.log(shares)).sum() / np.log(len(content)), rest)
        add("first", row[0])
        add("separators", sum(row[j] for j in range(1, n) if document.special[j]))
        add("punctuation", sum(row[j] for j in range(n) if document.pieces[j] in (",", ".")))
        for name, j in (("itself", i), ("previous", i - 1), ("next", i + 1)):
            if j in content:
                add(name, row[j])
                add(f"{name} of the rest", row[j], rest)
        groups = {
            "repeated": [j for j in content if j != i and ids[j] == ids[i]],
            "same word": [j for j in content if j != i and word[j] == word[i]],
        }
        for name, keys in groups.items():
            if keys:
                add(name, sum(row[j] for j in keys))
                add(f"{name} of the rest", sum(row[j] for j in keys), rest)
        if len(content) >= LONG_ENOUGH:
            near = sum(row[j] for j in content if 0 < abs(i - j) <= WINDOW)
            add("window", near)
            add("window of the rest", near, rest)
    found["received"] = [max(received[j] for j in range(n) if not sinks[j]), n - sum(sinks)]
    return found


@pytest.fixture(params=["native", "NumPy"])
def passes(request, monkeypatch):
    """Both ways of reading statistics off weights."""
    if request.param == "NumPy":
        monkeypatch.setattr(statistics, "native_engine", lambda: None)
    elif native_engine() is None:
        pytest.skip("the native engine is not built")


@pytest.mark.usefixtures("passes")
@pytest.mark.parametrize("tile", [1 << 20, 150])
def test_every_statistic_equals_plain_loops_over_the_weights_of_transformers(tiny, monkeypatch, tile):
    monkeypatch.setattr(observation, "TILE", tile)  # 150: a few rows at a time
    model = tiny.open()
    documents = documents_of(model, TEXTS)
    ours = measure(model, documents)
    wanted: dict[str, list[Any]] = {name: [] for name in NAMES}
    for document in documents:
        for layer, weights in enumerate(attentions(tiny.twin, document.ids)):
            for head in range(model.heads):
                for name, pair in plain(weights[head], document).items():
                    wanted[name].append((layer, head, *pair))
    by_loops = set(NAMES) - {"sinks by norm", "contribution", "induction", "duplicate"}
    for name in by_loops:
        amount, count = np.zeros((2, len(model.blocks), model.heads))
        for layer, head, *pair in wanted[name]:
            amount[layer, head] += pair[0]
            count[layer, head] += pair[1]
        with np.errstate(invalid="ignore"):
            # Weights are float32: their errors of 1e-6 are divided by a rest that can be small.
            np.testing.assert_allclose(ours.mean(name), amount / count, rtol=2e-4, atol=2e-5, err_msg=name)


@pytest.mark.usefixtures("passes")
def test_norms_equal_the_vectors_that_heads_write(tiny):
    model = tiny.open()
    documents = documents_of(model, TEXTS[:2])
    ours = measure(model, documents)
    of_sinks, of_all, shares, count = (np.zeros((len(model.blocks), model.heads)) for _ in range(4))
    for document, reading in zip(documents, model.read(TEXTS[:2]), strict=True):
        asks = np.flatnonzero(document.content)
        for layer, (attention, values) in enumerate(reading.seen):
            w_o = model.blocks[layer].attention.w_o.weight.astype(np.float64)
            size = values.shape[-1]
            written = []
            for head in range(model.heads):
                part = w_o[:, head * size : (head + 1) * size]
                through = values[head // (model.heads // len(values))].astype(np.float64) @ part.T  # (key, width)
                each = attention.dense()[head][:, :, None] * through  # (query, key, width)
                lengths = np.linalg.norm(each, axis=2)[asks]
                of_sinks[layer, head] += lengths[:, document.sinks].sum()
                of_all[layer, head] += lengths.sum()
                written.append(np.linalg.norm(each.sum(axis=1), axis=1)[asks])
            shares[layer] += (np.array(written) / np.sum(written, axis=0)).sum(axis=1)
            count[layer] += len(asks)
    np.testing.assert_allclose(ours.mean("sinks by norm"), of_sinks / of_all, rtol=1e-4)
    np.testing.assert_allclose(ours.mean("contribution"), shares / count, rtol=1e-4)


def test_induction_and_duplicate_are_the_weights_after_and_on_the_earlier_occurrence(tiny):
    model = tiny.open()
    ours = repetition(model, sequences=3, period=9)
    documents, start = random_repeats(model, 3, 9, SEED)
    after, on, rest = np.zeros((3, len(model.blocks), model.heads))
    for document in documents:
        for layer, weights in enumerate(attentions(tiny.twin, document.ids)):
            for i in range(start + 9, start + 17):
                earlier = next(j for j in range(start, i) if document.ids[j] == document.ids[i])
                after[layer] += weights[:, i, earlier + 1]
                on[layer] += weights[:, i, earlier]
                rest[layer] += weights[:, i, document.content].sum(axis=1)
    np.testing.assert_allclose(ours.mean("induction"), after / rest, rtol=1e-4)
    np.testing.assert_allclose(ours.mean("duplicate"), on / rest, rtol=1e-4)


def test_parts_add_up_to_the_same_integers_in_any_order(tiny):
    model = tiny.open()
    documents = documents_of(model, TEXTS)
    parts = [measure(model, documents[place : place + 2]) for place in range(0, len(documents), 2)]
    nothing = Sums.of(NAMES, np.zeros((len(NAMES), len(FIELDS), len(model.blocks), model.heads)))
    forwards = sum(parts, nothing)
    backwards = sum(reversed(parts), nothing)
    assert forwards == backwards
    for name in NAMES:
        for head in range(model.heads):
            assert forwards.estimate(name, 1, head) == backwards.estimate(name, 1, head)


def test_intervals_cover_the_mean_of_a_simulated_corpus_nineteen_times_in_twenty():
    generator = np.random.default_rng(7)
    covered = 0
    for _ in range(400):
        count = generator.integers(5, 60, size=80)
        document_means = generator.normal(0.4, 0.1, size=80)  # tokens of one document share its mean
        amount = count * document_means
        sums = np.array([80, count.sum(), (count**2).sum(), amount.sum(), (amount**2).sum(), (amount * count).sum()])
        found = estimate_mean(*(round(float(number) * 10**9) for number in sums))
        assert found.low is not None and found.high is not None
        covered += found.low <= 0.4 <= found.high
    assert 0.92 <= covered / 400 <= 0.98


def test_long_texts_are_cut_into_documents_with_special_tokens_around_each(tiny):
    model = tiny.open()
    text = " ".join(["the cat sat on keys"] * 9)
    documents = documents_of(model, [text], longest=20)
    whole = documents_of(model, [text])[0]
    assert all(len(document) <= 20 for document in documents)
    ids = np.concatenate([document.ids[~document.special] for document in documents])
    assert ids.tolist() == whole.ids[~whole.special].tolist()
    for document in documents:
        assert document.special.sum() == whole.special.sum()


def test_the_effective_rank_equals_that_of_the_full_product(draw):
    left, right = draw(5, 23), draw(5, 23)
    singular = np.linalg.svd(left.T @ right, compute_uv=False)
    shares = singular[:5] / singular[:5].sum()
    assert effective_rank(left, right) == pytest.approx(np.exp(-(shares * np.log(shares)).sum()), rel=1e-10)


def test_ranks_lie_between_one_and_the_size_of_a_head(tiny):
    layer = tiny.open().blocks[0].attention
    found = of_layer(layer)
    assert found.qk.shape == found.ov.shape == (layer.heads,)
    assert ((found.qk >= 1) & (found.qk <= layer.head_dim)).all()
    assert ((found.ov >= 1) & (found.ov <= layer.head_dim)).all()


def test_every_statistic_has_a_meaning():
    assert len({one.name for one in statistics.STATISTICS}) == len(NAMES)
    assert all(one.meaning for one in statistics.STATISTICS)

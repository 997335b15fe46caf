"""Relations: predictions against plain loops, and the heads that a real model has for them."""

import numpy as np
import pytest

from regard.heads import treebank_relations as relations
from regard.heads.treebank import Sentence, Treebank, parse
from regard.heads.treebank_relations import align, best_directions, bootstrap, pairs_of, predictions, scores
from regard.models.model import model
from regard.reading import weights as word_weights

from ..models.checkpoints import base_of, torch


@pytest.mark.parametrize("native", [True, False])
def test_the_most_attended_word_equals_plain_loops_over_the_weights_of_transformers(tiny, small, native, monkeypatch):
    if not native:
        monkeypatch.setattr(word_weights, "native_engine", lambda: None)
    reader = tiny.open()
    treebank = Treebank("part", small[0].sentences[:7], ())
    found = predictions(reader, treebank)
    row = 0
    for sentence, one in zip(treebank.sentences, align(reader, treebank.sentences), strict=True):
        with torch.no_grad():
            assert one is not None
            ids = torch.tensor([one.document.ids.tolist()])
            layers = base_of(tiny.twin)(ids, output_attentions=True).attentions
        tokens_of = {  # word → its tokens, by characters
            place: [
                token for token, (start, stop) in enumerate(one.document.spans)
                if not one.document.special[token] and word.start <= start < word.stop and stop > start
            ]
            for place, word in enumerate(sentence.words)
        }  # fmt: skip
        for layer, weights in enumerate(layers):
            for head in range(reader.heads):
                table = weights[0, head].double().numpy()
                for query, asking in tokens_of.items():
                    totals = {
                        key: table[np.ix_(asking, tokens)].sum(axis=1).mean()
                        for key, tokens in tokens_of.items()
                        if key != query and not (reader.causal and 0 in tokens)
                    }
                    best = max(totals, key=lambda key: (totals[key], -key))
                    best = best if totals[best] > 0 else -1
                    assert found.partner[row + query, layer * reader.heads + head] == best
        row += len(sentence.words)


def test_relations_that_people_ask_for_are_found_in_a_sentence():
    rows = [
        "1\tSarah\tSarah\tPROPN\t_\t_\t3\tnmod:poss\t_\tSpaceAfter=No", "2\t's\t's\tPART\t_\t_\t1\tcase\t_\t_",
        "3\tkeys\tkey\tNOUN\t_\t_\t7\tnsubj\t_\t_", "4\ton\ton\tADP\t_\t_\t6\tcase\t_\t_",
        "5\tthe\tthe\tDET\t_\t_\t6\tdet\t_\t_", "6\ttable\ttable\tNOUN\t_\t_\t3\tnmod\t_\t_",
        "7\tvanished\tvanish\tVERB\t_\t_\t0\troot\t_\t_", "8\tyesterday\tyesterday\tADV\t_\t_\t7\tadvmod\t_\t_",
    ]  # fmt: skip
    (sentence,) = parse([row.encode() for row in rows]).sentences
    found = {(pair.relation, pair.dependent, pair.head) for pair in pairs_of(sentence)}
    assert {("possessor", 0, 2), ("spatial preposition", 3, 5), ("place", 5, 2), ("time", 7, 6)} <= found
    assert ("subject", 2, 6) in found and not any(relation == "punct" for relation, *_ in found)
    assert relations.group_of("possessor") == "whose" and relations.group_of("determiner") == "grammar"


def test_a_causal_model_is_asked_only_for_partners_that_it_sees(tmp_path, small):
    from .conftest import tiny_llama

    reader = tiny_llama(tmp_path).open()
    found = predictions(reader, small[0])
    asked = {
        (pair.relation, "to dependent" if pair.dependent < pair.head else "to head")
        for sentence in small[0].sentences
        for pair in pairs_of(sentence)
    }
    assert found.hits.keys() == asked and ("determiner", "to head") not in asked  # the noun comes later
    assert found.hits["determiner", "to dependent"].seen <= 1


def test_a_query_with_two_right_partners_counts_once():
    rows = ["1\ta\ta\tX\t_\t_\t0\troot\t_\t_", "2\tb\tb\tX\t_\t_\t1\tconj\t_\t_", "3\tc\tc\tX\t_\t_\t1\tconj\t_\t_"]
    treebank = Treebank("", parse([row.encode() for row in rows]).sentences, ())
    partner = np.array([[1], [-1], [-1]], np.int16)
    found = relations.Predictions(
        treebank, np.zeros(3, int), np.zeros(1, int), partner, np.ones(3, bool), False, 1, 1, 0
    )
    sentence, right, *_ = found.hits["conjunct", "to dependent"]
    assert sentence.tolist() == [0] and right.tolist() == [[True]]


def test_minilm_has_heads_for_objects_and_determiners_that_beat_every_fixed_offset(minilm_path, small):
    reader = model("minilm")
    choose, score = (predictions(reader, one) for one in small)
    untrained = reader.untrained()
    baseline = predictions(untrained, small[0]), predictions(untrained, small[1])
    found = scores(choose, score, baseline)
    best = {one.relation: one for one in best_directions(found)}
    assert best["object"].accuracy.value > best["object"].offset_accuracy.value
    assert best["object"].beats_offset
    untrained_subject = best["subject"].untrained
    assert untrained_subject is not None and untrained_subject.value < best["subject"].accuracy.value
    assert found[0].group == "who does what"
    again = scores(choose, score, baseline)
    assert found == again  # to the digit


def test_an_interval_of_the_bootstrap_covers_the_mean_and_is_reproducible(draw):
    sentence = np.repeat(np.arange(50), 3)
    values = (draw(150, 2) > 0.3).astype(int)
    first, second = bootstrap(sentence, values, 60), bootstrap(sentence, values, 60)  # ten have no query
    assert first == second
    for one, column in zip(first, values.T, strict=True):
        assert one.low < column.mean() == one.value < one.high


def test_sentences_that_are_too_long_are_left_out_and_counted(tiny):
    reader = tiny.open()
    words = parse(
        [f"{n}\tcat\tcat\tNOUN\t_\t_\t{n - 1}\tconj\t_\t_".encode() for n in range(1, reader.longest + 5)]
    ).sentences[0]
    short = Sentence("cat sat", words.words[:2], 1)
    found = predictions(reader, Treebank("", (words, short), ()))
    assert found.omitted == 1
    assert (found.partner[: len(words.words)] == -1).all()


def test_a_direction_that_a_causal_model_hardly_sees_is_not_the_one_that_is_shown():
    interval = relations.Interval(0.5, 0.4, 0.6)
    few, most = (
        relations.Score("subject", "who does what", to, 1, 2, interval, 1, interval, None, interval, 9, seen, 0.5, gain)
        for to, seen, gain in (("to head", 0.05, 0.3), ("to dependent", 0.95, 0.1))
    )
    assert best_directions([few, most]) == [most]

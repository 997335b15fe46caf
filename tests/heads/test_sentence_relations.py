"""Relations answer for the sentence at hand: a link is called a relation only if it can be one."""

import pytest

from regard.heads.roles import KnownHeads, known
from regard.heads.sentence_relations import (
    EXAMPLES,
    POSSIBLE,
    TaggedSentence,
    answers,
    can_be,
    classes_of,
    is_link,
    not_here,
    said_of_link,
)  # fmt: skip
from regard.heads.treebank_relations import NAMED
from regard.models.model import model
from regard.reading import Reading

KIDS = "The kids were scared of the lions, so they left right away."


@pytest.fixture(scope="module")
def minilm():
    return model("minilm")


@pytest.fixture(scope="module", params=["minilm", "smollm2"])
def reader(request):
    return model(request.param)


def known_heads(reading: Reading) -> KnownHeads:
    heads = known(reading)
    assert heads is not None
    return heads


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of_each_question_has_an_answer(reader, name):
    reading = reader.read(EXAMPLES[name])
    sentence = TaggedSentence.of(reading)
    found = answers(known_heads(reading), name, sentence)
    assert found and found[0].link.weight >= 0.1
    for link, role in found:
        relation, direction = ("pronoun", "to head") if role is None else (role.relation, role.direction)
        assert is_link(relation, direction, link.query, link.key, sentence.classes)
        weight = reading.strongest(link.query, layer=link.layer, head=link.head).rows[0]
        assert weight[:2] == (reading.labels[link.key], pytest.approx(link.weight, abs=1e-6))


def test_the_head_that_links_they_to_kids_is_not_called_verb_to_object(minilm):
    reading = minilm.read(KIDS)
    sentence, of_model = TaggedSentence.of(reading), known_heads(reading)
    they = reading.labels.index("they")
    link = sentence.link(3, 1, they)
    assert link is not None
    assert said_of_link(of_model, sentence, link) == "they → kids 0.81 here"
    link = sentence.link(2, 8, they)
    assert link is not None
    assert said_of_link(of_model, sentence, link) == "they → left 0.60 here, which can be subject → verb"


def test_what_a_pronoun_refers_to_is_answered_without_a_score(minilm):
    reading = minilm.read(KIDS)
    ((link, role),) = answers(known_heads(reading), "what refers to what", TaggedSentence.of(reading))
    assert role is None and link[:2] == (3, 1)
    assert (reading.labels[link.query], reading.labels[link.key]) == ("they", "kids")


@pytest.mark.parametrize("name", ["whose", "when", "what refers to what", "possession", "relative pronoun"])
def test_a_relation_without_words_for_it_is_not_in_the_sentence(minilm, name):
    reading = minilm.read("Keys on the table belong to Sarah")
    sentence, of_model = TaggedSentence.of(reading), known_heads(reading)
    assert answers(of_model, name, sentence) == []
    group = of_model.asked(name)[0].group
    assert not_here(of_model, name, sentence) == f"Not in this sentence: try “{EXAMPLES[group]}”."


def test_every_relation_that_has_a_name_says_what_its_ends_can_be():
    assert set(NAMED.values()) <= set(POSSIBLE)
    text = "They gave the 3 keys up , and because Sarah 's dog , which was under it , left now"
    classes = set().union(*classes_of(text.split()))
    for dependent, head, side in POSSIBLE.values():
        assert classes >= set(dependent.split()) - {"place", "time", "expletive", "spatial"}
        assert classes >= set(head.split()) - {"place"} and side in (-1, 0, 1)


@pytest.mark.parametrize(
    ("text", "relation", "dependent", "head", "possible"),
    [
        ("Sarah 's keys", "possessor", 0, 2, True),
        ("Sarah lost keys", "possessor", 0, 2, False),
        ("We met in Berlin", "spatial preposition", 2, 3, True),
        ("We met in June", "spatial preposition", 2, 3, False),
        ("We met in June", "time", 3, 1, True),
        ("The cat sat", "subject", 1, 2, True),
        ("The cat sat", "subject", 0, 2, False),
        ("The cat sat", "object", 1, 2, False),
        ("[CLS] cat .", "compound", 0, 1, False),
        ("cat , dog", "conjunct", 1, 0, False),
        ("Once upon a time", "object", 3, 1, False),
        ("Once upon a time", "time", 3, 1, False),
        ("She waits despite rain", "object", 3, 2, False),
        ("She saw nothing", "object", 2, 1, True),
        ("They left nothing behind", "object", 3, 2, False),
        ("He asked whether she slept", "object", 3, 2, False),
        ("They sat together .", "subject", 0, 2, False),
        ("The dog , however , slept", "subject", 1, 3, False),
        ("Many other kids left", "subject", 0, 1, False),
    ],
)
def test_words_can_be_what_their_spelling_allows(text, relation, dependent, head, possible):
    assert can_be(relation, dependent, head, classes_of(text.split())) is possible

"""Tasks: the targets and right keys of every batch are true, and batches are functions of seed, split and step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regard import errors
from regard.training import grammar
from regard.training.tasks import KINDS, NONE, TASKS, task

TEXT = "It was the best of times, it was the worst of times, it was the age of wisdom.\n" * 20


@pytest.fixture
def text_file(tmp_path: Any) -> Any:
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def tasks(text_file: Any) -> list[Any]:
    return [task(name, **({"path": text_file} if name == "text" else {})) for name in TASKS]


def test_a_batch_depends_on_seed_split_and_step_alone(text_file):
    for one in tasks(text_file):
        first, again = (one.batch(5, seed=3, step=7) for _ in range(2))
        for name in ("tokens", "targets", "keys", "relations"):
            assert np.array_equal(getattr(first, name), getattr(again, name)), one.name
        others = one.batch(5, seed=4, step=7), one.batch(5, seed=3, step=8), one.batch(5, seed=3, step=7, split="test")
        assert all(not np.array_equal(first.tokens, other.tokens) for other in others), one.name


def test_the_right_key_comes_before_its_query_and_holds_or_decides_the_target(text_file):
    for one in tasks(text_file):
        batch = one.batch(20, seed=1)
        rows, queries = np.nonzero(batch.keys != NONE)
        keys = batch.keys[rows, queries]
        assert (keys <= queries).all()
        for found, target in zip(batch.tokens[rows, keys], batch.targets[rows, queries], strict=True):
            assert target == NONE or one.words[found] in one.words[target].split("·"), one.name
        assert ((batch.relations != NONE) == (batch.keys != NONE)).all()
        assert batch.tokens.max() < one.vocabulary and batch.tokens.shape[1] == one.length


@pytest.mark.parametrize(("pairs", "level"), [(32, 1.0), (32, 0.25), (5, 1.0)])
def test_lookup_asks_for_every_key_once_and_the_value_stands_behind_the_key(pairs, level):
    batch = task("lookup", pairs=pairs).batch(10, seed=2, level=level)
    for tokens, targets in zip(batch.tokens, batch.targets, strict=True):
        used = round(pairs * level)
        table = dict(zip(tokens[0 : 2 * used : 2].tolist(), tokens[1 : 2 * used : 2].tolist(), strict=True))
        asked = [(int(token), int(target)) for token, target in zip(tokens, targets, strict=True) if target != NONE]
        assert dict(asked) == table and len(asked) == len(table) == used
        filler = tokens[2 * used :][targets[2 * used :] == NONE]
        assert not set(filler.tolist()) & set(table)


def test_the_right_key_of_induction_is_the_query_of_the_token_before():
    batch = task("induction").batch(5, seed=1)
    rows, queries = np.nonzero(batch.relations == 0)
    keys = batch.keys[rows, queries]
    assert (batch.tokens[rows, keys - 1] == batch.tokens[rows, queries]).all()
    assert (batch.targets[rows, keys] == NONE).all()
    assert (batch.relations[rows, keys] == 1).all() and (batch.keys[rows, keys] == keys - 1).all()
    assert (batch.relations == 1).sum() == len(rows)


def test_sort_writes_the_numbers_in_ascending_order():
    one = task("sort", length=10)
    batch = one.batch(8)
    written = batch.targets[:, 5:]
    assert (np.diff([[int(one.words[token]) for token in row] for row in written], axis=1) > 0).all()


def test_facts_names_the_latest_word_of_every_kind():
    one = task("facts", length=16)
    batch = one.batch(20, seed=3)
    kind_of = {word: kind for kind, words in KINDS.items() for word in words}
    for tokens, targets, keys, relations in zip(batch.tokens, batch.targets, batch.keys, batch.relations, strict=True):
        latest: dict[str, tuple[str, int]] = {}
        for place, (token, target, key, relation) in enumerate(zip(tokens, targets, keys, relations, strict=True)):
            latest[kind_of[one.words[token]]] = one.words[token], place
            if len(latest) < len(KINDS):
                assert target == key == relation == NONE
                continue
            assert one.words[target] == "·".join(latest[kind][0] for kind in KINDS)
            asked = one.relations[relation]
            assert key == latest[asked][1] and asked != kind_of[one.words[token]]


def test_induction_has_no_fixed_distance():
    batch = task("induction").batch(50)
    rows, queries = np.nonzero(batch.keys != NONE)
    assert len(set((queries - batch.keys[rows, queries]).tolist())) > 10


def test_training_passages_contain_no_held_out_combination():
    rng = np.random.default_rng(0)
    for _ in range(300):
        for clause in grammar.passage(rng):
            for fact in clause.facts:
                query, key = clause.words[fact.query_at], clause.words[fact.key_at]
                assert not grammar.is_held_out(fact.relation, query, key)


def test_test_passages_score_held_out_combinations_of_every_relation():
    one = task("relations")
    batch = one.batch(200, split="test")
    rows, queries = np.nonzero(batch.targets != NONE)
    assert set(batch.relations[rows, queries].tolist()) == set(range(len(one.relations)))
    for row, query in zip(rows, queries, strict=True):
        relation = one.relations[batch.relations[row, query]]
        name, partner = one.words[batch.tokens[row, query]], one.words[batch.targets[row, query]]
        assert one.words[batch.tokens[row, batch.keys[row, query]]] == partner
        assert grammar.is_held_out(relation, name, partner)


def test_partners_come_earlier_at_varying_distance():
    batch = task("relations").batch(400)
    for relation in range(4):  # when and they are close by nature
        rows, queries = np.nonzero(batch.relations == relation)
        distance = queries - batch.keys[rows, queries]
        assert (distance > 0).all() and len(set(distance.tolist())) > 1


def test_whom_they_means_is_decided_by_the_verb_alone():
    """Both nouns occur in both roles before either kind of verb, so that no noun gives the answer away."""
    rng, found = np.random.default_rng(0), set()
    for _ in range(3000):
        for clause in grammar.passage(rng):
            if clause.words[2] == "feared":
                is_fleeing = clause.words[-2] in grammar.FLEEING
                assert clause.facts[0].key_at == (1 if is_fleeing else 4)
                found |= {(clause.words[1], "subject", is_fleeing), (clause.words[4], "object", is_fleeing)}
    assert len(found) == 4 * len(grammar.GROUPS)


def test_text_keeps_its_last_tenth_for_testing(text_file):
    one: Any = task("text", path=text_file, length=16)
    assert one.text(one.parts["train"]) + one.text(one.parts["test"]) == TEXT
    assert len(one.parts["test"]) == len(TEXT) - int(len(TEXT) * 0.9)


def test_sentences_are_encoded_as_people_write_them():
    one = task("relations")
    assert one.text(one.encode("Keys on the table belong to Sarah.")) == "keys on the table belong to sarah ."


BAD = [
    (("lokup",), {}, "`task` is 'lokup'; expected one of lookup,.* Did you mean 'lookup'"),
    (("lookup",), {"pairs": 0}, "`pairs` is 0"),
    (("lookup",), {"pairs": 8, "length": 20}, "`length` is 20: 8 pairs and their queries take 32"),
    (("lookup",), {"pairs": 80, "vocabulary": 100}, "`vocabulary` is 100; 80 pairs need an even number from 162"),
    (("copy",), {"pairs": 3}, "The task copy has no option pairs; it takes length, vocabulary"),
    (("sort",), {"length": 64, "vocabulary": 10}, "a length of 64 needs 33"),
    (("induction",), {"length": 200}, "a length of 200 needs 100"),
    (("induction",), {"length": 9}, "`length` is 9; expected an even number"),
    (("text",), {}, "The task text needs path. Give the text file instead of the word text"),
    (("text",), {"path": "absent.txt"}, "There is no file 'absent.txt'"),
]


@pytest.mark.parametrize(("arguments", "options", "message"), BAD)
def test_bad_options_raise_one_sentence(arguments, options, message):
    with pytest.raises(errors.OptionError, match=message) as raised:
        task(*arguments, **options)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b" \n ", "is empty"),
        (b"\x89PNG\r\n\x1a\n\xff", "is not UTF-8 text: byte 0"),
        (b"text\0more", "contains NUL bytes"),
        (b"short", "has 5 characters; a tenth of it must hold"),
    ],
)
def test_files_that_hold_no_text_raise_one_sentence(tmp_path, content, message):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(errors.OptionError, match=message):
        task("text", path=path)

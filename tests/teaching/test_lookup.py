"""The dictionary, hard and soft."""

import json
import math
from typing import Any

import numpy as np
import pytest

from regard import errors
from regard.attention import Attention
from regard.teaching.lookup import KEYS, QUERIES, VALUES, Spelling, lookup, lookup_lesson, pieces

from ..models.conftest import cache, minilm_path  # noqa: F401 - fixtures

PERSON = json.loads(
    """{"first_name": "John", "last_name": "Smith", "is_alive": true, "age": 27,
    "address": {"street": "21 2nd Street", "city": "New York"}, "phone_numbers": [{"type": "home", "number": "212"}]}"""
)
JANE = {
    "Name": "Jane Doe",
    "Address": "37 Coronation street B12 9TK",
    "Date of birth": "May 5th 2000",
    "Place of birth": "Hull",
}
NAMED = ("dot", "scaled dot", "cosine", "negative distance")


# Hard


def test_dictionaries_answer_as_python_does():
    for dictionary in (PERSON, JANE, {"brand": "Ford", "model": "Mustang", "year": 1964}):
        for key, value in dictionary.items():
            assert lookup(dictionary).get(key) is value
            assert lookup(dictionary).hard(key).value is value
        assert lookup(dictionary).get("colour") is None
        assert lookup(dictionary).hard("colour").value is None


def test_leaves_find_nested_values_by_path():
    person = lookup(PERSON).leaves()
    assert person.get("address.city") == "New York"
    assert person.get("phone_numbers.7.number", "none") == "none"
    assert person.hard("phone_numbers.0.number").value == "212"


def test_equal_keys_sum():
    assert lookup(KEYS, VALUES).hard(KEYS[2]).value.tolist() == [-4.4, 8.2, 5.0]


def test_a_hard_miss_is_zero_for_vectors_with_a_note():
    answer = lookup(KEYS, VALUES).hard(QUERIES[0])
    assert answer.value.tolist() == [0, 0, 0] and not answer.found
    assert "No key equals the query." in answer.notes


def test_equal_keys_whose_values_cannot_be_added_give_the_last():
    answer = lookup(["a", "a"], ["first", "second"]).hard("a")
    assert answer.value == "second" and "that of the last one" in answer.notes[0]


def test_numbers_of_equal_keys_sum_and_keep_their_type():
    assert lookup(["a", "b", "a"], [1, 10, 100]).hard("a").value == 101
    assert lookup({"a": 1}).hard("b").value == 0
    assert lookup({"a": 1}).get("b") is None


# Soft


@pytest.mark.parametrize("similarity", NAMED)
@pytest.mark.parametrize("temperature", [0.3, 1.0, 7.0])
def test_soft_is_softmax_of_similarity(similarity, temperature):
    rng = np.random.default_rng(5)
    keys, values, queries = rng.normal(size=(7, 5)), rng.normal(size=(7, 3)), rng.normal(size=(2, 5))
    plain = {
        "dot": lambda q, k: q @ k,
        "scaled dot": lambda q, k: q @ k / math.sqrt(5),
        "cosine": lambda q, k: q @ k / np.linalg.norm(q) / np.linalg.norm(k),
        "negative distance": lambda q, k: -np.linalg.norm(q - k),
    }[similarity]
    found = lookup(keys, values, similarity=similarity, temperature=temperature)
    for query in queries:
        scores = np.array([plain(query, key) for key in keys]) / temperature
        weights = np.exp(scores) / np.exp(scores).sum()
        np.testing.assert_allclose(found.soft(query).weights, weights, rtol=1e-12)
        np.testing.assert_allclose(found.soft(query).value, weights @ values, rtol=1e-11, atol=1e-14)


def test_scaled_dot_is_attention():
    found = lookup(KEYS, VALUES)
    (value,) = Attention(QUERIES[:1], KEYS) @ np.array(VALUES)
    np.testing.assert_array_equal(found.soft(QUERIES[0]).value, value)
    by_distance = lookup(KEYS, VALUES, similarity="negative distance")
    np.testing.assert_array_equal(by_distance.attention(KEYS[0]).dense()[0], by_distance.soft(KEYS[0]).weights)


def test_soft_tends_to_hard_by_distance_with_unique_keys_and_an_equal_key():
    found = lookup(KEYS[:3], VALUES[:3], similarity="negative distance")
    for key in KEYS[:3]:
        gaps = [abs(found.soft(key, t).value - found.hard(key).value).max() for t in (1, 0.3, 0.1, 0.03, 0)]
        assert gaps == sorted(gaps, reverse=True) and gaps[0] > 0.1 and gaps[-1] == 0


@pytest.mark.parametrize("similarity", ["negative distance", "dot", "scaled dot", "cosine"])
@pytest.mark.parametrize("temperature", [0, 5e-324, 1e-300, 1e-30, 1e-9, 1e-3])
def test_equal_keys_share_at_any_low_temperature(similarity, temperature):
    answer = lookup(KEYS, VALUES, similarity=similarity).soft(KEYS[2], temperature)
    np.testing.assert_allclose(answer.value, [-2.2, 4.1, 2.5], rtol=1e-9)
    np.testing.assert_allclose(answer.weights, [0, 0, 0.5, 0.5], atol=1e-9)


def test_a_soft_miss_is_a_weighted_mean():
    answer = lookup(KEYS, VALUES, similarity="negative distance").soft(QUERIES[0])
    assert answer.weights.sum() == pytest.approx(1) and (answer.weights > 0).all()


def test_the_dot_product_may_miss_an_equal_key():
    by_dot, by_distance = (lookup(QUERIES, VALUES, similarity=how) for how in ("dot", "negative distance"))
    assert by_dot.soft(QUERIES[0], 0).weights.tolist() == [0, 0, 0, 1]
    assert by_distance.soft(QUERIES[0], 0).weights.tolist() == [1, 0, 0, 0]


def test_dot_and_distance_find_different_keys():
    assert lookup(KEYS, VALUES, similarity="dot").soft(QUERIES[1], 0).value.tolist() == [-2.2, 4.1, 2.5]
    assert lookup(KEYS, VALUES, similarity="negative distance").soft(QUERIES[1], 0).value.tolist() == [2.3, 1.1, 3.5]


def test_the_lesson_shows_the_limit_and_the_three_exceptions():
    tends, equal, miss, dot, both = lookup_lesson()
    assert tends["from hard"][-2] == 0
    for table, hard, soft in (
        (equal, [-4.4, 8.2, 5.0], [-2.2, 4.1, 2.5]),
        (miss, [0, 0, 0], [-2.2, 4.1, 2.5]),
        (dot, [2.3, 1.1, 3.5], [-2.2, 4.1, 2.5]),
    ):
        assert table["temperature"][-2:] == ("→ 0", "hard")
        assert [value.tolist() for value in table["value"][-2:]] == [soft, hard]
    assert len(both) == 4


# Texts


@pytest.mark.parametrize(
    ("query", "key"),
    [("Date of birth", "Date of birth"), ("birth date", "Date of birth"), ("adress", "Address"), ("NAME", "Name")],
)
def test_spelling_finds_the_key(query, key):
    answer = lookup(JANE).soft(query)
    assert answer.value == JANE[key]
    (best,) = answer.table(most=1).rows
    assert best[:2] == (query, key) and best[2] > 0.9
    assert "cannot be averaged" in answer.notes[0]


def cosine_of_pieces(one, other):
    """The cosine of two counts of pieces, in exact integers up to the roots."""
    one, other = pieces(one), pieces(other)
    common = sum(one[piece] * other[piece] for piece in one)
    return common / math.sqrt(sum(n * n for n in one.values()) * sum(n * n for n in other.values()))


@pytest.mark.parametrize("query", ["birth date", "Date of birth, and of birth", "adress", "the name of a place", "zzz"])
def test_the_similarity_of_spellings_is_the_cosine_of_their_pieces(query):
    spelling = Spelling(JANE)
    assert [float(spelling(key) @ spelling(query)) for key in JANE] == pytest.approx(
        [cosine_of_pieces(key, query) for key in JANE], abs=1e-15
    )


def test_keys_that_share_nothing_get_equal_and_small_weights():
    """Hashed trigrams collided, and a key without a common one had a weight of 0.62."""
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("bcdfgh"), 6)) for _ in range(30)]
    others = ["".join(rng.choice(list("uvwxyz"), 6)) for _ in range(50)]
    asked = lookup(dict.fromkeys(words, 1.0))
    for other in others:
        assert asked.soft(other).weights.tolist() == pytest.approx([1 / 30] * 30)
    weights = lookup(dict.fromkeys([*words, "birth"], 1.0)).soft("births").weights
    assert weights[:-1].max() < 0.01 < 0.9 < weights[-1]


@pytest.mark.parametrize("deep", [102, 900, 100_000])
def test_values_that_are_nested_too_deep_are_refused(deep):
    value: Any = "x"
    for _ in range(deep):
        value = [value]
    with pytest.raises(errors.OptionError, match="nested more than 100"):
        lookup({"a": value})
    del value


def test_a_query_without_a_common_trigram_gives_equal_weights_with_a_note():
    for query in ("", "   ", "🎉", "zzz"):
        answer = lookup(JANE).soft(query)
        assert any("no trigram" in note for note in answer.notes)
        assert answer.weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("query", ["straße", "STRASSE", "ｓｔｒａｓｓｅ"])
def test_letters_are_folded(query):
    assert lookup({"Strasse": 1, "名前": 2}).soft(query, 0).value == 1


def test_any_function_embeds():
    by_length = lookup({"a": [1.0], "bbb": [3.0]}, similarity="negative distance", embed=lambda text: [len(text)])
    assert by_length.soft("xyz", 0).value.tolist() == [3.0]


def test_a_model_finds_meaning(minilm_path):  # noqa: F811
    person = {"name": "Jane Doe", "lives at": "37 Coronation street", "born on": "May 5th 2000", "works as": "pilot"}
    by_meaning = lookup(person, embed="model")
    assert by_meaning.soft("date of birth").value == "May 5th 2000"
    assert by_meaning.soft("where she lives").value == "37 Coronation street"
    assert lookup(person).soft("date of birth").value != "May 5th 2000"  # spelling alone does not find it


# Answers


def test_the_table_has_query_key_and_probability():
    table = lookup(JANE).soft("birth date").table(most=2)
    assert [column.name for column in table.columns] == ["query", "key", "probability"]
    assert table["query"] == ("birth date", "birth date")
    assert list(table["probability"][:2]) == sorted(table["probability"][:2], reverse=True)
    assert "'May 5th 2000'" in table.notes[0]


def test_the_table_of_vectors_shows_the_weighted_mean():
    answer = lookup(KEYS, VALUES).soft(KEYS[2], 0)
    assert answer.table().notes[0] == "value: [−2.20 4.10 2.50]"
    assert [column.kind for column in answer.table().columns] == ["vector", "vector", "number"]
    assert "<table" in answer._repr_html_()


def test_numbers_are_keys_too():
    found = lookup([1, 2, 5], [10, 20, 50], similarity="negative distance")
    assert found.hard(2).value == 20 and found.soft(4, 0).value == 50


def test_values_of_more_axes_are_averaged():
    values = np.arange(12.0).reshape(3, 2, 2)
    assert lookup(np.eye(3), values).soft([0, 1, 0], 1e-3).value.tolist() == values[1].tolist()


def test_torch_tensors_are_accepted():
    torch = pytest.importorskip("torch")
    found = lookup(torch.tensor(KEYS, dtype=torch.float64), torch.tensor(VALUES, dtype=torch.float64))
    np.testing.assert_array_equal(found.soft(QUERIES[0]).value, lookup(KEYS, VALUES).soft(QUERIES[0]).value)


# What makes no sense


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: lookup([[1, 2], [3]], ["a", "b"]), "unequal length"),
        (lambda: lookup([[1, 2], [3, 4]], [[1], [2, 3]]), "unequal length"),
        (lambda: lookup([[1, 2]], ["a", "b"]), "2 values for 1 key"),
        (lambda: lookup([[math.nan, 2]], ["a"]), "finite"),
        (lambda: lookup(KEYS, VALUES).soft([1, math.inf, 0]), "finite"),
        (lambda: lookup(KEYS, VALUES).soft([1, 2]), "2 components, `keys` have 3"),
        (lambda: lookup(KEYS, VALUES).soft("cat"), "expected numbers"),
        (lambda: lookup(JANE).soft(3), "expected a text"),
        (lambda: lookup({None: 1, "a": 2}).soft("a"), "embed=function"),
        (lambda: lookup(KEYS), "expected a dictionary"),
        (lambda: lookup("text", "text"), "expected a dictionary"),
        (lambda: lookup({}).soft("a"), "at least one key"),
        (lambda: lookup(JANE, similarity="cosin"), "Did you mean 'cosine'"),  # type: ignore[arg-type]
        (lambda: lookup(JANE, embed="speling"), "Did you mean 'spelling'"),
        (lambda: lookup(JANE, temperature=-1), "at least 0"),
        (lambda: lookup(JANE).soft("a", math.nan), "at least 0"),
        (lambda: lookup(KEYS, VALUES).soft(QUERIES), r"the shape \(4, 3\), `keys` have 3"),
    ],
)
def test_invalid_arguments_are_explained(make, says):
    with pytest.raises(errors.RegardError, match=says):
        make()


def test_lists_of_unequal_length_in_json_are_not_vectors():
    assert lookup({"odd": [1, 3, 5], "even": [2, 4]}).soft("even").value == [2, 4]

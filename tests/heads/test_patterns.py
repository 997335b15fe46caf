"""Patterns are found in heads that were built to have them, and not in random ones."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from regard.heads.documents import documents_of
from regard.heads.patterns import NONE, PATTERNS, describe_labels, labels
from regard.heads.profile import profile_texts
from regard.heads.statistics import NAMES, measure, repetition
from regard.heads.sums import FIELDS, Sums
from regard.models.model import model

from .planted import PLANTED, bidirectional, causal, random_weights


def documents(model, count=20, length=40, seed=3):
    """Random words, some twice in a text, and words of two pieces: token 2k begins a word that 2k + 1 continues."""
    generator = np.random.default_rng(seed)
    found = []
    template = documents_of(model, ["keys"])[0]
    start = int(np.flatnonzero(~template.special)[0])
    for _ in range(count):
        drawn = generator.choice(np.arange(10, 60, 2), size=length // 2 - 2, replace=False)
        pairs = [(token, token + 1) if generator.random() < 0.5 else (token,) for token in drawn]
        pairs += [pairs[0][:1], pairs[3][:1]]  # repeated tokens
        ids = [number for pair in pairs for number in pair]
        joined = [place > 0 for pair in pairs for place in range(len(pair))]
        before, after = template.ids[:start].tolist(), template.ids[start + 1 :].tolist()
        special = [True] * len(before) + [False] * len(ids) + [True] * len(after)
        found.append(
            replace(
                template,
                ids=np.array([*before, *ids, *after]),
                special=np.array(special),
                joined=np.array([False] * len(before) + joined + [False] * len(after)),
                pieces=("x",) * len(special),
            )
        )
    return found


def found_in(model):
    return labels(measure(model, documents(model)) + repetition(model, sequences=6, period=25))


def confusion(tmp_path, noise=0.0, seed=0):
    """Planted pattern → labels found, over the planted models; docs/how-to/heads.md shows it for several seeds."""
    table: dict[str, Any] = {}
    both = found_in(bidirectional(tmp_path / "b", noise, seed))
    table |= {name: {label.pattern for label in both[0][head]} for head, name in enumerate(PLANTED)}
    of_causal = found_in(causal(tmp_path / "c", noise, seed))
    table["induction"] = {label.pattern for label in of_causal[1][0]}
    table["previous token, causal"] = {label.pattern for label in of_causal[0][0]}
    return table


def test_each_planted_pattern_is_found_and_no_other(tmp_path):
    table = confusion(tmp_path)
    assert {name for name in table if "," not in name} == {pattern.name for pattern in PATTERNS}
    for name, found in table.items():
        expected = {name.split(",")[0]}
        if name == "same word":  # it compares words, so it finds the same word elsewhere too
            expected.add("duplicate token")
        if name == "induction":  # where nothing repeats, it has nothing to find
            expected.add("broad")
        assert found == expected, f"planted {name}, found {found}"


def test_each_planted_pattern_is_found_among_random_scores(tmp_path):
    for name, found in confusion(tmp_path, noise=0.5, seed=1).items():  # a match scores 6 nats
        assert name.split(",")[0] in found, f"planted {name}, found {found}"
        assert len(found) <= 2


@pytest.mark.slow
def test_a_model_trained_on_induction_has_previous_token_heads_and_then_induction_heads(tmp_path):
    pytest.importorskip("torch")
    from regard.training import preset, task, train

    one = task("induction")
    before = preset(one).network(one)
    train(before, one, replace(preset(one).recipe, steps=1500), out=tmp_path)
    trained = model(str(tmp_path))
    generator = np.random.default_rng(4)
    # As long as the first half of a sequence: where tokens repeat, training never needs their predecessors.
    texts = [" ".join(generator.permutation(one.words)[:24]) for _ in range(10)]
    found = {
        name: [{label.pattern for head in layer for label in head} for layer in profile_texts(reader, texts).labels]
        for name, reader in (("trained", trained), ("untrained", replace(trained, transformer=before)))
    }
    assert "previous token" in found["trained"][0] and "induction" not in found["trained"][0]
    assert "induction" in found["trained"][1]
    assert not {"previous token", "induction"} & set().union(*found["untrained"])


@pytest.mark.parametrize("kind", ["bert", "causal"])
def test_random_heads_show_no_pattern(tmp_path, kind):
    for seed in range(3):
        heads = found_in(random_weights(tmp_path / f"{seed}", seed, kind))[0]
        assert [describe_labels(head) for head in heads] == [NONE] * len(heads)


def sums_with(**means):
    numbers = np.zeros((len(NAMES), len(FIELDS), 1, 1))
    for name, mean in means.items():
        numbers[NAMES.index(name.replace("_", " ")), 1], numbers[NAMES.index(name.replace("_", " ")), 3] = 1, mean
    return Sums.of(NAMES, numbers)


def test_a_head_may_have_several_labels_and_sinks_come_last():
    found = labels(sums_with(previous_of_the_rest=0.7, induction=0.8, first=0.6, separators=0.1))[0][0]
    assert describe_labels(found) == "induction 0.80, previous token 0.70, first-token sink 0.60"


def test_a_head_with_almost_all_weight_on_sinks_is_nothing_but_a_sink():
    assert describe_labels(labels(sums_with(previous_of_the_rest=0.9, first=0.95))[0][0]) == "first-token sink 0.95"


def test_a_model_with_few_tokens_or_positions_has_no_induction_score(tmp_path):
    planted = causal(tmp_path)
    for changed in (replace(planted, longest=3), replace(planted, longest=1)):
        assert np.isnan(repetition(changed).mean("induction")).all()
    assert np.isfinite(repetition(planted, period=10**6).mean("induction")).all()  # more than the vocabulary has


def test_a_statistic_that_could_not_be_counted_gives_no_label():
    assert describe_labels(labels(sums_with())[0][0]) == NONE

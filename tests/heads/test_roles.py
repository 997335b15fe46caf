"""What is known of heads: shipped with the package, and never given to another model."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from regard.errors import OptionError
from regard.heads import known, roles
from regard.heads.ablation_effects import silenced
from regard.heads.treebank_relations import Interval, Score, predictions, scores, scores_by_head
from regard.layers import Linear
from regard.models.model import opened
from regard.tables import printed_number


@pytest.fixture(scope="module")
def minilm(minilm_path):
    return opened(minilm_path, "minilm")


def test_the_shipped_atlas_is_small_and_names_every_head():
    for name in roles.SHIPPED:
        found = roles.shipped(name)
        assert found.model == name
        assert "CC BY-SA 4.0" in found.source
        assert len(found.labels) == found.layers
        assert all(found.said(layer, head) for layer in range(found.layers) for head in range(found.heads))
        size = len(json.dumps([role._asdict() for role in found.best]))
        assert size < 100_000


def test_a_named_head_beats_the_fixed_offset_and_the_untrained_model():
    for name in roles.SHIPPED:
        for role in roles.shipped(name).roles:
            assert role.accuracy >= roles.LEAST
            assert role.words >= roles.FEWEST
            assert role.low > (role.untrained or 0)
            assert role.accuracy - role.offset_accuracy >= roles.MORE - 0.002  # of rounded numbers


def test_a_model_is_recognised_by_its_weights_and_not_by_its_name(minilm):
    found = known(minilm)
    assert found is not None
    assert known(replace(minilm, name="something else")) is found
    assert known(minilm.read("The cat sat")) is found
    assert known(minilm.read("The cat sat", layers=2)) is found


def test_another_model_never_gets_the_labels_of_minilm(minilm, tiny):
    assert known(tiny) is None
    assert known(silenced(minilm, [(5, 11)])) is None  # one head of the last layer
    block = minilm.blocks[3]
    weight = np.array(block.attention.w_q.weight)
    weight *= np.float32(1.001)
    changed = replace(block, attention=replace(block.attention, w_q=Linear(weight, block.attention.w_q.bias)))
    blocks = (*minilm.blocks[:3], changed, *minilm.blocks[4:])
    assert known(replace(minilm, transformer=replace(minilm.transformer, encoders=blocks))) is None
    assert known("something else") is None


def test_a_head_is_found_by_what_people_ask():
    found = known("minilm")
    assert found is not None
    of_clause, of_owner, of_object = (found.head_for(name) for name in ("who does what", "Whose", "object"))
    assert of_clause is not None and of_clause.relation == "object"
    assert of_owner is not None and of_owner.group == "whose"
    assert of_object is not None and of_object[3:5] == (2, 0)
    assert found.head_for("what refers to what") is None
    assert "No head of minilm does this" in found.nothing_for("what refers to what")
    with pytest.raises(OptionError, match="Ask for who does what, whose, where"):
        found.head_for("nonsense")


@pytest.mark.parametrize(
    ("name", "same"),
    [("possession", "whose"), ("Subject-verb-object", "who does what"), ("space", "where"), ("nmod:poss", "possessor"),
     ("obj", "object")],
)  # fmt: skip
def test_other_names_mean_the_same_head(name, same):
    known = roles.known("smollm2")
    assert known is not None
    assert known.head_for(name) == known.head_for(same) is not None


def test_roles_say_which_word_attends_to_which():
    to_head = roles.Role("object", "who does what", "to head", 2, 0, 0.7, 0.6, 0.8, -2, 0.3, None, 1234, 0.4, True)
    assert str(to_head) == "object → verb 0.70 of 1,234 (best fixed offset 0.30)"
    assert to_head._replace(direction="to dependent").arrow == "verb → object"
    assert to_head._replace(relation="nmod:npmod").arrow == "nmod:npmod → head word"


def test_what_each_head_finds_agrees_with_the_best_head_of_each_relation(minilm, small):
    choose, score = (predictions(minilm, one) for one in small)
    found = scores(choose, score)
    by_head = scores_by_head(choose, score, found)
    assert by_head
    for one in by_head:
        assert one.gain.low > 0
        assert one.choosing_gain > 0
    named = {(one.relation, one.direction, one.layer, one.head): one for one in by_head}
    for best in found:
        key = best.relation, best.direction, best.layer, best.head
        if best.beats_offset and best.choosing_gain > 0:
            assert named[key].accuracy.value == best.accuracy.value
            assert named[key].gain == best.gain
        else:
            assert key not in named


def test_a_head_that_an_untrained_model_equals_is_not_named():
    share = Interval(0.6, 0.55, 0.65)
    one = Score("list", "grammar", "to head", 0, 3, share, 1, Interval(0.4, 0.3, 0.5), Interval(0.63, 0.6, 0.7),
                Interval(0.2, 0.1, 0.3), 114, 1.0, 0.6, 0.2)  # fmt: skip
    assert one.beats_offset
    assert not one.is_named
    assert one._replace(untrained=None).is_named


def test_what_is_shipped_prints_as_the_documentation_does():
    page = (Path(__file__).parents[2] / "docs/how-to/heads.md").read_text(encoding="utf-8")
    for name in roles.SHIPPED:
        section = page.split(f"### `{name}`")[1].split("\n#")[0]
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if "–" in line]
        shown = {(role.relation, role.direction.removeprefix("to ")): role for role in roles.shipped(name).best}
        table = [row for row in rows if len(row) >= 9 and (row[1], row[2]) in shown]
        assert len(table) > 20
        for _, relation, direction, _, accuracy, interval, offset, untrained, words, *_ in table:
            role = shown[relation, direction]
            printed = [printed_number(number, 2) for number in (role.accuracy, role.offset_accuracy, role.untrained)]
            assert printed == [accuracy, offset.split()[0], untrained], relation
            assert "–".join(printed_number(number, 2) for number in (role.low, role.high)) == interval, relation
            assert f"{role.words:,}" == words

"""Recipes measure what plain reruns measure, and their tables state baseline, edit and number of prompts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from regard import errors
from regard.attribution import prompts, recipes
from regard.attribution.prompts import Prompt
from regard.attribution.recipes import answer_question, patching, sentence_vector, sinks
from regard.layers import Linear
from regard.models.model import Model

from ..small_models import encoder, writer

KIDS = "the kids were scared of the lions , so they left"
PROMPTS = [
    Prompt("the kids were scared of the", "lions", "kids"),
    Prompt("once upon a time there was a", "king", "dog"),
    Prompt("the cat sat on the", "mat", "table"),
]


def without(model: Model, heads: list[tuple[int, int]]) -> Model:
    """Zeroed columns of W_O: an implementation of silence that shares nothing with `regard.edits`."""
    blocks = list(model.transformer.encoders)
    for layer, head in heads:
        attention = blocks[layer].attention
        assert attention.w_o is not None
        weight = attention.w_o.weight.copy()
        size = weight.shape[1] // attention.heads
        weight[:, head * size : (head + 1) * size] = 0
        blocks[layer] = replace(blocks[layer], attention=replace(attention, w_o=Linear(weight, attention.w_o.bias)))
    return replace(model, transformer=replace(model.transformer, encoders=tuple(blocks)))


def differences(model: Model) -> np.ndarray:
    found = []
    for text, answer, other in PROMPTS:
        logits = model.next_logits(model.read(text).states[-1][-1:])[0].astype(np.float64)
        ids = [model.tokeniser.encode(f" {word}", special=False).ids[0] for word in (answer, other)]
        found.append(logits[ids[0]] - logits[ids[1]])
    return np.array(found)


def test_effects_control_and_notes_equal_plain_reruns(monkeypatch: pytest.MonkeyPatch) -> None:
    question = recipes.Question("Which heads?", lambda _reader, _count, _seed: PROMPTS, "one word − another")
    monkeypatch.setitem(recipes.QUESTIONS, "planted", question)
    model = writer()
    study = answer_question(model, "planted", 3)
    baseline = differences(model)
    expected = [
        [(differences(without(model, [(layer, head)])) - baseline).mean() for head in range(4)] for layer in range(3)
    ]
    np.testing.assert_allclose(study.effects, expected, atol=3e-4)  # differences of float32 logits of the order of 100
    together = differences(without(model, list(study.control.heads))) - baseline
    assert study.control.together.effect == pytest.approx(together.mean(), abs=3e-4)
    top = sorted(np.abs(expected).ravel())[-recipes.TOP :]
    assert min(abs(study.effects[head]) for head in study.control.heads) == pytest.approx(top[0], abs=3e-4)
    notes = " ".join(study.notes)
    assert f"baseline {baseline.mean():.2f}, the mean over 3 prompts" in notes and "set to zero" in notes
    table = study.table()
    assert len(table) == 12 and all(low <= effect <= high for _, effect, low, high, *_ in table.rows)
    assert study.direct is not None and study.direct.shape == (3, 4)


def test_some_heads_are_chosen_by_estimate_and_as_many_at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    question = recipes.Question("Which heads?", lambda _reader, _count, _seed: PROMPTS, "one word − another")
    monkeypatch.setitem(recipes.QUESTIONS, "planted", question)
    study, whole = (answer_question(writer(), "planted", 3, heads=heads) for heads in (6, None))
    assert len(study.heads) == 6 and len(study.chosen_at_random) == 3
    estimate = whole.estimate
    assert estimate is not None
    estimated = set(study.heads) - set(study.chosen_at_random)
    largest = sorted(whole.heads, key=lambda head: -abs(estimate[head]))[:3]
    assert estimated == set(largest)
    assert np.isnan(study.effects).sum() == 6
    for head in study.heads:
        assert study.effects[head] == pytest.approx(whole.effects[head], abs=3e-4)
    assert "3 others at random" in " ".join(study.notes)


def test_a_blocked_edge_moves_the_vector_where_it_has_weight() -> None:
    model = encoder()
    weights = np.stack([attention.dense() for attention, _ in model.read(KIDS).seen])  # (layer, head, query, key)
    labels = [word.text for word in model.read(KIDS).words]
    once = [place for place, word in enumerate(labels) if labels.count(word) == 1 and word.isalpha()]
    best = max(
        ((query, key) for query in once for key in once if query != key), key=lambda pair: weights[0, :, *pair].max()
    )
    study = sentence_vector(model, KIDS, labels[best[0]], labels[best[1]])
    assert study.effects.shape == (2, 4) and study.names[-1] == "all heads"
    assert study.effects[0].argmax() == weights[0, :, *best].argmax() and study.effects[0].max() > 1e-6
    assert (study.effects[weights[:, :, *best] < 1e-9] < 1e-9).all()
    assert "1 prompt" in study.notes[0] and "Control" in study.notes[2]
    with pytest.raises(errors.RegardError, match="trophy"):
        sentence_vector(model, KIDS, "they", "trophy")


def test_cutting_off_the_first_token_counts_layers_and_ways() -> None:
    study = sinks(writer(), [KIDS, "the cat sat on the mat"])
    assert study.effects.shape == (3, 2) and len(study.names) == 8
    assert study.names[-1] == "all layers, zeroed"
    assert "loss of the next token" in study.notes[0] and "2 texts" in study.notes[0]
    assert not np.allclose(study.effects[:, 0], study.effects[:, 1])  # the two ways differ
    assert sinks(encoder(), [KIDS]).effects.shape == (2, 2)


def test_patching_everything_before_the_first_layer_gives_the_other_text() -> None:
    """The embedding of the only token that differs: patched there, the model computes the other text."""
    model, text, other = writer(), "the kids were scared of the", "the cat were scared of the"
    study = patching(model, text, other, "lions", "dog")
    ends = []
    for one in (text, other):
        logits = model.next_logits(model.read(one).states[-1][-1:])[0].astype(np.float64)
        lions, dog = (model.tokeniser.encode(f" {word}", special=False).ids[0] for word in ("lions", "dog"))
        ends.append(logits[lions] - logits[dog])
    place = study.columns.index("kids")
    assert study.effects.shape == (3, len(study.columns)) and study.along == "token"
    assert study.effects[0, place] == pytest.approx(ends[1] - ends[0], abs=3e-4)
    assert np.abs(np.delete(study.effects[0], place)).max() < 3e-4
    assert np.abs(study.effects[2]).max() > 1e-3  # later, what was at one token is at others


def test_an_unknown_question_is_refused() -> None:
    with pytest.raises(errors.OptionError, match="induction"):
        answer_question(writer(), "inductions")


@pytest.mark.slow
def test_smollm2_knows_the_indirect_object_and_a_few_heads_carry_it() -> None:
    from regard.edits import logit_difference, silence
    from regard.edits.effects import measure_effects
    from regard.models.model import model

    smollm2 = model("smollm2")
    chosen = prompts.indirect_objects(smollm2, 10)
    texts, answers, others = ([*column] for column in zip(*chosen, strict=True))
    metric = logit_difference(answers, others)
    study = measure_effects(smollm2, texts, [silence((23, 3)), silence((26, 3)), silence((20, 6))], on=metric)
    assert (study.baseline > 0).mean() >= 0.9
    assert abs(study.effects[0].effect) > 3 * max(abs(effect.effect) for effect in study.effects[1:])

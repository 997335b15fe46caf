"""The previous-token head feeds the induction head in trained toy models: patching it removes induction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import regard
from regard import _core, errors
from regard.attribution.induction import AT_TOKEN, ELSEWHERE, PATCHED, SILENCED, InductionCircuit, induction_circuit
from regard.attribution.prompts import repeated_words

from ..small_models import writer

torch = pytest.importorskip("torch")

from regard.training import preset, task, train  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As `regard train` does for small steps."""
    counts = torch.get_num_threads(), _core.threads()
    torch.set_num_threads(1)
    _core.set_threads(1)
    yield
    torch.set_num_threads(counts[0])
    _core.set_threads(counts[1])


def check(circuit: InductionCircuit) -> None:
    right = {name: group.right.edited for name, group in circuit.groups.items()}
    assert circuit.right >= 0.95
    for changed in (PATCHED, AT_TOKEN, SILENCED, "induction heads patched", "induction heads silenced"):
        assert right[changed] <= 0.25, changed
        high = circuit.groups[changed].difference.high
        assert high is not None and high < -1
    assert right[ELSEWHERE] >= 0.9  # the same heads at all other tokens
    assert circuit.restored >= 0.9  # in corrupted texts, with these heads of the whole ones


@pytest.mark.slow
def test_patching_the_previous_token_head_removes_induction(tmp_path: Path) -> None:
    one = task("induction", length=24, vocabulary=24)
    recipe = replace(preset(one).recipe, steps=600, batch=16, record_every=600)
    train(preset(one).network(one, heads=1, width=32, hidden=32), one, recipe, out=tmp_path)
    circuit = induction_circuit(regard.model(tmp_path), 30)
    assert circuit.previous == ((0, 0),) and circuit.lookup == ((1, 0),)
    check(circuit)
    notes = " ".join(circuit.notes)
    assert "30 prompts" in notes and "corrupted text" in notes and "baseline" in notes
    assert [row[0] for row in circuit.table().rows][:2] == ["nothing", PATCHED]


@pytest.mark.slow
@pytest.mark.parametrize("heads", [1, 8])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_patching_the_previous_token_heads_of_the_preset_removes_induction(
    heads: int, seed: int, tmp_path: Path
) -> None:
    one = task("induction")
    train(preset(one).network(one, heads=heads, seed=seed), one, replace(preset(one).recipe, seed=seed), out=tmp_path)
    check(induction_circuit(regard.model(tmp_path), 100))


def test_the_corrupted_text_differs_in_the_word_that_is_looked_up() -> None:
    for one in repeated_words(writer(), 5):
        words, corrupted = one.text.split(), one.corrupted.split()
        assert [place for place, pair in enumerate(zip(words, corrupted, strict=True)) if pair[0] != pair[1]] == [
            one.at
        ]
        assert words[one.at] == words[-1] and corrupted[one.at] not in words
        assert words[one.at + 1] == one.answer.strip()


def test_a_model_without_such_heads_is_refused() -> None:
    with pytest.raises(errors.Unsupported, match="No induction head"):
        induction_circuit(writer(), 5)

"""Training: deterministic, resumable to the same bits, and stopped cleanly by bad input, divergence and full disks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import regard
from regard import _core, codec, errors

torch = pytest.importorskip("torch")

from regard.training import (  # noqa: E402
    Diverged,
    Recipe,
    Record,
    checkpoint,
    limit_threads,
    network,
    preset,
    task,
    train,
)
from regard.training.measurement import new_record  # noqa: E402

SMALL: dict[str, Any] = {"layers": 1, "heads": 2, "width": 8}
FILES = (
    ".lock", "config.json", "model.safetensors", "record.safetensors", "run.safetensors", "tokenizer.json",
    "tokenizer_config.json",
)  # fmt: skip


def small(seed: int = 0) -> tuple[Any, Any]:
    one = task("lookup", pairs=4, vocabulary=16)
    return network(one.vocabulary, length=one.length, seed=seed, **SMALL), one


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_the_same_seed_gives_the_same_bits_and_another_seed_others(tmp_path):
    for name, seed in (("one", 1), ("again", 1), ("other", 2)):
        train(*small(seed), steps=8, batch=4, seed=seed, out=tmp_path / name)
    assert contents(tmp_path / "one") == contents(tmp_path / "again")
    assert contents(tmp_path / "one")["model.safetensors"] != contents(tmp_path / "other")["model.safetensors"]
    assert tuple(contents(tmp_path / "one")) == FILES


def stop_at(*steps: int) -> Any:
    def on_step(progress: Any) -> None:
        if progress.step in steps:
            raise KeyboardInterrupt

    return on_step


def test_an_interrupted_run_ends_with_the_bits_of_an_uninterrupted_one(tmp_path):
    options: dict[str, Any] = {"steps": 20, "batch": 4, "save_every": 3, "record_every": 4, "curriculum": 0.02}
    whole = train(*small(), out=tmp_path / "whole", **options)
    for step in (1, 3, 7, 11, 16, 19):
        with pytest.raises(KeyboardInterrupt):
            train(*small(), out=tmp_path / "parts", on_step=stop_at(step), **options)
    parts = train(*small(), out=tmp_path / "parts", **options)
    assert contents(tmp_path / "whole") == contents(tmp_path / "parts")
    assert [one.step for one in parts.record.snapshots] == [0, 4, 8, 12, 16, 20]
    again = train(*small(), out=tmp_path / "parts", **options)  # nothing is left to do
    assert contents(tmp_path / "whole") == contents(tmp_path / "parts")
    for name, array in whole.model.parameters().items():
        assert np.array_equal(array, again.model.parameters()[name])


PROGRAM = """
import sys
from regard.training import network, task, train
one = task("lookup", pairs=4, vocabulary=16)
model = network(one.vocabulary, length=one.length, layers=1, heads=2, width=8)
def on_step(progress):
    print(progress.step, flush=True)
train(model, one, steps={steps}, batch=4, save_every=2, record_every=5, out=sys.argv[1], on_step=on_step)
"""


def killed_often(folder: Path, kills: int, steps: int) -> None:
    """Run the program, kill it at `kills` random moments, each after at least one new checkpoint, and finish it."""
    rng, reached = np.random.default_rng(7), 0
    for _ in range(kills):
        last = min(steps - 1, reached + int(rng.integers(2, 2 + 2 * (steps - reached) // max(1, kills))))
        with subprocess.Popen(
            [sys.executable, "-c", PROGRAM.format(steps=steps), str(folder)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if int(line) >= last:
                    os.kill(process.pid, signal.SIGKILL)
                    break
        reached = last
    subprocess.run([sys.executable, "-c", PROGRAM.format(steps=steps), str(folder)], check=True, capture_output=True)


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_a_run_that_is_killed_ends_with_the_bits_of_an_uninterrupted_one(tmp_path, kills):
    steps = 10 * kills
    train(*small(), steps=steps, batch=4, save_every=2, record_every=5, out=tmp_path / "whole")
    killed_often(tmp_path / "killed", kills, steps)
    assert contents(tmp_path / "whole") == contents(tmp_path / "killed")


def test_accumulated_parts_give_the_gradients_of_the_whole_batch():
    one = task("relations")  # passages have unequal numbers of relations
    found = []
    for accumulate in (1, 4):
        model = network(one.vocabulary, length=one.length, **SMALL)
        found.append(train(model, one, steps=2, batch=8, accumulate=accumulate).model.parameters())
    for name in found[0]:
        if name.endswith("w_k.bias"):  # the softmax does not depend on it: its gradient is rounding alone
            continue
        assert_allclose(found[0][name], found[1][name], atol=2e-5, err_msg=name)


def test_a_curriculum_raises_the_level_when_recent_batches_are_right(monkeypatch):
    one, levels = task("lookup", pairs=16), []
    batch = type(one).batch

    def spied(self: Any, *arguments: Any, **options: Any) -> Any:
        levels.append(options.get("level"))
        return batch(self, *arguments, **options)

    monkeypatch.setattr(type(one), "batch", spied)
    model = network(one.vocabulary, length=one.length, **SMALL)
    train(model, one, steps=8, batch=2, curriculum=-1.0, record_every=8)
    asked = [level for level in levels if level is not None]
    assert asked[0] == one.levels[0] < 1 and asked[-1] == 1.0 and asked == sorted(asked)
    levels.clear()
    train(model, one, steps=2, batch=2, curriculum=None, record_every=2)
    assert {level for level in levels if level is not None} == {1.0}


def test_the_trained_model_is_a_model_like_any_other(tmp_path):
    transformers = pytest.importorskip("transformers")
    one = task("relations")
    trained = train(None, one, steps=2, batch=4, out=tmp_path)
    text = "Keys on the table belong to Sarah. They left."
    tokens = one.encode(text)
    read = regard.model(tmp_path)
    assert read.tokeniser.encode(text).ids == tokens
    assert [token.text for token in read.read(text).tokens][-4:] == [".", "They", "left", "."]
    expected = trained.model(tokens)
    assert_allclose(read.transformer(tokens), expected, atol=1e-6)
    theirs = transformers.GPT2LMHeadModel.from_pretrained(tmp_path, attn_implementation="eager").eval()
    with torch.no_grad():
        assert_allclose(theirs(torch.tensor([tokens])).logits[0].numpy(), expected, atol=2e-6)


def test_a_text_model_reads_every_character(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("to be, or not\nto be: that is the question.\n" * 40)
    one = task("text", path=file, length=16)
    train(preset(one).network(one, layers=1, heads=2, width=8), one, steps=1, batch=2, out=tmp_path / "run")
    assert regard.model(tmp_path / "run").tokeniser.encode("not\nto").ids == one.encode("not\nto")


def test_learning_makes_the_loss_fall_and_is_recorded(tmp_path):
    one = task("copy", length=6, vocabulary=6)
    model = network(one.vocabulary, length=one.length, layers=2, heads=2, width=16)
    trained = train(model, one, steps=150, batch=16, rate=5e-3, record_every=50, out=tmp_path)
    first, last = trained.record.snapshots[0], trained.record.snapshots[-1]
    assert last.test_loss < 0.5 * first.test_loss and last.accuracy > first.accuracy
    assert last.attention_accuracy > 0.9
    loaded = Record.load(tmp_path)
    assert str(loaded.table()) == str(trained.record.table())
    assert [str(one) for one in loaded.snapshots] == [str(one) for one in trained.record.snapshots]
    weights = loaded.snapshots[-1].weights / 255  # (probe, layer, head, query, key)
    assert weights.shape == (2, 2, 2, 6, 6)
    assert_allclose(weights.sum(axis=-1), 1, atol=6 * 0.5 / 255 + 1e-9)


def test_the_attention_of_given_sentences_is_recorded():
    one = task("relations")
    sentences = ["The kids chased the lions.", "Sarah met the kids on Monday."]
    trained = train(None, one, steps=1, batch=2, sentences=sentences)
    assert trained.record.probe_words(0) == ["the", "kids", "chased", "the", "lions", "."]
    assert trained.record.probe_words(1) == ["sarah", "met", "the", "kids", "on", "monday", "."]
    with pytest.raises(errors.OptionError, match="`text` contains 'zebras', which is not in the vocabulary"):
        train(None, one, steps=1, sentences=["The zebras left."])


def test_recorded_sequences_have_no_padding():
    one = task("relations")
    record = new_record(one, seed=0)
    for probe in range(len(record.probes)):
        assert record.probe_words(probe)[-1] == "." and "_" not in record.probe_words(probe)


def test_divergence_stops_with_a_sentence_and_keeps_the_last_checkpoint(tmp_path):
    model, one = small()
    options: dict[str, Any] = {"steps": 60, "batch": 4, "save_every": 1, "clip": None, "warmup": 1}
    with pytest.raises(Diverged, match=r"diverged at step \d+: .*keeps the last good checkpoint.*`rate` below"):
        train(model, one, rate=1e18, out=tmp_path, **options)
    tensors, metadata = load(tmp_path)
    assert metadata["state"]["step"] >= 1
    assert all(np.isfinite(array).all() for name, array in tensors.items() if name.startswith("model."))


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    model, one = small()
    train(model, one, steps=2, batch=4, out=tmp_path)
    before = contents(tmp_path)
    for changes, message in (
        ({"steps": 3}, "is of a run with steps 2, not 3"),
        ({"rate": 0.5}, "is of a run with rate 0.001, not 0.5"),
        ({"seed": 3}, "is of a run with seed 0, not 3"),
    ):
        with pytest.raises(errors.OptionError, match=message):
            train(model, one, **{"steps": 2, "batch": 4, "out": tmp_path, **changes})
    wider = network(one.vocabulary, length=one.length, layers=1, heads=2, width=16)
    with pytest.raises(errors.OptionError, match="another shape of model"):
        train(wider, one, steps=2, batch=4, out=tmp_path)
    other = task("lookup", pairs=4, vocabulary=18)
    with pytest.raises(errors.OptionError, match="is of a run with other data"):
        train(network(18, length=other.length, **SMALL), other, steps=2, batch=4, out=tmp_path)
    assert contents(tmp_path) == before


def load(folder: Path) -> Any:
    return codec.load(folder / checkpoint.RUN, checkpoint.KIND, version=checkpoint.VERSION, sealed=True)


def save(folder: Path, tensors: Any, metadata: Any, **options: Any) -> None:
    content = {key: metadata[key] for key in ("state", "settings")}
    options = {"version": checkpoint.VERSION, "sealed": True, **options}
    codec.save(folder / checkpoint.RUN, tensors, content, kind=checkpoint.KIND, **options)


DAMAGES = {
    "cut": "not a valid safetensors file",
    "newer": "version 99, this Regard reads 2",
    "older": "it is of an older format: version 1, this Regard reads 2",
    "other": "no metadata",
    "broadcast": r"its tensor 'model.*' is float32 \(1, 1\), expected float32 \(\d+, \d+\)",
    "type": "its tensor 'model.*' is float64 .*, expected float32",
    "missing": "its tensor 'exp_avg.*' is no such tensor, expected float32",
    "extra": r"its tensor 'more' is float64 \(1,\), expected no such tensor",
    "step": "its state is invalid",
    "level": "its state is invalid",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_refused_in_one_sentence(tmp_path, damage):
    model, one = small()
    train(model, one, steps=2, batch=4, out=tmp_path)
    path = tmp_path / "run.safetensors"
    tensors, metadata = load(tmp_path)
    matrix = next(name for name, array in tensors.items() if name.startswith("model.") and array.ndim == 2)
    moment = next(name for name in tensors if name.startswith("exp_avg."))
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    elif damage == "other":
        path.write_bytes((tmp_path / "model.safetensors").read_bytes())
    elif damage in ("newer", "older"):
        save(tmp_path, tensors, metadata, version=99 if damage == "newer" else 1)
    elif damage in ("step", "level"):
        save(tmp_path, tensors, {**metadata, "state": {**metadata["state"], damage: 99}})
    else:
        changed = {
            "broadcast": {**tensors, matrix: tensors[matrix][:1, :1]},
            "type": {**tensors, matrix: tensors[matrix].astype(np.float64)},
            "missing": {name: array for name, array in tensors.items() if name != moment},
            "extra": {**tensors, "more": np.zeros(1)},
        }
        save(tmp_path, changed[damage], metadata)
    with pytest.raises(errors.OptionError, match=DAMAGES[damage]) as raised:
        train(model, one, steps=2, batch=4, out=tmp_path)
    assert "run.safetensors" in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["run.safetensors", "record.safetensors"])
def test_a_flipped_bit_in_a_checkpoint_or_record_is_refused_or_changes_nothing(tmp_path, name):
    options: dict[str, Any] = {"steps": 2, "batch": 4, "out": tmp_path}
    train(*small(), **options)
    before, content = contents(tmp_path), (tmp_path / name).read_bytes()
    for place in range(0, len(content), len(content) // 60):
        (tmp_path / name).write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        message = name
        try:
            train(*small(), **options)  # nothing is left to do but to write what was read
        except errors.OptionError as problem:
            message = str(problem)
        assert name in message and "\n" not in message
        (tmp_path / name).write_bytes(content)
        assert contents(tmp_path) == before


def test_a_run_does_not_go_on_with_another_text_of_the_same_size(tmp_path):
    file = tmp_path / "text.txt"
    text = "to be, or not\nto be: that is the question.\n" * 40
    options: dict[str, Any] = {"batch": 2, "out": tmp_path / "run", "sentences": ["to be"]}

    def run(steps: int) -> None:
        one = task("text", path=file, length=16)
        train(preset(one).network(one, layers=1, heads=2, width=8), one, steps=steps, **options)

    file.write_text(text)
    run(2)
    before = contents(tmp_path / "run")
    for at in (100, len(text) - 30):  # of the part to learn from, and of the part for testing
        swapped = text[:at] + text[at : at + 20][::-1] + text[at + 20 :]
        assert set(swapped) == set(text) and swapped != text
        file.write_text(swapped)
        with pytest.raises(errors.OptionError, match=r"run\.safetensors is of a run with other data"):
            run(2)
    file.write_text(text)
    run(2)
    assert contents(tmp_path / "run") == before


def test_a_run_does_not_go_on_with_another_option_of_its_task_or_other_initial_weights(tmp_path):
    model, one = small()
    train(model, one, steps=2, batch=4, out=tmp_path)
    other = task("lookup", pairs=4, vocabulary=16, power=2.0)
    with pytest.raises(errors.OptionError, match="is of a run with other data"):
        train(model, other, steps=2, batch=4, out=tmp_path)
    with pytest.raises(errors.OptionError, match="is of a run with other initial weights"):
        train(small(seed=3)[0], one, steps=2, batch=4, out=tmp_path)


def test_a_record_of_another_run_or_of_an_earlier_moment_is_refused(tmp_path):
    options: dict[str, Any] = {"steps": 4, "batch": 4, "record_every": 1, "save_every": 2}
    train(*small(), out=tmp_path / "one", **options)
    train(*small(), out=tmp_path / "other", seed=5, **options)
    record = tmp_path / "one" / "record.safetensors"
    content = record.read_bytes()
    record.write_bytes((tmp_path / "other" / "record.safetensors").read_bytes())
    with pytest.raises(errors.OptionError, match=r"record\.safetensors is the record of another run"):
        train(*small(), out=tmp_path / "one", **options)
    record.write_bytes(content)
    early = Record.load(record)
    early.snapshots = early.snapshots[:2]
    early.save(record)
    with pytest.raises(errors.OptionError, match=r"record\.safetensors has 2 snapshots up to step 4, expected 5"):
        train(*small(), out=tmp_path / "one", **options)
    record.unlink()
    with pytest.raises(errors.OptionError, match=r"record\.safetensors"):
        train(*small(), out=tmp_path / "one", **options)


def test_two_runs_in_one_folder_are_refused(tmp_path):
    def second(progress: Any) -> None:
        if progress.step == 1:
            with pytest.raises(errors.OptionError, match=r"Another process trains in .*choose another folder"):
                train(*small(), steps=3, batch=4, out=tmp_path)

    train(*small(), steps=3, batch=4, save_every=1, out=tmp_path, on_step=second)
    train(*small(), steps=3, batch=4, save_every=1, out=tmp_path)  # the lock is released


FULL = """
import resource, signal, sys
from regard.training import network, task, train
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
one = task("lookup", pairs=4, vocabulary=16)
model = network(one.vocabulary, length=one.length, layers=1, heads=2, width=8)
def on_step(progress):
    if progress.step == 3:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))  # as a disk that has become full
train(model, one, steps=6, batch=4, save_every=2, record_every=2, out=sys.argv[1], on_step=on_step)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of file sizes are POSIX")
def test_a_full_disk_keeps_the_last_good_checkpoint(tmp_path):
    found = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=False)
    assert "OptionError" in found.stderr and "cannot be written" in found.stderr, found.stderr
    _, metadata = load(tmp_path)
    assert metadata["state"]["step"] == 2
    assert not list(tmp_path.glob(".regard-*"))


def test_small_steps_use_one_thread(monkeypatch):
    counts = torch.get_num_threads(), _core.threads()
    for name in ("OMP_NUM_THREADS", "REGARD_THREADS"):
        monkeypatch.delenv(name, raising=False)
    try:
        _core.set_threads(2)
        wide = network(16, length=1024, layers=4, heads=8, width=512)
        assert not limit_threads(wide, task("lookup", pairs=4, vocabulary=16, length=1024), Recipe(batch=1))
        assert _core.threads() == 2
        assert limit_threads(*small(), Recipe(batch=4))
        assert (torch.get_num_threads(), _core.threads()) == (1, 1)
    finally:
        torch.set_num_threads(counts[0])
        _core.set_threads(counts[1])


def test_models_that_do_not_fit_a_task_are_refused():
    one = task("copy")
    with pytest.raises(errors.ShapeError, match=r"`model` embeds 9 tokens and has a head for 9; the task copy has 32"):
        train(network(9, length=one.length, **SMALL), one, steps=1)
    with pytest.raises(errors.OptionError, match="`width` is 10; expected a multiple of `heads`, 4"):
        network(9, length=4, width=10, heads=4)
    with pytest.raises(errors.OptionError, match="`accumulate` is 3; expected a divisor of `batch`, 8"):
        Recipe(batch=8, accumulate=3)


def test_config_json_says_what_the_model_is(tmp_path):
    model, one = small()
    train(model, one, steps=1, batch=2, out=tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["n_layer"] == 1 and config["n_head"] == 2 and config["vocab_size"] == 16


@pytest.mark.parametrize("name", ["lookup", "relations", "facts", "induction", "copy", "sort", "text"])
def test_transformers_reads_the_tokenizer_of_every_task(tmp_path, name):
    transformers = pytest.importorskip("transformers")
    (tmp_path / "text.txt").write_text("Hello World,\n it is  a text.\t(again) é漢\n" * 50, encoding="utf-8")
    one = task(name, **({"path": tmp_path / "text.txt"} if name == "text" else {}))
    made = network(one.vocabulary, length=one.length, **SMALL)
    train(made, one, Recipe(steps=1, batch=2), out=tmp_path / "trained")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "trained")
    for tokens in one.batch(5).tokens.tolist():
        text = one.text(tokens)
        assert tokenizer(text)["input_ids"] == tokens
        assert tokenizer.decode(tokens) == tokenizer.decode(tokens, skip_special_tokens=True) == text
    assert len(tokenizer) == one.vocabulary

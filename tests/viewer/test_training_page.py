"""The page of a training run holds what the record says."""

import re
from base64 import b64decode

import numpy as np
import pytest

from regard import errors
from regard.viewer import frames, training_page

pytest.importorskip("torch")

SNAPSHOTS, PROBES, LAYERS, HEADS, TOKENS = 5, 2, 2, 3, 7


def record(count=SNAPSHOTS):
    from regard.training import Record, Snapshot

    rng = np.random.default_rng(3)
    probes = np.array([[0, 1, 2, 3, 4, 5, 6], [3, 4, 5, -1, -1, -1, -1]])
    keys = np.where(probes >= 0, 1, -1)
    words = ("</script>", "b", "c", "d", "e", "f", "g")
    made = Record("relations", words, ("whose", "where"), probes, keys, keys)
    for step in range(count):
        made.snapshots.append(
            Snapshot(
                step * 10, float("nan") if step == 0 else 2.0 / step, 3.0 - 0.1 * step, 0.2 * step,
                rng.random((LAYERS, HEADS)), rng.random((LAYERS, HEADS, 2)),
                rng.integers(0, 256, (PROBES, LAYERS, HEADS, TOKENS, TOKENS), dtype=np.uint8),
                rng.normal(size=(LAYERS, HEADS, 4, 6)).astype(np.float16),
                rng.normal(size=(LAYERS, HEADS, 4, 6)).astype(np.float16),
            )
        )  # fmt: skip
    return made


def frame_of(page):
    (found,) = re.findall(r'id="regard-training">([A-Za-z0-9+/=]*)<', page)
    return frames.unpack(b64decode(found))


def test_the_page_holds_every_snapshot(tmp_path):
    made = record()
    page = training_page.save(made, tmp_path / "run.html").read_text(encoding="utf-8")
    header, arrays = frame_of(page)
    assert header["steps"] == [0, 10, 20, 30, 40]
    assert header["loss"][0] is None  # not measured: unknown, not zero
    np.testing.assert_array_equal(arrays["weights_0"][3], made.snapshots[3].weights[0])
    np.testing.assert_array_equal(arrays["weights_1"][3], made.snapshots[3].weights[1, :, :, :3, :3])
    np.testing.assert_allclose(arrays["head_accuracy"][2], made.snapshots[2].head_accuracy, atol=1e-7)
    np.testing.assert_array_equal(arrays["wq"][4], made.snapshots[4].w_q.swapaxes(-1, -2))
    assert header["probes"][1]["tokens"] == ["d", "e", "f"]


def test_words_cannot_break_out_of_the_page():
    page = "".join(training_page.pieces(record()))
    assert page.count("</script>") == 4  # the ends of its own: style, code, data, loader


def test_a_long_run_keeps_its_first_and_last_snapshot(monkeypatch):
    monkeypatch.setattr(training_page, "MOST_SNAPSHOTS", 4)
    header, arrays = training_page.film(record(11), "run")
    assert header["steps"] == [0, 30, 70, 100]
    assert len(arrays["entropy"]) == 4


def test_a_record_without_snapshots_is_refused():
    with pytest.raises(errors.OptionError, match="no snapshot"):
        training_page.film(record(0), "run")

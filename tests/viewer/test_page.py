"""One file: small enough, closed to the outside, safe for any text, and every weight in it can be computed again."""

import base64
import hashlib
import re

import numpy as np
import pytest

from regard.attention import Attention
from regard.biases import alibi
from regard.errors import OptionError
from regard.masks import causal, first, window
from regard.reading import Reading
from regard.teaching.lookup import lookup
from regard.viewer import frames, page_data
from regard.viewer import page as pages
from regard.viewer.page import page, save

from .cases import CAT_SAT, COUNT, HEADS, LAYERS, causal_reading, reading, weights

ATTACKS = [
    "</script><script>alert(1)</script>", "<!--<script>", "]]>", "<img src=x onerror=alert(1)>", "nul\0l", "\u202eabc",
    "👩‍👩‍👧", "w" * 10_000, "&lt;&amp;", "\ud800", "\u2028",
]  # fmt: skip


def blocks(text):
    """The frames of a page, by name."""
    found = re.findall(r'<script type="application/x-regard" id="regard-([a-z0-9-]+)">([A-Za-z0-9+/=]*)</script>', text)
    return {name: frames.unpack(base64.b64decode(content)) for name, content in found}


def recomputed(frame, row_of=slice(None)):
    """All weights of a layer from what a page holds, as its script computes them: (head, query, key)."""
    header, arrays = frame
    q = arrays["q"].astype(np.float32) * np.float32(header.get("q_times", 1))
    k = arrays["k"].astype(np.float32) * np.float32(header.get("k_times", 1))
    k = np.repeat(k, len(q) // len(k), axis=0)
    score = q @ k.swapaxes(-1, -2) * np.float32(header["scale"])
    if header["softcap"]:
        score = header["softcap"] * np.tanh(score / header["softcap"])
    queries, keys = score.shape[1:]
    place = np.arange(queries)[:, None] + header["offset"] - np.arange(keys)
    if "relative" in arrays:
        score = score + arrays["relative"][:, place + header["relative_zero"]]
    if "bias" in arrays:
        score = score + arrays["bias"]
    weight = np.exp(score - arrays["normaliser"][..., None])
    key = np.arange(keys)
    if "visible" in arrays:
        weight = np.where(arrays["visible"], weight, 0)
    if "first" in arrays:
        seen = (key >= arrays["first"][:, None]) & (key < arrays["last"][:, None])
        if "second_first" in arrays:
            seen |= (key >= arrays["second_first"][:, None]) & (key < arrays["second_last"][:, None])
        weight = np.where(seen, weight, 0)
    return weight[:, row_of]


def test_every_weight_can_be_computed_from_the_page():
    found = blocks(page(causal_reading()))
    for layer in range(LAYERS):
        weight = recomputed(found[f"layer-{layer}"])
        np.testing.assert_allclose(weight, weights(True)[layer], rtol=0, atol=2e-3)
        np.testing.assert_allclose(weight.sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"mask": window(2)},
        {"mask": first(2) | window(1, 0)},
        {"mask": ~causal() | first(1)},
        {"softcap": 1.5},
        {"scale": 0.2},
        {"sinks": np.linspace(-1, 1, HEADS)},
        {"bias": alibi(np.linspace(0.1, 1, HEADS))},
        {"bias": np.random.default_rng(5).normal(size=(HEADS, COUNT, COUNT))},
        {"similarity": "cosine"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_whatever_changes_the_scores_is_in_the_page(options):
    subject = reading(**options)
    weight = recomputed(blocks(page(subject))["layer-1"])
    np.testing.assert_allclose(weight, np.asarray(subject.attention(1)), rtol=0, atol=2e-3)


def test_scores_too_large_for_16_bits_travel_in_32():
    rng = np.random.default_rng(6)
    subject = Attention(np.full((2, 40, 8), 300.0), 1 + rng.normal(size=(2, 40, 8)) * 1e-3)
    frame = blocks(page(subject))["layer-0"]
    assert frame[1]["q"].dtype == np.float32
    np.testing.assert_allclose(recomputed(frame), np.asarray(subject), rtol=0, atol=2e-3)


def test_values_too_large_for_16_bits_are_scaled():
    given = np.full((1, 3, 2), 1e6)
    header, arrays = blocks(page(Reading.of(Attention(np.ones((1, 3, 2)), np.ones((1, 3, 2))), given)))["layer-0"]
    np.testing.assert_allclose(arrays["v"].astype(float) * header["v_times"], given, rtol=1e-3)


def test_pages_without_steps_have_no_values():
    found = blocks(page(reading(), steps=False))
    assert "v" not in found["layer-0"][1]
    assert "vectors" not in found["describe"][0]["has"]


def test_light_pages_hold_the_strongest_keys():
    found = blocks(page(reading(), light=True))
    assert found["describe"][0]["light"] and not any(name.startswith("layer") for name in found)
    header, arrays = found["light-1"]
    strongest = np.sort(weights()[1], axis=-1)[..., ::-1][..., : header["top"]]
    np.testing.assert_allclose(arrays["weight"], strongest, atol=1e-3)
    exact = np.take_along_axis(weights()[1], arrays["index"].astype(int), -1)
    np.testing.assert_allclose(arrays["weight"], exact, atol=1e-3)
    np.testing.assert_allclose(arrays["received"], weights()[1].sum(axis=-2), rtol=2e-3)


def test_missing_keys_of_light_pages_are_marked():
    _, arrays = blocks(page(causal_reading(), light=True))["light-0"]
    assert (arrays["index"][:, 0, 1:] == 65535).all() and (arrays["weight"][:, 0, 1:] == 0).all()


def test_a_trace_brings_the_steps_of_all_queries():
    from regard.layers import Encoder

    block = Encoder.seeded(width=6, heads=2, dtype=np.float64)
    trace = block.explain(np.random.default_rng(7).normal(size=(4, 6)), words=list("abcd"))
    found = blocks(page(trace))
    header, arrays = found["steps-0"]
    np.testing.assert_allclose(arrays["result"], trace["result"], atol=2e-3)
    assert arrays["outputs"].shape == (4, 2, 3) and "formulas" in header
    assert "steps" in found["describe"][0]["has"]


def test_a_lookup_is_all_description():
    found = blocks(page(lookup({"brand": "Ford"})))
    assert list(found) == ["describe"] and found["describe"][0]["lookup"]["keys"] == ["brand"]


# Safe


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda text: ascii(text)[:14])
def test_texts_stay_data(attack):
    trace = Attention(CAT_SAT, CAT_SAT).explain(CAT_SAT, words=["The", attack, "sat"])
    text = page(trace)
    plain = page(Attention(CAT_SAT, CAT_SAT).explain(CAT_SAT, words=["The", "cat", "sat"]))
    for mark in ("<script", "</script", "<!--", "<img", "<style", "</style"):
        assert text.count(mark) == plain.count(mark)
    assert "\0" not in text
    assert blocks(text)["describe"][0]["tokens"][1] == attack


def test_a_policy_allows_only_what_is_in_the_page():
    text = page(reading())
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    for content, kind in ((script, "script-src"), (style, "style-src")):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy


def test_nothing_outside_is_named():
    text = re.sub(r'<script type="application/x-regard".*?</script>', "", page(reading()), flags=re.DOTALL)
    addresses = set(re.findall(r"https?://[^\s\"'`)]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml", "http://www.w3.org/1999/xlink"}
    assert not re.search(r"<(link|img|iframe)\b|\bsrc=", text)


# Sizes


@pytest.fixture(scope="module")
def base_sized():
    """A reading of the size of BERT-base at 512 tokens."""
    rng = np.random.default_rng(8)
    layers = [rng.standard_normal((3, 12, 512, 64), dtype=np.float32) for _ in range(12)]
    return Reading.of([Attention(q, k) for q, k, _ in layers], [v for *_, v in layers])


@pytest.mark.parametrize(
    ("options", "most"),
    [({}, 40e6), ({"steps": False}, 28e6), ({"light": True}, 3e6)],
    ids=["full", "no steps", "light"],
)
def test_a_page_of_512_tokens_is_small_enough(base_sized, tmp_path, options, most):
    path = save(base_sized, tmp_path / "page.html", **options)
    assert path.stat().st_size <= most
    assert [one.name for one in tmp_path.iterdir()] == ["page.html"]


def test_what_is_too_long_is_refused_in_a_sentence(monkeypatch):
    with pytest.raises(OptionError, match="regard studio"):
        page(Attention(np.zeros((pages.LONGEST + 1, 1)), np.zeros((pages.LONGEST + 1, 1))))
    monkeypatch.setattr(pages, "LARGEST", 1000)
    with pytest.raises(OptionError, match="light"):
        page(reading())
    assert page(reading(), light=True)


def test_a_page_that_fails_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_text("before")
    monkeypatch.setattr(page_data, "layer", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save(reading(), path)
    assert path.read_text() == "before" and [one.name for one in tmp_path.iterdir()] == ["page.html"]

"""The one-file page: small, without network access, safe for any text, and every weight can be recomputed."""

import base64
import gzip
import hashlib
import re
from importlib.resources import files
from typing import Any

import numpy as np
import pytest

from regard.attention import Attention
from regard.biases import alibi
from regard.errors import OptionError, Unsupported
from regard.masks import causal, first, window
from regard.reading import Reading
from regard.teaching.lookup import lookup
from regard.viewer import frames, page_parts
from regard.viewer.page import page, save

from ..patterns import search
from ..small_models import encoder
from .cases import CAT_SAT, COUNT, HEADS, KEY_HEADS, LAYERS, causal_reading, reading, weights
from .page_in_node import PageError, ask_page, page_weights

ATTACKS = [
    "</script><script>alert(1)</script>", "<!--<script>", "]]>", "<img src=x onerror=alert(1)>", "nul\0l", "\u202eabc",
    "👩‍👩‍👧", "w" * 10_000, "&lt;&amp;", "\ud800", "\u2028",
]  # fmt: skip


CODE = ("style", "script", "wasm")  # gzipped


def blocks(text):
    """The frames of a page, by name; besides them it holds its code."""
    found = re.findall(r'<script type="application/x-regard" id="regard-([a-z0-9-]+)">([A-Za-z0-9+/=]*)</script>', text)
    return {name: frames.unpack(base64.b64decode(content)) for name, content in found if name not in CODE}


def test_every_weight_can_be_computed_from_the_page():
    text = page(causal_reading())
    for layer in range(LAYERS):
        weight = page_weights(text, layer, range(HEADS), COUNT)
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
    weight = page_weights(page(subject), 1, range(HEADS), COUNT)
    np.testing.assert_allclose(weight, np.asarray(subject.attention(1)), rtol=0, atol=2e-3)


def test_scores_too_large_for_16_bits_travel_in_32():
    rng = np.random.default_rng(6)
    subject = Attention(np.full((2, 40, 8), 300.0), 1 + rng.normal(size=(2, 40, 8)) * 1e-3)
    text = page(subject)
    assert blocks(text)["layer-0"][1]["q"].dtype == np.float32
    np.testing.assert_allclose(page_weights(text, 0, range(2), 40), np.asarray(subject), rtol=0, atol=2e-3)


def test_values_too_large_for_16_bits_are_scaled():
    given = np.full((1, 3, 2), 1e6)
    header, arrays = blocks(page(Reading.of(Attention(np.ones((1, 3, 2)), np.ones((1, 3, 2))), given)))["layer-0"]
    np.testing.assert_allclose(arrays["v"].astype(float) * header["v_times"], given, rtol=1e-3)


def test_pages_without_steps_have_no_values():
    found = blocks(page(reading(), steps=False))
    assert "v" not in found["layer-0"][1]
    assert "vectors" not in found["describe"][0]["has"]


@pytest.mark.parametrize("heads", [[0], [1, 4], [2, 3], [0, 3, 5], None])
def test_chosen_layers_and_heads_are_as_exact_as_in_a_full_page(heads):
    subject = reading(mask=causal(), bias=alibi(np.linspace(0.1, 1, HEADS)), sinks=np.linspace(-1, 1, HEADS))
    text, whole = page(subject, layers=1, heads=heads), page(subject)
    found, full = blocks(text), blocks(whole)
    chosen = list(range(HEADS)) if heads is None else heads
    assert found["describe"][0]["kept"] == {"layers": [1], "heads": heads}
    assert "layer-0" not in found and "thumbnails-0" not in found
    assert found["layer-1"][0]["heads"] == found["thumbnails-1"][0]["heads"] == chosen
    np.testing.assert_array_equal(page_weights(text, 1, chosen, COUNT), page_weights(whole, 1, chosen, COUNT))
    np.testing.assert_array_equal(found["thumbnails-1"][1]["weight"], full["thumbnails-1"][1]["weight"][chosen])
    np.testing.assert_array_equal(found["statistics"][1]["entropy"], full["statistics"][1]["entropy"])
    header, arrays = found["layer-1"]
    values = full["layer-1"][1]["v"][[head // (HEADS // KEY_HEADS) for head in chosen]]
    np.testing.assert_array_equal(arrays["v"][header["value_heads"]], values)


def test_what_a_page_does_not_hold_is_refused_and_never_zero():
    text = page(reading(), layers=1, heads=[2])
    for kind, layer, head in [("tile", 0, 2), ("row", 1, 0), ("along", 1, 3), ("links", 0, 2), ("vectors", 1, 1)]:
        asked: dict[str, Any] = {"layer": layer, "query": 0}
        asked |= {"head": head, "shape": [2, 2]} if kind in ("tile", "vectors") else {"heads": [head]}
        with pytest.raises(PageError, match="is not in this page"):
            ask_page(text, [(kind, asked)])


@pytest.mark.parametrize(
    "options",
    [
        {"layers": []},
        {"layers": 2},
        {"layers": [0, -1]},
        {"heads": HEADS},
        {"heads": "01"},
        {"heads": [1.0]},
        {"layers": True},
    ],
)
def test_layers_and_heads_that_are_not_there_are_refused(options, tmp_path):
    with pytest.raises(OptionError, match="integer from 0 to"):
        save(reading(), tmp_path / "page.html", **options)
    assert not list(tmp_path.iterdir())


def test_a_trace_brings_the_steps_of_all_queries():
    from regard.layers import Encoder

    block = Encoder.seeded(width=6, heads=2, dtype=np.float64)
    trace = block.explain(np.random.default_rng(7).normal(size=(4, 6)), words=list("abcd"))
    found = blocks(page(trace))
    header, arrays = found["steps-0"]
    np.testing.assert_allclose(arrays["result"], trace["result"], atol=2e-3)
    assert arrays["outputs"].shape == (4, 2, 3) and "formulas" in header
    assert "steps" in found["describe"][0]["has"]


def test_a_lookup_is_fully_described():
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
    policy = policy_of(text)
    assert "default-src 'none'" in policy and policy.count("unsafe") == 1 and "worker-src blob:;" in policy
    (loader,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    packed = dict(re.findall(r'id="regard-(script|style)">([A-Za-z0-9+/=]*)</script>', text))
    script, style = (gzip.decompress(base64.b64decode(packed[name])) for name in ("script", "style"))
    digests = [
        base64.b64encode(hashlib.sha256(content).digest()).decode() for content in (loader.encode(), script, style)
    ]
    assert f"script-src 'sha256-{digests[0]}' 'sha256-{digests[1]}' 'wasm-unsafe-eval';" in policy
    assert f"style-src 'sha256-{digests[2]}';" in policy


def policy_of(text):
    return search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1]


def test_a_page_with_a_model_has_its_files_and_the_same_policy():
    read = encoder().read("the kids left")
    text = page(read, with_model=True)
    assert re.sub("sha256-[^']*", "", policy_of(text)) == re.sub("sha256-[^']*", "", policy_of(page(read)))
    content = dict(re.findall(r'id="regard-([a-z0-9-]+)">([A-Za-z0-9+/=]*)</script>', text))
    manifest = frames.unpack(base64.b64decode(content["model"]))[0]["manifest"]
    for name in ("weights", "tokenizer"):
        file = base64.b64decode(content[f"{name}-0"])
        assert (len(file), hashlib.sha256(file).hexdigest()) == (manifest[name]["size"], manifest[name]["sha256"])
    assert b"Worker" in base64.b64decode(content["worker"])


def test_a_page_with_a_model_beside_it_may_load_from_its_own_server_alone():
    text = page(encoder().read("the kids left"), model_at="model/model.json")
    assert "connect-src 'self';" in policy_of(text) and "weights-0" not in text


def test_a_model_that_is_not_at_hand_is_not_put_into_a_page():
    with pytest.raises(Unsupported, match="read the text again"):
        page(causal_reading(), with_model=True)


def test_a_page_holds_its_kernels():
    text = page(reading())
    (stored,) = re.findall(r'id="regard-wasm">([A-Za-z0-9+/=]*)</script>', text)
    module = files("regard").joinpath("web", "engine", "regard.wasm").read_bytes()
    assert gzip.decompress(base64.b64decode(stored)) == module
    assert page(reading()) == text  # the same bytes every time


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
    [({}, 40e6), ({"steps": False}, 28e6), ({"layers": [3, 5], "heads": range(6)}, 4.2e6)],
    ids=["full", "no steps", "two layers of six heads"],
)
def test_a_page_of_512_tokens_is_small_enough(base_sized, tmp_path, options, most):
    path = save(base_sized, tmp_path / "page.html", **options)
    assert path.stat().st_size <= most
    assert [one.name for one in tmp_path.iterdir()] == ["page.html"]


def test_texts_that_are_too_long_give_a_one_line_error(monkeypatch):
    with pytest.raises(OptionError, match="regard studio"):
        page(Attention(np.zeros((page_parts.LONGEST + 1, 1)), np.zeros((page_parts.LONGEST + 1, 1))))
    monkeypatch.setattr(page_parts, "LARGEST", 1000)
    with pytest.raises(OptionError, match="--keep"):
        page(reading())
    assert page(reading(), layers=0, heads=0)


def test_a_failed_page_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_text("before")
    monkeypatch.setattr(page_parts, "layer_frame", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save(reading(), path)
    assert path.read_text() == "before" and [one.name for one in tmp_path.iterdir()] == ["page.html"]

"""Tokenisers: the same tokens as the libraries, and readable token texts."""

import json
import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import Unsupported
from regard.models import files, tokens
from regard.models.errors import BrokenFile
from regard.models.files import gguf_config
from regard.models.files.gguf import open_gguf

from .attacks import llama_metadata

tokenizers = pytest.importorskip("tokenizers")

TEXTS = [
    "The kids were scared of the lions, so they left right away.",
    "",
    " ",
    "  two  blanks ",
    "naïve café Ångström",
    "don't, can't; it's",
    "In 2024 there were 31415 of them (3.14).",
    "line\nbreaks\n\n\tand\ttabs\r\n",
    "emoji 😀👩‍👩‍👧 and 漢字 日本",
    "unbelievablenesses antidisestablishmentarianism",
    "a [MASK] and a <|im_start|> typed",
    "x" * 300,
]


@pytest.fixture(scope="module")
def minilm(minilm_path):
    return files.open_checkpoint(minilm_path).tokeniser


@pytest.fixture(scope="module")
def smollm2(smollm2_path):
    return files.open_checkpoint(smollm2_path).tokeniser


def read(encoded):
    """The readable texts, pieces of a word marked by +."""
    return " ".join("+" * joined + text for text, joined in zip(encoded.texts, encoded.joined, strict=True))


@pytest.mark.parametrize("text", TEXTS)
def test_minilm_tokens_equal_the_library_without_padding_and_truncation(minilm, minilm_path, text):
    library = tokenizers.Tokenizer.from_file(str(minilm_path / "tokenizer.json"))
    library.no_padding()
    library.no_truncation()
    encoded = minilm.encode(text)
    assert encoded.ids == library.encode(text).ids
    assert len(encoded) == len(encoded.texts) == len(encoded.spans) == len(encoded.special) == len(encoded.joined)


@pytest.mark.parametrize("text", TEXTS)
def test_minilm_tokens_equal_transformers(minilm, minilm_path, text):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(minilm_path)
    assert minilm.encode(text).ids == theirs(text, truncation=False, padding=False)["input_ids"]


def test_word_pieces_are_joined_and_punctuation_is_separate(minilm):
    encoded = minilm.encode("Unbelievableness, naïve lions don't!")
    assert read(encoded) == "[CLS] Unbelievable +ness , naïve lions don ' t ! [SEP]"
    assert encoded.special == [True, *[False] * 9, True]
    assert encoded.spans[1:4] == [(0, 12), (12, 16), (16, 17)]
    assert encoded.spans[0] == (0, 0)


def test_a_long_text_is_not_truncated(minilm):
    assert len(minilm.encode("word " * 1000)) == 1002


def test_unknown_characters_and_special_tokens_in_the_text_are_recognised(minilm):
    encoded = minilm.encode("a 😀 [MASK] b")
    assert encoded.texts == ["[CLS]", "a", "[UNK]", "[MASK]", "b", "[SEP]"]
    assert encoded.special == [True, False, False, True, False, True]


# By hand: blanks belong to the word behind them, digits stand alone, a character may be several tokens.
@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("The cat sat", ["The", "Ġcat", "Ġsat"]),
        ("in 2024", ["Ġ", "2", "0", "2", "4"]),
        ("a  b", ["a", "Ġ", "Ġb"]),
        ("a\nb", ["a", "Ċ", "b"]),
        ("don't", ["don", "'t"]),
        ("<|im_start|>user", ["<|im_start|>", "user"]),
    ],
)
def test_smollm2_pre_tokenises_text_by_its_metadata(smollm2, text, stored):
    encoded = smollm2.encode(text)
    assert [smollm2.token(number) for number in encoded.ids][-len(stored) :] == stored


def test_smollm2_adds_no_special_tokens(smollm2):
    assert not any(smollm2.encode("The cat sat").special)
    assert len(smollm2.encode("The cat sat")) == 3
    assert len(smollm2.encode("")) == 0


@pytest.mark.parametrize("text", TEXTS)
def test_smollm2_decodes_to_the_same_text(smollm2, text):
    encoded = smollm2.encode(text)
    assert smollm2.decode(encoded.ids, special=True) == text
    spelled, again = smollm2.spell(encoded.ids)
    assert spelled == text
    assert again == encoded


def test_smollm2_merges_in_the_order_of_the_file(smollm2, smollm2_path):
    """Byte-level BPE by its definition: merge the first pair of the list until none is left."""
    header = open_gguf(smollm2_path).metadata
    ranks = {tuple(merge.split(" ")): rank for rank, merge in enumerate(header["tokenizer.ggml.merges"])}
    numbers = {token: number for number, token in enumerate(header["tokenizer.ggml.tokens"])}
    letters = {byte[0]: letter for letter, byte in tokens.BYTES.items()}
    for word in [" unbelievable", "naïve", " lions", "😀", " scared", "\n\n", " Ångström", "漢字"]:
        parts = [letters[byte] for byte in word.encode()]
        while pairs := [pair for pair in pairwise(parts) if pair in ranks]:
            best = min(pairs, key=ranks.__getitem__)
            place = list(pairwise(parts)).index(best)
            parts[place : place + 2] = ["".join(best)]
        assert smollm2.encode(word).ids == [numbers[part] for part in parts], word


def test_smollm2_words_and_readable_texts(smollm2):
    encoded = smollm2.encode("The lions' naïve cubs, 2024 😀!\n")
    assert read(encoded) == "The lions ' na +ïve cubs , ␣ 2 +0 +2 +4 <F0 9F 98> +<80> ! ⏎"
    text = "The lions' naïve cubs, 2024 😀!\n"
    for span, shown in zip(encoded.spans, encoded.texts, strict=True):
        assert shown[0] in "<␣⏎" or text[slice(*span)] == shown


@settings(max_examples=200)
@given(st.text(max_size=40))
def test_spans_are_ordered_and_inside_the_text(smollm2, minilm, text):
    for tokeniser in (smollm2, minilm):
        encoded = tokeniser.encode(text)
        placed = [span for span, special in zip(encoded.spans, encoded.special, strict=True) if not special]
        assert all(0 <= start <= stop <= len(text) for start, stop in placed)
        assert placed == sorted(placed)
        assert not encoded.joined or not encoded.joined[0]
        assert all(encoded.texts)


@settings(max_examples=200)
@given(st.lists(st.integers(0, 49151), max_size=12))
def test_any_generated_tokens_have_a_text(smollm2, ids):
    """Random tokens, most of them parts of characters: spans cover the text from its beginning to its end."""
    text, encoded = smollm2.spell(ids)
    assert encoded.ids == ids
    assert len(encoded.texts) == len(ids)
    assert text == smollm2.decode(ids, special=True)
    assert all(0 <= start <= stop <= len(text) for start, stop in encoded.spans)
    if ids:
        assert encoded.spans[-1][1] == len(text)


def test_lone_surrogates_are_tokenised(minilm, smollm2):
    for tokeniser in (minilm, smollm2):
        assert tokeniser.encode("a \ud83d b").spans[-1] in ((4, 5), (0, 0))


def test_encoding_several_texts_equals_encoding_each(minilm, smollm2):
    for tokeniser in (minilm, smollm2):
        assert tokeniser.encode_many(TEXTS) == [tokeniser.encode(text) for text in TEXTS]
        assert tokeniser.encode_many([]) == []


def test_special_tokens_may_be_left_out(minilm):
    assert minilm.encode("a lion", special=False).texts == ["a", "lion"]
    assert minilm.decode(minilm.encode("a lion").ids) == "a lion"
    assert minilm.decode(minilm.encode("a lion").ids, special=True) == "[CLS] a lion [SEP]"
    assert minilm.spell(minilm.encode("a lion").ids)[0] == "[CLS] a lion [SEP]"


JUNK: list[object] = [None, 0, -1, 2**64, 1e308, "", "x", [], {}, True, "\0", "(((", {"type": "BPE"}]


def changed_somewhere(given, rng):
    """The same JSON with one value, anywhere, deleted or replaced."""
    if isinstance(given, (dict, list)) and given and rng.random() < 0.85:
        place = rng.choice(list(given) if isinstance(given, dict) else range(len(given)))
        made = given.copy()
        if rng.random() < 0.2:
            del made[place]
        else:
            made[place] = changed_somewhere(given[place], rng)
        return made
    return rng.choice(JUNK)


def test_a_changed_tokeniser_works_or_is_refused_by_name(tmp_path):
    """The library panics at some of these, which is not a subclass of Exception."""
    vocabulary = {"[UNK]": 0, "the": 1, "##s": 2, "[CLS]": 3}
    engine = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    engine.normalizer = tokenizers.normalizers.BertNormalizer()
    engine.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    engine.post_processor = tokenizers.processors.TemplateProcessing("[CLS] $A", None, [("[CLS]", 3)])
    engine.add_special_tokens(["[CLS]"])
    sound, path, rng = json.loads(engine.to_str()), tmp_path / "tokenizer.json", random.Random(3)
    complaints = set()
    for _ in range(400):
        path.write_text(json.dumps(changed_somewhere(sound, rng)))
        try:
            tokens.from_file(path).encode("the 12 naïve s")
        except BrokenFile as problem:
            complaints.add(str(problem).split(":")[0])
    assert complaints == {f"{path} is broken"}


def test_a_bos_token_is_added_if_the_metadata_says_so(tmp_path):
    built = gguf_config.tokeniser(llama_metadata(**{"tokenizer.ggml.add_bos_token": True}), tmp_path)
    encoded = built.encode("he")
    assert encoded.texts == ["<|end|>", "he"]
    assert encoded.special == [True, False]
    assert gguf_config.tokeniser(llama_metadata(), tmp_path).encode("he").texts == ["he"]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"tokenizer.ggml.tokens": None}, "no tokenizer.ggml.tokens"),
        ({"tokenizer.ggml.tokens": [1, 2]}, "a list of strings"),
        ({"tokenizer.ggml.tokens": ["a", "a"]}, "occurs twice"),
        ({"tokenizer.ggml.merges": ["h e y"]}, "not a pair of tokens"),
        ({"tokenizer.ggml.merges": ["h ☃"]}, "its tokeniser fails"),
        ({"tokenizer.ggml.token_type": [3] * 999}, "token_type"),
        ({"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.bos_token_id": 9999}, "bos_token_id is 9999"),
    ],
)
def test_invalid_tokeniser_metadata_is_refused(tmp_path, changed, reason):
    with pytest.raises(BrokenFile, match=reason):
        gguf_config.tokeniser(llama_metadata(**changed), tmp_path / "tiny.gguf")


def test_unknown_tokenisers_are_named(tmp_path):
    with pytest.raises(Unsupported, match=r"'llama' of .*tiny.gguf"):
        gguf_config.tokeniser(llama_metadata(**{"tokenizer.ggml.model": "llama"}), tmp_path / "tiny.gguf")
    with pytest.raises(Unsupported, match=r"'klingon'.*\nKnown are smollm"):
        gguf_config.tokeniser(llama_metadata(**{"tokenizer.ggml.pre": "klingon"}), tmp_path / "tiny.gguf")


@pytest.mark.parametrize("kind", ["llama-bpe", "qwen2", "gpt-2", "default"])
def test_other_pre_tokenisers_lose_nothing(tmp_path, kind):
    built = gguf_config.tokeniser(llama_metadata(**{"tokenizer.ggml.pre": kind}), tmp_path)
    for text in TEXTS[:10]:
        assert built.decode(built.encode(text).ids) == text


def test_sentencepiece_underscores_are_read_as_spaces(tmp_path):
    """As in Llama 2: ▁ for a space, bytes as <0x..>, no ## marks."""
    vocabulary = ["<unk>", "▁the", "▁li", "ons", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "<0x0A>", ",", "▁"]
    described: dict[str, object] = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "post_processor": None,
        "normalizer": None, "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
        "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": True,
                  "vocab": [[token, -float(place)] for place, token in enumerate(vocabulary)]},
    }  # fmt: skip
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(described))
    encoded = tokens.from_file(path).encode("the lions, the 😀\n")
    assert read(encoded) == "the li +ons , the ␣ <F0> +<9F> +<98> +<80> +⏎"
    assert np.array(encoded.spans)[:3].tolist() == [[0, 3], [4, 6], [6, 9]]


def test_a_character_with_more_tokens_than_are_read_leaves_no_text(minilm):
    assert [minilm.beginning("안 dog", longest) for longest in (2, 4, 5, 6)] == ["", "", "안", "안 dog"]


@given(st.binary(max_size=12) | st.sampled_from([b"\xed\xa0", b"a\xed\xa0\x80b", b"\xff\xe2\x82", b"\xf0\x9f\x98"]))
def test_every_byte_belongs_to_a_character(content):
    text, places = tokens._text_and_places(content)
    assert text == content.decode("utf-8", "replace") and len(places) == len(content) + 1 and places[-1] == len(text)
    assert places[:-1] == sorted(places[:-1]) and set(places[:-1]) == set(range(len(text)))

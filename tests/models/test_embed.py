"""One vector per text as in sentence-transformers: the mean of the last states, of length 1."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from regard.errors import OptionError
from regard.models.model import opened

from .checkpoints import SENTENCES, torch, transformers, write
from .test_bert import config_of
from .test_llama import SMALL


def test_a_vector_is_the_mean_of_the_last_states(tmp_path: Path) -> None:
    model = write(tmp_path, config_of("bert"), "bert", "BertModel").open()
    vectors = model.embed(SENTENCES, batch=2, normalise=False)
    means = [reading.states[-1].mean(axis=0) for reading in model.read(SENTENCES)]
    np.testing.assert_allclose(vectors, means, atol=1e-5)


def test_vectors_have_length_one_and_keep_the_order_of_texts(tmp_path: Path) -> None:
    model = write(tmp_path, config_of("bert"), "bert", "BertModel").open()
    vectors = model.embed(SENTENCES, batch=3)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    for text, vector in zip(SENTENCES, vectors, strict=True):
        np.testing.assert_allclose(model.embed(text), vector, atol=1e-5)


def test_the_final_norm_is_applied_before_the_mean(tmp_path: Path) -> None:
    tiny = write(tmp_path, transformers.LlamaConfig(**SMALL), "causal", "LlamaForCausalLM")
    model = tiny.open()
    ids = torch.tensor([model.tokeniser.encode(SENTENCES[0]).ids])
    with torch.no_grad():
        right = tiny.twin.model(ids).last_hidden_state[0].mean(dim=0).numpy()
    np.testing.assert_allclose(model.embed(SENTENCES[0], normalise=False), right, atol=1e-5)


def test_texts_are_never_truncated_silently(tmp_path: Path) -> None:
    model = write(tmp_path, config_of("bert"), "bert", "BertModel").open()
    with pytest.raises(OptionError, match="32 tokens"):
        model.embed(["the cat", "cat " * 30])
    with pytest.raises(OptionError, match="batch"):
        model.embed(["the cat"], batch=0)


def test_minilm_embeddings_equal_sentence_transformers(minilm_path: Path) -> None:
    model = opened(minilm_path, "minilm")
    twin = transformers.AutoModel.from_pretrained(minilm_path).eval()
    theirs = transformers.AutoTokenizer.from_pretrained(minilm_path)
    texts = [*SENTENCES, "Unbelievably, the lions' keepers kept on sleeping.", "Ω ≠ ℵ, 東京 – 12.5 %"]
    given = theirs(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = twin(**given).last_hidden_state
    mask = given["attention_mask"][..., None]
    right = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1)).numpy()
    np.testing.assert_allclose(model.embed(texts), right, atol=1e-5)

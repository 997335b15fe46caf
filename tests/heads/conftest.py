"""Small random models for the tests of heads, and the real weights."""

from pathlib import Path

import pytest

from regard.heads.treebank import Treebank, read

from ..models.checkpoints import Tiny, transformers, write
from ..models.conftest import cache, minilm_path, smollm2_path

__all__ = ["cache", "minilm_path", "smollm2_path"]


def tiny_bert(folder: Path) -> Tiny:
    config = transformers.BertConfig(
        vocab_size=67, hidden_size=30, num_hidden_layers=2, num_attention_heads=5, intermediate_size=22,
        max_position_embeddings=64,
    )  # fmt: skip
    return write(folder, config, "bert", "BertModel")


def tiny_llama(folder: Path) -> Tiny:
    config = transformers.LlamaConfig(
        vocab_size=71, hidden_size=24, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2,
        intermediate_size=20, max_position_embeddings=128,
    )  # fmt: skip
    return write(folder, config, "causal", "LlamaForCausalLM")


@pytest.fixture(scope="session", params=[tiny_bert, tiny_llama], ids=["bert", "llama"])
def tiny(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """A BERT and a Llama with grouped keys, of unequal sizes."""
    made: Tiny = request.param(tmp_path_factory.mktemp("tiny"))
    return made


@pytest.fixture(scope="session")
def small() -> tuple[Treebank, Treebank]:
    """A small treebank of our own: to choose on, and to score on."""
    folder = Path(__file__).parent
    return read(folder / "small-dev.conllu"), read(folder / "small-test.conllu")

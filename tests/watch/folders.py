"""Folders of tiny random models with a tokenizer, as `save_pretrained` writes them."""

from pathlib import Path
from typing import Any

import torch

from . import models

SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "looked", "at", "dogs", "that", "ran", "away", "because", "it",
         "was", "tired", ",", ".", "##s", "##ed", "##ing", "look", "dog", "run"]  # fmt: skip
VOCABULARY = len(SPECIAL) + len(WORDS) + 38  # 67: the models of `models`
TEXT = "The cat sat on a mat, and dogs looked at it because it was tired."


def tokenizer(kind: str) -> Any:
    """WordPiece with [CLS] and [SEP] around a text for encoders, with [CLS] before it for decoders."""
    import tokenizers
    from transformers import PreTrainedTokenizerFast

    spelled = [*SPECIAL, *WORDS, *(f"w{number}" for number in range(VOCABULARY - len(SPECIAL) - len(WORDS)))]
    engine = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({word: place for place, word in enumerate(spelled)}, unk_token="[UNK]")
    )
    engine.normalizer = tokenizers.normalizers.Lowercase()
    engine.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    engine.decoder = tokenizers.decoders.WordPiece()
    engine.post_processor = tokenizers.processors.TemplateProcessing(
        "[CLS] $A" if kind == "decoder" else "[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=engine, pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", unk_token="[UNK]"
    )


def bert(**options: Any) -> Any:
    """An encoder."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40,
        max_position_embeddings=64, initializer_range=0.3, pad_token_id=0, **options,
    )  # fmt: skip
    return BertModel(config).eval()


def longformer() -> Any:
    """An encoder that computes attention in chunks, in its own code."""
    from transformers import LongformerConfig, LongformerModel

    config = LongformerConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40,
        max_position_embeddings=64, attention_window=4, pad_token_id=0,
    )  # fmt: skip
    return LongformerModel(config).eval()


def vit() -> Any:
    """A model that reads images."""
    from transformers import ViTConfig, ViTModel

    return ViTModel(
        ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40, image_size=32)
    )


MODELS = {"encoder": bert, "decoder": models.llama, "encoder-decoder": models.bart, "unseen": longformer, "images": vit}


def saved(kind: str, folder: Path) -> str:
    """The path of a folder that holds a model of `MODELS`, saved there."""
    MODELS[kind]().save_pretrained(folder)
    tokenizer(kind).save_pretrained(folder)
    return str(folder)

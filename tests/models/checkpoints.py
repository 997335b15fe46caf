"""Tiny random checkpoints written by transformers, with a tokeniser, and its eager results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.layers import Transformer
from regard.models.model import Model, opened
from regard.reading import Reading

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

WORDS = [
    "the", "kids", "were", "scared", "of", "lions", "so", "they", "left", "right", "away", "action", "gets", "results",
    "cat", "sat", "keys", "on", "table",
]  # fmt: skip
SENTENCES = ["the kids were scared of the lions", "action gets results", "the cat sat", "keys", "they left right away"]
SPECIAL = {"bert": ["[PAD]", "[UNK]", "[CLS]", "[SEP]"], "causal": ["<unk>", "<end>"]}


@dataclass(frozen=True, eq=False)
class Tiny:
    """A folder and the model of transformers that wrote it."""

    folder: Path
    twin: Any

    def open(self) -> Model:
        return opened(self.folder, "tiny")


def write(folder: Path, config: Any, kind: str, model_class: str, seed: int = 0) -> Tiny:
    """A checkpoint of random weights, biases and norms included, larger than initial weights."""
    torch.manual_seed(seed)
    twin = getattr(transformers, model_class)(config).eval()
    with torch.no_grad():
        for parameter in twin.parameters():
            spread, middle = (0.3, 0.0) if parameter.ndim > 1 else (0.1, 0.5)
            parameter.copy_(torch.randn_like(parameter) * spread + middle)
    twin.save_pretrained(folder)
    tokeniser(kind, config.vocab_size).save(str(folder / "tokenizer.json"))
    twin.set_attn_implementation("eager")
    return Tiny(folder, twin)


def tokeniser(kind: str, size: int) -> Any:
    """Whole words; [CLS] before and [SEP] after for BERT."""
    words = [*SPECIAL[kind], *WORDS]
    words += [f"word{number}" for number in range(len(words), size)]
    vocabulary = {word: number for number, word in enumerate(words)}
    unknown = SPECIAL[kind][1 if kind == "bert" else 0]
    model = tokenizers.models.WordPiece if kind == "bert" else tokenizers.models.WordLevel
    made = tokenizers.Tokenizer(model(vocabulary, unk_token=unknown))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.add_special_tokens(SPECIAL[kind])
    if kind == "bert":
        made.post_processor = tokenizers.processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
    return made


def twin_of(model: Model) -> Any:
    """A Llama of transformers with the same weights as one of Regard."""
    names = (
        "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
        "rms_norm_eps", "rope_theta", "max_position_embeddings", "vocab_size",
    )  # fmt: skip
    config = transformers.LlamaConfig(**{name: model.config[name] for name in names}, tie_word_embeddings=True)
    with torch.device("meta"):
        twin = transformers.LlamaForCausalLM(config)
    weights = {name: torch.from_numpy(np.array(array)) for name, array in _names_of_llama(model.transformer).items()}
    twin.load_state_dict(weights, assign=True)
    twin.model.rotary_emb = type(twin.model.rotary_emb)(config)  # its frequencies are no weights
    twin.set_attn_implementation("eager")
    return twin.eval()


def _names_of_llama(transformer: Transformer) -> dict[str, Any]:
    table = transformer.embedding.weight
    assert transformer.norm is not None
    found = {"model.embed_tokens.weight": table, "lm_head.weight": table, "model.norm.weight": transformer.norm.weight}
    for place, block in enumerate(transformer.encoders):
        attention, feed_forward = block.attention, block.feed_forward
        parts: dict[str, Any] = {f"self_attn.{letter}_proj": getattr(attention, f"w_{letter}") for letter in "qkvo"}
        maps = {"gate_proj": feed_forward.gate, "up_proj": feed_forward.up, "down_proj": feed_forward.down}
        parts |= {f"mlp.{name}": part for name, part in maps.items()}
        parts |= {"input_layernorm": block.norm_1, "post_attention_layernorm": block.norm_2}
        found |= {f"model.layers.{place}.{name}.weight": part.weight for name, part in parts.items()}
    return found


def base_of(twin: Any) -> Any:
    """The model without its head."""
    return getattr(twin, getattr(twin, "base_model_prefix", ""), twin)


def differences(reading: Reading, model: Model, twin: Any) -> tuple[float, float]:
    """The largest differences of hidden states, relative to the largest number of each, and of weights."""
    ids = torch.tensor([[token.id for token in reading.tokens]])
    with torch.no_grad():
        right = base_of(twin)(ids, output_attentions=True, output_hidden_states=True)
    states = list(reading.states)
    if model.transformer.norm is not None:  # transformers gives the last states normed
        states[-1] = model.transformer.norm(states[-1])
    assert len(states) == len(right.hidden_states)
    assert len(reading.seen) == len(right.attentions)
    of_states = [
        np.abs(theirs[0].numpy() - ours).max() / np.abs(ours).max()
        for theirs, ours in zip(right.hidden_states, states, strict=True)
    ]
    of_weights = [
        np.abs(theirs[0].numpy() - seen.attention.dense()).max()
        for theirs, seen in zip(right.attentions, reading.seen, strict=True)
    ]
    return float(max(of_states)), float(max(of_weights))

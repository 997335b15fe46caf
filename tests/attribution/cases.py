"""Tiny random causal models of several kinds, and what transformers computes with them in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.reading.reader import Reader
from regard.watch.pretrained import Pretrained

from ..models.checkpoints import Tiny, torch, transformers, write
from ..watch.folders import tokenizer

SIZES: dict[str, Any] = {"vocab_size": 67, "max_position_embeddings": 61}
CONFIGS: dict[str, tuple[Any, str]] = {
    "gpt2": (
        lambda: transformers.GPT2Config(vocab_size=67, n_positions=61, n_embd=24, n_layer=3, n_head=4, n_inner=29),
        "GPT2LMHeadModel",
    ),
    "llama": (
        lambda: transformers.LlamaConfig(
            **SIZES, hidden_size=24, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2,
            intermediate_size=29, attention_bias=True,
        ),
        "LlamaForCausalLM",
    ),
    "gpt_neox": (
        lambda: transformers.GPTNeoXConfig(
            **SIZES, hidden_size=24, num_hidden_layers=3, num_attention_heads=4, intermediate_size=29
        ),
        "GPTNeoXForCausalLM",
    ),
    "opt": (
        lambda: transformers.OPTConfig(
            **SIZES, hidden_size=24, num_hidden_layers=3, num_attention_heads=4, ffn_dim=29, word_embed_proj_dim=24
        ),
        "OPTForCausalLM",
    ),
    "gemma2": (
        lambda: transformers.Gemma2Config(
            **SIZES, hidden_size=24, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=6,
            intermediate_size=29,
        ),
        "Gemma2ForCausalLM",
    ),
}  # fmt: skip
TEXT = "the cat sat on a mat because it was tired"


def tiny(kind: str, folder: Path) -> Tiny:
    """A model of transformers with random weights, in a folder with a tokenizer."""
    config, name = CONFIGS[kind]
    made = write(folder, config(), "causal", name)
    tokenizer("encoder").save_pretrained(folder)
    return made


def readers(kind: str, made: Tiny) -> list[Reader]:
    """The model run by transformers and, where Regard computes it itself, by Regard."""
    watched: Reader = Pretrained.open(str(made.folder))
    return [watched, made.open()] if kind in ("gpt2", "llama") else [watched]


def reference(made: Tiny, ids: list[int]) -> tuple[Any, list[Any]]:
    """Logits (token, vocabulary) and hidden states of transformers in float64."""
    twin = made.twin.double()
    with torch.no_grad():
        result = twin(torch.tensor([ids]), output_hidden_states=True)
    made.twin.float()
    return result.logits[0], [state[0] for state in result.hidden_states]

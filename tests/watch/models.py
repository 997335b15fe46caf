"""Small random models that tests watch."""

from typing import Any

import torch


def llama(**options: Any) -> Any:
    """A decoder with grouped heads: 3 layers, 4 heads on 2 key heads of size 8."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=67, hidden_size=32, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, initializer_range=0.3, pad_token_id=0, bos_token_id=1,
        eos_token_id=None, **options,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def gemma3(**options: Any) -> Any:
    """A decoder with one layer of sliding-window attention and one of full attention."""
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    torch.manual_seed(3)
    config = Gemma3TextConfig(
        vocab_size=67, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, head_dim=8,
        num_key_value_heads=2, sliding_window=4, query_pre_attn_scalar=8, initializer_range=0.3, pad_token_id=0,
        layer_types=["sliding_attention", "full_attention"], eos_token_id=None, bos_token_id=1, **options,
    )  # fmt: skip
    return Gemma3ForCausalLM(config).eval()


def bart(**options: Any) -> Any:
    """An encoder and a decoder with cross-attention."""
    from transformers import BartConfig, BartForConditionalGeneration

    torch.manual_seed(3)
    config = BartConfig(
        vocab_size=67, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=40, decoder_ffn_dim=40, max_position_embeddings=64, init_std=0.3,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=None, **options,
    )  # fmt: skip
    return BartForConditionalGeneration(config).eval()


def tokens(*shape: int, seed: int = 5) -> torch.Tensor:
    return torch.randint(3, 67, shape, generator=torch.Generator().manual_seed(seed))


def eager_weights(model: Any, **inputs: Any) -> Any:
    """The output of the model with eager attention, which returns all weights."""
    own = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            return model(**inputs, output_attentions=True)
    finally:
        model.set_attn_implementation(own)

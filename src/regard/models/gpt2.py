"""GPT-2: causal pre-norm blocks with learned positions, and a head tied to the embedding."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard import errors
from regard.arrays import Array
from regard.layers import Embedding, Encoder, FeedForward, LayerNorm, Learned, Linear, MultiHead, Transformer
from regard.layers.linear import contiguous
from regard.models.files import Checkpoint
from regard.models.tensors import Tensors, three

PREFIXES = ("transformer.", "")


def transformer(checkpoint: Checkpoint) -> tuple[Transformer, int]:
    """Causal blocks, and the largest number of tokens; files hold weights as (in, out), q, k and v as one tensor."""
    tensors = Tensors.under(checkpoint, PREFIXES, "wte.weight")
    settings = checkpoint.settings
    if not settings.flag("is_causal", True) or settings.part("per_layer_config").values:
        raise tensors.refuse("Bidirectional attention, or settings for single layers (per_layer_config),")
    width = settings.integer(settings.one_name("n_embd", "hidden_size"), 768)
    count = settings.integer(settings.one_name("n_layer", "num_hidden_layers"), 12)
    epsilon = settings.number("layer_norm_epsilon", 1e-5, above=False)
    embedding = tensors.take("wte.weight", None, width)
    positions = tensors.take("wpe.weight", None, width)
    blocks = tuple(_block(tensors, f"h.{number}.", number, width, epsilon) for number in range(count))
    norm = tensors.layer_norm("ln_f", width, epsilon)
    tensors.finish([f"h.{number}." for number in range(count)])
    head = tensors.head(width, len(embedding), settings.flag("tie_word_embeddings", True), embedding)
    return Transformer(Embedding(embedding), Learned(positions), blocks, norm=norm, head=head), len(positions)


def _block(tensors: Tensors, at: str, place: int, width: int, epsilon: float) -> Encoder:
    settings = tensors.settings
    heads = settings.integer(settings.one_name("n_head", "num_attention_heads"), 12)
    hidden = settings.integer("n_inner", 4 * width, null=4 * width)
    if width % heads:
        raise tensors.fault(f"{heads} heads do not divide a width of {width}")
    weight, bias = tensors.transposed(at + "attn.c_attn", 3 * width, width)
    thirds = [None] * 3 if bias is None else np.split(bias, 3)
    usual = (width // heads) ** -0.5
    scale = usual if settings.flag("scale_attn_weights", True) else 1.0
    if settings.flag("scale_attn_by_inverse_layer_idx", False):
        scale /= place + 1
    attention = MultiHead(
        *three(contiguous(np.split(weight, 3), thirds)),
        w_o=Linear(*tensors.transposed(at + "attn.c_proj", width, width)),
        heads=heads,
        causal=True,
        scale=None if scale == usual else scale,
    )
    feed_forward = FeedForward(
        Linear(*tensors.transposed(at + "mlp.c_fc", hidden, width)),
        Linear(*tensors.transposed(at + "mlp.c_proj", width, hidden)),
        settings.activation("activation_function", "gelu_new"),
    )
    norm_1, norm_2 = (tensors.layer_norm(at + name, width, epsilon) for name in ("ln_1", "ln_2"))
    return Encoder(attention, feed_forward, norm_1, norm_2, norm_first=True)


def checkpoint_of(model: Transformer) -> tuple[dict[str, Array], dict[str, Any]]:
    """Tensors and config.json of GPT2LMHeadModel for a transformer of NumPy arrays in GPT-2's shape.

    The inverse of `transformer`: what transformers and `regard.model` read from these is the same model.
    """
    if not isinstance(model.positions, Learned) or model.norm is None or model.head is None or not model.encoders:
        raise errors.unsupported("A transformer without learned positions, a last norm and a head", "GPT-2 has them.")
    first = model.encoders[0]
    norms = (model.norm, *(norm for block in model.encoders for norm in (block.norm_1, block.norm_2)))
    if not all(isinstance(norm, LayerNorm) for norm in norms):
        raise errors.unsupported("A transformer with RMS norms", "GPT-2 has layer norms.")
    tied = model.head.weight is model.embedding.weight
    vocabulary, width = model.embedding.weight.shape
    tensors = {"wte.weight": model.embedding.weight, "wpe.weight": model.positions.weight}
    for number, block in enumerate(model.encoders):
        attention, fed = block.attention, block.feed_forward
        if not (attention.causal and block.norm_first and fed.activation == "gelu_tanh" and attention.w_o is not None):
            raise errors.unsupported("A block that is not causal, pre-norm and with tanh-GELU", "GPT-2's blocks are.")
        maps = {
            "attn.c_attn": (
                np.concatenate([part.weight for part in (attention.w_q, attention.w_k, attention.w_v)]),
                np.concatenate([part.bias for part in (attention.w_q, attention.w_k, attention.w_v)]),
            ),
            "attn.c_proj": (attention.w_o.weight, attention.w_o.bias),
            "mlp.c_fc": (fed.up.weight, fed.up.bias),
            "mlp.c_proj": (fed.down.weight, fed.down.bias),
        }
        for name, (weight, bias) in maps.items():
            tensors[f"h.{number}.{name}.weight"] = np.ascontiguousarray(weight.T)  # files hold (in, out)
            tensors[f"h.{number}.{name}.bias"] = bias
        for name, norm in (("ln_1", block.norm_1), ("ln_2", block.norm_2)):
            tensors |= {f"h.{number}.{name}.{kind}": array for kind, array in norm.parameters().items()}
    tensors |= {f"ln_f.{kind}": array for kind, array in model.norm.parameters().items()}
    tensors = {f"transformer.{name}": tensor for name, tensor in tensors.items()}
    if not tied:
        tensors["lm_head.weight"] = model.head.weight
    config = {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": int(vocabulary),
        "n_positions": len(model.positions.weight),
        "n_embd": int(width),
        "n_layer": len(model.encoders),
        "n_head": first.attention.heads,
        "n_inner": first.feed_forward.up.outputs,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": first.norm_1.epsilon,
        "tie_word_embeddings": tied,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    return tensors, config

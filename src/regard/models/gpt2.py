"""GPT-2: causal blocks with norms first, learned positions, and a head that is the embedding."""

from __future__ import annotations

import numpy as np

from regard.arrays import Array
from regard.layers import Embedding, Encoder, FeedForward, Learned, Linear, MultiHead, Transformer
from regard.layers.joining import together
from regard.models.files import Checkpoint
from regard.models.tensors import Tensors, three

PREFIXES = ("transformer.", "")


def transformer(checkpoint: Checkpoint) -> Transformer:
    """Causal encoders; the files hold every weight as (in, out), and those of query, key and value as one."""
    tensors = Tensors.under(checkpoint, PREFIXES, "wte.weight")
    width = tensors.number("n_embd", "hidden_size")
    epsilon = tensors.real("layer_norm_epsilon", 1e-5)
    embedding = tensors.take("wte.weight", None, width)
    blocks = tensors.number("n_layer", "num_hidden_layers")
    return Transformer(
        Embedding(embedding),
        Learned(tensors.take("wpe.weight", None, width)),
        tuple(_block(tensors, f"h.{place}.", place, width, epsilon) for place in range(blocks)),
        norm=tensors.layer_norm("ln_f", width, epsilon),
        head=_head(checkpoint, embedding),
    )


def _block(tensors: Tensors, at: str, place: int, width: int, epsilon: float) -> Encoder:
    heads = tensors.number("n_head", "num_attention_heads")
    hidden = tensors.number("n_inner", default=4 * width)
    weight, bias = tensors.transposed(at + "attn.c_attn", 3 * width, width)
    thirds = [None] * 3 if bias is None else np.split(bias, 3)
    if width % heads:
        raise tensors.fault(f"{heads} heads cannot share a width of {width}")
    scale = (width // heads) ** -0.5 if tensors.setting("scale_attn_weights", default=True) else 1.0
    if tensors.setting("scale_attn_by_inverse_layer_idx"):
        scale /= place + 1
    attention = MultiHead(
        *three(together(np.split(weight, 3), thirds)),
        w_o=Linear(*tensors.transposed(at + "attn.c_proj", width, width)),
        heads=heads,
        causal=True,
        scale=None if scale == (width // heads) ** -0.5 else scale,
    )
    feed_forward = FeedForward(
        Linear(*tensors.transposed(at + "mlp.c_fc", hidden, width)),
        Linear(*tensors.transposed(at + "mlp.c_proj", width, hidden)),
        tensors.activation("activation_function", default="gelu_new"),
    )
    norm_1, norm_2 = (tensors.layer_norm(at + name, width, epsilon) for name in ("ln_1", "ln_2"))
    return Encoder(attention, feed_forward, norm_1, norm_2, norm_first=True)


def _head(checkpoint: Checkpoint, embedding: Array) -> Linear:
    """Scores of the next token; the embedding itself unless the file has another."""
    own = Tensors(checkpoint)
    tied = own.setting("tie_word_embeddings", default=True) or not own.has("lm_head.weight")
    return Linear(embedding if tied else own.take("lm_head.weight", *embedding.shape))

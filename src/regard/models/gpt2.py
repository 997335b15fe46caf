"""GPT-2: causal pre-norm blocks with learned positions, and a head that is tied to the embedding."""

from __future__ import annotations

import numpy as np

from regard.layers import Embedding, Encoder, FeedForward, Learned, Linear, MultiHead, Transformer
from regard.layers.joining import together
from regard.models.files import Checkpoint
from regard.models.tensors import Tensors, three

PREFIXES = ("transformer.", "")


def transformer(checkpoint: Checkpoint) -> tuple[Transformer, int]:
    """Causal encoders, and the longest text; files hold weights as (in, out), those of q, k and v as one tensor."""
    tensors = Tensors.under(checkpoint, PREFIXES, "wte.weight")
    settings = checkpoint.settings
    if not settings.flag("is_causal", True) or settings.part("per_layer_config").values:
        raise tensors.refuse("Bidirectional attention, or settings for single layers (per_layer_config),")
    width = settings.integer(settings.one_name("n_embd", "hidden_size"), 768)
    count = settings.integer(settings.one_name("n_layer", "num_hidden_layers"), 12)
    epsilon = settings.number("layer_norm_epsilon", 1e-5, above=False)
    embedding = tensors.take("wte.weight", None, width)
    positions = tensors.take("wpe.weight", None, width)
    blocks = tuple(_block(tensors, f"h.{place}.", place, width, epsilon) for place in range(count))
    norm = tensors.layer_norm("ln_f", width, epsilon)
    tensors.finish([f"h.{place}." for place in range(count)])
    head = tensors.head(width, len(embedding), settings.flag("tie_word_embeddings", True), embedding)
    return Transformer(Embedding(embedding), Learned(positions), blocks, norm=norm, head=head), len(positions)


def _block(tensors: Tensors, at: str, place: int, width: int, epsilon: float) -> Encoder:
    settings = tensors.settings
    heads = settings.integer(settings.one_name("n_head", "num_attention_heads"), 12)
    hidden = settings.integer("n_inner", 4 * width, null=4 * width)
    if width % heads:
        raise tensors.fault(f"{heads} heads cannot share a width of {width}")
    weight, bias = tensors.transposed(at + "attn.c_attn", 3 * width, width)
    thirds = [None] * 3 if bias is None else np.split(bias, 3)
    usual = (width // heads) ** -0.5
    scale = usual if settings.flag("scale_attn_weights", True) else 1.0
    if settings.flag("scale_attn_by_inverse_layer_idx", False):
        scale /= place + 1
    attention = MultiHead(
        *three(together(np.split(weight, 3), thirds)),
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

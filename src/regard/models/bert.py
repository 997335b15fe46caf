"""BERT and its kind: BERT, MiniLM, RoBERTa, DistilBERT."""

from __future__ import annotations

from dataclasses import dataclass

from regard.layers import Embedding, Encoder, FeedForward, Learned, MultiHead, Transformer
from regard.models.files import Checkpoint
from regard.models.tensors import Tensors

PREFIXES = ("", "bert.", "roberta.", "distilbert.", "model.")


@dataclass(frozen=True)
class Names:
    """What the parts of a block are called."""

    block: str
    query_key_value: tuple[str, str, str]
    output: str
    norm_1: str
    up: str
    down: str
    norm_2: str


BERT = Names(
    "encoder.layer.{}.",
    ("attention.self.query", "attention.self.key", "attention.self.value"),
    "attention.output.dense",
    "attention.output.LayerNorm",
    "intermediate.dense",
    "output.dense",
    "output.LayerNorm",
)
DISTILBERT = Names(
    "transformer.layer.{}.",
    ("attention.q_lin", "attention.k_lin", "attention.v_lin"),
    "attention.out_lin",
    "sa_layer_norm",
    "ffn.lin1",
    "ffn.lin2",
    "output_layer_norm",
)


def transformer(checkpoint: Checkpoint) -> Transformer:
    """Encoders after the paper: a norm after each part, learned positions, everything seen from everywhere."""
    tensors = Tensors.under(checkpoint, PREFIXES, "embeddings.word_embeddings.weight")
    names = DISTILBERT if tensors.has(DISTILBERT.block.format(0) + f"{DISTILBERT.output}.weight") else BERT
    if tensors.setting("is_decoder") or tensors.setting("add_cross_attention"):
        raise tensors.refuse("A BERT that decodes")
    if tensors.setting("position_embedding_type", default="absolute") != "absolute":
        raise tensors.refuse(f"Positions of the kind {tensors.setting('position_embedding_type')!r}")
    width = tensors.number("hidden_size", "dim")
    epsilon = tensors.real("layer_norm_eps", 1e-12)
    return Transformer(
        Embedding(tensors.take("embeddings.word_embeddings.weight", None, width)),
        _positions(tensors, width),
        tuple(
            _block(tensors, names, place, width, epsilon)
            for place in range(tensors.number("num_hidden_layers", "n_layers"))
        ),
        embedding_norm=tensors.layer_norm("embeddings.LayerNorm", width, epsilon),
    )


def _positions(tensors: Tensors, width: int) -> Learned:
    """Learned positions, with the row of the first kind of text (all tokens are of it) added to each."""
    weight = tensors.take("embeddings.position_embeddings.weight", None, width)
    named = f"{tensors.checkpoint.architecture} {tensors.setting('model_type')}".lower()
    if "roberta" in named or "camembert" in named:
        first = tensors.setting("pad_token_id", default=1) + 1  # RoBERTa counts from behind the number of its padding
        if not 0 < first < len(weight):
            raise tensors.fault(f"its setting 'pad_token_id' is {first - 1}, and it has {len(weight)} positions")
        weight = weight[first:]
    if tensors.has("embeddings.token_type_embeddings.weight"):
        weight = weight + tensors.take("embeddings.token_type_embeddings.weight", None, width)[0]
    return Learned(weight)


def _block(tensors: Tensors, names: Names, place: int, width: int, epsilon: float) -> Encoder:
    at = names.block.format(place)
    heads = tensors.number("num_attention_heads", "n_heads")
    hidden = tensors.number("intermediate_size", "hidden_dim", default=4 * width)
    attention = MultiHead(
        *tensors.query_key_value([at + name for name in names.query_key_value], [width] * 3, width),
        w_o=tensors.linear(at + names.output, width, width),
        heads=heads,
    )
    return Encoder(
        attention,
        FeedForward(
            tensors.linear(at + names.up, hidden, width),
            tensors.linear(at + names.down, width, hidden),
            tensors.activation("hidden_act", "activation", default="gelu"),
        ),
        tensors.layer_norm(at + names.norm_1, width, epsilon),
        tensors.layer_norm(at + names.norm_2, width, epsilon),
    )

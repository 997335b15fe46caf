"""BERT and its relatives: BERT, MiniLM, RoBERTa, XLM-RoBERTa, CamemBERT, DistilBERT."""

from __future__ import annotations

from dataclasses import dataclass

from regard.layers import Embedding, Encoder, FeedForward, Learned, MultiHead, Transformer
from regard.models.files import Checkpoint
from regard.models.tensors import Tensors

PREFIXES = ("", "bert.", "roberta.", "distilbert.", "model.")
ROBERTA = ("roberta", "xlm-roberta", "camembert")


@dataclass(frozen=True)
class Names:
    """The names of the parts of a block."""

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


def transformer(checkpoint: Checkpoint) -> tuple[Transformer, int]:
    """Post-norm encoders with learned positions, bidirectional; and the largest number of tokens."""
    tensors = Tensors.under(checkpoint, PREFIXES, "embeddings.word_embeddings.weight")
    distil = checkpoint.family == "distilbert"
    sizes = _sizes(tensors, distil)
    names = DISTILBERT if distil else BERT
    embedding = Embedding(tensors.take("embeddings.word_embeddings.weight", None, sizes.width))
    positions, longest = _positions(tensors, sizes)
    blocks = tuple(_block(tensors, names, number, sizes) for number in range(sizes.layers))
    norm = tensors.layer_norm("embeddings.LayerNorm", sizes.width, sizes.epsilon)
    tensors.finish([names.block.format(number) for number in range(sizes.layers)])
    return Transformer(embedding, positions, blocks, embedding_norm=norm), longest


@dataclass(frozen=True)
class BertSizes:
    """The settings that all blocks share."""

    width: int
    layers: int
    heads: int
    hidden: int
    epsilon: float
    activation: str


def _sizes(tensors: Tensors, distil: bool) -> BertSizes:
    """The settings, with the defaults of transformers 5.22."""
    settings = tensors.settings
    if settings.part("per_layer_config").values:
        raise tensors.refuse("Settings for single layers (per_layer_config)")
    if distil:
        return BertSizes(
            settings.integer(settings.one_name("dim", "hidden_size"), 768),
            settings.integer(settings.one_name("n_layers", "num_hidden_layers"), 6),
            settings.integer(settings.one_name("n_heads", "num_attention_heads"), 12),
            settings.integer("hidden_dim", 3072),
            1e-12,  # DistilBERT has no setting for it
            settings.activation("activation", "gelu"),
        )
    if settings.flag("is_decoder", False) or settings.flag("add_cross_attention", False):
        raise tensors.refuse("A BERT decoder")
    kind = settings.text("position_embedding_type", "absolute", null="absolute")
    if kind != "absolute":
        raise tensors.refuse(f"Position embeddings of type {kind[:40]!r}")
    return BertSizes(
        settings.integer("hidden_size", 768),
        settings.integer("num_hidden_layers", 12),
        settings.integer("num_attention_heads", 12),
        settings.integer("intermediate_size", 3072),
        settings.number("layer_norm_eps", 1e-12, above=False),
        settings.activation("hidden_act", "gelu"),
    )


def _positions(tensors: Tensors, sizes: BertSizes) -> tuple[Learned, int]:
    """Learned positions, with the row of the first token type (the type of all tokens) added; and their number."""
    weight = tensors.take("embeddings.position_embeddings.weight", None, sizes.width)
    family, padding = tensors.checkpoint.family, None
    if family in ROBERTA:  # positions start after the id of the padding token
        padding = tensors.settings.integer("pad_token_id", 1, least=0)
        if padding + 1 >= len(weight):
            raise tensors.fault(f"its setting 'pad_token_id' is {padding}; expected less than {len(weight) - 1}")
    if family != "distilbert":
        weight = weight + tensors.take("embeddings.token_type_embeddings.weight", None, sizes.width)[0]
    return Learned(weight, padding), len(weight) if padding is None else len(weight) - padding - 1


def _block(tensors: Tensors, names: Names, place: int, sizes: BertSizes) -> Encoder:
    at, width = names.block.format(place), sizes.width
    attention = MultiHead(
        *tensors.query_key_value([at + name for name in names.query_key_value], [width] * 3, width),
        w_o=tensors.linear(at + names.output, width, width),
        heads=sizes.heads,
    )
    return Encoder(
        attention,
        FeedForward(
            tensors.linear(at + names.up, sizes.hidden, width),
            tensors.linear(at + names.down, width, sizes.hidden),
            sizes.activation,
        ),
        tensors.layer_norm(at + names.norm_1, width, sizes.epsilon),
        tensors.layer_norm(at + names.norm_2, width, sizes.epsilon),
    )

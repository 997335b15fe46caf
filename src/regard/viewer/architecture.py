"""A model as blocks with shapes and numbers of parameters, for the page to draw.

A stage is {"id", "title", "parameters", "shapes": [[name, sizes]], "note", "count", "parts"}: `parts` are the stages
inside a block, `count` the number of equal blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from regard.arrays import Array
from regard.layers import Decoder, Encoder, FeedForward, LayerNorm, Learned, Linear, MultiHead, Transformer
from regard.layers.norms import Norm
from regard.reading import Reading

Stage = dict[str, Any]
NO_ARRAYS: Mapping[str, Array] = {}


def architecture(reading: Reading) -> dict[str, Any]:
    """What is known of the model behind a reading: stages from the tokens to the result, and where a trace lies."""
    origin = None if reading.trace is None else reading.trace.origin
    model = None if origin is None else origin.model
    model = model if reading.reader is None else reading.reader.transformer
    if model is not None:
        stages = stages_of(model)
    else:
        stages = [_stack("encoder", reading.blocks) if reading.blocks else _of_attention(reading)]
    where = None
    if origin is not None and model is not None and origin.place is not None:
        block, which = origin.place
        is_encoder = block < len(model.encoders)
        stack = "encoder" if is_encoder else "decoder"
        where = {"stack": stack, "block": block if is_encoder else block - len(model.encoders), "which": which}
    return {
        "model": reading.model,
        "stages": stages,
        "parameters": None if model is None else model.count(),
        "width": stages[0].get("width") if model is None else model.embedding.width,
        "tokens": len(reading.queries),
        "longest": None if reading.reader is None else reading.reader.longest,
        "place": where,  # of a trace: in which block, and whether in its cross-attention
    }


def stages_of(model: Transformer) -> list[Stage]:
    """The stages of a model, from the tokens to the result."""
    stage, parts = _table("embedding", "Embedding", model.embedding.weight), []
    if model.positions is not None:
        shapes = {"positions": model.positions.weight} if isinstance(model.positions, Learned) else {}
        note = "learned, added" if shapes else "sines and cosines, added"
        parts.append(_stage("positions", "+ positions", model.positions.count(), note, shapes))
    if model.embedding_norm is not None:
        parts.append(_norm("embedding_norm", model.embedding_norm))
    total = stage["parameters"] + sum(part["parameters"] for part in parts)
    stages = [{**stage, "parts": parts, "parameters": total}]
    if model.encoders:
        stages.append(_stack("encoder", model.encoders))
    if model.memory_norm is not None:
        stages.append(_norm("memory_norm", model.memory_norm))
    if model.encoders and model.decoders and model.target_embedding is not None:
        stages.append(_table("target_embedding", "Embedding of targets", model.target_embedding.weight))
    if model.decoders:
        stages.append(_stack("decoder", model.decoders))
    if model.norm is not None:
        stages.append(_norm("norm", model.norm))
    if model.head is not None:
        tied = model.head.weight is model.embedding.weight
        note = "the embedding again, transposed" if tied else ""
        stages.append(_stage("head", "Next token", model.head.count(), note, {"W": model.head.matrix}, tied=tied))
    return stages


def _stack(kind: str, blocks: Sequence[Encoder | Decoder]) -> Stage:
    """Blocks of one kind; runs of equal ones are one stage with a count."""
    stages: list[Stage] = []
    for _, run in groupby(enumerate(blocks), key=lambda numbered: _signature(numbered[1])):
        (first, block), *others = run
        stages.append({
            "id": "block",
            "title": kind.capitalize(),
            "first": first,
            "count": 1 + len(others),
            "parameters": block.count(),
            "parts": _parts(block),
            "norm_first": block.norm_first,
        })  # fmt: skip
    return {
        "id": kind,
        "title": f"{kind.capitalize()} blocks",
        "count": len(blocks),
        "width": blocks[0].width,
        "parameters": sum(block.count() for block in blocks),
        "parts": stages,
    }


def _signature(block: Encoder | Decoder) -> tuple[Any, ...]:
    layer = block.attention
    shapes = tuple(tuple(linear.weight.shape) for linear in (layer.w_q, layer.w_k, block.feed_forward.up))
    return (*shapes, layer.heads, layer.groups, layer.causal, layer.window, block.norm_first, type(block))


def _parts(block: Encoder | Decoder) -> list[Stage]:
    """In the order of the computation."""
    first = block.norm_first

    def around(name: str, norm: Norm, stage: Stage) -> list[Stage]:
        both = [_norm(name, norm), stage]
        return both if first else both[::-1]

    parts = around("norm_1", block.norm_1, _attention("attention", "Attention", block.attention))
    if isinstance(block, Decoder):
        if block.cross is not None and block.norm_2 is not None:
            parts += around("norm_2", block.norm_2, _attention("cross", "Cross-attention", block.cross))
        return parts + around("norm_3", block.norm_3, _feed_forward(block.feed_forward))
    return parts + around("norm_2", block.norm_2, _feed_forward(block.feed_forward))


def _stage(
    name: str, title: str, parameters: int | None, note: str = "", arrays: Mapping[str, Array] = NO_ARRAYS, **more: Any
) -> Stage:
    """A stage with the shapes of its arrays, as y = x · W has them."""
    shapes = [[label, list(array.shape)] for label, array in arrays.items()]
    return {"id": name, "title": title, "parameters": parameters, "shapes": shapes, "note": note, **more}


def _matrices(**linears: Linear | None) -> dict[str, Array]:
    return {name: linear.matrix for name, linear in linears.items() if linear is not None}


def _attention(name: str, title: str, layer: MultiHead) -> Stage:
    notes = ["causal" if layer.causal else "", f"window {layer.window}" if layer.window is not None else ""]
    notes += ["RoPE turns q and k" if layer.rotary is not None else "", "ALiBi" if layer.alibi is not None else ""]
    notes += [f"{layer.groups} key heads" if layer.groups != layer.heads else ""]
    matrices = _matrices(W_Q=layer.w_q, W_K=layer.w_k, W_V=layer.w_v, W_O=layer.w_o)
    sizes = {"heads": layer.heads, "key_heads": layer.groups, "head_dim": layer.head_dim}
    return _stage(name, title, layer.count(), ", ".join(filter(None, notes)), matrices, **sizes)


def _feed_forward(layer: FeedForward) -> Stage:
    matrices = _matrices(W_gate=layer.gate, W_1=layer.up, W_2=layer.down)
    note = f"{layer.activation}{', gated' if layer.gate is not None else ''}"
    return _stage("feed_forward", "Feed-forward", layer.count(), note, matrices, hidden=layer.up.outputs)


def _norm(name: str, norm: Norm) -> Stage:
    return _stage(name, "Norm", norm.count(), "layer norm" if isinstance(norm, LayerNorm) else "RMS norm")


def _table(name: str, title: str, weight: Array) -> Stage:
    return _stage(name, title, weight.shape[0] * weight.shape[1], arrays={"E": weight})


def _of_attention(reading: Reading) -> Stage:
    """Attention alone: given vectors, or a model whose weights are not known."""
    attention = reading.seen[0].attention
    note = "" if attention.mask is None else attention.mask.expression
    heads, key_heads = attention.shape[0], attention.keys.shape[0]
    sizes = {"heads": heads, "key_heads": key_heads, "head_dim": attention.queries.shape[-1]}
    stage = _stage("attention", "Attention", None, note, **sizes)
    block = {"id": "block", "title": "Layer", "first": 0, "count": reading.layers, "parameters": None, "parts": [stage]}
    return {"id": "encoder", "title": "Layers", "count": reading.layers, "parameters": None, "parts": [block]}

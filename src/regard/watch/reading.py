"""From a watched model and its tokenizer to a `Reading`: one sequence, its words, and every layer's attention."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard import errors
from regard.attention import Attention
from regard.layers import LayerAttention
from regard.models import tokens as tokenisers
from regard.models.model import tokens_of
from regard.reading import Reading, Token
from regard.reading.edit import edited_name
from regard.watch.call import Call, part_of
from regard.watch.layer import VISION, Layers, WatchedLayer
from regard.watch.lazy_mask import MaskCall
from regard.watch.recorder import Recorder
from regard.watch.tokens_seen import sequences

Stacks = Mapping[str, Layers]  # by the pattern of their module names


def reading_of(recorder: Recorder, stacks: Stacks, tokenizer: Any, inputs: Any = None, batch: int = 0) -> Reading:
    """One sequence of the batch, without its padding."""
    ids = _ids_seen(stacks, batch) if inputs is None else _ids(tokenizer, inputs, batch)
    layers = _text_layers(stacks, len(ids))
    of_layers, outputs, real = [], [], None
    for layer in layers:
        call = layer._kept("attention").joined()
        if batch >= call.batch:
            raise errors.index_out_of_range("batch", batch, call.batch)
        real = _real_tokens(layer, batch, call)
        of_layers.append(_seen(call, batch, real))
        outputs.append(in_numpy(layer.output[batch][:, real[0] : real[1]]))
    assert real is not None
    count = real[1] - real[0]
    inputs = inputs[batch] if _are_texts(inputs) else inputs
    ids = _unpadded(ids, real, layers[0])
    verified = _check_tokens(layers[-1], tokenizer, ids, real, int(call.queries.shape[2]), batch)
    text, tokens = _tokens(tokenizer, inputs, ids, count)
    return Reading(
        text, tokens, tuple(of_layers), tuple(outputs),
        model=edited_name(recorder.model, recorder.edits.parts),
        layer_numbers=tuple(layer.number for layer in layers), head_numbers=tuple(layers[0].heads or ()),
        is_text_known=verified, file=recorder.file, is_edited=any(layer.is_edited for layer in layers),
    )  # fmt: skip


def _text_layers(stacks: Stacks, tokens: int) -> list[WatchedLayer]:
    """The stack that reads the tokens: of several, the one with as many of them."""
    of_text = [list(layers) for name, layers in stacks.items() if not layers[0:1][0].cross and not VISION.search(name)]
    if not of_text:
        raise errors.option("layers", list(stacks), "at least one watched self-attention layer that reads tokens")
    fitting = [
        stack for stack in of_text if stack[0]._kept("attention").joined().queries.shape[2] in (tokens, tokens - 1)
    ]
    return sorted((fitting or of_text)[0], key=lambda layer: layer.number)


def _real_tokens(layer: WatchedLayer, batch: int, call: Call) -> tuple[int, int]:
    """First and last position of the sequence, padding left out."""
    real = layer.runs[-1].real_queries()
    if real is None:
        return 0, int(call.queries.shape[2])
    positions = real[batch].nonzero().flatten()
    first, last = int(positions[0]), int(positions[-1]) + 1
    if last - first != len(positions):
        raise errors.unsupported("A sequence with padding inside", "Give a sequence that is padded at its ends only.")
    return first, last


def _seen(call: Call, batch: int, real: tuple[int, int]) -> LayerAttention:
    """Attention (head, token, token) and values of one sequence, as NumPy arrays."""
    if call.queries.shape[2] != call.keys.shape[2]:
        raise errors.option(
            "inputs", f"{call.queries.shape[2]} queries with {call.keys.shape[2]} keys", "a text read from its start"
        )
    first, last = real
    tokens = slice(first, last)
    rule, bias = part_of(part_of(call.rule, tokens, 3), tokens, 2), part_of(part_of(call.bias, tokens, 3), tokens, 2)
    if isinstance(rule, MaskCall):
        start = rule.key_offset + first
        rule = replace(rule.over(start, last - first, start, last - first), padding=None)
    queries, keys = call.queries[:, :, tokens], call.keys[:, :, tokens]
    edges = tuple(replace(edge, queries=edge.queries - first, keys=edge.keys - first) for edge in call.edges)
    real_part = replace(call, queries=queries, keys=keys, rule=rule, bias=bias, static=False, edges=edges)
    attention = real_part.attention().select(batch=batch)
    return LayerAttention(numpy_attention(attention), in_numpy(call.values[batch, :, tokens]))


def numpy_attention(attention: Attention) -> Attention:
    """The same attention of NumPy arrays."""
    names = ("queries", "keys", "scale", "mask", "bias", "softcap", "sinks", "offset")
    fields = {name: getattr(attention, name) for name in names}
    fields |= {name: in_numpy(field) for name, field in fields.items() if isinstance(field, Tensor)}
    return Attention(**fields)


def in_numpy(tensor: Tensor) -> Any:
    """As a NumPy array; bfloat16 as float32."""
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def _ids(tokenizer: Any, inputs: Any, batch: int) -> list[int]:
    """The token ids of one sequence, from a text, ids or a mapping with `input_ids`."""
    if isinstance(inputs, str):
        inputs = tokenizer(inputs)
    elif _are_texts(inputs):
        inputs = tokenizer(list(inputs), padding=getattr(tokenizer, "pad_token", None) is not None)
    if hasattr(inputs, "sequences"):
        inputs = inputs.sequences
    if hasattr(inputs, "keys") and "input_ids" in inputs:
        inputs = inputs["input_ids"]
    if not hasattr(inputs, "shape") and not isinstance(inputs, (list, tuple)):
        raise errors.option("inputs", inputs, "a text, token ids, or the tokenizer's output")
    try:
        ids = torch.as_tensor(inputs)
    except (TypeError, ValueError, RuntimeError):  # rows of unequal length, or anything but integers
        raise errors.option("inputs", inputs, "texts, or token ids of one length, as the model was given") from None
    ids = ids[None] if ids.ndim == 1 else ids
    if batch >= ids.shape[0]:
        raise errors.index_out_of_range("batch", batch, ids.shape[0])
    return [int(number) for number in ids[batch]]


def _are_texts(inputs: Any) -> bool:
    return isinstance(inputs, (list, tuple)) and bool(inputs) and all(isinstance(text, str) for text in inputs)


def _ids_seen(stacks: Stacks, batch: int) -> list[int]:
    """The token ids that the model was called with."""
    for name, layers in stacks.items():
        first, last = layers[0:1][0], layers[-1:][0]
        if first.cross or VISION.search(name):
            continue
        call = first._kept("attention").joined()
        count = int(call.queries.shape[2])
        if batch >= call.batch:
            raise errors.index_out_of_range("batch", batch, call.batch)
        for ids in sequences(last.runs[-1].texts, count, batch):
            if len(ids) == count:
                return ids
    raise errors.option(
        "inputs",
        None,
        "the text or token ids, because the model was not called with token ids that are known",
        "Give what the model was called with: seen.reading(tokenizer, inputs).",
    )


def _check_tokens(
    layer: WatchedLayer, tokenizer: Any, ids: list[int], real: tuple[int, int], tokens: int, batch: int
) -> bool:
    """Whether these are the ids that the model was called with; an error if it was called with others."""
    first, last = real
    texts = [read_ids[first:last] for read_ids in sequences(layer.runs[-1].texts, tokens, batch)]
    if any(ids[: len(read_ids)] == read_ids for read_ids in texts):
        return True
    if not texts:
        return False
    read_ids = texts[0]
    position = next(position for position, both in enumerate(zip(ids, read_ids, strict=False)) if both[0] != both[1])
    names = [errors.shown(str(tokenizer.decode([number]))) for number in (ids[position], read_ids[position])]
    raise errors.OptionError(
        f"`inputs` are not what the model has read: token {position} is {names[0]}, the model was called with "
        f"{names[1]}.\n"
        "Leave them out, seen.reading(tokenizer), or give the text of this pass; `batch` chooses the sequence."
    )


def _unpadded(ids: list[int], real: tuple[int, int], layer: WatchedLayer) -> list[int]:
    first, last = real
    if last > len(ids):
        raise errors.OptionError(
            f"`inputs` hold {errors.count(len(ids), 'token')}, the layer {layer.name} has seen {last}.\n"
            "Give the ids that the model was called with; after generate(), the sequences that it returned."
        )
    return ids[first:last]


def tokens_of_ids(tokenizer: Any, ids: list[int]) -> tuple[str, tuple[Token, ...]]:
    """Text and tokens of token ids."""
    return _tokens(tokenizer, None, ids, len(ids))


def _tokens(tokenizer: Any, inputs: Any, ids: list[int], count: int) -> tuple[str, tuple[Token, ...]]:
    """Text and tokens; those of a text as typed, others as the tokens spell them."""
    engine = getattr(tokenizer, "backend_tokenizer", None)
    if engine is None:
        return _spelled(tokenizer, ids)
    tokeniser = tokenisers.of(deepcopy(engine), Path(str(getattr(tokenizer, "name_or_path", "tokenizer"))))
    if isinstance(inputs, str):
        encoded = tokeniser.encode(inputs)
        if encoded.ids == ids:
            return inputs, tokens_of(encoded)
    text, encoded = tokeniser.spell(ids)
    return text, tokens_of(encoded)


def _spelled(tokenizer: Any, ids: list[int]) -> tuple[str, tuple[Token, ...]]:
    """With a tokenizer that is written in Python: its names of the tokens."""
    special = set(getattr(tokenizer, "all_special_ids", ()))
    text, spans = "", []
    for number, name in zip(ids, tokenizer.convert_ids_to_tokens(ids), strict=True):
        piece = str(name).replace("▁", "").replace("Ġ", "").removeprefix("##")
        text += " " if text else ""
        spans.append(Token(piece, number, len(text), len(text) + len(piece), number in special))
        text += piece
    return text, tuple(spans)

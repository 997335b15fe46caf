"""Attention of `regard.layers` inside a watched model: `regard.training.Module` hands it over here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard import masks
from regard.attention import Attention
from regard.watch import interface
from regard.watch.call import Call, TensorMask
from regard.watch.call_edits import edits_of_call
from regard.watch.lazy_mask import MaskCall


def is_watched(module: Any) -> bool:
    """Whether a `with regard.watch(…)` block watches this module."""
    return bool(interface.RECORDERS.get(id(module)))


def record(module: Any, attention: Attention, values: Tensor, rows: Tensor) -> Tensor:
    """One call of an attention layer, with the concatenated outputs of its heads, (…, token, head · value_dim).

    Returns these outputs, as edits change them.
    """
    layers, watching, is_edited = interface.layers_for(module)
    if not watching and not is_edited:
        return rows
    call = _call(attention, values, layers[0][1].cross)
    output = rows.reshape(call.batch, call.queries.shape[2], call.queries.shape[1], -1)
    edits = edits_of_call(layers, call) if is_edited else None
    if edits is not None:
        output = edits.apply(output.transpose(1, 2)).transpose(1, 2)
        call = replace(call, edges=tuple(edits.edges))
    with torch.no_grad():
        for recorder, layer in watching:
            layer.is_edited |= is_edited
            recorder.record(layer, call, output, None)
    return output.reshape(rows.shape) if is_edited else rows


def _call(attention: Attention, values: Tensor, cross: bool) -> Call:
    queries, keys, values = (
        part if part.ndim == 4 else part[None] for part in (attention.queries, attention.keys, values)
    )
    count, length, offset = queries.shape[2], keys.shape[2], int(attention.offset or 0)
    rule: MaskCall | TensorMask = MaskCall.everything(count, length)
    if attention.mask == masks.causal():
        rule = MaskCall.causal(count, length, offset)
    elif attention.mask is not None:
        visible = attention.mask.visible(
            queries=count, keys=length, batch=queries.shape[0], heads=queries.shape[1], offset=offset, xp=torch,
            device=queries.device,
        )  # fmt: skip
        rule = TensorMask(visible.tile(slice(0, count), slice(0, length)))
    return Call(
        queries, keys, values, rule, attention.scale, attention.softcap, attention.sinks, attention.bias, cross=cross,
        position=offset,
    )  # fmt: skip

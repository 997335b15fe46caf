"""Edits in plain PyTorch, for comparison: dense attention registered with transformers, and hooks on modules.

Nothing of Regard is used here. Layers are found by the first number in a module's name, stacks by the names of modules.
"""

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

from ..patterns import search

NAME = "dense_with_edits"
Change = Callable[
    [str, int, dict[str, Any]], None
]  # of the attention's name and layer: changes tensors in the dictionary
CURRENT: dict[str, Any] = {"change": None, "names": {}}


def attend(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **options: Any) -> Any:
    """Softmax attention with all weights; `change` sees and alters queries, keys, values, allowed edges, outputs."""
    name = CURRENT["names"][id(module)]
    layer = int(search(r"\d+", name)[0])
    group = query.shape[1] // key.shape[1]
    parts = {
        "queries": query.clone(), "keys": key.repeat_interleave(group, 1), "values": value.repeat_interleave(group, 1),
        "blocked": torch.zeros(*query.shape[:3], key.shape[2], dtype=torch.bool), "zeroed": None,
    }  # fmt: skip
    change = CURRENT["change"] or (lambda *_: None)
    change(name, layer, parts)
    scale = options.get("scaling")
    scores = parts["queries"] @ parts["keys"].mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if options.get("softcap") is not None:
        scores = torch.tanh(scores / options["softcap"]) * options["softcap"]
    if options.get("position_bias") is not None:
        scores = scores + options["position_bias"]
    if attention_mask is not None:
        scores = scores + attention_mask[..., : scores.shape[-1]]
    scores = scores.masked_fill(parts["blocked"], -1e30)
    if options.get("s_aux") is not None:
        sink = options["s_aux"].reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        weights = torch.cat([scores, sink], -1).softmax(-1)[..., :-1]
    else:
        weights = scores.softmax(-1)
    if parts["zeroed"] is not None:
        weights = weights.masked_fill(parts["zeroed"], 0)
    outputs = weights @ parts["values"]
    RECORDED[name] = {**parts, "outputs": outputs.clone()}
    if "after" in parts:
        parts["after"](outputs)
    return outputs.transpose(1, 2).contiguous(), weights


RECORDED: dict[str, dict[str, Any]] = {}


@contextmanager
def dense(model: Any, change: Change | None = None) -> Any:
    """Let a model compute with `attend`."""
    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, ALL_MASK_ATTENTION_FUNCTIONS["eager"])
    before = {}
    for module in model.modules():
        config = getattr(module, "config", None)
        waiting = [config] if config is not None else []
        while waiting:
            one = waiting.pop()
            if id(one) not in before and hasattr(one, "_attn_implementation_internal"):
                before[id(one)] = one, one._attn_implementation_internal
                one._attn_implementation_internal = NAME
                waiting += [getattr(one, name, None) for name in getattr(one, "sub_configs", {})]
    CURRENT.update(change=change, names={id(module): name for name, module in model.named_modules()})
    RECORDED.clear()
    try:
        yield RECORDED
    finally:
        CURRENT["change"] = None
        for one, name in before.values():
            one._attn_implementation_internal = name

"""Which models can be watched, found out before they run where that is possible."""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from torch import nn

from regard import errors

INTERFACE = "ALL_ATTENTION_FUNCTIONS"
TORCH_CALLS = ("scaled_dot_product_attention", "MultiheadAttention", "TransformerEncoder", "TransformerDecoder")


@dataclass(frozen=True)
class Support:
    """How the attention of a model is seen."""

    models: tuple[nn.Module, ...]  # whose forward is one pass
    followed: tuple[nn.Module, ...]  # that may call attention
    interface: bool  # by transformers' attention interface
    torch_calls: bool  # by calls of PyTorch's own attention


def support_of(model: nn.Module) -> Support:
    """How a model can be watched; an error if its code computes attention itself."""
    pretrained = tuple(module for module in model.modules() if _is_pretrained(module))
    files = {type(module).__module__ for module in model.modules()}
    own = [name for name in files if not _is_of_torch(name)]
    uses_interface = any(INTERFACE in _source(name) for name in own)
    # Modules of PyTorch itself are seen by their calls; so is home-made code, of which there may be no source.
    plain = not pretrained or pretrained[0] is not model
    uses_torch = plain or any(one in _source(name) for name in own for one in TORCH_CALLS)
    if not uses_interface and not uses_torch:
        raise unseen_error(model)
    roots = pretrained if pretrained and pretrained[0] is model else (model, *pretrained)
    by_torch = uses_torch and not (uses_interface and not plain)
    return Support(roots, _followed(model, by_torch), uses_interface, by_torch)


def _followed(model: nn.Module, by_torch: bool) -> tuple[nn.Module, ...]:
    """The modules that may call attention: those that name the interface, or all but the layers of PyTorch."""
    found = () if by_torch else tuple(module for module in model.modules() if _names_interface(module.__class__))
    return found or tuple(
        module
        for module in model.modules()
        if module is model or hasattr(module, "in_proj_weight") or not _is_of_torch(type(module).__module__)
    )


@lru_cache(maxsize=1024)
def _names_interface(kind: type) -> bool:
    """Whether a method of a class names transformers' attention interface."""
    methods = (inspect.unwrap(one) for base in kind.__mro__ for one in vars(base).values() if inspect.isfunction(one))
    return any(INTERFACE in method.__code__.co_names for method in methods)


def unseen_error(model: nn.Module) -> errors.Unsupported:
    """A model whose code never calls a replaceable attention function."""
    name = type(model).__name__
    return errors.Unsupported(
        f"{name} computes its attention in its own code: it calls neither transformers' attention interface nor "
        "torch.nn.functional.scaled_dot_product_attention, so its attention cannot be watched.\n"
        'The model itself may return it: load it with attn_implementation="eager" and call it with '
        "output_attentions=True, at n² memory per layer. BERT, GPT-2 and Llama kinds are also read by "
        "regard.model(folder)."
    )


def _is_of_torch(name: str) -> bool:
    return name.partition(".")[0] == "torch"


def _is_pretrained(module: nn.Module) -> bool:
    transformers = sys.modules.get("transformers")
    return transformers is not None and isinstance(module, transformers.PreTrainedModel)


@lru_cache(maxsize=256)
def _source(name: str) -> str:
    """The source of a Python module, "" where there is none."""
    found: Any = sys.modules.get(name)
    try:
        return inspect.getsource(found) if found is not None else ""
    except (OSError, TypeError):
        return ""

"""How a model can be watched, and why one cannot."""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from torch import nn

from regard import errors
from regard.watch.interface import INTERFACE
from regard.watch.recorder import Recorder


@dataclass(frozen=True)
class Support:
    """How the attention of a model is seen."""

    models: tuple[nn.Module, ...]  # whose forward is one pass
    followed: tuple[nn.Module, ...]  # that may compute attention
    interface: bool  # by transformers' attention interface, besides what PyTorch's functions show


def support_of(model: nn.Module) -> Support:
    """How a model is watched."""
    modules = list(model.modules())
    pretrained = tuple(module for module in modules if _is_pretrained(module))
    files = {type(module).__module__ for module in modules}
    uses_interface = any(INTERFACE in _source(name) for name in files if not _is_of_torch(name))
    roots = pretrained if pretrained and pretrained[0] is model else (model, *pretrained)
    naming = tuple(module for module in modules if _names_interface(module.__class__))
    followed = naming or tuple(module for module in modules if module is model or may_attend(module))
    return Support(roots, followed, uses_interface)


def may_attend(module: nn.Module) -> bool:
    """Whether a module can be the one that computes attention: not one of the layers of PyTorch."""
    return hasattr(module, "in_proj_weight") or not _is_of_torch(type(module).__module__)


@lru_cache(maxsize=1024)
def _names_interface(kind: type) -> bool:
    """Whether a method of a class names transformers' attention interface."""
    members = (member for base in kind.__mro__ for member in vars(base).values())
    methods = (inspect.unwrap(member) for member in members if inspect.isfunction(member))
    return any(INTERFACE in method.__code__.co_names for method in methods)


def unseen_error(model: nn.Module, recorder: Recorder) -> errors.RegardError:
    """A model of which no attention was recorded: it has none, or none that is understood."""
    name, counts = type(model).__name__, recorder.counts
    unseen = [module for module, count in counts.items() if count.unseen]
    if not unseen:
        softmax = "none of its modules multiplied a softmax over keys with values while it ran"
        kinds = dict.fromkeys(type(module).__name__ for module in model.modules())
        named = [kind for kind in kinds if re.search("attention|attn", kind, re.IGNORECASE)]
        if not recorder.was_called:
            return errors.OptionError(
                f"{name} was not called inside the `with` block, only parts of it or its forward(), and {softmax}.\n"
                "Call it: model(inputs)."
            )
        if named:
            return errors.Unsupported(f"{name} computes attention that cannot be watched ({named[0]}): {softmax}.")
        return errors.Unsupported(f"{name} has no attention: {softmax}.")
    some = ", ".join(unseen[:3]) + (f" and {len(unseen) - 3} more" if len(unseen) > 3 else "")
    reason = next(reason for module in unseen for reason in counts[module].reasons or {"": None})
    return errors.Unsupported(
        f"{name} computes its attention in its own code, which is not understood ({some}"
        + (f": {reason}" if reason else "")
        + "), so its attention cannot be watched.\n"
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
    module: Any = sys.modules.get(name)
    try:
        return inspect.getsource(module) if module is not None else ""
    except (OSError, TypeError):
        return ""

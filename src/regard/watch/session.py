"""`watch`: record the attention of a PyTorch model while it runs, and leave the model as it was."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch
from torch import nn

from regard import errors, validate
from regard.watch import interface
from regard.watch.recorder import Keep, Recorder
from regard.watch.seen import Seen
from regard.watch.support import Support, support_of, unseen_error
from regard.watch.torch_calls import CallsOfTorch


def watch(
    model: Any,
    layers: Any = None,
    heads: Any = None,
    keep: Any = "all",
    *,
    runs: int | None = 1,
) -> Watch:
    """Record the attention of a Hugging Face or PyTorch model while it runs.

    layers  numbers, or patterns of module names such as "decoder.*"; all by default
    heads   that are kept; all by default
    keep    "all": queries, keys and values, O(n · head_dim) per layer, from which everything is computed later;
            "summary": entropy, peak, log-sum-exp, expected distance and the 8 largest weights of every query, computed
            in the same pass, O(n) per head; or a list of these and of "received" and "pooled"
    runs    how many forward passes to keep, the last ones; None: all. Passes that continue a KV cache are one

    The model computes what it computes unwatched, and is restored when the block is left in any way.

    >>> import torch
    >>> from transformers import LlamaConfig, LlamaModel
    >>> config = LlamaConfig(vocab_size=9, hidden_size=16, intermediate_size=8, num_hidden_layers=2,
    ...                      num_attention_heads=4, num_key_value_heads=2)
    >>> model = LlamaModel(config).eval()
    >>> with watch(model) as seen, torch.no_grad():
    ...     _ = model(torch.tensor([[1, 2, 3, 4, 5]]))
    >>> seen.layers[1].attention
    Attention(batch 1, head 4, query 5, key 5; head_dim 4, float32, scale=0.5, offset=0, mask=causal())
    """
    return Watch(model, layers, heads, keep, runs)


class Watch:
    """The context manager that `watch` returns; entering it gives a `Seen`."""

    def __init__(self, model: Any, layers: Any, heads: Any, keep: Any, runs: int | None) -> None:
        model = getattr(model, "_orig_mod", model)  # of torch.compile
        if not isinstance(model, nn.Module):
            inner = getattr(model, "model", None)
            fix = "A pipeline holds one: give pipeline.model." if isinstance(inner, nn.Module) else ""
            raise errors.option("model", model, "a PyTorch module, such as a model of transformers", fix)
        if isinstance(model, torch.jit.ScriptModule):
            raise errors.unsupported("Watching a TorchScript model", "Watch the module that it was made from.")
        if runs is not None:
            validate.integer("runs", runs, 1)
        self._arguments = layers, heads, Keep.of(keep), runs
        self._model = model
        self._open: list[tuple[ExitStack, Recorder]] = []

    def __enter__(self) -> Seen:
        layers, heads, keep, runs = self._arguments
        model = self._model
        support = support_of(model)
        names = {id(module): name or type(module).__name__ for name, module in model.named_modules()}
        recorder = Recorder(names, keep, layers, heads, runs, type(model).__name__)
        with ExitStack() as undo:
            if support.interface:
                interface.register()
                _switch(model, undo)
            _follow(model, recorder, support, undo)
            self._open.append((undo.pop_all(), recorder))
        return Seen(recorder, model)

    def __exit__(self, kind: Any, problem: Any, where: Any) -> None:
        undo, recorder = self._open.pop()
        changed = any(_is_changed(config) for config in _configurations(self._model)) if kind is None else False
        undo.close()
        if changed and not recorder.calls:
            raise errors.OptionError(
                f"The attention implementation of {recorder.model} was changed inside the `with` block, so nothing was "
                "recorded.\nCall set_attn_implementation before `with regard.watch(model)`."
            )
        if kind is None and recorder.forwards and not recorder.calls:
            raise unseen_error(self._model)


def _switch(model: nn.Module, undo: ExitStack) -> None:
    """Let every configuration inside the model name Regard's implementation, and restore it later.

    The name of the implementation is the only thing that changes, so a second model that shares the configuration goes
    on with its own implementation: `ORIGINALS` says which.
    """
    for config in _configurations(model):
        with interface.LOCK:
            kept = interface.ORIGINALS.get(id(config))
            own = config._attn_implementation_internal if kept is None else kept[1]
            interface.ORIGINALS[id(config)] = (config, own, 1 if kept is None else kept[2] + 1)
            undo.callback(_restore, config)
            name = interface.Watched(interface.NAME)
            name.original = own
            config._attn_implementation_internal = name


def _restore(config: Any) -> None:
    with interface.LOCK:
        _, own, watches = interface.ORIGINALS[id(config)]
        if watches > 1:
            interface.ORIGINALS[id(config)] = (config, own, watches - 1)
            return
        if not _is_changed(config):  # otherwise another implementation was chosen inside the block
            config._attn_implementation_internal = own
        del interface.ORIGINALS[id(config)]


def _is_changed(config: Any) -> bool:
    return id(config) in interface.ORIGINALS and config._attn_implementation_internal != interface.NAME


def _configurations(model: nn.Module) -> list[Any]:
    """Every configuration object of the model and the modules inside it."""
    found: dict[int, Any] = {}
    for module in model.modules():
        waiting = [getattr(module, "config", None)]
        while waiting:
            config = waiting.pop()
            if config is None or id(config) in found or not hasattr(config, "_attn_implementation_internal"):
                continue
            found[id(config)] = config
            waiting += [getattr(config, name, None) for name in getattr(config, "sub_configs", {})]
    return list(found.values())


def _follow(model: nn.Module, recorder: Recorder, support: Support, undo: ExitStack) -> None:
    """Hooks that say which module runs, and, where a model calls PyTorch's attention itself, a mode that sees it."""
    modules = list(model.modules())
    with interface.LOCK:
        for module in modules:
            interface.RECORDERS[id(module)] = (*interface.RECORDERS.get(id(module), ()), recorder)
        undo.callback(_forget, modules, recorder)
    enter, leave = _hooks(lambda module: recorder.enter_module(module), lambda module: recorder.leave_module(module))
    for module in support.followed:
        undo.callback(module.register_forward_pre_hook(enter).remove)
        undo.callback(module.register_forward_hook(leave, always_call=True).remove)
    calls = CallsOfTorch(recorder) if support.torch_calls else None

    def begin(module: Any) -> None:
        recorder.enter_model()
        if calls is not None:
            calls.begin()

    def end(module: Any) -> None:
        if calls is not None:
            calls.end()
        recorder.leave_model()

    enter, leave = _hooks(begin, end)
    for module in support.models:
        undo.callback(module.register_forward_pre_hook(enter, prepend=True).remove)
        undo.callback(module.register_forward_hook(leave, always_call=True).remove)


def _hooks(before: Any, after: Any) -> tuple[Any, Any]:
    """A hook before and one after the forward of any module, which torch.compile does not look into."""
    return torch.compiler.disable(lambda module, _args: before(module)), torch.compiler.disable(
        lambda module, _args, _output: after(module)
    )


def _forget(modules: list[nn.Module], recorder: Recorder) -> None:
    with interface.LOCK:
        for module in modules:
            others = tuple(one for one in interface.RECORDERS.pop(id(module)) if one is not recorder)
            if others:
                interface.RECORDERS[id(module)] = others

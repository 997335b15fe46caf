"""Attention that a model computes by PyTorch's own functions: `scaled_dot_product_attention` and what leads to it.

A `TorchFunctionMode` sees every call of this thread inside the `with` block: fused attention is recorded as it is
called, attention in a module's own code is recognised (`recogniser.py`), everything else passes. While the mode is
active PyTorch leaves the fast path of nn.MultiheadAttention and nn.TransformerEncoderLayer, which would compute
attention inside one fused call.
"""

from __future__ import annotations

import threading
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator
from torch.nn import functional
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack, _pop_mode, _push_mode

from regard.watch import interface
from regard.watch.call import Call, TensorMask
from regard.watch.call_edits import edits_of_call
from regard.watch.call_frames import THREAD, running_modules
from regard.watch.lazy_mask import MaskCall
from regard.watch.recogniser import Recogniser, attending_module, name_of
from regard.watch.recorder import compute_and_record

ATTRIBUTES = {
    *(getattr(Tensor, name).__get__ for name in ("shape", "device", "dtype", "ndim", "is_nested", "requires_grad")),
    Tensor.size, Tensor.dim, Tensor.numel,
}  # fmt: skip


class _ModeOfThread(threading.local):
    def __init__(self) -> None:
        self.mode: Mode = Mode()


def observe(session: Any) -> None:
    """See the calls of this thread until `stop_observing`."""
    session.mode = mode = MODES.mode
    mode.sessions.add(session)
    THREAD.is_observed = True
    if mode not in _get_current_function_mode_stack():
        _push_mode(mode)


def stop_observing(session: Any) -> None:
    """The mode is taken from this thread's stack with its last session, wherever it is in it."""
    mode = MODES.mode
    if session.mode is not None:
        session.mode.sessions.discard(session)
    if mode.sessions:
        return
    THREAD.is_observed = False
    mode.recogniser.tags.clear()
    while mode in _get_current_function_mode_stack():
        others = []
        try:
            while (top := _pop_mode()) is not mode:
                others.append(top)
        finally:
            for other in reversed(others):
                _push_mode(other)


def _not_compiled(function: Any) -> Any:
    """The frames of this function, and of what it calls, are never compiled by themselves.

    As torch.compiler.disable, but without the 2 µs that it takes for each call of a function of PyTorch.
    """
    try:
        from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy
    except ImportError:  # an older PyTorch
        return torch.compiler.disable(function)
    set_code_exec_strategy(function.__code__, _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP))
    return function


class Mode(TorchFunctionMode):  # type: ignore[misc]
    """Records calls of PyTorch's attention functions."""

    def __init__(self) -> None:
        super().__init__()
        self.recogniser = Recogniser()
        self.sessions: set[Any] = set()  # that are open in this thread

    @_not_compiled
    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Pass everything on, and record attention."""
        if torch.compiler.is_compiling() and isinstance(function, HigherOrderOperator):
            return function(*args, **(kwargs or {}))  # flex_attention compiles itself, as one graph
        return self._observed(function, args, kwargs or {})

    @_not_compiled
    def _observed(self, function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if function in ATTRIBUTES:  # a third of all calls
            return function(*args, **kwargs)
        if torch.compiler.is_compiling() or not self.sessions or getattr(interface.INSIDE, "own", False):
            return function(*args, **kwargs)
        name = name_of(function)
        if name == "scaled_dot_product_attention":
            return self._attention(*args, **kwargs)
        if name == "multi_head_attention_forward":
            return self._multi_head(args, kwargs)
        for session in self.sessions:
            if not session.recorder.has_run:
                _notice(session.recorder)
        return self.recogniser(function, name, args, kwargs)

    _observed._torchdynamo_disable = True  # nor inlined: torch.compile leaves its graph at every call inside the block

    def _multi_head(self, args: Any, kwargs: dict[str, Any]) -> Any:
        """nn.MultiheadAttention: its own function, with the fused attention inside it replaced by the recording one.

        A mode is not active inside the functions that it handles, so this runs a copy of the function in which only
        that name is bound anew. A call that returns weights does not use fused attention: a second one is recorded.
        """
        function = functional.multi_head_attention_forward
        crosses = len(args) > 1 and args[0] is not args[1]

        def attention(*args: Any, **kwargs: Any) -> Tensor:
            return self._attention(*args, **kwargs, crosses=crosses or None)

        names = {"has_torch_function": lambda _: False, "scaled_dot_product_attention": attention}
        copy = FunctionType(
            function.__code__, {**function.__globals__, **names}, function.__name__, function.__defaults__
        )
        copy.__kwdefaults__ = function.__kwdefaults__
        if not kwargs.get("need_weights", True):
            return copy(*args, **kwargs)
        edited = copy(*args, **{**kwargs, "need_weights": False, "training": False})
        if any(session.recorder.edits.parts for session in self.sessions):
            return edited[0], None  # the weights that it would return are not those of the edit
        return function(*args, **kwargs)

    def _attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
        *,
        crosses: bool | None = None,
    ) -> Tensor:
        def own() -> Tensor:
            with interface.computing():
                return functional.scaled_dot_product_attention(
                    query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
                )

        module = attending_module()
        if query.is_nested or query.ndim < 2 or interface.is_traced():
            interface.count_unseen(module, interface.TRACED if interface.is_traced() else "its tensors are nested")
            return own()
        if not (query.numel() and key.numel() and value.numel()):
            return own()
        if crosses is None and query.shape[-2] not in (1, key.shape[-2]) and attn_mask is None and not is_causal:
            crosses = True
        layers, watching, is_edited = interface.layers_for(module, crosses=crosses)
        if not watching and not is_edited:
            return own()
        leading = torch.broadcast_shapes(*(_lifted(tensor).shape[:-3] for tensor in (query, key, value)))
        call = _call(query, key, value, attn_mask, leading, is_causal, scale, cross=layers[0][1].cross)
        batch, heads, count, _ = call.queries.shape
        four = (batch, heads, count, value.shape[-1])
        output, _ = compute_and_record(
            watching, call, lambda: (own().reshape(four).transpose(1, 2), None), dropout=dropout_p, costly=False,
            own_only=attn_mask is not None and attn_mask.is_floating_point(),
            edits=edits_of_call(layers, call) if is_edited else None,
        )  # fmt: skip
        output = output.transpose(1, 2).reshape(*leading, *four[1:])
        return output[0, 0] if query.ndim == 2 else output[:, 0] if query.ndim == 3 else output


def _notice(recorder: Any) -> None:
    """Find out whether the watched model runs, or a part of it."""
    running = [id(module) for module, _ in running_modules()]
    recorder.has_run = any(module in recorder.names for module in running)
    recorder.was_called = any(module in recorder.roots for module in running)


MODES = _ModeOfThread()


def _call(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    leading: tuple[int, ...],
    is_causal: bool,
    scale: float | None,
    *,
    cross: bool,
) -> Call:
    """A call of scaled_dot_product_attention, the axes before the heads joined into the batch."""
    queries, keys, values = (_joined(_lifted(tensor), leading) for tensor in (query, key, value))
    count, length = query.shape[-2], key.shape[-2]
    rule: MaskCall | TensorMask
    if mask is not None:
        mask = _lifted(mask[(None,) * (query.ndim - mask.ndim)])
        same = all(size == 1 for size in mask.shape[:-3])
        rule = TensorMask(_joined(mask, (1,) * len(leading) if same else leading))
    elif is_causal:
        rule = MaskCall.causal(count, length)
    elif count == 1 < length and not cross:  # the next token of a text, perhaps
        rule = MaskCall.causal(1, length, length - 1)
    else:
        rule = MaskCall.everything(count, length)
    return Call(queries, keys, values, rule, scale, cross=cross, guessed=True)


def _lifted(tensor: Tensor) -> Tensor:
    """With an axis for heads, and one for the batch."""
    return tensor[None, None] if tensor.ndim == 2 else tensor[:, None] if tensor.ndim == 3 else tensor


def _joined(tensor: Tensor, leading: tuple[int, ...]) -> Tensor:
    """(batch, head, token, size): all axes before the heads are one, after broadcasting."""
    return tensor.expand(*leading, *tensor.shape[-3:]).reshape(-1, *tensor.shape[-3:])

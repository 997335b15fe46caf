"""The attention functions and the mask function that transformers calls by name.

A model that is to compute with Regard's engine names "regard" and calls `engine_forward`. A watched model names
"regard_watched", inside the `with` block only, and hands every attention to `attention_forward`; its own
implementation, kept in `ORIGINALS`, computes the outputs as it does unwatched.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard import errors
from regard.biases import RelativePositions, relative_positions
from regard.watch.call import Call, TensorMask
from regard.watch.call_edits import edits_of_call
from regard.watch.call_frames import ACTIVE
from regard.watch.lazy_mask import LazyMask, MaskCall, build_mask, causal_mask_function, mask_call_of
from regard.watch.recorder import compute_and_record

if TYPE_CHECKING:
    from regard.watch.layer import WatchedLayer
    from regard.watch.recorder import Recorder

ENGINE = "regard"  # the implementation that people choose
NAME = "regard_watched"  # that of a watched model
EAGER, INTERFACE = "eager_attention_forward", "ALL_ATTENTION_FUNCTIONS"  # in the files of transformers' models
TRACED = "it ran inside a transform of torch.func"
LOCK = threading.RLock()  # for both tables below
ORIGINALS: dict[int, tuple[Any, str | None, frozenset[Any]]] = {}  # by id of a config: it, its own name, its watches
RECORDERS: dict[int, tuple[Recorder, ...]] = {}  # by id of a module
INSIDE = threading.local()  # `own` is set while an attention function computes


class Watched(str):
    """The name of the implementation while a configuration is watched; a copy of it has its own implementation."""

    original: str | None

    def __deepcopy__(self, memo: Any) -> str | None:
        return self.original

    def __copy__(self) -> str | None:
        return self.original

    def __reduce__(self) -> Any:
        return _unchanged, (self.original,)


def _unchanged(name: str | None) -> str | None:
    return name


def register() -> None:
    """Make the name known to transformers; nothing changes for models that do not ask for it."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(ENGINE, engine_forward)
    AttentionInterface.register(NAME, attention_forward)
    for name in (ENGINE, NAME):
        AttentionMaskInterface.register(name, mask_forward)


def original_of(config: Any) -> str:
    """The implementation that a configuration names, or named before it was watched."""
    entry = ORIGINALS.get(id(config))
    name = entry[1] if entry is not None else ENGINE
    return name or "sdpa"


def mask_forward(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: Any = 0,
    kv_offset: Any = 0,
    mask_function: Any = causal_mask_function,
    attention_mask: Tensor | None = None,
    use_vmap: bool = False,
    device: Any = "cpu",
    config: Any = None,
    **others: Any,
) -> Tensor:
    """A mask that stays a function: the counterpart of transformers' `sdpa_mask`, with the same arguments.

    With gradients it is the model's own tensor, which says what it stands for: a checkpoint may compute the layer again
    after the block, by the model's own function, and must find the tensors that it saved.
    """
    arguments = {
        "batch_size": batch_size, "q_length": q_length, "kv_length": kv_length, "q_offset": q_offset,
        "kv_offset": kv_offset, "mask_function": mask_function, "attention_mask": attention_mask,
        "use_vmap": use_vmap, "device": device, "config": config, **others,
    }  # fmt: skip
    original = original_of(config)
    implementation = "sdpa" if original == ENGINE else original
    if is_traced():
        return build_mask(implementation, arguments)
    if isinstance(q_offset, Tensor):  # static caches change it in place
        arguments["q_offset"] = q_offset = q_offset.clone()
    call = MaskCall(
        int(q_length), int(kv_length), int(q_offset), int(kv_offset), mask_function,
        None if attention_mask is None else attention_mask.bool(), use_vmap, arguments,
    )  # fmt: skip
    if torch.is_grad_enabled() and original in ("sdpa", "eager"):
        mask = build_mask(original, arguments)
        if mask is not None:
            mask.regard_call = call
        return mask
    shape = (batch_size, 1, call.queries, call.keys)
    return LazyMask(call, implementation, shape, device)


def _is_added(mask: Tensor | None) -> bool:
    """Whether a mask that does not come from `mask_forward` holds numbers."""
    return mask is not None and mask_call_of(mask) is None and mask.is_floating_point()


def is_traced() -> bool:
    """Whether a graph or a transform of torch.func takes tensors only."""
    return torch.compiler.is_compiling() or torch._C._functorch.maybe_current_level() is not None


def engine_forward(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **given: Any
) -> tuple[Tensor, Any]:
    """Attention of one layer by Regard's engine; by PyTorch's inside a graph or a transform of torch.func."""
    if is_traced() and given.get("softcap") is None and given.get("s_aux") is None:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        return sdpa_attention_forward(  # type: ignore[no-any-return]
            module, query, key, value, attention_mask, **given
        )
    return attention_forward(module, query, key, value, attention_mask, **given)  # type: ignore[no-any-return]


@torch.compiler.disable  # type: ignore[untyped-decorator]
def attention_forward(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, Any]:
    """Attention of one layer: recorded if it is watched, and computed as the model would unwatched if it is not."""
    original = original_of(getattr(module, "config", None))
    options = {"dropout": dropout, "scaling": scaling, "is_causal": is_causal, "position_bias": position_bias, **others}
    options = {name: option for name, option in options.items() if option is not None or name == "scaling"}
    if not query.numel() or not key.numel():  # an attention without tokens
        return _own(module, original, query, key, value, attention_mask, options)
    is_part = _is_part(query, key, attention_mask)
    layers, watching, is_edited = layers_for(module, is_part)
    mask_call = mask_call_of(attention_mask)
    if not watching and not is_edited and original != ENGINE:
        for recorder, layer in layers:  # watched cross-attention must know whether a text begins
            if mask_call is not None and not layer.cross:
                recorder.state.move(mask_call.query_offset, query.shape[2])
        return _own(module, original, query, key, value, attention_mask, options)
    if is_traced():
        if is_edited:
            raise errors.unsupported("Editing attention inside a transform of torch.func", "Call the model itself.")
        for recorder, _ in watching:
            recorder.count_of(module).reasons[TRACED] = None
        return _own(module, original, query, key, value, attention_mask, options)
    cross = layers[0][1].cross if layers else None
    call = _call(module, query, key, value, attention_mask, cross, options, original)
    if not watching and not is_edited:
        if dropout:
            return _own(module, original, query, key, value, attention_mask, options)
        trimmed = call.trim()
        return (trimmed.attention() @ trimmed.values).transpose(1, 2).contiguous(), None
    builds = isinstance(attention_mask, LazyMask) and not attention_mask.call.is_plain
    # An eager model may be asked for its weights by an argument that does not come here. A layer in training may be
    # computed again by a checkpoint. A mask that is added, also to a bias, hides no key from a row that sees no other.
    own_only = original == "eager" or bool(getattr(module, "training", False))
    own_only |= original != ENGINE and (builds if position_bias is not None else _is_added(attention_mask))
    return compute_and_record(
        watching,
        call,
        lambda: _own(module, original, query, key, value, attention_mask, options),
        dropout=dropout,
        costly=builds or original == ENGINE,
        own_only=own_only,
        edits=edits_of_call(layers, call.trim()) if is_edited else None,
    )


def recorders_of(module: Any) -> list[Recorder]:
    """Those of this thread or task, or those of all where this one watches nothing itself.

    None while gradients flow back: a call is then one that was recorded before, computed again by a checkpoint.
    """
    recorders = RECORDERS.get(id(module), ())
    if not recorders or torch._C._current_graph_task_id() != -1:
        return []
    mine = [recorder for recorder in recorders if recorder in ACTIVE.get()]
    return mine or list(recorders)


Recorded = list[tuple["Recorder", "WatchedLayer"]]  # the layer of a call, for each recorder


def layers_for(module: Any, is_part: bool = False, *, crosses: bool | None = None) -> tuple[Recorded, Recorded, bool]:
    """The layer of this call for every recorder of a module, those to be recorded, and whether an edit changes one."""
    layers = [(recorder, recorder.layer_for(module, is_part, crosses=crosses)) for recorder in recorders_of(module)]
    is_edited = any(recorder.edits.of_layer(layer) for recorder, layer in layers)
    return layers, [(recorder, layer) for recorder, layer in layers if recorder.watches(layer)], is_edited


def count_unseen(module: Any, problem: str) -> None:
    """An attention that ran and is not recorded, and why."""
    for recorder in recorders_of(module):
        count = recorder.count_of(module)
        count.ran += 1
        count.reasons[problem] = None


def _is_part(query: Tensor, key: Tensor, mask: Tensor | None) -> bool:
    """Whether a call can be one of several over parts of one sequence that attend to themselves: images, windows."""
    return query.shape[0] == 1 and query.shape[2] == key.shape[2] and mask is None


def _in_autocast(*tensors: Tensor) -> Iterator[Tensor]:
    """As a product of matrices takes them inside torch.autocast: in its type, whatever they are."""
    device = tensors[0].device.type
    lower = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
    for tensor in tensors:
        yield tensor if lower is None or tensor.dtype == torch.float64 else tensor.to(lower)


def _call(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    cross: bool | None,
    given: dict[str, Any],
    original: str,
) -> Call:
    static = hasattr(key, "_dynamo_static_input_type")
    query, key, value = _in_autocast(query, key, value)
    batch = max(query.shape[0], key.shape[0])
    query, key, value = (part.expand(batch, -1, -1, -1) for part in (query, key, value))  # learned queries are of all
    mask_call = mask_call_of(mask)
    queries, keys = query.shape[2], key.shape[2]
    rule: MaskCall | TensorMask
    if mask_call is not None:
        rule = mask_call
        written = rule.offset + queries  # a longer buffer is static, wherever it was moved; that of an encoder is full
        static = rule.is_causal and (static or (keys > written and not cross))
    elif mask is not None:
        mask = mask[..., :keys] if mask.shape[-1] > keys else mask
        rule = TensorMask(mask.to(query.dtype) if original == "eager" and mask.dtype == torch.bool else mask)
    else:
        causal = given.get("is_causal")
        causal = getattr(module, "is_causal", True) if causal is None else causal
        causal = causal and original != "eager"  # which hides nothing without a mask, and adds a mask of any type
        if causal and queries > 1:  # aligned to the first key, as PyTorch aligns is_causal
            rule = MaskCall.causal(queries, keys)
            static = static or keys > queries
        elif causal and not cross:
            rule = MaskCall.causal(queries, keys, keys - queries)
        else:
            rule, static = MaskCall.everything(queries, keys), False
    scale = given.get("scaling")
    return Call(
        query, key, value, rule,
        None if scale is None else float(scale),
        None if original == "sdpa" else given.get("softcap"),  # which PyTorch does not know
        _recorded(given.get("s_aux")),
        _bias(module, given.get("position_bias"), rule),
        static=static and not cross,
        cross=bool(cross),
    )  # fmt: skip


def _recorded(parameter: Tensor | None) -> Tensor | None:
    """A parameter of the model, without gradient where the model runs without."""
    return parameter if parameter is None or torch.is_grad_enabled() else parameter.detach()


def _bias(module: Any, dense: Tensor | None, rule: MaskCall | TensorMask) -> Any:
    """T5's bias by distance as a table of distances instead of an n² tensor; None if it is all zero."""
    if dense is None:
        return None
    kept = getattr(dense, "_regard_bias", dense)
    if kept is not dense:
        return kept
    lazy: Any = dense
    table = getattr(module, "relative_attention_bias", None)
    if not bool(dense.detach().any()):
        lazy = None
    elif table is not None and isinstance(rule, MaskCall):
        lazy = relative_positions(
            _recorded(table.weight),
            module.relative_attention_num_buckets,
            module.relative_attention_max_distance,
            bidirectional=not getattr(module, "is_decoder", True),
        )
        with torch.no_grad():  # a checkpoint counts what is saved for gradients
            lazy = lazy if _is_same(lazy, dense, rule.offset) else dense
    if lazy is not dense:
        dense._regard_bias = lazy  # later layers get the same tensor
    return lazy


def _is_same(lazy: RelativePositions, dense: Tensor, offset: int) -> bool:
    """Whether the first and the last row of a dense bias (1, head, query, key) are those of a table."""
    heads, queries, keys = dense.shape[1:]
    lowest, highest = offset - keys + 1, offset + queries - 1
    table = lazy.table(heads, lowest, highest, torch, dense.dtype, dense.device)
    for row in (0, queries - 1):
        distances = offset + row - torch.arange(keys, device=dense.device) - lowest
        if not torch.equal(table[:, distances], dense[0, :, row]):
            return False
    return True


def _own(
    module: Any, original: str, query: Tensor, key: Tensor, value: Tensor, mask: Any, given: dict[str, Any]
) -> tuple[Tensor, Any]:
    """The model's own implementation, with the mask that it would have got."""
    names = (*(base.__module__ for base in type(module).__mro__), "transformers.modeling_utils")
    files = [vars(sys.modules[name]) for name in names if name in sys.modules]
    function = None
    if original == "eager":
        function = next((file[EAGER] for file in files if EAGER in file), None)
    if function is None:
        table = next(file[INTERFACE] for file in files if INTERFACE in file)
        function = table["sdpa" if original in (ENGINE, "eager") else original]
    if isinstance(mask, LazyMask):
        mask = mask.own()
    with computing():
        return function(module, query, key, value, mask, **given)  # type: ignore[no-any-return]


@contextmanager
def computing() -> Iterator[None]:
    """While an attention function computes, its own calls of other attention functions are not recorded."""
    before = getattr(INSIDE, "own", False)
    INSIDE.own = True
    try:
        yield
    finally:
        INSIDE.own = before

"""Masks of transformers, kept as functions of positions: `LazyMask` stands for the n² tensor until it is read.

transformers describes a mask by a `mask_function` of batch, head, query and key positions, built from a few known
parts, and a padding mask (batch, key). The known parts become intervals; any other function is evaluated per tile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import and_, or_
from typing import Any

import torch
from torch import Tensor

from regard import masks
from regard.masks import Mask

UNBOUNDED = 1 << 30  # keys after the query, in a window that limits only those before it


def causal_mask_function(batch: Any, head: Any, query: Any, key: Any) -> Any:
    """Keys up to the query's own position, as the function of this name in transformers."""
    return key <= query


def packed_sequence_mask_function(packed_sequence_mask: Tensor) -> Callable[..., Any]:
    """Keys of the same sequence, as the function of this name in transformers; ids are (batch, position)."""

    def inner(batch: Any, head: Any, query: Any, key: Any) -> Any:
        return packed_sequence_mask[batch, query] == packed_sequence_mask[batch, key]

    return inner


def bidirectional_mask_function(batch: Any, head: Any, query: Any, key: Any) -> Any:
    """All keys."""
    return query >= 0


@dataclass(frozen=True, eq=False)
class MaskCall:
    """The arguments of one call of transformers' mask interface; positions count from the first token of the cache."""

    queries: int
    keys: int
    query_offset: int  # position of the first query
    key_offset: int  # position of the first key
    function: Callable[..., Any]  # (batch, head, query, key) → bool
    padding: Tensor | None = None  # (batch, position), True for real tokens
    vectorise: bool = False  # whether the function takes single indices only, and needs vmap
    arguments: dict[str, Any] = field(default_factory=dict, repr=False)  # to build another implementation's tensor

    @classmethod
    def everything(cls, queries: int, keys: int) -> MaskCall:
        """No mask."""
        return cls(queries, keys, 0, 0, bidirectional_mask_function)

    @classmethod
    def causal(cls, queries: int, keys: int, offset: int = 0) -> MaskCall:
        """Keys up to each query's own position, the first query being at `offset`."""
        return cls(queries, keys, offset, 0, causal_mask_function)

    @property
    def offset(self) -> int:
        """The position of the first query, counted from the first key."""
        return self.query_offset - self.key_offset

    @property
    def is_causal(self) -> bool:
        """Whether a causal mask is among the parts of this one."""
        return "causal_mask_function" in _names(self.function)

    @property
    def is_plain(self) -> bool:
        """Whether fused attention needs no mask for it: all keys, or causal from the first key on, without padding."""
        name = _parts(self.function)[0]
        if self.padding is not None and not bool(self.padding.all()):
            return False
        if name == "causal_mask_function":
            return self.query_offset == 0 or self.queries == 1
        return name == "bidirectional_mask_function"

    def over(self, first: int, queries: int, key_offset: int, keys: int) -> MaskCall:
        """The same mask for other positions."""
        return replace(self, query_offset=first, queries=queries, key_offset=key_offset, keys=keys)

    def mask(self, padding: bool = True) -> Mask | None:
        """The mask in the words of `regard.masks`, positions counted from the first key; None if all is visible."""
        translated = _translate(self.function, self)
        parts = [] if translated is None else [translated]
        if padding and self.padding is not None:
            real = _padding_mask(self.real(self.padding))
            parts += [] if real is None else [real]
        return None if not parts else parts[0] if len(parts) == 1 else parts[0] & parts[1]

    def real(self, padding: Tensor) -> Tensor:
        """The part of a padding mask (batch, position) that covers the keys; positions beyond it are padding."""
        part = padding[:, self.key_offset : self.key_offset + self.keys]
        return torch.nn.functional.pad(part, (0, self.keys - part.shape[1]))

    def same_kind(self, other: MaskCall) -> bool:
        """Whether both masks follow the same rule, so that one of them holds for the queries of both."""
        return _signature(self.function) == _signature(other.function)


def _translate(function: Callable[..., Any], call: MaskCall, or_causal: bool = False) -> Mask | None:
    """A mask function as a mask; None if it allows everything."""
    name, held = _parts(function)
    if name == "causal_mask_function":
        return masks.causal()
    if name == "bidirectional_mask_function":
        return None
    if name == "and_masks":
        parts = [_translate(part, call) for part in held["mask_functions"]]
        limits = [part for part in parts if part is not None]
        return reduce(and_, limits) if limits else None
    if name == "or_masks":
        beside_causal = any(_parts(part)[0] == "causal_mask_function" for part in held["mask_functions"])
        parts = [_translate(part, call, beside_causal) for part in held["mask_functions"]]
        return None if None in parts else reduce(or_, parts)
    if name == "sliding_window_overlay":
        return masks.window(held["sliding_window"] - 1, UNBOUNDED)
    if name == "sliding_window_bidirectional_overlay":
        return masks.window(held["sliding_window"])
    if name == "padding_mask_function":
        return _padding_mask(call.real(held["padding_mask"].bool()))
    if name == "packed_sequence_mask_function":
        return _documents(held["packed_sequence_mask"], call)
    if name == "chunked_overlay":
        start = torch.as_tensor(held["left_padding"]).reshape(-1, 1)
        position = torch.arange(call.key_offset, _end(call), device=start.device)
        return masks.documents((position - start).div(held["chunk_size"], rounding_mode="floor"))
    if name == "blockwise_overlay":
        ids = held["block_sequence_ids"]
        alone = -1 - torch.arange(ids.shape[1], device=ids.device)  # a token outside of any block
        blocks = _documents(torch.where(ids >= 0, ids, alone), call)
        if blocks is not None and or_causal:  # which lets a token see itself
            return blocks
        if blocks is not None:
            return blocks & masks.allowed(call.real(ids >= 0)[:, None, None, :])
    return masks.where(_shift(function, call))


def _documents(ids: Tensor, call: MaskCall) -> Mask | None:
    """The mask of packed sequences; ids (batch, position) beyond the last one belong to no sequence."""
    ids = ids[:, call.key_offset : _end(call)]
    missing = _end(call) - call.key_offset - ids.shape[1]
    return masks.documents(torch.nn.functional.pad(ids, (0, missing), value=-(1 << 30)))


def _end(call: MaskCall) -> int:
    return max(call.key_offset + call.keys, call.query_offset + call.queries)


def _shift(function: Callable[..., Any], call: MaskCall) -> Callable[..., Any]:
    """The function for positions that count from the first key."""
    start = call.key_offset

    def visible(batch: Any, head: Any, query: Any, key: Any) -> Any:
        if not isinstance(query, Tensor):
            return visible(*(torch.from_numpy(index_array) for index_array in (batch, head, query, key))).numpy()
        if call.vectorise:
            indices = (index_array.flatten() for index_array in (batch, head, query + start, key + start))
            return _vectorise(function)(*indices)
        return function(batch, head, query + start, key + start)

    return visible


def _vectorise(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of single indices for vectors of each, as transformers evaluates it."""
    from transformers.masking_utils import TransformGetItemToIndex

    for axes in ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None)):
        function = torch.vmap(function, in_dims=axes, out_dims=0)

    def evaluate(*indices: Tensor) -> Any:
        with TransformGetItemToIndex():
            return function(*indices)

    return evaluate


def _padding_mask(real: Tensor) -> Mask | None:
    """Real keys (batch, key): as intervals if the real keys of every sequence are contiguous."""
    counts = real.sum(-1)
    keys = real.shape[1]
    if bool((counts == keys).all()):
        return None
    first = real.int().argmax(-1)  # of the first real key
    position = torch.arange(keys, device=real.device)
    in_one_piece = ((position >= first[:, None]) & (position < (first + counts)[:, None])) == real
    if not bool(in_one_piece.all()):
        return masks.allowed(real[:, None, None, :])
    if bool((first == 0).all()):
        return masks.padding(counts.cpu().numpy())
    from_left = masks.padding((keys - first).cpu().numpy(), side="left")
    last = first + counts
    return from_left if bool((last == keys).all()) else from_left & masks.padding(last.cpu().numpy())


def _parts(function: Callable[..., Any]) -> tuple[str, dict[str, Any]]:
    """The factory of transformers that made a mask function, and what the function refers to; "" if it is unknown."""
    if getattr(function, "__module__", "") not in ("transformers.masking_utils", __name__):
        return "", {}
    code, cells = function.__code__, function.__closure__ or ()
    held = {name: cell.cell_contents for name, cell in zip(code.co_freevars, cells, strict=True)}
    return function.__qualname__.partition(".")[0], held


def _names(function: Callable[..., Any]) -> set[str]:
    """The factories of a mask function and of all its parts."""
    name, held = _parts(function)
    return {name}.union(*(_names(part) for part in held.get("mask_functions", ())))


def _signature(function: Callable[..., Any]) -> tuple[Any, ...]:
    """What makes two mask functions the same rule: tensors that grow with every token do not count."""
    name, held = _parts(function)
    if not name:
        return (function,)
    inner = tuple(_signature(part) for part in held.get("mask_functions", ()))
    return (name, inner, *(value for value in held.values() if isinstance(value, int)))


NOT_BUILT = object()


def build_mask(implementation: str, arguments: dict[str, Any]) -> Any:
    """The mask that an implementation of transformers gets: a tensor, or None where it needs none."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

    return ALL_MASK_ATTENTION_FUNCTIONS[implementation](**arguments)


class LazyMask(torch.Tensor):  # type: ignore[misc]
    """A mask (batch, 1, query, key) without memory: it becomes a tensor where an operation reads it.

    `call` says what it stands for. Its tensor is the one that the model's own implementation would have got.
    """

    call: MaskCall
    implementation: str  # whose tensor it becomes
    whole: LazyMask | None  # the mask that this is a view of, which builds the tensor of both
    _tensor: Tensor | None
    _own: Any

    @staticmethod
    def __new__(cls, call: MaskCall, implementation: str, shape: tuple[int, ...], device: Any) -> LazyMask:
        """A tensor of this shape with no storage."""
        kind = torch.bool if implementation != "eager" else call.arguments.get("dtype", torch.float32)
        made = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=kind, device=device)
        made.call, made.implementation, made.whole = call, implementation, None
        made._tensor, made._own = None, NOT_BUILT
        return made  # type: ignore[no-any-return]

    def tensor(self) -> Tensor:
        """The mask as a tensor of its full shape."""
        if self.whole is not None:
            return self.whole.tensor()
        if self._tensor is None:
            skipped = {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
            self._tensor = build_mask(self.implementation, {**self.call.arguments, **skipped})
        return self._tensor

    def own(self) -> Any:
        """What the model's own implementation would have got: None where it needs no mask."""
        if self.whole is not None:
            return self.whole.own()
        if self._own is NOT_BUILT:
            self._own = build_mask(self.implementation, self.call.arguments)
        return self._own

    def _view(self) -> LazyMask:
        """A new tensor for the same mask: PyTorch allows no view that is the tensor itself."""
        part = LazyMask(self.call, self.implementation, tuple(self.shape), self.device)
        part.whole = self if self.whole is None else self.whole
        return part

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """An operation that fails on the mask runs again, on the tensor.

        transformers may build that tensor with vmap, which PyTorch refuses while it dispatches an operation.
        """
        with torch._C.DisableTorchFunctionSubclass():
            try:
                return function(*args, **(kwargs or {}))
            except (RuntimeError, TypeError):  # vmap, or an operation that needs memory
                args, kwargs = _with_tensors((args, kwargs or {}))
        return function(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Slices of everything, which models take before they use a mask, give a mask."""
        mask = args[0] if args else None
        if isinstance(mask, LazyMask):
            if function is torch.ops.aten.slice.Tensor:
                _, axis, start, stop, step = (*args, *(None,) * 5)[:5]
                whole = mask.shape[axis or 0]
                if not start and (stop is None or stop >= whole) and step in (None, 1):
                    return mask._view()
            if function in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
                return mask._view()
        args, kwargs = _with_tensors((args, kwargs or {}))
        return function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"LazyMask(shape={tuple(self.shape)}, {self.call.mask()!s})"


def _with_tensors(arguments: Any) -> Any:
    """The arguments of an operation, every mask replaced by its tensor."""
    return torch.utils._pytree.tree_map_only(LazyMask, LazyMask.tensor, arguments)


def mask_call_of(mask: Any) -> MaskCall | None:
    """What a mask of `mask_forward` stands for; None for a tensor from elsewhere."""
    return mask.call if isinstance(mask, LazyMask) else getattr(mask, "regard_call", None)

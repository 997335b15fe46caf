"""Helpers for arrays of NumPy or PyTorch. Nothing here imports PyTorch: it is used only if already loaded."""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from regard import errors

Array = Any  # a NumPy array or a PyTorch tensor

NUMPY_FLOATS = (np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16))
TORCH_FLOATS = ("torch.float32", "torch.float64", "torch.float16", "torch.bfloat16")


def is_tensor(thing: object) -> bool:
    """Whether this is a PyTorch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.Tensor)


def is_array(thing: object) -> bool:
    """Whether this is a NumPy array or a PyTorch tensor."""
    return isinstance(thing, np.ndarray) or is_tensor(thing)


def are_plain(one: Any, other: Any) -> bool:
    """Whether both are plain NumPy arrays or PyTorch tensors of the same float dtype and device: the common case."""
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is np.ndarray:
        return one.dtype is other.dtype and one.dtype in NUMPY_FLOATS
    torch = sys.modules.get("torch")
    if torch is None or kind is not torch.Tensor or one.is_nested or other.is_nested or torch.jit.is_tracing():
        return False
    dtype = one.dtype
    return (
        dtype is other.dtype
        and dtype.is_floating_point
        and dtype.itemsize > 1  # not float8
        and (one.is_cpu is other.is_cpu is True or one.device == other.device)
        and one.layout is torch.strided is other.layout
    )


def is_placeholder(thing: object) -> bool:
    """Whether this is a torch.fx proxy, which has no shape or content."""
    return type(thing).__module__ == "torch.fx.proxy"


def is_symbolic(thing: object) -> bool:
    """Whether this is a symbolic number of torch.compile with dynamic shapes."""
    return type(thing).__module__ == "torch" and type(thing).__name__ in ("SymInt", "SymFloat")


def is_number(thing: object) -> bool:
    """Whether this is one integer, possibly symbolic; symbolic numbers have no shape to test."""
    return isinstance(thing, int) or is_symbolic(thing)


def compiling() -> bool:
    """Whether PyTorch compiles what runs now: native functions must not be called."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.compiler.is_compiling())


def tracing() -> bool:
    """Whether PyTorch compiles or applies `torch.func` transforms: nothing may be cached or read out of tensors."""
    torch = sys.modules.get("torch")
    return torch is not None and (torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active())


def library(array: Array) -> Any:
    """The array's library, NumPy or PyTorch, as a module."""
    return sys.modules["torch"] if is_tensor(array) else np


def floats(name: str, given: object, like: Array | None = None) -> Array:
    """As an array of floats: lists and integers become float64, or the dtype of `like`.

    >>> floats("queries", [[1, 2], [3, 4]]).dtype
    dtype('float64')
    """
    if is_tensor(given):
        return _tensor_floats(name, given, like)
    if like is not None and is_tensor(like):
        if isinstance(given, np.ndarray):
            raise errors.families_mixed(queries=like, **{name: given})
        return sys.modules["torch"].as_tensor(numpy_floats(name, given), dtype=like.dtype, device=like.device)
    return numpy_floats(name, given, None if like is None else like.dtype)


def numpy_floats(name: str, given: object, dtype: np.dtype[Any] | None = None) -> Array:
    """As a NumPy array of floats, copied only to change dtype or byte order."""
    if isinstance(given, np.ma.MaskedArray) or not isinstance(given, (np.ndarray, Sequence)) or isinstance(given, str):
        raise errors.not_an_array(name, given)
    array = np.asarray(given) if isinstance(given, np.ndarray) else _from_list(name, given)
    if array.dtype in NUMPY_FLOATS or array.dtype.name == "bfloat16":
        return array
    if array.dtype.kind in "iu" or not isinstance(given, np.ndarray):
        return array.astype(np.float64 if dtype is None else dtype)
    if array.dtype.newbyteorder("=") in NUMPY_FLOATS:
        return array.astype(array.dtype.newbyteorder("="))
    raise errors.unsupported_dtype(name, array.dtype)


def _from_list(name: str, given: Sequence[Any]) -> Array:
    try:
        array = np.asarray(given)
    except ValueError:  # rows of unequal length
        raise errors.unsupported_dtype(name, np.dtype(object)) from None
    if array.dtype.kind not in "iuf" and array.dtype.name != "bfloat16":
        raise errors.unsupported_dtype(name, array.dtype)
    return array


def _tensor_floats(name: str, given: Any, like: Array | None) -> Array:
    if like is not None and not is_tensor(like):
        raise errors.families_mixed(queries=like, **{name: given})
    torch = sys.modules["torch"]
    if torch.jit.is_tracing():
        raise errors.traced()
    if given.layout is not torch.strided or given.is_nested:
        raise errors.not_an_array(name, given)
    if str(given.dtype) in TORCH_FLOATS:
        return given
    if given.dtype is torch.bool or given.is_complex() or given.is_floating_point():
        raise errors.unsupported_dtype(name, given.dtype)
    return given.to(torch.float64 if like is None else like.dtype)


def four_axes(array: Array) -> Array:
    """With leading axes of size 1 up to four axes."""
    return array if array.ndim == 4 else array[(None,) * (4 - array.ndim)]


def leading_axes_of(ndim: int, array: Array) -> Array:
    """An engine's array without the leading axes that an attention of `ndim` axes does not have."""
    return array if ndim == 4 else array[(0,) * (4 - ndim)]


def numpy_of(array: Array) -> Any:
    """As a NumPy array."""
    if not is_tensor(array):
        return np.asarray(array)
    array = array.detach().cpu()
    return (array.float() if str(array.dtype) == "torch.bfloat16" else array).numpy()


def wide_type(array: Array) -> Any:
    """The dtype of statistics and weights: at least float32."""
    return array.dtype if array.dtype.itemsize > 2 else library(array).float32


def wide(array: Array) -> Array:
    """Cast to at least float32."""
    return cast(array, wide_type(array))


def cast(array: Array, dtype: Any) -> Array:
    """Cast to a dtype, without a copy if the array has it."""
    if array.dtype == dtype:
        return array
    return array.to(dtype) if is_tensor(array) else array.astype(dtype)


def indicator(chosen: Any, count: int, like: Array) -> Array:
    """A vector of zeros with ones at the chosen indices, with dtype and device of `like`."""
    row = np.zeros(count)
    row[chosen] = 1
    if is_tensor(like):
        return sys.modules["torch"].as_tensor(row, dtype=like.dtype, device=like.device)
    return row.astype(like.dtype)


def empty_weights(shape: tuple[int, ...], like: Array) -> Array:
    """Zeros in the dtype of weights."""
    return like.new_zeros(shape, dtype=wide_type(like)) if is_tensor(like) else np.zeros(shape, wide_type(like))


def uninitialised(shape: tuple[int, ...], like: Array) -> Array:
    """An uninitialised array with dtype and device of `like`."""
    return like.new_empty(shape) if is_tensor(like) else np.empty(shape, like.dtype)


def write_uncounted(buffer: Array, start: int, new: Array) -> None:
    """Write after the used part of a buffer, without incrementing the version counter of its views."""
    buffer = buffer.data if is_tensor(buffer) else buffer  # `.data` is not counted: a backward pass may need the views
    buffer[..., start : start + new.shape[-2], :] = new


def needs_gradient(array: Array) -> bool:
    """Whether autograd records operations on this array."""
    return is_tensor(array) and array.requires_grad and sys.modules["torch"].is_grad_enabled()


def copied(thing: Any) -> Any:
    """A copy of an array; anything else unchanged."""
    if isinstance(thing, np.ndarray):
        return thing.copy()
    return thing.clone() if is_tensor(thing) else thing


def chunks(count: int, step: int) -> Iterator[slice]:
    """Slices of at most `step` of `count` elements, in order.

    >>> list(chunks(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def gram_lengths(vectors: Array, gram: Array) -> Array:
    """√(x G xᵀ) of vectors along the last axis: their lengths after a map W with W Wᵀ = G.

    >>> gram_lengths(np.array([[3.0, 4.0]]), np.eye(2))
    array([5.])
    """
    squares = np.einsum("...s,...s->...", vectors @ gram, vectors)
    return np.asarray(np.sqrt(np.maximum(squares, 0)))


def unit_length(vectors: Array) -> Array:
    """Vectors normalised to length 1 along the last axis; a zero vector stays zero, with zero gradient.

    (`torch.nn.functional.normalize` divides by max(length, 1e-12): zero vectors get gradients of 1e12, and shorter
    vectors do not get length 1.)

    >>> unit_length(np.array([[3e-200, 4e-200], [0, 0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    if is_tensor(vectors):
        torch = sys.modules["torch"]
        wide = torch.float32 if vectors.device.type == "mps" else torch.float64  # holds squares of float32
        if vectors.dtype == wide:
            largest = vectors.detach().abs().amax(-1, keepdim=True)  # constant: cancels out
            vectors = vectors / torch.where((largest > 0) & (largest < math.inf), largest, 1)
        length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True, dtype=wide).to(vectors.dtype)
        return vectors / torch.where(length == 0, math.inf, length)
    with np.errstate(all="ignore"):  # inf / inf is NaN for this vector's scores
        wide_vectors = vectors.astype(np.float64)
        largest = np.abs(wide_vectors).max(axis=-1, keepdims=True, initial=0)
        wide_vectors = wide_vectors / np.where((largest > 0) & (largest < np.inf), largest, 1)
        length = np.sqrt(np.square(wide_vectors).sum(axis=-1, keepdims=True))
        return (wide_vectors / np.where(length == 0, np.inf, length)).astype(vectors.dtype)


# Fingerprints

_BITS = {1: np.dtype(bool), 2: np.dtype(np.uint16), 4: np.dtype(np.float32), 8: np.dtype(np.float64)}  # by item size


def fingerprint(array: Array) -> int | None:
    """A hash of the content of an array, which changes with any of its numbers; None for unsupported dtypes.

    Reads the array once at memory speed: 8 GB/s on one Zen 4 core, 0.06 ms for 2,048 keys of head_dim 64. PyTorch's
    version counter would be free, and misses changes made through NumPy or `.data`.
    """
    if is_tensor(array):
        if not array.is_cpu:
            return _device_fingerprint(array)
        array = array.detach().resolve_conj().resolve_neg()
        array = (array.view(sys.modules["torch"].int16) if str(array.dtype) == "torch.bfloat16" else array).numpy()
    kind = _BITS.get(array.dtype.itemsize)
    if kind is None or array.dtype.kind == "O":
        return None
    once = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in array.strides)  # axes of stride 0 once
    array = np.asarray(array)[once]
    if not array.flags.aligned or array.dtype.kind not in "biuf" or (array.ndim and array.strides[-1] % array.itemsize):
        array = np.array(array)
    array = array.view(kind)
    hashed = _native_fingerprint()
    if hashed is None:
        return int.from_bytes(hashlib.blake2b(np.ascontiguousarray(array).data, digest_size=8).digest(), "little")
    return int(hashed(array.reshape(-1, *array.shape[-3:]) if array.ndim > 4 else array)) if array.size else 0


@cache
def _native_fingerprint() -> Any:
    try:
        from regard._core import fingerprint
    except ImportError:
        return None
    return fingerprint


def _device_fingerprint(array: Array) -> int | None:
    """The same for a tensor on another device: Σ bits · weight in int64, with an odd weight per position."""
    if array.is_meta:
        return None
    torch = sys.modules["torch"]
    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    bits = array.detach().resolve_conj().resolve_neg().contiguous().flatten().view(kinds[array.dtype.itemsize])
    total = 0
    for start in range(0, bits.numel(), 1 << 22):
        part = bits[start : start + (1 << 22)].to(torch.int64)
        positions = torch.arange(start, start + part.numel(), device=bits.device) * 0x2545F4914F6CDD1D
        positions = ((positions ^ (positions >> 29)) * 0x369DEA0F31A53F85) | 1
        total = (total * 31 + int((part * positions).sum())) & (2**64 - 1)
    return total

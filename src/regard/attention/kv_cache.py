"""`Cache`, the KV cache for decoding: the keys and values of all tokens so far."""

from __future__ import annotations

from typing import Any

from regard import arrays, errors
from regard.arrays import Array
from regard.attention import arguments
from regard.attention.attention import Attention


class Cache:
    """A KV cache for decoding: keys and values of all tokens so far; appending a token costs amortised O(1).

    Appending never writes to keys or values that an earlier attention refers to.

    >>> import numpy as np
    >>> cache = Cache()
    >>> for token in range(3):
    ...     cache.append(np.ones((1, 8)), np.full((1, 4), token))
    >>> (cache.attention(np.ones((1, 8))) @ cache.values).tolist()
    [[1.0, 1.0, 1.0, 1.0]]
    >>> cache.keys.shape
    (3, 8)
    """

    def __init__(self) -> None:
        self._keys: Array | None = None  # allocated beyond the last key
        self._values: Array | None = None
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        capacity = 0 if self._keys is None else self._keys.shape[-2]
        return f"Cache({self._count} keys, capacity {capacity})"

    @property
    def keys(self) -> Array:
        """All keys so far, (..., key, head_dim); a view."""
        return self._filled(self._keys)

    @property
    def values(self) -> Array:
        """All values so far, (..., key, value_dim); a view."""
        return self._filled(self._values)

    def append(self, keys: Any, values: Any) -> None:
        """Append the keys (..., key, head_dim) and values (..., key, value_dim) of one or more tokens."""
        keys = arrays.floats("keys", keys, self._keys)
        values = arrays.floats("values", values, keys)
        if not 2 <= keys.ndim <= 4:
            raise errors.wrong_dimensions("keys", keys)
        if values.ndim != keys.ndim:
            raise errors.wrong_dimensions("values", values)
        arguments.same_kind(keys=keys, values=values)
        if keys.shape[-2] != values.shape[-2]:
            raise arguments.values_count_differs(keys, values)
        if tuple(keys.shape[:-2]) != tuple(values.shape[:-2]):
            raise arguments.values_do_not_fit(keys, values)
        count = self._count + keys.shape[-2]
        # Both are built before either is stored: an error leaves the cache unchanged.
        grown = _appended(self._keys, keys, self._count, count), _appended(self._values, values, self._count, count)
        self._keys, self._values = grown
        self._count = count

    def attention(self, queries: Any, *, offset: Any = None, **options: Any) -> Attention:
        """The attention of the newest queries over all keys; by default the last query is at the last key's position.

        `options` are those of `Attention`.
        """
        queries = arrays.floats("queries", queries, self._keys)
        if offset is None and queries.ndim > 1:
            offset = self._count - queries.shape[-2]
        return Attention(queries, self.keys, offset=offset, **options)

    def _filled(self, buffer: Array | None) -> Array:
        if buffer is None:
            raise errors.option("cache", self, "at least one key", "Append keys and values first.")
        return buffer[..., : self._count, :]


def _appended(buffer: Array | None, new: Array, used: int, count: int) -> Array:
    """The buffer with `new` written after its first `used` keys; a buffer of twice the length if it is full."""
    if arrays.needs_gradient(new):
        raise errors.unsupported(
            "A cache of tensors that require gradients", "Append tensor.detach(), or decode under torch.no_grad()."
        )
    if buffer is not None:
        arguments.same_kind(cache=buffer, new=new)
        if (*buffer.shape[:-2], buffer.shape[-1]) != (*new.shape[:-2], new.shape[-1]):
            expected = (*buffer.shape[:-2], new.shape[-2], buffer.shape[-1])
            raise errors.option(
                "keys or values", tuple(new.shape), f"the shape {expected}, that of the keys and values in the cache"
            )
    if buffer is None or count > buffer.shape[-2]:
        larger = arrays.uninitialised((*new.shape[:-2], max(2 * used, count), new.shape[-1]), new)
        if buffer is not None:
            larger[..., :used, :] = buffer[..., :used, :]
        buffer = larger
    arrays.write_uncounted(buffer, used, new)
    return buffer

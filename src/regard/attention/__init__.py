"""The attention matrix as an object that is never built: the package of `Attention`.

attention.py       Attention itself
views.py           its earlier stages, its transpose, results with several parts
arguments.py       checks and conversions of its arguments
scores.py          from there to the `Scores` that engines take
row_statistics.py  statistics of rows, kept until an array changes
index.py           the part of the matrix that an index names
selection.py       some sequences and heads
pooled.py          the matrix pooled into cells
kv_cache.py        more keys, for decoding
"""

import sys
from types import ModuleType
from typing import Any, NoReturn

from regard import errors
from regard.attention.attention import Attention
from regard.attention.kv_cache import Cache
from regard.attention.pooled import PooledMap
from regard.attention.views import Attended, Stage, Top, Transposed

__all__ = ["Attended", "Attention", "Cache", "PooledMap", "Stage", "Top", "Transposed"]


class _Package(ModuleType):
    """Calling the package by mistake, `regard.attention(q, k)`, raises an error that names `regard.Attention`."""

    def __call__(self, *arguments: Any, **options: Any) -> NoReturn:
        raise errors.TypeProblem(
            "`regard.attention` is a package; the attention matrix is `regard.Attention`.\n"
            "Write regard.Attention(queries, keys); its outputs are regard.Attention(queries, keys) @ values."
        )


sys.modules[__name__].__class__ = _Package

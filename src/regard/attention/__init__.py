"""The attention matrix as an object that is never built: the package of `Attention`.

attention.py       Attention itself, its lazy views and its results with several parts
arguments.py       checks and conversions of its arguments
index.py           the part of the matrix that an index names
row_statistics.py  statistics of rows, cached until an array changes
pooled.py          the matrix pooled into cells
kv_cache.py        keys and values of all tokens so far, for decoding

`Attention.scores` is the value that engines compute from (`engines.interface.Scores`). The index, the statistics and
the pooled map take it and know nothing of `Attention`.
"""

import sys
from types import ModuleType
from typing import Any, NoReturn

from regard import errors
from regard.attention.attention import Attended, Attention, Stage, Top, Transposed
from regard.attention.kv_cache import Cache
from regard.attention.pooled import PooledMap

__all__ = ["Attended", "Attention", "Cache", "PooledMap", "Stage", "Top", "Transposed"]


class _Package(ModuleType):
    """Calling the package by mistake, `regard.attention(q, k)`, raises an error that names `regard.Attention`."""

    def __call__(self, *arguments: Any, **options: Any) -> NoReturn:
        raise errors.TypeProblem(
            "`regard.attention` is a package; the attention matrix is `regard.Attention`.\n"
            "Write regard.Attention(queries, keys); its outputs are regard.Attention(queries, keys) @ values."
        )


sys.modules[__name__].__class__ = _Package

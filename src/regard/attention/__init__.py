"""The attention matrix as an object that is never built.

matrix.py       Attention itself
views.py        its earlier stages, its transpose, results with several parts
checking.py     what it was given, converted or refused
scoring.py      from there to the `Scores` that engines take
remembering.py  row statistics, kept, and given up when an array changes
indexing.py     an index, read as NumPy reads it
looking.py      the part of the matrix that an index names
selecting.py    some sequences and heads
pooling.py      a picture of the whole
growing.py      more keys, for decoding
"""

import sys
from types import ModuleType
from typing import Any, NoReturn

from regard import errors
from regard.attention.growing import Cache
from regard.attention.matrix import Attention
from regard.attention.pooling import PooledMap
from regard.attention.views import Attended, Stage, Top, Transposed

__all__ = ["Attended", "Attention", "Cache", "PooledMap", "Stage", "Top", "Transposed"]


class _Package(ModuleType):
    """So that `regard.attention(q, k)`, one letter from `regard.Attention(q, k)`, gets an answer."""

    def __call__(self, *arguments: Any, **options: Any) -> NoReturn:
        raise errors.TypeProblem(
            "`regard.attention` is a package; the attention matrix is `regard.Attention`.\n"
            "Write regard.Attention(queries, keys); its outputs are regard.Attention(queries, keys) @ values."
        )


sys.modules[__name__].__class__ = _Package

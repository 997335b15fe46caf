"""Regard: compute attention, and see it. The attention matrix is an object that is used like a matrix and never built.

>>> import numpy as np
>>> import regard
>>> queries, keys, values = np.random.default_rng(0).normal(size=(3, 2, 8, 100, 64))  # batch, head, token, head_dim
>>> A = regard.Attention(queries, keys, mask=regard.causal())
>>> A
Attention(batch 2, head 8, query 100, key 100; head_dim 64, float64, mask=causal())
>>> (A @ values).shape, A[0, 3, 7].shape, A.entropy().shape
((2, 8, 100, 64), (100,), (2, 8, 100))
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard import errors, layers, masks
    from regard.attention import Attended, Attention, Cache, PooledMap, Stage, Top
    from regard.biases import alibi, relative_positions
    from regard.engines.select import engine
    from regard.masks import Mask, causal, lengths, window
    from regard.models.model import Model, model
    from regard.reading import Reading
    from regard.tables import Table
    from regard.teaching.hand_check import check_notes
    from regard.teaching.lookup import lookup, lookup_lesson
    from regard.teaching.scaled_scores import scaling_lesson
    from regard.trace import Trace
    from regard.watch.session import watch as watch

__all__ = [
    "Attended",
    "Attention",
    "Cache",
    "Mask",
    "Model",
    "PooledMap",
    "Reading",
    "Stage",
    "Table",
    "Top",
    "Trace",
    "alibi",
    "causal",
    "check_notes",
    "engine",
    "errors",
    "layers",
    "lengths",
    "lookup",
    "lookup_lesson",
    "masks",
    "model",
    "relative_positions",
    "scaling_lesson",
    "window",
]

# Each name's home, loaded when the name is first used: who needs a mask should not wait for the rest.
_HOMES = {
    "regard.attention": ("Attended", "Attention", "Cache", "PooledMap", "Stage", "Top"),
    "regard.biases": ("alibi", "relative_positions"),
    "regard.teaching.hand_check": ("check_notes",),
    "regard.engines.select": ("engine",),
    "regard.masks": ("Mask", "causal", "lengths", "window"),
    "regard.models.model": ("Model", "model"),
    "regard.reading": ("Reading",),
    "regard.teaching.scaled_scores": ("scaling_lesson",),
    "regard.teaching.lookup": ("lookup", "lookup_lesson"),
    "regard.tables": ("Table",),
    "regard.trace": ("Trace",),
}
_MODULES = ("attention", "errors", "examples", "heads", "layers", "masks", "output", "training", "watch")
_OTHER_MASKS = ("allowed", "chunks", "documents", "first", "prefix", "where")
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"regard.{name}")
    if name not in _HOME_OF:
        fix = f": it is regard.masks.{name}" if name in _OTHER_MASKS else ""
        raise AttributeError(f"module 'regard' has no attribute {name!r}{fix}")
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

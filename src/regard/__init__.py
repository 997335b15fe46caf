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

from typing import TYPE_CHECKING

from regard.lazy_names import lazy_names
from regard.version import VERSION

if TYPE_CHECKING:
    from regard import attention as attention
    from regard import attribution as attribution
    from regard import biases as biases
    from regard import edits as edits
    from regard import engines as engines
    from regard import errors, layers, masks
    from regard import examples as examples
    from regard import heads as heads
    from regard import output as output
    from regard import reading as reading
    from regard import slides as slides
    from regard import tables as tables
    from regard import teaching as teaching
    from regard import training as training
    from regard import transformers as transformers
    from regard.attention import Attention, Cache
    from regard.masks import Mask, causal, padding, window
    from regard.models.model import Model, model
    from regard.reading import Reading
    from regard.trace import Trace
    from regard.watch.session import watch as watch

__version__ = VERSION
__all__ = [
    "Attention", "Cache", "Mask", "Model", "Reading", "Trace",
    "causal", "errors", "layers", "masks", "model", "padding", "window",
]  # fmt: skip

_HOMES = {
    "attention": ("Attention", "Cache"), "masks": ("Mask", "causal", "padding", "window"),
    "models.model": ("Model", "model"), "reading": ("Reading",), "trace": ("Trace",),
}  # fmt: skip
_PACKAGES = (
    "attention", "attribution", "biases", "edits", "engines", "errors", "examples", "heads", "layers", "masks",
    "output", "reading", "slides", "tables", "teaching", "training", "transformers", "watch",
)  # fmt: skip
_ELSEWHERE = {
    name: f"regard.{home}.{name}"
    for home, names in {
        "masks": ("allowed", "chunks", "documents", "first", "prefix", "where"),
        "biases": ("alibi", "relative_positions"),
        "engines": ("engine",),
        "attention": ("Attended", "PooledMap", "Stage", "Top"),
        "tables": ("Table",),
        "teaching": ("check_notes", "lookup_lesson", "scaling_lesson"),
        "teaching.lookup": ("lookup",),
    }.items()
    for name in names
} | {"lengths": "regard.padding"}

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _HOMES, _PACKAGES, _ELSEWHERE)
